//! [`LeafSpine`]: every leaf switch is joined to every spine switch.

use spindle_units::{BitRate, Bytes, Duration};

use super::{Ports, count};
use crate::{Buffer, Builder, Network, NetworkError};

/// Two layers: one cable joins every leaf switch to every spine switch, and hosts are connected to leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafSpine {
    /// The number of leaf switches (default 2).
    pub leaves: u32,
    /// The number of spine switches, which is the number of paths between two leaves (default 40).
    pub spines: u32,
    /// The number of hosts under each leaf (default 104). Host `h` is under leaf `h / hosts_per_leaf`.
    pub hosts_per_leaf: u32,
    /// Rate of the hosts' links (default 1 Gbps).
    pub host_rate: BitRate,
    /// Rate of the links between leaves and spines (default 1 Gbps).
    pub fabric_rate: BitRate,
    /// Delay of each link (default 12.5 us, which makes a round trip of 100 us over 8 links).
    pub delay: Duration,
    /// Buffer of a switch port (default 256 packets).
    pub switch_buffer: Buffer,
    /// ECN threshold of a switch port (default: no marking).
    pub mark_above: Option<Bytes>,
    /// Buffer of a host's port (default 1000 packets).
    pub host_buffer: Buffer,
    /// Two strict priorities at every port (mechanisms A5.13; default: no).
    pub priorities: bool,
}

impl Default for LeafSpine {
    /// The simulations of the CAPS paper (Hu et al., section III): 40 paths between two leaves,
    /// 1 Gbps, 100 us, 256 packets, and a host for each of the 100 short and 4 long flows.
    fn default() -> Self {
        Self {
            leaves: 2,
            spines: 40,
            hosts_per_leaf: 104,
            host_rate: BitRate(1_000_000_000),
            fabric_rate: BitRate(1_000_000_000),
            delay: Duration::from_nanos(12_500),
            switch_buffer: Buffer::Packets(256),
            mark_above: None,
            host_buffer: Buffer::Packets(1000),
            priorities: false,
        }
    }
}

impl LeafSpine {
    /// Builds the network. Explicit path `p` uses spine `p`.
    ///
    /// # Errors
    /// [`NetworkError::Parameter`] if there are no leaves, spines or hosts, a rate is zero or a buffer is
    /// empty.
    pub fn build(&self) -> Result<Network, NetworkError> {
        let what = "the leaf-spine network";
        let product = |a: u32, b: u32| u64::from(a) * u64::from(b);
        count(what, "leaves", self.leaves.into())?;
        count(what, "hosts", product(self.leaves, self.hosts_per_leaf))?;
        count(what, "spines", product(self.leaves, self.spines))?;
        let ports = Ports {
            delay: self.delay,
            host_buffer: self.host_buffer,
            switch_buffer: self.switch_buffer,
            mark_above: self.mark_above,
            host_mark_above: None,
            priorities: self.priorities,
        };
        let mut builder = Builder::new("leaf-spine");
        let mut leaves = Vec::new();
        for leaf in 0..self.leaves {
            leaves.push(builder.switch(format!("leaf{leaf}"), 1));
        }
        let mut spines = Vec::new();
        for spine in 0..self.spines {
            spines.push(builder.switch(format!("spine{spine}"), 2));
        }
        for host in 0..self.leaves * self.hosts_per_leaf {
            let name = format!("h{host}");
            let node = builder.host(name.as_str());
            let leaf = leaves[(host / self.hosts_per_leaf) as usize];
            ports.access(&mut builder, (node, leaf), &name, self.host_rate);
        }
        for (l, &leaf) in leaves.iter().enumerate() {
            for (s, &spine) in spines.iter().enumerate() {
                let name = (format!("leaf{l}-spine{s}"), "leaf-spine");
                ports.trunk(&mut builder, (leaf, spine), name, self.fabric_rate);
            }
        }
        builder.build()
    }
}
