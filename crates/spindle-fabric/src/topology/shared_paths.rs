//! [`SharedPaths`]: clients with several links that share bottlenecks.

use spindle_units::{BitRate, Bytes, Duration};

use super::{Ports, count};
use crate::{Buffer, Builder, Network, NetworkError};

/// Clients that each have a link to the edge of every path, and a server with one link. A path is one cable
/// between its edge and the server's router, and all clients share it, as the households of a street share
/// the lines of two providers. The clients are hosts 0 and up, and the server is the last host. A client's
/// interface number n leads to path n + 1.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedPaths {
    /// The number of clients.
    pub clients: u32,
    /// The rate and delay of each path, P1 and so on.
    pub paths: Vec<(BitRate, Duration)>,
    /// Rate of the clients' links.
    pub client_rate: BitRate,
    /// Rate of the server's link.
    pub server_rate: BitRate,
    /// Delay of each host's link.
    pub host_delay: Duration,
    /// Buffer of the switches' ports.
    pub switch_buffer: Buffer,
    /// ECN threshold of the switches' ports.
    pub mark_above: Option<Bytes>,
    /// Buffer of the hosts' ports.
    pub host_buffer: Buffer,
}

impl SharedPaths {
    /// Builds the network. The sender chooses the path with the client's address: there is one path between any
    /// two addresses.
    ///
    /// # Errors
    /// [`NetworkError::Parameter`] if there are no clients or paths, a rate is zero or a buffer is empty.
    pub fn build(&self) -> Result<Network, NetworkError> {
        let what = "the network of shared paths";
        count(what, "clients", u64::from(self.clients))?;
        count(what, "paths", self.paths.len() as u64)?;
        let ports = |delay| Ports {
            delay,
            host_buffer: self.host_buffer,
            switch_buffer: self.switch_buffer,
            mark_above: self.mark_above,
            host_mark_above: None,
            priorities: false,
        };
        let access = ports(self.host_delay);
        let mut builder = Builder::new("shared-paths");
        let router = builder.switch("router", 1);
        let edges: Vec<_> = (1..=self.paths.len())
            .map(|path| builder.switch(format!("edge{path}"), 1))
            .collect();
        for client in 0..self.clients {
            let name = format!("c{client}");
            let host = builder.host(name.clone());
            for (edge, path) in edges.iter().zip(1..) {
                let name = format!("{name}.access{path}");
                let (up, down) = (
                    access.host(self.client_rate),
                    access.switch(self.client_rate),
                );
                builder.cable(name, "access", (host, *edge), up, down);
            }
        }
        let server = builder.host("server");
        access.access(&mut builder, (server, router), "server", self.server_rate);
        for ((edge, path), &(rate, delay)) in edges.iter().zip(1..).zip(&self.paths) {
            let name = (format!("P{path}"), "paths");
            ports(delay).trunk(&mut builder, (*edge, router), name, rate);
        }
        builder.build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostId;

    #[test]
    fn every_client_reaches_the_server_over_each_path_by_its_own_address() {
        let rate = BitRate(100_000_000);
        let network = SharedPaths {
            clients: 3,
            paths: vec![
                (rate, Duration::from_millis(5)),
                (rate, Duration::from_millis(20)),
            ],
            client_rate: rate,
            server_rate: rate,
            host_delay: Duration::from_millis(1),
            switch_buffer: Buffer::Unlimited,
            mark_above: None,
            host_buffer: Buffer::Unlimited,
        }
        .build()
        .unwrap();
        assert_eq!(network.hosts(), 4);
        let server = network.addresses_of(HostId(3)).next().unwrap();
        for client in 0..3 {
            let addresses: Vec<_> = network.addresses_of(HostId(client)).collect();
            assert_eq!(addresses.len(), 2);
            for (path, address) in ["P1", "P2"].into_iter().zip(addresses) {
                let links = network.route_on_path(server, address, 0);
                let names: Vec<_> = links.iter().map(|l| network.link_name(*l)).collect();
                assert!(names.iter().any(|n| n.starts_with(path)), "{names:?}");
                assert_eq!(network.path_count(server, address), 1);
            }
        }
    }
}
