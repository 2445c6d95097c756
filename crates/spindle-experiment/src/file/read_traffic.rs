//! Reads `[traffic]`.

use std::path::Path;
use std::sync::Arc;

use spindle_fabric::{CableId, HostId, Network};
use spindle_units::{BitRate, Duration};

use super::Context;
use super::read::Result;
use super::read_mix::mix;
use crate::document::{Load, Section, Share, Size, Value};
use crate::scenario::{
    Arrivals, Ask, Background, Connections, FirstPath, Incast, NamedTopology, Observe, Pairing,
    Requests, Traffic, TrafficMatrix, TransferArrivals, Transfers,
};
use crate::topologies::MAX_INTERFACES;
use crate::workload::{Cdf, LogNormal, SizeSampler, Sizes};

/// Largest number of subflows that a file may request: the number that a connection accepts by default.
const MAX_SUBFLOWS: u32 = 8;

/// Refuses `name` if it is not a host of the network.
fn host_known(s: &Section<'_>, key: &str, name: &str, network: &Network) -> Result<()> {
    const SHOWN: u32 = 12;
    if network.host_named(name).is_some() {
        return Ok(());
    }
    let all = network.hosts();
    let names: Vec<&str> = (0..all)
        .map(|h| network.node(network.host_node(HostId(h))).name.as_str())
        .collect();
    let near = crate::document::suggestion(name, names.iter().copied());
    let more = if all > SHOWN { ", ..." } else { "" };
    let shown = names[..all.min(SHOWN) as usize].join(", ");
    let problem = format!("found \"{name}\", which is no host here; there are {shown}{more}{near}");
    Err(s.error(key, problem))
}

/// Reads the traffic of a scenario.
pub(super) fn traffic(
    s: Section<'_>,
    (topology, network): (&NamedTopology, &Network),
    context: &Context<'_>,
) -> Result<Traffic> {
    let kinds = [
        ("requests", 0),
        ("incast", 1),
        ("none", 2),
        ("transfers", 3),
        ("mix", 4),
        // Formulas are read before everything else, so this kind is never found here. It is listed for error
        // messages.
        ("formula", 5),
    ];
    let traffic = match s.choice("kind", &kinds)? {
        None => {
            let problem = "missing, want one of requests, incast, none, transfers, mix, formula";
            return Err(s.error("kind", problem));
        }
        Some(0) => Traffic::Requests(requests(&s, network, context)?),
        Some(1) => Traffic::Incast(incast(&s, network)?),
        Some(3) => Traffic::Transfers(transfers(&s, network, context)?),
        Some(4) => Traffic::Mix(mix(&s, (topology, network), context)?),
        Some(_) => Traffic::None,
    };
    s.finish()?;
    Ok(traffic)
}

pub(super) fn hosts(s: &Section<'_>, key: &'static str, network: &Network) -> Result<Vec<String>> {
    let list: Vec<String> = s.list(key)?.unwrap_or_default();
    if list.is_empty() {
        return Err(s.error(key, "missing or empty, want a list of hosts"));
    }
    let mut hosts: Vec<String> = Vec::new();
    for name in &list {
        for host in matching(s, key, name, network)? {
            if hosts.contains(&host) {
                return Err(s.error(key, format!("{host} is in it twice, want each host once")));
            }
            hosts.push(host);
        }
    }
    Ok(hosts)
}

/// The hosts that `name` stands for: a single host, `all`, or the hosts of a pattern. Patterns are those of
/// links, such as `h0-h7` or `h*`.
pub(super) fn matching(
    s: &Section<'_>,
    key: &'static str,
    name: &str,
    network: &Network,
) -> Result<Vec<String>> {
    let all = (0..network.hosts()).map(|h| network.node(network.host_node(HostId(h))).name.clone());
    if name == "all" {
        return Ok(all.collect());
    }
    let pattern = network.host_named(name).is_none() && name.contains(['-', '*', '?']);
    let links = match pattern {
        true => network.links_matching(&format!("access:{name}")).ok(),
        false => None,
    };
    let Some(links) = links else {
        host_known(s, key, name, network)?;
        return Ok(vec![name.to_owned()]);
    };
    let mut cables: Vec<CableId> = links.iter().map(|l| l.cable()).collect();
    cables.dedup();
    Ok(cables
        .iter()
        .map(|c| network.cable(*c).member.clone())
        .collect())
}

fn requests(s: &Section<'_>, network: &Network, context: &Context<'_>) -> Result<Requests> {
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
    let sizes = sizes(s, context)?;
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
        background: background(s, context)?,
        flows: count(s, "flows", 15_000)?,
    })
}

/// `background_from`, a size, and `background`, a transport's name or `same`.
fn background(s: &Section<'_>, context: &Context<'_>) -> Result<Option<Background>> {
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
    if name != "same" && !context.knows_transport(&name) {
        let names = context.transports.iter().map(String::as_str);
        return Err(s.unknown("background", node, std::iter::once("same").chain(names)));
    }
    Ok(Some(Background {
        from,
        transport: (name != "same").then_some(name),
    }))
}

/// The load in bits per second, given as a share of `capacity` or as a rate.
pub(super) fn load(s: &Section<'_>) -> Result<Option<BitRate>> {
    let capacity = s.get::<BitRate>("capacity")?;
    let load = match (s.get::<Load>("load")?, capacity) {
        (Some(Load::Share(_)), None) => {
            let problem = "a share, but capacity is missing, want it as a rate such as \"3Gbps\"";
            return Err(s.error("load", problem));
        }
        (Some(Load::Share(share)), Some(all)) => BitRate((share * all.0 as f64).round() as u64),
        (Some(Load::Rate(_)) | None, Some(_)) => {
            let problem = "given without a load that is a share of it, such as load = \"50%\"";
            return Err(s.error("capacity", problem));
        }
        (Some(Load::Rate(rate)), None) => rate,
        (None, None) => return Ok(None),
    };
    match load {
        BitRate(0) => Err(s.error("load", "found 0, want more")),
        load => Ok(Some(load)),
    }
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

/// `observe`: what is recorded of each flow in addition to its time.
pub(super) fn observe(s: &Section<'_>) -> Result<Observe> {
    let mut observe = Observe::default();
    for name in s.list::<String>("observe")?.unwrap_or_default() {
        match name.as_str() {
            "recovery" => observe.recovery = true,
            "sizes" => observe.sizes = true,
            "timers" => observe.timers = true,
            "links" => observe.links = true,
            "packets" => observe.packets = true,
            "paths" => observe.paths = true,
            "goodput" => observe.goodput = true,
            "coding" => observe.coding = true,
            "windows" => observe.windows = true,
            _ => {
                let near = crate::document::suggestion(&name, Observe::NAMES);
                let known = Observe::NAMES.join(", ");
                let problem = format!("found \"{name}\", want some of {known}{near}");
                return Err(s.error("observe", problem));
            }
        }
    }
    Ok(observe)
}

fn count(s: &Section<'_>, key: &'static str, default: u64) -> Result<u64> {
    match s.or(key, default)? {
        0 => Err(s.error(key, "found 0, want 1 or more")),
        n => Ok(n),
    }
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

/// `sizes`, without the sizes that are not below `below`.
pub(super) fn sizes(s: &Section<'_>, context: &Context<'_>) -> Result<SizeSampler> {
    let below = s.get::<Size>("below")?.map(|b| b.0);
    let sizes = sizes_of(s, "sizes", below.is_some(), context)?;
    SizeSampler::new(sizes, below).ok_or_else(|| {
        s.error(
            "below",
            "no size of the distribution is below this, want a larger one",
        )
    })
}

/// The name of a published distribution, `file:PATH`, a fixed size, two sizes for a uniform distribution, or a
/// table.
pub(super) fn sizes_of(
    s: &Section<'_>,
    key: &'static str,
    limited: bool,
    context: &Context<'_>,
) -> Result<Sizes> {
    let named = context.registry.workloads();
    let want = || {
        let names: Vec<&str> = named.names().collect();
        format!("{}, {SIZES}", names.join(", "))
    };
    let Some(node) = s.node(key) else {
        return Err(s.error(key, format!("missing, want {}", want())));
    };
    Ok(match &node.value {
        Value::Text(text) => match text.strip_prefix("file:") {
            Some(name) => cdf_file(s, key, name, context)?,
            None => match (named.find(text), crate::units::size(text)) {
                (Some(entry), _) => (*entry.item).clone(),
                (None, Some(bytes)) if bytes > 0 => Sizes::Fixed(bytes),
                _ => {
                    let near = crate::document::suggestion(text, named.names());
                    let want = want();
                    return Err(s.error(key, format!("found \"{text}\", want {want}{near}")));
                }
            },
        },
        Value::List(_) => match s.list::<Size>(key)?.unwrap_or_default()[..] {
            [Size(a), Size(b)] if 0 < a && a <= b => Sizes::Uniform(a, b),
            _ => return Err(s.error(key, "want two sizes, the smaller first and above 0")),
        },
        Value::Table(table) if table.iter().any(|(key, _)| key == "cdf") => {
            cdf_text(&Section::new(s.path(key), node)?)?
        }
        Value::Table(_) if limited => {
            return Err(s.error("below", "has no meaning together with max, want only that"));
        }
        Value::Table(table) if table.iter().any(|(key, _)| key == "packets") => {
            Sizes::Packets(packets(&Section::new(s.path(key), node)?)?)
        }
        Value::Table(_) => Sizes::LogNormal(lognormal(&Section::new(s.path(key), node)?)?),
        _ => return Err(s.error(key, format!("found {}, want {}", node.kind(), want()))),
    })
}

/// `{ packets = N }`.
fn packets(s: &Section<'_>) -> Result<u32> {
    let n: u32 = s.need("packets")?;
    s.check()?;
    match n {
        1..=1_000_000 => Ok(n),
        _ => Err(s.error("packets", format!("found {n}, want 1 to 1000000"))),
    }
}

/// `{ lognormal = MEDIAN, sigma, min, max }`.
fn lognormal(s: &Section<'_>) -> Result<LogNormal> {
    let sizes = LogNormal {
        median: s.need::<Size>("lognormal")?.0,
        sigma: s.need("sigma")?,
        min: s.or("min", Size(1))?.0,
        max: s.or("max", Size(1 << 40))?.0,
    };
    s.check()?;
    if sizes.median == 0 || sizes.min == 0 || sizes.max < sizes.min {
        return Err(s.error("lognormal", "want a median above 0 and 1B <= min <= max"));
    }
    if !(sizes.sigma > 0.0 && sizes.sigma <= 10.0) {
        return Err(s.error(
            "sigma",
            format!("found {}, want above 0, at most 10", sizes.sigma),
        ));
    }
    Ok(sizes)
}

const SIZES: &str = "\"file:PATH\" or { cdf = \"what such a file contains\" }, a size such as \"10KB\", \
                     two sizes [\"10KB\", \"100KB\"] for a uniform one, \
                     { packets = 29 } for full packets of the transport's own, or { lognormal = \"48KiB\", sigma = 0.9, min = \"1KiB\", max = \"1MiB\" }";

/// `{ cdf = "..." }`, with the text that such a file would contain.
fn cdf_text(s: &Section<'_>) -> Result<Sizes> {
    let text: String = s.need("cdf")?;
    s.check()?;
    let cdf = Cdf::parse(&text).map_err(|e| s.error("cdf", e.to_string()))?;
    Ok(Sizes::Table(Arc::new(cdf)))
}

fn cdf_file(s: &Section<'_>, key: &str, name: &str, context: &Context<'_>) -> Result<Sizes> {
    let path = context.directory.join(Path::new(name));
    let text = std::fs::read_to_string(&path)
        .map_err(|e| s.error(key, format!("cannot read {}: {e}", path.display())))?;
    let cdf = Cdf::parse(&text).map_err(|e| s.error(key, format!("{}: {e}", path.display())))?;
    Ok(Sizes::Table(Arc::new(cdf)))
}

fn transfers(s: &Section<'_>, network: &Network, context: &Context<'_>) -> Result<Transfers> {
    let hosts = match s.node("hosts") {
        Some(_) => hosts(s, "hosts", network)?,
        None => matching(s, "hosts", "all", network)?,
    };
    if hosts.len() < 2 {
        return Err(s.error("hosts", "found one host, want two or more"));
    }
    let kinds = [("permutation", 0), ("stride", 1), ("random", 2)];
    let matrix = match (s.choice("matrix", &kinds)?, s.get::<u32>("stride")?) {
        (Some(1), Some(by)) if !(by as usize).is_multiple_of(hosts.len()) => {
            TrafficMatrix::Stride(by)
        }
        (Some(1), Some(_)) => {
            let problem = "leads each host to itself, want another number";
            return Err(s.error("stride", problem));
        }
        (Some(1), None) => return Err(s.error("stride", "missing, want a number of hosts")),
        (_, Some(_)) => {
            return Err(s.error("stride", "has a meaning with matrix = \"stride\" only"));
        }
        (Some(2), None) => TrafficMatrix::Random,
        (_, None) => TrafficMatrix::Permutation,
    };
    let coming = match (s.get::<f64>("rate")?, s.get::<u32>("senders")?) {
        (Some(_), Some(_)) => {
            let problem = "given together with rate, want only one of them";
            return Err(s.error("senders", problem));
        }
        (_, Some(senders)) => {
            let every: Duration = s.need("every")?;
            if senders == 0 || senders as usize >= hosts.len() || every == Duration::ZERO {
                let problem = format!("want 1 to {} at once, at times apart", hosts.len() - 1);
                return Err(s.error("senders", problem));
            }
            TransferArrivals::Together { senders, every }
        }
        (rate, None) => {
            let rate = rate.unwrap_or(0.0);
            if !(0.0..=1e9).contains(&rate) {
                let problem = format!("found {rate}, want transfers a second, 0 to 1e9");
                return Err(s.error("rate", problem));
            }
            TransferArrivals::Poisson(rate)
        }
    };
    let background = s.get::<String>("background")?.filter(|n| n != "same");
    if let Some(name) = background.as_ref().filter(|n| !context.knows_transport(n)) {
        let problem = format!("found transport \"{name}\", want one there is, or same");
        return Err(s.error("background", problem));
    }
    let duration: Duration = s.need("duration")?;
    if duration == Duration::ZERO {
        return Err(s.error("duration", "found 0, want more"));
    }
    let ask = [("opening", Ask::Opening), ("at-once", Ask::AtOnce)];
    Ok(Transfers {
        ask: s.choice("ask", &ask)?.unwrap_or_default(),
        long: s.or("long", Share(0.0))?.0,
        matrix,
        coming,
        sizes: sizes(s, context)?,
        duration,
        background,
        observe: observe(s)?,
        hosts,
    })
}

fn incast(s: &Section<'_>, network: &Network) -> Result<Incast> {
    let client: String = s.need("client")?;
    host_known(s, "client", &client, network)?;
    let servers = hosts(s, "servers", network)?;
    if servers.contains(&client) {
        return Err(s.error(
            "servers",
            format!("{client} is the client, want other hosts"),
        ));
    }
    let fanout: u32 = s.or("fanout", servers.len() as u32)?;
    let response = s.or("response", Size(64_000))?.0;
    if fanout == 0 || response == 0 {
        let key = if fanout == 0 { "fanout" } else { "response" };
        return Err(s.error(key, "found 0, want more"));
    }
    Ok(Incast {
        client,
        servers,
        fanout,
        response,
        request: s.or("request", Size(100))?.0.max(1),
        warm_up: s.or("warm_up", Size(100_000))?.0,
        idle: s.or("idle", Duration::from_millis(500))?,
        rounds: count(s, "rounds", 100)?,
    })
}
