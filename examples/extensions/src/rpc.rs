//! The size distribution `rpc`: most flows are small, a few carry most of the bytes.

use std::sync::Arc;

use spindle_experiment::workload::{Cdf, Sizes};

/// What `spindle explain` prints.
pub(crate) const SUMMARY: &str = "small calls and a few large transfers";

/// Sizes in bytes and their cumulative probability. Between two points, sizes are interpolated.
const TABLE: &str = "
    200      0
    1000     0.6
    10000    0.9
    1000000  1
";

/// The distribution. A table that is not a distribution becomes a fixed size.
pub(crate) fn sizes() -> Sizes {
    match Cdf::parse(TABLE) {
        Ok(cdf) => Sizes::Table(Arc::new(cdf)),
        Err(_) => Sizes::Fixed(1000),
    }
}
