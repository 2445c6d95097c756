//! `web-search`: the sizes of web search flows.

use std::sync::Arc;

use super::{Cdf, CdfError, Sizes, of_packets};
use crate::catalog::Catalog;

/// Web search, from DCTCP (mechanisms C1): packets of 1460 B and cumulative probability.
const WEB_SEARCH: [(u64, f64); 12] = [
    (6, 0.0),
    (6, 0.15),
    (13, 0.2),
    (19, 0.3),
    (33, 0.4),
    (53, 0.53),
    (133, 0.6),
    (667, 0.7),
    (1333, 0.8),
    (3333, 0.9),
    (6667, 0.97),
    (20000, 1.0),
];

/// The distribution.
pub(super) fn sizes() -> Result<Cdf, CdfError> {
    of_packets(&WEB_SEARCH)
}

pub(super) fn register(catalog: &mut Catalog<Sizes>) -> Result<(), CdfError> {
    let sizes = Sizes::Table(Arc::new(sizes()?));
    catalog.add(
        "web-search",
        "web search, from DCTCP (mechanisms C1)",
        Arc::new(sizes),
    );
    Ok(())
}
