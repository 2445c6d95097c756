//! What a stack reports to a link that shares its wire with another process.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use peer::{Bench, Flow, PEER_KEY, PEER_NONCE, capable, config, end, here, syn, there};
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{StackConfig, keys};
use spindle_units::Duration;
use spindle_wire::{Flags, MpJoin, Segment, SeqNumber};

fn bench() -> Bench {
    let stack = StackConfig {
        max_half_open: 1,
        ..StackConfig::default()
    };
    Bench::listening(config(Passive), stack)
}

fn expects(b: &Bench, segment: &Segment) -> bool {
    b.stack.expects(b.now, &segment.clone().into())
}

/// Sends a SYN. Returns the flow after the answer, and the stack's key.
fn open(b: &mut Bench, from: &str) -> (Flow, u64) {
    let mut flow = Flow::new(here(), end(from), 5000, SeqNumber(0));
    let mut seg = syn(&flow, Flags::SYN);
    seg.options.rare_mut().mp_capable = Some(capable(None, None));
    assert!(!expects(b, &seg), "it opens a connection");
    let out = b.push(seg);
    let answer = out.into_iter().find(|s| s.dst == flow.there).unwrap();
    flow.seq = flow.seq + 1;
    flow.ack = answer.seq + 1;
    let key = answer.options.rare.unwrap().mp_capable.unwrap();
    (flow, key.sender_key.unwrap())
}

fn third(flow: &Flow, key: u64) -> Segment {
    let mut seg = flow.segment(Flags::ACK);
    seg.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(key)));
    seg
}

#[test]
fn segments_and_joins_of_own_connections_are_expected_and_others_are_not() {
    let mut b = bench();
    let (flow, key) = open(&mut b, "10.0.0.2:80");
    assert_eq!(b.stack.half_open_ends(), [(here(), there())]);
    assert!(expects(&b, &third(&flow, key)));
    b.push(third(&flow, key));
    assert!(b.stack.half_open_ends().is_empty());
    assert!(expects(&b, &flow.segment(Flags::ACK)));
    let join = |token| {
        let other = Flow::new(here(), end("10.0.0.3:81"), 1, SeqNumber(0));
        let mut seg = syn(&other, Flags::SYN);
        seg.options.rare_mut().mp_join = Some(MpJoin::Syn {
            backup: false,
            address_id: 1,
            token,
            nonce: PEER_NONCE,
        });
        seg
    };
    assert!(expects(&b, &join(keys::token(key))));
    assert!(!expects(&b, &join(keys::token(key) ^ 1)));
    let stranger = Flow::new(here(), end("10.0.0.4:82"), 1, SeqNumber(1));
    for flags in [Flags::ACK, Flags::RST, Flags::FIN | Flags::ACK] {
        assert!(!expects(&b, &stranger.segment(flags)));
    }
}

#[test]
fn acknowledgement_of_an_own_cookie_is_expected_as_long_as_the_cookie_is_valid() {
    let mut b = bench();
    open(&mut b, "10.0.0.2:80");
    assert!(!b.stack.awaits_cookies(b.now));
    let (flow, key) = open(&mut b, "10.0.0.3:81");
    assert_eq!(b.stack.half_open_ends().len(), 1, "nothing is stored");
    assert!(b.stack.awaits_cookies(b.now));
    assert!(expects(&b, &third(&flow, key)));
    let mut forged = third(&flow, key);
    forged.ack = forged.ack + 1;
    assert!(!expects(&b, &forged));
    b.now += Duration::from_secs(200);
    assert!(!b.stack.awaits_cookies(b.now));
    assert!(!expects(&b, &third(&flow, key)));
}
