//! Invariants that must hold at every moment, and when a run is over.

use spindle_mptcp::recovery::RecoveryBudget;
use spindle_mptcp::{CloseReason, ConnectionInfo, SendKind, TraceEvent, TraceKind};
use spindle_units::{Duration, Instant};

use super::apps::{End, Run};
use super::{CLIENT, SERVER};

/// Checks bounds and sums that always hold. `buffers` are the sizes of the send and receive buffer.
pub(crate) fn at_any_moment(info: &ConnectionInfo, readable: u64, buffers: (usize, usize)) {
    assert!(info.acknowledged <= info.sent && info.sent <= info.written);
    assert!(
        info.written - info.acknowledged <= buffers.0 as u64,
        "send buffer: {info:#?}"
    );
    // The offered window never exceeds the buffer, so the data held in order do not either.
    assert!(
        readable <= buffers.1 as u64,
        "receive buffer: {readable} {info:#?}"
    );
    let t = &info.total;
    let again = t.bytes_retransmitted + t.bytes_recovery + t.bytes_reinjected;
    assert_eq!(t.bytes, info.sent + again, "bytes add up: {info:#?}");
    assert!(t.retransmissions + t.recoveries <= t.segments);
    assert!(t.spurious_retransmits <= t.retransmissions, "{t:?}");
    for s in &info.subflows {
        assert!(s.cwnd >= s.mss, "a window of a segment at least: {s:#?}");
    }
}

/// Checks that proactive recovery stays within its budget, and that exactly its bytes are paid for. Bytes of
/// coding are not the recovery policy's.
pub(crate) fn inside_budget(info: &ConnectionInfo, budget: Option<RecoveryBudget>) {
    let Some(budget) = budget else {
        assert_eq!((info.data.budget_spent, info.data.budget_refused), (0, 0));
        return;
    };
    let recovery = info.total.bytes_recovery - info.coding.extra_bytes;
    assert_eq!(recovery, info.data.budget_spent, "{info:#?}");
    let most = info.sent * u64::from(budget.per_mille) + budget.depth * 1000;
    assert!(recovery * 1000 <= most, "beyond the budget: {info:#?}");
}

/// Checks a run that is over.
pub(crate) fn at_the_end(run: &Run, user_timeout: Duration) {
    for side in [CLIENT, SERVER] {
        let left = run.net.stacks[side].handles().count();
        assert_eq!(left, 0, "side {side} leaves connections");
        bytes(run, side);
        reason(run, side, user_timeout);
        counters(run, side);
    }
}

/// Checks that the data read are the data sent, as far as they arrived.
fn bytes(run: &Run, side: usize) {
    let (mine, theirs) = (&run.sides[side], &run.sides[1 - side]);
    assert!(
        mine.got <= theirs.accepted,
        "side {side} got more than was sent"
    );
    if run.net.corrupted[side] == 0 || !fell_back(run) {
        assert_eq!(mine.wrong_at, None, "side {side}: wrong content");
    }
    let finished = |k: usize| {
        run.sides[k]
            .closed
            .is_some_and(|c| c.1 == CloseReason::Finished)
    };
    if finished(side) {
        assert_eq!(
            mine.got, theirs.accepted,
            "side {side} finished without everything"
        );
        assert_eq!(
            theirs.got, mine.accepted,
            "side {side} finished undelivered"
        );
    }
}

/// Whether the connection continued as plain TCP. Only TCP can then detect corruption.
fn fell_back(run: &Run) -> bool {
    let plain = |k: usize| {
        run.sides[k]
            .last
            .as_ref()
            .is_some_and(|i| !i.multipath || i.data.checksum_failures > 0)
    };
    plain(CLIENT) || plain(SERVER)
}

/// Whether a side with this reason ended the connection itself, not because of its peer.
pub(crate) fn given_up(r: CloseReason) -> bool {
    matches!(
        r,
        CloseReason::Aborted
            | CloseReason::UserTimeout
            | CloseReason::ConnectTimeout
            | CloseReason::KeepaliveTimeout
            | CloseReason::FinTimeout
    )
}

/// Checks that the reason a side reports for its end fits the run.
fn reason(run: &Run, side: usize, user_timeout: Duration) {
    let (mine, theirs) = (&run.sides[side], &run.sides[1 - side]);
    let Some((at, reason)) = mine.closed else {
        let refused = theirs.closed.is_some_and(|c| c.1 != CloseReason::Finished);
        assert!(
            mine.handle.is_none() && refused,
            "side {side} never closed: {:#?}",
            mine.last
        );
        return;
    };
    let peer = theirs.closed.map(|c| c.1);
    let delivered = mine.got == theirs.accepted && theirs.got == mine.accepted;
    let fits = match reason {
        CloseReason::Finished => true,
        CloseReason::Aborted => {
            mine.stranded
                || matches!(run.apps[side].end, End::AbortAt(_))
                || side == CLIENT && run.sides[SERVER].handle.is_none()
                || side == CLIENT && matches!(run.apps[side].end, End::CloseAt(_))
        }
        CloseReason::PeerAborted | CloseReason::Reset | CloseReason::Refused => {
            peer.is_some_and(given_up)
                || peer == Some(CloseReason::Finished) && delivered
                || fell_back(run) && run.net.corrupted != [0, 0]
        }
        CloseReason::Interference => fell_back(run) && run.net.corrupted != [0, 0],
        // These networks do not report routes.
        CloseReason::NoRoute => false,
        CloseReason::UserTimeout
        | CloseReason::ConnectTimeout
        | CloseReason::KeepaliveTimeout
        | CloseReason::FinTimeout => {
            peer.is_some_and(given_up)
                || some_path_down(run, at, user_timeout)
                || fell_back(run) && run.net.corrupted != [0, 0]
                // Closing releases the connection, so a slow reader cannot keep it beyond this timeout.
                || reason == CloseReason::FinTimeout && mine.got != theirs.accepted
        }
        // Neither limit is set.
        CloseReason::PersistTimeout | CloseReason::MemoryPressure => false,
    };
    assert!(
        fits,
        "side {side}: {reason:?} does not fit, peer {peer:?}: {:#?}",
        mine.last
    );
}

/// Whether any path was down at any time within the last half of the user timeout.
fn some_path_down(run: &Run, at: Instant, user_timeout: Duration) -> bool {
    let from = Instant::from_nanos(at.as_nanos().saturating_sub(user_timeout.as_nanos() / 2));
    run.net.paths.iter().any(|p| !p.is_up_throughout(from, at))
}

/// Checks that counters and trace agree, and that both ends agree on bytes.
fn counters(run: &Run, side: usize) {
    let (mine, theirs) = (&run.sides[side], &run.sides[1 - side]);
    let Some(info) = &mine.last else { return };
    let count = |k: SendKind| mine.sent().filter(|s| s.0 == k && s.2 > 0).count() as u64;
    let t = &info.total;
    assert_eq!(
        t.segments,
        mine.sent().filter(|s| s.2 > 0).count() as u64,
        "every segment traced"
    );
    assert_eq!(
        t.retransmissions,
        count(SendKind::Retransmission) + count(SendKind::Probe)
    );
    assert_eq!(
        t.recoveries,
        count(SendKind::Recovery) + count(SendKind::Repeat) + count(SendKind::Parity)
    );
    assert_eq!(
        info.data.reinjections,
        count(SendKind::Reinjection),
        "reinjections"
    );
    let by_kinds = count(SendKind::New) + t.retransmissions + t.recoveries + info.data.reinjections;
    assert_eq!(t.segments, by_kinds);
    let Some(peer) = &theirs.last else { return };
    assert!(peer.received <= info.sent, "received more than was sent");
    // After a fallback a subflow's acknowledgement also acknowledges the data.
    assert!(
        fell_back(run) || info.acknowledged <= peer.received,
        "acknowledged more than arrived"
    );
    // Data beyond a gap are counted when they arrive. In-order bytes are counted when the gap is filled.
    assert!(peer.data.bytes_received >= peer.received, "{peer:#?}");
    let done = |k: usize| {
        run.sides[k]
            .closed
            .is_some_and(|c| c.1 == CloseReason::Finished)
    };
    if done(side) && done(1 - side) {
        assert_eq!(info.written, peer.received);
        assert_eq!(peer.data.bytes_received, peer.received, "each byte once");
    }
}

/// Checks a guarantee of FUSO: each byte is copied proactively at most once.
pub(crate) fn copied_once(run: &Run, side: usize) {
    let mut copied = std::collections::BTreeMap::new();
    for (_, offset, len) in run.sides[side].sent().filter(|s| s.0 == SendKind::Recovery) {
        for at in (0..u64::from(len)).map(|k| offset + k) {
            assert_eq!(copied.insert(at, ()), None, "byte {at} copied twice");
        }
    }
}

/// Checks that no recovery copy or parity is sent while there are new data. `events` are the events of one
/// moment. New data that had been `written` before it must not follow a copy.
pub(crate) fn new_data_first(events: &[TraceEvent], written: u64) {
    let mut copied = false;
    for e in events {
        match e.kind {
            TraceKind::Sent {
                kind: SendKind::Recovery | SendKind::Parity,
                ..
            } => copied = true,
            TraceKind::Sent {
                kind: SendKind::New,
                offset,
                ..
            } => assert!(
                !copied || offset.since_start() >= written,
                "a copy before new data: {events:?}"
            ),
            _ => {}
        }
    }
}

/// A mapping is immutable (RFC 8684, section 3.3.1). Checks that the payload of every segment on the wire is
/// within the segment's mapping, and that no two mappings of a subflow overlap. This needs the network's log.
pub(crate) fn mappings_are_repeated_verbatim(run: &Run) {
    let mut maps = std::collections::BTreeMap::new();
    for l in run.net.log.iter().filter(|l| !l.segment.payload.is_empty()) {
        let seg = &l.segment;
        let mapping = seg.options.dss.and_then(|d| d.mapping);
        let Some(map) = mapping.filter(|m| m.len > 0) else {
            continue;
        };
        let flow = (l.side, seg.src.to_string(), seg.dst.to_string());
        let before = maps.entry((flow, map.ssn)).or_insert(map);
        assert_eq!(*before, map, "{seg:?}");
        assert!(seg.payload.len() <= usize::from(map.len), "{seg:?}");
    }
    for (((flow, start), map), ((next, then), _)) in maps.iter().zip(maps.iter().skip(1)) {
        let end = start + u32::from(map.len);
        assert!(
            flow != next || end <= *then,
            "{map:?} reaches beyond {then}"
        );
    }
}
