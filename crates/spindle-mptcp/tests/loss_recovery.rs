//! Loss detection and recovery segment by segment: one stack, and a peer played by hand.

mod script;

use script::{MSS, PEER_ISS, Peer, RTT, one, plain};
use spindle_mptcp::{Config, EcnMode, InitialWindow, TailLossProbe, TcpState};
use spindle_units::Duration;
use spindle_wire::{Ecn, Flags, Payload, Segment, Timestamps};

/// An initial window of so many segments, and no detection beyond the classic.
fn window(segments: u32) -> Config {
    let mut config = plain();
    config.tcp.initial_window = InitialWindow::PerSubflow(segments);
    config.loss.frto = false;
    config.loss.limited_transmit = false;
    config.loss.rescue = false;
    config
}

/// A connection with this many full segments written at once; what left.
fn sending(config: Config, segments: u32) -> (Peer, Vec<Segment>) {
    let mut p = Peer::establish(config);
    assert_eq!(p.info().state, TcpState::Established);
    assert_eq!(p.seq, PEER_ISS + 1);
    let out = p.send(segments * MSS);
    (p, out)
}

/// Which full segments of the stack's stream these are, from 0; `p.ack` stays where it begins.
fn numbers(p: &Peer, out: &[Segment]) -> Vec<u32> {
    out.iter()
        .filter(|s| !s.payload.is_empty())
        .map(|s| s.seq.0.wrapping_sub(p.ack.0) / MSS)
        .collect()
}

/// The peer acknowledges the first `upto` segments and SACKs those from left to before right.
fn sack(p: &Peer, upto: u32, blocks: &[(u32, u32)]) -> Segment {
    let mut seg = p.segment(Flags::ACK);
    seg.ack = p.ack + upto * MSS;
    for &(left, right) in blocks {
        seg.options
            .sack
            .push(p.ack + left * MSS, p.ack + right * MSS);
    }
    seg
}

/// The stack takes such an acknowledgement; which segments leave.
fn acked(p: &mut Peer, upto: u32, blocks: &[(u32, u32)]) -> Vec<u32> {
    let seg = sack(p, upto, blocks);
    let out = p.push(seg);
    numbers(p, &out)
}

/// RFC 6675, section 5: three segments SACKed above a hole repeat it, and cwnd is halved.
#[test]
fn three_sacked_segments_repeat_the_hole() {
    let (mut p, out) = sending(window(10), 10);
    assert_eq!(numbers(&p, &out), (0..10).collect::<Vec<_>>());
    assert_eq!(acked(&mut p, 0, &[(1, 2)]), []);
    assert_eq!(acked(&mut p, 0, &[(1, 3)]), []);
    assert_eq!(acked(&mut p, 0, &[(1, 4)]), [0]);
    assert_eq!(p.info().cwnd, 5 * u64::from(MSS));
    assert_eq!(acked(&mut p, 0, &[(1, 10)]), []);
    assert_eq!(p.info().counters.retransmissions, 1);
}

/// RFC 6582, section 3.2, step 3: a partial acknowledgement repeats the next hole at once.
#[test]
fn a_partial_acknowledgement_repeats_the_next_hole() {
    let mut config = window(10);
    config.tcp.sack = false;
    let (mut p, _) = sending(config, 10);
    assert_eq!(acked(&mut p, 0, &[]), []);
    assert_eq!(acked(&mut p, 0, &[]), []);
    assert_eq!(acked(&mut p, 0, &[]), [0]);
    assert_eq!(acked(&mut p, 4, &[]), [4]);
    assert_eq!(acked(&mut p, 10, &[]), []);
    assert_eq!(p.info().counters.fast_retransmits, 1);
}

/// RFC 3042: the first two duplicates each let a new segment out.
#[test]
fn limited_transmit_sends_two_new_segments() {
    let mut config = window(4);
    config.loss.limited_transmit = true;
    let (mut p, out) = sending(config, 20);
    assert_eq!(numbers(&p, &out), [0, 1, 2, 3]);
    assert_eq!(acked(&mut p, 0, &[(1, 2)]), [4]);
    assert_eq!(acked(&mut p, 0, &[(1, 3)]), [5]);
    assert_eq!(acked(&mut p, 0, &[(1, 4)])[..1], [0]);
}

/// RFC 5827, section 3.2: with few segments outstanding and nothing to send, one fewer duplicate
/// than segments.
#[test]
fn early_retransmit_needs_one_duplicate_fewer_than_outstanding() {
    let mut config = window(10);
    config.loss.early_retransmit = true;
    let (mut p, _) = sending(config.clone(), 2);
    assert_eq!(acked(&mut p, 0, &[(1, 2)]), [0]);
    let (mut p, _) = sending(config, 3);
    assert_eq!(acked(&mut p, 0, &[(1, 2)]), []);
    assert_eq!(acked(&mut p, 0, &[(1, 3)]), [0]);
}

/// RFC 6298, section 5, and RFC 5681, section 3.1: one segment at a time, at doubled intervals; then
/// in order, without what was SACKed.
#[test]
fn a_timeout_goes_back_in_order_past_what_was_sacked() {
    let (mut p, _) = sending(window(6), 6);
    assert_eq!(acked(&mut p, 0, &[(2, 3)]), []);
    let (_, out) = p.wait();
    assert_eq!(numbers(&p, &out), [0]);
    assert_eq!(p.info().cwnd, u64::from(MSS));
    let (second, out) = p.wait();
    assert_eq!(numbers(&p, &out), [0]);
    let (third, out) = p.wait();
    assert_eq!(numbers(&p, &out), [0]);
    assert_eq!(third, second * 2);
    assert_eq!(acked(&mut p, 1, &[(2, 3)]), [1, 3]);
    assert_eq!(acked(&mut p, 4, &[]), [4, 5]);
    assert_eq!(acked(&mut p, 6, &[]), []);
}

/// RFC 6298, rules 2.2 and 2.3: after one measurement R the timeout is 3 R.
#[test]
fn the_first_timeout_is_three_round_trips() {
    let (mut p, _) = sending(window(6), 1);
    let (wait, out) = p.wait();
    assert_eq!(wait, RTT * 3);
    assert_eq!(one(out).seq, p.ack);
}

/// RFC 2883, RFC 3708: when each repeat is reported needless, the reduction is taken back.
#[test]
fn a_dsack_takes_the_reduction_back() {
    let (mut p, _) = sending(window(10), 10);
    for right in 2..=4 {
        acked(&mut p, 0, &[(1, right)]);
    }
    assert_eq!(p.info().cwnd, 5 * u64::from(MSS));
    acked(&mut p, 10, &[(0, 1)]);
    assert!(p.info().cwnd >= 10 * u64::from(MSS));
    assert_eq!(p.info().counters.undos, 1);
}

/// Where the handshake is no measurement the timeout given stands until data sent once are
/// acknowledged (MMPTCP's authors' code).
#[test]
fn rtt_of_data_alone_comes_with_the_first_acknowledgement() {
    let mut config = window(1);
    config.tcp.data_rto = Some(Duration::from_millis(1500));
    let (mut p, _) = sending(config, 2);
    assert_eq!(p.info().rto, Duration::from_millis(1500));
    let now = sack(&p, 1, &[]);
    p.after(RTT, now);
    assert!(p.info().rto < Duration::from_secs(1), "{:?}", p.info().rto);
}

/// RFC 5682, section 3.1: acknowledgements of originals after the timeout's one repeat show that it
/// was spurious.
#[test]
fn frto_finds_a_spurious_timeout() {
    let mut config = window(6);
    config.loss.frto = true;
    let (mut p, _) = sending(config, 20);
    let (_, out) = p.wait();
    assert_eq!(numbers(&p, &out), [0]);
    assert_eq!(acked(&mut p, 1, &[]), [6, 7], "new data, no repeats");
    assert!(acked(&mut p, 2, &[]).iter().all(|n| *n >= 8));
    assert!(p.info().cwnd >= 6 * u64::from(MSS));
    assert_eq!(p.info().counters.retransmissions, 1);
}

fn probing() -> Config {
    let mut config = window(4);
    config.loss.tail_loss_probe = Some(TailLossProbe {
        max_ack_delay: Duration::ZERO,
        floor: Duration::ZERO,
    });
    config
}

/// RFC 8985, section 7: after two smoothed round trips the last segment again, or new data; once.
#[test]
fn a_tail_loss_probe_repeats_the_last_segment_or_sends_new_data() {
    let (mut p, _) = sending(probing(), 3);
    let (wait, out) = p.wait();
    assert_eq!((wait, numbers(&p, &out)), (RTT * 2, vec![2]));
    assert_eq!(p.info().counters.timeouts, 0);
    let (_, out) = p.wait();
    assert_eq!(numbers(&p, &out), [0], "then the timeout");
    let (mut p, _) = sending(probing(), 20);
    let (wait, out) = p.wait();
    assert_eq!((wait, numbers(&p, &out)), (RTT * 2, vec![4]));
}

/// RFC 8985, section 8: the probe and the timeout exclude each other; where the timeout would be earlier, the
/// probe leaves in its place (Linux: `tcp_schedule_loss_probe`).
#[test]
fn a_probe_not_due_before_the_timeout_leaves_in_its_place() {
    let mut config = probing();
    config.loss.tail_loss_probe = Some(TailLossProbe {
        max_ack_delay: Duration::ZERO,
        floor: Duration::from_secs(10),
    });
    let (mut p, _) = sending(config, 3);
    let rto = p.info().rto;
    let (wait, out) = p.wait();
    assert_eq!((wait, numbers(&p, &out)), (rto, vec![2]));
    let counters = p.info().counters;
    assert_eq!((counters.probes, counters.timeouts), (1, 0));
    let (_, out) = p.wait();
    assert_eq!(numbers(&p, &out), [0], "then the timeout");
    assert_eq!(p.info().counters.timeouts, 1);
}

/// RFC 6937, section 3: what leaves in recovery follows what is delivered, also where RACK's timer begins
/// it and no acknowledgement has come.
#[test]
fn recovery_that_rack_s_timer_begins_sends_one_segment_until_something_arrives() {
    let mut config = window(10);
    config.loss.rack = true;
    config.loss.prr = true;
    let (mut p, _) = sending(config, 10);
    let seg = sack(&p, 0, &[(8, 10)]);
    assert_eq!(p.after(RTT, seg), []);
    let (wait, out) = p.wait();
    assert_eq!((wait, numbers(&p, &out)), (RTT / 4, vec![0]));
    assert_eq!(p.info().lost, 8 * u64::from(MSS));
    assert_eq!(acked(&mut p, 1, &[(8, 10)]), [1, 2]);
}

/// RFC 8985, section 6.2: a segment sent a reordering window before one that arrived is lost,
/// without three duplicates.
#[test]
fn rack_finds_a_loss_by_time() {
    let mut config = window(10);
    config.loss.rack = true;
    let (mut p, _) = sending(config, 2);
    let seg = sack(&p, 0, &[(1, 2)]);
    assert_eq!(p.after(RTT, seg), []);
    let (wait, out) = p.wait();
    assert_eq!(numbers(&p, &out), [0]);
    assert_eq!(wait, RTT / 4, "a quarter of the smallest RTT");
    assert_eq!(p.info().counters.timeouts, 0);
}

/// RFC 8985, section 3.1: a repeat that was lost as well is found when what left after it arrives.
/// By RFC 6675 alone only the timer finds it, twice on two paths whose queues overflow together.
#[test]
fn rack_finds_a_lost_repeat_without_the_timer() {
    for (rack, again) in [(true, vec![0]), (false, vec![])] {
        let mut config = window(10);
        config.loss.rack = rack;
        let (mut p, _) = sending(config, 12);
        let seg = sack(&p, 0, &[(1, 4)]);
        let out = p.after(RTT, seg);
        assert_eq!(numbers(&p, &out), [0]);
        assert_eq!(acked(&mut p, 0, &[(1, 10)]), [10, 11]);
        let seg = sack(&p, 0, &[(1, 12)]);
        let out = p.after(RTT, seg);
        assert_eq!(numbers(&p, &out), again, "rack {rack}");
        assert_eq!(p.info().counters.timeouts, 0);
    }
}

/// RFC 5681, section 4.1: the restart window is no more than cwnd.
#[test]
fn an_idle_restart_never_raises_cwnd() {
    let (mut p, _) = sending(window(10), 1);
    p.wait();
    acked(&mut p, 1, &[]);
    let small = p.info().cwnd;
    assert!(small <= 2 * u64::from(MSS));
    p.now += Duration::from_secs(60);
    let out = p.send(10 * MSS);
    assert_eq!(out.len() as u64, small / u64::from(MSS));
    assert_eq!(p.info().cwnd, small);
}

/// A connection that negotiated classic ECN.
fn with_ecn(segments: u32) -> Peer {
    let mut config = window(segments);
    config.tcp.ecn = EcnMode::Classic;
    let (mut p, syn) = Peer::connecting(config);
    assert!(syn.flags.contains(Flags::ECE | Flags::CWR));
    let answer = p.syn(Flags::SYN | Flags::ACK | Flags::ECE);
    p.seq = p.seq + 1;
    p.after(RTT, answer);
    p
}

/// RFC 3168, section 6.1.2: one reduction a window; CWR on the next new data, which are ECT.
#[test]
fn an_ecn_echo_halves_once_a_window() {
    let mut p = with_ecn(10);
    let out = p.send(30 * MSS);
    assert!(out.iter().all(|s| s.ecn == Ecn::Ect0));
    let mut sent = Vec::new();
    for upto in 1..=7 {
        let mut seg = sack(&p, upto, &[]);
        seg.flags |= Flags::ECE;
        sent.extend(p.push(seg));
    }
    assert_eq!(p.info().counters.ecn_reductions, 1);
    let cwr: Vec<_> = sent.iter().map(|s| s.flags.contains(Flags::CWR)).collect();
    assert!(cwr[0] && !cwr[1..].contains(&true), "{cwr:?}");
}

/// RFC 3168, section 6.1.2: an echo for the next window of data reduces again.
#[test]
fn an_ecn_echo_in_the_next_window_halves_again() {
    let mut p = with_ecn(8);
    p.send(60 * MSS);
    let mut seg = sack(&p, 8, &[]);
    seg.flags |= Flags::ECE;
    p.push(seg.clone());
    let first = p.info();
    assert_eq!(first.counters.ecn_reductions, 1);
    assert_eq!(first.cwnd, 4 * u64::from(MSS));
    let next = 8 + (first.in_flight / u64::from(MSS)) as u32;
    let mut seg = sack(&p, next, &[]);
    seg.flags |= Flags::ECE;
    p.push(seg);
    assert_eq!(p.info().counters.ecn_reductions, 2);
    assert!(p.info().cwnd < first.cwnd);
}

/// RFC 3168, section 6.1.5: what is repeated is not ECT.
#[test]
fn a_repeat_is_not_ect() {
    let mut p = with_ecn(10);
    p.send(10 * MSS);
    let seg = sack(&p, 0, &[(1, 4)]);
    assert_eq!(one(p.push(seg)).ecn, Ecn::NotEct);
}

/// RFC 3168, section 6.1.3: the mark is echoed until CWR comes.
#[test]
fn a_mark_is_echoed_until_cwr() {
    let mut p = with_ecn(10);
    let mut seg = p.data(MSS);
    seg.ecn = Ecn::Ce;
    assert!(one(p.push(seg)).flags.contains(Flags::ECE));
    let seg = p.data(MSS);
    assert!(one(p.push(seg)).flags.contains(Flags::ECE));
    let mut seg = p.data(MSS);
    seg.flags |= Flags::CWR;
    assert!(!one(p.push(seg)).flags.contains(Flags::ECE));
}

/// RFC 8985, section 7.4.2: a loss that the probe repaired is answered like fast recovery: half of
/// what was in flight, however much the acknowledgement covers.
#[test]
fn a_loss_repaired_by_the_probe_halves_cwnd() {
    let mut config = probing();
    config.tcp.initial_window = InitialWindow::PerSubflow(10);
    let (mut p, _) = sending(config, 10);
    let (_, out) = p.wait();
    assert_eq!(numbers(&p, &out), [9]);
    acked(&mut p, 10, &[]);
    assert_eq!(p.info().cwnd, 5 * u64::from(MSS));
}

/// RFC 6675, section 4, NextSeg rule 4: in recovery with nothing else to send the last outstanding
/// segment is repeated, once per recovery.
#[test]
fn a_lost_tail_is_rescued_in_recovery() {
    let mut config = window(10);
    config.loss.rescue = true;
    let (mut p, _) = sending(config, 7);
    assert_eq!(acked(&mut p, 2, &[]), []);
    // The third and the last are lost.
    assert_eq!(acked(&mut p, 2, &[(3, 6)]), [2]);
    assert_eq!(acked(&mut p, 6, &[]), [6], "the rescue");
    let (_, out) = p.wait();
    assert_eq!(
        numbers(&p, &out),
        [6],
        "the timer repeats it if that is lost too"
    );
    assert_eq!(p.info().counters.timeouts, 1);
}

/// RFC 5681, section 3.1: what is halved is the flight before the acknowledgement that shows the
/// loss, though it takes part of that flight away.
#[test]
fn a_loss_shown_by_an_advancing_acknowledgement_halves_the_whole_flight() {
    let (mut p, _) = sending(window(10), 10);
    // The first six are here, the seventh is lost, the last three are here: told at once.
    assert_eq!(acked(&mut p, 6, &[(7, 10)]), [6]);
    assert_eq!(p.info().cwnd, 5 * u64::from(MSS));
}

/// RFC 6928, section 2: one repeated SYN leaves the initial window alone, a second one makes it one
/// segment.
#[test]
fn a_syn_lost_twice_starts_from_one_segment() {
    for (repeats, sent) in [(1, 10), (2, 1)] {
        let (mut p, _) = Peer::connecting(window(10));
        for _ in 0..repeats {
            assert!(one(p.wait().1).flags.contains(Flags::SYN));
        }
        let answer = p.syn(Flags::SYN | Flags::ACK);
        p.seq = p.seq + 1;
        p.after(RTT, answer);
        let out = p.send(20 * MSS);
        assert_eq!(numbers(&p, &out).len(), sent, "{repeats} repeats");
    }
}

/// RFC 6937, section 3: with as much to send as the window takes, half a flight leaves while a
/// flight is delivered, one segment for every two acknowledged and never a burst.
#[test]
fn proportional_reduction_sends_one_segment_for_two() {
    let mut config = window(20);
    config.loss.prr = true;
    let (mut p, _) = sending(config, 60);
    assert_eq!(acked(&mut p, 0, &[(1, 2)]), []);
    assert_eq!(acked(&mut p, 0, &[(1, 3)]), []);
    assert_eq!(acked(&mut p, 0, &[(1, 4)]), [0]);
    let mut sent = Vec::new();
    for right in 5..=20 {
        let out = acked(&mut p, 0, &[(1, right)]);
        assert!(out.len() <= 1, "a burst of {out:?}");
        sent.extend(out);
    }
    // With the repeat of the hole that is ssthresh in flight.
    assert_eq!(sent, (20..29).collect::<Vec<_>>());
    acked(&mut p, 20, &[]);
    assert_eq!(p.info().ssthresh, 10 * u64::from(MSS));
}

/// RFC 2018, section 8: a timeout whose first segment is SACKed means that the receiver has thrown
/// away what it SACKed: all is repeated, SACKed or not.
#[test]
fn a_receiver_that_reneged_gets_everything_again() {
    let (mut p, _) = sending(window(5), 5);
    // The second to the fifth are SACKed; the first is lost, repeated, and acknowledged alone.
    acked(&mut p, 0, &[(1, 5)]);
    acked(&mut p, 1, &[]);
    let (_, out) = p.wait();
    assert_eq!(
        numbers(&p, &out),
        [1],
        "the timer fires although 1 was SACKed"
    );
    let mut again = Vec::new();
    for upto in 2..=4 {
        again.extend(acked(&mut p, upto, &[]));
    }
    assert_eq!(again, [2, 3, 4]);
}

/// RFC 8257, section 3.2: with DCTCP the mark of each segment is echoed in its acknowledgement, and
/// no CWR is waited for.
#[test]
fn dctcp_echoes_exactly_what_was_marked() {
    let mut config = window(10);
    config.tcp.ecn = EcnMode::Dctcp;
    let (mut p, _) = Peer::connecting(config);
    let answer = p.syn(Flags::SYN | Flags::ACK | Flags::ECE);
    p.seq = p.seq + 1;
    p.after(RTT, answer);
    for marked in [false, true, true, false, true] {
        let mut seg = p.data(MSS);
        seg.ecn = if marked { Ecn::Ce } else { Ecn::Ect0 };
        let ack = one(p.push(seg));
        assert_eq!(ack.flags.contains(Flags::ECE), marked);
    }
}

/// A connection that negotiated timestamps; the peer's own clock stands still.
fn with_timestamps(segments: u32) -> Peer {
    let mut config = window(segments);
    config.tcp.timestamps = true;
    config.tcp.mss = MSS + 12;
    let (mut p, _) = Peer::connecting(config);
    let mut answer = p.syn(Flags::SYN | Flags::ACK);
    answer.options.timestamps = Some(Timestamps { value: 7, echo: 0 });
    p.seq = p.seq + 1;
    p.after(RTT, answer);
    p
}

/// Which full segments leave when `upto` are acknowledged after `wait`, the echo being that of `of`.
fn echoed(p: &mut Peer, wait: Duration, upto: u32, of: &Segment) -> Vec<u32> {
    let mut seg = sack(p, upto, &[]);
    let echo = of.options.timestamps.unwrap().value;
    seg.options.timestamps = Some(Timestamps { value: 7, echo });
    let out = p.after(wait, seg);
    numbers(p, &out)
}

/// RFC 7323, section 4.1: the echo tells which transmission is acknowledged, so that one of what was
/// repeated is a measurement (RFC 6298, section 3, excepts it from Karn's rule) and ends the back-off,
/// even where every segment has to be sent twice.
#[test]
fn an_echoed_repeat_is_a_measurement_and_ends_the_back_off() {
    let mut p = with_timestamps(1);
    let first = one(p.send(8 * MSS));
    assert_eq!(first.payload.len() as u32, MSS);
    let mut waits = Vec::new();
    for n in 0..4 {
        let (wait, out) = p.wait();
        assert_eq!(numbers(&p, &out), [n], "the timer repeats the first");
        waits.push(wait);
        assert_eq!(p.info().srtt, Some(RTT));
        // The repeat's acknowledgement lets the next ones out, which are lost.
        assert_eq!(echoed(&mut p, RTT, n + 1, &out[0])[0], n + 1);
    }
    assert!(
        waits.windows(2).all(|w| w[1] <= w[0]),
        "no longer from one to the next: {waits:?}"
    );
}

/// Without timestamps nothing tells the transmissions apart (Karn's rule): the back-off stays until
/// what left once is acknowledged.
#[test]
fn without_timestamps_the_back_off_stays_while_everything_is_repeated() {
    let (mut p, _) = sending(window(1), 8);
    let mut waits = Vec::new();
    for n in 0..3 {
        let (wait, _) = p.wait();
        waits.push(wait);
        acked(&mut p, n + 1, &[]);
    }
    assert!(waits.windows(2).all(|w| w[1] > w[0]), "{waits:?}");
}

/// The original's echo, come before the repeat can have been answered, measures the whole way: the
/// timer was too short. One of the future, or older than a minute, is none.
#[test]
fn an_echo_of_the_original_measures_a_path_slower_than_the_timer() {
    let soon = RTT / 10;
    let mut p = with_timestamps(1);
    let first = one(p.send(2 * MSS));
    let (wait, _) = p.wait();
    echoed(&mut p, soon, 1, &first);
    assert_eq!(p.info().srtt, Some((RTT * 7 + wait + soon) / 8));
    for off in [soon.as_millis() as u32 + 5, 0u32.wrapping_sub(70_000)] {
        let mut p = with_timestamps(1);
        p.now += Duration::from_secs(100);
        p.send(2 * MSS);
        let (_, out) = p.wait();
        let mut wrong = one(out);
        let ts = wrong.options.timestamps.as_mut().unwrap();
        ts.value = ts.value.wrapping_add(off);
        echoed(&mut p, soon, 1, &wrong);
        assert_eq!(p.info().srtt, Some(RTT), "{off}");
    }
}

/// The original came and its acknowledgement was lost: what answers the repeat still echoes the
/// original. The timer's wait is no round trip.
#[test]
fn an_echo_that_came_with_the_repeat_does_not_measure_the_timer() {
    let mut p = with_timestamps(1);
    let first = one(p.send(2 * MSS));
    p.wait();
    echoed(&mut p, RTT, 1, &first);
    assert_eq!(p.info().srtt, Some(RTT));
}

/// A host's own output queue with room for three segments, one of which leaves each millisecond: the
/// window's rest follows as they leave.
#[test]
fn what_the_hosts_queue_has_no_room_for_stays_back() {
    let mut config = window(10);
    config.tcp.output_limit = Some(3 * u64::from(MSS));
    let mut p = Peer::establish(config);
    let (start, handle) = (p.now, p.handle.unwrap());
    let data = Payload::Length(10 * MSS);
    p.stack.send(p.now, handle, data).unwrap();
    let (mut leaves, mut sent) = (start, Vec::new());
    while sent.len() < 10 {
        while let Some(segment) = p.stack.transmit(p.now) {
            leaves += Duration::from_millis(1);
            p.stack.handed_over(&segment, leaves);
            sent.push(p.now.since(start).as_millis());
        }
        p.now = p.stack.next_timeout().unwrap();
        p.stack.timeout(p.now);
    }
    assert_eq!(sent, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
}

/// RFC 6298, section 3: a SYN that had to be repeated is a measurement if the answer echoes its
/// timestamp. Without one the first segment that is lost waits for the initial timeout of a second.
#[test]
fn a_repeated_syn_is_measured_by_its_echo() {
    for (timestamps, srtt) in [(true, Some(RTT)), (false, None)] {
        let mut config = window(10);
        config.tcp.timestamps = timestamps;
        let (mut p, _) = Peer::connecting(config);
        let repeat = one(p.wait().1);
        let mut answer = p.syn(Flags::SYN | Flags::ACK);
        answer.options.timestamps = repeat.options.timestamps.map(|ts| Timestamps {
            value: 7,
            echo: ts.value,
        });
        p.seq = p.seq + 1;
        p.after(RTT, answer);
        assert_eq!(p.info().srtt, srtt);
    }
}
