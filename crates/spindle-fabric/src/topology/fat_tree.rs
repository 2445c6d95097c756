//! [`FatTree`]: pods of edge and aggregation switches under core switches.

use spindle_units::{BitRate, Bytes, Duration};

use super::{MOST, Ports, count};
use crate::{Buffer, Builder, Network, NetworkError, NodeId};

/// A fat-tree of k-port switches (Al-Fares et al. 2008): k pods of k/2 edge and k/2 aggregation switches, and
/// (k/2)^2 core switches. More than k/2 hosts per edge switch oversubscribe the network.
#[derive(Clone, Debug, PartialEq)]
pub struct FatTree {
    /// The number of ports of a switch and of pods; even, 2 to 64.
    pub k: u32,
    /// The number of hosts under each edge switch; k/2 for a network without oversubscription. With `e` of
    /// them, host `h` is in pod `h / (e k/2)`, under edge switch `(h mod (e k/2)) / e`.
    pub hosts_per_edge: u32,
    /// Rate of the hosts' links.
    pub host_rate: BitRate,
    /// Rate of the links between switches.
    pub fabric_rate: BitRate,
    /// Delay of each link.
    pub delay: Duration,
    /// Buffer of a switch port.
    pub switch_buffer: Buffer,
    /// ECN threshold of a switch port.
    pub mark_above: Option<Bytes>,
    /// Buffer of a host's port.
    pub host_buffer: Buffer,
    /// ECN threshold of a host's port (default: no marking).
    pub host_mark_above: Option<Bytes>,
    /// Two strict priorities at every port (mechanisms A5.13).
    pub priorities: bool,
}

impl Default for FatTree {
    /// [`reference`](Self::reference) with k = 4.
    fn default() -> Self {
        Self::reference(4)
    }
}

impl FatTree {
    /// The network of the reference flow files: 10 Gbps and 1 us on all links, 100 packets at switch ports and
    /// 1000 at hosts, no oversubscription.
    pub fn reference(k: u32) -> Self {
        Self {
            k,
            hosts_per_edge: k / 2,
            host_rate: BitRate(10_000_000_000),
            fabric_rate: BitRate(10_000_000_000),
            delay: Duration::from_micros(1),
            switch_buffer: Buffer::Packets(100),
            mark_above: None,
            host_buffer: Buffer::Packets(1000),
            host_mark_above: None,
            priorities: false,
        }
    }

    /// The large-scale simulation of the FUSO paper (Chen et al. 2016, section 5.3): 4 pods, 4 spines,
    /// 8 servers per ToR at 10 Gbps, 40 Gbps between switches, 1 MB per port, ECN at 300 KB, and a
    /// round trip of 240 us over 12 links.
    pub fn fuso() -> Self {
        Self {
            hosts_per_edge: 8,
            fabric_rate: BitRate(40_000_000_000),
            delay: Duration::from_micros(20),
            switch_buffer: Buffer::Bytes(Bytes(1_000_000)),
            mark_above: Some(Bytes(300_000)),
            ..Self::reference(4)
        }
    }

    /// The network of the MMPTCP thesis (chapter 3): k = 8, 100 Mbps, 20 us per link, queues of 100
    /// packets, oversubscribed `oversubscription` to 1 at the edge switches (1, 2 or 4 there).
    pub fn mmptcp(oversubscription: u32) -> Self {
        Self {
            hosts_per_edge: oversubscription.saturating_mul(4),
            host_rate: BitRate(100_000_000),
            fabric_rate: BitRate(100_000_000),
            delay: Duration::from_micros(20),
            ..Self::reference(8)
        }
    }

    /// Builds the network. Explicit path `p`, below `(k/2)^2`, uses aggregation switch `p / (k/2)` and its
    /// uplink `p mod (k/2)`, which lead to core switch `p`. Within a pod only the aggregation switch depends on
    /// `p`. Under one edge switch `p` has no effect.
    ///
    /// # Errors
    /// [`NetworkError::Parameter`] if k is odd, zero or too large, there are no hosts, a rate is zero or a
    /// buffer is empty.
    pub fn build(&self) -> Result<Network, NetworkError> {
        self.check()?;
        let half = self.k / 2;
        let ports = self.ports();
        let mut builder = Builder::new(format!("fat-tree-{}", self.k));
        let core: Vec<NodeId> = (0..half * half)
            .map(|c| builder.switch(format!("core{c}"), 3))
            .collect();
        for pod in 0..self.k {
            let edges = layer(&mut builder, pod, half, ("edge", 1));
            let aggs = layer(&mut builder, pod, half, ("agg", 2));
            for (e, &edge) in edges.iter().enumerate() {
                // The edge switch uses p / (k/2), the aggregation switch p mod (k/2).
                builder.path_divisor(edge, half);
                let first = (pod * half + e as u32) * self.hosts_per_edge;
                for host in first..first + self.hosts_per_edge {
                    let name = format!("h{host}");
                    let node = builder.host(name.as_str());
                    ports.access(&mut builder, (node, edge), &name, self.host_rate);
                }
                for (a, &agg) in aggs.iter().enumerate() {
                    let name = (format!("pod{pod}.edge{e}-agg{a}"), "edge-agg");
                    ports.trunk(&mut builder, (edge, agg), name, self.fabric_rate);
                }
            }
            for (a, &agg) in aggs.iter().enumerate() {
                for c in a as u32 * half..(a as u32 + 1) * half {
                    let name = (format!("pod{pod}.agg{a}-core{c}"), "agg-core");
                    let ends = (agg, core[c as usize]);
                    ports.trunk(&mut builder, ends, name, self.fabric_rate);
                }
            }
        }
        builder.build()
    }

    fn check(&self) -> Result<(), NetworkError> {
        let what = "the fat-tree";
        if self.k < 2 || !self.k.is_multiple_of(2) || self.k > 64 {
            let remedy = "k is an even number from 2 to 64, such as 4, 8 or 16";
            return Err(NetworkError::parameter(what, "k", self.k, remedy));
        }
        if self.hosts_per_edge > MOST {
            return count(what, "hosts per edge", self.hosts_per_edge.into());
        }
        let edges = u64::from(self.k * self.k / 2);
        count(what, "hosts", edges * u64::from(self.hosts_per_edge))
    }

    fn ports(&self) -> Ports {
        Ports {
            delay: self.delay,
            host_buffer: self.host_buffer,
            switch_buffer: self.switch_buffer,
            mark_above: self.mark_above,
            host_mark_above: self.host_mark_above,
            priorities: self.priorities,
        }
    }
}

/// The switches of one layer in one pod.
fn layer(builder: &mut Builder, pod: u32, half: u32, (layer, tier): (&str, u8)) -> Vec<NodeId> {
    (0..half)
        .map(|s| builder.switch(format!("pod{pod}.{layer}{s}"), tier))
        .collect()
}
