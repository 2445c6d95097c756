//! Routes: for every switch and destination, the group of next hops on shortest paths.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::{Address, Link, LinkId, Node, NodeId, NodeKind};

/// Means "no link" or "no switch".
pub(crate) const NONE: u32 = u32::MAX;

/// The forwarding state of all switches. A switch's row in the table has one entry per *rack*, which is a
/// switch with hosts, instead of one per address. With 1024 hosts the table then fits in the cache.
#[derive(Debug)]
pub(crate) struct Routes {
    /// Indexed by address.
    pub(crate) destinations: Box<[Destination]>,
    /// Indexed by switch, then by rack: the group of next hops, or the only next hop with [`SINGLE`] set.
    table: Box<[u32]>,
    racks: usize,
    groups: Box<[Group]>,
    /// The links of all groups, one group after the other.
    ports: Box<[u32]>,
    /// For each switch, how it interprets explicit path numbers.
    divisors: Box<[u32]>,
    /// For each link, the switch to which it leads, or [`NONE`] for a host.
    ends: Box<[u32]>,
}

/// How packets reach an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// The switch to which it is connected, or [`NONE`] for a host.
    pub(crate) switch: u32,
    /// The column of that switch in the table.
    rack: u32,
    /// The link from that switch to the host.
    pub(crate) downlink: u32,
    /// The link out of the host.
    pub(crate) uplink: u32,
    /// The host.
    pub(crate) host: u32,
}

/// Distinguishes the number of a link from the number of a group.
const SINGLE: u32 = 1 << 31;

/// A range of `ports`.
#[derive(Clone, Copy, Debug)]
struct Group {
    start: u32,
    len: u32,
}

/// The next hops of a packet at a switch.
pub(crate) enum NextHop<'a> {
    /// There is one next hop.
    One(u32),
    /// There are several next hops.
    Any(&'a [u32]),
    /// There is no next hop.
    Nowhere,
}

impl Routes {
    /// Computes the routes. `uplinks` contains the link out of each address's host.
    pub(crate) fn compute(
        nodes: &[Node],
        links: &[Link],
        uplinks: &[u32],
        divisors: &[u32],
    ) -> Self {
        let (destinations, racks) = destinations(nodes, links, uplinks);
        let graph = Graph::new(nodes, links, divisors.len());
        let mut groups = Groups::new(divisors.len());
        let mut table = vec![0; divisors.len() * racks.len()];
        let mut distance = vec![NONE; divisors.len()];
        let mut closer = Vec::new();
        for (column, &rack) in racks.iter().enumerate() {
            graph.distances(rack, &mut distance);
            for switch in 0..divisors.len() {
                graph.closer(switch, &distance, &mut closer);
                table[switch * racks.len() + column] = match closer[..] {
                    [only] if only < SINGLE => only | SINGLE,
                    _ => groups.intern(switch, &closer),
                };
            }
        }
        Self {
            destinations: destinations.into(),
            table: table.into(),
            racks: racks.len(),
            groups: groups.groups.into(),
            ports: groups.ports.into(),
            divisors: divisors.into(),
            ends: links.iter().map(|l| switch_number(nodes, l.to)).collect(),
        }
    }

    /// The next hops of a switch for packets to an address.
    #[inline(always)] // once for each packet and hop; as a call it takes 1 % of a run
    pub(crate) fn next(&self, switch: u32, to: u32) -> NextHop<'_> {
        let destination = &self.destinations[to as usize];
        if destination.switch == switch {
            return NextHop::One(destination.downlink);
        }
        if destination.switch == NONE {
            return NextHop::Nowhere;
        }
        let entry = self.table[switch as usize * self.racks + destination.rack as usize];
        if entry & SINGLE != 0 {
            return NextHop::One(entry & !SINGLE);
        }
        let Group { start, len } = self.groups[entry as usize];
        match len {
            0 => NextHop::Nowhere,
            _ => NextHop::Any(&self.ports[start as usize..(start + len) as usize]),
        }
    }

    /// The choice that an explicit path number means at a switch.
    #[inline]
    pub(crate) fn explicit(&self, switch: u32, path: u32, choices: u32) -> u32 {
        (path / self.divisors[switch as usize]) % choices
    }

    /// The links of a switch among which packets have a choice, in ascending order.
    pub(crate) fn choices(&self, switch: u32) -> Vec<LinkId> {
        let row = switch as usize * self.racks;
        let entries = self.table[row..row + self.racks].iter();
        let groups = entries.filter(|entry| *entry & SINGLE == 0);
        let links = groups.flat_map(|group| {
            let Group { start, len } = self.groups[*group as usize];
            &self.ports[start as usize..(start + len) as usize]
        });
        let links: BTreeSet<u32> = links.copied().collect();
        links.into_iter().map(LinkId).collect()
    }

    /// Whether a switch has a route to any other switch with hosts.
    pub(crate) fn leaves(&self, switch: u32) -> bool {
        let row = switch as usize * self.racks;
        let mut groups = self.table[row..row + self.racks].iter();
        groups.any(|&g| g & SINGLE != 0 || self.groups[g as usize].len > 0)
    }

    /// The links of one path between two addresses, where `choose(switch, choices)` decides. The result is
    /// empty if there is no path.
    pub(crate) fn walk(
        &self,
        from: Address,
        to: Address,
        mut choose: impl FnMut(u32, u32) -> u32,
    ) -> Vec<LinkId> {
        let destination = &self.destinations[to.0 as usize];
        let mut way = vec![self.destinations[from.0 as usize].uplink];
        let mut last = way[0];
        while last != destination.downlink {
            let Some(switch) = self.switch_at_end(last) else {
                return Vec::new();
            };
            last = match self.next(switch, to.0) {
                NextHop::One(link) => link,
                NextHop::Any(ports) => {
                    let choice = choose(switch, ports.len() as u32) as usize;
                    ports[choice % ports.len()]
                }
                NextHop::Nowhere => return Vec::new(),
            };
            way.push(last);
        }
        way.into_iter().map(LinkId).collect()
    }

    /// The number of paths between two addresses, saturating.
    pub(crate) fn count(&self, from: Address, to: Address) -> u64 {
        // Counts level by level, because all shortest paths have the same length.
        let downlink = self.destinations[to.0 as usize].downlink;
        let mut at = BTreeMap::new();
        at.insert(self.destinations[from.0 as usize].uplink, 1u64);
        while !at.is_empty() {
            if let Some(&ways) = at.get(&downlink) {
                return ways;
            }
            let mut onward = BTreeMap::new();
            for (link, ways) in at {
                let Some(switch) = self.switch_at_end(link) else {
                    continue;
                };
                let single;
                let ports = match self.next(switch, to.0) {
                    NextHop::One(port) => {
                        single = [port];
                        &single[..]
                    }
                    NextHop::Any(ports) => ports,
                    NextHop::Nowhere => continue,
                };
                for &port in ports {
                    let sum: &mut u64 = onward.entry(port).or_default();
                    *sum = sum.saturating_add(ways);
                }
            }
            at = onward;
        }
        0
    }

    /// The switch to which a link leads, or `None` if it leads to a host.
    pub(crate) fn switch_at_end(&self, link: u32) -> Option<u32> {
        let end = self.ends[link as usize];
        (end != NONE).then_some(end)
    }
}

fn switch_number(nodes: &[Node], node: NodeId) -> u32 {
    match nodes[node.0 as usize].kind {
        NodeKind::Switch(number) => number,
        NodeKind::Host(_) => NONE,
    }
}

/// The destinations by address, and the switches with hosts.
fn destinations(nodes: &[Node], links: &[Link], uplinks: &[u32]) -> (Vec<Destination>, Vec<u32>) {
    let mut racks: Vec<u32> = Vec::new();
    let mut rack_of = HashMap::new();
    let destinations = uplinks.iter().map(|&uplink| {
        let link = &links[uplink as usize];
        let host = match nodes[link.from.0 as usize].kind {
            NodeKind::Host(host) => host.0,
            NodeKind::Switch(_) => NONE,
        };
        let switch = switch_number(nodes, link.to);
        let rack = match switch {
            NONE => NONE,
            _ => *rack_of.entry(switch).or_insert_with(|| {
                racks.push(switch);
                racks.len() as u32 - 1
            }),
        };
        Destination {
            switch,
            rack,
            // A cable's two links have adjacent numbers.
            downlink: uplink ^ 1,
            uplink,
            host,
        }
    });
    let destinations = destinations.collect();
    (destinations, racks)
}

/// The links between switches.
struct Graph {
    /// For each switch where a link starts: (link, far end), in the order of links.
    out: Vec<Vec<(u32, u32)>>,
}

impl Graph {
    fn new(nodes: &[Node], links: &[Link], switches: usize) -> Self {
        let mut out = vec![Vec::new(); switches];
        for (index, link) in links.iter().enumerate() {
            let (from, to) = (
                switch_number(nodes, link.from),
                switch_number(nodes, link.to),
            );
            if from != NONE && to != NONE {
                out[from as usize].push((index as u32, to));
            }
        }
        Self { out }
    }

    /// Computes the distance in links from each switch to `root`, [`NONE`] if there is no path. Every link has
    /// its opposite, so distances are the same in both directions.
    fn distances(&self, root: u32, distance: &mut [u32]) {
        distance.fill(NONE);
        distance[root as usize] = 0;
        let mut next = VecDeque::from([root]);
        while let Some(switch) = next.pop_front() {
            for &(_, far) in &self.out[switch as usize] {
                if distance[far as usize] == NONE {
                    distance[far as usize] = distance[switch as usize] + 1;
                    next.push_back(far);
                }
            }
        }
    }

    /// The links of `switch` that lead one step closer to the root of `distance`.
    fn closer(&self, switch: usize, distance: &[u32], closer: &mut Vec<u32>) {
        closer.clear();
        let here = distance[switch];
        if here != NONE && here != 0 {
            let links = self.out[switch].iter();
            closer.extend(links.filter(|l| distance[l.1 as usize] < here).map(|l| l.0));
        }
    }
}

/// Collects groups, each at most once per switch. Group 0 is empty.
struct Groups {
    groups: Vec<Group>,
    ports: Vec<u32>,
    of_switch: Vec<Vec<u32>>,
}

impl Groups {
    fn new(switches: usize) -> Self {
        Self {
            groups: vec![Group { start: 0, len: 0 }],
            ports: Vec::new(),
            of_switch: vec![vec![0]; switches],
        }
    }

    /// The group of a switch that consists of exactly these links.
    fn intern(&mut self, switch: usize, links: &[u32]) -> u32 {
        let known = self.of_switch[switch].iter().copied().find(|&group| {
            let Group { start, len } = self.groups[group as usize];
            self.ports[start as usize..(start + len) as usize] == *links
        });
        known.unwrap_or_else(|| {
            let group = self.groups.len() as u32;
            self.groups.push(Group {
                start: self.ports.len() as u32,
                len: links.len() as u32,
            });
            self.ports.extend_from_slice(links);
            self.of_switch[switch].push(group);
            group
        })
    }
}
