//! The loss that a path is assumed to have before it was observed.

/// The share of segments that a path is assumed to lose until it was observed.
///
/// Short connections end before they have seen a loss, so the measured share of a lossy path is often 0. After `n`
/// segments, [`Self::weight`] / ([`Self::weight`] + `n`) of the assumption is left. The measured share counts if it is
/// larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AssumedLoss {
    /// The share that is assumed before any segment was sent, from 0 to 1.
    pub share: f64,
    /// After how many segments half of the assumption is left. More than 0.
    pub weight: f64,
}

impl AssumedLoss {
    /// The probability that a segment is lost, from 0 to 1. The path carried `sent` segments, and `measured` is the share
    /// of them that was lost.
    pub fn risk(&self, measured: f64, sent: u64) -> f64 {
        let left = self.weight / (self.weight + sent as f64);
        measured.max(self.share * left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumption_fades_and_a_larger_measured_share_counts() {
        let assumed = AssumedLoss {
            share: 0.01,
            weight: 1000.0,
        };
        assert_eq!(assumed.risk(0.0, 0), 0.01);
        assert_eq!(assumed.risk(0.0, 1000), 0.005);
        assert_eq!(assumed.risk(0.0, 9000), 0.001);
        assert_eq!(assumed.risk(0.0005, 9000), 0.001);
        assert_eq!(assumed.risk(0.02, 9000), 0.02);
    }
}
