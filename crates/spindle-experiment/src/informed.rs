//! What the lab's hosts know about their network.

use std::net::IpAddr;
use std::sync::Arc;

use spindle_fabric::{Address, Buffer, HostId, LinkId, LinkSpec, Network};
use spindle_mptcp::Config;
use spindle_mptcp::stage::coding::Destinations;
use spindle_mptcp::stage::coding::formulas::Blocking;
use spindle_mptcp::stage::scatter::topology::Topology;
use spindle_units::{BitRate, Duration};

use crate::hosts::place_of;
use crate::scenario::Scenario;

/// Bytes of a full packet with its headers, for the time that a full queue takes.
const PACKET: u64 = 1500;

/// The network from the hosts' point of view.
#[derive(Debug)]
struct Fabric {
    network: Network,
    /// The number of long flows, if it is known in advance.
    long_flows: Option<u32>,
}

impl Fabric {
    /// The fabric address of an IP address.
    fn at(&self, addr: IpAddr) -> Option<Address> {
        let (host, interface) = place_of(addr)?;
        let host = HostId(host);
        (host.0 < self.network.hosts()).then(|| self.network.address(host, interface))?
    }
}

impl Fabric {
    /// The links of a path from a host to a peer. All paths between two hosts of the lab have equal links.
    fn path(&self, local: IpAddr, peer: IpAddr) -> Option<Vec<LinkId>> {
        let (from, to) = (self.at(local)?, self.at(peer)?);
        Some(self.network.route_on_path(from, to, 0))
    }
}

impl Topology for Fabric {
    /// The number of paths of equal cost between the addresses of hosts.
    fn paths(&self, local: IpAddr, remote: IpAddr) -> Option<u32> {
        let count = self.network.path_count(self.at(local)?, self.at(remote)?);
        u32::try_from(count).ok().filter(|n| *n > 0)
    }
}

impl Destinations for Fabric {
    /// The switch that the peer is connected to.
    fn of(&self, peer: IpAddr) -> u128 {
        self.at(peer).map_or(u128::MAX, |address| {
            let uplink = self.network.uplink(address);
            u128::from(self.network.link(uplink).to.0)
        })
    }

    /// The rate of the slowest link of the path. It is the same on all paths between two hosts of the lab.
    fn bottleneck(&self, local: IpAddr, peer: IpAddr) -> Option<BitRate> {
        let path = self.path(local, peer)?.into_iter();
        path.map(|link| self.network.link(link).spec.rate).min()
    }

    /// n_L / n (CAPS section VI-B): the number of long flows over the number of paths, each long flow being on a
    /// path of its own. At most a half, like the estimate (mechanisms A4.3). Nothing is blocked if there is only
    /// one path, that of two hosts under one leaf.
    fn blocking(&self, local: IpAddr, peer: IpAddr) -> Option<Blocking> {
        let paths = Topology::paths(self, local, peer)?;
        let long = self.long_flows?;
        match (paths, long) {
            (1, _) => Some(Blocking::NONE),
            _ if long > paths / 2 => Blocking::new(1, 2).ok(),
            _ => Blocking::new(long, paths).ok(),
        }
    }

    /// The round-trip time of the empty path, and the same with the longest full queue of a switch's port on it.
    fn round_trips(&self, local: IpAddr, peer: IpAddr) -> Option<(Duration, Duration)> {
        let path = self.path(local, peer)?;
        let specs = || path.iter().map(|link| &self.network.link(*link).spec);
        let one_way = specs().fold(Duration::ZERO, |sum, spec| sum + spec.delay);
        // The first link is that of the sending host.
        let queue = specs().skip(1).filter_map(full_queue).max()?;
        Some((one_way * 2, one_way * 2 + queue))
    }
}

/// The time that the packets in a full queue of a link take. `None` if the queue is never full.
fn full_queue(spec: &LinkSpec) -> Option<Duration> {
    let bytes = match spec.buffer {
        Buffer::Packets(n) => u64::from(n) * PACKET,
        Buffer::Bytes(bytes) => bytes.0,
        Buffer::Unlimited => return None,
    };
    Some(spec.rate.time_to_send(bytes))
}

/// The configuration for hosts that scatter or code packets, with knowledge of their network: the number of
/// paths to each host, the switch of each host, the links' rate, the round-trip time without and with full queues,
/// and the number of long flows. Estimates that hosts share are new ones.
pub fn informed(mut config: Config, network: &Network, scenario: &Scenario) -> Config {
    let links = &scenario.topology.links;
    let fabric = || {
        Arc::new(Fabric {
            network: network.clone(),
            long_flows: scenario.traffic.long_flows(scenario.host.short_below),
        })
    };
    let scatter = config.multipath.as_mut().and_then(|m| m.scatter.as_mut());
    if let Some(settings) = scatter {
        Arc::make_mut(settings).topology = fabric();
    }
    if let Some(settings) = &mut config.coding {
        let settings = Arc::make_mut(settings);
        settings.destinations = fabric();
        settings.estimates = settings.estimates.cleared();
        settings.rate = links.rate;
        // Two round-trip times without queues (CAPS section IX-C).
        settings.sampling.period = links.rtt * 2;
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_fabric::topology::LeafSpine;

    const FAST: BitRate = BitRate(10_000_000_000);
    const SLOW: BitRate = BitRate(1_000_000_000);

    /// Two leaves of three hosts with 20 paths between them.
    fn fabric(long_flows: Option<u32>) -> Fabric {
        let network = LeafSpine {
            leaves: 2,
            spines: 20,
            hosts_per_leaf: 3,
            host_rate: FAST,
            fabric_rate: SLOW,
            delay: Duration::from_micros(10),
            switch_buffer: Buffer::Packets(256),
            ..LeafSpine::default()
        };
        Fabric {
            network: network.build().unwrap(),
            long_flows,
        }
    }

    /// The addresses of two hosts.
    fn ends(a: u32, b: u32) -> (IpAddr, IpAddr) {
        (crate::hosts::address(a, 0), crate::hosts::address(b, 0))
    }

    #[test]
    fn hosts_of_one_leaf_have_the_same_destination() {
        let fabric = fabric(None);
        let of = |host| Destinations::of(&fabric, crate::hosts::address(host, 0));
        assert!((1..3).all(|h| of(h) == of(0)));
        assert_ne!(of(3), of(0));
        let (from, to) = ends(0, 4);
        assert_eq!(fabric.paths(from, to), Some(20));
    }

    #[test]
    fn bottleneck_is_the_slowest_link_of_the_path() {
        let fabric = fabric(None);
        let between = |(a, b)| Destinations::bottleneck(&fabric, a, b);
        assert_eq!(between(ends(0, 3)), Some(SLOW), "across");
        assert_eq!(between(ends(0, 1)), Some(FAST), "under one leaf");
        let nowhere = "192.0.2.1".parse().unwrap();
        assert_eq!(between((ends(0, 1).0, nowhere)), None);
    }

    #[test]
    fn known_share_of_blocked_packets_is_long_flows_over_paths() {
        let share = |long, (a, b)| {
            let known = Destinations::blocking(&fabric(long), a, b);
            known.map(Blocking::get)
        };
        assert_eq!(share(Some(4), ends(0, 3)), Some(0.2), "CAPS section VI-B");
        assert_eq!(share(Some(0), ends(0, 3)), Some(0.0));
        assert_eq!(share(Some(15), ends(0, 3)), Some(0.5), "at most a half");
        assert_eq!(share(Some(4), ends(0, 1)), Some(0.0), "under one leaf");
        assert_eq!(share(None, ends(0, 3)), None);
    }

    #[test]
    fn known_round_trips_are_those_of_an_empty_path_and_of_a_full_queue() {
        let fabric = fabric(None);
        let between = |(a, b)| Destinations::round_trips(&fabric, a, b);
        let (short, long) = between(ends(0, 3)).unwrap();
        assert_eq!(short, Duration::from_micros(80));
        assert_eq!(
            long - short,
            Duration::from_micros(256 * 12),
            "256 packets of 12 us"
        );
    }

    #[test]
    fn long_flows_are_known_only_if_the_others_are_short() {
        let registry = crate::registry::Registry::standard();
        let known = |id: &str| {
            let experiment = crate::library::find(id).unwrap();
            let experiment = experiment
                .read(&registry, &crate::Overrides::default())
                .unwrap();
            let scenario = &experiment.points[0].scenario;
            scenario.traffic.long_flows(scenario.host.short_below)
        };
        assert_eq!(known("caps-fig11"), Some(4));
        assert_eq!(known("caps-fig26"), Some(0));
        assert_eq!(known("caps-fig17"), None, "sizes of web search");
    }
}
