//! `jitter`: random additional delays that keep the order of packets.

use std::sync::Arc;

use spindle_fabric::{Jitter as LinkJitter, JitterDistribution, LinkSpec};
use spindle_units::Duration;

use super::{LinkProperty, ReadLinkProperty, Result};
use crate::catalog::Catalog;
use crate::document::{Section, Value};

/// Random additional delays.
#[derive(Clone, Debug)]
struct Jitter(LinkJitter);

impl LinkProperty for Jitter {
    fn apply(&self, link: &mut LinkSpec) {
        link.jitter = Some(self.0.clone());
    }
}

/// A time, which is the limit of uniform delays, or a table with the mean and the limit of exponential delays.
fn read(s: &Section<'_>) -> Result<Option<Arc<dyn LinkProperty>>> {
    let Some(node) = s.node("jitter") else {
        return Ok(None);
    };
    let (distribution, limit) = match &node.value {
        Value::Table(_) => {
            let table = Section::new(s.path("jitter"), node)?;
            let mean = time(&table, "mean", table.need("mean")?)?;
            let limit = time(&table, "limit", table.need("limit")?)?;
            table.finish()?;
            (JitterDistribution::Exponential(mean), limit)
        }
        _ => (
            JitterDistribution::Uniform,
            time(s, "jitter", s.need("jitter")?)?,
        ),
    };
    Ok(Some(Arc::new(Jitter(LinkJitter {
        distribution,
        limit,
    }))))
}

/// A time above 0.
pub(super) fn time(s: &Section<'_>, key: &str, found: Duration) -> Result<Duration> {
    match found {
        Duration::ZERO => Err(s.error(key, "found 0, want a time above 0 such as \"50us\"")),
        time => Ok(time),
    }
}

pub(super) fn register(catalog: &mut Catalog<ReadLinkProperty>) {
    let summary = "random additional delays that keep the order of packets (mechanisms N3)";
    catalog.add("jitter", summary, Arc::new(read));
}
