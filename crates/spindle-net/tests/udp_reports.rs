//! Reports of a link over UDP about the sizes that pass on its paths.

use std::net::{IpAddr, UdpSocket};

use spindle_net::udp::{UdpServer, UdpServerOptions};
use spindle_net::{Arrival, FIRST_KEY, Link};
use spindle_units::{Duration, Instant};
use spindle_wire::{
    CodingOption, EncapsulationHeader, EncapsulationKind, Endpoint, Flags, Segment, SeqNumber,
};

const ID: u64 = 7 << 20;
/// UDP payload of a full Ethernet frame over IPv4.
const FULL: usize = 1472;

/// A server's link without a stack, and one client without a link.
struct Rig {
    link: UdpServer,
    now: Instant,
    client: UdpSocket,
    segments: Vec<Segment>,
    mtus: Vec<u32>,
}

impl Rig {
    fn new() -> Self {
        let options = UdpServerOptions::new(vec!["127.0.0.1:0".parse().expect("an address")]);
        let link = UdpServer::bind(options).expect("a socket");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let outer = link.local_addrs().expect("its address")[0];
        client.connect(outer).expect("a local address");
        let limit = Some(std::time::Duration::from_secs(10));
        client.set_read_timeout(limit).expect("a time limit");
        Self {
            link,
            now: Instant::ZERO + Duration::from_secs(100),
            client,
            segments: Vec::new(),
            mtus: Vec::new(),
        }
    }

    /// Sends a message of this kind from the client, in a datagram of `size` bytes.
    fn message(&self, kind: EncapsulationKind, size: usize) {
        let mut bytes = Vec::new();
        EncapsulationHeader { id: ID, kind }.encode(&mut bytes);
        bytes.resize(size.max(bytes.len()), 0);
        self.client.send(&bytes).expect("room");
    }

    /// The part of a data path's turn before it sends.
    fn turn(&mut self) {
        let mut sink = |arrival| match arrival {
            Arrival::Packet(p) => self.segments.extend(p.into_tcp()),
            Arrival::PathMtu(p) => self.mtus.push(p.mtu),
            Arrival::Unreachable { .. } | Arrival::Icmp(_) => {}
        };
        for _ in 0..10 {
            let received = self.link.receive(self.now, FIRST_KEY, &mut sink);
            received.expect("a socket");
        }
        self.link.timeout(self.now, &mut sink);
    }

    /// The number of the server's next probe.
    fn probe(&self) -> u64 {
        let mut buffer = [0; 2000];
        loop {
            let n = self.client.recv(&mut buffer).expect("a probe");
            let header = EncapsulationHeader::parse(&buffer[..n]).expect("the format");
            if let EncapsulationKind::Probe(number) = header.kind {
                assert_eq!(n, FULL);
                return number;
            }
        }
    }
}

fn offers_coding(src: Endpoint, dst: Endpoint, flags: Flags) -> Segment {
    let mut s = Segment::new(src, dst);
    (s.flags, s.seq) = (flags, SeqNumber(100));
    s.options.add_experiment(CodingOption::Code(4).to_option());
    s
}

/// The answer to a SYN that offers coding reports the size that passes so far. If the search finds a larger
/// size before the data path fetches that report, the stack must not get the old value last. Otherwise it would
/// send packets that are smaller than the link assumes.
#[test]
fn a_report_made_while_sending_precedes_later_reports() {
    let mut rig = Rig::new();
    let at = |port| Endpoint::new(IpAddr::from([127, 0, 0, 1]), port);
    let mut syn = Vec::new();
    let segment = offers_coding(at(9), at(80), Flags::SYN);
    segment.encapsulate(ID, &mut syn).expect("it fits");
    rig.client.send(&syn).expect("room");
    // The server may send three times the bytes that arrived, and may therefore probe a full frame.
    rig.message(EncapsulationKind::Probe(1), FULL);
    rig.turn();
    let came = rig.segments.pop().expect("the SYN");
    let number = rig.probe();
    let syn_ack = offers_coding(came.dst, came.src, Flags::SYN | Flags::ACK);
    rig.link.send(rig.now, syn_ack.into());
    rig.link.flush(rig.now).expect("a socket");
    rig.link.reconcile(rig.now, &|_, _| true);
    let size = FULL as u16;
    rig.message(EncapsulationKind::ProbeAck { number, size }, 0);
    rig.turn();
    assert_eq!(rig.mtus.len(), 2, "{:?}", rig.mtus);
    assert_eq!(rig.mtus[1], rig.mtus[0] + (1472 - 1200), "{:?}", rig.mtus);
}
