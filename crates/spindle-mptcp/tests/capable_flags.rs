//! Versions and flags of MP_CAPABLE (RFC 8684, section 3.1), in both roles. An option that is not understood is
//! ignored, and the connection is plain TCP.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use peer::{Bench, Flow, PEER_KEY, capable, config, here, syn, there};
use spindle_mptcp::StackConfig;
use spindle_mptcp::path_manager::Passive;
use spindle_wire::{Flags, MpCapable, Payload, Segment, SeqNumber};

/// Bit B of the flags, "the last of those for extensibility" (RFC 8684, section 3.1).
const EXTENSIBILITY: u8 = 0x40;

/// The option in four unacceptable variants, each with a description.
fn spoilt(option: MpCapable) -> [(MpCapable, &'static str); 4] {
    [
        (
            MpCapable {
                other_flags: EXTENSIBILITY,
                ..option
            },
            "bit B",
        ),
        (
            MpCapable {
                hmac_sha256: false,
                ..option
            },
            "no algorithm",
        ),
        (
            MpCapable {
                hmac_sha256: false,
                other_flags: 0x10,
                ..option
            },
            "another algorithm than HMAC-SHA256",
        ),
        (
            MpCapable {
                version: 0,
                ..option
            },
            "version 0",
        ),
    ]
}

fn passive() -> spindle_mptcp::Config {
    config(Passive)
}

fn is_multipath(b: &Bench) -> bool {
    let h = b.handle.or_else(|| b.stack.handles().next());
    b.stack.info(h.unwrap()).unwrap().multipath
}

/// A listening stack that received a SYN with this option. Returns its answer.
fn asked(option: MpCapable) -> (Bench, Flow, Segment) {
    let mut b = Bench::listening(passive(), StackConfig::default());
    let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let mut first = syn(&flow, Flags::SYN);
    first.options.rare_mut().mp_capable = Some(option);
    flow.seq = flow.seq + 1;
    let out = b.push(first);
    assert_eq!(out.len(), 1);
    flow.ack = out[0].seq + 1;
    (b, flow, out[0].clone())
}

/// The peer's next 1000 bytes without an MPTCP option are accepted as plain TCP data.
fn takes_plain_data(b: &mut Bench, flow: &mut Flow, how: &str) {
    assert!(!is_multipath(b), "{how}");
    let mut seg = flow.segment(Flags::ACK);
    seg.payload = Payload::Length(1000);
    flow.seq = flow.seq + 1000;
    let out = b.push(seg);
    assert_eq!(out[0].ack, flow.seq, "{how}");
    assert!(!out[0].options.has_mptcp(), "{how}");
    let h = b.handle.or_else(|| b.stack.handles().next());
    assert_eq!(b.stack.readable(h.unwrap()), 1000, "{how}");
}

#[test]
fn syn_with_unknown_mp_capable_is_answered_with_plain_tcp() {
    for (option, how) in spoilt(capable(None, None)) {
        let (mut b, mut flow, answer) = asked(option);
        assert!(!answer.options.has_mptcp(), "{how}");
        b.push(flow.segment(Flags::ACK));
        takes_plain_data(&mut b, &mut flow, how);
    }
}

#[test]
fn syn_ack_with_unknown_mp_capable_falls_back_to_plain_tcp() {
    for (option, how) in spoilt(capable(Some(PEER_KEY), None)) {
        let (mut b, mut flow, _) = Bench::connecting(passive(), StackConfig::default());
        let mut answer = syn(&flow, Flags::SYN | Flags::ACK);
        answer.options.rare_mut().mp_capable = Some(option);
        flow.seq = flow.seq + 1;
        let third = b.push(answer);
        assert!(!third[0].options.has_mptcp(), "{how}");
        takes_plain_data(&mut b, &mut flow, how);
    }
}

#[test]
fn third_ack_with_unknown_mp_capable_falls_back_to_plain_tcp() {
    let later = |option| {
        (
            MpCapable {
                version: 2,
                ..option
            },
            "version 2",
        )
    };
    for k in 0..5 {
        let (mut b, mut flow, answer) = asked(capable(None, None));
        let ours = answer.options.rare.unwrap().mp_capable.unwrap().sender_key;
        let keys = capable(Some(PEER_KEY), ours);
        let (option, how) = spoilt(keys).get(k).copied().unwrap_or(later(keys));
        let mut third = flow.segment(Flags::ACK);
        third.options.rare_mut().mp_capable = Some(option);
        b.push(third);
        takes_plain_data(&mut b, &mut flow, how);
    }
}

#[test]
fn third_ack_with_unknown_mp_capable_makes_a_cookie_connection_plain_tcp() {
    let cookies = StackConfig {
        max_half_open: 0,
        ..StackConfig::default()
    };
    for k in 0..4 {
        let mut b = Bench::listening(passive(), cookies.clone());
        let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
        let mut first = syn(&flow, Flags::SYN);
        first.options.rare_mut().mp_capable = Some(capable(None, None));
        flow.seq = flow.seq + 1;
        let out = b.push(first);
        flow.ack = out[0].seq + 1;
        let rare = out[0].options.rare.as_ref().unwrap();
        let ours = rare.mp_capable.unwrap().sender_key;
        let (option, how) = spoilt(capable(Some(PEER_KEY), ours))[k];
        let mut third = flow.segment(Flags::ACK);
        third.options.rare_mut().mp_capable = Some(option);
        b.push(third);
        takes_plain_data(&mut b, &mut flow, how);
    }
}

/// RFC 8684, section 3.1: the version of the answer "MUST be equal to or lower than the version number
/// indicated in the initial MP_CAPABLE".
#[test]
fn syn_with_a_later_mptcp_version_is_answered_with_version_1() {
    let (mut b, mut flow, answer) = asked(MpCapable {
        version: 2,
        ..capable(None, None)
    });
    let option = answer.options.rare.unwrap().mp_capable.unwrap();
    assert_eq!((option.version, option.hmac_sha256), (1, true));
    b.key = option.sender_key.unwrap();
    let mut third = flow.segment(Flags::ACK);
    third.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(b.key)));
    b.push(third);
    let seg = b.data(&mut flow, 0, 100);
    b.push(seg);
    assert!(is_multipath(&b));
}
