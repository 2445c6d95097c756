//! How likely a path is to lose packets: FUSO's metric (FUSO section 3.2.1).

use std::cmp::Ordering;

use super::SubflowView;
use super::choice::Ranking;

/// The property of a subflow that is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// The paper's metric: `C_l = alpha retx/tx + beta/since`, ties by RTT (FUSO section 3.2.1).
    #[default]
    Paper,
    /// The authors' code, default mode 2. The cost has the same terms with weight 1 each in units of 1/65535.
    /// Without a loss, it is minus 65535 over eight times the RTT in microseconds, truncated, so that the RTT
    /// does not count beyond 8 ms. It is 65535 for a subflow that never sent. Ties go to the lower identifier.
    Authors,
    /// The authors' code, mode 1: the time to drain what is in flight, `in_flight srtt/cwnd`.
    DrainTime,
}

/// How subflows are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathMetric {
    /// The property that is compared.
    pub kind: MetricKind,
    /// Weight of the lifetime loss rate, `retx / tx`; 0.5 in FUSO section 5.1.
    pub alpha: f64,
    /// Weight of the last loss rate, `1 / since`; 0.5 in FUSO section 5.1.
    pub beta: f64,
}

impl Default for PathMetric {
    fn default() -> Self {
        Self {
            kind: MetricKind::Paper,
            alpha: 0.5,
            beta: 0.5,
        }
    }
}

/// The unit of the authors' integers.
const UNIT: u64 = 65_535;

/// The cost as the authors' code computes it.
fn authors_cost(s: &SubflowView) -> i64 {
    let unit = UNIT as i64;
    if s.sent == 0 {
        return unit;
    }
    if s.retransmitted == 0 {
        let eighths = s.srtt.map_or(0, |d| d.as_micros() as i64 * 8);
        return if eighths == 0 { -unit } else { -unit / eighths };
    }
    let rate = UNIT * s.retransmitted / s.sent;
    (rate + UNIT / s.since_retransmission.max(1)) as i64
}

/// `(in_flight + more) srtt / cwnd`.
fn drain_time(s: &SubflowView, more: u64) -> f64 {
    let rtt = s.srtt.map_or(f64::INFINITY, |d| d.as_nanos() as f64);
    (s.in_flight + more) as f64 * rtt / s.cwnd.max(1) as f64
}

/// `alpha retx/tx + beta/since` of a subflow (FUSO section 3.2.1, CoFUSO section 4.2.4): 0 if it never
/// retransmitted, infinite if it never sent.
pub(super) fn loss_likelihood((alpha, beta): (f64, f64), s: &SubflowView) -> f64 {
    if s.sent == 0 {
        f64::INFINITY
    } else if s.retransmitted == 0 {
        0.0
    } else {
        alpha * s.retransmitted as f64 / s.sent as f64 + beta / s.since_retransmission.max(1) as f64
    }
}

impl PathMetric {
    /// The paper's `C_l` of a subflow: 0 if it never retransmitted, infinite if it never sent.
    pub fn cost(&self, s: &SubflowView) -> f64 {
        loss_likelihood((self.alpha, self.beta), s)
    }

    /// Compares two candidates for the worst subflow. The worse one is greater. By the paper's metric, that is
    /// the subflow with the larger cost, then the larger RTT (an unmeasured RTT counts as 0), then the lower
    /// identifier.
    pub fn worse(&self, a: &SubflowView, b: &SubflowView) -> Ordering {
        let ids = b.id.cmp(&a.id);
        match self.kind {
            MetricKind::Paper => {
                let costs = self.cost(a).total_cmp(&self.cost(b));
                let rtts = a.srtt.unwrap_or_default().cmp(&b.srtt.unwrap_or_default());
                costs.then(rtts).then(ids)
            }
            MetricKind::Authors => authors_cost(a).cmp(&authors_cost(b)).then(ids),
            MetricKind::DrainTime => drain_time(a, 0).total_cmp(&drain_time(b, 0)).then(ids),
        }
    }

    /// Compares two candidates for the best subflow. The better one is less. By the paper's metric, that is the
    /// subflow with the smaller cost, then the smaller RTT (an unmeasured RTT counts as infinite), then the
    /// lower identifier.
    pub fn better(&self, a: &SubflowView, b: &SubflowView) -> Ordering {
        let ids = a.id.cmp(&b.id);
        match self.kind {
            MetricKind::Paper => {
                let rtt = |s: &SubflowView| s.srtt.map_or(u64::MAX, |d| d.as_nanos());
                let costs = self.cost(a).total_cmp(&self.cost(b));
                costs.then(rtt(a).cmp(&rtt(b))).then(ids)
            }
            MetricKind::Authors => authors_cost(a).cmp(&authors_cost(b)).then(ids),
            MetricKind::DrainTime => {
                let time = |s: &SubflowView| drain_time(s, s.mss);
                time(a).total_cmp(&time(b)).then(ids)
            }
        }
    }
}

impl Ranking for PathMetric {
    fn worse(&self, a: &SubflowView, b: &SubflowView) -> Ordering {
        Self::worse(self, a, b)
    }

    fn better(&self, a: &SubflowView, b: &SubflowView) -> Ordering {
        Self::better(self, a, b)
    }

    fn is_unknown(&self, s: &SubflowView) -> bool {
        self.kind == MetricKind::Paper && self.cost(s).is_infinite()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::subflow;
    use super::*;
    use crate::types::SubflowId;
    use spindle_units::Duration;

    #[test]
    fn path_metric_has_the_documented_value() {
        let m = PathMetric::default();
        let mut s = subflow(SubflowId(0));
        (s.sent, s.retransmitted, s.since_retransmission) = (100, 2, 10);
        assert!((m.cost(&s) - 0.06).abs() < 1e-12);
        s.since_retransmission = 1;
        assert!(m.cost(&s) >= 0.5);
        s.retransmitted = 0;
        assert_eq!(m.cost(&s), 0.0);
        s.sent = 0;
        assert_eq!(m.cost(&s), f64::INFINITY);
    }

    #[test]
    fn ties_are_broken_by_rtt_then_identifier() {
        let m = PathMetric::default();
        let (mut a, mut b) = (subflow(SubflowId(0)), subflow(SubflowId(1)));
        a.srtt = Some(Duration::from_micros(300));
        b.srtt = Some(Duration::from_micros(200));
        assert_eq!(m.worse(&a, &b), Ordering::Greater);
        assert_eq!(m.better(&b, &a), Ordering::Less);
        b.srtt = None;
        assert_eq!(
            m.worse(&a, &b),
            Ordering::Greater,
            "unmeasured counts as 0 for worst"
        );
        assert_eq!(m.better(&a, &b), Ordering::Less, "and as infinite for best");
        b.srtt = a.srtt;
        assert_eq!(m.worse(&a, &b), Ordering::Greater, "lower identifier");
        assert_eq!(m.better(&a, &b), Ordering::Less);
    }

    #[test]
    fn authors_metric_ignores_the_rtt_beyond_8_ms() {
        let m = PathMetric {
            kind: MetricKind::Authors,
            ..PathMetric::default()
        };
        let (mut a, mut b) = (subflow(SubflowId(0)), subflow(SubflowId(1)));
        a.srtt = Some(Duration::from_micros(300));
        b.srtt = Some(Duration::from_micros(200));
        assert_eq!(m.better(&b, &a), Ordering::Less, "the faster");
        a.srtt = Some(Duration::from_millis(30));
        b.srtt = Some(Duration::from_millis(20));
        assert_eq!(m.better(&b, &a), Ordering::Greater, "only the identifier");
        b.retransmitted = 1;
        assert_eq!(m.worse(&b, &a), Ordering::Greater);
        b.sent = 0;
        assert_eq!(m.worse(&b, &a), Ordering::Greater);
    }

    #[test]
    fn drain_time_grows_with_the_bytes_in_flight() {
        let m = PathMetric {
            kind: MetricKind::DrainTime,
            ..PathMetric::default()
        };
        let (mut a, b) = (subflow(SubflowId(0)), subflow(SubflowId(1)));
        a.in_flight = 4000;
        assert_eq!(m.worse(&a, &b), Ordering::Greater);
        assert_eq!(m.better(&b, &a), Ordering::Less);
    }
}
