//! `formula`: no traffic, since the point is computed and not run (docs/reference/experiment-file.md,
//! "`kind = \"formula\"`").

use std::sync::Arc;

use spindle_mptcp::stage::coding::formulas::{Blocking, Conditions, Units};
use spindle_units::{BitRate, Duration};

use super::{OnlyInLab, Plan, PlanError, PlanRequest, Result, Traffic, TrafficKind, TrafficPlace};
use crate::catalog::Catalog;
use crate::document::Section;
use crate::formula::Formula;

/// Largest window, unit and redundancy. A point must be computed within milliseconds.
const MOST_PACKETS: u32 = 4096;

impl Traffic for Formula {
    fn plan(&self, _: &PlanRequest<'_>) -> std::result::Result<Plan, PlanError> {
        Ok(Plan::default())
    }

    fn observes(&self, what: &str) -> bool {
        what == crate::observed::COMPUTED
    }

    fn formula(&self) -> Option<&Formula> {
        Some(self)
    }

    fn only_in_lab(&self) -> Option<OnlyInLab> {
        let remedy = "want requests, incast or mix";
        Some(OnlyInLab::new("traffic", "formula", remedy))
    }
}

struct Kind;

impl TrafficKind for Kind {
    fn is_computed(&self) -> bool {
        true
    }

    fn read(&self, s: &Section<'_>, _: &TrafficPlace<'_>) -> Result<Arc<dyn Traffic>> {
        Ok(Arc::new(formula(s)?))
    }
}

pub(super) fn register(catalog: &mut Catalog<dyn TrafficKind>) {
    let summary = "no traffic: the point is computed by a paper's formula, not run";
    catalog.add("formula", summary, Arc::new(Kind));
}

fn formula(s: &Section<'_>) -> Result<Formula> {
    // There is only one formula so far.
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
        packet: packets(s, "mss", 65_535)?.unwrap_or(1500),
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
    Ok(Formula {
        blocking: blocking(s)?,
        k: packets(s, "k", MOST_PACKETS)?,
        redundancy,
        window: packets(s, "window", MOST_PACKETS)?.unwrap_or(64),
        conditions,
        ratio,
        units: units.unwrap_or_default(),
    })
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
