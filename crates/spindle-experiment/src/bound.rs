//! The probability of a retransmission timeout (FUSO section 2.2, mechanisms C3).

/// The three lower bounds on the probability that a flow suffers a timeout, under independent
/// one-way loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RtoBound {
    /// One of the last k packets is lost: `1 - (1-p)^k`.
    pub tail: f64,
    /// A whole window is lost: `p^w`.
    pub window: f64,
    /// A retransmission is lost as well: `1 - (1-p^2)^x`.
    pub retransmission: f64,
}

impl RtoBound {
    /// The bounds at loss rate `p` (0 to 1) for flows of `packets` packets.
    ///
    /// `tail_packets` is k: 3 with a duplicate-ACK threshold of 3, 1 with Early Retransmit.
    /// `window` is w, the packets of the smallest window a flow of that size uses.
    pub fn new(p: f64, packets: u32, tail_packets: u32, window: u32) -> Self {
        Self {
            tail: 1.0 - (1.0 - p).powi(tail_packets as i32),
            window: p.powi(window as i32),
            retransmission: 1.0 - (1.0 - p * p).powi(packets as i32),
        }
    }

    /// The largest of the three: no flow times out less often.
    pub fn value(&self) -> f64 {
        self.tail.max(self.window).max(self.retransmission)
    }
}

/// The bound of FUSO section 2.2 for TCP with Early Retransmit (k = 1) and flows of `packets` packets. The
/// smallest window is taken to be the whole flow (w = `packets`).
pub fn rto_bound(p: f64, packets: u32) -> f64 {
    RtoBound::new(p, packets, 1, packets).value()
}

/// The number of packets of `mss` bytes that a flow of `bytes` bytes needs.
pub fn packets(bytes: u64, mss: u64) -> u32 {
    bytes.div_ceil(mss.max(1)).min(u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test values of mechanisms C3.
    #[test]
    fn bound_has_the_documented_values() {
        assert_eq!((packets(10_000, 1460), packets(100_000, 1460)), (7, 69));
        for (p, want) in [
            (0.005, 0.005),
            (0.01, 0.01),
            (0.015, 0.01541),
            (0.02, 0.02723),
            (0.03, 0.06024),
            (0.04, 0.10460),
            (0.1, 0.50016),
        ] {
            assert!(
                (rto_bound(p, 69) - want).abs() < 5e-6,
                "{p}: {}",
                rto_bound(p, 69)
            );
        }
        assert!((RtoBound::new(0.01, 69, 3, 16).tail - 0.029701).abs() < 1e-9);
    }

    #[test]
    fn ten_kilobytes_are_bound_by_the_tail_up_to_15_3_percent() {
        for p in [0.001, 0.01, 0.04, 0.15] {
            assert!((rto_bound(p, 7) - p).abs() < 1e-12);
        }
        assert!(rto_bound(0.154, 7) > 0.154);
    }

    #[test]
    fn retransmissions_dominate_above_the_crossover() {
        let x = |p: f64| RtoBound::new(p, 69, 1, 69).retransmission - p;
        assert!(x(0.014598 - 1e-6) < 0.0 && x(0.014598 + 1e-6) > 0.0);
    }
}
