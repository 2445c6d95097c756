//! Keys that several kinds of traffic read.

use std::path::Path;
use std::sync::Arc;

use spindle_fabric::{HostId, LinkId, Network};
use spindle_units::BitRate;

use super::{Observe, Result, TrafficPlace};
use crate::document::{Load, Section, Size, Value};
use crate::workload::{Cdf, LogNormal, SizeSampler, Sizes};

/// Refuses `name` if it is not a host of the network.
pub(super) fn host_known(s: &Section<'_>, key: &str, name: &str, network: &Network) -> Result<()> {
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

/// The hosts of the list `key`, each once.
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
    // A host may have several cables, and each cable has two links.
    let member = |l: &LinkId| network.cable(l.cable()).member.clone();
    let mut members: Vec<String> = links.iter().map(member).collect();
    members.dedup();
    Ok(members)
}

/// The load in bits per second, given as a share of `capacity` or as a rate.
///
/// # Errors
/// A value that is out of range, or a key without the other that it needs.
pub fn load(s: &Section<'_>) -> Result<Option<BitRate>> {
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

/// `observe`: what is recorded of each flow in addition to its time.
///
/// # Errors
/// A name that is none of [`Observe::NAMES`].
pub fn observe(s: &Section<'_>) -> Result<Observe> {
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

pub(super) fn count(s: &Section<'_>, key: &'static str, default: u64) -> Result<u64> {
    match s.or(key, default)? {
        0 => Err(s.error(key, "found 0, want 1 or more")),
        n => Ok(n),
    }
}

/// `sizes`, without the sizes that are not below `below`.
pub(super) fn sizes(s: &Section<'_>, place: &TrafficPlace<'_>) -> Result<SizeSampler> {
    let below = s.get::<Size>("below")?.map(|b| b.0);
    let sizes = sizes_of(s, "sizes", below.is_some(), place)?;
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
    place: &TrafficPlace<'_>,
) -> Result<Sizes> {
    let named = place.workloads;
    let want = || {
        let names: Vec<&str> = named.names().collect();
        format!("{}, {SIZES}", names.join(", "))
    };
    let Some(node) = s.node(key) else {
        return Err(s.error(key, format!("missing, want {}", want())));
    };
    Ok(match &node.value {
        Value::Text(text) => match text.strip_prefix("file:") {
            Some(name) => cdf_file(s, key, name, place)?,
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

fn cdf_file(s: &Section<'_>, key: &str, name: &str, place: &TrafficPlace<'_>) -> Result<Sizes> {
    let path = place.directory.join(Path::new(name));
    let text = std::fs::read_to_string(&path)
        .map_err(|e| s.error(key, format!("cannot read {}: {e}", path.display())))?;
    let cdf = Cdf::parse(&text).map_err(|e| s.error(key, format!("{}: {e}", path.display())))?;
    Ok(Sizes::Table(Arc::new(cdf)))
}

impl TrafficPlace<'_> {
    /// The hosts that the list `key` names. Each is a host's name, `all`, or a pattern such as `h0-h7`.
    ///
    /// # Errors
    /// If the list is missing or empty, or names a host twice or a host that does not exist.
    pub fn hosts(&self, s: &Section<'_>, key: &'static str) -> Result<Vec<String>> {
        hosts(s, key, self.network)
    }

    /// The distribution of the key `sizes`, without the sizes that are not below the key `below`.
    ///
    /// # Errors
    /// If the key is missing or names no distribution, or if no size is left.
    pub fn sizes(&self, s: &Section<'_>) -> Result<SizeSampler> {
        sizes(s, self)
    }

    /// The key `background`: a transport's name, or `same` for the transport under test, which is `None`.
    ///
    /// # Errors
    /// If there is no such transport.
    pub fn background(&self, s: &Section<'_>) -> Result<Option<String>> {
        let name = s.get::<String>("background")?.filter(|n| n != "same");
        match name.as_ref().filter(|n| !self.transports.has(n)) {
            None => Ok(name),
            Some(name) => {
                let problem = format!("found transport \"{name}\", want one there is, or same");
                Err(s.error("background", problem))
            }
        }
    }
}
