//! The sockets of a server are handed over to another data path, with clients at all stages of their connections.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use spindle_mptcp::path_manager::FullMesh;
use spindle_mptcp::{Config, StackConfig, preset};
use spindle_net::handover::{Channel, Outcome, Predecessor, Step};
use spindle_net::limits::Limits;
use spindle_net::udp::{UdpServer, UdpServerOptions};
use spindle_net::{
    LinkKind, ListenOptions, LocalPath, Network, NetworkConfig, TcpListener, wire_config,
};
use spindle_wire::{Ecn, Endpoint, Flags, Packet, Segment, SeqNumber};
use tokio::io::AsyncReadExt;

#[expect(dead_code, reason = "shared with the other tests over UDP")]
mod udp_ends;

use udp_ends::{PORT, carry, client, config, connected, in_time, pattern, server, server_of};

const HERE: [u8; 4] = [127, 0, 0, 1];

async fn step(network: &Network, step: Step) -> Outcome {
    network.hand_over(step).await.expect("a step")
}

/// A server that waits to take over from `old`.
async fn successor(old: &Network, outer: SocketAddr, stack: StackConfig) -> (Network, TcpListener) {
    let descriptors = step(old, Step::Offer).await.descriptors;
    let options = UdpServerOptions::new(vec![outer]);
    let link = UdpServer::from_descriptors(options, descriptors).expect("the same address");
    let network = NetworkConfig {
        stack,
        name: "successor".to_owned(),
    };
    let network = Network::start(network, Box::new(link)).expect("a data path");
    let options = ListenOptions::new(config("spindle"));
    let listener = network
        .listen(UdpServer::listener_addr(PORT), options)
        .await
        .expect("a listener");
    (network, listener)
}

/// `new` takes over from `old`.
async fn take_over(old: &Network, new: &Network) {
    let (ours, theirs) = Channel::pair().expect("a channel");
    let half_open = step(old, Step::Leave(theirs)).await.half_open;
    let predecessor = Predecessor::new(ours, half_open);
    step(new, Step::Begin(predecessor)).await;
}

/// A server that has taken over from `old`.
async fn taken_over(old: &Network, outer: SocketAddr) -> (Network, TcpListener) {
    let (network, listener) = successor(old, outer, StackConfig::default()).await;
    take_over(old, &network).await;
    (network, listener)
}

async fn open(network: &Network) -> usize {
    network.connections().await.expect("a list").len()
}

#[tokio::test]
async fn open_connections_go_on_in_the_old_process_and_new_ones_in_the_last() {
    let (first, mut listener, outer) = server("spindle").await;
    let (client, data) = (client(outer), pattern(2_000_000));
    let (mut a, mut b) = in_time(connected(&client, &mut listener, "spindle")).await;
    let (second, mut listener) = taken_over(&first, outer).await;
    let (mut c, mut d) = in_time(connected(&client, &mut listener, "spindle")).await;
    // The connection of the first process passes through two others.
    let (third, mut listener) = taken_over(&second, outer).await;
    let (mut e, mut f) = in_time(connected(&client, &mut listener, "spindle")).await;
    for (x, y) in [(&mut a, &mut b), (&mut c, &mut d), (&mut e, &mut f)] {
        in_time(carry(x, y, &data)).await;
        in_time(carry(y, x, &data)).await;
    }
    for network in [&first, &second, &third] {
        assert_eq!(open(network).await, 1);
        assert!(!step(network, Step::End).await.ended);
    }
    let counters = third.counters().await.expect("counters");
    assert_eq!(counters.stack.unknown_segments, 0, "all were passed on");
}

#[tokio::test]
async fn old_process_ends_after_its_connections_and_the_new_one_then_answers_for_it() {
    let (old, mut listener, outer) = server("spindle").await;
    let client = client(outer);
    let (a, b) = in_time(connected(&client, &mut listener, "spindle")).await;
    let (new, _listener) = taken_over(&old, outer).await;
    let raw = Raw::new(outer, 7);
    drop((a, b));
    in_time(async {
        while !step(&old, Step::End).await.ended {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    raw.send(Flags::ACK, 1, 1);
    let reset = in_time(raw.receive()).await;
    assert!(reset.flags.contains(Flags::RST));
    let refused = |c: spindle_net::NetworkCounters| c.stack.unknown_segments;
    assert_eq!(refused(new.counters().await.expect("counters")), 1);
    old.shutdown().await;
}

fn several_paths() -> Arc<Config> {
    let preset = preset("spindle").expect("a preset").config;
    let paths = Arc::new(FullMesh);
    Arc::new(wire_config(
        preset,
        LinkKind::Udp,
        &Limits::default(),
        paths,
    ))
}

#[tokio::test]
async fn path_that_joins_during_draining_joins_the_connection_of_the_old_process() {
    let (old, mut listener, outer) = server("spindle").await;
    let client = client(outer);
    let path = |last| LocalPath {
        addr: IpAddr::from([127, 0, 0, last]),
        device: None,
        required: false,
        backup: false,
    };
    client.set_local_addresses(vec![path(1)]);
    let to = SocketAddr::new(HERE.into(), PORT);
    let opened = in_time(client.connect(HERE.into(), to, several_paths())).await;
    let mut a = opened.expect("a connection");
    let (mut b, _) = in_time(listener.accept()).await.expect("a connection");
    in_time(carry(&mut a, &mut b, &pattern(10_000))).await;
    let (new, _listener) = taken_over(&old, outer).await;
    client.set_local_addresses(vec![path(1), path(2)]);
    in_time(async {
        loop {
            let list = old.connections().await.expect("a list");
            if list[0].info.subflows.len() == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    in_time(carry(&mut a, &mut b, &pattern(1_000_000))).await;
    in_time(carry(&mut b, &mut a, &pattern(1_000_000))).await;
    // The first path disappears, so that only the one that joined is left.
    client.set_local_addresses(vec![path(2)]);
    in_time(carry(&mut a, &mut b, &pattern(1_000_000))).await;
    assert_eq!(open(&new).await, 0);
    let counters = new.counters().await.expect("counters");
    assert_eq!(counters.stack.joins.unknown, 0);
}

/// A client that writes its own segments.
struct Raw {
    socket: UdpSocket,
    id: u64,
}

impl Raw {
    fn new(outer: SocketAddr, id: u64) -> Self {
        let socket = UdpSocket::bind((IpAddr::from(HERE), 0)).expect("a socket");
        socket.connect(outer).expect("the address");
        socket.set_nonblocking(true).expect("an option");
        Self { socket, id }
    }

    fn send(&self, flags: Flags, seq: u32, ack: u32) {
        let at = |port| Endpoint::new(HERE.into(), port);
        let mut s = Segment::new(at(999), at(PORT));
        (s.flags, s.seq, s.ack) = (flags, SeqNumber(seq), SeqNumber(ack));
        let mut out = Vec::new();
        s.encapsulate(self.id, &mut out).expect("it can be written");
        self.socket.send(&out).expect("room");
    }

    /// The next segment. Messages are left out.
    async fn receive(&self) -> Segment {
        let mut buffer = [0; 2000];
        loop {
            if let Ok(n) = self.socket.recv(&mut buffer) {
                let bytes = Bytes::copy_from_slice(&buffer[..n]);
                let ends = (HERE.into(), HERE.into());
                if let Ok(Packet::Tcp(s)) = Packet::decapsulate(ends, Ecn::NotEct, &bytes) {
                    return s;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends a SYN. Returns the sequence number of the answer.
    async fn syn(&self) -> u32 {
        self.send(Flags::SYN, 100, 0);
        let answer = in_time(self.receive()).await;
        assert!(answer.flags.contains(Flags::SYN | Flags::ACK));
        answer.seq.0
    }
}

#[tokio::test]
async fn handshake_that_began_before_the_handover_is_completed_by_the_old_process() {
    let (old, mut listener, outer) = server("spindle").await;
    let raw = Raw::new(outer, 7);
    let first = raw.syn().await;
    let (new, mut new_listener) = taken_over(&old, outer).await;
    // The answer was lost, and the SYN is repeated.
    assert_eq!(raw.syn().await, first);
    raw.send(Flags::ACK, 101, first.wrapping_add(1));
    in_time(listener.accept()).await.expect("a connection");
    // A SYN with another id opens a connection of the new process.
    let other = Raw::new(outer, 8);
    let answer = other.syn().await;
    other.send(Flags::ACK, 101, answer.wrapping_add(1));
    in_time(new_listener.accept()).await.expect("a connection");
    assert_eq!((open(&old).await, open(&new).await), (1, 1));
}

#[tokio::test]
async fn handshake_that_began_before_two_handovers_is_completed_by_the_oldest_process() {
    let (first, mut listener, outer) = server("spindle").await;
    let raw = Raw::new(outer, 7);
    let answer = raw.syn().await;
    let (second, _unused) = taken_over(&first, outer).await;
    let (third, _unused) = taken_over(&second, outer).await;
    assert_eq!(raw.syn().await, answer, "another process has answered");
    raw.send(Flags::ACK, 101, answer.wrapping_add(1));
    in_time(listener.accept()).await.expect("a connection");
    assert_eq!((open(&second).await, open(&third).await), (0, 0));
}

#[tokio::test]
async fn each_process_takes_the_cookies_that_it_has_sent() {
    let small = || StackConfig {
        max_half_open: 1,
        ..StackConfig::default()
    };
    let (old, mut listener, outer) = server_of("spindle", small()).await;
    Raw::new(outer, 1).syn().await;
    let raw = Raw::new(outer, 7);
    let cookie = raw.syn().await;
    let (new, mut new_listener) = successor(&old, outer, small()).await;
    take_over(&old, &new).await;
    Raw::new(outer, 2).syn().await;
    let other = Raw::new(outer, 8);
    let new_cookie = other.syn().await;
    assert!(!step(&old, Step::End).await.ended, "a cookie may come back");
    raw.send(Flags::ACK, 101, cookie.wrapping_add(1));
    in_time(listener.accept()).await.expect("a connection");
    other.send(Flags::ACK, 101, new_cookie.wrapping_add(1));
    in_time(new_listener.accept()).await.expect("a connection");
    let sent = |c: spindle_net::NetworkCounters| (c.stack.cookies.sent, c.stack.cookies.accepted);
    for network in [&old, &new] {
        assert_eq!(sent(network.counters().await.expect("counters")), (1, 1));
    }
}

#[tokio::test]
async fn old_process_goes_on_when_its_successor_ends_before_or_after_the_handover() {
    let (old, mut listener, outer) = server("spindle").await;
    let (client, data) = (client(outer), pattern(300_000));
    let (mut a, mut b) = in_time(connected(&client, &mut listener, "spindle")).await;
    // It ends without having begun.
    let (new, _unused) = successor(&old, outer, StackConfig::default()).await;
    let (ours, theirs) = Channel::pair().expect("a channel");
    step(&old, Step::Leave(theirs)).await;
    drop(ours);
    new.shutdown().await;
    step(&old, Step::Return).await;
    in_time(carry(&mut a, &mut b, &data)).await;
    // It ends afterwards.
    let (new, mut new_listener) = taken_over(&old, outer).await;
    let (mut c, _d) = in_time(connected(&client, &mut new_listener, "spindle")).await;
    new.shutdown().await;
    step(&old, Step::Return).await;
    in_time(carry(&mut b, &mut a, &data)).await;
    let (mut e, mut f) = in_time(connected(&client, &mut listener, "spindle")).await;
    in_time(carry(&mut e, &mut f, &data)).await;
    // The connections of the process that has ended are reset.
    let mut byte = [0];
    assert!(in_time(c.read(&mut byte)).await.is_err());
}

#[tokio::test]
async fn process_does_not_begin_to_read_if_the_old_one_has_gone_on_meanwhile() {
    let (old, mut listener, outer) = server("spindle").await;
    let (client, data) = (client(outer), pattern(100_000));
    let (mut a, mut b) = in_time(connected(&client, &mut listener, "spindle")).await;
    let (new, _unused) = successor(&old, outer, StackConfig::default()).await;
    let (ours, theirs) = Channel::pair().expect("a channel");
    let half_open = step(&old, Step::Leave(theirs)).await.half_open;
    // The new process was held up, and the old one has given up waiting.
    step(&old, Step::Return).await;
    let predecessor = Predecessor::new(ours, half_open);
    let error = new.hand_over(Step::Begin(predecessor)).await;
    let error = error.expect_err("the old one reads").to_string();
    assert!(error.contains("reads the wire itself again"), "{error}");
    in_time(carry(&mut a, &mut b, &data)).await;
    let counters = new.counters().await.expect("counters");
    assert_eq!(counters.link.packets_in, 0);
}

#[tokio::test]
async fn other_addresses_and_other_descriptors_are_refused() {
    let (old, _listener, outer) = server("spindle").await;
    let more = vec![outer, "127.0.0.1:1".parse().expect("an address")];
    for (bind, why) in [(more, "127.0.0.1:1"), (Vec::new(), "listens on")] {
        let descriptors = step(&old, Step::Offer).await.descriptors;
        let link = UdpServer::from_descriptors(UdpServerOptions::new(bind), descriptors);
        let error = link.err().expect("other addresses").to_string();
        assert!(error.contains(why), "{error}");
    }
    let file = std::fs::File::open("/dev/null").expect("a file");
    let options = UdpServerOptions::new(vec![outer]);
    assert!(UdpServer::from_descriptors(options, vec![file.into()]).is_err());
    let unsupported = client(outer).hand_over(Step::Offer).await;
    assert!(unsupported.is_err());
}
