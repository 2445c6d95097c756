//! `lossy-links`: links that are drawn for each run.

use std::fmt;
use std::sync::Arc;

use spindle_fabric::{CableId, LinkId, Loss as LinkLoss, Network, NetworkError};

use super::{LossModel, LossPlace, ReadLossModel, Result, candidates};
use crate::catalog::Catalog;
use crate::document::{ExperimentError, FromNode, Section, Share, Value, suggestion};
use crate::units::percent;
use crate::workload::{LossRates, LossyLinks};

/// Some links of [`Loss::on`](super::Loss::on), drawn again for each run, each with its own rate. They lose
/// packets from the start of the measurement on: connections were opened before links broke.
#[derive(Clone)]
pub struct DrawnLinks(pub LossyLinks);

/// The text is that of the model's first version, so that points keep their hashes.
impl fmt::Debug for DrawnLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LossyLinks").field(&self.0).finish()
    }
}

impl LossModel for DrawnLinks {
    fn process(&self) -> std::result::Result<LinkLoss, NetworkError> {
        Ok(LinkLoss::none())
    }

    /// The links are not drawn yet.
    fn apply(
        &self,
        _: &mut Network,
        _: &[LinkId],
        _: bool,
    ) -> std::result::Result<(), NetworkError> {
        Ok(())
    }

    fn lossy_links(&self) -> Option<&LossyLinks> {
        Some(&self.0)
    }

    fn only_in_lab(&self) -> Option<(&'static str, &'static str)> {
        let remedy = "only the lab draws links; give their loss as bernoulli or gilbert";
        Some(("lossy-links", remedy))
    }
}

fn read(s: &Section<'_>, place: &LossPlace<'_>) -> Result<Arc<dyn LossModel>> {
    Ok(Arc::new(DrawnLinks(keys(s, place)?)))
}

/// `links` or `share`, `rate` or `rates`, and `locations`.
fn keys(s: &Section<'_>, place: &LossPlace<'_>) -> Result<LossyLinks> {
    let (network, on) = (place.network, place.on);
    let cables = candidates(network, on).map_err(|e| s.error("on", e.to_string()))?;
    let group = |c: &CableId| network.cable(*c).group.as_str();
    let groups: Vec<&str> = cables.iter().map(group).collect();
    let links = match (s.get::<u32>("links")?, s.get::<Share>("share")?) {
        (Some(_), Some(_)) => {
            return Err(s.error("share", "given together with links, want only one of them"));
        }
        (Some(links), None) => links,
        (None, Some(Share(share))) => (share * groups.len() as f64).round() as u32,
        (None, None) => {
            let problem = "missing, want how many cables are lossy, such as 5, or a share of them \
                           such as share = \"5%\"";
            return Err(s.error("links", problem));
        }
    };
    let most = groups.len();
    if links == 0 || links as usize > most {
        let key = if s.has("links") { "links" } else { "share" };
        let problem = format!("makes {links} lossy cables of {most}, want 1 or more of them");
        return Err(s.error(key, problem));
    }
    let rate = s.get::<Share>("rate")?;
    let rates = match (s.choice("rates", &LossRates::NAMED)?, rate) {
        (Some(_), Some(_)) => {
            return Err(s.error("rate", "given together with rates, want only one of them"));
        }
        (None, Some(Share(rate))) => LossRates::Same(rate),
        (named, None) => named.unwrap_or(LossRates::Below60),
    };
    Ok(LossyLinks {
        links,
        rates,
        locations: locations(s, &groups)?,
    })
}

/// `locations`: groups of cables, each with its share of the lossy cables.
fn locations(s: &Section<'_>, groups: &[&str]) -> Result<Vec<(String, f64)>> {
    let Some(node) = s.node("locations") else {
        return Ok(Vec::new());
    };
    let Value::Table(entries) = &node.value else {
        let problem = format!(
            "found {}, want a table of groups and shares such as {{ access = \"22%\" }}",
            node.kind()
        );
        return Err(s.error("locations", problem));
    };
    let mut list = Vec::new();
    for (group, share) in entries {
        let path = format!("{}.{group}", s.path("locations"));
        let wrong = |problem| ExperimentError::new(share.origin.clone(), path.as_str(), problem);
        if !groups.contains(&group.as_str()) {
            let mut known = groups.to_vec();
            known.sort_unstable();
            known.dedup();
            let near = suggestion(group, known.iter().copied());
            let known = known.join(", ");
            return Err(wrong(format!(
                "no such group of cables, want some of {known}{near}"
            )));
        }
        let found = Share::from_node(share)
            .ok_or_else(|| wrong(format!("found {}, want {}", share.kind(), Share::WANT)))?;
        list.push((group.clone(), found.0));
    }
    let sum: f64 = list.iter().map(|(_, w)| w).sum();
    if (sum - 1.0).abs() > 1e-6 {
        let problem = format!("the shares sum to {}, want 100%", percent(sum));
        return Err(s.error("locations", problem));
    }
    Ok(list)
}

pub(super) fn register(catalog: &mut Catalog<ReadLossModel>) {
    let summary = "links that are drawn for each run lose packets, each at its own rate";
    catalog.add("lossy-links", summary, Arc::new(read));
}
