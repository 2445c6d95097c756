//! The data path's counters as metrics.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use spindle_units::{Duration, DurationHistogram};

use super::Refused;
use super::paths::Paths;
use crate::udp::UdpCounters;
use crate::{NetError, Network, NetworkCounters};

/// The state of a network at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    counters: NetworkCounters,
}

type Metric = (&'static str, &'static str, u64);

impl Snapshot {
    pub(super) async fn take(network: &Network) -> Result<Self, NetError> {
        Ok(Self {
            counters: network.counters().await?,
        })
    }

    /// Connections that the stack and its listeners refused for this reason.
    pub(super) fn refused(&self, why: Refused) -> u64 {
        let c = &self.counters;
        match why {
            Refused::Connections => c.stack.refused.limit + c.refused,
            Refused::Memory => c.stack.refused.memory,
            Refused::Source => c.stack.refused.source,
            Refused::Unreachable
            | Refused::Tls
            | Refused::Socks
            | Refused::Http
            | Refused::Authentication
            | Refused::Redirect
            | Refused::Rule
            | Refused::Network => 0,
        }
    }

    /// The traffic of each local address.
    pub(super) fn paths(&self) -> Paths {
        Paths(self.counters.stack.paths.clone())
    }

    fn gauges(&self) -> [Metric; 5] {
        [
            ("connections", "Connections open now", self.counters.live),
            (
                "connections_half_open",
                "Connections whose handshake is going on now",
                self.counters.half_open,
            ),
            ("subflows", "Subflows open now", self.counters.subflows),
            (
                "memory_bytes",
                "Memory in use, as --max-memory counts it",
                self.counters.memory,
            ),
            (
                "memory_limit_bytes",
                "Memory that may be in use (--max-memory)",
                self.counters.memory_limit,
            ),
        ]
    }

    fn traffic(&self) -> [Metric; 13] {
        let (c, s) = (&self.counters, &self.counters.sent);
        [
            (
                "connections_accepted",
                "Connections accepted from peers",
                c.accepted,
            ),
            (
                "connections_opened",
                "Connections opened to peers",
                c.connected,
            ),
            ("connections_closed", "Connections that ended", c.closed),
            (
                "bytes_sent",
                "Payload bytes sent, repeats and copies included",
                s.bytes,
            ),
            (
                "bytes_received",
                "Payload bytes received in order",
                c.bytes_received,
            ),
            ("segments_sent", "Data segments sent", s.segments),
            ("losses", "Segments taken for lost", s.losses),
            (
                "retransmissions",
                "Segments repeated by a subflow's own loss recovery",
                s.retransmissions,
            ),
            (
                "retransmissions_spurious",
                "Repeats that were needless (D-SACK)",
                s.spurious_retransmits,
            ),
            ("timeouts", "Retransmission timeouts", s.timeouts),
            (
                "recoveries",
                "Segments of proactive recovery sent",
                s.recoveries,
            ),
            (
                "recoveries_useful",
                "Those whose data were acknowledged before their first copy was",
                s.recoveries_useful,
            ),
            (
                "bytes_reinjected",
                "Payload bytes sent again on another subflow",
                s.bytes_reinjected,
            ),
        ]
    }

    fn stack(&self) -> [Metric; 14] {
        let s = &self.counters.stack;
        [
            (
                "multipath",
                "Connections established with MPTCP",
                s.multipath,
            ),
            (
                "fallbacks",
                "Connections that are plain TCP although MPTCP was configured",
                s.fallbacks,
            ),
            (
                "subflows_opened",
                "Further subflows opened",
                s.subflows_opened,
            ),
            (
                "subflows_accepted",
                "Further subflows accepted",
                s.subflows_accepted,
            ),
            ("cookies_sent", "SYN cookies sent", s.cookies.sent),
            (
                "cookies_accepted",
                "Connections made from SYN cookies",
                s.cookies.accepted,
            ),
            (
                "joins_refused",
                "Joins refused for want of room",
                s.joins.limit,
            ),
            (
                "join_hmac_failures",
                "Joins with a wrong HMAC",
                s.joins.hmac_failures,
            ),
            (
                "challenge_acks",
                "Challenge ACKs sent (RFC 5961)",
                s.challenge_acks,
            ),
            ("resets_sent", "Resets sent", s.resets_sent),
            (
                "evicted",
                "Connections ended because memory was short and they made no progress",
                s.evicted,
            ),
            ("bytes_evicted", "Bytes that they held", s.bytes_evicted),
            (
                "checksum_failures",
                "DSS checksums that did not match",
                s.checksum_failures,
            ),
            (
                "undelivered",
                "Segments sent again since the client had acknowledged them on a subflow only",
                s.undelivered,
            ),
        ]
    }

    /// What the stack refused or withheld from peers, and the amount of its work.
    fn withheld(&self) -> [Metric; 6] {
        let s = &self.counters.stack;
        [
            (
                "cookies_refused",
                "Acknowledgements refused because their SYN cookie was false or too old",
                s.cookies.refused,
            ),
            (
                "joins_unknown",
                "Joins refused because no connection has their token",
                s.joins.unknown,
            ),
            (
                "joins_prohibited",
                "Joins refused at an address where none are taken, or from a network that is not allowed",
                s.joins.prohibited,
            ),
            (
                "add_addr_refused",
                "Announced addresses that are not joined (--accept-announced)",
                s.add_addr_refused,
            ),
            (
                "resets_withheld",
                "Resets that did not leave because of their limit",
                s.resets_withheld,
            ),
            (
                "steps",
                "Iterations of loops over what peers make this host store",
                s.steps,
            ),
        ]
    }

    fn link(&self) -> [Metric; 6] {
        let l = &self.counters.link;
        [
            (
                "link_packets_received",
                "Packets received from the link",
                l.packets_in,
            ),
            ("link_bytes_received", "Their bytes", l.bytes_in),
            (
                "link_packets_sent",
                "Packets sent to the link",
                l.packets_out,
            ),
            ("link_bytes_sent", "Their bytes", l.bytes_out),
            (
                "link_dropped_received",
                "Received packets that were malformed or not for Spindle",
                l.dropped_in,
            ),
            (
                "link_dropped_sent",
                "Packets that the system did not take",
                l.dropped_out,
            ),
        ]
    }
}

/// Gauges of a link over UDP.
fn udp_gauges(u: &UdpCounters) -> [Metric; 2] {
    [
        (
            "udp_ids",
            "Encapsulation ids known now, one for each subflow",
            u.ids,
        ),
        (
            "udp_ids_unproven",
            "Those whose client has not proven its address",
            u.half_open,
        ),
    ]
}

/// Counters of a link over UDP.
fn udp_counters(u: &UdpCounters) -> [Metric; 4] {
    [
        (
            "udp_ids_evicted",
            "Ids without a proven address that made room for others",
            u.evicted,
        ),
        (
            "udp_ids_refused",
            "Subflows refused for want of room for their id, or of a socket",
            u.refused,
        ),
        (
            "udp_challenges",
            "Challenges sent to addresses that were not proven",
            u.challenges,
        ),
        (
            "udp_rebindings",
            "Outer addresses of clients that changed",
            u.rebindings,
        ),
    ]
}

impl Snapshot {
    /// Ended subflows by reason.
    fn encode_ends(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut family = encoder.encode_descriptor(
            "subflows_ended",
            "Subflows that ended, first ones and those that were never established among them",
            None,
            MetricType::Counter,
        )?;
        for (name, count) in self.counters.stack.subflow_ends.iter() {
            let labels = [("reason", name)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn encode_times(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Turns of the data path's loop, which serves all connections";
        encode_histogram(encoder, ("turn_time", help), &self.counters.turn_times)?;
        let help = "How long data were missing that were retransmitted, copied or reinjected, from their first \
                    transmission to their acknowledgement";
        let times = &self.counters.stack.repair_times;
        encode_histogram(encoder, ("repair_time", help), times)
    }
}

fn encode_histogram<const FIRST: u64, const FACTOR: u64, const BUCKETS: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    times: &DurationHistogram<FIRST, FACTOR, BUCKETS>,
) -> Result<(), Error> {
    let bound = |b: Option<Duration>| b.map_or(f64::MAX, |b| b.as_secs_f64());
    let buckets: Vec<_> = times.buckets().map(|(b, n)| (bound(b), n)).collect();
    let unit = Some(&Unit::Seconds);
    encoder
        .encode_descriptor(name, help, unit, MetricType::Histogram)?
        .encode_histogram::<NoLabelSet>(times.sum().as_secs_f64(), times.count(), &buckets, None)
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let udp = self.counters.udp;
        let gauges = self.gauges().into_iter();
        for (name, help, value) in gauges.chain(udp.iter().flat_map(udp_gauges)) {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        self.encode_times(&mut encoder)?;
        let counters = self.traffic().into_iter().chain(self.stack());
        let counters = counters.chain(self.withheld()).chain(self.link());
        for (name, help, value) in counters.chain(udp.iter().flat_map(udp_counters)) {
            let counter = ConstCounter::new(value);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        self.encode_ends(&mut encoder)
    }
}
