//! [`Presto`]: cells of a flow on random paths.

use spindle_units::{Bytes, Duration};

use super::{
    Balancer, Balancing, FORGET_AFTER, Flows, Hop, MOST_FLOWS, NamedBalancing, RandomSpray,
    SwitchInfo,
};

/// "presto" in experiment files and on the command line.
pub(super) const BUILT_IN: NamedBalancing = NamedBalancing {
    name: "presto",
    summary: "each 64 KiB of a flow take any path at random (He et al. 2015, mechanisms A5.11)",
    make: || Balancing::Presto(PrestoSettings::default()),
};

/// Settings of [`Presto`].
#[derive(Clone, Debug, PartialEq)]
pub struct PrestoSettings {
    /// The largest number of bytes on the wire in a cell (default 65 536, the largest segment of TCP
    /// segmentation offload, He et al. 2015, section 3.1; CAPS section III; mechanisms A5.11).
    pub cell: Bytes,
    /// A flow that was idle for longer than this begins a new cell, like a new flow (default [`FORGET_AFTER`]).
    pub forget_after: Duration,
}

impl Default for PrestoSettings {
    fn default() -> Self {
        Self {
            cell: Bytes(65_536),
            forget_after: FORGET_AFTER,
        }
    }
}

/// Presto (He et al. 2015): a flow is divided into cells, and each cell takes a random path, independent of
/// congestion.
///
/// A packet that would make its cell too large is the first packet of the next cell. The two directions of a
/// connection are two flows, so acknowledgements are divided into cells as well. Every switch that has a choice
/// counts the bytes that it sees itself. A switch after the first such switch sees whole cells of the flow, so
/// it divides the flow at the same packets if all packets have the same length and none is lost.
#[derive(Debug)]
pub struct Presto {
    cell: u64,
    spray: RandomSpray,
    flows: Flows<Cell>,
}

/// A flow's current cell.
#[derive(Clone, Copy, Debug)]
struct Cell {
    bytes: u64,
    choice: u32,
}

impl Presto {
    /// Presto with the switch's random stream.
    pub fn new(info: &SwitchInfo, settings: &PrestoSettings) -> Self {
        Self {
            cell: settings.cell.0,
            spray: RandomSpray::new(info),
            flows: Flows::new(settings.forget_after, MOST_FLOWS),
        }
    }
}

impl Balancer for Presto {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        let (choices, len) = (hop.ports.len() as u32, u64::from(hop.wire_len));
        while self.flows.forget_idle(hop.now).is_some() {}
        let Some(cell) = self.flows.see(hop.now, hop.flow_hash) else {
            let choice = self.spray.pick(choices);
            let cell = Cell { bytes: len, choice };
            self.flows.add(hop.now, hop.flow_hash, cell);
            return choice as usize;
        };
        cell.bytes += len;
        if cell.bytes > self.cell {
            let choice = self.spray.pick(choices);
            *cell = Cell { bytes: len, choice };
        }
        cell.choice as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ways, info};
    use super::*;

    /// The lengths of runs with the same choice, for one flow with packets of this length.
    fn runs(presto: &mut Presto, ways: &Ways, flow: u64, (packets, len): (u32, u32)) -> Vec<u32> {
        let mut runs: Vec<(usize, u32)> = Vec::new();
        for packet in 0..packets {
            let wire_len = len;
            let hop = Hop {
                wire_len,
                ..ways.hop(u64::from(packet), flow)
            };
            let choice = presto.choose(&hop);
            match runs.last_mut() {
                Some((last, count)) if *last == choice => *count += 1,
                _ => runs.push((choice, 1)),
            }
        }
        runs.into_iter().map(|(_, count)| count).collect()
    }

    #[test]
    fn cells_are_filled_up_to_the_limit() {
        // With this many next hops two consecutive cells hardly ever take the same.
        let ways = Ways::new(1_000_000);
        let mut presto = Presto::new(&info(0), &PrestoSettings::default());
        // 43 packets of 1500 B are 64 500 B; one more would make 66 000 B.
        assert_eq!(runs(&mut presto, &ways, 1, (100, 1500)), [43, 43, 14]);
        // 64 packets of 1024 B fill a cell exactly.
        assert_eq!(runs(&mut presto, &ways, 2, (130, 1024)), [64, 64, 2]);
        // Acknowledgements are divided into cells, too.
        assert_eq!(runs(&mut presto, &ways, 3, (1639, 40)), [1638, 1]);
    }

    #[test]
    fn cells_use_all_next_hops_evenly_and_belong_to_one_flow() {
        let ways = Ways::new(4);
        let mut presto = Presto::new(&info(0), &PrestoSettings::default());
        let mut count = [0; 4];
        for flow in 0..4000 {
            // Two flows at once: their cells are independent.
            let first = presto.choose(&ways.hop(flow, flow));
            presto.choose(&ways.hop(flow, flow + 10_000));
            assert_eq!(presto.choose(&ways.hop(flow, flow)), first);
            count[first] += 1;
        }
        // Mean 1000, standard deviation 27.
        assert!(count.iter().all(|n| (880..1120).contains(n)), "{count:?}");
    }

    #[test]
    fn flow_idle_for_too_long_begins_a_new_cell() {
        let ways = Ways::new(1_000_000);
        let settings = PrestoSettings {
            forget_after: Duration::from_micros(100),
            ..PrestoSettings::default()
        };
        let mut presto = Presto::new(&info(0), &settings);
        let first = presto.choose(&ways.hop(0, 1));
        assert_eq!(presto.choose(&ways.hop(100, 1)), first);
        assert_ne!(presto.choose(&ways.hop(201, 1)), first);
        assert_eq!(presto.flows.len(), 1);
    }
}
