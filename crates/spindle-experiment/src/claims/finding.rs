//! What a comparison found: which values a claim allows, and how sure it is that the true value is or is not one
//! of them.

use crate::metrics::Metric;
use crate::stats::{Estimate, Interval, wilson, wilson_p_value};

use super::{PointView, Verdict};

/// The values of a statistic that a claim allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claimed {
    /// Values below this one.
    Below(f64),
    /// Values above this one.
    Above(f64),
    /// Values in this range, which is a tolerance. The whole interval must lie in it.
    Within(f64, f64),
    /// Values in this range, which a paper states. It is enough that the value lies in it if the interval is no
    /// longer than the range.
    Range(f64, f64),
    /// Like [`Self::Range`], for a change. The comparison is tied if the interval contains "no change" and the
    /// range does not, or ends there.
    Change(f64, f64),
}

impl Claimed {
    /// The largest of several changes, which a paper states as "up to". The slack on either side does not turn the
    /// change into its opposite.
    pub const fn up_to(most: f64, slack: f64) -> Self {
        Self::Range((most - slack).max(0.0), most + slack)
    }

    /// The ends of the range.
    const fn ends(self) -> (f64, f64) {
        match self {
            Self::Below(high) => (f64::NEG_INFINITY, high),
            Self::Above(low) => (low, f64::INFINITY),
            Self::Within(low, high) | Self::Range(low, high) | Self::Change(low, high) => {
                (low, high)
            }
        }
    }

    /// The verdict on a value with its 95 % interval. It fails if the interval lies wholly outside.
    pub fn verdict(self, value: f64, i: Interval) -> Verdict {
        let (low, high) = self.ends();
        let inside = match self {
            Self::Below(_) | Self::Above(_) => i.low > low && i.high < high,
            _ => i.low >= low && i.high <= high,
        };
        let short = (low..=high).contains(&value) && i.width() <= high - low;
        let no_change = i.low <= 0.0 && i.high >= 0.0 && !(low < 0.0 && high > 0.0);
        match self {
            _ if i.high < low || i.low > high => Verdict::Fails,
            Self::Change(..) if no_change => Verdict::Tied,
            Self::Range(..) | Self::Change(..) if short => Verdict::Holds,
            _ if inside => Verdict::Holds,
            _ => Verdict::Tied,
        }
    }

    /// The end of the range that is nearest to a value outside.
    fn nearest(self, value: f64) -> f64 {
        let (low, high) = self.ends();
        if value > high { high } else { low }
    }
}

/// A statistic of some runs. For a share of flows, its interval is at least as wide as that of independent
/// flows, because no variation between runs does not mean certainty.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    estimate: Estimate,
    /// For a share: the flows that are counted, and all flows.
    share: Option<(f64, f64)>,
}

impl Measured {
    /// A statistic that is not a share of independent flows.
    pub const fn new(estimate: Estimate) -> Self {
        Self {
            estimate,
            share: None,
        }
    }

    /// A share of flows: those that are counted, and all flows.
    pub const fn share(estimate: Estimate, share: (f64, f64)) -> Self {
        Self {
            estimate,
            share: Some(share),
        }
    }

    /// The value.
    pub const fn value(&self) -> f64 {
        self.estimate.value
    }

    /// The 95 % interval.
    pub fn interval(&self) -> Interval {
        let i = self.estimate.interval();
        match self.share {
            None => i,
            Some((hits, n)) => {
                let independent = wilson(hits, n);
                i.within(0.0, 1.0)
                    .around(independent.low)
                    .around(independent.high)
            }
        }
    }

    /// The probability of a value at least as far from `truth`, if `truth` were the true value.
    fn p_value(&self, truth: f64) -> f64 {
        let p = self.estimate.p_value(truth);
        match self.share {
            None => p,
            Some((hits, n)) => p.max(wilson_p_value(hits, n, truth)),
        }
    }
}

/// One comparison: its verdict, and a text with the place and the values.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The verdict on this comparison alone.
    pub verdict: Verdict,
    /// For a comparison that fails: the probability that a true claim fails so clearly by chance. 0 if chance
    /// has no part in it.
    pub chance: f64,
    /// The place and the values, in one line.
    pub text: String,
    /// The point of the sweep, by its label, and the metric. `None` if several points are compared.
    pub place: Option<(String, Metric)>,
}

impl Finding {
    /// Compares a statistic with the values that a claim allows.
    pub fn new(claimed: Claimed, found: &Measured, text: String) -> Self {
        let verdict = claimed.verdict(found.value(), found.interval());
        let chance = match verdict {
            Verdict::Fails => found.p_value(claimed.nearest(found.value())),
            _ => 1.0,
        };
        Self {
            verdict,
            chance,
            text,
            place: None,
        }
    }

    /// A comparison whose verdict the test has reached in another way. If it fails, chance has no part in it.
    pub fn judged(verdict: Verdict, text: String) -> Self {
        Self {
            verdict,
            chance: if verdict == Verdict::Fails { 0.0 } else { 1.0 },
            text,
            place: None,
        }
    }

    /// The comparison as one at that point, in that metric.
    pub fn at(self, point: &PointView<'_>, metric: Metric) -> Self {
        Self {
            place: Some((point.label(), metric)),
            ..self
        }
    }
}

/// The numbers of comparisons that hold, and of those that fail even if it is considered how many there are.
struct Counts {
    all: usize,
    hold: usize,
    refuted: usize,
}

impl Counts {
    /// The probability that some comparison of a true claim is counted as refuted.
    const LEVEL: f64 = 0.05;

    /// Counts the refuted comparisons by the step-up procedure of Benjamini and Hochberg (1995), section 3.1: the
    /// `n` clearest failures of `all` comparisons are refuted, for the largest `n` whose `n`-th probability is at
    /// most `n / all` of the level. If no comparison is really false, one is refuted with at most the level's
    /// probability (Simes 1986), so that of many equal things none fails by chance. Several failures that are
    /// weak by themselves refute a claim together.
    fn of(findings: &[Finding]) -> Self {
        let all = findings.len();
        let fails = findings.iter().filter(|f| f.verdict == Verdict::Fails);
        let mut chances: Vec<f64> = fails.map(|f| f.chance).collect();
        chances.sort_by(f64::total_cmp);
        let refuted = (1..=chances.len())
            .rev()
            .find(|&n| chances[n - 1] * all as f64 <= Self::LEVEL * n as f64);
        let holds = findings.iter().filter(|f| f.verdict == Verdict::Holds);
        Self {
            all,
            hold: holds.count(),
            refuted: refuted.unwrap_or(0),
        }
    }

    /// Whether this number of comparisons decides about a claim: one in a hundred does not.
    const fn counts(&self, n: usize) -> bool {
        n * 100 > self.all
    }
}

/// The verdict on a claim that every comparison holds.
pub(super) fn every(findings: &[Finding]) -> Verdict {
    let counts = Counts::of(findings);
    match () {
        () if counts.all == 0 => Verdict::NotCheckable,
        () if counts.counts(counts.refuted) => Verdict::Fails,
        () if !counts.counts(counts.all - counts.hold) => Verdict::Holds,
        () => Verdict::Tied,
    }
}

/// The verdict on a claim that no comparison fails, and that most hold: it is tied if no more comparisons hold
/// than do not.
pub(super) fn most(findings: &[Finding]) -> Verdict {
    let counts = Counts::of(findings);
    match () {
        () if counts.all == 0 => Verdict::NotCheckable,
        () if counts.counts(counts.refuted) => Verdict::Fails,
        () if counts.hold > counts.all - counts.hold => Verdict::Holds,
        () => Verdict::Tied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn interval(low: f64, high: f64) -> Interval {
        Interval { low, high }
    }

    #[test]
    fn one_sided_claim_needs_the_whole_interval_on_its_side() {
        let above =
            |low, high| Claimed::Above(0.0).verdict((low + high) / 2.0, interval(low, high));
        assert_eq!(above(0.1, 0.4), Verdict::Holds);
        assert_eq!(above(-0.1, 0.4), Verdict::Tied);
        assert_eq!(above(-0.4, -0.1), Verdict::Fails);
        assert_eq!(above(0.0, 0.0), Verdict::Tied);
    }

    #[test]
    fn printed_range_accepts_a_value_inside_if_the_interval_is_no_longer() {
        let of = |value, low, high| Claimed::Range(0.3, 0.6).verdict(value, interval(low, high));
        assert_eq!(of(0.32, 0.25, 0.4), Verdict::Holds);
        assert_eq!(of(0.45, 0.2, 0.7), Verdict::Tied, "longer than the range");
        assert_eq!(of(0.28, 0.22, 0.34), Verdict::Tied, "the value is outside");
        assert_eq!(of(0.2, 0.15, 0.25), Verdict::Fails);
        // 183 to 190 % is not "29 to 47 % higher", and the less data there are, the less holds.
        assert_eq!(of(1.86, 1.83, 1.9), Verdict::Fails);
        assert_eq!(of(2.24, 0.306, 2.998), Verdict::Tied);
    }

    #[test]
    fn tolerance_needs_the_whole_interval_inside() {
        let of = |value, low, high| Claimed::Within(0.3, 0.6).verdict(value, interval(low, high));
        assert_eq!(of(0.32, 0.25, 0.4), Verdict::Tied);
        assert_eq!(of(0.45, 0.3, 0.6), Verdict::Holds);
    }

    #[test]
    fn change_whose_interval_contains_zero_is_tied_unless_the_range_contains_zero() {
        let of = |low: f64, high: f64, (a, b)| {
            Claimed::Change(a, b).verdict((low + high) / 2.0, interval(low, high))
        };
        assert_eq!(of(0.31, 0.35, (0.3, 0.4)), Verdict::Holds);
        assert_eq!(of(-0.01, 0.7, (0.3, 0.4)), Verdict::Tied);
        assert_eq!(of(-0.7, 0.01, (-0.4, -0.3)), Verdict::Tied);
        assert_eq!(of(-0.01, 0.25, (0.3, 0.4)), Verdict::Fails);
        assert_eq!(of(0.41, 0.5, (0.3, 0.4)), Verdict::Fails);
        assert_eq!(of(-0.01, 0.02, (-0.078, 0.034)), Verdict::Holds);
        assert_eq!(of(-0.01, 0.03, (0.0, 0.2)), Verdict::Tied);
    }

    #[test]
    fn slack_of_an_up_to_claim_does_not_accept_the_opposite() {
        let claimed = Claimed::up_to(0.026, 0.05);
        assert_eq!(claimed, Claimed::Range(0.0, 0.076));
        assert_eq!(
            claimed.verdict(-0.02, interval(-0.03, -0.01)),
            Verdict::Fails
        );
    }

    fn findings(holds: usize, ties: usize, fails: &[f64]) -> Vec<Finding> {
        let of = |verdict, chance| Finding {
            verdict,
            chance,
            text: String::new(),
            place: None,
        };
        let mut list = vec![of(Verdict::Holds, 1.0); holds];
        list.extend(vec![of(Verdict::Tied, 1.0); ties]);
        list.extend(fails.iter().map(|p| of(Verdict::Fails, *p)));
        list
    }

    #[test]
    fn failure_that_chance_explains_leaves_the_claim_tied() {
        assert_eq!(every(&findings(1, 0, &[])), Verdict::Holds);
        assert_eq!(every(&findings(0, 0, &[0.04])), Verdict::Fails);
        // One of twenty comparisons of equal things fails at 95 %.
        assert_eq!(every(&findings(19, 0, &[0.04])), Verdict::Tied);
        assert_eq!(every(&findings(19, 0, &[0.001])), Verdict::Fails);
        assert_eq!(every(&[]), Verdict::NotCheckable);
    }

    #[test]
    fn failures_that_are_weak_one_by_one_refute_a_claim_together() {
        assert_eq!(every(&findings(0, 0, &[0.04; 5])), Verdict::Fails);
        assert_eq!(every(&findings(5, 0, &[0.02; 5])), Verdict::Fails);
        assert_eq!(every(&findings(5, 0, &[0.03; 5])), Verdict::Tied);
        assert_eq!(
            every(&findings(0, 3, &[0.04, 0.012, 0.03])),
            Verdict::Tied,
            "0.012 is above 1/6, 0.03 above 2/6 and 0.04 above 3/6 of 5 %"
        );
    }

    /// Of claims whose five or forty comparisons are all of equal things, at most 5 % fail.
    #[test]
    fn true_claims_rarely_fail() {
        let mut rng = Stream::from_seed(1);
        for all in [5, 40] {
            let mut fail = || {
                let chances: Vec<f64> = (0..all).map(|_| rng.unit()).collect();
                let clear: Vec<f64> = chances.into_iter().filter(|p| *p < 0.05).collect();
                every(&findings(0, all - clear.len(), &clear)) == Verdict::Fails
            };
            let failed = (0..4000).filter(|_| fail()).count();
            assert!(failed <= 240, "{failed} of 4000 claims over {all} fail");
        }
    }

    #[test]
    fn one_comparison_in_a_hundred_does_not_decide() {
        assert_eq!(every(&findings(99, 0, &[0.0])), Verdict::Holds);
        assert_eq!(every(&findings(98, 0, &[0.0, 0.0])), Verdict::Fails);
        assert_eq!(every(&findings(98, 2, &[])), Verdict::Tied);
    }

    #[test]
    fn extreme_is_tied_where_ties_outnumber_wins() {
        assert_eq!(most(&findings(9, 21, &[])), Verdict::Tied);
        assert_eq!(most(&findings(16, 14, &[])), Verdict::Holds);
        assert_eq!(most(&findings(16, 13, &[0.001])), Verdict::Fails);
        assert_eq!(most(&findings(16, 13, &[0.01])), Verdict::Holds);
    }

    #[test]
    fn share_without_events_is_not_certain() {
        let none = Measured::share(Estimate::exact(0.0), (0.0, 2000.0));
        assert!(none.interval().high > 0.001 && none.interval().low == 0.0);
        let found = Finding::new(Claimed::Above(0.0005), &none, String::new());
        assert_eq!(found.verdict, Verdict::Tied);
        let found = Finding::new(Claimed::Above(0.01), &none, String::new());
        assert!(found.verdict == Verdict::Fails && found.chance > 0.0);
    }
}
