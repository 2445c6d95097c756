//! `codel` and `fq-codel`: queues that bound the time that packets wait.

use std::sync::Arc;

use spindle_fabric::{CoDelSettings, FqCoDelSettings, Queueing};

use super::{ReadQueue, Result};
use crate::catalog::Catalog;
use crate::document::Section;

/// The largest number of queues of FQ-CoDel (our choice).
const MOST_QUEUES: u32 = 65_536;

fn settings(s: &Section<'_>) -> Result<CoDelSettings> {
    let d = CoDelSettings::default();
    let settings = CoDelSettings {
        target: s.or("target", d.target)?,
        interval: s.or("interval", d.interval)?,
        mtu: s.or("mtu", d.mtu)?,
        ecn: s.or("ecn", d.ecn)?,
    };
    if settings.interval.is_zero() {
        return Err(s.error("interval", "found 0, want a time above 0 such as \"100ms\""));
    }
    Ok(settings)
}

fn read(s: &Section<'_>) -> Result<Queueing> {
    Ok(Queueing::codel(settings(s)?))
}

fn read_fq(s: &Section<'_>) -> Result<Queueing> {
    let d = FqCoDelSettings::default();
    let at_least_1 = |key: &'static str, default: u32, most: u32| {
        let n = s.or(key, default)?;
        match n {
            0 => Err(s.error(key, "found 0, want 1 or more")),
            n if n > most => Err(s.error(key, format!("found {n}, want 1 to {most}"))),
            n => Ok(n),
        }
    };
    Ok(Queueing::fq_codel(FqCoDelSettings {
        queues: at_least_1("queues", d.queues, MOST_QUEUES)?,
        quantum: at_least_1("quantum", d.quantum, u32::MAX)?,
        limit: at_least_1("limit", d.limit, u32::MAX)?,
        codel: settings(s)?,
    }))
}

pub(super) fn register(catalog: &mut Catalog<ReadQueue>) {
    let summary = "drops or marks at the head while packets wait too long (mechanisms A8.1)";
    catalog.add("codel", summary, Arc::new(read));
}

pub(super) fn register_fq(catalog: &mut Catalog<ReadQueue>) {
    let summary = "a queue for each flow, each with CoDel (mechanisms A8.2)";
    catalog.add("fq-codel", summary, Arc::new(read_fq));
}
