//! Exact percentiles, and intervals over runs.

mod bootstrap;
mod estimate;
mod pool;

pub use bootstrap::{Resamples, wilson, wilson_p_value};
pub use estimate::{Estimate, Interval, LEVEL};
pub use pool::Pool;

/// The nearest-rank percentile `q` (0 to 1) of sorted values: the smallest value with at least
/// the share `q` of all values at or below it.
///
/// # Panics
/// If there are no values.
pub fn nearest_rank<T: Copy>(sorted: &[T], q: f64) -> T {
    sorted[rank(sorted.len() as u64, q) as usize - 1]
}

/// The rank, from 1, of the percentile `q` among `n` values.
pub(crate) fn rank(n: u64, q: f64) -> u64 {
    // 0.95 * 20 must give rank 19, although the product is slightly above 19 in binary.
    ((q * n as f64 - 1e-9).ceil() as u64).clamp(1, n.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank_is_a_value_that_occurred() {
        let v: Vec<u32> = (1..=20).collect();
        assert_eq!(nearest_rank(&v, 0.95), 19);
        assert_eq!(nearest_rank(&v, 0.5), 10);
        assert_eq!(nearest_rank(&v, 0.99), 20);
        assert_eq!(nearest_rank(&v, 0.0), 1);
        assert_eq!(nearest_rank(&v, 1.0), 20);
        assert_eq!(nearest_rank(&[7], 0.5), 7);
    }
}
