//! `mixed`: half of the flows from web search, half from data mining (CAPS section IX-E, Fig 23).

use std::sync::Arc;

use super::{CdfError, Sizes, data_mining, web_search};
use crate::catalog::Catalog;

pub(super) fn register(catalog: &mut Catalog<Sizes>) -> Result<(), CdfError> {
    let both = web_search::sizes()?.mixed_with(&data_mining::sizes()?);
    let summary = "half web-search, half data-mining (CAPS section IX-E)";
    catalog.add("mixed", summary, Arc::new(Sizes::Table(Arc::new(both))));
    Ok(())
}
