//! Reads the parts of a scenario from a file's tables.

use std::sync::Arc;

use spindle_fabric::Network;
use spindle_mptcp::congestion::ControllerFactory;

use super::Context;
use crate::bystanders::{BYSTANDERS, Bystanders};
use crate::document::{ExperimentError, Node, Section, Share, Size, Value};
use crate::link_properties;
use crate::link_traces::{self, TracePlace};
use crate::loss_models;
use crate::network::switches_among;
use crate::queues;
use crate::scenario::{Buffer, HostSettings, HostVariants, Hotspots, Scenario, Window};
use crate::topologies::{self, Dumbbell, LinkSettings, NamedTopology};
use crate::traffic::{self, TrafficPlace};

pub(super) type Result<T> = std::result::Result<T, ExperimentError>;

/// Reads the scenario of one point.
pub(super) fn scenario(root: &Section<'_>, context: &Context<'_>) -> Result<Scenario> {
    if let Some(section) = root.section("traffic")?.filter(|s| is_computed(s, context)) {
        return computed(root, section, context);
    }
    let topology = match root.section("topology")? {
        Some(section) => {
            topologies::read(section, context.registry.topologies(), context.directory)?
        }
        None => return Err(root.error("topology", "missing, want a table with a name")),
    };
    let network = topology
        .build()
        .map_err(|e| root.error("topology", e.to_string()))?;
    let links = link_properties::read(root, &network, context.registry.link_properties())?;
    let loss = loss_models::read(root, &network, context.registry.loss_models())?;
    let queues = queues::read(root, &network, context.registry.queues())?;
    let traces = context.registry.link_traces();
    let trace_place = TracePlace {
        directory: context.directory,
    };
    let link_traces = link_traces::read(root, &network, &trace_place, traces)?;
    let traffic = match root.section("traffic")? {
        Some(section) => {
            let place = place(&topology, &network, context);
            traffic::read(section, &place, context.registry.traffic_kinds())?
        }
        None => return Err(root.error("traffic", "missing, want a table with a kind")),
    };
    let (host, balancer) = match root.section("scenario")? {
        Some(section) => host(section, context)?,
        None => (HostSettings::default(), "ecmp".to_owned()),
    };
    Ok(Scenario {
        topology,
        links,
        loss,
        queues,
        link_traces,
        hotspots: match root.section("hotspots")? {
            Some(section) => Some(hotspots(section, &network)?),
            None => None,
        },
        bystanders: match root.section(BYSTANDERS)? {
            Some(section) => Some(Bystanders::read(section, context.known_transports())?),
            None => None,
        },
        traffic,
        host,
        balancer,
    })
}

/// What is known when traffic is read.
fn place<'a>(
    topology: &'a NamedTopology,
    network: &'a Network,
    context: &'a Context<'_>,
) -> TrafficPlace<'a> {
    TrafficPlace {
        topology,
        network,
        directory: context.directory,
        transports: context.known_transports(),
        workloads: context.registry.workloads(),
    }
}

/// Whether points with this `[traffic]` are computed and not run.
fn is_computed(traffic: &Section<'_>, context: &Context<'_>) -> bool {
    let Some(Value::Text(kind)) = traffic.node("kind").map(|n| &n.value) else {
        return false;
    };
    let entry = context.registry.traffic_kinds().find(kind);
    entry.is_some_and(|e| e.item.is_computed())
}

/// Reads the scenario of a computed point. Its network is a placeholder that no run uses.
fn computed(root: &Section<'_>, section: Section<'_>, context: &Context<'_>) -> Result<Scenario> {
    for key in super::SCENARIO.into_iter().filter(|key| *key != "traffic") {
        if root.node(key).is_some() {
            return Err(root.error(key, "has no meaning together with a formula, want none"));
        }
    }
    let links = LinkSettings::default();
    let topology = NamedTopology {
        name: "dumbbell".to_owned(),
        links,
        topology: Arc::new(Dumbbell {
            pairs: 1,
            core_rate: links.rate,
        }),
    };
    let network = topology
        .build()
        .map_err(|e| root.error("topology", e.to_string()))?;
    let place = place(&topology, &network, context);
    Ok(Scenario {
        traffic: traffic::read(section, &place, context.registry.traffic_kinds())?,
        topology,
        links: Vec::new(),
        loss: Vec::new(),
        queues: Vec::new(),
        link_traces: Vec::new(),
        hotspots: None,
        bystanders: None,
        host: HostSettings::default(),
        balancer: "ecmp".to_owned(),
    })
}

/// `[hotspots]`.
fn hotspots(s: Section<'_>, network: &Network) -> Result<Hotspots> {
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
    switches_among(network, &hotspots.among).map_err(|problem| s.error("among", problem))?;
    s.finish()?;
    Ok(hotspots)
}

/// The congestion controller that the scenario sets for every transport, if any.
fn congestion(
    s: &Section<'_>,
    context: &Context<'_>,
) -> Result<Option<Arc<dyn ControllerFactory>>> {
    let controllers = context.registry.congestion_controllers().iter();
    let choices: Vec<_> = controllers.map(|c| (c.name(), c.clone())).collect();
    s.choice("congestion", &choices)
}

/// The variants that the scenario applies to every transport.
fn variants(s: &Section<'_>, context: &Context<'_>) -> Result<HostVariants> {
    let known = context.registry.variants();
    let found = names(s, "variants")?.into_iter().map(|(name, node)| {
        let variant = known.iter().find(|v| v.name() == name).cloned();
        variant.ok_or_else(|| s.unknown("variants", &node, known.iter().map(|v| v.name())))
    });
    Ok(HostVariants(found.collect::<Result<_>>()?))
}

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
        remembered_paths: s.or("remembered_paths", d.remembered_paths)?,
        user_timeout: s.or("user_timeout", d.user_timeout)?,
        msl: s.or("msl", d.msl)?,
        congestion: congestion(&s, context)?,
        variants: variants(&s, context)?,
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
