//! RFC 9293 and its companion documents, segment by segment: one stack, and a peer whose segments are written
//! by hand.

mod script;

use script::{MSS, PEER_ISS, Peer, RTT, one, plain};
use spindle_mptcp::{CloseReason, Event, Keepalive, StackError, TcpState};
use spindle_units::Duration;
use spindle_wire::{Flags, Payload, Segment, SeqNumber, Timestamps};

const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);
const FIN_ACK: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);

fn bare_ack(seg: &Segment) -> bool {
    seg.flags == Flags::ACK && seg.payload.is_empty()
}

/// A stack that listens at the destination of the peer's segments.
fn listening() -> Peer {
    let mut p = Peer::new();
    let here = p.segment(Flags::NONE).dst;
    p.stack.listen(here, std::sync::Arc::new(plain())).unwrap();
    p
}

fn closed(p: &mut Peer) -> Option<CloseReason> {
    std::iter::from_fn(|| p.stack.poll_event()).find_map(|e| match e {
        Event::Closed { reason, .. } => Some(reason),
        _ => None,
    })
}

fn close(p: &mut Peer) -> Vec<Segment> {
    p.stack.close(p.now, p.handle.unwrap());
    p.drain()
}

/// RFC 9293, section 3.5: SYN, SYN/ACK, ACK.
#[test]
fn an_active_open_takes_three_segments() {
    let (mut p, syn) = Peer::connecting(plain());
    assert_eq!(syn.flags, Flags::SYN);
    let answer = p.syn(SYN_ACK);
    let ack = one(p.push(answer));
    assert!(bare_ack(&ack));
    assert_eq!((ack.seq, ack.ack), (syn.seq + 1, PEER_ISS + 1));
    assert_eq!(p.info().state, TcpState::Established);
    assert!(matches!(
        p.stack.poll_event(),
        Some(Event::Connected { .. })
    ));
}

/// RFC 9293, section 3.10.7.2 and 3.10.7.4: the connection is in SYN-RECEIVED until our SYN is acknowledged.
#[test]
fn a_passive_open_is_reported_with_the_third_segment() {
    let mut p = listening();
    let syn = p.syn(Flags::SYN);
    let answer = one(p.push(syn));
    assert_eq!(answer.flags, SYN_ACK);
    assert_eq!(answer.ack, PEER_ISS + 1);
    assert_eq!(p.stack.poll_event(), None);
    (p.seq, p.ack) = (p.seq + 1, answer.seq + 1);
    let third = p.segment(Flags::ACK);
    assert_eq!(p.push(third), []);
    assert!(matches!(p.stack.poll_event(), Some(Event::Accepted { .. })));
}

/// RFC 9293, section 3.5, figure 7.
#[test]
fn a_simultaneous_open_ends_in_established() {
    let (mut p, syn) = Peer::connecting(plain());
    let theirs = p.syn(Flags::SYN);
    let answer = one(p.push(theirs));
    assert_eq!(answer.flags, SYN_ACK);
    assert_eq!((answer.seq, answer.ack), (syn.seq, PEER_ISS + 1));
    let theirs = p.syn(SYN_ACK);
    p.push(theirs);
    assert_eq!(p.info().state, TcpState::Established);
    p.seq = p.seq + 1;
    assert_eq!(one(p.send(10)).seq, syn.seq + 1);
}

/// RFC 9293, section 3.10.7.3: a reset that acknowledges the SYN refuses the connection. A reset that does not
/// acknowledge it is ignored.
#[test]
fn a_reset_that_acknowledges_the_syn_refuses_the_connection() {
    let (mut p, syn) = Peer::connecting(plain());
    let mut rst = p.segment(Flags::RST | Flags::ACK);
    rst.ack = syn.seq;
    assert_eq!(p.push(rst.clone()), []);
    assert_eq!(closed(&mut p), None);
    rst.ack = syn.seq + 1;
    assert_eq!(p.push(rst), []);
    assert_eq!(closed(&mut p), Some(CloseReason::Refused));
}

/// RFC 9293, section 3.10.7.1: a segment of no connection is answered with a reset, unless it is a reset
/// itself.
#[test]
fn data_to_a_closed_port_are_reset() {
    let mut p = Peer::new();
    p.ack = SeqNumber(77);
    let seg = p.data(10);
    let rst = one(p.push(seg));
    assert_eq!((rst.flags, rst.seq), (Flags::RST, SeqNumber(77)));
    let mut seg = p.data(10);
    seg.flags = Flags::NONE;
    let rst = one(p.push(seg));
    assert_eq!(rst.flags, Flags::RST | Flags::ACK);
    assert_eq!(rst.ack, p.seq);
    let seg = p.segment(Flags::RST);
    assert_eq!(p.push(seg), []);
}

/// RFC 9293, section 3.6, case 3: both FINs cross, and both ends enter CLOSING and then TIME-WAIT.
#[test]
fn a_simultaneous_close_goes_through_closing() {
    let mut p = Peer::establish(plain());
    assert_eq!(one(close(&mut p)).flags, FIN_ACK);
    let fin = p.segment(FIN_ACK);
    let ack = one(p.push(fin));
    p.seq = p.seq + 1;
    assert_eq!(ack.ack, p.seq);
    assert_eq!(p.info().state, TcpState::Closing);
    p.ack = p.ack + 1;
    let seg = p.segment(Flags::ACK);
    assert_eq!(p.push(seg), []);
    assert_eq!(closed(&mut p), Some(CloseReason::Finished));
}

/// RFC 9293, section 3.6, case 2: after the peer's FIN we may still send data.
#[test]
fn a_half_closed_connection_still_sends() {
    let mut p = Peer::establish(plain());
    let fin = p.segment(FIN_ACK);
    p.push(fin);
    p.seq = p.seq + 1;
    assert_eq!(p.info().state, TcpState::CloseWait);
    let seg = one(p.send(500));
    assert_eq!((seg.payload.len(), seg.ack), (500, p.seq));
    assert_eq!(one(close(&mut p)).flags, FIN_ACK);
    assert_eq!(p.info().state, TcpState::LastAck);
    p.ack = p.ack + 501;
    let seg = p.segment(Flags::ACK);
    assert_eq!(p.push(seg), []);
    assert_eq!(closed(&mut p), Some(CloseReason::Finished));
}

/// RFC 5961, section 3.2: only a reset with the exact sequence number resets the connection. A reset elsewhere
/// in the window is challenged, and a reset outside the window is ignored.
#[test]
fn only_a_reset_with_the_exact_sequence_number_is_accepted() {
    let mut p = Peer::establish(plain());
    let mut rst = p.segment(Flags::RST);
    rst.seq = p.seq + 100;
    let ack = one(p.push(rst.clone()));
    assert!(bare_ack(&ack));
    assert_eq!(ack.ack, p.seq);
    rst.seq = p.seq - 1;
    assert_eq!(p.push(rst.clone()), []);
    assert_eq!(closed(&mut p), None);
    rst.seq = p.seq;
    assert_eq!(p.push(rst), []);
    assert_eq!(closed(&mut p), Some(CloseReason::Reset));
}

/// RFC 5961, sections 4.2 and 7: a SYN is answered with a challenge ACK, at most ten times in five seconds.
#[test]
fn a_syn_on_an_established_connection_is_challenged_at_a_limited_rate() {
    let mut p = Peer::establish(plain());
    let syn = p.syn(Flags::SYN);
    let answers: Vec<_> = (0..30).flat_map(|_| p.push(syn.clone())).collect();
    assert_eq!(answers.len(), 10);
    assert!(answers.iter().all(|a| bare_ack(a) && a.ack == p.seq));
    assert_eq!(p.after(Duration::from_secs(6), syn).len(), 1);
    assert_eq!(p.info().state, TcpState::Established);
}

/// RFC 9293, section 3.10.7.4, fifth check: data with an acknowledgement of unsent data are not accepted.
#[test]
fn data_with_an_ack_of_unsent_data_are_answered_and_dropped() {
    let mut p = Peer::establish(plain());
    let mut seg = p.segment(Flags::ACK);
    seg.ack = p.ack + 1;
    seg.payload = Payload::Length(10);
    let ack = one(p.push(seg));
    assert!(bare_ack(&ack));
    assert_eq!(ack.ack, p.seq);
}

/// RFC 2883, section 4: data that were received before are acknowledged again with a D-SACK.
#[test]
fn old_data_are_answered_with_a_dsack() {
    let mut p = Peer::establish(plain());
    let start = p.seq;
    let seg = p.data(100);
    p.push(seg.clone());
    let ack = one(p.push(seg));
    assert_eq!(ack.ack, start + 100);
    assert_eq!(ack.options.sack.as_slice(), [(start, start + 100)]);
}

/// RFC 9293, section 3.7.1: segments have 536 bytes if the peer sent no MSS option.
#[test]
fn without_an_mss_option_segments_have_536_bytes() {
    let (mut p, _) = Peer::connecting(plain());
    let answer = p.segment(SYN_ACK);
    p.push(answer);
    p.seq = p.seq + 1;
    let lens: Vec<_> = p.send(1072).iter().map(|s| s.payload.len()).collect();
    assert_eq!(lens, [536, 536]);
    assert_eq!(p.info().mss, 536);
}

/// RFC 9293, section 3.8.1: the SYN is repeated at doubled intervals. Then the attempt fails.
#[test]
fn a_syn_is_repeated_at_doubled_intervals_and_then_fails() {
    let mut config = plain();
    config.tcp.syn_retries = 3;
    let (mut p, syn) = Peer::connecting(config);
    for secs in [1, 2, 4] {
        let (wait, out) = p.wait();
        assert_eq!(wait, Duration::from_secs(secs));
        let again = one(out);
        assert_eq!((again.flags, again.seq), (Flags::SYN, syn.seq));
    }
    assert_eq!(p.wait().1, []);
    assert_eq!(closed(&mut p), Some(CloseReason::ConnectTimeout));
}

/// RFC 9293, section 3.8.3: data that stay unacknowledged for the user timeout end the connection.
#[test]
fn unacknowledged_data_end_the_connection_after_the_user_timeout() {
    let mut config = plain();
    config.tcp.user_timeout = Duration::from_secs(5);
    let mut p = Peer::establish(config);
    let start = p.now;
    p.send(100);
    while closed(&mut p).is_none() {
        assert!(!p.wait().1.is_empty(), "a reset at the latest");
    }
    assert_eq!(p.now.since(start), Duration::from_secs(5));
}

/// RFC 9293, section 3.8.4: probes have an old sequence number. If they stay unanswered, the connection ends.
#[test]
fn unanswered_keepalive_probes_end_the_connection() {
    let mut config = plain();
    config.tcp.keepalive = Some(Keepalive {
        idle: Duration::from_secs(100),
        interval: Duration::from_secs(10),
        probes: 2,
    });
    let mut p = Peer::establish(config);
    let (wait, out) = p.wait();
    assert_eq!(wait, Duration::from_secs(100));
    assert_eq!(one(out).seq, p.ack - 1);
    let seg = p.segment(Flags::ACK);
    assert_eq!(p.push(seg), [], "an answer restarts the idle time");
    assert_eq!(p.wait().0, Duration::from_secs(100));
    assert_eq!(p.wait().0, Duration::from_secs(10));
    p.wait();
    assert_eq!(closed(&mut p), Some(CloseReason::KeepaliveTimeout));
}

/// RFC 9293, section 3.8.6.1: a closed window is probed at doubled intervals. Data are sent when it opens.
#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let mut p = Peer::establish(plain());
    p.window = 0;
    let seg = p.segment(Flags::ACK);
    p.push(seg);
    assert_eq!(p.send(500), []);
    let (first, out) = p.wait();
    assert_eq!(one(out).seq, p.ack - 1);
    let seg = p.segment(Flags::ACK);
    assert_eq!(p.after(Duration::ZERO, seg), []);
    let (second, out) = p.wait();
    assert_eq!(one(out).seq, p.ack - 1);
    assert_eq!(second, first * 2);
    p.window = 4000;
    let seg = p.segment(Flags::ACK);
    let data = one(p.push(seg));
    assert_eq!((data.seq, data.payload.len()), (p.ack, 500));
}

/// RFC 9293, section 3.8.6.2.1: no small segment is sent into a small window while a larger segment may become
/// possible.
#[test]
fn a_small_window_opening_does_not_cause_a_small_segment() {
    let mut p = Peer::establish(plain());
    p.window = 0;
    let seg = p.segment(Flags::ACK);
    p.push(seg);
    p.send(5 * MSS);
    p.window = 100;
    let seg = p.segment(Flags::ACK);
    assert_eq!(p.push(seg), []);
    p.window = 1000;
    let seg = p.segment(Flags::ACK);
    assert_eq!(one(p.push(seg)).payload.len(), 1000);
}

/// RFC 9293, section 3.8.6.2.2: the window neither shrinks nor opens in small steps.
#[test]
fn the_receive_window_does_not_shrink_and_opens_in_large_steps() {
    let mut config = plain();
    config.tcp.receive_buffer = 10_000;
    let mut p = Peer::establish(config);
    let mut edge = p.seq;
    for _ in 0..10 {
        let seg = p.data(MSS);
        for ack in p.push(seg) {
            let right = ack.ack + u32::from(ack.window);
            assert!(!right.before(edge), "the window shrank");
            edge = right;
        }
    }
    assert_eq!(edge, p.seq, "the window is closed");
    let h = p.handle.unwrap();
    p.stack.recv(p.now, h, 100).unwrap();
    assert_eq!(p.drain(), [], "100 bytes are not worth a window update");
    while p.stack.recv(p.now, h, usize::MAX).unwrap().is_some() {}
    assert!(one(p.drain()).window >= 1000);
}

/// RFC 9293, section 3.7.4: a small segment waits until outstanding data are acknowledged.
#[test]
fn nagle_delays_the_second_small_segment() {
    let mut config = plain();
    config.tcp.nagle = true;
    let mut p = Peer::establish(config);
    assert_eq!(one(p.send(100)).payload.len(), 100);
    assert_eq!(p.send(100), []);
    assert_eq!(p.send(100), []);
    p.ack = p.ack + 100;
    let seg = p.segment(Flags::ACK);
    assert_eq!(one(p.push(seg)).payload.len(), 200);
}

/// RFC 9293, section 3.8.6.3, and RFC 5681, section 4.2: every second segment is acknowledged, or a single
/// segment after the delay. Out-of-order data are acknowledged at once.
#[test]
fn acks_are_delayed_for_one_segment_but_not_for_two_or_out_of_order_data() {
    let mut config = plain();
    config.tcp.delayed_ack = Some(Duration::from_millis(40));
    let mut p = Peer::establish(config);
    let seg = p.data(MSS);
    assert_eq!(p.push(seg), []);
    let seg = p.data(MSS);
    assert_eq!(one(p.push(seg)).ack, p.seq);
    let seg = p.data(MSS);
    assert_eq!(p.push(seg), []);
    let (wait, out) = p.wait();
    assert_eq!(wait, Duration::from_millis(40));
    assert_eq!(one(out).ack, p.seq);
    let hole = p.seq;
    p.seq = p.seq + MSS;
    let seg = p.data(MSS);
    let ack = one(p.push(seg));
    assert_eq!(ack.ack, hole);
    assert_eq!(ack.options.sack.as_slice(), [(hole + MSS, hole + 2 * MSS)]);
}

/// RFC 7323, section 2.2: a window is scaled only if both SYNs have the option.
#[test]
fn windows_are_not_scaled_without_the_peers_window_scale_option() {
    let mut config = plain();
    config.tcp.window_scaling = true;
    let (mut p, syn) = Peer::connecting(config);
    assert!(syn.options.rare.unwrap().window_scale.is_some());
    let answer = p.syn(SYN_ACK);
    let ack = one(p.push(answer));
    assert_eq!(ack.window, u16::MAX);
}

fn stamped(p: &Peer, value: u32) -> Segment {
    let mut seg = p.segment(Flags::ACK);
    seg.options.timestamps = Some(Timestamps { value, echo: 0 });
    seg.payload = Payload::Length(100);
    seg
}

/// RFC 7323, sections 3.2 and 5.3: a segment with an old timestamp, or with none, does not belong to this
/// connection.
#[test]
fn a_segment_with_an_old_or_missing_timestamp_is_dropped() {
    let mut config = plain();
    config.tcp.timestamps = true;
    let (mut p, _) = Peer::connecting(config);
    let mut answer = p.syn(SYN_ACK);
    answer.options.timestamps = Some(Timestamps {
        value: 1000,
        echo: 0,
    });
    p.after(RTT, answer);
    p.seq = p.seq + 1;
    let seg = stamped(&p, 999);
    let ack = one(p.push(seg));
    assert_eq!(ack.ack, p.seq, "answered, not taken");
    let mut seg = stamped(&p, 1000);
    seg.options.timestamps = None;
    assert_eq!(p.push(seg), [], "dropped silently");
    let seg = stamped(&p, 1000);
    assert_eq!(one(p.push(seg)).ack, p.seq + 100);
}

/// RFC 9293, section 3.10.7.4, TIME-WAIT: a repeated FIN is acknowledged. In the same state (section 3.10.7.4
/// with RFC 6191), a SYN beyond the old sequence opens a new connection.
#[test]
fn time_wait_acknowledges_a_fin_and_accepts_a_new_syn() {
    let mut p = listening();
    let syn = p.syn(Flags::SYN);
    let answer = one(p.push(syn));
    (p.seq, p.ack) = (p.seq + 1, answer.seq + 1);
    let third = p.segment(Flags::ACK);
    p.push(third);
    p.handle = p.stack.handles().next();
    close(&mut p);
    p.ack = p.ack + 1;
    let fin = p.segment(FIN_ACK);
    p.push(fin.clone());
    p.seq = p.seq + 1;
    let ack = one(p.push(fin));
    assert!(bare_ack(&ack));
    assert_eq!(ack.ack, p.seq);
    p.seq = p.seq + 50_000;
    let syn = p.syn(Flags::SYN);
    let answer = one(p.push(syn));
    assert_eq!((answer.flags, answer.ack), (SYN_ACK, p.seq + 1));
}

/// RFC 9293, section 3.10.7.4: in SYN-RECEIVED a repeated SYN is answered with the same SYN/ACK. A reset
/// returns to LISTEN without an event.
#[test]
fn a_half_open_connection_repeats_its_syn_ack_and_is_reset_without_an_event() {
    let mut p = listening();
    let syn = p.syn(Flags::SYN);
    let answer = one(p.push(syn.clone()));
    let again = one(p.push(syn.clone()));
    assert_eq!((again.flags, again.seq), (SYN_ACK, answer.seq));
    p.seq = p.seq + 1;
    let rst = p.segment(Flags::RST);
    assert_eq!(p.push(rst), []);
    assert_eq!(p.stack.poll_event(), None);
    assert_eq!(p.stack.handles().count(), 0);
    assert_eq!(one(p.push(syn)).flags, SYN_ACK);
}

/// RFC 9293, section 3.6.1, and RFC 6191, section 2: a SYN that is not beyond the old sequence may be an old
/// SYN, so TIME-WAIT only sends an ACK.
#[test]
fn time_wait_does_not_accept_an_old_syn() {
    let mut p = Peer::establish(plain());
    close(&mut p);
    p.ack = p.ack + 1;
    let fin = p.segment(FIN_ACK);
    p.push(fin);
    p.seq = p.seq + 1;
    let mut syn = p.syn(Flags::SYN);
    syn.seq = p.seq - 1000;
    let ack = one(p.push(syn));
    assert!(bare_ack(&ack));
    assert_eq!(ack.ack, p.seq);
}

/// RFC 5927, section 4.1: an ICMP message is accepted only if it quotes a segment in flight.
#[test]
fn an_icmp_message_is_accepted_only_if_it_quotes_a_segment_in_flight() {
    let mut p = Peer::establish(plain());
    let first = one(p.send(MSS));
    let quoted = |p: &Peer, seq| p.stack.is_outstanding(first.src, first.dst, seq);
    assert!(quoted(&p, first.seq) && quoted(&p, first.seq + (MSS - 1)));
    assert!(!quoted(&p, first.seq + MSS), "not sent yet");
    assert!(
        !p.stack.is_outstanding(first.dst, first.src, first.seq),
        "another connection"
    );
    let mut ack = p.segment(Flags::ACK);
    ack.ack = first.seq + MSS;
    p.push(ack);
    assert!(!quoted(&p, first.seq), "acknowledged");
}

/// RFC 9293, section 3.10.7.2, "fourth": in LISTEN a segment that has neither SYN nor ACK nor RST is dropped.
#[test]
fn a_listener_drops_a_segment_without_syn_ack_and_rst() {
    for flags in [Flags::NONE, Flags::FIN, Flags::PSH] {
        let mut p = listening();
        let mut seg = p.segment(flags);
        seg.payload = Payload::Length(10);
        assert_eq!(p.push(seg), [], "{flags:?}");
    }
    let mut p = listening();
    let seg = p.segment(Flags::ACK);
    assert_eq!(one(p.push(seg)).flags, Flags::RST, "an ACK is refused");
    // CLOSED, without a listener: section 3.10.7.1.
    let mut p = Peer::new();
    let seg = p.segment(Flags::NONE);
    assert!(one(p.push(seg)).flags.contains(Flags::RST));
}

/// RFC 9293, section 3.9.2.3: a SYN from or to an address that is not that of one host is silently discarded.
#[test]
fn a_syn_from_or_to_a_non_unicast_address_is_dropped() {
    let several = ["224.0.0.1", "255.255.255.255", "0.0.0.0"];
    for addr in several.map(|a| a.parse::<std::net::IpAddr>().unwrap()) {
        let mut p = listening();
        let any = spindle_wire::Endpoint::new([0, 0, 0, 0].into(), 4000);
        p.stack.listen(any, std::sync::Arc::new(plain())).unwrap();
        let mut from = p.syn(Flags::SYN);
        from.src.addr = addr;
        assert_eq!(p.push(from), [], "from {addr}");
        let mut to = p.syn(Flags::SYN);
        to.dst.addr = addr;
        assert_eq!(p.push(to), [], "to {addr}");
        assert_eq!(p.stack.handles().count(), 0);
        assert_eq!(p.stack.counters().unknown_segments, 2);
    }
}

/// RFC 9293, section 3.9.1.1, MUST-46: an open to an address that is not that of one host is an error.
#[test]
fn an_open_to_a_non_unicast_address_is_an_error() {
    let here = "10.0.0.1:4000".parse::<std::net::SocketAddr>().unwrap();
    for there in [
        "224.0.0.1:80",
        "255.255.255.255:80",
        "0.0.0.0:80",
        "[ff02::1]:80",
        "[::]:80",
        "[::ffff:224.0.0.1]:80",
    ] {
        let there = there.parse::<std::net::SocketAddr>().unwrap();
        let mut p = Peer::new();
        let config = std::sync::Arc::new(plain());
        let opened = p.stack.connect(p.now, here.into(), there.into(), config);
        assert_eq!(opened, Err(StackError::NotOneHost(there.ip())));
        assert_eq!(p.drain(), []);
        assert_eq!(p.stack.handles().count(), 0);
    }
}

/// RFC 5961, section 7: answers to unacceptable segments are limited, except answers to old data.
#[test]
fn answers_to_unacceptable_segments_are_limited_except_for_old_data() {
    let mut p = listening();
    let syn = p.syn(Flags::SYN);
    let answers: usize = (0..1000).map(|_| p.push(syn.clone()).len()).sum();
    assert_eq!(
        answers, 11,
        "the first answer and ten repeats in five seconds"
    );
    let mut ack = p.segment(Flags::ACK);
    ack.seq = PEER_ISS + 1;
    let resets: usize = (0..1000).map(|_| p.push(ack.clone()).len()).sum();
    assert_eq!(resets, 0, "resets share the limit");
    p.now += Duration::from_secs(5);
    let resets: usize = (0..1000).map(|_| p.push(ack.clone()).len()).sum();
    assert_eq!(resets, 10, "an acknowledgement of nothing that was sent");

    let mut p = Peer::establish(plain());
    let old = p.data(100);
    p.push(old.clone());
    ack = p.segment(Flags::ACK);
    ack.seq = PEER_ISS + 50;
    let answers: usize = (0..1000).map(|_| p.push(ack.clone()).len()).sum();
    assert_eq!(answers, 10, "without data");
    let answers: usize = (0..1000).map(|_| p.push(old.clone()).len()).sum();
    assert_eq!(answers, 1000, "a peer that lost our acknowledgements");
}

/// Resets for segments of no connection are sent at a limited rate. Connections are not affected.
#[test]
fn resets_for_segments_of_no_connection_are_rate_limited() {
    let mut p = Peer::establish(plain());
    let mut stray = p.data(1);
    stray.src.port = 81;
    let syn = {
        let mut syn = p.syn(Flags::SYN);
        syn.src.port = 82;
        syn
    };
    let segments = [stray.clone(), syn.clone()].into_iter().cycle().take(5000);
    let (start, mut resets) = (p.now, 0);
    for seg in segments {
        p.stack.receive(p.now, seg);
        resets += p.drain().len() as u64;
    }
    assert!((900..=1100).contains(&resets), "{resets}");
    let counters = p.stack.counters();
    assert_eq!(counters.resets_sent, resets);
    assert_eq!(counters.resets_withheld, 5000 - resets);
    assert_eq!(p.now, start, "all at once");
    assert_eq!(p.send(500).len(), 1);
    p.now += Duration::from_secs(1);
    assert_eq!(one(p.push(stray)).flags, Flags::RST);
}

/// RFC 9293, section 3.8.3: R2 of a SYN is at least 3 minutes.
#[test]
fn a_syn_is_repeated_for_at_least_three_minutes_by_default() {
    let (mut p, _) = Peer::connecting(plain());
    let start = p.now;
    while closed(&mut p).is_none() {
        p.wait();
    }
    let r2 = p.now.since(start);
    assert!((180_000..240_000).contains(&r2.as_millis()), "{r2:?}");
}

/// RFC 6298, section 5.7: after a SYN timeout, data transmission begins with an RTO of 3 s.
#[test]
fn data_after_a_syn_timeout_start_with_an_rto_of_three_seconds() {
    let (mut p, _) = Peer::connecting(plain());
    assert_eq!(p.wait().0, Duration::from_secs(1));
    let answer = p.syn(SYN_ACK);
    p.seq = p.seq + 1;
    p.after(RTT, answer);
    p.send(100);
    assert_eq!(p.wait().0, Duration::from_secs(3));
    // The same for a listener whose SYN/ACK timed out.
    let mut p = listening();
    let syn = p.syn(Flags::SYN);
    let answer = one(p.push(syn));
    assert_eq!(p.wait().0, Duration::from_secs(1));
    (p.seq, p.ack) = (p.seq + 1, answer.seq + 1);
    let third = p.segment(Flags::ACK);
    p.push(third);
    p.handle = p.stack.handles().next();
    p.send(100);
    assert_eq!(p.wait().0, Duration::from_secs(3));
}

/// A connection with timestamps in TIME_WAIT. The last timestamp of the peer was 1000.
fn resting_with_timestamps() -> Peer {
    let mut p = Peer::new();
    let here = p.segment(Flags::NONE).dst;
    let mut config = plain();
    config.tcp.timestamps = true;
    p.stack.listen(here, std::sync::Arc::new(config)).unwrap();
    let stamp = |seg: &mut Segment, echo| {
        seg.options.timestamps = Some(Timestamps { value: 1000, echo });
    };
    let mut syn = p.syn(Flags::SYN);
    stamp(&mut syn, 0);
    let answer = one(p.push(syn));
    let echo = answer.options.timestamps.unwrap().value;
    (p.seq, p.ack) = (p.seq + 1, answer.seq + 1);
    let mut third = p.segment(Flags::ACK);
    stamp(&mut third, echo);
    p.push(third);
    p.handle = p.stack.handles().next();
    close(&mut p);
    p.ack = p.ack + 1;
    let mut fin = p.segment(FIN_ACK);
    stamp(&mut fin, echo);
    p.push(fin);
    p.seq = p.seq + 1;
    p
}

/// RFC 6191, section 2: the timestamp of a SYN decides whether a new connection may replace the one in
/// TIME_WAIT. The sequence number decides only if the timestamp equals the last one.
#[test]
fn time_wait_accepts_a_syn_with_a_later_but_not_an_earlier_timestamp() {
    let (before, beyond) = (u32::MAX - 999, 50_000);
    for (value, offset, opens) in [
        (Some(1001), before, true),
        (Some(1001), beyond, true),
        (Some(1000), beyond, true),
        (Some(1000), before, false),
        (Some(999), beyond, false),
        (None, beyond, true),
        (None, before, false),
    ] {
        let mut p = resting_with_timestamps();
        let mut syn = p.syn(Flags::SYN);
        syn.seq = p.seq + offset;
        syn.options.timestamps = value.map(|value| Timestamps { value, echo: 0 });
        let answer = one(p.push(syn.clone()));
        let opened = answer.flags == SYN_ACK && answer.ack == syn.seq + 1;
        assert_eq!(opened, opens, "timestamp {value:?}, {offset} on");
    }
}

/// RFC 6191, section 2: if the old connection had no timestamps, a SYN with a timestamp belongs to a new
/// connection.
#[test]
fn time_wait_without_timestamps_accepts_a_syn_with_a_timestamp() {
    let mut config = plain();
    config.tcp.timestamps = true;
    let mut p = Peer::establish(config.clone());
    let here = p.segment(Flags::NONE).dst;
    p.stack.listen(here, std::sync::Arc::new(config)).unwrap();
    close(&mut p);
    p.ack = p.ack + 1;
    let fin = p.segment(FIN_ACK);
    p.push(fin);
    p.seq = p.seq + 1;
    let mut syn = p.syn(Flags::SYN);
    syn.seq = p.seq - 1000;
    syn.options.timestamps = Some(Timestamps { value: 5, echo: 0 });
    assert_eq!(one(p.push(syn)).flags, SYN_ACK);
}

/// RFC 9293, section 3.10.7.4, TIME-WAIT: the new connection's initial sequence number is larger than all
/// sequence numbers that the old connection used, even if the old connection was faster than the clock of
/// initial sequence numbers.
#[test]
fn a_connection_that_replaces_time_wait_starts_beyond_the_old_sequence() {
    let mut p = listening();
    let syn = p.syn(Flags::SYN);
    let answer = one(p.push(syn));
    (p.seq, p.ack) = (p.seq + 1, answer.seq + 1);
    let third = p.segment(Flags::ACK);
    p.push(third);
    p.handle = p.stack.handles().next();
    for _ in 0..100 {
        for seg in p.send(10_000) {
            p.ack = seg.seq + seg.seq_len();
        }
        let ack = p.segment(Flags::ACK);
        assert_eq!(p.push(ack), []);
    }
    close(&mut p);
    p.ack = p.ack + 1;
    let fin = p.segment(FIN_ACK);
    p.push(fin);
    p.seq = p.seq + 1 + 50_000;
    let syn = p.syn(Flags::SYN);
    let answer = one(p.push(syn));
    assert_eq!(answer.flags, SYN_ACK);
    assert!(
        p.ack.before(answer.seq),
        "{:?} after {:?}",
        answer.seq,
        p.ack
    );
}
