//! What state and traffic strangers can cause at a server over UDP.

mod udp_ends;
#[expect(dead_code, reason = "shared with the other tests over UDP")]
mod udp_relay;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroU32;
use std::time::Duration as Time;

use spindle_mptcp::StackConfig;
use spindle_net::udp::{UdpClient, UdpClientOptions, UdpServer, UdpServerOptions};
use spindle_net::{Arrival, FIRST_KEY, Link, Network, TcpStream};
use spindle_units::{Duration, Instant};
use spindle_wire::{
    Ecn, EncapsulationHeader, EncapsulationKind, Endpoint, Flags, Packet, Payload, Segment,
    SeqNumber,
};
use udp_ends::{
    PORT, carry, client, config, connected, datagram, in_time, pattern, server, server_of,
    server_with,
};
use udp_relay::Relay;

/// Type of a challenge, and of the reply to one (`docs/wire/encapsulation.md`).
const CHALLENGE: u8 = 1;
const CHALLENGE_REPLY: u8 = 2;

/// Sends a segment of no connection for each of `ids`, and echoes every challenge that comes back.
fn prove_ids(from: &str, outer: SocketAddr, ids: std::ops::Range<u64>) {
    const AT_ONCE: u64 = 64;
    let socket = UdpSocket::bind((from, 0)).expect("a socket");
    socket
        .set_read_timeout(Some(Time::from_millis(2)))
        .expect("a time limit");
    let mut answer = [0; 2000];
    for first in ids.step_by(AT_ONCE as usize) {
        for id in first..first + AT_ONCE {
            let stray = datagram(id << 20, 1 + id as u16 % 60_000, Flags::ACK, 0);
            // Datagrams that the system does not accept do not matter here.
            let _ = socket.send_to(&stray, outer);
        }
        for _ in 0..AT_ONCE {
            let Ok(n) = socket.recv(&mut answer) else {
                break;
            };
            if answer[1] == CHALLENGE {
                answer[1] = CHALLENGE_REPLY;
                let _ = socket.send_to(&answer[..n], outer);
            }
        }
    }
}

#[tokio::test]
async fn challenge_replies_without_connections_block_neither_new_clients_nor_rebindings() {
    in_time(async {
        let (net, mut listener, outer) = server("tcp").await;
        let relay = Relay::start(outer);
        let live = client(relay.addr());
        let (mut a, mut b) = connected(&live, &mut listener, "tcp").await;
        carry(&mut a, &mut b, &pattern(100_000)).await;
        let flood = tokio::task::spawn_blocking(move || {
            prove_ids("127.0.0.1", outer, 1..60_000);
            for host in 2..40_u64 {
                let first = host * 100_000;
                prove_ids(&format!("127.0.0.{host}"), outer, first..first + 200);
            }
        });
        flood.await.expect("the flood");
        let newcomer = client(outer);
        let (mut c, mut d) = connected(&newcomer, &mut listener, "tcp").await;
        carry(&mut c, &mut d, &pattern(100_000)).await;
        let before = net.connections().await.expect("the list")[0].outside;
        relay.rebind();
        carry(&mut a, &mut b, &pattern(100_000)).await;
        carry(&mut b, &mut a, &pattern(100_000)).await;
        let after = net.connections().await.expect("the list")[0].outside;
        assert_ne!(before, after);
    })
    .await;
}

/// If SYNs are answered with cookies, the id is removed at once, and added again with the connection.
#[tokio::test]
async fn a_connection_from_a_cookie_proves_its_address_by_a_challenge() {
    in_time(async {
        let stack = StackConfig {
            max_half_open: 0,
            ..StackConfig::default()
        };
        let (net, mut listener, outer) = server_of("tcp", stack).await;
        let client = client(outer);
        let (mut a, mut b) = connected(&client, &mut listener, "tcp").await;
        carry(&mut b, &mut a, &pattern(300_000)).await;
        carry(&mut a, &mut b, &pattern(300_000)).await;
        let counters = net.counters().await.expect("counters");
        assert_eq!(counters.stack.cookies.accepted, 1);
    })
    .await;
}

/// A server's link without a stack, and one stranger.
struct Rig {
    link: UdpServer,
    now: Instant,
    stranger: UdpSocket,
    bytes_in: usize,
    bytes_out: usize,
}

impl Rig {
    fn new() -> Self {
        let options = UdpServerOptions::new(vec!["127.0.0.1:0".parse().expect("an address")]);
        let link = UdpServer::bind(options).expect("a socket");
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let outer = link.local_addrs().expect("its address")[0];
        stranger.connect(outer).expect("a local address");
        stranger.set_nonblocking(true).expect("a mode");
        Self {
            link,
            now: Instant::ZERO + Duration::from_secs(100),
            stranger,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    fn say(&mut self, datagram: &[u8]) {
        self.bytes_in += self.stranger.send(datagram).expect("room");
    }

    fn ids(&self) -> u64 {
        self.link.udp().expect("it is over UDP").ids
    }

    fn message(&mut self, id: u64, kind: EncapsulationKind, size: usize) {
        let mut bytes = Vec::new();
        EncapsulationHeader { id, kind }.encode(&mut bytes);
        bytes.resize(size.max(bytes.len()), 0);
        self.say(&bytes);
    }

    /// A turn of a data path whose stack sends `answers`, and which has subflows or not.
    fn turn(&mut self, answers: &[Segment], has_subflow: bool) -> Vec<Segment> {
        let mut came = Vec::new();
        let mut sink = |arrival| {
            if let Arrival::Packet(Packet::Tcp(s)) = arrival {
                came.push(s);
            }
        };
        let (link, now) = (&mut self.link, self.now);
        for _ in 0..100 {
            link.receive(now, FIRST_KEY, &mut sink).expect("a socket");
        }
        link.timeout(now, &mut sink);
        for s in answers {
            link.send(now, s.clone().into());
        }
        link.flush(now).expect("a socket");
        link.reconcile(now, &|_, _| has_subflow);
        let mut buffer = [0; 2000];
        while let Ok(n) = self.stranger.recv(&mut buffer) {
            self.bytes_out += n;
        }
        came
    }
}

/// Loopback addresses of two hosts.
const ONE: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

/// A connection from this address, if the server accepts it.
async fn reaches(client: &Network, from: [u8; 4]) -> Option<TcpStream> {
    let to = SocketAddr::from((ONE, PORT));
    client.connect(from.into(), to, config("tcp")).await.ok()
}

/// A source is an outer address, however many ids it uses.
#[tokio::test]
async fn one_outer_address_does_not_take_all_connections() {
    in_time(async {
        let stack = StackConfig {
            max_connections: 8,
            ..StackConfig::default()
        };
        let (net, mut listener, outer) = server_of("tcp", stack).await;
        let client = client(outer);
        let mut open = Vec::new();
        for _ in 0..4 {
            let stream = reaches(&client, ONE).await.expect("half of all");
            open.push((stream, listener.accept().await.expect("a connection")));
        }
        for _ in 0..4 {
            assert!(reaches(&client, ONE).await.is_none());
        }
        for _ in 0..2 {
            let stream = reaches(&client, OTHER).await.expect("its share");
            open.push((stream, listener.accept().await.expect("a connection")));
        }
        let counters = net.counters().await.expect("counters");
        assert_eq!(counters.stack.refused.source, 4);
    })
    .await;
}

/// A client without a stack, which sends from one address and reads there.
struct Raw(UdpSocket);

impl Raw {
    fn new(from: [u8; 4], server: SocketAddr) -> Self {
        let socket = UdpSocket::bind(SocketAddr::from((from, 0))).expect("a socket");
        socket.connect(server).expect("a local address");
        let limit = Some(Time::from_secs(10));
        socket.set_read_timeout(limit).expect("a time limit");
        Self(socket)
    }

    fn addr(&self) -> SocketAddr {
        self.0.local_addr().expect("its address")
    }

    fn segment(&self, id: u64, flags: Flags, numbers: (u32, u32)) {
        let at = |port| Endpoint::new(IpAddr::from(ONE), port);
        let mut s = Segment::new(at(9), at(PORT));
        (s.flags, s.window) = (flags, 60_000);
        (s.seq, s.ack) = (SeqNumber(numbers.0), SeqNumber(numbers.1));
        let mut bytes = Vec::new();
        s.encapsulate(id, &mut bytes).expect("it fits");
        self.0.send(&bytes).expect("room");
    }

    /// Sends a SYN. Returns the number that acknowledges the SYN of the answer.
    fn syn(&self, id: u64) -> u32 {
        self.segment(id, Flags::SYN, (100, 0));
        self.next(id).expect("an answer").seq.0.wrapping_add(1)
    }

    /// Acknowledges a SYN.
    fn third(&self, id: u64, ack: u32) {
        self.segment(id, Flags::ACK, (101, ack));
    }

    /// Whether the next answer is a reset.
    fn is_reset(&self, id: u64) -> bool {
        self.next(id).is_some_and(|s| s.flags.contains(Flags::RST))
    }

    fn next(&self, of: u64) -> Option<Segment> {
        let mut buffer = [0; 2000];
        loop {
            let n = self.0.recv(&mut buffer).ok()?;
            let datagram = bytes::Bytes::copy_from_slice(&buffer[..n]);
            let header = EncapsulationHeader::parse(&datagram).expect("the format");
            if header.id == of && matches!(header.kind, EncapsulationKind::Data(_)) {
                let ends = (IpAddr::from(ONE), IpAddr::from(ONE));
                let packet = Packet::decapsulate(ends, Ecn::NotEct, &datagram);
                return packet.ok()?.into_tcp();
            }
        }
    }
}

/// SYNs of one outer address beyond its share get cookies. Those of another address are stored.
#[tokio::test]
async fn one_outer_address_does_not_take_all_half_open_connections() {
    let stack = StackConfig {
        max_half_open: 8,
        ..StackConfig::default()
    };
    let (net, _listener, outer) = server_of("tcp", stack).await;
    let raw = Raw::new(ONE, outer);
    for id in 1..=10 {
        raw.syn(id);
    }
    let cookies = async || net.counters().await.expect("counters").stack.cookies.sent;
    assert_eq!(cookies().await, 6);
    let other = Raw::new(OTHER, outer);
    for id in 21..=24 {
        other.syn(id);
    }
    let cookies = async || net.counters().await.expect("counters").stack.cookies.sent;
    // The other address's share is a quarter, since the first address has half of the limit.
    assert_eq!(cookies().await, 6 + 2);
}

/// The client that got the cookie first acknowledges it from another address.
#[tokio::test]
async fn a_cookie_is_valid_only_from_the_outer_address_that_it_was_sent_to() {
    let stack = StackConfig {
        max_half_open: 0,
        ..StackConfig::default()
    };
    let (net, mut listener, outer) = server_of("tcp", stack).await;
    let (one, other) = (Raw::new(ONE, outer), Raw::new(OTHER, outer));
    let ack = one.syn(7);
    other.third(7, ack);
    assert!(other.is_reset(7), "it belongs to no connection");
    assert_eq!(net.connections().await.expect("the list").len(), 0);
    one.third(7, ack);
    let (stream, _) = in_time(listener.accept()).await.expect("a connection");
    assert_eq!(stream.outside_addr(), one.addr());
}

/// The id of a half-open connection has made room for another id.
#[tokio::test]
async fn a_handshake_whose_id_was_evicted_is_completed_from_its_first_address() {
    let mut options = UdpServerOptions::new(vec!["127.0.0.1:0".parse().expect("an address")]);
    options.max_half_open_per_source = 1;
    let (net, mut listener, outer) = server_with("tcp", StackConfig::default(), options).await;
    let (one, other) = (Raw::new(ONE, outer), Raw::new(OTHER, outer));
    let ack = one.syn(7);
    one.syn(8);
    let evicted = net.counters().await.expect("counters").udp;
    assert_eq!(evicted.expect("it is over UDP").evicted, 1);
    other.third(7, ack);
    assert!(other.is_reset(7), "it belongs to no connection");
    assert_eq!(net.connections().await.expect("the list").len(), 0);
    one.third(7, ack);
    let (stream, _) = in_time(listener.accept()).await.expect("a connection");
    assert_eq!(stream.outside_addr(), one.addr());
}

#[test]
fn a_segment_from_another_address_is_dropped_until_the_first_one_is_proven() {
    let mut rig = Rig::new();
    rig.say(&datagram(7, 5, Flags::SYN, 0));
    assert_eq!(rig.turn(&[], true).len(), 1);
    let outer = rig.link.local_addrs().expect("its address")[0];
    let other = UdpSocket::bind(SocketAddr::from((OTHER, 0))).expect("a socket");
    other
        .send_to(&datagram(7, 5, Flags::ACK, 0), outer)
        .expect("room");
    assert_eq!(rig.turn(&[], true).len(), 0);
    assert_eq!(rig.link.udp().expect("it is over UDP").challenges, 1);
    rig.say(&datagram(7, 5, Flags::ACK, 0));
    assert_eq!(rig.turn(&[], true).len(), 1);
}

/// The segment that acknowledges the SYN/ACK may be lost, or be inside a coded packet. The server then sees only
/// segments that acknowledge more.
#[test]
fn an_address_whose_handshake_no_segment_completes_is_challenged() {
    let mut rig = Rig::new();
    rig.say(&datagram(7, 5, Flags::SYN, 0));
    let syn = rig.turn(&[], true).pop().expect("the SYN");
    let mut answer = Segment::new(syn.dst, syn.src);
    (answer.flags, answer.seq) = (Flags(Flags::SYN.0 | Flags::ACK.0), SeqNumber(1));
    rig.turn(std::slice::from_ref(&answer), true);
    // The link challenged the address while it knew of no SYN to acknowledge.
    let before = rig.link.udp().expect("it is over UDP").challenges;
    let challenges = |rig: &Rig| rig.link.udp().expect("it is over UDP").challenges - before;
    rig.now += Duration::from_secs(1);
    rig.turn(&[], true);
    assert_eq!(challenges(&rig), 0);
    rig.say(&datagram(7, 5, Flags::ACK, 10));
    assert_eq!(rig.turn(&[], true).len(), 1);
    assert_eq!(challenges(&rig), 1);
    // Data that exceed what the address may get are a reason, too.
    rig.now += Duration::from_secs(1);
    (answer.flags, answer.payload) = (Flags::ACK, Payload::Length(1400));
    rig.turn(&[answer], true);
    assert_eq!(challenges(&rig), 2);
}

#[test]
fn an_unproven_address_gets_at_most_three_times_its_bytes_whatever_the_messages() {
    let mut rig = Rig::new();
    rig.say(&datagram(7, 5, Flags::SYN, 0));
    let syn = rig.turn(&[], true).pop().expect("the SYN");
    let mut answer = Segment::new(syn.dst, syn.src);
    (answer.flags, answer.seq) = (Flags(Flags::SYN.0 | Flags::ACK.0), SeqNumber(1));
    for round in 0..300 {
        rig.message(7, EncapsulationKind::Probe(round), 20);
        if round == 3 {
            rig.message(7, EncapsulationKind::Probe(round), 1472);
        }
        rig.now += Duration::from_secs(2);
        let answers = [answer.clone(), answer.clone(), answer.clone()];
        rig.turn(&answers, true);
        let (given, got) = (rig.bytes_in, rig.bytes_out);
        assert!(got <= 3 * given, "round {round}: {got} of {given} bytes");
    }
    assert!(rig.bytes_out > 2 * rig.bytes_in, "the budget is of use");
}

#[test]
fn an_id_is_removed_with_its_subflow() {
    let mut rig = Rig::new();
    rig.say(&datagram(7, 5, Flags::SYN, 0));
    rig.turn(&[], true);
    assert_eq!(rig.ids(), 1);
    rig.now += Duration::from_secs(1_000_000);
    rig.turn(&[], true);
    assert_eq!(rig.ids(), 1, "however idle");
    rig.now = rig.link.next_timeout().expect("another look");
    rig.turn(&[], false);
    assert_eq!(rig.ids(), 0);
    assert_eq!(rig.link.next_timeout(), None);
}

#[test]
fn segments_without_a_subflow_leave_no_id() {
    let mut rig = Rig::new();
    for id in 1..500 {
        let flags = if id % 2 == 0 { Flags::SYN } else { Flags::ACK };
        rig.say(&datagram(id, 5, flags, 0));
        assert_eq!(rig.turn(&[], false).len(), 1, "TCP receives it");
        assert_eq!(rig.ids(), 0);
    }
}

#[test]
fn another_subflow_cannot_use_a_known_id() {
    let mut rig = Rig::new();
    rig.say(&datagram(7, 5, Flags::SYN, 0));
    assert_eq!(rig.turn(&[], true).len(), 1);
    rig.say(&datagram(7, 6, Flags::SYN, 0));
    assert_eq!(rig.turn(&[], true).len(), 0);
    assert_eq!(rig.link.counters().dropped_in, 1);
}

#[test]
fn a_server_that_scatters_leaves_a_client_its_sockets_for_subflows() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let timeout = Some(Time::from_secs(10));
    server.set_read_timeout(timeout).expect("a time limit");
    let outer = server.local_addr().expect("its address");
    let mut options = UdpClientOptions::new(outer.port());
    options.max_sockets = 8;
    let mut link = UdpClient::new(options).expect("a link");
    let now = Instant::ZERO + Duration::from_secs(100);
    let here = IpAddr::from([127, 0, 0, 1]);
    for n in 0..4 {
        let mut syn = Segment::new(Endpoint::new(here, 1000 + n), Endpoint::new(here, 80));
        syn.flags = Flags::SYN;
        link.send(now, syn.clone().into());
        link.flush(now).expect("a socket");
        assert_eq!(link.udp().expect("it is over UDP").ids, u64::from(n) + 1);
        // Wait for the datagram of this subflow, and skip probes of others.
        let mut datagram = [0; 2000];
        let (id, from) = loop {
            let (len, from) = server.recv_from(&mut datagram).expect("the SYN");
            let header = EncapsulationHeader::parse(&datagram[..len]).expect("the format");
            if let EncapsulationKind::Data(_) = header.kind {
                break (header.id, from);
            }
        };
        let mut answer = Segment::new(syn.dst, syn.src);
        answer.flags = Flags::ACK;
        answer.options.token = NonZeroU32::new(7);
        let mut bytes = Vec::new();
        answer.encapsulate(id, &mut bytes).expect("it fits");
        server.send_to(&bytes, from).expect("room");
        let received = link.receive(now, FIRST_KEY + usize::from(n), &mut |_| ());
        received.expect("a socket");
    }
}
