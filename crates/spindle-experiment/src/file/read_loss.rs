//! Reads `[loss]`.

use spindle_fabric::{CableId, Network};
use spindle_units::Duration;

use super::read::Result;
use crate::document::{ExperimentError, FromNode, Section, Share, Value, suggestion};
use crate::network::{candidates, links};
use crate::scenario::{Direction, Loss, LossModel, ResponseLoss};
use crate::units::percent;
use crate::workload::{LossRates, LossyLinks};

/// Reads the loss processes of a scenario.
pub(super) fn losses(root: &Section<'_>, network: &Network) -> Result<Vec<Loss>> {
    let Some(node) = root.node("loss") else {
        return Ok(Vec::new());
    };
    match &node.value {
        Value::List(items) => items
            .iter()
            .enumerate()
            .map(|(i, n)| loss(Section::new(format!("loss[{}]", i + 1), n)?, network))
            .collect(),
        _ => Ok(vec![loss(Section::new("loss", node)?, network)?]),
    }
}

fn loss(s: Section<'_>, network: &Network) -> Result<Loss> {
    let kind = s.choice(
        "model",
        &[
            ("bernoulli", 0),
            ("gilbert", 1),
            ("black-hole", 2),
            ("numbered", 3),
            ("lossy-links", 4),
            ("response", 5),
        ],
    )?;
    let on: Vec<String> = s.list("on")?.unwrap_or_else(|| vec!["all".to_owned()]);
    let model = match kind.unwrap_or(0) {
        0 => LossModel::Bernoulli(s.need::<Share>("rate")?.0),
        1 => {
            let rate = s.need::<Share>("rate")?.0;
            let burst = s.or("burst", 3.0)?;
            // The probability of leaving the good state must be at most 1.
            if burst < 1.0 || rate >= 1.0 || rate / (1.0 - rate) / burst > 1.0 {
                let problem = format!(
                    "found {burst} at rate {rate}, want a mean burst of 1 packet or more, \
                     and at least rate/(1-rate)"
                );
                return Err(s.error("burst", problem));
            }
            LossModel::Gilbert { rate, burst }
        }
        2 => {
            let (from, until) = (s.or("from", Duration::ZERO)?, s.or("until", Duration::MAX)?);
            if until <= from {
                return Err(s.error("until", "is not after from"));
            }
            LossModel::BlackHole { from, until }
        }
        3 => LossModel::Numbered(numbered(&s)?),
        5 => LossModel::Response(response(&s)?),
        _ => LossModel::LossyLinks(lossy_links(&s, &on, network)?),
    };
    let direction = s.choice(
        "direction",
        &[
            ("both", Direction::Both),
            ("forward", Direction::Forward),
            ("backward", Direction::Backward),
        ],
    )?;
    let direction = direction.unwrap_or(Direction::Both);
    for name in &on {
        links(network, name, direction).map_err(|e| s.error("on", e.to_string()))?;
    }
    let loss = Loss {
        model,
        on,
        direction,
        data_only: s.or("data_only", false)?,
    };
    s.finish()?;
    Ok(loss)
}

/// `packets` of the model `numbered`.
fn numbered(s: &Section<'_>) -> Result<Vec<u64>> {
    let packets: Vec<u64> = s.list("packets")?.unwrap_or_default();
    match packets.contains(&0) {
        true => Err(s.error("packets", "found 0, want a number from 1")),
        false => Ok(packets),
    }
}

/// `subflow` and `packet` of the model `response`.
fn response(s: &Section<'_>) -> Result<ResponseLoss> {
    for key in ["on", "direction", "data_only"] {
        if s.node(key).is_some() {
            let problem = "has no meaning here: the packet is lost wherever it goes";
            return Err(s.error(key, problem));
        }
    }
    let subflow = match s.get::<u32>("subflow")? {
        None => None,
        Some(n @ 1..=255) => Some((n - 1) as u8),
        Some(n) => return Err(s.error("subflow", format!("found {n}, want 1 to 255"))),
    };
    let random = s.node("packet").map(|n| &n.value) == Some(&Value::Text("random".to_owned()));
    let packet = match random {
        true if subflow.is_some() => {
            let problem =
                "has no meaning together with a random packet: it is one of the whole response";
            return Err(s.error("subflow", problem));
        }
        true => None,
        false => Some(s.need::<u64>("packet")?),
    };
    if packet == Some(0) {
        let problem = "found 0, want a number from 1, or \"random\"";
        return Err(s.error("packet", problem));
    }
    Ok(ResponseLoss { subflow, packet })
}

/// `links` or `share`, `rate` or `rates`, and `locations` of the model `lossy-links`.
fn lossy_links(s: &Section<'_>, on: &[String], network: &Network) -> Result<LossyLinks> {
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
