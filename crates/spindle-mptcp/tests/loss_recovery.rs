//! Loss detection and recovery, segment by segment: one stack, and a peer whose segments are written by hand.

mod script;

use std::sync::Arc;

use script::{MSS, PEER_ISS, Peer, RTT, one, plain};
use spindle_mptcp::congestion::DelayBounded;
use spindle_mptcp::{
    BackOff, Config, EcnMode, IdleRestart, InitialWindow, TailLossProbe, TcpState,
};
use spindle_units::Duration;
use spindle_wire::{Ecn, Flags, Payload, Segment, Timestamps};

/// An initial window of this many segments, and only the classic loss detection.
fn window(segments: u32) -> Config {
    let mut config = plain();
    config.tcp.initial_window = InitialWindow::PerSubflow(segments);
    config.loss.frto = false;
    config.loss.limited_transmit = false;
    config.loss.rescue = false;
    config
}

/// A connection with this many full segments written at once, and the segments that it sends.
fn sending(config: Config, segments: u32) -> (Peer, Vec<Segment>) {
    let mut p = Peer::establish(config);
    assert_eq!(p.info().state, TcpState::Established);
    assert_eq!(p.seq, PEER_ISS + 1);
    let out = p.send(segments * MSS);
    (p, out)
}

/// Numbers of these full segments in the stack's stream, counted from 0. `p.ack` stays at the start of the
/// stream.
fn numbers(p: &Peer, out: &[Segment]) -> Vec<u32> {
    out.iter()
        .filter(|s| !s.payload.is_empty())
        .map(|s| s.seq.0.wrapping_sub(p.ack.0) / MSS)
        .collect()
}

/// An ACK of the first `upto` segments. Each block SACKs the segments from left to before right.
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

/// The stack receives a [`sack`] segment. Returns the numbers of the segments that it sends.
fn acked(p: &mut Peer, upto: u32, blocks: &[(u32, u32)]) -> Vec<u32> {
    let seg = sack(p, upto, blocks);
    let out = p.push(seg);
    numbers(p, &out)
}

/// RFC 6675, section 5: three segments SACKed above a hole cause its retransmission, and cwnd is halved.
#[test]
fn three_sacked_segments_retransmit_the_hole() {
    let (mut p, out) = sending(window(10), 10);
    assert_eq!(numbers(&p, &out), (0..10).collect::<Vec<_>>());
    assert_eq!(acked(&mut p, 0, &[(1, 2)]), []);
    assert_eq!(acked(&mut p, 0, &[(1, 3)]), []);
    assert_eq!(acked(&mut p, 0, &[(1, 4)]), [0]);
    assert_eq!(p.info().cwnd, 5 * u64::from(MSS));
    assert_eq!(acked(&mut p, 0, &[(1, 10)]), []);
    assert_eq!(p.info().counters.retransmissions, 1);
}

/// 400 bytes of a window have room. The last 300 bytes of the data fill it, 500 do not. After a loss, they need room for a full
/// segment like all others.
#[test]
fn last_data_fill_the_window_until_the_first_loss() {
    let fill = |p: &mut Peer, last: u32| {
        let most = p.info().cwnd as u32 - 400;
        p.send(most % MSS);
        p.send(most - most % MSS);
        assert_eq!(p.info().in_flight, u64::from(most));
        p.send(last).len()
    };
    for (full_windows, last, sent) in [(false, 300, 0), (true, 300, 1), (true, 500, 0)] {
        let mut config = window(10);
        config.tcp.slow_start.full_windows = full_windows;
        let mut p = Peer::establish(config.clone());
        assert_eq!(fill(&mut p, last), sent, "{full_windows} {last}");

        let (mut p, _) = sending(config, 4);
        assert_eq!(acked(&mut p, 0, &[(1, 4)]), [0], "a loss");
        assert_eq!(acked(&mut p, 4, &[]), []);
        assert_eq!(fill(&mut p, last), 0, "{full_windows} {last}");
    }
}

/// RFC 6582, section 3.2, step 3: a partial acknowledgement retransmits the next hole at once.
#[test]
fn a_partial_acknowledgement_retransmits_the_next_hole() {
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

/// RFC 3042: the first two duplicate ACKs each allow a new segment.
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

/// RFC 5827, section 3.2: with few segments outstanding and no new data, the threshold is one duplicate ACK
/// fewer than the outstanding segments.
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

/// Linux 3.5 to 4.9, `tcp_pause_early_retransmit`: Early Retransmit waits for a quarter of the RTT, at least for
/// the configured time, and each acknowledgement starts the wait again.
#[test]
fn delayed_early_retransmit_waits_for_a_quarter_of_an_rtt_unless_the_hole_is_filled() {
    let mut config = window(10);
    config.loss.early_retransmit = true;
    config.loss.early_retransmit_delay = Some(Duration::from_millis(2));
    let (mut p, _) = sending(config.clone(), 2);
    assert_eq!(acked(&mut p, 0, &[(1, 2)]), []);
    let quarter = p.info().srtt.expect("a measurement") / 4;
    let (wait, out) = p.wait();
    assert_eq!(wait, quarter);
    assert_eq!(numbers(&p, &out), [0]);
    let counters = p.info().counters;
    assert_eq!((counters.fast_retransmits, counters.timeouts), (1, 0));

    let (mut p, _) = sending(config.clone(), 3);
    assert_eq!(acked(&mut p, 0, &[(1, 3)]), []);
    assert_eq!(acked(&mut p, 3, &[]), [], "the segment was only late");
    assert_eq!(p.info().counters.fast_retransmits, 0);

    // The retransmission timer would expire first, so that waiting makes no sense.
    config.loss.early_retransmit_delay = Some(Duration::from_secs(60));
    let (mut p, _) = sending(config, 2);
    assert_eq!(acked(&mut p, 0, &[(1, 2)]), [0]);
}

/// RFC 6298, section 5, and RFC 5681, section 3.1: one segment is retransmitted at a time, at doubled
/// intervals. After an ACK, retransmission continues in order, without the SACKed segments.
#[test]
fn after_a_timeout_segments_are_retransmitted_in_order_without_sacked_segments() {
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
fn the_first_rto_is_three_round_trips() {
    let (mut p, _) = sending(window(6), 1);
    let (wait, out) = p.wait();
    assert_eq!(wait, RTT * 3);
    assert_eq!(one(out).seq, p.ack);
}

/// RFC 2883, RFC 3708: once every retransmission is reported as needless, the reduction is undone.
#[test]
fn a_dsack_undoes_the_reduction_of_cwnd() {
    let (mut p, _) = sending(window(10), 10);
    for right in 2..=4 {
        acked(&mut p, 0, &[(1, right)]);
    }
    assert_eq!(p.info().cwnd, 5 * u64::from(MSS));
    acked(&mut p, 10, &[(0, 1)]);
    assert!(p.info().cwnd >= 10 * u64::from(MSS));
    assert_eq!(p.info().counters.undos, 1);
}

/// If the handshake is not used as an RTT measurement, the configured timeout applies until data that were sent
/// once are acknowledged (MMPTCP's authors' code).
#[test]
fn the_configured_data_rto_holds_until_data_are_acknowledged() {
    let mut config = window(1);
    config.tcp.data_rto.fixed = Some(Duration::from_millis(1500));
    let (mut p, _) = sending(config, 2);
    assert_eq!(p.info().rto, Duration::from_millis(1500));
    let now = sack(&p, 1, &[]);
    p.after(RTT, now);
    assert!(p.info().rto < Duration::from_secs(1), "{:?}", p.info().rto);
}

/// RFC 5682, section 3.1: acknowledgements of original segments after the timeout's only retransmission show
/// that the timeout was spurious.
#[test]
fn frto_detects_a_spurious_timeout() {
    let mut config = window(6);
    config.loss.frto = true;
    let (mut p, _) = sending(config, 20);
    let (_, out) = p.wait();
    assert_eq!(numbers(&p, &out), [0]);
    assert_eq!(acked(&mut p, 1, &[]), [6, 7], "only new data");
    assert!(acked(&mut p, 2, &[]).iter().all(|n| *n >= 8));
    assert!(p.info().cwnd >= 6 * u64::from(MSS));
    assert_eq!(p.info().counters.retransmissions, 1);
}

/// The acknowledgement that shows that a timeout was spurious also shows a loss. The loss halves the window that was restored,
/// not the one that the timeout had left.
#[test]
fn a_loss_found_together_with_a_spurious_timeout_halves_the_restored_window() {
    let mut config = window(10);
    config.loss.frto = true;
    let (mut p, _) = sending(config, 20);
    let (_, out) = p.wait();
    assert_eq!(numbers(&p, &out), [0]);
    assert_eq!(acked(&mut p, 1, &[]), [10, 11]);
    acked(&mut p, 1, &[(2, 10)]);
    assert_eq!(p.info().counters.undos, 1);
    assert_eq!(p.info().counters.fast_retransmits, 1);
    let ssthresh = p.info().ssthresh / u64::from(MSS);
    assert!((4..=6).contains(&ssthresh), "{ssthresh} segments");
}

fn probing() -> Config {
    let mut config = window(4);
    config.loss.tail_loss_probe = Some(TailLossProbe::default());
    config
}

/// RFC 8985, section 7: after two smoothed round trips the probe sends the last segment again, or new data. It
/// does so once.
#[test]
fn a_tail_loss_probe_sends_the_last_segment_again_or_new_data() {
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

/// With a margin the probe does not wait for a second round trip. An acknowledgement of other segments does not make it wait
/// for longer than until the last segment's own acknowledgement is overdue.
#[test]
fn an_early_probe_repeats_the_last_segment_once_its_acknowledgement_is_overdue() {
    let mut config = probing();
    config.loss.tail_loss_probe = Some(TailLossProbe {
        margin: Some(0.25),
        ..TailLossProbe::default()
    });
    let (mut p, _) = sending(config.clone(), 3);
    let (wait, out) = p.wait();
    assert_eq!((wait, numbers(&p, &out)), (RTT + RTT / 4, vec![2]));
    assert_eq!(p.info().counters.timeouts, 0);
    let (mut p, _) = sending(config.clone(), 3);
    let seg = sack(&p, 2, &[]);
    assert_eq!(p.after(RTT, seg), []);
    let (wait, out) = p.wait();
    assert_eq!((wait, numbers(&p, &out)), (RTT / 4, vec![2]));
    // New data wait for the window: this is no tail. Where many flows share a queue, round trips become longer, and early
    // probes would be more data.
    let (mut p, _) = sending(config, 20);
    let (wait, out) = p.wait();
    assert_eq!((wait, numbers(&p, &out)), (RTT * 2, vec![4]));
}

/// RFC 8985, section 8: the probe and the RTO exclude each other. If the RTO would expire earlier, the probe is
/// sent in its place (Linux: `tcp_schedule_loss_probe`).
#[test]
fn a_tail_loss_probe_later_than_the_rto_replaces_it() {
    let mut config = probing();
    config.loss.tail_loss_probe = Some(TailLossProbe {
        floor: Duration::from_secs(10),
        ..TailLossProbe::default()
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

/// RFC 6937, section 3: data sent in recovery follow the delivered data. This also holds if RACK's timer starts
/// the recovery and no acknowledgement has arrived.
#[test]
fn recovery_started_by_the_rack_timer_sends_one_segment_until_an_ack_arrives() {
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

/// RFC 8985, section 6.2: a segment that was sent a reordering window before an arrived segment is lost,
/// without three duplicate ACKs.
#[test]
fn rack_detects_a_loss_by_time() {
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

/// RFC 8985, section 3.1: a lost retransmission is detected when a segment sent after it arrives. With RFC 6675
/// alone only the RTO detects it, twice if the queues of two paths overflow together.
#[test]
fn rack_detects_a_lost_retransmission_without_a_timeout() {
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

/// RFC 5681, section 4.1: the restart window does not exceed cwnd.
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

/// RFC 2861, section 3.1: cwnd halves for each RTO of idle time, and ssthresh is at least 3/4 of cwnd before.
#[test]
fn idle_time_halves_cwnd_per_rto_and_keeps_three_quarters_as_ssthresh() {
    let mss = u64::from(MSS);
    let mut config = window(2);
    config.tcp.idle_restart = IdleRestart::Decay;
    config.tcp.slow_start.initial_ssthresh = Some(4 * mss);
    let (mut p, _) = sending(config, 60);
    for upto in 1..=60 {
        acked(&mut p, upto, &[]);
    }
    let before = p.info().cwnd;
    assert!(before > 8 * mss, "{before}");
    p.now += p.info().rto * 3 / 2;
    p.send(MSS);
    let info = p.info();
    assert_eq!(info.cwnd, before / 2);
    assert_eq!(info.ssthresh, before - before / 4);
    acked(&mut p, 61, &[]);
    p.now += Duration::from_secs(60);
    p.send(MSS);
    let least = 2 * mss;
    assert_eq!(p.info().cwnd, least, "not below the initial window");
}

/// Linux: a timer is set at the last tick, and its duration is rounded up to ticks.
#[test]
fn retransmission_timer_with_ticks_expires_at_a_tick() {
    for (min_rto, waited) in [(300_000, 299_700), (300_500, 300_700)] {
        let mut config = window(1);
        config.loss.timer_tick = Some(Duration::from_millis(1));
        config.tcp.min_rto = Duration::from_micros(min_rto);
        let mut p = Peer::establish(config);
        p.now += Duration::from_micros(300);
        p.send(MSS);
        assert_eq!(p.wait().0, Duration::from_micros(waited));
    }
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

/// RFC 3168, section 6.1.2: cwnd is reduced once per window. CWR is set on the next new data, which are ECT.
#[test]
fn an_ecn_echo_halves_cwnd_once_per_window() {
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
fn an_ecn_echo_in_the_next_window_halves_cwnd_again() {
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

/// RFC 3168, section 6.1.5: a retransmission is not ECT.
#[test]
fn a_retransmission_is_not_ect() {
    let mut p = with_ecn(10);
    p.send(10 * MSS);
    let seg = sack(&p, 0, &[(1, 4)]);
    assert_eq!(one(p.push(seg)).ecn, Ecn::NotEct);
}

/// RFC 3168, section 6.1.3: the mark is echoed until CWR arrives.
#[test]
fn a_ce_mark_is_echoed_until_cwr_arrives() {
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

/// RFC 8985, section 7.4.2: a loss that the probe repaired is handled like fast recovery. cwnd becomes half of
/// the data in flight, however much the acknowledgement covers.
#[test]
fn a_loss_repaired_by_a_tail_loss_probe_halves_cwnd() {
    let mut config = probing();
    config.tcp.initial_window = InitialWindow::PerSubflow(10);
    let (mut p, _) = sending(config, 10);
    let (_, out) = p.wait();
    assert_eq!(numbers(&p, &out), [9]);
    acked(&mut p, 10, &[]);
    assert_eq!(p.info().cwnd, 5 * u64::from(MSS));
}

/// A tail loss probe showed a loss in the same window, so that the recovery reduces nothing. Slow start went on without a
/// threshold since then, so the window at the end of the recovery is PRR's target, not ssthresh.
#[test]
fn the_window_stays_finite_after_a_recovery_without_a_slow_start_threshold() {
    let mut config = probing();
    config.tcp.initial_window = InitialWindow::PerSubflow(10);
    config.loss.prr = true;
    config.congestion = Arc::new(DelayBounded::default());
    let (mut p, _) = sending(config, 3);
    let seg = sack(&p, 3, &[]);
    p.after(RTT, seg);
    p.send(3 * MSS);
    let (_, out) = p.wait();
    assert_eq!(numbers(&p, &out), [5]);
    let out = p.send(6 * MSS);
    assert_eq!(numbers(&p, &out), (6..12).collect::<Vec<_>>());
    acked(&mut p, 6, &[]);
    let seg = sack(&p, 7, &[]);
    p.after(RTT, seg);
    assert_eq!(p.info().ssthresh, u64::MAX, "slow start goes on");
    let before = p.info().cwnd;
    assert_eq!(acked(&mut p, 7, &[(8, 11)]), [7]);
    acked(&mut p, 12, &[]);
    let cwnd = p.info().cwnd;
    assert!(
        (before..=2 * before).contains(&cwnd),
        "{cwnd}, was {before}"
    );
}

/// RFC 6675, section 4, NextSeg rule 4: in recovery with nothing else to send, the last outstanding segment is
/// retransmitted, once per recovery.
#[test]
fn a_lost_tail_is_retransmitted_once_in_recovery() {
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
        "the RTO retransmits it if that is lost too"
    );
    assert_eq!(p.info().counters.timeouts, 1);
}

/// RFC 5681, section 3.1: the halved amount is the flight before the acknowledgement that shows the loss,
/// although that acknowledgement removes a part of the flight.
#[test]
fn a_loss_shown_by_an_advancing_acknowledgement_halves_the_whole_flight() {
    let (mut p, _) = sending(window(10), 10);
    // One ACK reports that the first six and the last three segments arrived, and the seventh did not.
    assert_eq!(acked(&mut p, 6, &[(7, 10)]), [6]);
    assert_eq!(p.info().cwnd, 5 * u64::from(MSS));
}

/// RFC 6928, section 2: one retransmitted SYN leaves the initial window unchanged. A second retransmission
/// reduces it to one segment.
#[test]
fn a_syn_lost_twice_makes_the_initial_window_one_segment() {
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

/// A SYN that was repeated gives no round-trip time without timestamps. Timeouts of the data that follow are bounded all the
/// same, since the path has answered.
#[test]
fn bounded_back_off_begins_with_the_handshake_although_no_rtt_was_measured() {
    let mut config = window(10);
    config.tcp.back_off = BackOff::Bounded { doublings: 5 };
    config.tcp.data_rto.after_syn_timeout = Duration::from_secs(1);
    let (mut p, _) = Peer::connecting(config);
    let (first, _) = p.wait();
    let (second, _) = p.wait();
    assert_eq!(second, first * 2, "SYNs back off without a bound");
    let answer = p.syn(Flags::SYN | Flags::ACK);
    p.seq = p.seq + 1;
    p.after(RTT, answer);
    p.send(MSS);
    for _ in 0..4 {
        let (waited, out) = p.wait();
        assert_eq!(numbers(&p, &out), [0]);
        assert_eq!(waited, Duration::from_secs(1));
    }
}

/// RFC 6937, section 3: with enough data to fill the window, half a flight is sent while a flight is delivered.
/// One segment is sent for every two acknowledged, and never a burst.
#[test]
fn proportional_rate_reduction_sends_one_segment_per_two_acknowledged() {
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
    // Together with the retransmission of the hole, this is ssthresh in flight.
    assert_eq!(sent, (20..29).collect::<Vec<_>>());
    acked(&mut p, 20, &[]);
    assert_eq!(p.info().ssthresh, 10 * u64::from(MSS));
}

/// RFC 2018, section 8: a timeout whose first segment is SACKed means that the receiver has discarded SACKed
/// data. All segments are retransmitted, SACKed or not.
#[test]
fn all_segments_are_retransmitted_to_a_receiver_that_reneged() {
    let (mut p, _) = sending(window(5), 5);
    // The second to the fifth segment are SACKed. The first segment is lost, retransmitted, and acknowledged
    // alone.
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

/// RFC 8257, section 3.2: with DCTCP the mark of each segment is echoed in its acknowledgement, and the echo
/// does not wait for CWR.
#[test]
fn dctcp_echoes_the_mark_of_each_segment() {
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

/// A connection that negotiated timestamps. The peer's own timestamp clock does not advance.
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

/// Numbers of the full segments sent when `upto` segments are acknowledged after `wait`. The ACK echoes the
/// timestamp of `of`.
fn echoed(p: &mut Peer, wait: Duration, upto: u32, of: &Segment) -> Vec<u32> {
    let mut seg = sack(p, upto, &[]);
    let echo = of.options.timestamps.unwrap().value;
    seg.options.timestamps = Some(Timestamps { value: 7, echo });
    let out = p.after(wait, seg);
    numbers(p, &out)
}

/// RFC 7323, section 4.1: the echo shows which transmission is acknowledged. An acknowledgement of a
/// retransmission is therefore an RTT measurement (RFC 6298, section 3, exempts it from Karn's rule) and ends
/// the back-off, even if every segment must be sent twice.
#[test]
fn an_echo_of_a_retransmission_is_an_rtt_measurement_and_ends_the_back_off() {
    let mut p = with_timestamps(1);
    let first = one(p.send(8 * MSS));
    assert_eq!(first.payload.len() as u32, MSS);
    let mut waits = Vec::new();
    for n in 0..4 {
        let (wait, out) = p.wait();
        assert_eq!(numbers(&p, &out), [n], "the RTO retransmits the first");
        waits.push(wait);
        assert_eq!(p.info().srtt, Some(RTT));
        // The acknowledgement of the retransmission allows the next segments, which are lost.
        assert_eq!(echoed(&mut p, RTT, n + 1, &out[0])[0], n + 1);
    }
    assert!(
        waits.windows(2).all(|w| w[1] <= w[0]),
        "the waits grow: {waits:?}"
    );
}

/// Without timestamps an acknowledgement does not identify the transmission (Karn's rule). The back-off stays
/// until data that were sent once are acknowledged.
#[test]
fn without_timestamps_the_back_off_stays_while_all_data_are_retransmitted() {
    let (mut p, _) = sending(window(1), 8);
    let mut waits = Vec::new();
    for n in 0..3 {
        let (wait, _) = p.wait();
        waits.push(wait);
        acked(&mut p, n + 1, &[]);
    }
    assert!(waits.windows(2).all(|w| w[1] > w[0]), "{waits:?}");
}

/// An echo of the original arrives before the retransmission can have been answered. It measures the whole
/// round trip: the RTO was too short. An echo of a future timestamp, or of one older than a minute, is no
/// measurement.
#[test]
fn an_echo_of_the_original_measures_a_path_slower_than_the_rto() {
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

/// The original arrived and its acknowledgement was lost. The answer to the retransmission still echoes the
/// original. The wait for the RTO is not part of the round trip.
#[test]
fn an_echo_in_the_answer_to_a_retransmission_does_not_include_the_rto() {
    let mut p = with_timestamps(1);
    let first = one(p.send(2 * MSS));
    p.wait();
    echoed(&mut p, RTT, 1, &first);
    assert_eq!(p.info().srtt, Some(RTT));
}

/// All acknowledgements were lost for some seconds. The peer has the segment that the probe repeats, so its answer
/// has a D-SACK block for the probe and echoes the original. It comes sooner than any answer before, since nothing
/// else is on the path. The outage is not part of the round trip.
#[test]
fn an_echo_next_to_a_dsack_block_does_not_include_an_outage() {
    for shorter in [Duration::from_millis(1), RTT / 3] {
        let mut p = with_timestamps(10);
        let first = one(p.send(MSS));
        p.wait();
        for _ in 0..3 {
            p.wait();
        }
        let mut seg = sack(&p, 1, &[(0, 1)]);
        let echo = first.options.timestamps.unwrap().value;
        seg.options.timestamps = Some(Timestamps { value: 7, echo });
        p.after(RTT - shorter, seg);
        assert_eq!(p.info().srtt, Some(RTT), "{shorter:?} below the minimum");
    }
}

/// The host's own output queue has room for three segments and sends one segment each millisecond. The rest of
/// the window follows as segments leave the queue.
#[test]
fn segments_beyond_the_output_limit_wait_for_room_in_the_host_queue() {
    let mut config = window(10);
    config.tcp.output_limit = Some(3 * u64::from(MSS));
    let mut p = Peer::establish(config);
    let (start, handle) = (p.now, p.handle.unwrap());
    let data = Payload::Length(10 * MSS);
    p.stack.send(p.now, handle, data).unwrap();
    let (mut leaves, mut sent) = (start, Vec::new());
    while sent.len() < 10 {
        while let Some(packet) = p.stack.transmit(p.now) {
            leaves += Duration::from_millis(1);
            p.stack.handed_over(&packet, leaves);
            sent.push(p.now.since(start).as_millis());
        }
        p.now = p.stack.next_timeout().unwrap();
        p.stack.timeout(p.now);
    }
    assert_eq!(sent, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
}

/// RFC 6298, section 3: a retransmitted SYN is an RTT measurement if the answer echoes its timestamp. Without a
/// measurement, the first lost segment waits for the initial RTO of one second.
#[test]
fn the_rtt_of_a_retransmitted_syn_is_measured_by_its_timestamp_echo() {
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
