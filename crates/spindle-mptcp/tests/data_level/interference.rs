//! The effects of middleboxes on options, and which data are accepted then (RFC 8684, section 3.7).

use spindle_mptcp::{Config, StackConfig};
use spindle_wire::{Flags, Payload, ResetReason, Segment, SeqNumber};

use crate::peer::{Bench, Flow, PEER_KEY, capable, here, syn, there};
use crate::{bytes, closed, joined, passive, server, subflows, write};

fn refused(out: &[Segment], flow: &Flow) -> Option<ResetReason> {
    let rst = out
        .iter()
        .find(|s| s.flags.contains(Flags::RST) && s.dst == flow.there)?;
    rst.options.rare.as_ref()?.mp_tcprst.map(|r| r.reason)
}

/// "on an additional subflow [...] the host MUST close the subflow with a RST"
#[test]
fn joined_subflow_is_reset_at_the_first_data_ack_without_dss() {
    let (mut b, mut first) = server();
    let (mut second, _) = joined(&mut b, "10.0.1.2:999", 1);
    let out = write(&mut b, 40_000);
    assert!(
        out.iter()
            .any(|s| s.dst == second.there && !s.payload.is_empty())
    );
    first.take(&out);
    let on_second: Vec<Segment> = out.into_iter().filter(|s| s.dst == second.there).collect();
    second.ack = on_second[0].seq + on_second[0].seq_len();
    let out = b.push(second.segment(Flags::ACK));
    assert_eq!(
        refused(&out, &second),
        Some(ResetReason::Middlebox),
        "{out:?}"
    );
    assert_eq!(subflows(&b), 1);
    // Its data are sent on the other subflow.
    let seg = b.data_ack(&first, 0);
    let mut again = bytes(&out);
    again += bytes(&b.push(seg));
    assert!(again >= bytes(&on_second));
}

/// An acknowledgement that covers no data contains no information about data.
#[test]
fn ack_of_no_data_without_options_does_not_reset_a_joined_subflow() {
    let (mut b, _) = server();
    let (second, _) = joined(&mut b, "10.0.1.2:999", 1);
    let out = b.push(second.segment(Flags::ACK));
    assert!(out.is_empty(), "{out:?}");
    assert_eq!(subflows(&b), 2);
}

/// RFC 8684, section 3.7 uses MP_FAIL for checksums only. If options are removed, the infinite mapping
/// announces the fallback.
#[test]
fn fallback_because_of_removed_options_sends_no_mp_fail() {
    let (mut b, mut flow) = server();
    let mut out = Vec::new();
    for _ in 0..6 {
        let more = write(&mut b, 1000);
        flow.take(&more);
        out.extend(more);
        out.extend(b.push(flow.segment(Flags::ACK)));
    }
    let info = b.stack.info(b.handle.unwrap()).unwrap();
    assert!(!info.multipath);
    let fails = |s: &Segment| s.options.rare.as_ref().is_some_and(|r| r.mp_fail.is_some());
    assert!(!out.iter().any(fails), "{out:?}");
    let infinite = |s: &Segment| {
        s.options
            .dss
            .and_then(|d| d.mapping)
            .is_some_and(|m| m.len == 0)
    };
    assert!(out.iter().any(infinite));
}

fn checked() -> Config {
    let mut c = passive();
    c.multipath.as_mut().unwrap().checksum = true;
    c
}

fn content(from: u64, len: u64, flavour: u8) -> Vec<u8> {
    (from..from + len)
        .map(|x| (x % 251) as u8 ^ flavour)
        .collect()
}

/// The peer's bytes with their mapping and the checksum of `summed`.
fn with_checksum(b: &Bench, flow: &mut Flow, offset: u64, sent: Vec<u8>, summed: &[u8]) -> Segment {
    let mut seg = b.data(flow, offset, sent.len() as u16);
    let dss = seg.options.dss.as_mut().unwrap();
    let m = dss.mapping.as_mut().unwrap();
    m.len = summed.len() as u16;
    let payload = Payload::from(summed.to_vec());
    m.checksum = Some(spindle_wire::dss_checksum_of(
        Bench::peer_dsn(offset),
        m.ssn,
        m.len,
        [&payload],
    ));
    seg.payload = Payload::from(sent);
    seg
}

/// The checksum covers the whole mapping. It cannot be computed again over released data, so the rest is not
/// accepted.
#[test]
fn mapping_with_checksum_that_overlaps_released_data_delivers_nothing() {
    let (mut b, mut flow) = Bench::server(checked(), StackConfig::default());
    let right = content(0, 400, 0);
    let seg = with_checksum(&b, &mut flow.clone(), 0, right.clone(), &right);
    b.push(seg);
    let h = b.handle.unwrap();
    assert_eq!(b.stack.readable(h), 400);
    // The same range and more bytes. The additional bytes do not match the checksum.
    let mut lie = right;
    lie.extend(content(400, 600, 0x55));
    let whole = content(0, 1000, 0);
    let seg = with_checksum(&b, &mut flow, 0, lie, &whole);
    b.push(seg);
    assert_eq!(b.stack.readable(h), 400, "unchecked bytes");
}

/// MP_CAPABLE with data is a mapping of the first data, but only with the connection's own keys.
#[test]
fn mp_capable_with_wrong_keys_delivers_no_data() {
    for (theirs, ours) in [(!PEER_KEY, 0), (PEER_KEY, 1), (0, 0)] {
        let (mut b, flow) = server();
        let mut seg = flow.segment(Flags::ACK);
        seg.payload = Payload::Length(100);
        let mut keys = capable(Some(theirs), Some(b.key ^ ours));
        keys.data_len = Some(100);
        seg.options.rare_mut().mp_capable = Some(keys);
        b.push(seg);
        assert_eq!(b.stack.readable(b.handle.unwrap()), 0, "{theirs:x} {ours}");
    }
}

/// If the end of a segment is cut off at the edge of the window, its FIN is cut off, too (RFC 9293,
/// section 3.10.7.4).
#[test]
fn fin_after_data_beyond_the_window_is_ignored() {
    let mut c = passive();
    c.tcp.receive_buffer = 10_000;
    let mut b = Bench::listening(c, StackConfig::default());
    let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let first = syn(&flow, Flags::SYN);
    flow.seq = flow.seq + 1;
    let out = b.push(first);
    flow.ack = out[0].seq + 1;
    b.push(flow.segment(Flags::ACK));
    b.handle = b.stack.handles().next();
    let h = b.handle.unwrap();
    // 15 000 bytes and a FIN, but only 10 000 bytes fit. The stream ends elsewhere.
    let mut seg = flow.segment(Flags::ACK | Flags::FIN);
    seg.payload = Payload::Length(15_000);
    b.push(seg);
    assert_eq!(b.stack.readable(h), 10_000);
    while let Ok(Some(_)) = b.stack.recv(b.now, h, 100_000) {}
    b.drain();
    flow.seq = flow.seq + 10_000;
    let mut seg = flow.segment(Flags::ACK);
    seg.payload = Payload::Length(5_000);
    b.push(seg);
    flow.seq = flow.seq + 5_000;
    while let Ok(Some(_)) = b.stack.recv(b.now, h, 100_000) {}
    assert!(!b.stack.at_end(h), "the FIN was cut off");
    let mut seg = flow.segment(Flags::ACK | Flags::FIN);
    seg.payload = Payload::Length(1_000);
    b.push(seg);
    while let Ok(Some(_)) = b.stack.recv(b.now, h, 100_000) {}
    assert!(b.stack.at_end(h));
    assert_eq!(closed(&b), None);
}

/// Two ends that differ by one byte take each other's acknowledgements for probes
/// (Linux: `tcp_invalid_ratelimit`).
#[test]
fn answers_to_a_storm_of_probes_are_rate_limited() {
    let (mut b, flow) = server();
    let probe = |b: &Bench| {
        let mut seg = b.data_ack(&flow, 0);
        seg.seq = seg.seq - 1;
        seg
    };
    let mut answers = 0;
    for _ in 0..10_000 {
        let seg = probe(&b);
        b.stack.receive(b.now, seg);
        answers += b.drain().len();
    }
    assert!((1..=10).contains(&answers), "{answers}");
    b.now += spindle_units::Duration::from_secs(1);
    let seg = probe(&b);
    assert_eq!(b.push(seg).len(), 1, "a true probe is answered");
}

/// The peer's data contradict each other, and there is no other subflow. The peer is notified that the
/// connection has ended, not only its subflow (RFC 8684, section 3.5).
#[test]
fn contradictory_data_reset_the_last_subflow_with_mp_fastclose() {
    let (mut b, mut flow) = server();
    let mut seg = b.data(&mut flow.clone(), 0, 1000);
    seg.payload = Payload::Length(100);
    flow.seq = flow.seq + 100;
    b.push(seg);
    let seg = b.data(&mut flow, 5000, 100);
    let out = b.push(seg);
    let rst = out
        .iter()
        .find(|s| s.flags.contains(Flags::RST))
        .expect("a reset");
    assert_eq!(
        rst.options.rare.as_ref().unwrap().mp_fastclose,
        Some(PEER_KEY)
    );
    assert_eq!(closed(&b), Some(spindle_mptcp::CloseReason::Reset));
}
