//! Copies at a price: of segments that are late, and of those whose expected gain is worth a transmission. The data
//! of a path that no longer answers are copied at any price.

use std::sync::Arc;

use spindle_units::{Duration, Instant};

use super::choice::{self, Late, copy_late};
use super::repeats::Repeats;
use super::{
    Action, Capabilities, Eligibility, Prospect, Recovery, RecoveryFactory, SegmentView, SentView,
    SubflowView, TailParities, View, Window,
};

/// The policy. A segment is copied over the fastest other subflow with room, and at most once. Copies are inside the
/// window of that subflow, except those of silent paths:
///
/// - **Late segments**, ahead of new data: those that were sent longer ago than an acknowledgement over their own
///   path takes, and four times its variation (RFC 6298's bound, without its minimum). `deadline-reinjection`
///   compares with the fastest path, so that all segments of a slow path are late.
/// - **Worthwhile copies**, if there are no new data: those whose expected gain exceeds [`Self::price`]. The gain is
///   the probability that the segment is lost, times the time that the copy would save if it is: the repair by
///   its own path takes a probe timeout (RFC 8985, section 7.2) and one way, the copy takes one way.
/// - **Parities of the last flight** in place of such copies, if their gain is larger, with [`Self::parities`]. A single
///   subflow has them as well. They need a peer that decodes them.
/// - **Segments of a silent path**, ahead of new data: those that are twice as late, since their path no longer
///   answers. If the other subflow has no room, they are copied beyond its window, as long as its bytes in flight are
///   less than [`Self::excess`] of the silent subflow's window. Both windows were open a moment ago, and one of the
///   paths is gone. A subflow whose own segments are late carries no such copies, since both paths may share the
///   bottleneck that drops them.
///
/// **A peer that decodes no parities**, such as a kernel, gets copies in their place:
///
/// - As long as a single subflow can send, worthwhile copies are repeats over its own path, with [`Self::repeats`]. Each
///   transmission is repeated at most once, before its acknowledgement is due.
/// - If later segments were sent, a loss is found after one RTT, not after a probe timeout. Segments whose acknowledgements
///   are due are therefore not copied, which leaves more copies for others.
/// - The retransmission of a segment that was lost is copied at once, ahead of new data, if that is worthwhile.
/// - New data that do not fit into the peer's window do not delay copies. A lost segment may be what keeps it full.
///
/// The number of copies and parities is at most [`Self::share`] of the segments sent, or [`Self::lossy_share`] of those on paths
/// that lose much. Late segments may cost [`Self::free`] copies more, and as many as were lost. Segments of silent paths
/// may cost any number. Nothing else is free, so that connections of a few segments do not pay a large share, except
/// worthwhile copies towards a peer that decodes no parities. Repeats of retransmissions count as copies of late segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PricedCopies {
    /// The gain above which a copy is made, in smoothed RTTs of the path that would carry the copy. 0.05 by default
    /// (our choice).
    pub price: f64,
    /// The most copies as a share of the segments sent. 0.04 by default (our choice).
    pub share: f64,
    /// The most copies as a share of the segments sent on paths that lose at least [`Self::lossy_from`]. 0.08 by
    /// default (our choice).
    pub lossy_share: f64,
    /// The [loss estimate](SubflowView::loss) from which a path loses much. 0.05 by default (our choice).
    pub lossy_from: f64,
    /// Copies of late segments that are allowed from the beginning, so that short connections have some; towards a peer
    /// that decodes no parities, all copies. 8 by default (our choice).
    pub free: f64,
    /// The bytes in flight up to which a subflow carries copies of a silent path's segments beyond its own window, as
    /// a share of the silent subflow's window. 0.5 by default (our choice); 0 keeps all copies inside the window.
    pub excess: f64,
    /// Which segments may be copied.
    pub eligibility: Eligibility,
    /// Whether segments are repeated over the only path there is. `false` by default, `true` towards unmodified receivers.
    pub repeats: bool,
    /// Parities of the last flight. `None` by default.
    pub parities: Option<TailParities>,
}

impl Default for PricedCopies {
    fn default() -> Self {
        Self {
            price: 0.05,
            share: 0.04,
            lossy_share: 0.08,
            lossy_from: 0.05,
            free: 8.0,
            excess: 0.5,
            eligibility: Eligibility::default(),
            repeats: false,
            parities: None,
        }
    }
}

/// The smoothed RTTs until a segment without an acknowledgement is probed (RFC 8985, section 7.2).
const PROBE_RTTS: u64 = 2;
/// How many times the variation of the RTT an acknowledgement may be late (RFC 6298, section 2.3: K).
const K: u64 = 4;
/// How many times as late the segments of a silent path are (our choice).
const SILENCE: u64 = 2;

impl PricedCopies {
    /// The default values, and parities of the last flight with theirs.
    pub fn with_parities() -> Self {
        Self {
            parities: Some(TailParities::default()),
            ..Self::default()
        }
    }

    /// The default values, and repeats over the only path there is.
    pub fn with_repeats() -> Self {
        Self {
            repeats: true,
            ..Self::default()
        }
    }

    /// The number of copies and parities that are allowed for the segments sent.
    fn allowed(&self, view: &View<'_>) -> f64 {
        let of = |s: &SubflowView| match s.loss >= self.lossy_from {
            true => self.lossy_share * s.sent as f64,
            false => self.share * s.sent as f64,
        };
        view.subflows.iter().map(of).sum::<f64>()
    }

    /// Worthwhile copies may cost the free copies more if there are no parities.
    fn allowed_worthwhile(&self, view: &View<'_>) -> f64 {
        let free = if view.decodes { 0.0 } else { self.free };
        self.allowed(view) + free
    }

    /// Late segments may cost the free copies more, and as many as were lost.
    fn allowed_late(&self, view: &View<'_>) -> f64 {
        let lost = view.subflows.iter().map(|s| s.retransmitted).sum::<u64>();
        self.allowed(view) + self.free + lost as f64
    }

    /// How long after its transmission a segment of a subflow is late.
    fn late_after(s: &SubflowView) -> Option<Duration> {
        let (srtt, rttvar) = (s.srtt?, s.rttvar?);
        // The least variation is that of RACK's window for reordering (RFC 8985, section 6.2).
        Some(srtt + (rttvar * K).max(srtt / 4))
    }

    /// When `segment` of a subflow will be `times` as late as a late one.
    fn late_at(s: &SubflowView, segment: &SegmentView, times: u64) -> Option<Instant> {
        Some(segment.sent_at + Self::late_after(s)? * times)
    }

    /// The fastest subflow that may carry the copy of a segment of the silent subflow `of` beyond its window.
    fn beyond_window<'a>(
        &self,
        view: &View<'a>,
        of: &SubflowView,
        segment: &SegmentView,
    ) -> Option<&'a SubflowView> {
        let most = self.excess * of.cwnd as f64;
        let late_at = |s: &SubflowView| Self::late_at(s, &s.oldest_unprotected?, 1);
        let answers = |s: &SubflowView| late_at(s).is_none_or(|at| view.now < at);
        choice::fastest_other_where(view, of.id, u64::from(segment.len), |s| {
            s.usable && (s.in_flight as f64) < most && answers(s)
        })
    }

    /// How long after its transmission `segment` of subflow `of` is found lost without a copy.
    fn found_after(view: &View<'_>, of: &SubflowView, segment: &SegmentView) -> Option<Duration> {
        let is_followed = segment.position + u64::from(segment.len) < of.sent_to;
        let rtts = match is_followed && !view.decodes {
            true => 1,
            false => PROBE_RTTS,
        };
        Some(of.srtt? * rtts)
    }

    /// What a copy of `segment`, which subflow `of` carries, gains on average, and its action.
    fn worthwhile(
        &self,
        view: &View<'_>,
        of: &SubflowView,
        segment: &SegmentView,
    ) -> Option<(f64, Action)> {
        let on = choice::fastest_other(view, of.id, u64::from(segment.len))?;
        let (own, other) = (of.srtt?, on.srtt?);
        let elapsed = view.now.since(segment.sent_at);
        let repair = Self::found_after(view, of, segment)?.saturating_sub(elapsed) + own / 2;
        let saved = repair.saturating_sub(other / 2);
        let rtts = saved.as_nanos() as f64 / other.max(Duration::from_nanos(1)).as_nanos() as f64;
        let gain = of.loss * rtts;
        (gain > self.price).then(|| (gain, choice::copy_over(of.id, segment, on, Window::Inside)))
    }
}

#[derive(Debug)]
struct PricedPolicy {
    settings: PricedCopies,
    /// Copies and parities requested so far.
    spent: u64,
    repeats: Repeats,
    /// When the next segment will be late.
    due: Option<Instant>,
}

impl RecoveryFactory for PricedCopies {
    fn build(&self, _seed: u64) -> Box<dyn Recovery> {
        Box::new(PricedPolicy {
            settings: *self,
            spent: 0,
            repeats: Repeats::default(),
            due: None,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            block_parities: self.parities.is_some(),
            ..Capabilities::default()
        }
    }

    fn for_unmodified_receivers(&self) -> Option<Arc<dyn RecoveryFactory>> {
        Some(Arc::new(Self {
            eligibility: Eligibility::NotDataAcked,
            repeats: true,
            parities: None,
            ..*self
        }))
    }
}

impl PricedPolicy {
    /// A copy of a late segment over another subflow.
    fn late(&mut self, view: &View<'_>) -> Option<Action> {
        let paid = (self.spent + 1) as f64 <= self.settings.allowed_late(view);
        let patience = if paid { 1 } else { SILENCE };
        let late_at = |s: &SubflowView, segment: &SegmentView| {
            let again = segment.retransmitted && !view.decodes;
            match again && paid && self.settings.worthwhile(view, s, segment).is_some() {
                true => Some(segment.sent_at),
                false => PricedCopies::late_at(s, segment, patience),
            }
        };
        match copy_late(view, late_at) {
            Late::Copy(copy) => return Some(copy),
            Late::Next(at) => self.due = Some(at),
            Late::Nothing => {}
        }
        self.silent(view)
    }

    /// A copy of a silent path's segment beyond the window of another subflow.
    fn silent(&mut self, view: &View<'_>) -> Option<Action> {
        for of in view.subflows {
            let Some(segment) = of.oldest_unprotected else {
                continue;
            };
            match PricedCopies::late_at(of, &segment, SILENCE) {
                Some(at) if at <= view.now => {
                    if let Some(on) = self.settings.beyond_window(view, of, &segment) {
                        return Some(choice::copy_over(of.id, &segment, on, Window::Outside));
                    }
                }
                at => self.due = self.due.into_iter().chain(at).min(),
            }
        }
        None
    }

    /// The copy or parity with the largest expected gain, if that exceeds the price.
    fn worthwhile(&self, view: &View<'_>) -> Option<Action> {
        if self.spent as f64 + 1.0 > self.settings.allowed_worthwhile(view) {
            return None;
        }
        let copies = view.subflows.iter().filter_map(|s| {
            let segment = s.oldest_unprotected?;
            self.settings.worthwhile(view, s, &segment)
        });
        let tails = self.settings.parities.filter(|_| view.decodes).into_iter();
        let parities = tails.flat_map(|tail| {
            let parities = view
                .subflows
                .iter()
                .filter_map(move |s| tail.parity(view, s));
            parities.filter(|(gain, _)| *gain > self.settings.price)
        });
        let best = copies.chain(parities).max_by(|a, b| a.0.total_cmp(&b.0));
        best.map(|(_, action)| action)
    }

    /// The repeat of a segment over its own path, if there is no other one and the expected gain exceeds the price.
    fn repeat(&mut self, view: &View<'_>) -> Option<Action> {
        let (of, segment) = self.repeats.candidate(view)?;
        let allowed = match segment.retransmitted {
            true => self.settings.allowed_late(view),
            false => self.settings.allowed_worthwhile(view),
        };
        let srtt = of.srtt?;
        let saved = srtt.saturating_sub(view.now.since(segment.sent_at));
        let gain = of.loss * saved.as_secs_f64() / srtt.as_secs_f64();
        let pays = gain > self.settings.price && self.spent as f64 + 1.0 <= allowed;
        pays.then(|| self.repeats.request())
    }
}

impl Recovery for PricedPolicy {
    fn on_sent(&mut self, sent: &SentView) {
        if self.settings.repeats {
            self.repeats.on_sent(sent);
        }
    }

    fn eligibility(&self) -> Eligibility {
        self.settings.eligibility
    }

    fn is_interested(&self, prospect: &Prospect) -> bool {
        prospect.outstanding
    }

    fn on_opportunity(&mut self, view: &View<'_>) -> Action {
        self.due = None;
        let several = view.subflows.len() > 1;
        let mut action = several.then(|| self.late(view)).flatten();
        if !view.new_data || view.window_blocked && !view.decodes {
            let worthwhile = action.or_else(|| self.worthwhile(view));
            action = worthwhile.or_else(|| self.repeat(view));
        }
        self.spent += u64::from(action.is_some());
        action.unwrap_or(Action::Nothing)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.due
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn longest_block(&self) -> usize {
        self.settings.parities.map_or(0, |p| p.longest_block)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{subflow, view};
    use super::super::{RunView, Trigger};
    use super::*;
    use crate::types::{DataOffset, SubflowId, SubflowPosition};

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A path with a segment in flight, sent at 0, and an idle one of the same RTT of 20 ms. Each has sent 190 segments.
    fn paths(retransmitted: u64) -> [SubflowView; 2] {
        let mut s = [0, 1].map(|n| subflow(SubflowId(n)));
        for s in &mut s {
            (s.srtt, s.rttvar, s.sent) = (Some(ms(20)), Some(ms(1)), 190);
        }
        s[0].retransmitted = retransmitted;
        s[0].loss = retransmitted as f64 / 200.0;
        s[0].oldest_unprotected = Some(SegmentView {
            position: SubflowPosition::FIRST_BYTE,
            len: 1000,
            offset: DataOffset::START,
            sent_at: Instant::ZERO,
            retransmitted: false,
        });
        s
    }

    const fn copy(window: Window) -> Action {
        Action::Copy {
            of: SubflowId(0),
            position: SubflowPosition::FIRST_BYTE,
            on: SubflowId(1),
            window,
        }
    }

    const COPY: Action = copy(Window::Inside);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn late_segment_is_copied_ahead_of_new_data_and_others_are_not() {
        let subflows = paths(0);
        let mut policy = PricedCopies::default().build(1);
        let mut v = view(&subflows, true, Trigger::Sent);
        v.now = at(24);
        assert_eq!(policy.on_opportunity(&v), Action::Nothing);
        assert_eq!(policy.next_timeout(), Some(at(25)), "20 ms + 20 ms / 4");
        v.now = at(25);
        assert_eq!(policy.on_opportunity(&v), COPY);
    }

    #[test]
    fn variation_of_the_rtt_delays_the_time_when_a_segment_is_late() {
        let mut s = paths(0);
        s[0].rttvar = Some(ms(10));
        assert_eq!(PricedCopies::late_after(&s[0]), Some(ms(60)));
        s[0].srtt = None;
        assert_eq!(PricedCopies::late_after(&s[0]), None);
    }

    /// The copy saves 2 RTTs: a probe timeout of 2 and a way of 1/2, against a way of 1/2. The price of 5 % of an RTT
    /// is exceeded from a loss rate of 2.5 % on: 6 of 190 and 10 segments.
    #[test]
    fn segment_is_copied_without_new_data_if_the_expected_gain_exceeds_the_price() {
        for (retransmitted, copied) in [(5, false), (6, true)] {
            let subflows = paths(retransmitted);
            let mut policy = PricedCopies::default().build(1);
            let mut ask =
                |new_data| policy.on_opportunity(&view(&subflows, new_data, Trigger::Ack));
            assert_eq!(ask(true), Action::Nothing);
            assert_eq!(ask(false) == COPY, copied, "{retransmitted}");
        }
    }

    #[test]
    fn copies_are_limited_to_a_share_of_the_segments() {
        let copies = |retransmitted, now, decodes| {
            let subflows = paths(retransmitted);
            let mut v = view(&subflows, false, Trigger::Ack);
            (v.now, v.decodes) = (at(now), decodes);
            let mut policy = PricedCopies::default().build(1);
            (0..1000)
                .take_while(|_| policy.on_opportunity(&v) == COPY)
                .count()
        };
        // 4 % of 380 = 15.2.
        assert_eq!(copies(6, 0, true), 15);
        assert_eq!(copies(6, 0, false), 23, "8 more if there are no parities");
        // 8 % of 190 + 4 % of 190 = 22.8 with a loss of 5 %.
        assert_eq!(copies(10, 0, true), 22);
        // Late: 8 more, and 10, as many as were lost.
        assert_eq!(copies(10, 49, true), 40);
        assert_eq!(copies(10, 50, true), 1000, "the path no longer answers");
    }

    /// Each path has sent ten segments more than the one in question, so that an acknowledgement shows after 20 ms whether
    /// this one is lost.
    #[test]
    fn segment_whose_acknowledgement_is_due_is_not_copied_if_the_peer_decodes_nothing() {
        let mut subflows = paths(40);
        subflows[0].sent_to = SubflowPosition::FIRST_BYTE + 11_000;
        let is_copied = |now, decodes| {
            let mut v = view(&subflows, false, Trigger::Ack);
            (v.now, v.decodes) = (at(now), decodes);
            PricedCopies::default().build(1).on_opportunity(&v) == COPY
        };
        // A loss of 20 %, times the time until the acknowledgement is due.
        assert_eq!(
            [0, 14, 16].map(|ms| is_copied(ms, false)),
            [true, true, false]
        );
        assert!(is_copied(16, true));
    }

    #[test]
    fn retransmission_over_a_lossy_path_is_copied_at_once_and_ahead_of_new_data() {
        let is_copied = |retransmitted, decodes| {
            let mut subflows = paths(retransmitted);
            subflows[0].sent_to = SubflowPosition::FIRST_BYTE + 11_000;
            let segment = subflows[0].oldest_unprotected.as_mut();
            segment.expect("in flight").retransmitted = true;
            let mut v = view(&subflows, true, Trigger::Ack);
            v.decodes = decodes;
            PricedCopies::default().build(1).on_opportunity(&v) == COPY
        };
        assert!(is_copied(20, false));
        assert!(!is_copied(5, false), "2.5 % are below the price");
        assert!(!is_copied(20, true));
    }

    #[test]
    fn data_beyond_the_peers_window_do_not_delay_copies_if_it_decodes_nothing() {
        let subflows = paths(20);
        let is_copied = |window_blocked, decodes| {
            let mut v = view(&subflows, true, Trigger::Ack);
            (v.window_blocked, v.decodes) = (window_blocked, decodes);
            PricedCopies::default().build(1).on_opportunity(&v) == COPY
        };
        assert!(is_copied(true, false));
        assert!(!is_copied(false, false) && !is_copied(true, true));
    }

    /// One lossy path, which has sent a segment at 0.
    #[test]
    fn segment_on_the_only_path_is_repeated_if_that_is_worth_the_price() {
        let repeats = |retransmitted, now| {
            let subflows = &paths(retransmitted)[..1];
            let mut policy = PricedCopies::with_repeats().build(1);
            let segment = subflows[0].oldest_unprotected.expect("in flight");
            policy.on_sent(&SentView {
                now: Instant::ZERO,
                subflow: SubflowId(0),
                segment,
                new: true,
            });
            let mut v = view(subflows, false, Trigger::Sent);
            v.now = at(now);
            matches!(policy.on_opportunity(&v), Action::Repeat { .. })
        };
        assert!(repeats(11, 0), "5.5 % of an RTT");
        assert!(!repeats(10, 0), "5 %, the price");
        assert!(!repeats(100, 20), "its acknowledgement is due");
    }

    /// A single subflow that has sent 200 segments, and ten of them in flight.
    fn single() -> [SubflowView; 1] {
        let mut s = [subflow(SubflowId(0))];
        (s[0].sent, s[0].uncoded) = (
            200,
            Some(RunView {
                first: SubflowPosition::FIRST_BYTE,
                segments: 10,
                parity_len: 1000,
            }),
        );
        s
    }

    #[test]
    fn single_subflow_has_parities_of_its_last_flight_up_to_the_share_of_segments() {
        let subflows = single();
        let parities = |new_data, decodes, settings: PricedCopies| {
            let mut v = view(&subflows, new_data, Trigger::Sent);
            v.decodes = decodes;
            let mut policy = settings.build(1);
            (0..1000)
                .take_while(|_| policy.on_opportunity(&v) != Action::Nothing)
                .count()
        };
        let with = PricedCopies::with_parities();
        assert_eq!(parities(false, true, with), 8, "4 % of 200, and none free");
        assert_eq!(parities(true, true, with), 0, "not before new data");
        assert_eq!(parities(false, false, with), 0, "the peer does not decode");
        assert_eq!(parities(false, true, PricedCopies::default()), 0);
    }

    #[test]
    fn path_that_never_lost_a_segment_has_parities_no_longer() {
        let mut subflows = single();
        for (sent, wanted) in [(1000, true), (2000, false)] {
            subflows[0].sent = sent;
            let mut v = view(&subflows, false, Trigger::Sent);
            v.decodes = true;
            let action = PricedCopies::with_parities().build(1).on_opportunity(&v);
            assert_eq!(action != Action::Nothing, wanted, "{sent}");
        }
    }

    /// The first segment is late after 25 ms and its path silent after 50 ms. The other path has a full window, and less in
    /// flight than half of the silent path's window.
    fn silent() -> [SubflowView; 2] {
        let mut s = paths(0);
        (s[0].cwnd, s[0].in_flight) = (20_001, 20_001);
        s[1].in_flight = s[1].cwnd;
        s
    }

    fn asked_at(
        ms: u64,
        subflows: &[SubflowView],
        settings: PricedCopies,
    ) -> (Action, Option<Instant>) {
        let mut policy = settings.build(1);
        let mut v = view(subflows, false, Trigger::Timer);
        v.now = at(ms);
        (policy.on_opportunity(&v), policy.next_timeout())
    }

    #[test]
    fn segments_of_a_silent_path_are_copied_beyond_the_window_of_the_other_path() {
        let asked = |ms| asked_at(ms, &silent(), PricedCopies::default());
        assert_eq!(asked(20), (Action::Nothing, Some(at(25))));
        assert_eq!(
            asked(25),
            (Action::Nothing, Some(at(50))),
            "late, and no room"
        );
        assert_eq!(asked(50).0, copy(Window::Outside));
    }

    #[test]
    fn copies_beyond_the_window_end_at_half_of_the_silent_window() {
        let action = |change: fn(&mut [SubflowView; 2]), excess| {
            let mut subflows = silent();
            change(&mut subflows);
            let settings = PricedCopies {
                excess,
                ..PricedCopies::default()
            };
            asked_at(50, &subflows, settings).0
        };
        assert_eq!(action(|_| {}, 0.5), copy(Window::Outside));
        assert_eq!(
            action(|_| {}, 0.0),
            Action::Nothing,
            "all copies are inside"
        );
        assert_eq!(action(|s| s[0].cwnd = 20_000, 0.5), Action::Nothing);
        assert_eq!(action(|s| s[1].in_flight = 0, 0.5), COPY, "there is room");
        assert_eq!(action(|s| s[1].window_room = 999, 0.5), Action::Nothing);
        assert_eq!(action(|s| s[1].usable = false, 0.5), Action::Nothing);
    }

    /// Both paths may share the bottleneck that drops everything.
    #[test]
    fn path_whose_own_segments_are_late_carries_no_copies_beyond_its_window() {
        let mut subflows = silent();
        subflows[1].oldest_unprotected = Some(SegmentView {
            sent_at: at(26),
            ..subflows[0].oldest_unprotected.expect("in flight")
        });
        let asked = |ms| asked_at(ms, &subflows, PricedCopies::default());
        assert_eq!(asked(50), (copy(Window::Outside), Some(at(51))));
        assert_eq!(asked(51), (Action::Nothing, Some(at(76))));
    }

    #[test]
    fn nothing_is_copied_over_the_same_path_or_without_another() {
        let mut subflows = paths(100);
        subflows[1].in_flight = subflows[1].cwnd;
        let mut policy = PricedCopies::default().build(1);
        let mut v = view(&subflows, false, Trigger::Ack);
        v.now = at(100);
        assert_eq!(policy.on_opportunity(&v), Action::Nothing);
        assert_eq!(
            policy.next_timeout(),
            None,
            "no timer that would fire again"
        );
        v.subflows = &subflows[..1];
        assert_eq!(policy.on_opportunity(&v), Action::Nothing);
    }
}
