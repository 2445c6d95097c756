//! The end of a subflow is not the end of the data (RFC 8684, section 3.3.3 and appendix D).

use spindle_mptcp::{CloseReason, StackConfig};
use spindle_wire::{Flags, Segment};

use crate::peer::{Bench, Flow};
use crate::{
    acknowledged, any_fin, bytes, closed, data_ack, data_fin, fin, has_data_fin, joined, mapping,
    own_dsn, passive, server, subflows, write,
};

fn both() -> [(Bench, Flow); 2] {
    let (client, flow, _) = Bench::client(passive(), StackConfig::default());
    [server(), (client, flow)]
}

/// The application closes. All data are sent, our DATA_FIN is sent and acknowledged, and the subflow closes.
fn finishes(b: &mut Bench, flow: &mut Flow, sent: u64) {
    let h = b.handle.unwrap();
    b.stack.shutdown(b.now, h);
    let out = b.drain();
    assert!(out.iter().any(has_data_fin) && !any_fin(&out), "{out:?}");
    let m = out.iter().find(|s| has_data_fin(s)).and_then(mapping);
    assert_eq!(
        m.map(|m| m.dsn.expand(own_dsn(b, sent))),
        Some(own_dsn(b, sent))
    );
    let seg = b.data_ack(flow, sent + 1);
    let out = b.push(seg);
    assert!(any_fin(&out), "{out:?}");
    flow.take(&out);
    let seg = b.data_ack(flow, sent + 1);
    b.push(seg);
    assert_eq!(closed(b), Some(CloseReason::Finished));
}

/// Writes `len` bytes after `sent` bytes. They are sent and acknowledged.
fn goes_on(b: &mut Bench, flow: &mut Flow, sent: u64, len: u32) {
    let out = write(b, len);
    assert_eq!(bytes(&out), u64::from(len));
    assert!(!any_fin(&out), "{out:?}");
    flow.take(&out);
    let seg = b.data_ack(flow, sent + u64::from(len));
    let out = b.push(seg);
    assert!(!any_fin(&out), "{out:?}");
    assert_eq!(acknowledged(b), sent + u64::from(len));
}

#[test]
fn data_are_still_sent_after_the_peers_data_fin_and_fin() {
    for (mut b, mut flow) in both() {
        let seg = data_fin(&b, &flow, 0, 0);
        b.push(seg);
        let seg = fin(&b, &mut flow, 0);
        let out = b.push(seg);
        assert_eq!((out.len(), out[0].ack), (1, flow.seq));
        assert!(!any_fin(&out), "our side is open: {out:?}");
        assert!(b.stack.at_end(b.handle.unwrap()));
        goes_on(&mut b, &mut flow, 0, 3000);
        goes_on(&mut b, &mut flow, 3000, 500);
        finishes(&mut b, &mut flow, 3500);
    }
}

#[test]
fn fin_on_the_data_fin_segment_leaves_our_direction_open() {
    for (mut b, mut flow) in both() {
        let mut seg: Segment = data_fin(&b, &flow, 0, 0);
        seg.flags |= Flags::FIN;
        flow.seq = flow.seq + 1;
        let out = b.push(seg);
        assert!(!any_fin(&out), "{out:?}");
        goes_on(&mut b, &mut flow, 0, 1000);
        finishes(&mut b, &mut flow, 1000);
    }
}

#[test]
fn fin_without_data_fin_closes_only_one_direction_of_its_subflow() {
    for (mut b, mut flow) in both() {
        let seg = fin(&b, &mut flow, 0);
        let out = b.push(seg);
        assert_eq!((out.len(), out[0].ack), (1, flow.seq));
        assert!(!any_fin(&out), "{out:?}");
        assert!(!b.stack.at_end(b.handle.unwrap()), "no end of the data");
        goes_on(&mut b, &mut flow, 0, 1000);
        assert_eq!(closed(&b), None);
    }
}

#[test]
fn unacknowledged_data_are_retransmitted_after_the_peers_fin() {
    let (mut b, mut flow) = server();
    let sent = write(&mut b, 1000);
    let seg = data_fin(&b, &flow, 0, 0);
    b.push(seg);
    let seg = fin(&b, &mut flow, 0);
    b.push(seg);
    b.stack.close(b.now, b.handle.unwrap());
    b.drain();
    let again = (0..5).find_map(|_| b.wait().into_iter().find(|s| !s.payload.is_empty()));
    assert_eq!(again.map(|s| s.seq), Some(sent[0].seq));
}

/// RFC 8684, section 3.3.3: functioning subflows are not all closed before it is safe, but one of several is.
#[test]
fn fin_of_one_of_two_subflows_is_answered_with_a_fin() {
    let (mut b, mut first) = server();
    let (mut second, _) = joined(&mut b, "10.0.1.2:999", 1);
    let seg = fin(&b, &mut second, 0);
    let out = b.push(seg);
    let answer = out.iter().find(|s| s.flags.contains(Flags::FIN));
    assert_eq!(answer.map(|s| s.dst), Some(second.there), "{out:?}");
    let seg = fin(&b, &mut first, 0);
    let out = b.push(seg);
    assert!(!any_fin(&out), "the last one: {out:?}");
    goes_on(&mut b, &mut first, 0, 1000);
}

#[test]
fn subflow_closed_by_the_peer_is_closed_after_another_has_joined() {
    let (mut b, mut first) = server();
    let seg = fin(&b, &mut first, 0);
    assert!(!any_fin(&b.push(seg)));
    let (_, out) = joined(&mut b, "10.0.1.2:999", 1);
    let answer = out.iter().find(|s| s.flags.contains(Flags::FIN));
    assert_eq!(answer.map(|s| s.dst), Some(first.there), "{out:?}");
    assert!(out.iter().any(|s| data_ack(s).is_some()));
    assert_eq!(subflows(&b), 2);
}
