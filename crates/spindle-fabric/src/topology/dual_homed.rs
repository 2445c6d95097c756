//! [`DualHomed`]: a client with several links.

use spindle_units::{BitRate, Bytes, Duration};

use super::{Ports, count};
use crate::{Buffer, Builder, Network, NetworkError};

/// A client with several links to a router, and a server with one link. Examples are WiFi and cellular, or a
/// site with two providers. The client's interfaces have addresses 0 to below the number of its links, and the
/// server has the address after them. The client is host 0 and the server host 1.
#[derive(Clone, Debug, PartialEq)]
pub struct DualHomed {
    /// The rate and delay of each of the client's links, P1 and so on.
    pub client_links: Vec<(BitRate, Duration)>,
    /// Rate of the server's link.
    pub server_rate: BitRate,
    /// Delay of the server's link.
    pub server_delay: Duration,
    /// Buffer of the router's ports.
    pub router_buffer: Buffer,
    /// ECN threshold of the router's ports.
    pub mark_above: Option<Bytes>,
    /// Buffer of the hosts' ports.
    pub host_buffer: Buffer,
}

impl Default for DualHomed {
    /// The testbed of the CoFUSO paper (section 6.1): two client links and one server link of 1 Gbps, a round
    /// trip of 50 ms split evenly over 4 links, queues of 5400 KB at the router, 1000 packets at hosts, no ECN.
    fn default() -> Self {
        let rate = BitRate(1_000_000_000);
        let delay = Duration::from_micros(12_500);
        Self {
            client_links: vec![(rate, delay); 2],
            server_rate: rate,
            server_delay: delay,
            router_buffer: Buffer::Bytes(Bytes(5_400_000)),
            mark_above: None,
            host_buffer: Buffer::Packets(1000),
        }
    }
}

impl DualHomed {
    /// Builds the network. The sender chooses the path with the client's address: there is one path between any
    /// two addresses.
    ///
    /// # Errors
    /// [`NetworkError::Parameter`] if there are no client links, a rate is zero or a buffer is empty.
    pub fn build(&self) -> Result<Network, NetworkError> {
        let links = self.client_links.len() as u64;
        count("the dual-homed network", "client links", links)?;
        let ports = |delay| Ports {
            delay,
            host_buffer: self.host_buffer,
            switch_buffer: self.router_buffer,
            mark_above: self.mark_above,
            host_mark_above: None,
            priorities: false,
        };
        let mut builder = Builder::new("dual-homed");
        let router = builder.switch("router", 1);
        let client = builder.host("client");
        let server = builder.host("server");
        for (number, &(rate, delay)) in self.client_links.iter().enumerate() {
            let (name, ports) = (format!("P{}", number + 1), ports(delay));
            let (up, down) = (ports.host(rate), ports.switch(rate));
            builder.cable(name, "paths", (client, router), up, down);
        }
        let access = ports(self.server_delay);
        access.access(&mut builder, (server, router), "server", self.server_rate);
        builder.build()
    }
}
