//! One segment causes work in proportion to what it acknowledges, however much is outstanding. Work is counted
//! in steps, so that the result does not depend on the machine's speed.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use peer::budget::{PER_EVENT, PER_SENT};
use peer::{Bench, Flow, PEER_KEY, capable, config, end, here, syn, there};
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{Config, InitialWindow, StackConfig};
use spindle_units::Duration;
use spindle_wire::{Flags, Packet, Payload, Segment, SeqNumber};

/// Number of outstanding segments in each attack.
const OUTSTANDING: usize = 10_000;
/// The peer's MSS.
const MSS: u16 = 64;
/// The peer's window scale. Its window is larger than all data sent.
const SCALE: u8 = 10;

/// All written data are sent at once, in segments as small as the peer requests.
fn unlimited(rack: bool) -> Config {
    let mut config = config(Passive);
    config.tcp.window_scaling = true;
    config.tcp.send_buffer = 64 << 20;
    config.tcp.initial_window = InitialWindow::PerSubflow(4 * OUTSTANDING as u32);
    config.loss.rack = rack;
    config
}

fn small(mut seg: Segment) -> Segment {
    let rare = seg.options.rare_mut();
    rare.mss = Some(MSS);
    rare.window_scale = Some(SCALE);
    seg
}

/// A stack that has accepted a connection of the peer, either MPTCP or plain TCP.
fn accepted(config: Config, multipath: bool) -> (Bench, Flow) {
    let mut b = Bench::listening(config, StackConfig::default());
    let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let mut first = small(syn(&flow, Flags::SYN));
    if multipath {
        first.options.rare_mut().mp_capable = Some(capable(None, None));
    }
    flow.seq = flow.seq + 1;
    let out = b.push(first);
    flow.ack = out[0].seq + 1;
    let mut third = flow.segment(Flags::ACK);
    if multipath {
        let answer = out[0].options.rare.as_ref().unwrap().mp_capable.unwrap();
        b.key = answer.sender_key.unwrap();
        third.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(b.key)));
    }
    b.push(third);
    b.handle = b.stack.handles().next();
    if multipath {
        let seg = b.data_ack(&flow, 0);
        b.push(seg);
    }
    (b, flow)
}

/// The application writes enough data for `segments` segments. Returns everything that is sent.
fn write(b: &mut Bench, segments: usize) -> Vec<Segment> {
    let bytes = segments * usize::from(MSS);
    let written = b
        .stack
        .send(b.now, b.handle.unwrap(), Payload::Length(bytes as u32));
    assert_eq!(written, Ok(bytes));
    let sent: Vec<Segment> = std::iter::from_fn(|| b.stack.transmit(b.now))
        .filter_map(Packet::into_tcp)
        .collect();
    assert!(sent.len() >= segments, "{} sent", sent.len());
    sent
}

fn steps(b: &Bench) -> u64 {
    b.stack.counters().steps
}

/// The stack processes a segment and sends everything it can. Returns the number of steps and of segments sent.
fn cost(b: &mut Bench, seg: Segment) -> (u64, usize) {
    let before = steps(b);
    b.now += Duration::from_micros(10);
    b.stack.receive(b.now, seg);
    let sent = std::iter::from_fn(|| b.stack.transmit(b.now)).count();
    (steps(b) - before, sent)
}

#[test]
fn reset_of_plain_tcp_with_10000_outstanding_segments_takes_few_steps() {
    let (mut b, flow) = accepted(unlimited(false), false);
    write(&mut b, OUTSTANDING);
    let (taken, _) = cost(&mut b, flow.segment(Flags::RST));
    assert!(taken <= PER_EVENT, "{taken} steps");
    assert!(b.stack.info(b.handle.unwrap()).unwrap().subflows.is_empty());
}

#[test]
fn steps_for_a_reset_of_the_last_subflow_are_proportional_to_segments_sent() {
    let (mut b, flow) = accepted(unlimited(false), true);
    let sent = write(&mut b, OUTSTANDING).len();
    let (taken, _) = cost(&mut b, flow.segment(Flags::RST));
    let paid = PER_SENT * sent as u64;
    assert!(
        taken <= PER_EVENT + paid,
        "{taken} steps for {sent} segments"
    );
    assert!(b.stack.info(b.handle.unwrap()).unwrap().subflows.is_empty());
}

#[test]
fn steps_for_a_reset_of_one_of_two_subflows_are_proportional_to_segments_sent() {
    let (mut b, flow) = accepted(unlimited(false), true);
    let sent = write(&mut b, OUTSTANDING).len();
    let (_, out) = b.join(end("10.0.1.2:999"), 1, 0);
    assert!(!out.is_empty());
    let (taken, again) = cost(&mut b, flow.segment(Flags::RST));
    assert_eq!(b.stack.info(b.handle.unwrap()).unwrap().subflows.len(), 1);
    let paid = PER_SENT * (sent + again) as u64;
    assert!(
        taken <= PER_EVENT + paid,
        "{taken} steps for {sent} segments and {again} more"
    );
    assert!(again > 0, "the data are sent on the other subflow");
}

#[test]
fn tiny_mss_allows_no_more_outstanding_segments_than_the_default_mss() {
    let mut config = unlimited(false);
    config.tcp.send_buffer = 4 << 20;
    let (mut b, _) = accepted(config, false);
    let h = b.handle.unwrap();
    let written = b.stack.send(b.now, h, Payload::Length(4 << 20));
    assert_eq!(written, Ok(4 << 20));
    let sent = std::iter::from_fn(|| b.stack.transmit(b.now)).count();
    assert_eq!(sent, (4 << 20) / 536);
    let charged = b.stack.buffered() - (4 << 20);
    assert!(
        charged >= 80 * sent as u64,
        "{charged} bytes for {sent} segments"
    );
}

/// The peer repeats one SACK block. Returns the maximum steps per acknowledgement, without the first one.
fn repeated_sack(rack: bool, from: usize, to: usize) -> u64 {
    let (mut b, flow) = accepted(unlimited(rack), false);
    let sent = write(&mut b, OUTSTANDING);
    let mut ack = flow.segment(Flags::ACK);
    ack.options
        .sack
        .push(sent[from].seq, sent[to - 1].seq + u32::from(MSS));
    let (first, again) = cost(&mut b, ack.clone());
    let paid = PER_SENT * (sent.len() + again) as u64;
    assert!(first <= PER_EVENT + paid, "{first} steps");
    (0..100)
        .map(|_| cost(&mut b, ack.clone()))
        .map(|(taken, sent)| taken.saturating_sub(PER_SENT * sent as u64))
        .max()
        .unwrap_or(0)
}

#[test]
fn repeated_sack_block_over_everything_outstanding_takes_few_steps() {
    for rack in [false, true] {
        let taken = repeated_sack(rack, 1, OUTSTANDING);
        assert!(taken <= PER_EVENT, "{taken} steps, RACK {rack}");
    }
}

#[test]
fn repeated_sack_block_of_the_last_segment_takes_few_steps() {
    for rack in [false, true] {
        let taken = repeated_sack(rack, OUTSTANDING - 1, OUTSTANDING);
        assert!(taken <= PER_EVENT, "{taken} steps, RACK {rack}");
    }
}

/// Each acknowledgement of the peer SACKs one more segment, at the front or at the back.
#[test]
fn sack_blocks_that_grow_by_one_segment_take_few_steps() {
    for (rack, backwards) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut b, flow) = accepted(unlimited(rack), false);
        let sent = write(&mut b, OUTSTANDING);
        let (last, seq) = (OUTSTANDING - 1, |k: usize| sent[k].seq);
        let mut most = 0;
        for k in 1..1000 {
            let mut ack = flow.segment(Flags::ACK);
            match backwards {
                true => ack.options.sack.push(seq(last - k), seq(last)),
                false => ack.options.sack.push(seq(1), seq(1 + k)),
            };
            let (taken, sent) = cost(&mut b, ack);
            // The segments that the first acknowledgement marks lost were sent before.
            if k > 1 {
                most = most.max(taken.saturating_sub(PER_SENT * sent as u64));
            }
        }
        assert!(
            most <= PER_EVENT,
            "{most} steps, RACK {rack}, backwards {backwards}"
        );
    }
}

#[test]
fn connection_with_10000_segments_to_send_does_not_delay_a_syn_ack() {
    let (mut b, _) = accepted(unlimited(false), false);
    let bytes = OUTSTANDING * usize::from(MSS);
    let written = b
        .stack
        .send(b.now, b.handle.unwrap(), Payload::Length(bytes as u32));
    assert_eq!(written, Ok(bytes));
    let other = Flow::new(here(), end("10.0.0.3:4000"), 5000, SeqNumber(0));
    b.stack.receive(b.now, syn(&other, Flags::SYN));
    let sent = std::iter::from_fn(|| b.stack.transmit(b.now)).filter_map(Packet::into_tcp);
    let answer = sent
        .take(OUTSTANDING)
        .position(|s| s.flags.contains(Flags::SYN));
    assert!(
        answer.is_some_and(|n| n <= 64),
        "{answer:?} segments before it"
    );
}

/// A burst is one segment in the stack and up to 44 segments on the wire. It counts as 44.
#[test]
fn connection_with_bursts_to_send_does_not_delay_a_syn_ack() {
    let mut config = unlimited(false);
    config.tcp.burst = 65_000;
    let mut b = Bench::listening(config, StackConfig::default());
    let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let mut first = syn(&flow, Flags::SYN);
    first.options.rare_mut().window_scale = Some(SCALE);
    let out = b.push(first);
    (flow.seq, flow.ack) = (flow.seq + 1, out[0].seq + 1);
    b.push(flow.segment(Flags::ACK));
    let handle = b.stack.handles().next().unwrap();
    let bytes = 10_000_000;
    let written = b.stack.send(b.now, handle, Payload::Length(bytes));
    assert_eq!(written, Ok(bytes as usize));
    let other = Flow::new(here(), end("10.0.0.3:4000"), 5000, SeqNumber(0));
    b.stack.receive(b.now, syn(&other, Flags::SYN));
    let sent: Vec<Segment> = std::iter::from_fn(|| b.stack.transmit(b.now))
        .filter_map(Packet::into_tcp)
        .collect();
    assert!(sent.iter().any(Segment::is_burst), "no bursts");
    let answer = sent.iter().position(|s| s.flags.contains(Flags::SYN));
    let before: u32 = sent[..answer.unwrap()]
        .iter()
        .map(Segment::piece_count)
        .sum();
    assert!(before <= 64 + 44, "{before} segments before it");
    assert!(sent.len() > 100, "it continues to send");
}
