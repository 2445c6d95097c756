//! How likely a path is to lose: FUSO's metric (FUSO section 3.2.1).

use std::cmp::Ordering;

use super::SubflowView;

/// The weights of the metric; both 0.5 in FUSO section 5.1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathMetric {
    /// Weight of the lifetime loss rate, `retx / tx`.
    pub alpha: f64,
    /// Weight of the last loss rate, `1 / since`.
    pub beta: f64,
}

impl Default for PathMetric {
    fn default() -> Self {
        Self {
            alpha: 0.5,
            beta: 0.5,
        }
    }
}

impl PathMetric {
    /// `C_l` of a subflow: 0 if it never retransmitted, infinite if it never sent.
    pub fn cost(&self, s: &SubflowView) -> f64 {
        if s.sent == 0 {
            f64::INFINITY
        } else if s.retransmitted == 0 {
            0.0
        } else {
            self.alpha * s.retransmitted as f64 / s.sent as f64
                + self.beta / s.since_retransmission.max(1) as f64
        }
    }

    /// Orders two candidates for the worst subflow: larger cost, then larger RTT (unmeasured counts
    /// as 0), then lower identifier comes out greater.
    pub fn worse(&self, a: &SubflowView, b: &SubflowView) -> Ordering {
        self.cost(a)
            .total_cmp(&self.cost(b))
            .then_with(|| a.srtt.unwrap_or_default().cmp(&b.srtt.unwrap_or_default()))
            .then_with(|| b.id.cmp(&a.id))
    }

    /// Orders two candidates for the best subflow: smaller cost, then smaller RTT (unmeasured
    /// counts as infinite), then lower identifier comes out less.
    pub fn better(&self, a: &SubflowView, b: &SubflowView) -> Ordering {
        let rtt = |s: &SubflowView| s.srtt.map_or(u64::MAX, |d| d.as_nanos());
        self.cost(a)
            .total_cmp(&self.cost(b))
            .then_with(|| rtt(a).cmp(&rtt(b)))
            .then_with(|| a.id.cmp(&b.id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::subflow;
    use super::*;
    use spindle_units::Duration;

    #[test]
    fn the_test_vector_of_the_catalogue() {
        let m = PathMetric::default();
        let mut s = subflow(0);
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
    fn ties_go_by_rtt_then_identifier() {
        let m = PathMetric::default();
        let (mut a, mut b) = (subflow(0), subflow(1));
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
}
