//! Applications and peers that never read: what others can make the stack store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use spindle_mptcp::{CloseReason, PathManager, StackConfig};
use spindle_units::Duration;
use spindle_wire::{Flags, Payload, Segment, SeqNumber};

use crate::peer::{Bench, Flow, config, end, here, syn, there};
use crate::support::{bytes, data, joined, low, mapping, of, others_go_on, passive, read, reset};

const BUFFER: usize = 50_000;

fn small() -> spindle_mptcp::Config {
    let mut c = config(PathManager::Passive);
    c.tcp.receive_buffer = BUFFER;
    c
}

/// An honest sender stops at the window, and all it sent is there in the end.
#[test]
fn an_application_that_never_reads_stores_its_buffer() {
    let (mut b, mut flow) = Bench::server(small(), StackConfig::default());
    let mut offset = 0;
    for _ in 0..200 {
        let mut ahead = flow;
        let seg = data(&b, &mut ahead, offset, 1000, 0);
        let out = b.push(seg);
        if of(&flow, out).iter().any(|s| s.ack == ahead.seq) {
            flow = ahead;
            offset += 1000;
        }
        assert!(b.stack.buffered() <= BUFFER as u64 + 64 * 60);
    }
    assert!(read(&mut b) == bytes(0, 0, BUFFER as u64));
    others_go_on(&mut b);
}

/// A liar keeps a hole on each of eight subflows and sends the same data behind it on all: each
/// subflow stores its window, at most.
#[test]
fn holes_on_every_subflow_are_bounded() {
    let (mut b, first) = Bench::server(small(), StackConfig::default());
    let mut flows = vec![first];
    flows.extend((1..8).map(|k| joined(&mut b, &format!("10.0.1.{k}:9"), k)));
    for f in &mut flows {
        f.seq = f.seq + 10;
    }
    for k in 0..500u64 {
        for f in &mut flows {
            let seg = data(&b, f, 10 + 1000 * (k % 300), 1000, 0);
            b.push(seg);
        }
        assert!(b.stack.buffered() <= 8 * (BUFFER as u64 + 60 * 130));
    }
    others_go_on(&mut b);
}

/// The stack's memory is used up: what nobody waits for is not stored, however many promise it.
#[test]
fn out_of_order_data_stop_at_the_limit_of_memory() {
    let limit = 200_000;
    let stack = StackConfig {
        // The connections without what they store.
        max_memory: limit + 100 * 8192,
        ..StackConfig::default()
    };
    let mut b = Bench::listening(small(), stack);
    let mut flows = Vec::new();
    for k in 0..100 {
        // No memory is kept any longer for the first data of the connection before.
        b.now += Duration::from_millis(500);
        let mut flow = Flow::new(here(), end(&format!("10.0.3.{k}:9")), 1, SeqNumber(0));
        let out = b.push(syn(&flow, Flags::SYN));
        flow.seq = flow.seq + 1;
        flow.ack = out[0].seq + 1;
        b.push(flow.segment(Flags::ACK));
        // A hole of a byte.
        flow.seq = flow.seq + 1;
        flows.push(flow);
    }
    for k in 0..40 {
        for flow in &mut flows {
            let mut seg = flow.segment(Flags::ACK);
            seg.payload = Payload::from(bytes(0, 1000 * k, 1000));
            flow.seq = flow.seq + 1000;
            b.push(seg);
            assert!(b.stack.buffered() <= limit + 2000, "{}", b.stack.buffered());
        }
    }
    // The peers give up.
    let handles: Vec<_> = b.stack.handles().collect();
    for h in handles {
        b.stack.abort(b.now, h);
        b.drain();
    }
    assert_eq!(b.stack.buffered(), 0);
    others_go_on(&mut b);
}

/// Who fills a hole while memory is short gets everything through, later.
#[test]
fn a_transfer_with_losses_at_the_limit_of_memory_is_intact() {
    let stack = StackConfig {
        // Two connections without what they store.
        max_memory: 26_000,
        ..StackConfig::default()
    };
    let (mut b, mut flow) = Bench::server(config(PathManager::Passive), stack);
    // Memory is no longer kept for the first data of the first connection.
    b.now += Duration::from_millis(500);
    // Somebody else's memory.
    let mut other = Flow::new(here(), end("10.0.3.1:9"), 1, SeqNumber(0));
    let out = b.push(syn(&other, Flags::SYN));
    other.seq = other.seq + 1;
    other.ack = of(&other, out)[0].seq + 1;
    b.push(other.segment(Flags::ACK));
    let mut seg = other.segment(Flags::ACK);
    seg.payload = Payload::Length(15_000);
    b.push(seg);
    let mut got = Vec::new();
    let (mut offset, mut losses) = (0, 0);
    while offset < 50_000 {
        let mut ahead = flow;
        let lost = data(&b, &mut ahead, offset, 1000, 0);
        let behind = data(&b, &mut ahead, offset + 1000, 1000, 0);
        b.push(behind);
        let out = b.push(lost);
        let acked = of(&flow, out).last().unwrap().ack;
        let n = acked.0.wrapping_sub(flow.seq.0);
        assert!(n == 1000 || n == 2000, "{n}");
        losses += u32::from(n == 1000);
        flow.seq = acked;
        offset += u64::from(n);
        got.extend(read(&mut b));
    }
    assert!(got == bytes(0, 0, offset));
    assert!(losses > 40, "nothing was kept out of order");
}

/// Memory that says when it is given back.
struct Watched(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

/// Segments of `len` bytes, each `step` further than the one before: what is held for the new bytes is
/// not the whole segment.
fn repeat_and_add(mut b: Bench, first: Flow, len: u16, step: u64, skip: u32, multipath: bool) {
    let held = Arc::new(AtomicUsize::new(0));
    let mut end = 0;
    for k in 0..50 {
        let offset = step * k;
        let mut flow = first;
        flow.seq = flow.seq + skip + offset as u32;
        let mut seg = data(&b, &mut flow, u64::from(skip) + offset, len, 0);
        if !multipath {
            seg.options.dss = None;
        }
        held.fetch_add(usize::from(len), Ordering::Relaxed);
        let content = bytes(0, u64::from(skip) + offset, u64::from(len));
        seg.payload = Payload::Bytes(Bytes::from_owner(Watched(content, held.clone())));
        b.push(seg);
        end = offset + u64::from(len);
    }
    let (real, counted) = (held.load(Ordering::Relaxed) as u64, b.stack.buffered());
    assert!(counted >= end, "{counted}");
    assert!(real <= 2 * counted, "{real} held, {counted} counted");
    if skip == 0 {
        assert!(read(&mut b) == bytes(0, 0, end));
    }
}

/// A byte or a thousand that are new, in order or behind a hole, in packets of each size.
#[test]
fn what_is_kept_of_a_packet_does_not_keep_the_rest() {
    for (len, step) in [(1400, 1), (1400, 300), (60_000, 1), (60_000, 1000)] {
        for skip in [0, 10] {
            let (b, flow) = passive();
            repeat_and_add(b, flow, len, step, skip, true);
            if len == 1400 {
                let (b, flow) = plain();
                repeat_and_add(b, flow, len, step, skip, false);
            }
        }
    }
}

/// One byte of each segment is mapped where it is new, the others where all is known.
#[test]
fn a_new_byte_among_old_ones_does_not_keep_them() {
    let (mut b, mut flow) = passive();
    let seg = data(&b, &mut flow, 0, 1400, 0);
    b.push(seg);
    assert!(read(&mut b) == bytes(0, 0, 1400));
    let held = Arc::new(AtomicUsize::new(0));
    for offset in 1400..1450 {
        let mut seg = data(&b, &mut flow, offset, 1400, 0);
        let m = seg.options.dss.as_mut().unwrap().mapping.as_mut().unwrap();
        m.len = 1;
        held.fetch_add(1400, Ordering::Relaxed);
        let content = bytes(0, offset, 1400);
        seg.payload = Payload::Bytes(Bytes::from_owner(Watched(content, held.clone())));
        b.push(seg);
        let rest = mapping(&b, &flow, flow.ssn() - 1399, low(0), 1399);
        b.push(rest);
    }
    let (real, counted) = (held.load(Ordering::Relaxed) as u64, b.stack.buffered());
    assert!(real <= 2 * counted, "{real} held, {counted} counted");
    assert!(read(&mut b) == bytes(0, 1400, 50));
    others_go_on(&mut b);
}

/// A connection without MPTCP.
fn plain() -> (Bench, Flow) {
    let mut c = config(PathManager::Passive);
    c.multipath = None;
    let mut b = Bench::listening(c, StackConfig::default());
    let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let out = b.push(syn(&flow, Flags::SYN));
    flow.seq = flow.seq + 1;
    flow.ack = out[0].seq + 1;
    b.push(flow.segment(Flags::ACK));
    b.handle = b.stack.handles().next();
    (b, flow)
}

/// Takes all the first window lets out; returns the acknowledgement that closes it.
fn fill(b: &mut Bench, flow: &mut Flow) -> Segment {
    let mut sent = 0;
    let mut out = b.drain();
    loop {
        sent += out.iter().map(|s| s.payload.len() as u64).sum::<u64>();
        flow.take(&of(flow, out));
        let mut closed = b.data_ack(flow, sent);
        closed.window = 0;
        out = b.push(closed.clone());
        if out.is_empty() {
            return closed;
        }
    }
}

/// Nothing answers behind a closed window: the user timeout ends it, and everything is given back.
#[test]
fn a_peer_gone_behind_a_closed_window_is_given_up() {
    let mut c = config(PathManager::Passive);
    c.tcp.user_timeout = Duration::from_secs(60);
    c.tcp.send_buffer = 200_000;
    let (mut b, mut flow) = Bench::server(c, StackConfig::default());
    let h = b.handle.unwrap();
    let taken = b.stack.send(b.now, h, Payload::Length(1 << 30));
    assert_eq!(taken, Ok(200_000));
    fill(&mut b, &mut flow);
    let start = b.now;
    while b.stack.info(h).unwrap().closed.is_none() {
        b.wait();
        assert!(b.stack.buffered() <= 250_000);
        assert!(b.now.since(start) < Duration::from_secs(200));
    }
    let closed = b.stack.info(h).unwrap().closed;
    assert_eq!(closed, Some(CloseReason::UserTimeout));
    b.stack.close(b.now, h);
    b.drain();
    assert_eq!((b.stack.buffered(), b.stack.handles().count()), (0, 0));
    others_go_on(&mut b);
}

/// One that answers and never opens keeps its connection (RFC 9293, section 3.8.6.1), which costs
/// its send buffer and a probe now and then; an abort gives it all back.
#[test]
fn a_peer_that_never_opens_its_window_costs_its_buffer() {
    let (mut b, mut flow) = passive();
    let h = b.handle.unwrap();
    let taken = b.stack.send(b.now, h, Payload::Length(1 << 30)).unwrap() as u64;
    let closed = fill(&mut b, &mut flow);
    let start = b.now;
    let mut probes = 0;
    while b.now.since(start) < Duration::from_secs(3600) {
        probes += b.wait().len();
        b.push(closed.clone());
        assert!(b.stack.buffered() <= taken + taken / 4);
    }
    assert!(probes < 200, "{probes} in an hour");
    assert_eq!(b.stack.info(h).unwrap().closed, None);
    b.stack.abort(b.now, h);
    assert!(reset(&b.drain()));
    assert_eq!(b.stack.buffered(), 0);
    others_go_on(&mut b);
}

/// Every subflow acknowledges and the data level never does: what was sent is kept and repeated less
/// and less often, within the send buffer.
#[test]
fn a_peer_that_never_acknowledges_at_the_data_level_costs_its_buffer() {
    let (mut b, mut flow) = passive();
    let h = b.handle.unwrap();
    let taken = b.stack.send(b.now, h, Payload::Length(1 << 30)).unwrap() as u64;
    let start = b.now;
    let mut out = b.drain();
    let mut segments = 0;
    while b.now.since(start) < Duration::from_secs(3600)
        && b.stack.info(h).unwrap().closed.is_none()
    {
        segments += out.len();
        flow.take(&of(&flow, out));
        let seg = b.data_ack(&flow, 0);
        out = b.push(seg);
        if out.is_empty() {
            out = b.wait();
        }
        assert!(b.stack.buffered() <= taken + taken / 4);
        assert!(segments < 2000, "{segments} in {:?}", b.now.since(start));
    }
    b.stack.abort(b.now, h);
    b.drain();
    assert_eq!(b.stack.buffered(), 0);
    others_go_on(&mut b);
}
