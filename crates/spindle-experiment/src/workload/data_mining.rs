//! `data-mining`: the sizes of data mining flows.

use std::sync::Arc;

use super::{Cdf, CdfError, Sizes, of_packets};
use crate::catalog::Catalog;

/// Data mining, from VL2 (mechanisms C1): packets of 1460 B and cumulative probability.
const DATA_MINING: [(u64, f64); 9] = [
    (1, 0.0),
    (1, 0.5),
    (2, 0.6),
    (3, 0.7),
    (7, 0.8),
    (267, 0.9),
    (2107, 0.95),
    (66667, 0.99),
    (666667, 1.0),
];

/// The distribution.
pub(super) fn sizes() -> Result<Cdf, CdfError> {
    of_packets(&DATA_MINING)
}

pub(super) fn register(catalog: &mut Catalog<Sizes>) -> Result<(), CdfError> {
    let sizes = Sizes::Table(Arc::new(sizes()?));
    catalog.add(
        "data-mining",
        "data mining, from VL2 (mechanisms C1)",
        Arc::new(sizes),
    );
    Ok(())
}
