//! [`Freeway`]: separate paths for long and short flows.

use spindle_units::Duration;

use super::{Balancer, Balancing, Ecmp, Flows, Hop, MOST_FLOWS, NamedBalancing, Ports, SwitchInfo};
use crate::{Class, LinkId};

/// "freeway" in experiment files and on the command line.
pub(super) const BUILT_IN: NamedBalancing = NamedBalancing {
    name: "freeway",
    summary: "long flows have paths to themselves, as many as there are long flows, at most all but \
              one; a new one takes the path with the fewest; short flows use the others, by ECMP \
              (Wang et al. 2014, mechanisms A5.12)",
    make: || Balancing::Freeway(FreewaySettings::default()),
};

/// Settings of [`Freeway`].
#[derive(Clone, Debug, PartialEq)]
pub struct FreewaySettings {
    /// A long flow is active for this long after each of its data packets (default 10 ms). The value is our
    /// choice: the minimum RTO of CAPS's runs, mechanisms A5.1, so that only a flow that waits for its RTO
    /// loses its next hop.
    pub window: Duration,
}

impl Default for FreewaySettings {
    fn default() -> Self {
        Self {
            window: Duration::from_millis(10),
        }
    }
}

/// Freeway (Wang et al. 2014, as CAPS compares with it; mechanisms A5.12): some of the next hops are reserved
/// for long flows, and short flows use the others.
///
/// A flow is long if its class is [`Class::Low`], and active while its data packets arrive. With `L` long flows
/// active over these `n` next hops, `min(n - 1, L)` next hops are reserved: those that the flows use, and then
/// the first free ones in the order of cables, but never the last. That order is the same at all switches, so
/// that the layers of a leaf-spine network reserve the same paths. A new long flow takes one of the next hops
/// that are reserved when it is counted: the one with the fewest long flows, then with the shortest backlog,
/// then the first. The flow stays there while it is active. All other packets use ECMP over the next hops that
/// are not reserved. If no long flow is active, these are all next hops. Other packets are those of short
/// flows, and acknowledgements of a long flow without data in the same direction.
#[derive(Debug)]
pub struct Freeway {
    ecmp: Ecmp,
    /// The link of each active long flow.
    flows: Flows<LinkId>,
    /// For each link, the number of long flows on it.
    on_link: Vec<u32>,
}

impl Freeway {
    /// Freeway with the switch's salt.
    pub fn new(info: &SwitchInfo, settings: &FreewaySettings) -> Self {
        Self {
            ecmp: Ecmp::new(info),
            flows: Flows::new(settings.window, MOST_FLOWS),
            on_link: Vec::new(),
        }
    }

    fn on(&self, link: LinkId) -> u32 {
        self.on_link.get(link.0 as usize).copied().unwrap_or(0)
    }

    fn leave(&mut self, link: LinkId) {
        self.on_link[link.0 as usize] -= 1;
    }

    fn enter(&mut self, link: LinkId) {
        let place = link.0 as usize;
        if self.on_link.len() <= place {
            self.on_link.resize(place + 1, 0);
        }
        self.on_link[place] += 1;
    }

    /// The number of reserved next hops without a long flow, if `more` long flows were added.
    fn reserved(&self, ports: &Ports<'_>, more: u32) -> usize {
        let on = (0..ports.len()).map(|w| self.on(ports.link(w)));
        let (flows, taken) = on.fold((more, 0), |(flows, taken), on| {
            (flows + on, taken + usize::from(on > 0))
        });
        let theirs = (flows as usize).min(ports.len() - 1);
        theirs.saturating_sub(taken)
    }

    /// For each next hop in order, whether it is reserved. `reserved` is the number of reserved next hops
    /// without a flow.
    fn set_apart(&self, ports: &Ports<'_>, reserved: usize) -> impl Iterator<Item = bool> {
        let mut reserved = reserved;
        (0..ports.len()).map(move |way| {
            let free = self.on(ports.link(way)) == 0;
            let fills = free && reserved > 0;
            reserved -= usize::from(fills);
            !free || fills
        })
    }

    /// The next hop of a new long flow.
    fn place(&self, ports: &Ports<'_>) -> usize {
        let reserved = self.reserved(ports, 1);
        let theirs = self.set_apart(ports, reserved).enumerate();
        let theirs = theirs.filter_map(|(way, theirs)| theirs.then_some(way));
        let load = |&way: &usize| (self.on(ports.link(way)), ports.backlog(way));
        theirs.min_by_key(load).unwrap_or(0)
    }

    /// The next hop of all other packets.
    fn ecmp(&self, hop: &Hop<'_>) -> usize {
        let ports = &hop.ports;
        if self.flows.len() == 0 {
            return self.ecmp.pick(hop.flow_hash, ports.len() as u32) as usize;
        }
        let reserved = self.reserved(ports, 0);
        let theirs = self.set_apart(ports, reserved).filter(|t| *t).count();
        let rest = (ports.len() - theirs).max(1) as u32;
        let pick = self.ecmp.pick(hop.flow_hash, rest) as usize;
        let others = self.set_apart(ports, reserved).enumerate();
        let mut others = others.filter_map(|(way, theirs)| (!theirs).then_some(way));
        others.nth(pick).unwrap_or(0)
    }
}

/// The next hop that is this link.
fn way_of(ports: &Ports<'_>, link: LinkId) -> Option<usize> {
    (0..ports.len()).find(|way| ports.link(*way) == link)
}

impl Balancer for Freeway {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        while let Some(link) = self.flows.forget_idle(hop.now) {
            self.leave(link);
        }
        if hop.class == Class::High {
            return self.ecmp(hop);
        }
        let ports = &hop.ports;
        if !hop.is_data {
            // Acknowledgements of a flow that sends data here use its next hop, but do not keep it active.
            let link = self.flows.get(hop.flow_hash);
            let way = link.and_then(|link| way_of(ports, link));
            return way.unwrap_or_else(|| self.ecmp(hop));
        }
        if let Some(&mut link) = self.flows.see(hop.now, hop.flow_hash) {
            // The next hops of a flow never change.
            return way_of(ports, link).unwrap_or(0);
        }
        let way = self.place(ports);
        let link = ports.link(way);
        self.enter(link);
        if let Some(displaced) = self.flows.add(hop.now, hop.flow_hash, link) {
            self.leave(displaced);
        }
        way
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ways, info};
    use super::*;

    fn freeway() -> Freeway {
        Freeway::new(&info(0), &FreewaySettings::default())
    }

    /// The next hops that 4000 short flows take at a time, in ascending order. The test fails if the flows are
    /// uneven.
    fn shorts(freeway: &mut Freeway, ways: &Ways, micros: u64) -> Vec<usize> {
        let n = ways.hop(0, 0).ports.len();
        let mut count = vec![0u32; n];
        for flow in 0..4000 {
            count[freeway.choose(&ways.short(micros, 1_000_000 + flow))] += 1;
        }
        let used: Vec<usize> = (0..n).filter(|w| count[*w] > 0).collect();
        let mean = 4000 / used.len() as u32;
        let even = |w: &usize| count[*w].abs_diff(mean) < 150;
        assert!(used.iter().all(even), "{count:?}");
        used
    }

    #[test]
    fn each_long_flow_takes_its_own_next_hop_while_one_is_free() {
        let ways = Ways::new(4);
        let mut freeway = freeway();
        assert_eq!(shorts(&mut freeway, &ways, 0), [0, 1, 2, 3]);
        assert_eq!(freeway.choose(&ways.hop(0, 1)), 0);
        assert_eq!(shorts(&mut freeway, &ways, 0), [1, 2, 3]);
        assert_eq!(freeway.choose(&ways.hop(0, 2)), 1);
        assert_eq!(shorts(&mut freeway, &ways, 0), [2, 3]);
        assert_eq!(freeway.choose(&ways.hop(0, 3)), 2);
        assert_eq!(shorts(&mut freeway, &ways, 0), [3]);
        // From here on flows share next hops evenly and leave the last one free.
        let mut more: Vec<usize> = (4..7).map(|f| freeway.choose(&ways.hop(0, f))).collect();
        more.sort_unstable();
        assert_eq!(more, [0, 1, 2]);
        assert_eq!(shorts(&mut freeway, &ways, 0), [3]);
        for (flow, way) in [(1, 0), (2, 1), (3, 2)] {
            assert_eq!(freeway.choose(&ways.hop(9, flow)), way, "the flow stays");
        }
    }

    #[test]
    fn shorter_backlog_decides_between_equal_numbers_of_long_flows() {
        let mut ways = Ways::new(4);
        let mut freeway = freeway();
        (1..4).for_each(|flow| {
            freeway.choose(&ways.hop(0, flow));
        });
        ways.busy_until(0, 900_000);
        ways.busy_until(1, 600_000);
        ways.busy_until(2, 700_000);
        assert_eq!(freeway.choose(&ways.hop(1, 4)), 1);
        assert_eq!(freeway.choose(&ways.hop(1, 5)), 2, "1 has two flows now");
        assert_eq!(freeway.choose(&ways.hop(1, 6)), 0);
    }

    #[test]
    fn flow_silent_for_longer_than_the_window_releases_its_next_hop() {
        let ways = Ways::new(4);
        let mut freeway = freeway();
        freeway.choose(&ways.hop(0, 1));
        freeway.choose(&ways.hop(1000, 2));
        assert_eq!(shorts(&mut freeway, &ways, 10_000), [2, 3]);
        assert_eq!(shorts(&mut freeway, &ways, 10_001), [0, 2, 3]);
        // A new flow takes it; the second flow stays on its next hop.
        assert_eq!(freeway.choose(&ways.hop(10_002, 3)), 0);
        assert_eq!(freeway.choose(&ways.hop(10_003, 2)), 1);
        assert_eq!(shorts(&mut freeway, &ways, 30_000), [0, 1, 2, 3]);
        assert!(freeway.on_link.iter().all(|n| *n == 0));
    }

    #[test]
    fn as_many_next_hops_are_reserved_as_there_are_long_flows() {
        let ways = Ways::new(4);
        let mut freeway = freeway();
        // Flows 1 and 4 share a next hop; the other two of the first four flows end.
        (1..5).for_each(|flow| {
            freeway.choose(&ways.hop(0, flow));
        });
        freeway.choose(&ways.hop(9_000, 1));
        freeway.choose(&ways.hop(9_000, 4));
        assert_eq!(shorts(&mut freeway, &ways, 11_000), [2, 3]);
        assert_eq!(freeway.choose(&ways.hop(11_000, 5)), 1);
    }

    #[test]
    fn acknowledgements_do_not_make_a_flow_active() {
        let ways = Ways::new(4);
        let mut freeway = freeway();
        let ack = |micros, flow| Hop {
            is_data: false,
            wire_len: 40,
            ..ways.hop(micros, flow)
        };
        freeway.choose(&ack(0, 1));
        assert_eq!(shorts(&mut freeway, &ways, 0), [0, 1, 2, 3]);
        // Acknowledgements of a flow that sends data use its next hop, but do not keep it active.
        let way = freeway.choose(&ways.hop(0, 1));
        assert_eq!(freeway.choose(&ack(9_000, 1)), way);
        assert_eq!(shorts(&mut freeway, &ways, 11_000), [0, 1, 2, 3]);
    }
}
