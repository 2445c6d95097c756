//! The data path's counters as metrics.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Refused;
use crate::{NetError, Network, NetworkCounters};

/// The state of a network at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    counters: NetworkCounters,
    subflows: u64,
}

type Metric = (&'static str, &'static str, u64);

impl Snapshot {
    pub(super) async fn take(network: &Network) -> Result<Self, NetError> {
        let connections = network.connections().await?;
        Ok(Self {
            counters: network.counters().await?,
            subflows: connections
                .iter()
                .map(|c| c.info.subflows.len() as u64)
                .sum(),
        })
    }

    /// What the stack and its listeners turned away.
    pub(super) fn refused(&self, why: Refused) -> u64 {
        let c = &self.counters;
        match why {
            Refused::Connections => c.stack.refused_connections + c.refused,
            Refused::Memory => c.stack.refused_memory,
            Refused::Unreachable | Refused::Tls | Refused::Socks => 0,
        }
    }

    fn gauges(&self) -> [Metric; 2] {
        [
            ("connections", "Connections open now", self.counters.live),
            ("subflows", "Subflows open now", self.subflows),
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

    fn stack(&self) -> [Metric; 11] {
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
            ("cookies_sent", "SYN cookies sent", s.cookies_sent),
            (
                "cookies_accepted",
                "Connections made from SYN cookies",
                s.cookies_accepted,
            ),
            (
                "joins_refused",
                "Joins refused for want of room",
                s.joins_refused,
            ),
            (
                "join_hmac_failures",
                "Joins with a wrong HMAC",
                s.join_hmac_failures,
            ),
            (
                "challenge_acks",
                "Challenge ACKs sent (RFC 5961)",
                s.challenge_acks,
            ),
            ("resets_sent", "Resets sent", s.resets_sent),
            (
                "checksum_failures",
                "DSS checksums that did not match",
                s.checksum_failures,
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

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        for (name, help, value) in self.gauges() {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        let counters = self.traffic().into_iter().chain(self.stack());
        for (name, help, value) in counters.chain(self.link()) {
            let counter = ConstCounter::new(value);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        Ok(())
    }
}
