//! Reads the parts of a scenario from a file's tables.

use spindle_fabric::Network;
use spindle_mptcp::congestion::CongestionKind;
use spindle_units::{BitRate, Duration};

use super::error::ExperimentError;
use super::node::{Node, Value};
use super::read_loss::losses;
use super::read_traffic::traffic;
use super::section::{Section, Share, Size};
use super::{Context, read_formula};
use crate::hosts::MAX_INTERFACES;
use crate::network::{build_standard, switches_among};
use crate::scenario::{Buffer, HostSettings, Hotspots, LinkSettings, Scenario, Topology, Window};

pub(super) type Result<T> = std::result::Result<T, ExperimentError>;

/// Largest number of hosts in a simulation. This many fit the 10.x.y.z addresses of hosts, and it is far more
/// than is worth simulating.
const MAX_HOSTS: u64 = 65_536;

/// Reads the scenario of one point.
pub(super) fn scenario(root: &Section<'_>, context: &Context<'_>) -> Result<Scenario> {
    if let Some(section) = root.section("traffic")?.filter(read_formula::is_formula) {
        return read_formula::scenario(root, section);
    }
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
        Some(section) => traffic(section, (&topology, network), context)?,
        None => return Err(root.error("traffic", "missing, want a table with a kind")),
    };
    let (host, balancer) = match root.section("scenario")? {
        Some(section) => host(section, context)?,
        None => (HostSettings::default(), "ecmp".to_owned()),
    };
    Ok(Scenario {
        topology,
        loss,
        hotspots: match root.section("hotspots")? {
            Some(section) => Some(hotspots(section, network)?),
            None => None,
        },
        traffic,
        host,
        balancer,
    })
}

/// `[hotspots]`. The hotspots of a custom topology are checked when the network is built.
fn hotspots(s: Section<'_>, network: Option<&Network>) -> Result<Hotspots> {
    let packets: u32 = s.need("buffer_packets")?;
    if packets == 0 {
        return Err(s.error(
            "buffer_packets",
            "found 0, want room for one packet or more",
        ));
    }
    let hotspots = Hotspots {
        among: s.or("among", "core".to_owned())?,
        share: s.need::<Share>("share")?.0,
        buffer: Buffer::Packets(packets),
    };
    if let Some(network) = network {
        switches_among(network, &hotspots.among).map_err(|problem| s.error("among", problem))?;
    }
    s.finish()?;
    Ok(hotspots)
}

fn topology(s: Section<'_>, context: &Context<'_>) -> Result<Topology> {
    let mut names = vec![
        "fuso-testbed",
        "fuso-sim",
        "cofuso-sim",
        "dumbbell",
        "fat-tree",
        "leaf-spine",
        "dual-homed",
    ];
    names.extend(context.topologies.iter().map(String::as_str));
    let name: String = s.need("name")?;
    if !names.contains(&name.as_str()) {
        let node = s.node("name").expect("read above");
        return Err(s.unknown("name", node, names.iter().copied()));
    }
    let links = link_settings(&s, &name)?;
    let topology = match name.as_str() {
        "fuso-testbed" => Topology::FusoTestbed(links),
        "cofuso-sim" => Topology::CoFusoSim(links),
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
        "fat-tree" => fat_tree(&s, links)?,
        "leaf-spine" => leaf_spine(&s, links)?,
        "fuso-sim" => Topology::FatTree {
            name: "fuso-sim",
            k: 4,
            hosts_per_edge: 8,
            fabric_rate: rate(&s, "fabric_rate", BitRate(40_000_000_000))?,
            links,
        },
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

fn fat_tree(s: &Section<'_>, links: LinkSettings) -> Result<Topology> {
    let k: u32 = s.or("k", 4)?;
    if k == 0 || k % 2 == 1 || k > 64 {
        let problem = format!("found {k}, want an even number of ports from 2 to 64");
        return Err(s.error("k", problem));
    }
    let hosts_per_edge: u32 = s.or("hosts_per_edge", k / 2)?;
    let most = MAX_HOSTS / u64::from(k * k / 2);
    if hosts_per_edge == 0 || u64::from(hosts_per_edge) > most {
        let problem = format!("found {hosts_per_edge}, want 1 to {most} with k = {k}");
        return Err(s.error("hosts_per_edge", problem));
    }
    Ok(Topology::FatTree {
        name: "fat-tree",
        k,
        hosts_per_edge,
        fabric_rate: rate(s, "fabric_rate", links.rate)?,
        links,
    })
}

fn leaf_spine(s: &Section<'_>, links: LinkSettings) -> Result<Topology> {
    // Mechanisms T5: 40 paths, and a host for each of 100 short and 4 long flows.
    let counts = [("leaves", 2), ("spines", 40), ("hosts_per_leaf", 104)];
    let mut found = [0; 3];
    for (n, (key, default)) in found.iter_mut().zip(counts) {
        *n = s.or(key, default)?;
        if *n == 0 || u64::from(*n) > MAX_HOSTS {
            return Err(s.error(key, format!("found {n}, want 1 to {MAX_HOSTS}")));
        }
    }
    let [leaves, spines, hosts_per_leaf] = found;
    for (key, n) in [("hosts_per_leaf", hosts_per_leaf), ("spines", spines)] {
        if u64::from(leaves) * u64::from(n) > MAX_HOSTS {
            let most = MAX_HOSTS / u64::from(leaves);
            let problem = format!("found {n}, want 1 to {most} with {leaves} leaves");
            return Err(s.error(key, problem));
        }
    }
    Ok(Topology::LeafSpine {
        leaves,
        spines,
        hosts_per_leaf,
        fabric_rate: rate(s, "fabric_rate", links.rate)?,
        links,
    })
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
    // Mechanisms T1, T2, T4 and T5. The base RTTs of the other topologies are our choice for T1's hardware.
    let (rtt, megabits, room, mark) = match name {
        "fuso-testbed" => (280, 1000, Buffer::Bytes(128_000), Some(32_000)),
        "fuso-sim" => (240, 10_000, Buffer::Bytes(1_000_000), Some(300_000)),
        "cofuso-sim" => (48_000, 300, Buffer::Bytes(5_400_000), None),
        "leaf-spine" => (100, 1000, Buffer::Packets(256), None),
        _ => (100, 1000, Buffer::Bytes(128_000), Some(32_000)),
    };
    let buffer = match (s.get::<Size>("buffer")?, s.get::<u32>("buffer_packets")?) {
        (Some(_), Some(_)) => {
            return Err(s.error(
                "buffer_packets",
                "given together with buffer, want only one of them",
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
        (None, None) => room,
    };
    let ecn_threshold = match s.get::<Size>("ecn_threshold")? {
        Some(Size(0)) => None,
        Some(Size(bytes)) => Some(bytes),
        None => mark,
    };
    let host_ecn_threshold = s.get::<Size>("host_ecn_threshold")?;
    let without = ["cofuso-sim", "dumbbell", "leaf-spine", "dual-homed"];
    if host_ecn_threshold.is_some() && without.contains(&name) {
        let problem = "has no meaning here, want it in fuso-testbed, fuso-sim or fat-tree";
        return Err(s.error("host_ecn_threshold", problem));
    }
    let priorities = s.or("priorities", false)?;
    if priorities && name == "dual-homed" {
        let problem = "has no meaning here, want any other topology";
        return Err(s.error("priorities", problem));
    }
    let host_buffer = s.get::<u32>("host_buffer_packets")?;
    if host_buffer == Some(0) {
        let problem = "found 0, want room for one packet or more";
        return Err(s.error("host_buffer_packets", problem));
    }
    Ok(LinkSettings {
        host_buffer: host_buffer.map(Buffer::Packets),
        rate: rate(s, "rate", BitRate(megabits * 1_000_000))?,
        rtt: s.or("rtt", Duration::from_micros(rtt))?,
        buffer,
        ecn_threshold,
        host_ecn_threshold: host_ecn_threshold.map(|t| t.0).filter(|t| *t > 0),
        priorities,
    })
}

/// Names of the congestion controllers that a scenario may set.
const CONGESTION: [(&str, CongestionKind); 7] = [
    ("reno", CongestionKind::Reno),
    ("cubic", CongestionKind::Cubic),
    ("dctcp", CongestionKind::Dctcp),
    ("lia", CongestionKind::Lia),
    ("olia", CongestionKind::Olia),
    ("balia", CongestionKind::Balia),
    ("fully-coupled", CongestionKind::FullyCoupled),
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
            let problem = "given together with initial_window, want only one of them";
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
        output_limit: output_limit(&s, mss)?,
        delayed_ack: s.get("delayed_ack")?,
        timestamps: s.or("timestamps", d.timestamps)?,
        max_window: s.get("max_window")?,
        initial_ssthresh: s.get::<Size>("initial_ssthresh")?.map(|b| b.0),
        join_spacing: s.get("join_spacing")?,
        user_timeout: s.or("user_timeout", d.user_timeout)?,
        msl: s.or("msl", d.msl)?,
        congestion: s.choice("congestion", &CONGESTION)?,
        short_below: s.get::<Size>("short_below")?.map(|b| b.0),
    };
    s.finish()?;
    Ok((host, balancer))
}

/// The limit on the data that a subflow may have queued in its host's port.
fn output_limit(s: &Section<'_>, mss: u32) -> Result<Option<u64>> {
    let limit = s.get::<Size>("output_limit")?.map(|l| l.0);
    match limit {
        Some(n) if n < u64::from(mss) => {
            let problem = format!("found {n} bytes, want one segment ({mss} B) or more");
            Err(s.error("output_limit", problem))
        }
        other => Ok(other),
    }
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

/// The entry `key` as a list of names. Each name is returned with its node, for error messages.
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
