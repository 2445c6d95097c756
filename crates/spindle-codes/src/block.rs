//! The size of a block, and the number of its parities.

use crate::code::Shape;

/// A quotient or product that misses a whole number by at most this counts as that number. The value is far
/// above the rounding error of a loss likelihood and far below the difference between two likelihoods.
const ROUNDING: f64 = 1e-9;

/// The largest number of packets of a block in the authors' code (its `MAX_CODE_BLOCK`).
pub const AUTHORS_MAX_SOURCES: usize = 30;

/// The block that CoFUSO's dynamic rate makes of `eligible` consecutive packets (section 4.2.2 and
/// Algorithm 2): K = min(M_max / L, eligible, K_max) packets and M = K L parities. About M_max of M_max / L
/// packets are lost. Returns `None` if no packet is eligible, or if `max_sources` or `max_parities` is 0.
///
/// `loss` is the likelihood L in 0..=1 that a packet is lost. Values out of range become the nearest end of the
/// range, and a NaN becomes 0. `max_sources` is K_max, `max_parities` is M_max.
///
/// K is rounded down. M is rounded up, to at least 1 and at most M_max. On a path that never lost a packet, all
/// eligible packets get one parity. The paper specifies neither the rounding nor the case L = 0.
///
/// ```
/// use spindle_codes::{Shape, dynamic_shape};
///
/// assert_eq!(dynamic_shape(0.1, 50, 255, 3), Some(Shape::new(30, 3)));
/// ```
pub fn dynamic_shape(
    loss: f64,
    eligible: usize,
    max_sources: usize,
    max_parities: usize,
) -> Option<Shape> {
    // The comparison is false for a NaN and for -0, which would make the quotient negative.
    let loss = if loss > 0.0 { loss.min(1.0) } else { 0.0 };
    // Division by zero gives infinity, which the cast turns into the largest integer.
    let expected = (max_parities as f64 / loss + ROUNDING).floor() as usize;
    let sources = eligible.min(max_sources).min(expected);
    if sources == 0 || max_parities == 0 {
        return None;
    }
    let parities = (sources as f64 * loss - ROUNDING).ceil() as usize;
    Some(Shape::new(sources, parities.clamp(1, max_parities)))
}

/// The block of a fixed coding rate, in parities per packet (CoFUSO section 6.2.4): one parity for `1 / rate`
/// packets, rounded to the nearest number, or for all eligible packets if there are fewer. Returns `None` if no
/// packet is eligible, if `max_sources` is 0, or if the rate is not above 0.
///
/// ```
/// use spindle_codes::{Shape, fixed_shape};
///
/// assert_eq!(fixed_shape(0.08, 50, 255), Some(Shape::new(13, 1)));
/// ```
pub fn fixed_shape(rate: f64, eligible: usize, max_sources: usize) -> Option<Shape> {
    if rate.is_nan() || rate <= 0.0 {
        return None;
    }
    let wanted = (1.0 / rate).round().max(1.0) as usize;
    let sources = wanted.min(eligible).min(max_sources);
    (sources > 0).then_some(Shape::new(sources, 1))
}

/// The block that the code published with CoFUSO makes. Its packets are as many as were sent per retransmitted
/// packet. If no packet was retransmitted, they are as many as were sent since the last retransmission. There
/// are at most `eligible` and at most [`AUTHORS_MAX_SOURCES`] packets, and always one parity. Returns `None`,
/// which means a plain copy, if the block would have at most one packet.
///
/// `sent` and `retransmitted` count a subflow's packets over its lifetime. `since` counts the packets sent
/// since the last retransmission.
pub fn authors_shape(sent: u64, retransmitted: u64, since: u64, eligible: usize) -> Option<Shape> {
    let wanted = sent.checked_div(retransmitted).unwrap_or(since);
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let sources = wanted.min(eligible).min(AUTHORS_MAX_SOURCES);
    (sources > 1).then_some(Shape::new(sources, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NO_LIMIT: usize = usize::MAX;

    fn shape(sources: usize, parities: usize) -> Option<Shape> {
        Some(Shape::new(sources, parities))
    }

    #[test]
    fn dynamic_shape_has_the_documented_values() {
        assert_eq!(dynamic_shape(0.1, 50, NO_LIMIT, 3), shape(30, 3));
        assert_eq!(dynamic_shape(0.1, 20, NO_LIMIT, 3), shape(20, 2));
        assert_eq!(dynamic_shape(0.5, 50, NO_LIMIT, 3), shape(6, 3));
        assert_eq!(dynamic_shape(0.02, 29, 30, 1), shape(29, 1));
        assert_eq!(dynamic_shape(0.0, 7, NO_LIMIT, 3), shape(7, 1));
    }

    #[test]
    fn dynamic_shape_follows_the_loss_estimate() {
        // tx = 100, retx = 2, since = 10, with both pairs of weights.
        let likelihood = |a: f64, b: f64| a * 2.0 / 100.0 + b / 10.0;
        assert!((likelihood(0.05, 0.95) - 0.096).abs() < 1e-12);
        assert!((likelihood(0.5, 0.5) - 0.06).abs() < 1e-12);
        let of = |loss| dynamic_shape(loss, 100, NO_LIMIT, 3);
        assert_eq!(of(likelihood(0.05, 0.95)), shape(31, 3));
        assert_eq!(of(likelihood(0.5, 0.5)), shape(50, 3));
    }

    #[test]
    fn dynamic_shape_accepts_the_ends_of_its_ranges() {
        assert_eq!(dynamic_shape(1.0, 50, NO_LIMIT, 3), shape(3, 3));
        assert_eq!(dynamic_shape(7.0, 50, NO_LIMIT, 3), shape(3, 3));
        assert_eq!(dynamic_shape(-1.0, 50, 40, 3), shape(40, 1));
        assert_eq!(dynamic_shape(-0.0, 50, 40, 3), shape(40, 1));
        assert_eq!(dynamic_shape(f64::NAN, 50, 255, 3), shape(50, 1));
        assert_eq!(dynamic_shape(0.1, 0, 255, 3), None);
        assert_eq!(dynamic_shape(0.1, 5, 0, 3), None);
        assert_eq!(dynamic_shape(0.1, 5, 255, 0), None);
        assert_eq!(dynamic_shape(0.0, 5, 255, 0), None);
        assert_eq!(dynamic_shape(f64::MIN_POSITIVE, 300, 255, 3), shape(255, 1));
    }

    #[test]
    fn fixed_shape_gives_the_rates_of_the_paper() {
        let packets = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32]
            .map(|rate| fixed_shape(rate, 1000, 255).map(|s| s.sources));
        assert_eq!(packets, [100, 50, 25, 13, 6, 3].map(Some));
        assert_eq!(fixed_shape(0.01, 40, 255), shape(40, 1));
        assert_eq!(fixed_shape(0.001, 400, 255), shape(255, 1));
        assert_eq!(fixed_shape(5.0, 400, 255), shape(1, 1));
        assert_eq!(fixed_shape(0.0, 400, 255), None);
        assert_eq!(fixed_shape(0.5, 0, 255), None);
    }

    #[test]
    fn authors_shape_follows_the_published_code() {
        assert_eq!(authors_shape(100, 10, 3, 50), shape(10, 1));
        assert_eq!(authors_shape(100, 0, 12, 50), shape(12, 1));
        assert_eq!(authors_shape(1000, 2, 3, 50), shape(30, 1));
        assert_eq!(authors_shape(1000, 2, 3, 7), shape(7, 1));
        assert_eq!(authors_shape(10, 9, 3, 50), None);
        assert_eq!(authors_shape(10, 0, u64::MAX, 1), None);
    }

    proptest! {
        #[test]
        fn dynamic_shape_stays_within_its_limits(
            loss in any::<f64>(), eligible in 0usize..400, k in 0usize..300, m in 0usize..5,
        ) {
            if let Some(Shape { sources, parities }) = dynamic_shape(loss, eligible, k, m) {
                prop_assert!((1..=eligible.min(k)).contains(&sources));
                prop_assert!((1..=m).contains(&parities));
            } else {
                prop_assert!(eligible.min(k).min(m) == 0);
            }
        }
    }
}
