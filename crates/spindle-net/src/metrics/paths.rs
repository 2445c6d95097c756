//! The traffic of each local address as metrics.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use spindle_mptcp::{PathCounters, PathTotals};

/// Name, description and value of a counter.
type Metric = (&'static str, &'static str, fn(&PathCounters) -> u64);

const METRICS: [Metric; 8] = [
    (
        "path_bytes_sent",
        "Payload bytes sent from the address, with retransmissions and copies",
        |c| c.send.bytes,
    ),
    (
        "path_bytes_received",
        "Payload bytes received at the address, including data that also arrived at another one",
        |c| c.bytes_received,
    ),
    (
        "path_bytes_reinjected",
        "Payload bytes sent again from the address that had been sent from another subflow",
        |c| c.send.bytes_reinjected,
    ),
    (
        "path_segments_sent",
        "Data segments sent from the address",
        |c| c.send.segments,
    ),
    (
        "path_losses",
        "Of these, segments that were considered lost",
        |c| c.send.losses,
    ),
    (
        "path_retransmissions",
        "Segments that loss recovery sent again on the same subflow",
        |c| c.send.retransmissions,
    ),
    (
        "path_recoveries",
        "Copies and parities of proactive recovery sent from the address",
        |c| c.send.recoveries,
    ),
    (
        "path_timeouts",
        "Retransmission timeouts of subflows from the address",
        |c| c.send.timeouts,
    ),
];

/// The totals of each local address at one moment.
#[derive(Debug)]
pub(super) struct Paths(pub(super) PathTotals);

impl Collector for Paths {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        if self.0.iter().next().is_none() {
            return Ok(());
        }
        for (name, help, value) in METRICS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (addr, counters) in self.0.iter() {
                let addr = addr.map_or_else(|| "other".to_owned(), |a| a.to_string());
                let counter = ConstCounter::new(value(counters));
                counter.encode(family.encode_family(&[("address", addr)])?)?;
            }
        }
        Ok(())
    }
}
