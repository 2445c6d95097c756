//! How large a block is to be, and how many parities it gets.

use crate::code::Shape;

/// What a quotient or product may fall short of a whole number by, and still be that number: far
/// above the rounding of a loss likelihood, far below what tells two likelihoods apart.
const ROUNDING: f64 = 1e-9;

/// The packets of a block in the authors' code at most (its `MAX_CODE_BLOCK`).
pub const AUTHORS_MAX_SOURCES: usize = 30;

/// The block that CoFUSO's dynamic rate makes of `eligible` consecutive packets (section 4.2.2 and
/// Algorithm 2): K = min(M_max / L, eligible, K_max) packets, about M_max of M_max / L being lost, and
/// M = K L parities. `None` if no packet is eligible, or if `max_sources` or `max_parities` is 0.
///
/// `loss` is the likelihood L in 0..=1 that a packet is lost (values beyond are taken as the nearer
/// end, a NaN as 0); `max_sources` is K_max, `max_parities` M_max.
///
/// K is rounded down, M up, at least to 1 and at most to M_max; of a path that never lost anything
/// all eligible packets get one parity. The paper gives no rounding and no case for L = 0.
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
    // Not so of a NaN, nor of -0, by which a quotient would be negative.
    let loss = if loss > 0.0 { loss.min(1.0) } else { 0.0 };
    // By zero this is infinite, which becomes the largest integer.
    let expected = (max_parities as f64 / loss + ROUNDING).floor() as usize;
    let sources = eligible.min(max_sources).min(expected);
    if sources == 0 || max_parities == 0 {
        return None;
    }
    let parities = (sources as f64 * loss - ROUNDING).ceil() as usize;
    Some(Shape::new(sources, parities.clamp(1, max_parities)))
}

/// The block of a fixed coding rate, in parities for each packet (CoFUSO section 6.2.4): one parity
/// for `1 / rate` packets, rounded to the nearest, or for as many as are eligible if they are fewer.
/// `None` if none is, if `max_sources` is 0, or if the rate is not above 0.
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

/// The block that the code published with CoFUSO makes: as many packets as were sent for each one
/// retransmitted, or, if none was, as were sent since the last retransmission; at most `eligible` and
/// [`AUTHORS_MAX_SOURCES`]; always one parity. `None`, for a plain copy, if that is not more than one
/// packet.
///
/// `sent` and `retransmitted` count a subflow's packets over its life, `since` those sent since the
/// last retransmission.
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
    fn a_loss_estimate_decides_the_block() {
        // tx = 100, retx = 2, since = 10: with both pairs of weights.
        let likelihood = |a: f64, b: f64| a * 2.0 / 100.0 + b / 10.0;
        assert!((likelihood(0.05, 0.95) - 0.096).abs() < 1e-12);
        assert!((likelihood(0.5, 0.5) - 0.06).abs() < 1e-12);
        let of = |loss| dynamic_shape(loss, 100, NO_LIMIT, 3);
        assert_eq!(of(likelihood(0.05, 0.95)), shape(31, 3));
        assert_eq!(of(likelihood(0.5, 0.5)), shape(50, 3));
    }

    #[test]
    fn ends_of_the_ranges() {
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
    fn fixed_rates_of_the_paper() {
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
    fn the_authors_rule() {
        assert_eq!(authors_shape(100, 10, 3, 50), shape(10, 1));
        assert_eq!(authors_shape(100, 0, 12, 50), shape(12, 1));
        assert_eq!(authors_shape(1000, 2, 3, 50), shape(30, 1));
        assert_eq!(authors_shape(1000, 2, 3, 7), shape(7, 1));
        assert_eq!(authors_shape(10, 9, 3, 50), None);
        assert_eq!(authors_shape(10, 0, u64::MAX, 1), None);
    }

    proptest! {
        #[test]
        fn shapes_keep_their_limits(
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
