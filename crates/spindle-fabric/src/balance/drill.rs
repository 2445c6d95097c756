//! [`Drill`]: per-packet choice of the shortest of a few queues.

use spindle_units::Duration;

use super::{Balancer, Balancing, Hop, NamedBalancing, RandomSpray, SwitchInfo};
use crate::LinkId;

/// "drill" in experiment files and on the command line.
pub(super) const BUILT_IN: NamedBalancing = NamedBalancing {
    name: "drill",
    summary: "each packet takes the shortest queue of two random paths and the best path of the last packet \
              (DRILL(2, 1), Ghorbani et al. 2017, mechanisms N5)",
    make: || Balancing::Drill(DrillSettings::default()),
};

/// Settings of [`Drill`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrillSettings {
    /// The number of next hops that are drawn for each packet, d in the paper (default 2). 0 counts as 1, and
    /// more than there are next hops counts as all of them.
    pub samples: u32,
    /// The number of next hops that are remembered from packet to packet, m in the paper (default 1).
    pub memory: u32,
}

impl Default for DrillSettings {
    /// DRILL(2, 1), which the paper evaluates (Ghorbani et al., SIGCOMM 2017).
    fn default() -> Self {
        Self {
            samples: 2,
            memory: 1,
        }
    }
}

/// DRILL(d, m) (Ghorbani et al., SIGCOMM 2017, section 3): the packet takes the next hop with the shortest queue
/// among `d` next hops drawn at random and the `m` next hops that had the shortest queues at the packet before.
/// The switch uses only the queues of its own ports.
///
/// The paper leaves these points open, and they are our choice: the `d` next hops are different ones. Of equal
/// queues, the one drawn first is taken, so that packets in an idle network are spread over all paths. The
/// length of a queue is the time in which the port sends it, so that links of different rates are comparable.
/// Each switch has a single forwarding engine.
#[derive(Debug)]
pub struct Drill {
    samples: u32,
    memory: usize,
    spray: RandomSpray,
    /// The remembered next hops, the shortest queue first.
    remembered: Vec<(u32, LinkId)>,
    /// Scratch: the next hops that are compared, each with its queue.
    compared: Vec<(Duration, u32)>,
}

impl Drill {
    /// DRILL with the switch's random stream.
    pub fn new(info: &SwitchInfo, settings: &DrillSettings) -> Self {
        Self {
            samples: settings.samples.max(1),
            memory: settings.memory as usize,
            spray: RandomSpray::new(info),
            remembered: Vec::new(),
            compared: Vec::new(),
        }
    }

    /// Draws different next hops in random order. Each set of them has the same probability (Floyd's algorithm).
    fn draw(&mut self, choices: u32) {
        self.compared.clear();
        for last in choices.saturating_sub(self.samples)..choices {
            let drawn = self.spray.pick(last + 1);
            let choice = match self.compared.iter().any(|(_, known)| *known == drawn) {
                true => last,
                false => drawn,
            };
            self.compared.push((Duration::ZERO, choice));
        }
        // The algorithm gives a random set, but not in random order.
        for last in (1..self.compared.len()).rev() {
            let other = self.spray.pick(last as u32 + 1);
            self.compared.swap(last, other as usize);
        }
    }

    /// Adds the remembered next hops that this packet can take.
    fn recall(&mut self, hop: &Hop<'_>) {
        for &(choice, link) in &self.remembered {
            // A packet to another destination may have other next hops.
            let is_there =
                (choice as usize) < hop.ports.len() && hop.ports.link(choice as usize) == link;
            if is_there && self.compared.iter().all(|(_, known)| *known != choice) {
                self.compared.push((Duration::ZERO, choice));
            }
        }
    }
}

impl Balancer for Drill {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        self.draw(hop.ports.len() as u32);
        self.recall(hop);
        for (queue, choice) in &mut self.compared {
            *queue = hop.ports.backlog(*choice as usize);
        }
        // The sort is stable: of equal queues the one drawn first comes first.
        self.compared.sort_by_key(|(queue, _)| *queue);
        self.remembered.clear();
        let best = self.compared.iter().take(self.memory);
        let named = best.map(|(_, choice)| (*choice, hop.ports.link(*choice as usize)));
        self.remembered.extend(named);
        self.compared
            .first()
            .map_or(0, |(_, choice)| *choice as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ways, info};
    use super::*;

    fn drill(samples: u32, memory: u32) -> Drill {
        Drill::new(&info(0), &DrillSettings { samples, memory })
    }

    #[test]
    fn drill_with_as_many_samples_as_next_hops_takes_the_shortest_queue() {
        let mut ways = Ways::new(4);
        for (way, nanos) in [50_000, 20_000, 30_000, 40_000].into_iter().enumerate() {
            ways.busy_until(way, nanos);
        }
        for samples in [4, 9] {
            let mut drill = drill(samples, 0);
            assert!((0..100).all(|_| drill.choose(&ways.hop(0, 1)) == 1));
        }
    }

    #[test]
    fn drill_remembers_the_shortest_queue() {
        let mut ways = Ways::new(100);
        (0..100).for_each(|way| ways.busy_until(way, 1_000_000));
        ways.busy_until(42, 500_000);
        let (mut with, mut without) = (drill(2, 1), drill(2, 0));
        let takes = |drill: &mut Drill| {
            let mut chosen = (0..1000).map(|_| drill.choose(&ways.hop(0, 1)));
            let first = chosen.position(|c| c == 42).unwrap();
            (first, chosen.filter(|c| *c != 42).count())
        };
        let (_, others) = takes(&mut with);
        assert_eq!(others, 0, "once found, the shortest queue is kept");
        let (_, others) = takes(&mut without);
        assert!(others > 300, "{others}");
    }

    #[test]
    fn drill_takes_the_shorter_queue_of_two_random_next_hops() {
        let mut ways = Ways::new(8);
        (0..8).for_each(|way| ways.busy_until(way, 1_000 * (way as u64 + 1)));
        let mut drill = drill(2, 0);
        let mut count = [0; 8];
        for _ in 0..28_000 {
            count[drill.choose(&ways.hop(0, 1))] += 1;
        }
        // Of the 28 pairs, 7 - n have n as the shorter queue.
        for (way, n) in count.into_iter().enumerate() {
            let expected = 1000 * (7 - way as i32);
            assert!((n - expected).abs() < 320, "{count:?}");
        }
        assert_eq!(count[7], 0);
    }

    #[test]
    fn drill_spreads_packets_evenly_over_idle_next_hops() {
        let ways = Ways::new(8);
        let mut drill = drill(2, 1);
        let mut count = [0; 8];
        for _ in 0..8000 {
            count[drill.choose(&ways.hop(0, 1))] += 1;
        }
        // Mean 1000, standard deviation 30.
        assert!(count.iter().all(|n| (870..1130).contains(n)), "{count:?}");
    }

    #[test]
    fn remembered_next_hop_of_other_destinations_is_not_used() {
        let mut few = Ways::new(2);
        let mut many = Ways::new(4);
        few.busy_until(0, 9_000);
        (0..3).for_each(|way| many.busy_until(way, 9_000));
        let mut drill = drill(4, 1);
        assert_eq!(drill.choose(&many.hop(0, 1)), 3);
        assert_eq!(drill.choose(&few.hop(0, 1)), 1);
    }
}
