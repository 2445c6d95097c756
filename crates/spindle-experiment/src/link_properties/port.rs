//! `rate`, `delay`, `buffer` and `ecn_threshold`: links and ports that differ from those of the topology.

use std::sync::Arc;

use spindle_fabric::LinkSpec;
use spindle_units::{BitRate, Bytes, Duration};

use super::{LinkProperty, ReadLinkProperty, Result};
use crate::catalog::Catalog;
use crate::document::{Section, Size};
use crate::topologies::{self, Buffer};

/// The rate.
#[derive(Clone, Copy, Debug)]
struct Rate(BitRate);

impl LinkProperty for Rate {
    fn apply(&self, link: &mut LinkSpec) {
        link.rate = self.0;
    }
}

/// The delay in one direction.
#[derive(Clone, Copy, Debug)]
struct Delay(Duration);

impl LinkProperty for Delay {
    fn apply(&self, link: &mut LinkSpec) {
        link.delay = self.0;
    }
}

impl LinkProperty for Buffer {
    fn apply(&self, link: &mut LinkSpec) {
        link.buffer = self.port();
    }

    fn with_buffer(&self, change: &dyn Fn(Buffer) -> Buffer) -> Option<Arc<dyn LinkProperty>> {
        Some(Arc::new(change(*self)))
    }
}

/// The queue length from which packets are marked, in bytes. `None` disables marking.
#[derive(Clone, Copy, Debug)]
struct EcnThreshold(Option<u64>);

impl LinkProperty for EcnThreshold {
    fn apply(&self, link: &mut LinkSpec) {
        link.mark_above = self.0.map(Bytes);
    }
}

type Read = Result<Option<Arc<dyn LinkProperty>>>;

fn read_rate(s: &Section<'_>) -> Read {
    if s.node("rate").is_none() {
        return Ok(None);
    }
    let rate = topologies::rate(s, "rate", BitRate(0))?;
    Ok(Some(Arc::new(Rate(rate))))
}

fn read_delay(s: &Section<'_>) -> Read {
    let delay = s.get::<Duration>("delay")?;
    Ok(delay.map(|d| Arc::new(Delay(d)) as _))
}

fn read_buffer(s: &Section<'_>) -> Read {
    let buffer = topologies::buffer(s)?;
    Ok(buffer.map(|b| Arc::new(b) as _))
}

fn read_threshold(s: &Section<'_>) -> Read {
    let threshold = s.get::<Size>("ecn_threshold")?;
    let above_zero = |Size(bytes)| Some(bytes).filter(|b| *b > 0);
    Ok(threshold.map(|t| Arc::new(EcnThreshold(above_zero(t))) as _))
}

pub(super) fn register(catalog: &mut Catalog<ReadLinkProperty>) {
    catalog.add("rate", "the rate", Arc::new(read_rate));
    catalog.add("delay", "the delay in one direction", Arc::new(read_delay));
    let summary = "the capacity of the port, in bytes or with buffer_packets in packets";
    catalog.add("buffer", summary, Arc::new(read_buffer));
    let summary = "the queue from which packets are marked";
    catalog.add("ecn_threshold", summary, Arc::new(read_threshold));
}
