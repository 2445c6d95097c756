//! `--max-memory` bounds the memory of the process.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use spindle_wire::{
    Ecn, EncapsulationHeader, EncapsulationKind, Endpoint, Flags, Packet, Segment, SeqNumber,
};

use crate::program::wait_for;
use crate::udp::{join, pair};

/// The limit, and the memory that the process may use beyond it.
const LIMIT: u64 = 48_000_000;
const BEYOND: u64 = 64_000_000;
/// Clients that accept no data: this many addresses, and this many connections of each.
const ADDRESSES: u8 = 60;
const EACH: u64 = 20;

/// A service that sends as much as it can on every connection.
fn flood() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a service");
    let addr = listener.local_addr().expect("its address");
    listener.set_nonblocking(true).expect("a mode");
    std::thread::spawn(move || {
        let (data, mut streams) = ([7; 65_536], Vec::new());
        loop {
            while let Ok((stream, _)) = listener.accept() {
                stream.set_nonblocking(true).expect("a mode");
                streams.push(stream);
            }
            streams.retain_mut(|stream| match stream.write(&data) {
                Ok(_) => true,
                Err(e) => e.kind() == ErrorKind::WouldBlock,
            });
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    addr
}

/// A host whose connections are established and acknowledge no data.
struct Host(UdpSocket);

impl Host {
    fn new(number: u8, gateway: SocketAddr) -> Self {
        let from = SocketAddr::from(([127, 0, 1, number], 0));
        let socket = UdpSocket::bind(from).expect("a socket");
        socket.connect(gateway).expect("an address");
        let limit = Some(Duration::from_millis(200));
        socket.set_read_timeout(limit).expect("a time limit");
        Self(socket)
    }

    fn say(&self, (id, port): (u64, u16), flags: Flags, (seq, ack): (u32, SeqNumber)) {
        let at = |port| Endpoint::new(IpAddr::from([127, 0, 0, 1]), port);
        let mut s = Segment::new(at(1000), at(port));
        (s.flags, s.window, s.seq, s.ack) = (flags, 65_535, SeqNumber(seq), ack);
        let mut bytes = Vec::new();
        s.encapsulate(id, &mut bytes).expect("it fits");
        // The system may have no room for this datagram, but there are others.
        let _ = self.0.send(&bytes);
    }

    /// Establishes its connections, as far as the gateway accepts them.
    fn pull(&self, first: u64, port: u16) -> usize {
        for id in first..first + EACH {
            self.say((id, port), Flags::SYN, (100, SeqNumber(0)));
        }
        let (mut buffer, mut open) = ([0; 65_536], 0);
        while let Ok(n) = self.0.recv(&mut buffer) {
            let Some(datagram) = buffer.get(..n) else {
                break;
            };
            let Ok(header) = EncapsulationHeader::parse(datagram) else {
                continue;
            };
            let ends = [IpAddr::from([127, 0, 0, 1]); 2];
            let segment = match header.kind {
                EncapsulationKind::Data(_) => {
                    let bytes = datagram.to_vec().into();
                    let packet = Packet::decapsulate((ends[0], ends[1]), Ecn::NotEct, &bytes);
                    packet.ok().and_then(Packet::into_tcp)
                }
                _ => None,
            };
            if let Some(s) = segment.filter(|s| s.flags.contains(Flags::SYN)) {
                self.say((header.id, port), Flags::ACK, (101, s.seq + 1));
                open += 1;
                if open == EACH as usize {
                    break;
                }
            }
        }
        open
    }
}

/// Clients of many addresses request data without acknowledging any. The process keeps to its limit, and
/// another client is served.
#[test]
fn a_gateway_whose_clients_accept_no_data_stays_within_its_memory_and_serves_others() {
    spindle_net::raise_file_limit();
    let limits = format!("--transport tcp --max-memory {LIMIT} --memory-per-connection 8MB");
    let (gateway, _connect, port) = pair(flood(), &limits, "--transport tcp");
    let status = gateway.status();
    let outer = status["listen"][0].as_str().and_then(|a| a.parse().ok());
    let outer: SocketAddr = outer.expect("where it listens");
    let mut open = 0;
    let hosts: Vec<Host> = (0..ADDRESSES).map(|n| Host::new(n + 1, outer)).collect();
    for (host, n) in hosts.iter().zip(1_u64..) {
        open += host.pull(n << 32, outer.port());
    }
    assert!(open > 300, "{open} connections");
    wait_for("a shortage of memory", || {
        gateway.log().contains("memory is short")
    });
    // At the limit the client is refused, until the connections without progress have been reset after their
    // two seconds.
    wait_for("another client", || {
        let (mut served, mut data) = (join(port), vec![0; 200_000]);
        let all = served
            .write_all(b"?")
            .and_then(|()| served.read_exact(&mut data));
        all.is_ok() && data.iter().all(|b| *b == 7)
    });
    let peak = gateway.peak();
    assert!(peak <= LIMIT + BEYOND, "{peak} bytes");
}
