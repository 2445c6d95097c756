//! The data level of RFC 8684 beyond a single exchange: widths of numbers, a half-closed connection, a
//! connection without a subflow, interference, and blindly injected signals.

#[path = "../peer/mod.rs"]
mod peer;

mod break_before_make;
mod half_close;
mod injection;
mod interference;
mod numbers;

use peer::{Bench, Flow, config, end};
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{CloseReason, Config, Event, StackConfig};
use spindle_wire::{DataNumber, Flags, Mapping, Payload, Segment};

fn passive() -> Config {
    config(Passive)
}

/// An MPTCP server and the peer's first flow.
fn server() -> (Bench, Flow) {
    Bench::server(passive(), StackConfig::default())
}

/// The application writes `len` bytes. Returns the segments sent after that.
fn write(b: &mut Bench, len: u32) -> Vec<Segment> {
    let h = b.handle.unwrap();
    let n = b.stack.send(b.now, h, Payload::Length(len));
    assert_eq!(n, Ok(len as usize));
    b.drain()
}

fn acknowledged(b: &Bench) -> u64 {
    b.stack.info(b.handle.unwrap()).unwrap().acknowledged
}

fn subflows(b: &Bench) -> usize {
    b.stack.info(b.handle.unwrap()).unwrap().subflows.len()
}

fn closed(b: &Bench) -> Option<CloseReason> {
    b.stack.info(b.handle.unwrap()).unwrap().closed
}

fn data_ack(seg: &Segment) -> Option<DataNumber> {
    seg.options.dss.and_then(|d| d.data_ack)
}

fn mapping(seg: &Segment) -> Option<Mapping> {
    seg.options.dss.and_then(|d| d.mapping)
}

fn has_data_fin(seg: &Segment) -> bool {
    seg.options.dss.is_some_and(|d| d.data_fin)
}

/// The stack's data sequence number at `offset`.
fn own_dsn(b: &Bench, offset: u64) -> u64 {
    spindle_mptcp::keys::idsn(b.key)
        .wrapping_add(1)
        .wrapping_add(offset)
}

/// The peer's DATA_FIN without data, after `offset` bytes. It acknowledges `acked` of the stack's bytes.
fn data_fin(b: &Bench, flow: &Flow, offset: u64, acked: u64) -> Segment {
    let mut seg = b.data_ack(flow, acked);
    let dss = seg.options.dss.as_mut().unwrap();
    dss.data_fin = true;
    dss.mapping = Some(Mapping {
        dsn: DataNumber::Low(Bench::peer_dsn(offset) as u32),
        ssn: 0,
        len: 1,
        checksum: None,
    });
    seg
}

/// The peer's FIN on `flow`.
fn fin(b: &Bench, flow: &mut Flow, acked: u64) -> Segment {
    let mut seg = b.data_ack(flow, acked);
    seg.flags |= Flags::FIN;
    flow.seq = flow.seq + 1;
    seg
}

/// The bytes of data that segments carry.
fn bytes(segments: &[Segment]) -> u64 {
    segments.iter().map(|s| s.payload.len() as u64).sum()
}

fn any_fin(segments: &[Segment]) -> bool {
    segments.iter().any(|s| s.flags.contains(Flags::FIN))
}

fn reset(segments: &[Segment]) -> bool {
    segments.iter().any(|s| s.flags.contains(Flags::RST))
}

/// The reason in the event that reported the connection's end, if there was one.
fn reported_end(b: &mut Bench) -> Option<CloseReason> {
    std::iter::from_fn(|| b.stack.poll_event()).find_map(|e| match e {
        Event::Closed { reason, .. } => Some(reason),
        _ => None,
    })
}

/// Another subflow of the peer, completely established. The stack has processed its first DSS.
fn joined(b: &mut Bench, from: &str, id: u8) -> (Flow, Vec<Segment>) {
    let (mut flow, mut out) = b.join(end(from), id, 0);
    assert!(!reset(&out), "{out:?}");
    let own = out.iter().filter(|s| s.dst == flow.there);
    flow.take(&own.cloned().collect::<Vec<_>>());
    let seg = b.data_ack(&flow, acknowledged(b));
    out.extend(b.push(seg));
    (flow, out)
}
