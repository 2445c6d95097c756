//! [`Mesh`]: two sites joined by two layers of routers.

use spindle_units::{BitRate, Bytes, Duration};

use super::{Ports, count};
use crate::{Buffer, Builder, Network, NetworkError};

/// Two sites joined by two layers of routers. Hosts are connected to router R1. `width` routers follow, fully
/// meshed with `width` more, and then the last router with the same number of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    /// The number of hosts of each site. The first site has hosts from H1 and addresses from 0.
    pub hosts_per_site: u32,
    /// The number of routers in each of the two inner layers; 1 to 1024.
    pub width: u32,
    /// Rate of all links.
    pub rate: BitRate,
    /// Delay of all links.
    pub delay: Duration,
    /// Buffer of the routers' ports.
    pub switch_buffer: Buffer,
    /// ECN threshold of the routers' ports.
    pub mark_above: Option<Bytes>,
    /// Buffer of the hosts' ports.
    pub host_buffer: Buffer,
    /// Two strict priorities at every port (mechanisms A5.13).
    pub priorities: bool,
}

impl Default for Mesh {
    /// The simulation of the CoFUSO paper (section 6.2, figure 12): H1 to H10 on R1, H11 to H20 on R10, R2 to
    /// R5 meshed with R6 to R9, 300 Mbps, a round trip of 48 ms over 10 links, queues of 3 bandwidth-delay
    /// products (5400 KB). The paper draws the graph without listing its links; the full mesh is our
    /// interpretation.
    fn default() -> Self {
        Self {
            hosts_per_site: 10,
            width: 4,
            rate: BitRate(300_000_000),
            delay: Duration::from_micros(4_800),
            switch_buffer: Buffer::Bytes(Bytes(5_400_000)),
            mark_above: None,
            host_buffer: Buffer::Packets(1000),
            priorities: false,
        }
    }
}

impl Mesh {
    /// Builds the network. Explicit path `p`, below `width^2`, uses router `p / width` of the layer next to the
    /// sender and router `p mod width` of the other layer.
    ///
    /// # Errors
    /// [`NetworkError::Parameter`] if there are no hosts, the width is outside 1 to 1024, a rate is zero or a
    /// buffer is empty.
    pub fn build(&self) -> Result<Network, NetworkError> {
        let what = "the mesh";
        count(what, "hosts", u64::from(self.hosts_per_site) * 2)?;
        if !(1..=1024).contains(&self.width) {
            let remedy = "it is from 1 to 1024 routers in each layer";
            return Err(NetworkError::parameter(what, "width", self.width, remedy));
        }
        let ports = Ports {
            delay: self.delay,
            host_buffer: self.host_buffer,
            switch_buffer: self.switch_buffer,
            mark_above: self.mark_above,
            host_mark_above: None,
            priorities: self.priorities,
        };
        let mut builder = Builder::new("mesh");
        let last = 2 * self.width + 2;
        let routers: Vec<_> = (1..=last)
            .map(|r| builder.switch(format!("R{r}"), self.tier(r)))
            .collect();
        let router = |number: u32| routers[number as usize - 1];
        builder.path_divisor(router(1), self.width);
        builder.path_divisor(router(last), self.width);
        for number in 1..=2 * self.hosts_per_site {
            let name = format!("H{number}");
            let host = builder.host(name.as_str());
            let near = router(if number <= self.hosts_per_site {
                1
            } else {
                last
            });
            ports.access(&mut builder, (host, near), &name, self.rate);
        }
        for (a, b, group) in self.cables() {
            let name = (format!("R{a}-R{b}"), group);
            ports.trunk(&mut builder, (router(a), router(b)), name, self.rate);
        }
        builder.build()
    }

    /// The network is drawn with the hosts at the bottom: outer routers in row 1, inner routers above.
    fn tier(&self, router: u32) -> u8 {
        match router {
            1 => 1,
            r if r == 2 * self.width + 2 => 1,
            r if r <= self.width + 1 => 2,
            _ => 3,
        }
    }

    /// The cables between routers: the numbers of their ends and their group.
    fn cables(&self) -> Vec<(u32, u32, &'static str)> {
        let near = 2..self.width + 2;
        let far = self.width + 2..2 * self.width + 2;
        let first = near.clone().map(|r| (1, r, "site"));
        let last = far.clone().map(|r| (r, 2 * self.width + 2, "site"));
        let middle = near.flat_map(|a| far.clone().map(move |b| (a, b, "mesh")));
        first.chain(middle).chain(last).collect()
    }
}
