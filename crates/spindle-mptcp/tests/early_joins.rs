//! Joins that are sent together with the third ACK, segment by segment: one stack, and a peer whose segments are written by
//! hand.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use std::net::IpAddr;
use std::sync::Arc;

use peer::{Bench, Flow, PEER_KEY, PEER_NONCE, capable, config, end, here, syn};
use spindle_mptcp::path_manager::FullMesh;
use spindle_mptcp::recovery::PricedCopies;
use spindle_mptcp::{Config, StackConfig, TcpState, keys};
use spindle_wire::{Endpoint, Flags, MpJoin, ParityOption, Segment, SeqNumber};

const AGREED: Option<ParityOption> = Some(ParityOption::OfferBlocks { early_joins: true });
const BLOCKS_ONLY: Option<ParityOption> = Some(ParityOption::OfferBlocks { early_joins: false });

fn early() -> Config {
    let mut config = config(FullMesh);
    config.recovery = Some(Arc::new(PricedCopies::with_parities()));
    if let Some(m) = &mut config.multipath {
        m.early_joins = true;
    }
    config
}

fn second() -> IpAddr {
    end("10.1.0.1:0").addr
}

fn join_of(seg: &Segment) -> Option<MpJoin> {
    seg.options.rare.as_ref().and_then(|r| r.mp_join)
}

fn joins(out: &[Segment]) -> Vec<&Segment> {
    let join = |s: &&Segment| matches!(join_of(s), Some(MpJoin::Syn { .. }));
    out.iter().filter(join).collect()
}

/// A client with two addresses, whose SYN is answered with this option. Returns what it sends then.
fn client(answered: Option<ParityOption>) -> (Bench, Flow, Vec<Segment>) {
    let stack = StackConfig {
        addresses: vec![second()],
        ..StackConfig::default()
    };
    let (mut b, mut flow, first) = Bench::connecting(early(), stack);
    assert_eq!(ParityOption::of(&first.options), AGREED, "the offer");
    let mut answer = syn(&flow, Flags::SYN | Flags::ACK);
    answer.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), None));
    if let Some(option) = answered {
        answer.options.add_experiment(option.to_option());
    }
    flow.seq = flow.seq + 1;
    let out = b.push(answer);
    let third = out.iter().find_map(|s| s.options.rare.as_ref()?.mp_capable);
    b.key = third.and_then(|c| c.sender_key).expect("the third ACK");
    (b, flow, out)
}

#[test]
fn client_joins_together_with_its_third_ack_if_the_peer_agrees() {
    let (mut b, flow, out) = client(AGREED);
    let [join] = joins(&out)[..] else {
        panic!("one join: {out:?}");
    };
    assert_eq!(join.src.addr, second());
    let confirmed = b.data_ack(&flow, 0);
    assert_eq!(joins(&b.push(confirmed)).len(), 0, "it has joined already");
}

#[test]
fn client_joins_only_after_a_data_ack_if_the_peer_does_not_agree() {
    for answered in [BLOCKS_ONLY, None] {
        let (mut b, flow, out) = client(answered);
        assert_eq!(joins(&out).len(), 0, "{answered:?}: {out:?}");
        let confirmed = b.data_ack(&flow, 0);
        assert_eq!(joins(&b.push(confirmed)).len(), 1, "{answered:?}");
    }
}

/// A server that has answered a SYN with this offer, and the first flow.
fn half_open(offer: Option<ParityOption>) -> (Bench, Flow) {
    let mut b = Bench::listening(early(), StackConfig::default());
    let mut flow = Flow::new(here(), end("10.0.0.2:80"), 5000, SeqNumber(0));
    let mut first = syn(&flow, Flags::SYN);
    first.options.rare_mut().mp_capable = Some(capable(None, None));
    if let Some(option) = offer {
        first.options.add_experiment(option.to_option());
    }
    flow.seq = flow.seq + 1;
    let out = b.push(first);
    assert_eq!(ParityOption::of(&out[0].options), offer, "the answer");
    flow.take(&out);
    let answer = out[0].options.rare.as_ref().and_then(|r| r.mp_capable);
    b.key = answer.and_then(|c| c.sender_key).expect("a key");
    (b, flow)
}

fn elsewhere(port: u16) -> Endpoint {
    Endpoint::new(end("10.1.0.2:0").addr, port)
}

fn join_syn(b: &Bench, port: u16) -> (Flow, Segment) {
    b.join_syn(elsewhere(port), 1, keys::token(b.key))
}

fn third_ack(b: &Bench, flow: &Flow) -> Segment {
    let mut third = flow.segment(Flags::ACK);
    third.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(b.key)));
    third
}

/// The HMAC of the answer needs the peer's key. The peer's SYN may be repeated before that.
#[test]
fn server_answers_an_early_join_once_it_has_the_key() {
    let (mut b, flow) = half_open(AGREED);
    let (mut joined, seg) = join_syn(&b, 81);
    assert_eq!(b.push(seg.clone()), []);
    assert_eq!(b.push(seg), [], "nor a repetition");
    let third = third_ack(&b, &flow);
    let out = b.push(third);
    let [answer] = &out[..] else {
        panic!("the answer: {out:?}");
    };
    let Some(MpJoin::SynAck { nonce, hmac, .. }) = join_of(answer) else {
        panic!("{answer:?}");
    };
    let expected = keys::join_hmac(b.key, PEER_KEY, nonce, PEER_NONCE);
    assert_eq!(hmac, keys::leftmost_64(&expected));
    joined.seq = joined.seq + 1;
    joined.take(&out);
    let mut last = joined.segment(Flags::ACK);
    let hmac = keys::leftmost_160(&keys::join_hmac(PEER_KEY, b.key, PEER_NONCE, nonce));
    last.options.rare_mut().mp_join = Some(MpJoin::Ack { hmac });
    assert_eq!(b.push(last).len(), 1, "the fourth ACK");
    let handle = b.stack.handles().next().expect("a connection");
    let info = b.stack.info(handle).expect("a connection");
    assert_eq!(
        info.subflows
            .iter()
            .filter(|s| s.state == TcpState::Established)
            .count(),
        2
    );
}

#[test]
fn server_refuses_an_early_join_without_the_agreement() {
    for offer in [BLOCKS_ONLY, None] {
        let (mut b, _) = half_open(offer);
        let (_, seg) = join_syn(&b, 81);
        let out = b.push(seg);
        assert!(
            out.len() == 1 && out[0].flags.contains(Flags::RST),
            "{out:?}"
        );
    }
}

#[test]
fn early_join_is_reset_if_the_third_ack_shows_plain_tcp() {
    let (mut b, flow) = half_open(AGREED);
    let (_, seg) = join_syn(&b, 81);
    b.push(seg);
    let out = b.push(flow.segment(Flags::ACK));
    assert!(
        out.len() == 1 && out[0].flags.contains(Flags::RST),
        "{out:?}"
    );
    assert_eq!(out[0].dst, elsewhere(81));
    assert_eq!((b.stack.half_open(), b.stack.handles().count()), (0, 1));
}

/// Nothing of a connection is left whose first subflow is reset in the handshake.
#[test]
fn early_joins_end_with_a_handshake_that_is_reset() {
    let (mut b, flow) = half_open(AGREED);
    let (_, seg) = join_syn(&b, 81);
    b.push(seg);
    b.push(flow.segment(Flags::RST));
    assert_eq!((b.stack.half_open(), b.stack.handles().count()), (0, 0));
    assert_eq!(b.stack.next_timeout(), None);
}

/// As many as of an established connection whose third ACKs are missing.
#[test]
fn number_of_early_joins_is_limited() {
    let (mut b, flow) = half_open(AGREED);
    let mut refused = 0;
    for port in 81..101 {
        let (_, seg) = join_syn(&b, port);
        refused += b.push(seg).len();
    }
    assert_eq!(refused, 16);
    let third = third_ack(&b, &flow);
    assert_eq!(b.push(third).len() + refused, 20);
}
