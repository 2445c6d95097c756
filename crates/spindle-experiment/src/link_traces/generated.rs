//! `lte-like` and `leo-like`: traces that are drawn from the link's random stream.

use std::sync::Arc;

use spindle_fabric::{LeoLike, LeoSettings, LteLike, LteSettings, Trace};
use spindle_units::Duration;

use super::{ReadLinkTrace, Result, TracePlace};
use crate::catalog::Catalog;
use crate::document::{Section, Share};

/// The time between handovers: a pause is shorter (mechanisms A8.4).
const HANDOVERS: Duration = Duration::from_secs(15);

fn lowest(s: &Section<'_>, default: f64, most: f64) -> Result<f64> {
    let Share(lowest) = s.or("lowest", Share(default))?;
    if lowest > 0.0 && lowest <= most {
        return Ok(lowest);
    }
    let problem = format!("found {lowest}, want a share above 0 and at most {most}");
    Err(s.error("lowest", problem))
}

fn read_lte(s: &Section<'_>, _: &TracePlace<'_>) -> Result<Trace> {
    let d = LteSettings::default();
    let settings = LteSettings {
        step: s.or("step", d.step)?,
        deviation: s.or("deviation", d.deviation)?,
        lowest: lowest(s, d.lowest, 0.99)?,
    };
    if settings.step.is_zero() {
        return Err(s.error("step", "found 0, want a time above 0 such as \"100ms\""));
    }
    if !(settings.deviation > 0.0 && settings.deviation <= 10.0) {
        let problem = format!("found {}, want above 0, at most 10", settings.deviation);
        return Err(s.error("deviation", problem));
    }
    Ok(Trace::new(LteLike(settings)))
}

fn read_leo(s: &Section<'_>, _: &TracePlace<'_>) -> Result<Trace> {
    let d = LeoSettings::default();
    let settings = LeoSettings {
        delay_spread: s.or("delay_spread", d.delay_spread)?,
        shortest_pause: s.or("shortest_pause", d.shortest_pause)?,
        longest_pause: s.or("longest_pause", d.longest_pause)?,
        lowest: lowest(s, d.lowest, 1.0)?,
    };
    let (shortest, longest) = (settings.shortest_pause, settings.longest_pause);
    if shortest.is_zero() || longest < shortest || longest >= HANDOVERS {
        let problem = format!(
            "found {shortest} to {longest}, want a shortest pause above 0, and a longest pause that is not shorter \
             and is below 15s"
        );
        return Err(s.error("longest_pause", problem));
    }
    Ok(Trace::new(LeoLike(settings)))
}

pub(super) fn register_lte(catalog: &mut Catalog<ReadLinkTrace>) {
    let summary = "the rate is a bounded random walk, as on a cellular link (mechanisms A8.4)";
    catalog.add("lte-like", summary, Arc::new(read_lte));
}

pub(super) fn register_leo(catalog: &mut Catalog<ReadLinkTrace>) {
    let summary = "a handover every 15 s, as over satellites in low orbits (mechanisms A8.4)";
    catalog.add("leo-like", summary, Arc::new(read_leo));
}
