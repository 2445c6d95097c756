//! Reads `[traffic]` of kind `formula`.

use std::sync::Arc;

use spindle_mptcp::stage::coding::formulas::{Blocking, Conditions, Units};
use spindle_units::{BitRate, Duration};

use super::read::Result;
use crate::document::{Section, Value};
use crate::formula::Formula;
use crate::scenario::{Buffer, HostSettings, LinkSettings, NamedTopology, Scenario, Traffic};
use crate::topologies::Dumbbell;

/// Largest window, unit and redundancy. A point must be computed within milliseconds.
const MOST_PACKETS: u32 = 4096;

/// Whether this `[traffic]` is a formula.
pub(super) fn is_formula(traffic: &Section<'_>) -> bool {
    let kind = traffic.node("kind").map(|n| &n.value);
    matches!(kind, Some(Value::Text(kind)) if kind == "formula")
}

/// Reads the scenario of a computed point. Its network is a placeholder that no run uses.
pub(super) fn scenario(root: &Section<'_>, traffic: Section<'_>) -> Result<Scenario> {
    for key in ["topology", "loss", "scenario", "hotspots"] {
        if root.node(key).is_some() {
            return Err(root.error(key, "has no meaning together with a formula, want none"));
        }
    }
    let formula = formula(traffic)?;
    let links = LinkSettings {
        rate: formula.conditions.rate,
        rtt: formula.conditions.rtt_short,
        buffer: Buffer::Packets(1),
        ecn_threshold: None,
        host_ecn_threshold: None,
        host_buffer: None,
        priorities: false,
    };
    Ok(Scenario {
        topology: NamedTopology {
            name: "dumbbell".to_owned(),
            links,
            topology: Arc::new(Dumbbell {
                pairs: 1,
                core_rate: links.rate,
            }),
        },
        loss: Vec::new(),
        hotspots: None,
        traffic: Traffic::Formula(formula),
        host: HostSettings::default(),
        balancer: "ecmp".to_owned(),
    })
}

fn formula(s: Section<'_>) -> Result<Formula> {
    // The caller has read the kind. There is only one formula so far.
    let _ = s.node("kind");
    if s.choice("formula", &[("caps", ())])?.is_none() {
        return Err(s.error("formula", "missing, want caps"));
    }
    let rate: BitRate = s.or("rate", BitRate(1_000_000_000))?;
    if rate.0 == 0 {
        let problem = "found 0, want a rate above 0 such as \"1Gbps\"";
        return Err(s.error("rate", problem));
    }
    // The constants of CAPS section VI-D, Fig 9.
    let conditions = Conditions {
        rate,
        packet: packets(&s, "mss", 65_535)?.unwrap_or(1500),
        rtt_short: s.or("rtt_short", Duration::from_micros(100))?,
        rtt_long: s.or("rtt_long", Duration::from_millis(3))?,
    };
    let redundancy: Option<u32> = s.get("redundancy")?;
    if let Some(r) = redundancy.filter(|r| *r > MOST_PACKETS) {
        return Err(s.error("redundancy", format!("found {r}, want 0 to {MOST_PACKETS}")));
    }
    let ratio: f64 = s.or("ratio", 9.0)?;
    if ratio < 0.0 {
        return Err(s.error("ratio", format!("found {ratio}, want 0 or more")));
    }
    let units = s.choice(
        "units",
        &[("fraction", Units::Fraction), ("whole", Units::Whole)],
    )?;
    let formula = Formula {
        blocking: blocking(&s)?,
        k: packets(&s, "k", MOST_PACKETS)?,
        redundancy,
        window: packets(&s, "window", MOST_PACKETS)?.unwrap_or(64),
        conditions,
        ratio,
        units: units.unwrap_or_default(),
    };
    s.finish()?;
    Ok(formula)
}

/// `blocking`, or `blocked` of `paths` paths.
fn blocking(s: &Section<'_>) -> Result<Blocking> {
    let (share, blocked, paths) = (
        s.get::<String>("blocking")?,
        s.get::<u32>("blocked")?,
        s.get::<u32>("paths")?,
    );
    match (share, blocked, paths) {
        (Some(text), None, None) => text
            .parse()
            .map_err(|e| s.error("blocking", format!("{e}"))),
        (None, Some(blocked), Some(paths)) => {
            Blocking::new(blocked, paths).map_err(|e| s.error("blocked", e.to_string()))
        }
        _ => {
            let problem = "want either it, such as \"20%\", or both blocked and paths";
            Err(s.error("blocking", problem))
        }
    }
}

fn packets(s: &Section<'_>, key: &'static str, most: u32) -> Result<Option<u32>> {
    match s.get::<u32>(key)? {
        Some(n) if n == 0 || n > most => Err(s.error(key, format!("found {n}, want 1 to {most}"))),
        found => Ok(found),
    }
}
