//! Reading the parts of a scenario from a file's tables.

use std::path::Path;
use std::sync::Arc;

use spindle_fabric::{HostId, Network};
use spindle_mptcp::congestion::CongestionKind;
use spindle_units::{BitRate, Duration};

use super::Context;
use super::error::ExperimentError;
use super::node::{Node, Value};
use super::scenario::{
    Arrivals, Ask, Buffer, Connections, Direction, FirstPath, HostSettings, Incast, LinkSettings,
    Loss, LossModel, Pairing, Requests, Scenario, Topology, Traffic, Window,
};
use super::section::{Section, Share, Size};
use crate::driver::{MAX_INTERFACES, build_standard, links};
use crate::workload::{Cdf, LogNormal, NAMED, SizeSampler, Sizes};

type Result<T> = std::result::Result<T, ExperimentError>;

/// Hosts a simulation may have: what fits the 10.x.y.z addresses given to them, far above what is
/// worth simulating.
const MAX_HOSTS: u64 = 65_536;

/// Reads the scenario of one point.
pub(super) fn scenario(root: &Section<'_>, context: &Context<'_>) -> Result<Scenario> {
    let topology = match root.section("topology")? {
        Some(section) => topology(section, context)?,
        None => return Err(root.error("topology", "missing, want a table with a name")),
    };
    let network = build_standard(&topology)
        .transpose()
        .map_err(|e| root.error("topology", e.to_string()))?;
    let network = network.as_ref();
    let loss = losses(root, network)?;
    let traffic = match root.section("traffic")? {
        Some(section) => traffic(section, network, context)?,
        None => return Err(root.error("traffic", "missing, want a table with a kind")),
    };
    let (host, balancer) = match root.section("scenario")? {
        Some(section) => host(section, context)?,
        None => (HostSettings::default(), "ecmp".to_owned()),
    };
    Ok(Scenario {
        topology,
        loss,
        traffic,
        host,
        balancer,
    })
}

fn topology(s: Section<'_>, context: &Context<'_>) -> Result<Topology> {
    let mut names = vec!["fuso-testbed", "dumbbell", "fat-tree", "dual-homed"];
    names.extend(context.topologies.iter().map(String::as_str));
    let name: String = s.need("name")?;
    if !names.contains(&name.as_str()) {
        let node = s.node("name").expect("read above");
        return Err(s.unknown("name", node, names.iter().copied()));
    }
    let links = link_settings(&s, &name)?;
    let topology = match name.as_str() {
        "fuso-testbed" => Topology::FusoTestbed(links),
        "dumbbell" => {
            let pairs: u32 = s.or("pairs", 1)?;
            if pairs == 0 || u64::from(pairs) * 2 > MAX_HOSTS {
                return Err(s.error(
                    "pairs",
                    format!("found {pairs}, want 1 to {}", MAX_HOSTS / 2),
                ));
            }
            Topology::Dumbbell {
                pairs,
                links,
                core_rate: rate(&s, "core_rate", links.rate)?,
            }
        }
        "fat-tree" => {
            let k: u32 = s.or("k", 4)?;
            if k == 0 || k % 2 == 1 || k > 64 {
                let problem = format!("found {k}, want an even number of ports from 2 to 64");
                return Err(s.error("k", problem));
            }
            Topology::FatTree { k, links }
        }
        "dual-homed" => {
            let paths: u32 = s.or("paths", 2)?;
            if paths == 0 || paths > MAX_INTERFACES {
                return Err(s.error(
                    "paths",
                    format!("found {paths}, want 1 to {MAX_INTERFACES}"),
                ));
            }
            Topology::DualHomed {
                paths,
                links,
                server_rate: rate(&s, "server_rate", links.rate)?,
            }
        }
        _ => Topology::Custom {
            name,
            parameters: parameters(&s)?,
            links,
        },
    };
    s.finish()?;
    Ok(topology)
}

fn parameters(s: &Section<'_>) -> Result<Vec<(String, String)>> {
    let Some(node) = s.node("parameters") else {
        return Ok(Vec::new());
    };
    match &node.value {
        Value::Table(entries) => Ok(entries
            .iter()
            .map(|(k, n)| match &n.value {
                Value::Text(t) => (k.clone(), t.clone()),
                _ => (k.clone(), n.canonical()),
            })
            .collect()),
        _ => Err(s.error("parameters", format!("found {}, want a table", node.kind()))),
    }
}

fn rate(s: &Section<'_>, key: &'static str, default: BitRate) -> Result<BitRate> {
    let rate = s.or(key, default)?;
    if rate.0 == 0 {
        return Err(s.error(key, "found 0, want a rate above 0 such as \"1Gbps\""));
    }
    Ok(rate)
}

fn link_settings(s: &Section<'_>, name: &str) -> Result<LinkSettings> {
    // T1 of the catalogue; the other topologies' base RTTs are our choice for the same hardware.
    let rtt = Duration::from_micros(if name == "fuso-testbed" { 280 } else { 100 });
    let buffer = match (s.get::<Size>("buffer")?, s.get::<u32>("buffer_packets")?) {
        (Some(_), Some(_)) => {
            return Err(s.error(
                "buffer_packets",
                "given beside buffer, want only one of them",
            ));
        }
        (_, Some(0)) | (Some(Size(0)), _) => {
            let key = if s.node("buffer").is_some() {
                "buffer"
            } else {
                "buffer_packets"
            };
            return Err(s.error(key, "found 0, want room for one packet or more"));
        }
        (Some(Size(bytes)), None) => Buffer::Bytes(bytes),
        (None, Some(packets)) => Buffer::Packets(packets),
        (None, None) => Buffer::Bytes(128_000),
    };
    let ecn_threshold = match s.get::<Size>("ecn_threshold")? {
        Some(Size(0)) => None,
        Some(Size(bytes)) => Some(bytes),
        None => Some(32_000),
    };
    Ok(LinkSettings {
        rate: rate(s, "rate", BitRate(1_000_000_000))?,
        rtt: s.or("rtt", rtt)?,
        buffer,
        ecn_threshold,
    })
}

fn losses(root: &Section<'_>, network: Option<&Network>) -> Result<Vec<Loss>> {
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

fn loss(s: Section<'_>, network: Option<&Network>) -> Result<Loss> {
    let kind = s.choice(
        "model",
        &[
            ("bernoulli", 0),
            ("gilbert", 1),
            ("black-hole", 2),
            ("numbered", 3),
        ],
    )?;
    let model = match kind.unwrap_or(0) {
        0 => LossModel::Bernoulli(s.need::<Share>("rate")?.0),
        1 => {
            let rate = s.need::<Share>("rate")?.0;
            let burst = s.or("burst", 3.0)?;
            // The good state must be left with a probability of at most 1.
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
        _ => LossModel::Numbered(s.list("packets")?.unwrap_or_default()),
    };
    let on: Vec<String> = s.list("on")?.unwrap_or_else(|| vec!["all".to_owned()]);
    let direction = s.choice(
        "direction",
        &[
            ("both", Direction::Both),
            ("forward", Direction::Forward),
            ("backward", Direction::Backward),
        ],
    )?;
    let direction = direction.unwrap_or(Direction::Both);
    if let Some(network) = network {
        for name in &on {
            links(network, name, direction).map_err(|e| s.error("on", e.to_string()))?;
        }
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

/// Refuses `name` if it is no host of the network.
fn host_known(s: &Section<'_>, key: &str, name: &str, network: Option<&Network>) -> Result<()> {
    let Some(network) = network.filter(|n| n.host_named(name).is_none()) else {
        return Ok(());
    };
    const SHOWN: u32 = 12;
    let all = network.hosts();
    let names: Vec<&str> = (0..all)
        .map(|h| network.node(network.host_node(HostId(h))).name.as_str())
        .collect();
    let near = super::error::suggestion(name, names.iter().copied());
    let more = if all > SHOWN { ", ..." } else { "" };
    let shown = names[..all.min(SHOWN) as usize].join(", ");
    let problem = format!("found \"{name}\", which is no host here; there are {shown}{more}{near}");
    Err(s.error(key, problem))
}

fn traffic(s: Section<'_>, network: Option<&Network>, context: &Context<'_>) -> Result<Traffic> {
    let kind = s.choice("kind", &[("requests", 0), ("incast", 1)])?;
    let traffic = match kind {
        None => return Err(s.error("kind", "missing, want one of requests, incast")),
        Some(0) => Traffic::Requests(requests(&s, network, context)?),
        Some(_) => Traffic::Incast(incast(&s, network)?),
    };
    s.finish()?;
    Ok(traffic)
}

fn hosts(s: &Section<'_>, key: &'static str, network: Option<&Network>) -> Result<Vec<String>> {
    let list: Vec<String> = s.list(key)?.unwrap_or_default();
    if list.is_empty() {
        return Err(s.error(key, "missing or empty, want a list of hosts"));
    }
    for name in &list {
        host_known(s, key, name, network)?;
    }
    Ok(list)
}

fn requests(s: &Section<'_>, network: Option<&Network>, context: &Context<'_>) -> Result<Requests> {
    let clients = hosts(s, "clients", network)?;
    let servers = hosts(s, "servers", network)?;
    if let Some(both) = clients.iter().find(|c| servers.contains(c)) {
        return Err(s.error(
            "servers",
            format!("{both} is a client as well, want other hosts"),
        ));
    }
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
        flows: count(s, "flows", 15_000)?,
    })
}

fn arrivals(s: &Section<'_>) -> Result<Arrivals> {
    let load = s.get::<BitRate>("load")?;
    let gap = s.get::<Duration>("gap")?;
    let sequential = s.choice("arrivals", &[("poisson", false), ("sequential", true)])?;
    match sequential.unwrap_or(gap.is_some() && load.is_none()) {
        true if load.is_some() => Err(s.error("load", "has no meaning with sequential arrivals")),
        true => Ok(Arrivals::Sequential(gap.unwrap_or(Duration::ZERO))),
        false if gap.is_some() => Err(s.error("gap", "has no meaning with poisson arrivals")),
        false => match load {
            Some(BitRate(0)) => Err(s.error("load", "found 0, want a rate above 0")),
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

/// `sizes`: a published name, `file:PATH`, a fixed size, or two sizes for a uniform one.
fn sizes(s: &Section<'_>, context: &Context<'_>) -> Result<SizeSampler> {
    let below = s.get::<Size>("below")?.map(|b| b.0);
    let Some(node) = s.node("sizes") else {
        return Err(s.error("sizes", format!("missing, want {SIZES}")));
    };
    let sizes = match &node.value {
        Value::Text(text) => match text.strip_prefix("file:") {
            Some(name) => cdf_file(s, name, context)?,
            None => match (Sizes::named(text), super::units::size(text)) {
                (Some(named), _) => named,
                (None, Some(bytes)) if bytes > 0 => Sizes::Fixed(bytes),
                _ => {
                    let near = super::error::suggestion(text, NAMED);
                    return Err(s.error("sizes", format!("found \"{text}\", want {SIZES}{near}")));
                }
            },
        },
        Value::List(_) => match s.list::<Size>("sizes")?.unwrap_or_default()[..] {
            [Size(a), Size(b)] if 0 < a && a <= b => Sizes::Uniform(a, b),
            _ => return Err(s.error("sizes", "want two sizes, the smaller first and above 0")),
        },
        Value::Table(_) if below.is_some() => {
            return Err(s.error("below", "has no meaning beside max, want only that"));
        }
        Value::Table(_) => Sizes::LogNormal(lognormal(&Section::new("traffic.sizes", node)?)?),
        _ => return Err(s.error("sizes", format!("found {}, want {SIZES}", node.kind()))),
    };
    SizeSampler::new(sizes, below).ok_or_else(|| {
        s.error(
            "below",
            "no size of the distribution is below this, want a larger one",
        )
    })
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

const SIZES: &str = "web-search, data-mining, \"file:PATH\", a size such as \"10KB\", \
                     two sizes [\"10KB\", \"100KB\"] for a uniform one, \
                     or { lognormal = \"48KiB\", sigma = 0.9, min = \"1KiB\", max = \"1MiB\" }";

fn cdf_file(s: &Section<'_>, name: &str, context: &Context<'_>) -> Result<Sizes> {
    let path = context.directory.join(Path::new(name));
    let text = std::fs::read_to_string(&path)
        .map_err(|e| s.error("sizes", format!("cannot read {}: {e}", path.display())))?;
    let cdf =
        Cdf::parse(&text).map_err(|e| s.error("sizes", format!("{}: {e}", path.display())))?;
    Ok(Sizes::Table(Arc::new(cdf)))
}

fn incast(s: &Section<'_>, network: Option<&Network>) -> Result<Incast> {
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

/// The controllers that a scenario may set, by name.
const CONGESTION: [(&str, CongestionKind); 3] = [
    ("reno", CongestionKind::Reno),
    ("cubic", CongestionKind::Cubic),
    ("lia", CongestionKind::Lia),
];

fn host(s: Section<'_>, context: &Context<'_>) -> Result<(HostSettings, String)> {
    let d = HostSettings::default();
    let mss: u32 = s.or("mss", d.mss)?;
    if !(64..=65_495).contains(&mss) {
        return Err(s.error("mss", format!("found {mss}, want 64 to 65495 bytes")));
    }
    let initial_window = match (
        s.get::<u32>("initial_window")?,
        s.get::<u32>("initial_window_per_subflow")?,
    ) {
        (Some(_), Some(_)) => {
            let problem = "given beside initial_window, want only one of them";
            return Err(s.error("initial_window_per_subflow", problem));
        }
        (Some(0), _) => return Err(s.error("initial_window", "found 0, want 1 or more segments")),
        (_, Some(0)) => {
            return Err(s.error(
                "initial_window_per_subflow",
                "found 0, want 1 or more segments",
            ));
        }
        (Some(n), None) => Window::Total(n),
        (None, Some(n)) => Window::PerSubflow(n),
        (None, None) => d.initial_window,
    };
    let balancer: String = s.or("balancer", "ecmp".to_owned())?;
    if balancer != "ecmp" && !context.balancers.contains(&balancer) {
        let node = s.node("balancer").expect("read above");
        let names = context.balancers.iter().map(String::as_str);
        return Err(s.unknown("balancer", node, std::iter::once("ecmp").chain(names)));
    }
    let host = HostSettings {
        mss,
        initial_window,
        min_rto: s.or("min_rto", d.min_rto)?,
        initial_rto: s.or("initial_rto", d.initial_rto)?,
        ecn: s.or("ecn", d.ecn)?,
        send_buffer: buffer(&s, "send_buffer", d.send_buffer, mss)?,
        receive_buffer: buffer(&s, "receive_buffer", d.receive_buffer, mss)?,
        delayed_ack: s.get("delayed_ack")?,
        timestamps: s.or("timestamps", d.timestamps)?,
        max_window: s.get("max_window")?,
        user_timeout: s.or("user_timeout", d.user_timeout)?,
        congestion: s.choice("congestion", &CONGESTION)?,
    };
    s.finish()?;
    Ok((host, balancer))
}

fn buffer(s: &Section<'_>, key: &'static str, default: u64, mss: u32) -> Result<u64> {
    let bytes = s.or(key, Size(default))?.0;
    if bytes < u64::from(mss) || bytes > 1 << 30 {
        return Err(s.error(
            key,
            format!("found {bytes} bytes, want one segment ({mss} B) to 1GiB"),
        ));
    }
    Ok(bytes)
}

/// A transport's name as a list of texts, kept with the nodes for messages.
pub(super) fn names(root: &Section<'_>, key: &'static str) -> Result<Vec<(String, Node)>> {
    let Some(node) = root.node(key) else {
        return Ok(Vec::new());
    };
    let items = match &node.value {
        Value::List(items) => items.clone(),
        _ => vec![node.clone()],
    };
    items
        .into_iter()
        .map(|n| match &n.value {
            Value::Text(s) => Ok((s.clone(), n)),
            _ => Err(root.error(key, format!("found {}, want a list of names", n.kind()))),
        })
        .collect()
}
