//! RFC 8684, segment by segment: one stack, and a peer whose segments are written by hand.

mod peer;

use peer::{Bench, Flow, PEER_KEY, capable, config, end, here, syn, there};
use spindle_mptcp::path_manager::{FullMesh, Passive, Ports};
use spindle_mptcp::{Event, StackConfig, SubflowId, keys};
use spindle_wire::{
    AddAddr, DataNumber, Dss, Flags, Mapping, MpJoin, MpPrio, Payload, RareOptions, RemoveAddr,
    ResetReason, Segment, SeqNumber,
};

fn passive() -> spindle_mptcp::Config {
    config(Passive)
}

fn rare(seg: &Segment) -> RareOptions {
    seg.options.rare.as_deref().cloned().unwrap_or_default()
}

fn mapping(seg: &Segment) -> Option<Mapping> {
    seg.options.dss.and_then(|d| d.mapping)
}

fn data_ack(seg: &Segment) -> Option<DataNumber> {
    seg.options.dss.and_then(|d| d.data_ack)
}

/// The stack's DATA_ACK once it has `offset` bytes of the peer.
fn acked(offset: u64) -> Option<DataNumber> {
    Some(DataNumber::Low(Bench::peer_dsn(offset) as u32))
}

impl Probe for Bench {
    fn multipath(&self) -> bool {
        let h = self.handle.or_else(|| self.stack.handles().next());
        self.stack.info(h.unwrap()).unwrap().multipath
    }

    fn send(&mut self, len: u32) -> Vec<Segment> {
        let h = self.handle.unwrap();
        let n = self.stack.send(self.now, h, Payload::Length(len)).unwrap();
        assert_eq!(n, len as usize);
        self.drain()
    }

    fn subflows(&self) -> usize {
        let info = self.stack.info(self.handle.unwrap());
        info.map_or(0, |i| i.subflows.len())
    }
}

/// What these tests need from the bench in addition to its own methods.
trait Probe {
    /// Whether the connection uses MPTCP.
    fn multipath(&self) -> bool;
    /// The application writes `len` bytes. Returns the segments that are sent.
    fn send(&mut self, len: u32) -> Vec<Segment>;
    /// Number of subflows.
    fn subflows(&self) -> usize;
}

fn low(dsn: u64) -> DataNumber {
    DataNumber::Low(dsn as u32)
}

/// The stack's data sequence number at a data offset.
fn dsn(b: &Bench, offset: u64) -> DataNumber {
    low(keys::idsn(b.key).wrapping_add(1).wrapping_add(offset))
}

/// RFC 8684, section 3.1: the SYN has no key. The third ACK and the first data have both keys, and the first
/// data also have their length. A DSS follows once the peer has shown that it has the key.
#[test]
fn the_client_sends_mp_capable_until_the_peer_has_the_keys() {
    let (mut b, mut flow, first) = Bench::connecting(passive(), StackConfig::default());
    assert_eq!(rare(&first).mp_capable, Some(capable(None, None)));
    let mut answer = syn(&flow, Flags::SYN | Flags::ACK);
    answer.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), None));
    flow.seq = flow.seq + 1;
    let third = b.push(answer);
    assert_eq!(third.len(), 1);
    let both = rare(&third[0]).mp_capable.unwrap();
    b.key = both.sender_key.unwrap();
    assert_eq!(both, capable(Some(b.key), Some(PEER_KEY)));
    assert!(third[0].options.dss.is_none());

    let out = b.send(100);
    assert_eq!(out.len(), 1);
    let with_data = rare(&out[0]).mp_capable.unwrap();
    assert_eq!(with_data.data_len, Some(100));
    assert_eq!(with_data.receiver_key, Some(PEER_KEY));
    assert!(out[0].options.dss.is_none());

    flow.take(&out);
    let seg = b.data_ack(&flow, 100);
    assert!(b.push(seg).is_empty());
    let out = b.send(50);
    assert!(rare(&out[0]).mp_capable.is_none());
    let expected = Mapping {
        dsn: dsn(&b, 100),
        ssn: 101,
        len: 50,
        checksum: None,
    };
    assert_eq!(mapping(&out[0]), Some(expected));
    assert_eq!(data_ack(&out[0]), acked(0));
}

/// RFC 8684, section 3.1: the server's key is on the SYN/ACK. The MP_CAPABLE of the first data is their
/// mapping.
#[test]
fn the_server_maps_the_first_data_by_their_mp_capable() {
    let (mut b, mut flow) = Bench::server(passive(), StackConfig::default());
    assert!(b.multipath());
    let mut seg = flow.segment(Flags::ACK);
    seg.payload = Payload::Length(100);
    let mut keys = capable(Some(PEER_KEY), Some(b.key));
    keys.data_len = Some(100);
    seg.options.rare_mut().mp_capable = Some(keys);
    flow.seq = flow.seq + 100;
    let out = b.push(seg);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].ack, flow.seq);
    assert_eq!(data_ack(&out[0]), acked(100));
    let out = b.send(10);
    let m = mapping(&out[0]).unwrap();
    assert_eq!((m.dsn, m.ssn, m.len), (dsn(&b, 0), 1, 10));
}

/// RFC 8684, section 3.1: the first data replace a third ACK that was lost.
#[test]
fn first_data_with_the_keys_complete_the_handshake() {
    let mut b = Bench::listening(passive(), StackConfig::default());
    let (mut flow, answer) = asked(&mut b, 1);
    let key = rare(&answer).mp_capable.unwrap().sender_key.unwrap();
    let mut seg = flow.segment(Flags::ACK);
    seg.payload = Payload::Length(100);
    let mut keys = capable(Some(PEER_KEY), Some(key));
    keys.data_len = Some(100);
    seg.options.rare_mut().mp_capable = Some(keys);
    flow.seq = flow.seq + 100;
    let out = b.push(seg);
    assert!(b.multipath());
    assert_eq!(out[0].ack, flow.seq);
    assert_eq!(data_ack(&out[0]), acked(100));
}

/// RFC 8684, section 3.1: no MP_CAPABLE on the SYN/ACK means plain TCP.
#[test]
fn a_syn_ack_without_mp_capable_means_plain_tcp() {
    let (mut b, flow, _) = Bench::connecting(passive(), StackConfig::default());
    let third = b.push(syn(&flow, Flags::SYN | Flags::ACK));
    assert!(!third[0].options.has_mptcp());
    assert!(!b.multipath());
    let out = b.send(100);
    assert!(!out[0].options.has_mptcp());
}

/// A SYN with MP_CAPABLE of this version arrives at a listening stack. Returns the peer's flow and the answer.
fn asked(b: &mut Bench, version: u8) -> (Flow, Segment) {
    let mut flow = Flow::new(here(), there(), 5000, SeqNumber(0));
    let mut first = syn(&flow, Flags::SYN);
    let mut option = capable(None, None);
    option.version = version;
    first.options.rare_mut().mp_capable = Some(option);
    flow.seq = flow.seq + 1;
    let out = b.push(first);
    assert_eq!(out.len(), 1);
    flow.ack = out[0].seq + 1;
    (flow, out[0].clone())
}

/// RFC 8684, sections 3.1 and 3.7: a third ACK without MP_CAPABLE means plain TCP.
#[test]
fn a_third_ack_without_mp_capable_means_plain_tcp() {
    let mut b = Bench::listening(passive(), StackConfig::default());
    let (mut flow, answer) = asked(&mut b, 1);
    assert!(rare(&answer).mp_capable.is_some());
    b.push(flow.segment(Flags::ACK));
    assert!(!b.multipath());
    let mut seg = flow.segment(Flags::ACK);
    seg.payload = Payload::Length(7);
    flow.seq = flow.seq + 7;
    let out = b.push(seg);
    assert_eq!(out[0].ack, flow.seq);
    assert!(!out[0].options.has_mptcp());
}

/// RFC 8684, section 3.7: a segment that does not acknowledge our SYN/ACK gives no information about MPTCP.
#[test]
fn an_unacceptable_ack_does_not_cause_a_fallback() {
    let mut b = Bench::listening(passive(), StackConfig::default());
    let (flow, answer) = asked(&mut b, 1);
    let key = rare(&answer).mp_capable.unwrap().sender_key.unwrap();
    let mut stray = flow.segment(Flags::ACK);
    stray.ack = flow.ack + 77_777;
    b.push(stray);
    let mut third = flow.segment(Flags::ACK);
    third.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(key)));
    b.push(third);
    assert!(b.multipath());
}

/// RFC 8684, section 3.1: only an ACK completes a passive open. A SYN/ACK does not, not even with a DATA_FIN
/// waiting.
#[test]
fn a_syn_ack_does_not_complete_a_passive_open() {
    let mut b = Bench::listening(passive(), StackConfig::default());
    let (mut flow, answer) = asked(&mut b, 1);
    flow.seq = flow.seq - 1;
    b.push(syn(&flow, Flags::SYN | Flags::ACK));
    let h = b.stack.handles().next().unwrap();
    assert!(!b.stack.info(h).unwrap().established);
    b.stack.close(b.now, h);
    assert!(b.drain().len() <= 1);
    flow.seq = flow.seq + 1;
    let key = rare(&answer).mp_capable.unwrap().sender_key.unwrap();
    let mut third = flow.segment(Flags::ACK);
    third.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), Some(key)));
    let out = b.push(third);
    assert!(
        out.iter()
            .any(|s| s.options.dss.is_some_and(|d| d.data_fin))
    );
}

/// RFC 8684, section 3.7: the server's first data without a DSS mean plain TCP.
#[test]
fn first_data_without_a_dss_mean_plain_tcp() {
    let (mut b, mut flow, _) = Bench::connecting(passive(), StackConfig::default());
    let mut answer = syn(&flow, Flags::SYN | Flags::ACK);
    answer.options.rare_mut().mp_capable = Some(capable(Some(PEER_KEY), None));
    flow.seq = flow.seq + 1;
    b.push(answer);
    assert!(b.multipath());
    let mut seg = flow.segment(Flags::ACK);
    seg.payload = Payload::Length(100);
    flow.seq = flow.seq + 100;
    let out = b.push(seg);
    assert!(!b.multipath());
    assert_eq!(out[0].ack, flow.seq);
    assert!(!out[0].options.has_mptcp());
    assert_eq!(b.stack.readable(b.handle.unwrap()), 100);
}

/// RFC 8684, section 3.1: after a number of SYNs, plain TCP is tried.
#[test]
fn the_fourth_syn_has_no_mp_capable() {
    let (mut b, _, first) = Bench::connecting(passive(), StackConfig::default());
    let mut with = vec![rare(&first).mp_capable.is_some()];
    for _ in 0..3 {
        let out = b.wait();
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].flags, out[0].seq), (Flags::SYN, first.seq));
        with.push(rare(&out[0]).mp_capable.is_some());
    }
    assert_eq!(with, [true, true, true, false]);
}

/// The stack as client, after the SYN of a second subflow. Returns the peer's flows and the nonce of the join.
fn joining() -> (Bench, Flow, Flow, u32) {
    let (b, first, out) = Bench::client(config(Ports(2)), StackConfig::default());
    let seg = out.iter().find(|s| s.flags == Flags::SYN).expect("a join");
    let Some(MpJoin::Syn { token, nonce, .. }) = rare(seg).mp_join else {
        panic!("{seg:?}");
    };
    assert_eq!(token, keys::token(PEER_KEY));
    let second = Flow::new(seg.src, seg.dst, 9000, seg.seq + 1);
    (b, first, second, nonce)
}

fn join_answer(b: &Bench, flow: &Flow, nonce: u32, wrong: u64) -> Segment {
    let hmac = keys::join_hmac(PEER_KEY, b.key, peer::PEER_NONCE, nonce);
    let mut seg = syn(flow, Flags::SYN | Flags::ACK);
    seg.options.rare_mut().mp_join = Some(MpJoin::SynAck {
        backup: false,
        address_id: 0,
        hmac: keys::leftmost_64(&hmac) ^ wrong,
        nonce: peer::PEER_NONCE,
    });
    seg
}

/// RFC 8684, section 3.2: the third ACK carries 160 bits of HMAC and is repeated on a timer. No data are sent
/// on the subflow before the fourth ACK.
#[test]
fn a_joining_client_sends_no_data_before_the_fourth_ack() {
    let (mut b, mut first, mut second, nonce) = joining();
    let answer = join_answer(&b, &second, nonce, 0);
    second.seq = second.seq + 1;
    let third = b.push(answer);
    let hmac = keys::join_hmac(b.key, PEER_KEY, nonce, peer::PEER_NONCE);
    let expected = Some(MpJoin::Ack {
        hmac: keys::leftmost_160(&hmac),
    });
    assert_eq!(third.len(), 1);
    assert_eq!(rare(&third[0]).mp_join, expected);

    let out = b.send(40_000);
    assert!(out.iter().all(|s| s.src == first.here), "{out:?}");
    first.take(&out);
    let seg = b.data_ack(&first, u64::from(first.ack.0.wrapping_sub(out[0].seq.0)));
    let out = b.push(seg);
    assert!(!out.is_empty() && out.iter().all(|s| s.src == first.here));
    first.take(&out);
    b.push(first.segment(Flags::ACK));

    let again = (0..10).find_map(|_| b.wait().into_iter().find(|s| s.src == second.here));
    assert_eq!(rare(&again.expect("a repeat")).mp_join, expected);

    let fourth = b.data_ack(&second, 0);
    b.push(fourth);
    let out = b.send(200_000);
    assert!(
        out.iter()
            .any(|s| s.src == second.here && !s.payload.is_empty())
    );
}

/// RFC 8684, section 3.2: a SYN/ACK with a wrong HMAC is answered with a reset. The connection continues.
#[test]
fn a_join_answered_with_a_wrong_hmac_is_reset() {
    let (mut b, _, second, nonce) = joining();
    let answer = join_answer(&b, &second, nonce, 1);
    let out = b.push(answer);
    assert_eq!(out.len(), 1);
    assert!(out[0].flags.contains(Flags::RST));
    let reason = rare(&out[0]).mp_tcprst.map(|r| r.reason);
    assert_eq!(reason, Some(ResetReason::MptcpSpecific));
    assert_eq!(b.subflows(), 1);
}

/// RFC 8684, section 3.2: the third ACK with the right HMAC is answered with the fourth ACK at once.
#[test]
fn a_join_with_the_right_hmac_gets_its_fourth_ack() {
    let (mut b, _) = Bench::server(passive(), StackConfig::default());
    let (flow, out) = b.join(end("10.0.1.2:999"), 1, 0);
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].flags, out[0].ack), (Flags::ACK, flow.seq));
    assert_eq!(data_ack(&out[0]), acked(0));
    assert_eq!(b.subflows(), 2);
}

/// RFC 8684, sections 3.2 and 3.6: a wrong HMAC is answered with a reset that has an MPTCP-specific reason.
#[test]
fn a_join_with_a_wrong_hmac_is_reset() {
    let (mut b, _) = Bench::server(passive(), StackConfig::default());
    let (_, out) = b.join(end("10.0.1.2:999"), 1, 1);
    assert_eq!(out.len(), 1);
    assert!(out[0].flags.contains(Flags::RST));
    let reason = rare(&out[0]).mp_tcprst.map(|r| r.reason);
    assert_eq!(reason, Some(ResetReason::MptcpSpecific));
    assert_eq!(b.subflows(), 1);
}

/// RFC 8684, section 3.2: an unknown token is refused with a reset.
#[test]
fn a_join_with_an_unknown_token_is_reset() {
    let (mut b, _) = Bench::server(passive(), StackConfig::default());
    let (_, seg) = b.join_syn(end("10.0.1.2:999"), 1, !keys::token(b.key));
    let out = b.push(seg);
    assert_eq!(out.len(), 1);
    assert!(out[0].flags.contains(Flags::RST));
    assert_eq!(b.subflows(), 1);
}

/// RFC 8684, section 3.3.1: both 8-byte and 4-byte data sequence numbers are understood.
#[test]
fn eight_byte_data_sequence_numbers_are_understood() {
    let (mut b, mut flow) = Bench::server(passive(), StackConfig::default());
    let out = b.send(100);
    flow.take(&out);
    let mut seg = b.data(&mut flow, 0, 50);
    let full = keys::idsn(b.key).wrapping_add(101);
    seg.options.dss = Some(Dss {
        data_ack: Some(DataNumber::Full(full)),
        mapping: Some(Mapping {
            dsn: DataNumber::Full(Bench::peer_dsn(0)),
            ssn: 1,
            len: 50,
            checksum: None,
        }),
        data_fin: false,
    });
    let out = b.push(seg);
    let acked = DataNumber::Full(Bench::peer_dsn(50));
    assert_eq!(data_ack(&out[0]), Some(acked));
    let info = b.stack.info(b.handle.unwrap()).unwrap();
    assert_eq!((info.acknowledged, info.received), (100, 50));
}

/// RFC 8684, section 3.3.1: one mapping may cover many segments. Only the first segment must carry it.
#[test]
fn one_mapping_covers_many_segments() {
    let (mut b, mut flow) = Bench::server(passive(), StackConfig::default());
    let whole = b.data(&mut flow.clone(), 0, 64_000);
    let mut at = 0;
    while at < 64_000 {
        let len = (64_000 - at).min(1400);
        let mut seg = b.data_ack(&flow, 0);
        if at == 0 {
            seg.options.dss = whole.options.dss;
        }
        seg.payload = Payload::Length(len);
        flow.seq = flow.seq + len;
        at += len;
        let out = b.push(seg);
        assert_eq!(data_ack(out.last().unwrap()), acked(u64::from(at)));
    }
    assert_eq!(b.stack.readable(b.handle.unwrap()), 64_000);
}

/// RFC 8684, section 3.3.1: a mapping is immutable. A contradicting mapping resets the subflow.
#[test]
fn a_contradicting_mapping_resets_the_subflow() {
    let (mut b, mut flow) = Bench::server(passive(), StackConfig::default());
    b.join(end("10.0.1.2:999"), 1, 0);
    let mut seg = b.data(&mut flow.clone(), 0, 1000);
    seg.payload = Payload::Length(100);
    flow.seq = flow.seq + 100;
    b.push(seg);
    let seg = b.data(&mut flow, 5000, 100);
    let out = b.push(seg);
    let rst = out.iter().find(|s| s.flags.contains(Flags::RST));
    assert_eq!(rst.expect("a reset").dst, flow.there);
    assert_eq!(b.subflows(), 1);
}

/// RFC 8684, section 3.3.6: a retransmission on the same subflow repeats the same mapping.
#[test]
fn a_retransmission_repeats_its_mapping() {
    let (mut b, mut flow) = Bench::server(passive(), StackConfig::default());
    let sent = b.send(1000);
    flow.take(&sent);
    let out = b.wait();
    assert_eq!(out[0].seq, sent[0].seq);
    assert_eq!(out[0].payload, sent[0].payload);
    assert_eq!(mapping(&out[0]), mapping(&sent[0]));
    assert!(mapping(&out[0]).is_some());
}

/// RFC 8684, section 3.3.3: a DATA_FIN without data has length 1 and SSN 0. It is repeated until it is
/// acknowledged. Subflows are closed once both ends have sent their DATA_FIN.
#[test]
fn a_data_fin_without_data_is_repeated_and_subflows_close_after_both_data_fins() {
    let (mut b, mut flow) = Bench::server(passive(), StackConfig::default());
    b.stack.shutdown(b.now, b.handle.unwrap());
    let out = b.drain();
    assert_eq!(out.len(), 1);
    let expected = Mapping {
        dsn: dsn(&b, 0),
        ssn: 0,
        len: 1,
        checksum: None,
    };
    for seg in [&out[0], &b.wait()[0], &b.wait()[0]] {
        assert!(!seg.flags.contains(Flags::FIN));
        assert!(seg.options.dss.unwrap().data_fin);
        assert_eq!(mapping(seg), Some(expected));
    }
    let seg = b.data_ack(&flow, 1);
    assert!(b.push(seg).is_empty());
    assert!(!b.wait().iter().any(|s| s.flags.contains(Flags::FIN)));

    let mut fin = b.data(&mut flow.clone(), 0, 1);
    fin.payload = Payload::EMPTY;
    if let Some(dss) = &mut fin.options.dss {
        if let Some(m) = &mut dss.mapping {
            m.ssn = 0;
        }
        dss.data_fin = true;
        dss.data_ack = Some(dsn(&b, 1));
    }
    let out = b.push(fin);
    assert!(out.iter().any(|s| s.flags.contains(Flags::FIN)), "{out:?}");
    assert!(out.iter().any(|s| data_ack(s) == acked(1)));
    flow.take(&out);
    let out = b.push(flow.segment(Flags::ACK | Flags::FIN));
    assert_eq!(out[0].ack, flow.seq + 1);
}

/// The peer announces `10.0.2.2` as address 5.
fn announced(b: &Bench, wrong: u64) -> AddAddr {
    let addr = "10.0.2.2".parse().unwrap();
    AddAddr {
        echo: false,
        address_id: 5,
        addr,
        port: None,
        hmac: Some(keys::add_addr_hmac(PEER_KEY, b.key, 5, addr, None) ^ wrong),
    }
}

/// RFC 8684, section 3.4.1: a valid ADD_ADDR is echoed, and the full mesh joins the address.
#[test]
fn a_valid_add_addr_is_echoed_and_joined() {
    let (mut b, flow, _) = Bench::client(config(FullMesh), StackConfig::default());
    let mut seg = b.data_ack(&flow, 0);
    seg.options.rare_mut().add_addr = vec![announced(&b, 0)];
    let out = b.push(seg);
    let echo = AddAddr {
        echo: true,
        hmac: None,
        ..announced(&b, 0)
    };
    assert!(out.iter().any(|s| rare(s).add_addr == [echo]), "{out:?}");
    let join = out.iter().find(|s| s.flags == Flags::SYN).expect("a join");
    assert_eq!(join.dst, end("10.0.2.2:80"));
    assert!(matches!(rare(join).mp_join, Some(MpJoin::Syn { .. })));
}

/// RFC 8684, section 3.4.1: an ADD_ADDR with a wrong HMAC is ignored.
#[test]
fn an_add_addr_with_a_wrong_hmac_is_neither_echoed_nor_joined() {
    let (mut b, flow, _) = Bench::client(config(FullMesh), StackConfig::default());
    let mut seg = b.data_ack(&flow, 0);
    seg.options.rare_mut().add_addr = vec![announced(&b, 1)];
    let out = b.push(seg);
    assert!(out.iter().all(|s| rare(s).add_addr.is_empty()), "{out:?}");
    assert!(!out.iter().any(|s| s.flags.contains(Flags::SYN)));
}

/// RFC 8684, section 3.4.1: an announcement is repeated until it is echoed.
#[test]
fn an_add_addr_is_repeated_until_it_is_echoed() {
    let (mut b, flow) = Bench::server(passive(), StackConfig::default());
    let addr = "10.0.3.1".parse().unwrap();
    b.stack
        .announce_address(b.now, b.handle.unwrap(), addr, None);
    let out = b.drain();
    let option = rare(&out[0]).add_addr[0];
    let hmac = keys::add_addr_hmac(b.key, PEER_KEY, option.address_id, addr, None);
    assert_eq!((option.addr, option.hmac), (addr, Some(hmac)));
    assert_eq!(rare(&b.wait()[0]).add_addr, [option]);
    let mut seg = b.data_ack(&flow, 0);
    seg.options.rare_mut().add_addr = vec![AddAddr {
        echo: true,
        hmac: None,
        ..option
    }];
    b.push(seg);
    assert!(b.wait().iter().all(|s| rare(s).add_addr.is_empty()));
}

/// The first reset that the stack's timers cause.
fn reset_in_time(b: &mut Bench) -> Segment {
    let reset = |out: Vec<Segment>| out.into_iter().find(|s| s.flags.contains(Flags::RST));
    let found = (0..10).find_map(|_| reset(b.wait()));
    found.expect("a reset")
}

/// RFC 8684, section 3.4.2: REMOVE_ADDR closes the subflows of that address once their probes stay unanswered.
#[test]
fn remove_addr_closes_the_subflows_of_the_address() {
    let (mut b, flow) = Bench::server(passive(), StackConfig::default());
    let (second, _) = b.join(end("10.0.1.2:999"), 3, 0);
    let mut seg = b.data_ack(&flow, 0);
    seg.options.rare_mut().remove_addr = Some(RemoveAddr {
        address_ids: vec![3],
    });
    b.push(seg);
    let rst = reset_in_time(&mut b);
    assert_eq!(rst.dst, second.there);
    assert_eq!(b.subflows(), 1);
}

/// RFC 8684, section 3.4.2: REMOVE_ADDR may arrive with data on a later subflow and concern the first subflow.
/// The application receives one event.
#[test]
fn remove_addr_of_the_first_subflow_may_arrive_with_data_on_the_second() {
    let (mut b, flow) = Bench::server(passive(), StackConfig::default());
    let (mut second, _) = b.join(end("10.0.1.2:999"), 3, 0);
    while b.stack.poll_event().is_some() {}
    let mut seg = b.data(&mut second, 0, 10);
    seg.options.rare_mut().remove_addr = Some(RemoveAddr {
        address_ids: vec![0],
    });
    let out = b.push(seg);
    let ack = out.iter().find(|s| s.dst == second.there);
    assert_eq!(data_ack(ack.expect("an ACK")), acked(10));
    let rst = reset_in_time(&mut b);
    assert_eq!(rst.dst, flow.there);
    let events: Vec<_> = std::iter::from_fn(|| b.stack.poll_event()).collect();
    let down = |e: &&Event| {
        matches!(
            e,
            Event::SubflowDown {
                subflow: SubflowId(0),
                ..
            }
        )
    };
    assert_eq!(events.iter().filter(down).count(), 1, "{events:?}");
}

/// RFC 8684, sections 3.3.8 and 3.4.2: this end's own signals. MP_PRIO is sent on the subflow that it concerns.
/// REMOVE_ADDR contains the identifier that was announced.
#[test]
fn own_priority_changes_and_withdrawn_addresses_are_sent_to_the_peer() {
    let (mut b, flow) = Bench::server(passive(), StackConfig::default());
    let h = b.handle.unwrap();
    let (second, _) = b.join(end("10.0.1.2:999"), 1, 0);
    b.stack.set_backup(b.now, h, SubflowId(1), true);
    let out = b.drain();
    assert_eq!((out.len(), out[0].dst), (1, second.there));
    assert_eq!(rare(&out[0]).mp_prio, Some(MpPrio { backup: true }));

    let addr = "10.0.3.1".parse().unwrap();
    b.stack.announce_address(b.now, h, addr, None);
    let id = rare(&b.drain()[0]).add_addr[0].address_id;
    b.stack.withdraw_address(b.now, h, addr);
    let out = b.drain();
    assert_eq!(out[0].dst, flow.there);
    assert_eq!(rare(&out[0]).remove_addr.unwrap().address_ids, [id]);
    assert_eq!(b.subflows(), 2);
}

/// RFC 8684, section 3.3.8: MP_PRIO makes a subflow a backup, which is used only if there is no other subflow.
#[test]
fn mp_prio_makes_a_subflow_a_backup() {
    let (mut b, flow) = Bench::server(passive(), StackConfig::default());
    let (second, _) = b.join(end("10.0.1.2:999"), 1, 0);
    let mut seg = b.data_ack(&second, 0);
    seg.options.rare_mut().mp_prio = Some(MpPrio { backup: true });
    b.push(seg);
    let out = b.send(40_000);
    assert!(!out.is_empty() && out.iter().all(|s| s.dst == flow.there));
    let mut seg = b.data_ack(&second, 0);
    seg.options.rare_mut().mp_prio = Some(MpPrio { backup: false });
    let out = b.push(seg);
    assert!(
        out.iter()
            .any(|s| s.dst == second.there && !s.payload.is_empty())
    );
}

/// RFC 8684, section 3.5: MP_FASTCLOSE with our key ends every subflow with a reset. MP_FASTCLOSE with another
/// key is ignored.
#[test]
fn a_fast_close_with_our_key_ends_the_connection() {
    let (mut b, flow) = Bench::server(passive(), StackConfig::default());
    b.join(end("10.0.1.2:999"), 1, 0);
    let mut seg = b.data_ack(&flow, 0);
    seg.options.rare_mut().mp_fastclose = Some(!b.key);
    b.push(seg.clone());
    assert_eq!(b.subflows(), 2);
    seg.options.rare_mut().mp_fastclose = Some(b.key);
    let out = b.push(seg);
    assert_eq!(
        out.iter().filter(|s| s.flags.contains(Flags::RST)).count(),
        2
    );
    assert_eq!(b.subflows(), 0);
}

/// RFC 8684, section 3.5: aborting sends MP_FASTCLOSE with the peer's key.
#[test]
fn an_abort_sends_a_fast_close_with_the_peers_key() {
    let (mut b, _) = Bench::server(passive(), StackConfig::default());
    b.stack.abort(b.now, b.handle.unwrap());
    let out = b.drain();
    assert!(out[0].flags.contains(Flags::RST));
    assert_eq!(rare(&out[0]).mp_fastclose, Some(PEER_KEY));
}

/// RFC 8684, section 3.3.6: data that a reset subflow had in flight are reinjected on another, with the same
/// data sequence numbers.
#[test]
fn data_in_flight_on_a_reset_subflow_are_reinjected() {
    let (mut b, flow) = Bench::server(passive(), StackConfig::default());
    b.join(end("10.0.1.2:999"), 1, 0);
    let sent = b.send(3000);
    let on_first: Vec<_> = sent.iter().filter(|s| s.dst == flow.there).collect();
    assert!(!on_first.is_empty());
    let out = b.push(flow.segment(Flags::RST | Flags::ACK));
    assert_eq!(b.subflows(), 1);
    let again: Vec<_> = out.iter().filter_map(mapping).map(|m| m.dsn).collect();
    for s in on_first {
        assert!(again.contains(&mapping(s).unwrap().dsn), "{again:?}");
    }
}

/// RFC 8684, section 3.3.4: the window is relative to the DATA_ACK, whichever subflow carries it.
#[test]
fn the_data_level_window_is_relative_to_the_data_ack() {
    let (mut b, mut flow) = Bench::server(passive(), StackConfig::default());
    let mut total = 0u64;
    let mut out = b.send(200_000);
    // Data are acknowledged on the subflow only, so the data-level window does not move.
    for _ in 0..40 {
        total += out.iter().map(|s| s.payload.len() as u64).sum::<u64>();
        flow.take(&out);
        let seg = b.data_ack(&flow, 0);
        out = b.push(seg);
    }
    // The rest of the window is smaller than a segment.
    let full = |sent: u64, edge: u64| sent <= edge && sent + 1460 > edge;
    assert!(full(total, 60_000), "{total} bytes");
    let seg = b.data_ack(&flow, 10_000);
    let out = b.push(seg);
    total += out.iter().map(|s| s.payload.len() as u64).sum::<u64>();
    assert!(full(total, 70_000), "{total} bytes");
}
