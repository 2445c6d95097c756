//! [`FusoTestbed`]: two racks joined by parallel paths.

use spindle_units::{BitRate, Bytes, Duration};

use super::{Ports, count};
use crate::{Buffer, Builder, Network, NetworkError};

/// The testbed of the FUSO paper (Chen et al. 2016, sections 4.2 and 5.1): two racks of hosts, H1 to H3 under
/// ToR1 and H4 to H6 under ToR2, joined by the parallel paths P1 to P3.
#[derive(Clone, Debug, PartialEq)]
pub struct FusoTestbed {
    /// The number of hosts under each of the two switches (default 3).
    pub hosts_per_rack: u32,
    /// The number of parallel cables between the switches (default 3).
    pub paths: u32,
    /// Rate of all links (default 1 Gbps).
    pub rate: BitRate,
    /// Round trip between the racks without queueing and sending times (default 280 us). The paper states only
    /// the sum. It is split evenly over the 6 links of a round trip, 46.667 us each.
    pub round_trip: Duration,
    /// Buffer of a switch port (default 128 KB).
    pub switch_buffer: Buffer,
    /// ECN threshold of a switch port (default 32 KB).
    pub mark_above: Option<Bytes>,
    /// Buffer of a host's port (default 1000 packets).
    pub host_buffer: Buffer,
    /// ECN threshold of a host's port (default: no marking).
    pub host_mark_above: Option<Bytes>,
    /// Two strict priorities at every port (mechanisms A5.13; default: no).
    pub priorities: bool,
}

impl Default for FusoTestbed {
    fn default() -> Self {
        Self {
            hosts_per_rack: 3,
            paths: 3,
            rate: BitRate(1_000_000_000),
            round_trip: Duration::from_micros(280),
            switch_buffer: Buffer::Bytes(Bytes(128_000)),
            mark_above: Some(Bytes(32_000)),
            host_buffer: Buffer::Packets(1000),
            host_mark_above: None,
            priorities: false,
        }
    }
}

impl FusoTestbed {
    /// Builds the network. Explicit path `p` is cable `P<p+1>`.
    ///
    /// # Errors
    /// [`NetworkError::Parameter`] if there are no hosts or no paths, a rate is zero or a buffer is empty.
    pub fn build(&self) -> Result<Network, NetworkError> {
        let what = "the FUSO testbed";
        count(what, "hosts per rack", self.hosts_per_rack.into())?;
        count(what, "paths", self.paths.into())?;
        let ports = Ports {
            // Rounded to the nearest nanosecond.
            delay: Duration::from_nanos((self.round_trip.as_nanos().saturating_add(3)) / 6),
            host_buffer: self.host_buffer,
            switch_buffer: self.switch_buffer,
            mark_above: self.mark_above,
            host_mark_above: self.host_mark_above,
            priorities: self.priorities,
        };
        let mut builder = Builder::new("fuso-testbed");
        let racks = [builder.switch("ToR1", 1), builder.switch("ToR2", 1)];
        for host in 0..self.hosts_per_rack * 2 {
            let name = format!("H{}", host + 1);
            let node = builder.host(name.as_str());
            let rack = racks[(host / self.hosts_per_rack) as usize];
            ports.access(&mut builder, (node, rack), &name, self.rate);
        }
        for path in 1..=self.paths {
            let name = (format!("P{path}"), "paths");
            ports.trunk(&mut builder, (racks[0], racks[1]), name, self.rate);
        }
        builder.build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    #[test]
    fn fuso_testbed_has_the_topology_of_the_paper() {
        let network = FusoTestbed::default().build().unwrap();
        assert_eq!((network.hosts(), network.cables().len()), (6, 9));
        assert_eq!(network.path_count(Address(0), Address(3)), 3);
        assert_eq!(network.path_count(Address(0), Address(1)), 1);
        for path in 0..3 {
            let route = network.route_on_path(Address(0), Address(5), path);
            let names: Vec<_> = route.iter().map(|&l| network.link_name(l)).collect();
            let up = format!("P{}.up", path + 1);
            assert_eq!(names, ["H1.access.up", &up, "H6.access.down"]);
            let delay: Duration = route.iter().map(|&l| network.link(l).spec.delay).sum();
            assert_eq!(delay.as_nanos(), 3 * 46_667);
        }
        assert_eq!(network.links_matching("access:H4-H6").unwrap().len(), 6);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let default = FusoTestbed::default;
        let paths = FusoTestbed {
            paths: 0,
            ..default()
        };
        let error = paths.build().unwrap_err().to_string();
        assert_eq!(
            error,
            "paths of the FUSO testbed cannot be 0: it is at least 1 and at most 1048576 in all"
        );
        let rate = FusoTestbed {
            rate: BitRate(0),
            ..default()
        };
        let error = rate.build().unwrap_err().to_string();
        assert!(
            error.starts_with("rate of cable `H1.access` cannot be 0bps"),
            "{error}"
        );
    }
}
