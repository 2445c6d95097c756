//! Reads `[traffic]` of `kind = "requests"`.

use std::sync::Arc;

use spindle_units::{BitRate, Duration};

use super::{Arrivals, Background, Connections, Pairing, Requests};
use crate::document::{Section, Size, Value};
use crate::topologies::MAX_INTERFACES;
use crate::traffic::message::message;
use crate::traffic::read::{count, hosts, load, observe, sizes};
use crate::traffic::{Ask, FirstPath, Result, Traffic, TrafficKind, TrafficPlace};

/// Largest number of subflows that a file may request: the number that a connection accepts by default.
const MAX_SUBFLOWS: u32 = 8;

pub(super) struct Kind;

impl TrafficKind for Kind {
    fn read(&self, s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Arc<dyn Traffic>> {
        Ok(Arc::new(requests(s, place)?))
    }
}

fn requests(s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Requests> {
    let network = place.network;
    let clients = hosts(s, "clients", network)?;
    let servers = hosts(s, "servers", network)?;
    let pairing = s
        .choice(
            "pairing",
            &[
                ("one-to-one", Pairing::OneToOne),
                ("random", Pairing::Random),
            ],
        )?
        .unwrap_or(Pairing::Random);
    if pairing == Pairing::OneToOne && clients.len() != servers.len() {
        let problem = format!(
            "one-to-one with {} clients and {} servers, want as many of each",
            clients.len(),
            servers.len()
        );
        return Err(s.error("pairing", problem));
    }
    let alone = |(n, client): &(usize, &String)| match pairing {
        Pairing::OneToOne => servers[*n] == **client,
        Pairing::Random => servers.iter().all(|server| server == *client),
    };
    if let Some((_, client)) = clients.iter().enumerate().find(alone) {
        let problem = format!("{client} would have to ask itself, want another host for it");
        return Err(s.error("servers", problem));
    }
    let sizes = sizes(s, place)?;
    let request = s.or("request", Size(100))?.0;
    if request == 0 {
        return Err(s.error("request", "found 0 bytes, want 1B or more"));
    }
    Ok(Requests {
        clients,
        servers,
        pairing,
        arrivals: arrivals(s)?,
        sizes,
        request,
        connections: connections(s)?,
        first_path: first_path(s)?,
        subflows: subflows(s)?,
        observe: observe(s)?,
        message: message(s)?,
        background: background(s, place)?,
        flows: count(s, "flows", 15_000)?,
    })
}

/// `background_from`, a size, and `background`, a transport's name or `same`.
fn background(s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<Option<Background>> {
    let from = s.get::<Size>("background_from")?;
    if from.is_some() && s.node("below").is_some() {
        let problem = "given together with background_from, want only one of them";
        return Err(s.error("below", problem));
    }
    let Some(node) = s.node("background") else {
        return Ok(from.map(|from| Background {
            from: from.0,
            transport: Some("tcp".to_owned()),
        }));
    };
    let name: String = s.need("background")?;
    let Some(Size(from)) = from else {
        let problem = "given without background_from, want that size as well, such as \"100KB\"";
        return Err(s.error("background", problem));
    };
    if name != "same" && !place.transports.has(&name) {
        let names = place.transports.names.iter().map(String::as_str);
        return Err(s.unknown("background", node, std::iter::once("same").chain(names)));
    }
    Ok(Some(Background {
        from,
        transport: (name != "same").then_some(name),
    }))
}

fn arrivals(s: &Section<'_>) -> Result<Arrivals> {
    let load = load(s)?;
    let gap = s.get::<Duration>("gap")?;
    let sequential = s.choice("arrivals", &[("poisson", false), ("sequential", true)])?;
    match sequential.unwrap_or(gap.is_some() && load.is_none()) {
        true if load.is_some() => Err(s.error("load", "has no meaning with sequential arrivals")),
        true => Ok(Arrivals::Sequential(gap.unwrap_or(Duration::ZERO))),
        false if gap.is_some() => Err(s.error("gap", "has no meaning with poisson arrivals")),
        false => match load {
            Some(load) => Ok(Arrivals::Poisson(load)),
            None => Ok(Arrivals::Poisson(BitRate(10_000_000))),
        },
    }
}

/// `first_path`: a number from 1, or `random`.
fn first_path(s: &Section<'_>) -> Result<FirstPath> {
    let want = format!("want a path from 1 to {MAX_INTERFACES}, or \"random\"");
    let Some(node) = s.node("first_path") else {
        return Ok(FirstPath::Random);
    };
    if node.value == Value::Text("random".to_owned()) {
        return Ok(FirstPath::Random);
    }
    match s.get::<u32>("first_path")? {
        Some(n) if (1..=MAX_INTERFACES).contains(&n) => Ok(FirstPath::Interface(n - 1)),
        _ => Err(s.error("first_path", want)),
    }
}

/// `subflows`: the number of subflows on each of the client's interfaces, in the order of the interfaces.
fn subflows(s: &Section<'_>) -> Result<Vec<u32>> {
    let list: Vec<u32> = s.list("subflows")?.unwrap_or_default();
    let sum: u32 = list.iter().fold(0, |a, n| a.saturating_add(*n));
    if list.contains(&0) || sum > MAX_SUBFLOWS || list.len() > MAX_INTERFACES as usize {
        let problem = format!(
            "found {list:?}, want a number from 1 for each of the client's paths, {MAX_SUBFLOWS} in all \
             at most, such as [2, 1]"
        );
        return Err(s.error("subflows", problem));
    }
    Ok(list)
}

fn connections(s: &Section<'_>) -> Result<Connections> {
    let new = s
        .choice("connections", &[("persistent", false), ("new", true)])?
        .unwrap_or(false);
    let per_pair: Option<u32> = s.get("per_pair")?;
    let warm_up: Option<Size> = s.get("warm_up")?;
    let idle: Option<Duration> = s.get("idle")?;
    let ask = s.choice(
        "ask",
        &[
            ("opening", Ask::Opening),
            ("at-once", Ask::AtOnce),
            ("when-joined", Ask::WhenJoined),
        ],
    )?;
    if !new && ask.is_some() {
        return Err(s.error("ask", "has a meaning with new connections only"));
    }
    if new {
        for (key, given) in [
            ("per_pair", per_pair.is_some()),
            ("warm_up", warm_up.is_some()),
            ("idle", idle.is_some()),
        ] {
            if given {
                return Err(s.error(key, "has no meaning with new connections"));
            }
        }
        return Ok(Connections::New(ask.unwrap_or_default()));
    }
    let per_pair = per_pair.unwrap_or(5);
    if per_pair == 0 || per_pair > 1000 {
        return Err(s.error("per_pair", format!("found {per_pair}, want 1 to 1000")));
    }
    Ok(Connections::Persistent {
        per_pair,
        warm_up: warm_up.map_or(100_000, |w| w.0),
        idle: idle.unwrap_or(Duration::from_millis(500)),
    })
}
