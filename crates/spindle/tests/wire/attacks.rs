//! Clients that try to use up the gateway's time or memory. Others are served meanwhile, and the process stays
//! within its memory limit.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use spindle_wire::{Checksums, Endpoint, Flags, IpFields, Segment, SeqNumber};
use tun_rs::SyncDevice;

use crate::link::device;
use crate::service::{connect, serve};
use crate::spindle::{Running, program};
use crate::two_hosts::{Hosts, StopOnDrop, on_path, run, within};

/// `--max-memory` of the gateways.
const MAX_MEMORY: u64 = 200_000_000;
/// Memory that the process may use beyond it.
const BEYOND: u64 = 64 << 20;
/// Bytes of a response to a harmless client.
const RESPONSE: u64 = 10_000;
/// A harmless client sends a request this often, each on a new connection.
const EVERY: Duration = Duration::from_millis(20);
/// Type of a challenge, and of the reply to one (`docs/wire/encapsulation.md`).
const CHALLENGE: u8 = 1;
const CHALLENGE_REPLY: u8 = 2;
/// The window scale that the attacker's SYN announces.
const SCALE: u8 = 14;
/// A shut window: the field is scaled, and this value is zero.
const SHUT: u16 = 0;
/// Sixteen megabytes.
const WIDE: u16 = 1024;

/// How long an attack lasts.
fn attack_time() -> Duration {
    Duration::from_secs(if crate::full() { 30 } else { 4 })
}

/// The longest time that a request of another client may take. At full size it is what a client would expect if
/// the machine runs only this test and the program is built for speed. A build with debug assertions checks all
/// outstanding segments after every event, so there the test only shows that all clients are served.
fn request_allowed() -> Duration {
    Duration::from_millis(if crate::full() { 50 } else { 20_000 })
}

/// Hosts of the attacker: every address of 10.66.0.0/16, on a device in the client's network.
struct Attacker {
    device: SyncDevice,
    buffer: Vec<u8>,
}

impl Attacker {
    fn new(hosts: &Hosts) -> Self {
        let device = hosts.at_client(|| device("attack"));
        hosts.client(
            "ip link set attack up; ip addr add 10.66.255.254/16 dev attack; \
             sysctl -qw net.ipv4.ip_forward=1",
        );
        run("ip route add 10.66.0.0/16 via 10.1.1.2");
        Self {
            device,
            buffer: vec![0; 65_536],
        }
    }

    fn send(&self, seg: &Segment) {
        let packet = seg.to_packet(&IpFields::default()).expect("it fits");
        // Packets that the device does not accept are lost, as on any network.
        let _ = self.device.send(&packet);
    }

    /// Passes the received segments to the peers.
    fn receive(&mut self, peers: &mut [Peer]) {
        while let Ok(len) = self.device.recv(&mut self.buffer) {
            let Ok(seg) = Segment::from_ip_slice(&self.buffer[..len], Checksums::Trust) else {
                continue;
            };
            if let Some(peer) = peers.iter_mut().find(|p| p.here == seg.dst) {
                peer.take(&seg);
            }
        }
    }

    /// Opens connections that request `size` bytes each from the service, and acknowledges what arrives in the
    /// first `turns` turns of 10 ms.
    fn pull(&mut self, count: u16, mss: u16, size: u64, turns: u32) -> Vec<Peer> {
        let mut peers: Vec<Peer> = (0..count).map(Peer::new).collect();
        peers.iter().for_each(|p| self.send(&p.syn(mss)));
        // A request before the SYN/ACK would acknowledge nothing, and be dropped.
        for _ in 0..200 {
            self.wait(&mut peers, 1);
            if peers.iter().all(|p| p.first != SeqNumber(0)) {
                break;
            }
        }
        for p in &mut peers {
            let ask = p.ask(size);
            self.send(&ask);
        }
        for _ in 0..turns {
            self.wait(&mut peers, 1);
            peers.iter().for_each(|p| self.send(&p.ack(WIDE)));
        }
        self.wait(&mut peers, 2);
        peers
    }

    fn wait(&mut self, peers: &mut [Peer], turns: u32) {
        for _ in 0..turns * 5 {
            std::thread::sleep(Duration::from_millis(2));
            self.receive(peers);
        }
    }
}

/// A TCP connection of the attacker.
struct Peer {
    here: Endpoint,
    next: SeqNumber,
    /// The first byte of the gateway's data, and the end of the received data.
    first: SeqNumber,
    end: SeqNumber,
}

impl Peer {
    /// The `n`-th peer. Each has its own address. The port differs each time the test creates a peer.
    fn new(n: u16) -> Self {
        let [high, low] = n.to_be_bytes();
        let addr = Ipv4Addr::new(10, 66, high + 1, low + 1);
        let clock = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let port = 1024 + (clock.map_or(0, |t| t.as_millis()) % 60_000) as u16;
        Self {
            here: Endpoint::new(addr.into(), port),
            next: SeqNumber(1),
            first: SeqNumber(0),
            end: SeqNumber(0),
        }
    }

    fn segment(&self, flags: Flags, window: u16) -> Segment {
        let gateway = Endpoint::new([10, 9, 0, 1].into(), 8080);
        let mut seg = Segment::new(self.here, gateway);
        (seg.seq, seg.ack) = (self.next, self.end);
        (seg.flags, seg.window) = (flags, window);
        seg
    }

    fn syn(&self, mss: u16) -> Segment {
        let mut seg = self.segment(Flags::SYN, 65_535);
        seg.seq = SeqNumber(0);
        let rare = seg.options.rare_mut();
        rare.mss = Some(mss);
        rare.window_scale = Some(SCALE);
        rare.sack_permitted = true;
        seg
    }

    fn take(&mut self, seg: &Segment) {
        let end = seg.seq + seg.seq_len();
        if seg.flags.contains(Flags::SYN) {
            (self.first, self.end) = (end, end);
        } else if self.end.before(end) {
            self.end = end;
        }
    }

    /// The request for a download of `size` bytes, which also acknowledges the SYN/ACK.
    fn ask(&mut self, size: u64) -> Segment {
        let mut seg = self.segment(Flags::ACK | Flags::PSH, WIDE);
        let mut request = vec![b'z'];
        request.extend_from_slice(&size.to_be_bytes());
        self.next = self.next + request.len() as u32;
        seg.payload = request.into();
        seg
    }

    fn ack(&self, window: u16) -> Segment {
        self.segment(Flags::ACK, window)
    }
}

/// What the other clients experienced.
struct Others {
    worst: Duration,
    served: u32,
    refused: u32,
}

/// Fetches from `to` for as long as `attack` runs.
fn others(hosts: &Hosts, from: IpAddr, to: SocketAddr, attack: impl FnOnce()) -> Others {
    let over = AtomicBool::new(false);
    let mut seen = Others {
        worst: Duration::ZERO,
        served: 0,
        refused: 0,
    };
    std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            hosts.at_client(|| {
                while !over.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    match request(from, to) {
                        Ok(()) => seen.served += 1,
                        Err(e) => {
                            eprintln!("refused: {e}");
                            seen.refused += 1;
                        }
                    }
                    let took = started.elapsed();
                    seen.worst = seen.worst.max(took);
                    std::thread::sleep(EVERY.saturating_sub(took));
                }
            });
        });
        // A failure in `attack` ends the clients, too.
        let stopping = StopOnDrop(&over);
        attack();
        drop(stopping);
        clients.join().expect("the other clients");
    });
    seen
}

/// One request on a new connection.
fn request(from: IpAddr, to: SocketAddr) -> std::io::Result<()> {
    let mut stream: TcpStream = connect(from, to, false);
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut head = vec![b'z'];
    head.extend_from_slice(&RESPONSE.to_be_bytes());
    stream.write_all(&head)?;
    let mut got = Vec::new();
    stream.read_to_end(&mut got)?;
    match got.len() as u64 {
        RESPONSE => Ok(()),
        n => Err(std::io::Error::other(format!("{n} bytes"))),
    }
}

/// A gateway over TUN, and its service.
fn tun_gateway() -> Running {
    serve("127.0.0.1:9000".parse().expect("an address"), false);
    let mut command = Command::new(program());
    command.args(["gateway", "--tun", "spin0", "--to", "127.0.0.1:9000"]);
    command.args(["--listen", "10.9.0.1:8080", "--max-memory", "200MB"]);
    Running::start(command, "gateway")
}

fn check(what: &str, gateway: &Running, seen: &Others) {
    let peak = gateway.peak_memory();
    eprintln!(
        "{what}: others' worst request {:.1?} of {}, {} refused, at most {} MB",
        seen.worst,
        seen.served,
        seen.refused,
        peak / 1_000_000
    );
    assert_eq!(seen.refused, 0, "{what}\n{}", gateway.log());
    assert!(seen.served > 0, "{what}: no request was served");
    assert!(seen.worst <= request_allowed(), "{what}: {:?}", seen.worst);
    assert!(peak <= MAX_MEMORY + BEYOND, "{what}: {peak} bytes");
}

/// Attacks a gateway over TUN repeatedly until the time is over.
fn attack_over_tun(test: &str, what: &str, mut attack: impl FnMut(&mut Attacker)) {
    within(test, 300, |hosts| {
        let gateway = tun_gateway();
        let mut attacker = Attacker::new(hosts);
        let to = ([10, 9, 0, 1], 8080).into();
        let seen = others(hosts, on_path(false, 2, 2), to, || {
            let until = Instant::now() + attack_time();
            while Instant::now() < until {
                attack(&mut attacker);
            }
        });
        check(what, &gateway, &seen);
    });
}

/// A reset of a connection with as many outstanding segments as the peer can cause.
#[test]
fn a_reset_of_many_small_segments_does_not_delay_others() {
    let test = "attacks::a_reset_of_many_small_segments_does_not_delay_others";
    attack_over_tun(test, "resets", |attacker| {
        let peers = attacker.pull(1, 64, 6_000_000, 14);
        assert!(peers[0].first.before(peers[0].end), "it was served");
        attacker.send(&peers[0].segment(Flags::RST | Flags::ACK, SHUT));
    });
}

/// Two thousand acknowledgements a second that selectively acknowledge the last bytes, with everything
/// before them outstanding.
#[test]
fn selective_acknowledgements_of_many_small_segments_do_not_delay_others() {
    let test = "attacks::selective_acknowledgements_of_many_small_segments_do_not_delay_others";
    attack_over_tun(test, "selective acknowledgements", |attacker| {
        let peers = attacker.pull(1, 64, 6_000_000, 10);
        let (first, end) = (peers[0].first, peers[0].end);
        let acked = SeqNumber(end.0.wrapping_sub(end.distance(first) as u32 / 2));
        for n in 0..4000 {
            let mut seg = peers[0].segment(Flags::ACK, WIDE);
            seg.ack = acked;
            // Another block each time, so that no block is a repetition.
            let last = SeqNumber(end.0.wrapping_sub(64 + n % 32));
            seg.options.sack.push(last, end);
            attacker.send(&seg);
            if n % 4 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        attacker.send(&peers[0].segment(Flags::RST | Flags::ACK, SHUT));
    });
}

/// Clients that make the gateway buffer as much as possible, then shut their windows and answer each probe.
#[test]
fn shut_windows_at_the_memory_limit_do_not_keep_others_out() {
    let test = "attacks::shut_windows_at_the_memory_limit_do_not_keep_others_out";
    within(test, 300, |hosts| {
        let gateway = tun_gateway();
        let mut attacker = Attacker::new(hosts);
        let to = ([10, 9, 0, 1], 8080).into();
        let seen = others(hosts, on_path(false, 2, 2), to, || {
            let until = Instant::now() + attack_time();
            let mut peers = attacker.pull(40, 1460, 1 << 30, 25);
            while Instant::now() < until {
                for p in &peers {
                    attacker.send(&p.ack(SHUT));
                }
                attacker.wait(&mut peers, 10);
            }
        });
        check("shut windows", &gateway, &seen);
    });
}

/// Sends a segment of no connection for each of `ids`, and echoes every challenge that comes back.
fn prove_ids(socket: &UdpSocket, gateway: SocketAddr, ids: std::ops::Range<u64>) {
    const AT_ONCE: u64 = 64;
    let endpoint = |port| Endpoint::new([10, 66, 0, 1].into(), port);
    let mut answer = [0; 2000];
    for first in ids.step_by(AT_ONCE as usize) {
        for id in first..first + AT_ONCE {
            let mut seg = Segment::new(endpoint(1 + id as u16 % 60_000), endpoint(8080));
            seg.flags = Flags::ACK;
            let mut datagram = Vec::new();
            let encoded = seg.encapsulate(id << 20, &mut datagram);
            encoded.expect("it fits");
            // Datagrams that the system does not accept are lost, as on any network.
            let _ = socket.send_to(&datagram, gateway);
        }
        while let Ok(n) = socket.recv(&mut answer) {
            if answer[1] == CHALLENGE {
                answer[1] = CHALLENGE_REPLY;
                let _ = socket.send_to(&answer[..n], gateway);
            }
        }
    }
}

/// A host that proves its address for more encapsulation identifiers than a gateway keeps.
#[test]
fn identifiers_without_connections_do_not_keep_others_out() {
    let test = "attacks::identifiers_without_connections_do_not_keep_others_out";
    within(test, 300, |hosts| {
        serve("127.0.0.1:9000".parse().expect("an address"), false);
        let outer: SocketAddr = (on_path(false, 1, 1), 4430).into();
        let mut command = Command::new(program());
        command.args(["gateway", "--udp", "--insecure", "--to", "127.0.0.1:9000"]);
        command.args(["--listen", &outer.to_string(), "--max-memory", "200MB"]);
        let gateway = Running::start(command, "gateway");
        let mut command = hosts.client_command(&[program(), "connect", "--udp", "--insecure"]);
        command.args(["--listen", "127.0.0.1:7000", "--via", &outer.to_string()]);
        let _near = Running::start(command, "connect");
        let near: IpAddr = Ipv4Addr::LOCALHOST.into();
        let seen = others(hosts, near, (near, 7000).into(), || {
            let until = Instant::now() + attack_time();
            hosts.at_client(|| {
                let socket = UdpSocket::bind((on_path(false, 1, 2), 0)).expect("a socket");
                let wait = Some(Duration::from_millis(1));
                socket.set_read_timeout(wait).expect("an option");
                let mut first = 1;
                while Instant::now() < until {
                    prove_ids(&socket, outer, first..first + 6400);
                    first += 6400;
                }
            });
        });
        check("identifiers", &gateway, &seen);
    });
}
