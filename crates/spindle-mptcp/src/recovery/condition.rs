//! The condition of a path in CoFUSO: how likely it loses packets, and how long it takes (CoFUSO section
//! 4.2.4).

use std::cmp::Ordering;

use super::SubflowView;
use super::choice::Ranking;
use super::metric::loss_likelihood;

/// The weights of the loss estimate and of the path metric, with the paper's names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathQuality {
    /// Weight of the lifetime loss rate, `retx / tx`, in the loss estimate.
    pub alpha1: f64,
    /// Weight of the last loss rate, `1 / since`, in the loss estimate.
    pub beta1: f64,
    /// Weight of the normalised loss estimate in the metric.
    pub alpha2: f64,
    /// Weight of the normalised round-trip time in the metric.
    pub beta2: f64,
}

impl PathQuality {
    /// CoFUSO section 5.2.
    pub const TESTBED: Self = Self {
        alpha1: 0.05,
        beta1: 0.95,
        alpha2: 0.5,
        beta2: 0.5,
    };

    /// CoFUSO section 6.2.
    pub const SIMULATION: Self = Self {
        alpha1: 0.5,
        beta1: 0.5,
        ..Self::TESTBED
    };

    /// The loss estimate L: 0 if the subflow never retransmitted, infinite if it never sent.
    pub fn loss(&self, s: &SubflowView) -> f64 {
        loss_likelihood((self.alpha1, self.beta1), s)
    }

    /// The metric over the subflows of a connection, each part normalised by its maximum over them
    /// (our choice: the paper has no formula).
    pub(super) fn over(self, subflows: &[SubflowView]) -> Conditions {
        let losses = subflows.iter().map(|s| self.loss(s));
        let rtts = subflows.iter().filter_map(rtt);
        Conditions {
            weights: self,
            worst_loss: losses.filter(|l| l.is_finite()).fold(0.0, f64::max),
            longest_rtt: rtts.fold(0.0, f64::max),
        }
    }
}

/// Smoothed RTT in nanoseconds, if measured.
fn rtt(s: &SubflowView) -> Option<f64> {
    s.srtt.map(|d| d.as_nanos() as f64)
}

/// `value` over the maximum: 0 if the maximum is 0, infinite if `value` is infinite.
fn normalised(value: f64, maximum: f64) -> f64 {
    if maximum > 0.0 || value.is_infinite() {
        value / maximum
    } else {
        0.0
    }
}

/// `weight * value`, but 0 if the weight is 0, even of an infinite value.
fn weighted(weight: f64, value: f64) -> f64 {
    if weight == 0.0 { 0.0 } else { weight * value }
}

/// [`PathQuality`] over the subflows of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    weights: PathQuality,
    worst_loss: f64,
    longest_rtt: f64,
}

impl Conditions {
    /// The metric; an unmeasured RTT counts as `unmeasured`.
    fn metric(&self, s: &SubflowView, unmeasured: f64) -> f64 {
        let w = &self.weights;
        if s.sent == 0 {
            return f64::INFINITY;
        }
        let loss = normalised(w.loss(s), self.worst_loss);
        let rtt = normalised(rtt(s).unwrap_or(unmeasured), self.longest_rtt);
        weighted(w.alpha2, loss) + weighted(w.beta2, rtt)
    }
}

/// Ties are broken as in FUSO's metric (mechanisms A1.2): by RTT, then by identifier.
impl Ranking for Conditions {
    fn worse(&self, a: &SubflowView, b: &SubflowView) -> Ordering {
        let metrics = self.metric(a, 0.0).total_cmp(&self.metric(b, 0.0));
        let rtts = a.srtt.unwrap_or_default().cmp(&b.srtt.unwrap_or_default());
        metrics.then(rtts).then(b.id.cmp(&a.id))
    }

    fn better(&self, a: &SubflowView, b: &SubflowView) -> Ordering {
        let metric = |s| self.metric(s, f64::INFINITY);
        let rtt = |s: &SubflowView| s.srtt.map_or(u64::MAX, |d| d.as_nanos());
        let metrics = metric(a).total_cmp(&metric(b));
        metrics.then(rtt(a).cmp(&rtt(b))).then(a.id.cmp(&b.id))
    }

    fn is_unknown(&self, s: &SubflowView) -> bool {
        s.sent == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::subflow;
    use super::*;
    use crate::types::SubflowId;
    use spindle_units::Duration;

    #[test]
    fn loss_estimate_has_the_documented_values() {
        let mut s = subflow(SubflowId(0));
        (s.sent, s.retransmitted, s.since_retransmission) = (100, 2, 10);
        assert!((PathQuality::TESTBED.loss(&s) - 0.096).abs() < 1e-12);
        assert!((PathQuality::SIMULATION.loss(&s) - 0.06).abs() < 1e-12);
        s.retransmitted = 0;
        assert_eq!(PathQuality::TESTBED.loss(&s), 0.0);
    }

    #[test]
    fn normalised_loss_and_rtt_have_equal_weight() {
        let mut all = [
            subflow(SubflowId(0)),
            subflow(SubflowId(1)),
            subflow(SubflowId(2)),
        ];
        (all[0].sent, all[0].retransmitted) = (100, 10);
        (all[1].sent, all[1].retransmitted) = (100, 5);
        all[0].since_retransmission = u64::MAX;
        all[1].since_retransmission = u64::MAX;
        all[0].srtt = Some(Duration::from_millis(10));
        all[1].srtt = Some(Duration::from_millis(40));
        all[2].srtt = Some(Duration::from_millis(20));
        let c = PathQuality::SIMULATION.over(&all);
        let metric = |k: usize| (c.metric(&all[k], 0.0) * 1000.0).round();
        assert_eq!([0, 1, 2].map(metric), [625.0, 750.0, 250.0]);
        assert_eq!(c.worse(&all[1], &all[0]), Ordering::Greater);
        assert_eq!(c.better(&all[2], &all[0]), Ordering::Less);
    }

    #[test]
    fn ranking_is_defined_without_losses_or_rtt_or_transmissions() {
        let mut all = [
            subflow(SubflowId(0)),
            subflow(SubflowId(1)),
            subflow(SubflowId(2)),
        ];
        let c = PathQuality::SIMULATION.over(&all);
        assert_eq!(c.worse(&all[0], &all[1]), Ordering::Greater, "identifier");
        assert_eq!(c.better(&all[0], &all[1]), Ordering::Less);
        all[0].srtt = None;
        let c = PathQuality::SIMULATION.over(&all);
        assert_eq!(c.worse(&all[0], &all[1]), Ordering::Less, "counts as 0");
        assert_eq!(c.better(&all[0], &all[1]), Ordering::Greater, "as infinite");
        all.iter_mut().for_each(|s| s.srtt = None);
        all[2].sent = 0;
        let c = PathQuality::SIMULATION.over(&all);
        assert_eq!(c.better(&all[2], &all[1]), Ordering::Greater);
        assert!(c.is_unknown(&all[2]) && !c.is_unknown(&all[1]));
    }
}
