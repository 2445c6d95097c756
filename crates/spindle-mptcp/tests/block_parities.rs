//! Parities of blocks over MPTCP, end to end: negotiated, sent within windows, decoded (CoFUSO).
//!
//! `SPINDLE_NETWORKS` sets how many random networks are tried, `SPINDLE_NETWORKS_SEED` which ones.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::cell::Cell;
use std::sync::Arc;

use proptest::strategy::Strategy;
use spindle_mptcp::recovery::{Action, Capabilities, Recovery, RecoveryFactory, View};
use spindle_mptcp::{
    Config, ConnectionInfo, Event, Handle, InitialWindow, SendKind, SubflowId, SubflowPosition,
    TraceEvent, TraceKind, preset,
};
use spindle_units::Duration;
use spindle_wire::{Flags, Payload, Segment};
use support::networks::{asked_for, try_networks};
use support::scenario::{NAMES, Scenario, scenario};
use support::{CLIENT, Net, Path, SERVER, endpoint};

/// First byte of the experimental option's data.
const OFFER_BLOCKS: u8 = 3;
const BLOCK: u8 = 5;

/// The data of a segment's experimental option.
fn said(seg: &Segment) -> Option<&[u8]> {
    let rare = seg.options.rare.as_ref()?;
    rare.experimental.first().map(|e| &e.data[..])
}

fn is_parity(seg: &Segment) -> bool {
    said(seg).is_some_and(|data| data[0] == BLOCK)
}

/// Number of networks of each kind in the ordinary test run.
const NETWORKS: u32 = 150;

/// Tries networks with parities enabled. Returns the sums of parities sent, parities received and packets
/// decoded.
fn parities_over_networks(real: bool) -> [u64; 3] {
    let sums: [Cell<u64>; 3] = Default::default();
    for name in ["cofuso", "cofuso-xor"] {
        let drawn = scenario(false).prop_map(|mut s: Scenario| {
            s.preset = NAMES.iter().position(|n| *n == name).expect("listed");
            s.multi.checksum = false;
            s.multi.manager = 0;
            s.multi.subflows = s.multi.subflows.max(2);
            s
        });
        try_networks(asked_for(NETWORKS), u8::from(real), &drawn, |s| {
            let run = s.run(real);
            for side in &run.sides {
                let Some(last) = &side.last else { continue };
                if s.ends.iter().all(|e| e.receive_segments > 100) {
                    assert_eq!(last.data.parities_refused, 0, "from an honest peer");
                }
                let parities = side.sent().filter(|e| e.0 == SendKind::Parity).count();
                let seen = [
                    parities as u64,
                    last.data.parities_received,
                    last.data.packets_decoded,
                ];
                for (sum, n) in sums.iter().zip(seen) {
                    sum.set(sum.get() + n);
                }
            }
        });
    }
    sums.map(|s| s.get())
}

#[test]
fn every_byte_arrives_once_with_parities_and_some_are_decoded() {
    for real in [true, false] {
        let [sent, received, decoded] = parities_over_networks(real);
        println!("{sent} parities sent, {received} received, {decoded} packets decoded");
        assert!(sent > 300 && received > 300 && decoded > 50);
    }
}

/// One-way delay. The round trip is 50 ms as in CoFUSO's testbed (section 6.1).
const DELAY: Duration = Duration::from_millis(25);
const RTT: u64 = 50_000;

/// Whether the first transmission of a segment is dropped. The arguments are the subflow, the segment's number
/// on this subflow, and whether it is a parity.
type Drop = Arc<dyn Fn(u8, usize, bool) -> bool>;

fn config(name: &str) -> Config {
    let mut c = preset(name).expect("a preset").config;
    c.tcp.initial_window = InitialWindow::PerSubflow(10);
    c.tcp.msl = Duration::from_secs(1);
    c
}

struct Outcome {
    /// Time from the write to the last byte read, in microseconds.
    took: u64,
    receiver: ConnectionInfo,
    /// The trace of the sender. The next field is that of the receiver.
    trace: Vec<TraceEvent>,
    received: Vec<TraceEvent>,
    net: Net,
}

impl Outcome {
    fn sent(&self, wanted: SendKind) -> usize {
        let of = |e: &&TraceEvent| matches!(e.kind, TraceKind::Sent { kind, .. } if kind == wanted);
        self.trace.iter().filter(of).count()
    }

    fn parities(&self) -> impl Iterator<Item = &Segment> {
        let all = self.net.log.iter().map(|l| &l.segment);
        all.filter(|s| is_parity(s))
    }

    fn longest(&self) -> usize {
        let data = self.net.log.iter().map(|l| &l.segment);
        let data = data.filter(|s| !is_parity(s)).map(|s| s.payload.len());
        data.max().unwrap_or(0)
    }
}

struct Transfer {
    configs: [Config; 2],
    /// The end that sends data.
    sender: usize,
    /// Number of full data packets.
    packets: u32,
    real: bool,
    /// Whether bursts arrive in one piece.
    whole_bursts: bool,
    drop: Drop,
}

impl Transfer {
    fn of(name: &str, packets: u32, drop: impl Fn(u8, usize, bool) -> bool + 'static) -> Self {
        Self {
            configs: [config(name), config(name)],
            sender: SERVER,
            packets,
            real: false,
            whole_bursts: false,
            drop: Arc::new(drop),
        }
    }

    /// Connects, warms up with 1 KB in each direction, waits until the windows have their initial size again,
    /// and sends.
    fn run(&self) -> Outcome {
        let mut net = Net::new(1, vec![Path::clean(DELAY)]);
        net.keep_log = true;
        net.whole_bursts = self.whole_bursts;
        let [client, server] = self.configs.clone().map(Arc::new);
        let to = endpoint(2, 80);
        net.stacks[SERVER].listen(to, server).expect("free");
        let h = net.stacks[CLIENT]
            .connect(net.now, endpoint(1, 4000), to, client)
            .expect("connects");
        let ready = net.now + Duration::from_secs(1);
        let kilobyte = || Payload::Length(1000);
        net.stacks[CLIENT]
            .send(net.now, h, kilobyte())
            .expect("open");
        while net.step(ready) {}
        let accepted = net.events.iter().find_map(|(_, _, e)| match e {
            Event::Accepted { handle, .. } => Some(*handle),
            _ => None,
        });
        let server = accepted.expect("accepted");
        net.stacks[SERVER]
            .send(ready, server, kilobyte())
            .expect("open");
        let ready = ready + Duration::from_secs(2);
        while net.step(ready) {}
        net.now = ready;
        let handles = [h, server];
        for side in [CLIENT, SERVER] {
            while let Ok(Some(_)) = net.stacks[side].recv(net.now, handles[side], usize::MAX) {}
        }
        self.send(net, handles)
    }

    fn send(&self, mut net: Net, handles: [Handle; 2]) -> Outcome {
        let (from, to) = (self.sender, 1 - self.sender);
        net.log.retain(|l| l.segment.flags.contains(Flags::SYN));
        let info = net.stacks[SERVER].info(handles[SERVER]).expect("open");
        // The client's ports identify the subflows.
        let ports: Vec<_> = info.subflows.iter().map(|s| s.remote.port).collect();
        let (drop, mut seen) = (self.drop.clone(), vec![Vec::new(); ports.len()]);
        net.hook = Some(Box::new(move |_, side, seg| {
            if side != from || seg.payload.is_empty() {
                return true;
            }
            let port = if from == SERVER {
                seg.dst.port
            } else {
                seg.src.port
            };
            let subflow = ports.iter().position(|p| *p == port);
            let subflow = subflow.expect("known");
            let again = seen[subflow].contains(&seg.seq);
            seen[subflow].push(seg.seq);
            again || !drop(subflow as u8, seen[subflow].len() - 1, is_parity(seg))
        }));
        for side in [from, to] {
            net.stacks[side].set_trace(handles[side], true);
        }
        let full = info.subflows[0].mss as u32 - header_room(&net);
        let bytes = self.packets * full;
        let content: Vec<u8> = (0..bytes).map(|x| (x * 31 % 251) as u8).collect();
        let data = match self.real {
            true => Payload::from(content.clone()),
            false => Payload::Length(bytes),
        };
        let start = net.now;
        let sent = net.stacks[from].send(start, handles[from], data);
        assert_eq!(sent, Ok(bytes as usize));
        let (mut got, mut end) = (0, start);
        while got < content.len() && net.step(start + Duration::from_secs(5)) {
            while let Ok(Some(p)) = net.stacks[to].recv(net.now, handles[to], usize::MAX) {
                if let Payload::Bytes(b) = &p {
                    assert_eq!(&b[..], &content[got..got + b.len()], "content at {got}");
                }
                got += p.len();
                end = net.now;
            }
        }
        assert_eq!(got, content.len());
        while net.step(end + Duration::from_secs(1)) {}
        Outcome {
            took: end.since(start).as_micros(),
            receiver: net.stacks[to].info(handles[to]).expect("open"),
            trace: net.stacks[from].take_trace(handles[from]),
            received: net.stacks[to].take_trace(handles[to]),
            net,
        }
    }
}

/// The SYNs and SYN/ACKs of one side.
fn syns(net: &Net, side: usize) -> impl Iterator<Item = &Segment> {
    let of_side = net.log.iter().filter(move |l| l.side == side);
    of_side
        .map(|l| &l.segment)
        .filter(|s| s.flags.contains(Flags::SYN))
}

/// Number of bytes by which data are shorter than the longest segment: 20 if the handshake agreed on parities.
fn header_room(net: &Net) -> u32 {
    let agreed = syns(net, SERVER).any(|s| said(s) == Some(&[OFFER_BLOCKS]));
    20 * u32::from(agreed)
}

/// CoFUSO section 6.1.1, figure 9a: 29 packets on three subflows of ten packets each, which leaves one place.
/// One packet of the first subflow is lost.
fn fig9a(name: &str, nth: usize) -> Outcome {
    let mut transfer = Transfer::of(name, 29, move |subflow, k, _| (subflow, k) == (0, nth));
    transfer.real = nth.is_multiple_of(2);
    transfer.run()
}

#[test]
fn one_parity_in_the_spare_window_repairs_any_single_loss() {
    for nth in 0..10 {
        let (cofuso, fuso) = (fig9a("cofuso-xor", nth), fig9a("fuso-3", nth));
        assert_eq!(cofuso.sent(SendKind::New), 29);
        let at_once = |e: &&TraceEvent| {
            let parity = |k| k == SendKind::Parity;
            e.at == cofuso.trace[0].at
                && matches!(e.kind, TraceKind::Sent { kind, .. } if parity(kind))
        };
        assert_eq!(cofuso.trace.iter().filter(at_once).count(), 1);
        assert_eq!(cofuso.receiver.data.packets_decoded, 1, "packet {nth}");
        assert_eq!(cofuso.took, RTT / 2, "one-way delay of the parity");
        // The only copy for which there is a place is a copy of the first packet.
        let later = if nth == 0 { 0 } else { RTT };
        assert_eq!(fuso.took, RTT / 2 + later, "packet {nth}");
    }
}

#[test]
fn traces_report_the_block_of_a_parity_and_the_decoded_packet() {
    let o = fig9a("cofuso-xor", 4);
    let sent = |e: &TraceEvent| match e.kind {
        TraceKind::Sent {
            kind,
            offset,
            position,
            len,
            parity,
            ..
        } => Some((e.subflow, kind, offset, position, len, parity)),
        _ => None,
    };
    let sent: Vec<_> = o.trace.iter().filter_map(sent).collect();
    let mut lost = sent
        .iter()
        .filter(|s| s.0 == SubflowId(0) && s.1 == SendKind::New);
    let lost = lost.nth(4).expect("ten of them");
    let parity = sent.iter().find(|s| s.1 == SendKind::Parity);
    let parity = parity.expect("one parity");
    let coded = parity.5.expect("the block of the parity");
    assert_eq!((coded.of, coded.index), (SubflowId(0), 0));
    assert!(coded.packets > 4 && (parity.2..coded.end).contains(&lost.2));
    let of_data = |k| matches!(k, SendKind::New | SendKind::Recovery);
    assert!(sent.iter().all(|s| !of_data(s.1) || s.5.is_none()));

    let arrived = o.received.iter().any(|e| {
        let position = parity.3;
        (e.subflow, e.kind) == (parity.0, TraceKind::ParityArrived { position })
    });
    assert!(arrived);
    let decoded = |e: &&TraceEvent| matches!(e.kind, TraceKind::Decoded { .. });
    let decoded: Vec<_> = o.received.iter().filter(decoded).collect();
    let expected = TraceKind::Decoded {
        offset: lost.2,
        fresh: lost.4,
        len: lost.4,
        by: parity.0,
    };
    assert_eq!(decoded.len(), 1);
    assert_eq!(
        (decoded[0].subflow, decoded[0].kind),
        (SubflowId(0), expected)
    );
}

#[test]
fn one_parity_does_not_repair_two_losses_and_each_packet_is_copied_once() {
    let two = Transfer::of("cofuso-xor", 29, |s, k, _| s == 0 && [2, 7].contains(&k)).run();
    assert!(two.took > RTT, "{}", two.took);
    assert_eq!(two.receiver.data.parities_refused, 0);
    // If all windows are open there is room for every parity and every copy.
    let few = Transfer::of("cofuso-xor", 5, |s, k, _| (s, k) == (0, 4)).run();
    assert_eq!(few.sent(SendKind::Parity), 1);
    assert_eq!(few.sent(SendKind::Recovery), 5);
    assert_eq!(few.took, RTT / 2);
    assert_eq!(few.receiver.data.packets_decoded, 1);
}

#[test]
fn several_parities_repair_several_losses() {
    // Ten percent of the earlier packets were lost, so that blocks get more than one parity.
    let lossy = |s, k, parity: bool| s == 0 && !parity && k > 30 && k % 10 == 0;
    let o = Transfer::of("cofuso", 600, lossy).run();
    let most = o.parities().filter_map(|s| s.payload_head::<12>());
    let (m, index) = most.fold((0, 0), |a, h| (a.0.max(h[10]), a.1.max(h[11])));
    assert!((2..=3).contains(&m) && index > 0, "M {m}, index {index}");
    assert!(o.receiver.data.packets_decoded > 0);
    assert_eq!(o.receiver.data.parities_refused, 0);
}

#[test]
fn lost_parity_is_retransmitted_verbatim_on_its_own_subflow() {
    for real in [false, true] {
        let mut transfer = Transfer::of("cofuso-xor", 29, |_, _, parity| parity);
        transfer.real = real;
        let o = transfer.run();
        let first = o.parities().next().expect("sent");
        let again: Vec<_> = o.parities().filter(|s| s.seq == first.seq).collect();
        assert!(again.len() > 1, "repeated");
        for s in again {
            assert_eq!(s.payload, first.payload);
            assert_eq!(s.payload_head::<20>(), first.payload_head::<20>());
            assert_eq!(said(s), said(first));
            let dss = s.options.dss.expect("a DATA_ACK");
            assert!(dss.data_ack.is_some() && dss.mapping.is_none());
        }
        let carrier = o.trace.iter().find_map(|e| match e.kind {
            TraceKind::Sent {
                kind: SendKind::Parity,
                position,
                offset,
                parity,
                ..
            } => Some((e.subflow, position, offset, parity)),
            _ => None,
        });
        let repeated = o.trace.iter().any(|e| match e.kind {
            TraceKind::Sent {
                kind: SendKind::Retransmission | SendKind::Probe,
                position,
                offset,
                parity,
                ..
            } => Some((e.subflow, position, offset, parity)) == carrier,
            _ => false,
        });
        assert!(repeated, "on its own subflow");
        assert_eq!(o.receiver.data.parities_refused, 0);
    }
}

#[test]
fn handshake_options_for_parities_fit_into_the_option_space() {
    let o = fig9a("cofuso-xor", 3);
    let client: Vec<_> = syns(&o.net, CLIENT).map(said).collect();
    assert_eq!(client, [&[OFFER_BLOCKS][..], &[4, 1], &[4, 2]].map(Some));
    let server: Vec<_> = syns(&o.net, SERVER).map(said).collect();
    assert_eq!(server, [Some(&[OFFER_BLOCKS][..]), None, None]);
    for side in [CLIENT, SERVER] {
        for s in syns(&o.net, side) {
            assert!(s.options.timestamps.is_some() && s.options.encoded_len() <= 40);
        }
    }
    // 1460 minus timestamps and mapping. A parity is as long as data would be without the room for its header.
    assert_eq!(o.longest(), 1460 - 32 - 20);
    for s in o.parities() {
        assert_eq!((s.payload.len(), s.wire_len()), (1460 - 32, 1500));
    }
}

#[test]
fn peer_without_decoding_gets_copies_of_full_packets() {
    for (sender, deaf) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut transfer = Transfer::of("cofuso-xor", 29, |s, k, _| (s, k) == (0, 0));
        transfer.sender = sender;
        transfer.configs[deaf] = config("fuso-3");
        let o = transfer.run();
        assert_eq!(o.parities().count(), 0);
        assert!(o.sent(SendKind::Recovery) > 0);
        assert_eq!((o.longest(), o.took), (1460 - 32, RTT / 2));
        assert!(syns(&o.net, SERVER).all(|s| said(s).is_none()));
    }
}

#[test]
fn parities_are_not_used_with_checksums() {
    for one in [CLIENT, SERVER] {
        let mut transfer = Transfer::of("cofuso-xor", 29, |s, k, _| (s, k) == (0, 0));
        let m = transfer.configs[one].multipath.as_mut().expect("multipath");
        m.checksum = true;
        let o = transfer.run();
        assert_eq!(o.parities().count(), 0);
        assert!(o.sent(SendKind::Recovery) > 0);
        assert_eq!(o.took, RTT / 2);
    }
}

#[test]
fn last_window_of_data_is_sent_without_bursts() {
    let with_bursts = |packets, drop: fn(u8, usize, bool) -> bool| {
        let mut t = Transfer::of("cofuso-xor", packets, drop);
        (t.real, t.whole_bursts) = (true, true);
        for c in &mut t.configs {
            c.tcp.burst = 20_000;
        }
        t.run()
    };
    // The last window of data is sent packet by packet, so that a parity can repair any of them.
    let few = with_bursts(29, |s, k, _| (s, k) == (0, 4));
    assert_eq!((few.longest(), few.took), (1460 - 32 - 20, RTT / 2));
    assert_eq!(few.receiver.data.packets_decoded, 1);

    let many = with_bursts(600, |_, _, _| false);
    assert!(many.longest() > 2 * 1460, "bursts of {}", many.longest());
    let data = many.net.log.iter().map(|l| &l.segment);
    let data = data.filter(|s| !s.payload.is_empty() && !is_parity(s));
    let lengths: Vec<usize> = data.map(|s| s.payload.len()).collect();
    let last = &lengths[lengths.len() - 30..];
    assert!(last.iter().all(|n| *n <= 1460 - 32 - 20), "{last:?}");
    assert_eq!(many.receiver.data.parities_refused, 0);
}

/// A policy that requests arbitrary parities.
#[derive(Clone, Debug, Default)]
struct Mad {
    n: usize,
}

impl RecoveryFactory for Mad {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(self.clone())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            block_parities: true,
            ..Capabilities::default()
        }
    }
}

impl Recovery for Mad {
    fn longest_block(&self) -> usize {
        usize::MAX
    }

    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        self.n += 1;
        let pick = |of: &[usize], by: usize| of[self.n / by % of.len()];
        let of = SubflowId(pick(&[0, 1, 2, 7], 1) as u8);
        let run = view.subflows.iter().find(|s| s.id == of);
        let first = run
            .and_then(|s| s.uncoded)
            .map_or(SubflowPosition::FIRST_BYTE, |r| r.first);
        Action::BlockParity {
            of,
            first: first + pick(&[0, 0, 0, 1], 3) as u64,
            segments: pick(&[1, 2, 3, 0, 200, 300, usize::MAX], 5),
            index: pick(&[0, 1, 2, 0, 300], 2),
            parities: pick(&[1, 3, 0, 300, usize::MAX], 7),
            on: SubflowId(pick(&[2, 0, 1, 9], 4) as u8),
        }
    }
}

#[test]
fn arbitrary_parity_requests_of_a_policy_keep_parities_valid_and_data_intact() {
    let mut transfer = Transfer::of("cofuso-xor", 300, |s, k, _| s == 0 && k % 20 == 3);
    transfer.real = true;
    for c in &mut transfer.configs {
        c.recovery = Some(Arc::new(Mad::default()));
    }
    let o = transfer.run();
    assert!(o.sent(SendKind::Parity) > 0);
    assert_eq!(o.receiver.data.parities_refused, 0, "parities are valid");
}
