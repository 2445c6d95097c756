//! [`Dumbbell`]: two switches and a bottleneck between them.

use spindle_units::{BitRate, Bytes, Duration};

use super::{Ports, count};
use crate::{Buffer, Builder, Network, NetworkError};

/// Senders S1 to Sn on one switch, receivers R1 to Rn on another, and one cable between the switches.
#[derive(Clone, Debug, PartialEq)]
pub struct Dumbbell {
    /// The number n of senders and of receivers (default 2). Sender `i` is host `i`, and receiver `i` is host
    /// `n + i`.
    pub pairs: u32,
    /// Rate of the hosts' links (default 1 Gbps).
    pub access_rate: BitRate,
    /// Rate of the cable between the switches (default 100 Mbps).
    pub bottleneck_rate: BitRate,
    /// Delay of each host's link (default 10 us).
    pub access_delay: Duration,
    /// Delay of the cable between the switches (default 1 ms).
    pub bottleneck_delay: Duration,
    /// Buffer of a switch port (default 100 packets).
    pub switch_buffer: Buffer,
    /// ECN threshold of a switch port (default: no marking).
    pub mark_above: Option<Bytes>,
    /// Buffer of a host's port (default 1000 packets).
    pub host_buffer: Buffer,
    /// Two strict priorities at every port (mechanisms A5.13; default: no).
    pub priorities: bool,
}

impl Default for Dumbbell {
    fn default() -> Self {
        Self {
            pairs: 2,
            access_rate: BitRate(1_000_000_000),
            bottleneck_rate: BitRate(100_000_000),
            access_delay: Duration::from_micros(10),
            bottleneck_delay: Duration::from_millis(1),
            switch_buffer: Buffer::Packets(100),
            mark_above: None,
            host_buffer: Buffer::Packets(1000),
            priorities: false,
        }
    }
}

impl Dumbbell {
    /// Builds the network.
    ///
    /// # Errors
    /// [`NetworkError::Parameter`] if there are no pairs, a rate is zero or a buffer is empty.
    pub fn build(&self) -> Result<Network, NetworkError> {
        count("the dumbbell", "pairs", self.pairs.into())?;
        let access = Ports {
            delay: self.access_delay,
            host_buffer: self.host_buffer,
            switch_buffer: self.switch_buffer,
            mark_above: self.mark_above,
            host_mark_above: None,
            priorities: self.priorities,
        };
        let middle = Ports {
            delay: self.bottleneck_delay,
            ..access.clone()
        };
        let mut builder = Builder::new("dumbbell");
        let left = builder.switch("left", 1);
        let right = builder.switch("right", 1);
        for (side, switch) in [("S", left), ("R", right)] {
            for number in 1..=self.pairs {
                let name = format!("{side}{number}");
                let host = builder.host(name.as_str());
                access.access(&mut builder, (host, switch), &name, self.access_rate);
            }
        }
        let name = ("bottleneck".to_owned(), "bottleneck");
        middle.trunk(&mut builder, (left, right), name, self.bottleneck_rate);
        builder.build()
    }
}
