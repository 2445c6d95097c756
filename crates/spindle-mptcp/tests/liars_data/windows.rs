//! Windows that shrink, close or are very large: the sender stores no more than its send buffer.

use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{Config, StackConfig};
use spindle_wire::{Flags, Payload, Segment, SeqNumber};

use crate::peer::{Bench, Flow, capable, config, here, syn, there};
use crate::support::{bytes, of, others_go_on, passive};

const SEND_BUFFER: usize = 200_000;
/// The send buffer, and the records of its segments: less than an eighth of segments of 1440 bytes.
const STORED: u64 = (SEND_BUFFER + SEND_BUFFER / 8) as u64 + 2000;

fn small() -> Config {
    let mut c = config(Passive);
    c.tcp.send_buffer = SEND_BUFFER;
    c
}

/// The connection's stream as the peer reassembles it.
#[derive(Default)]
struct Taken {
    got: Vec<u8>,
    written: u64,
    /// Data offset of the next byte. Plain TCP does not use it.
    at: u64,
}

impl Taken {
    /// Writes as much as fits into the send buffer.
    fn write(&mut self, b: &mut Bench) {
        let more = Payload::from(bytes(9, self.written, SEND_BUFFER as u64));
        let n = b.stack.send(b.now, b.handle.unwrap(), more).unwrap();
        self.written += n as u64;
        assert!(b.stack.buffered() <= STORED);
    }

    /// Takes the data that are next in order on `flow`.
    fn take(&mut self, flow: &mut Flow, out: Vec<Segment>) {
        for s in of(flow, out) {
            if s.seq == flow.ack && !s.payload.is_empty() {
                self.got.extend_from_slice(&s.payload.to_bytes());
                flow.ack = s.seq + s.seq_len();
                self.at += s.payload.len() as u64;
            }
        }
    }

    /// Number of segments of `out` with data beyond the right edge.
    fn beyond(flow: &Flow, out: &[Segment], edge: SeqNumber) -> usize {
        let after = |s: &&Segment| {
            s.dst == flow.there && !s.payload.is_empty() && edge.before(s.seq + s.seq_len())
        };
        out.iter().filter(after).count()
    }
}

/// An acknowledgement of all data taken, with this window.
fn ack(b: &Bench, flow: &Flow, t: &Taken, window: u16, multipath: bool) -> Segment {
    let mut seg = if multipath {
        b.data_ack(flow, t.at)
    } else {
        flow.segment(Flags::ACK)
    };
    seg.window = window;
    seg
}

fn plain() -> (Bench, Flow) {
    let mut b = Bench::listening(small(), StackConfig::default());
    let mut flow = Flow::new(here(), there(), 1, SeqNumber(0));
    let out = b.push(syn(&flow, Flags::SYN));
    flow.seq = flow.seq + 1;
    flow.ack = out[0].seq + 1;
    b.push(flow.segment(Flags::ACK));
    b.handle = b.stack.handles().next();
    (b, flow)
}

fn shrink_and_close(mut b: Bench, mut flow: Flow, multipath: bool) {
    let mut t = Taken::default();
    t.write(&mut b);
    let out = b.drain();
    assert!(out.len() > 5);
    let edge = flow.ack + 60_000;
    // The peer takes no data, and the right edge moves to the left.
    for window in [30_000, 10_000, 1, 0, 0] {
        let seg = ack(&b, &flow, &t, window, multipath);
        let out = b.push(seg);
        assert_eq!(Taken::beyond(&flow, &out, edge), 0, "{window}");
        assert!(b.stack.buffered() <= STORED);
    }
    // The data in flight are taken. The window stays closed, and probes are answered.
    t.take(&mut flow, out);
    let seg = ack(&b, &flow, &t, 0, multipath);
    b.push(seg);
    for _ in 0..30 {
        let out = b.wait();
        assert!(out.len() <= 12, "{}", out.len());
        t.take(&mut flow, out);
        let seg = ack(&b, &flow, &t, 0, multipath);
        b.push(seg);
        t.write(&mut b);
    }
    while t.got.len() < 2 * SEND_BUFFER {
        let seg = ack(&b, &flow, &t, 20_000, multipath);
        let mut out = b.push(seg);
        if out.is_empty() {
            out = b.wait();
        }
        t.take(&mut flow, out);
        if t.written < 2 * SEND_BUFFER as u64 {
            t.write(&mut b);
        }
    }
    assert!(t.got == bytes(9, 0, t.got.len() as u64), "intact");
    others_go_on(&mut b);
}

#[test]
fn plain_tcp_with_a_shrinking_and_closed_window_delivers_all_data() {
    let (b, flow) = plain();
    shrink_and_close(b, flow, false);
}

#[test]
fn mptcp_with_a_shrinking_and_closed_data_level_window_delivers_all_data() {
    let (b, flow) = Bench::server(small(), StackConfig::default());
    shrink_and_close(b, flow, true);
}

/// 65535 with a scale of 14, and a scale beyond what is allowed (RFC 7323, section 2.3).
#[test]
fn a_window_of_a_gigabyte_makes_the_sender_store_no_more_than_its_buffer() {
    for scale in [14, 255] {
        let mut c = small();
        c.tcp.window_scaling = true;
        let mut b = Bench::listening(c, StackConfig::default());
        let mut flow = Flow::new(here(), there(), 1, SeqNumber(0));
        let mut first = syn(&flow, Flags::SYN);
        first.options.rare_mut().window_scale = Some(scale);
        let out = b.push(first);
        flow.seq = flow.seq + 1;
        flow.ack = out[0].seq + 1;
        b.push(flow.segment(Flags::ACK));
        b.handle = b.stack.handles().next();
        let mut t = Taken::default();
        let mut out = Vec::new();
        while t.got.len() < 2_000_000 {
            t.take(&mut flow, out);
            t.write(&mut b);
            let info = b.stack.info(b.handle.unwrap()).unwrap();
            assert!(info.subflows[0].in_flight <= SEND_BUFFER as u64);
            let seg = ack(&b, &flow, &t, u16::MAX, false);
            out = b.push(seg);
        }
        assert!(t.got == bytes(9, 0, t.got.len() as u64));
        others_go_on(&mut b);
    }
}

/// An old acknowledgement does not move the right edge, whatever window it announces.
#[test]
fn an_old_acknowledgement_does_not_open_the_window() {
    let (mut b, mut flow) = passive();
    let h = b.handle.unwrap();
    let old = b.data_ack(&flow, 0);
    assert_eq!(
        b.stack.send(b.now, h, Payload::Length(100_000)),
        Ok(100_000)
    );
    let out = b.drain();
    let sent: u32 = out.iter().map(|s| s.payload.len() as u32).sum();
    flow.take(&of(&flow, out));
    let mut closed = b.data_ack(&flow, u64::from(sent));
    closed.window = 0;
    b.push(closed);
    let before = b.stack.info(h).unwrap().sent;
    for _ in 0..10 {
        let mut seg = old.clone();
        seg.window = u16::MAX;
        b.push(seg);
    }
    // The first announced edge, 60 000, was never withdrawn. The stack sends no data beyond it.
    assert!(before.max(b.stack.info(h).unwrap().sent) <= 65_535);
    others_go_on(&mut b);
}

/// A scaled window of a gigabyte on the SYN of an MPTCP connection is not used as the data-level window.
#[test]
fn a_multipath_syn_with_a_maximal_window_scale_stores_nothing() {
    let mut b = Bench::listening(small(), StackConfig::default());
    let flow = Flow::new(here(), there(), 1, SeqNumber(0));
    let mut first = syn(&flow, Flags::SYN);
    first.options.rare_mut().window_scale = Some(14);
    first.options.rare_mut().mp_capable = Some(capable(None, None));
    first.window = u16::MAX;
    b.push(first);
    assert!(b.stack.buffered() == 0);
    others_go_on(&mut b);
}
