//! Applications and peers that never read: how much data peers can make the stack store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{CloseReason, StackConfig};
use spindle_units::Duration;
use spindle_wire::{Flags, Payload, Segment, SeqNumber};

use crate::peer::{Bench, Flow, config, end, here, syn, there};
use crate::support::{bytes, data, joined, low, mapping, of, others_go_on, passive, read, reset};

const BUFFER: usize = 50_000;

fn small() -> spindle_mptcp::Config {
    let mut c = config(Passive);
    c.tcp.receive_buffer = BUFFER;
    c
}

/// An honest sender stops at the window. All data that it sent can be read in the end.
#[test]
fn a_connection_whose_application_never_reads_stores_at_most_its_receive_buffer() {
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

/// A liar keeps a hole on each of eight subflows and sends the same data beyond the hole on all of them. Each
/// subflow stores at most its window.
#[test]
fn out_of_order_data_on_every_subflow_are_bounded() {
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

/// The stack's memory is used up. Out-of-order data are not stored, however many connections send them.
#[test]
fn out_of_order_data_are_not_stored_at_the_memory_limit() {
    let limit = 200_000;
    let stack = StackConfig {
        // The memory of the connections, without the data they store.
        max_memory: limit + 100 * 8192,
        ..StackConfig::default()
    };
    let mut b = Bench::listening(small(), stack);
    let mut flows = Vec::new();
    for k in 0..100 {
        // The memory reserved for the first data of the previous connection has been released.
        b.now += Duration::from_millis(500);
        let mut flow = Flow::new(here(), end(&format!("10.0.3.{k}:9")), 1, SeqNumber(0));
        let out = b.push(syn(&flow, Flags::SYN));
        flow.seq = flow.seq + 1;
        flow.ack = out[0].seq + 1;
        b.push(flow.segment(Flags::ACK));
        // A hole of one byte.
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

/// A peer that fills its holes while memory is short transfers everything, only later.
#[test]
fn a_transfer_with_losses_at_the_memory_limit_is_intact() {
    let stack = StackConfig {
        // The memory of two connections, without the data they store.
        max_memory: 26_000,
        ..StackConfig::default()
    };
    let (mut b, mut flow) = Bench::server(config(Passive), stack);
    // The memory reserved for the first data of the first connection has been released.
    b.now += Duration::from_millis(500);
    // Another connection uses the rest of the memory.
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
    assert!(losses > 40, "too much was stored out of order");
}

/// Memory that counts its bytes as released when it is dropped.
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

/// Sends segments of `len` bytes, each `step` bytes further than the previous segment. The stack must not hold
/// a whole segment for the few new bytes.
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

/// One new byte or a thousand, in order or beyond a hole, in packets of each size.
#[test]
fn storing_part_of_a_packet_does_not_hold_the_whole_packet_in_memory() {
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

/// Only the new byte of each segment is mapped to new data. The other bytes are mapped to known data.
#[test]
fn storing_one_new_byte_does_not_hold_the_old_bytes_of_its_packet_in_memory() {
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
    let mut c = config(Passive);
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

/// Receives all data that the first window allows. Returns the acknowledgement that closes the window.
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

/// The peer with the closed window answers nothing. The user timeout ends the connection, and all memory is
/// released.
#[test]
fn a_silent_peer_with_a_closed_window_is_ended_by_the_user_timeout() {
    let mut c = config(Passive);
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

/// A peer that answers probes and never opens its window keeps its connection (RFC 9293, section 3.8.6.1). The
/// connection costs its send buffer and a probe now and then. An abort releases all memory.
#[test]
fn a_peer_that_answers_probes_with_a_closed_window_uses_at_most_the_send_buffer() {
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

/// Every subflow acknowledges and the data level never does. Sent data are stored and sent again at growing
/// intervals, within the send buffer.
#[test]
fn a_peer_that_never_sends_a_data_ack_uses_at_most_the_send_buffer() {
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
