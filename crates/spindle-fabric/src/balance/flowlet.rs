//! [`Flowlet`]: flowlet switching.

use spindle_units::Duration;

use super::{Balancer, Balancing, Flows, Hop, MOST_FLOWS, NamedBalancing, RandomSpray, SwitchInfo};

/// "flowlet" in experiment files and on the command line.
pub(super) const BUILT_IN: NamedBalancing = NamedBalancing {
    name: "flowlet",
    summary: "a flow that pauses for 500 us takes any path at random (LetFlow, Vanini et al. 2017)",
    make: || Balancing::Flowlet(FlowletSettings::default()),
};

/// Settings of [`Flowlet`].
#[derive(Clone, Debug, PartialEq)]
pub struct FlowletSettings {
    /// A flow takes a new path after a gap longer than this (default 500 us, the default T_fl of CONGA,
    /// Alizadeh et al. 2014).
    pub timeout: Duration,
}

impl Default for FlowletSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_micros(500),
        }
    }
}

/// Flowlets as in LetFlow (Vanini et al. 2017). A flow that pauses for longer than the timeout continues on a
/// path drawn at random. Earlier packets have left the network by then, so no packet is overtaken. Flows pause
/// more often on busy paths, so they end up on idle ones. The two directions of a connection are two flows.
#[derive(Debug)]
pub struct Flowlet {
    spray: RandomSpray,
    /// The choice of each flow that is within a flowlet.
    flows: Flows<u32>,
}

impl Flowlet {
    /// Flowlets with the switch's random stream.
    pub fn new(info: &SwitchInfo, settings: &FlowletSettings) -> Self {
        Self {
            spray: RandomSpray::new(info),
            flows: Flows::new(settings.timeout, MOST_FLOWS),
        }
    }
}

impl Balancer for Flowlet {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        while self.flows.forget_idle(hop.now).is_some() {}
        if let Some(choice) = self.flows.see(hop.now, hop.flow_hash) {
            return *choice as usize;
        }
        let choice = self.spray.pick(hop.ports.len() as u32);
        self.flows.add(hop.now, hop.flow_hash, choice);
        choice as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ways, info};
    use super::*;

    #[test]
    fn gap_longer_than_the_timeout_changes_the_path() {
        let ways = Ways::new(1_000_000);
        let mut flowlet = Flowlet::new(&info(0), &FlowletSettings::default());
        let mut at = |micros, flow| flowlet.choose(&ways.hop(micros, flow));
        let first = at(0, 1);
        let other = at(0, 2);
        assert_ne!(first, other);
        // Each packet restarts the timeout. A gap of exactly the timeout is not long enough.
        for micros in [100, 600, 1100] {
            assert_eq!(at(micros, 1), first);
        }
        // The other flow has been silent since 0.
        assert_ne!(at(1100, 2), other);
        let second = at(1601, 1);
        assert_ne!(second, first);
        assert_eq!(at(1602, 1), second);
    }

    #[test]
    fn flowlets_use_all_next_hops_evenly() {
        let ways = Ways::new(4);
        let mut flowlet = Flowlet::new(&info(3), &FlowletSettings::default());
        let mut count = [0; 4];
        for n in 0..4000 {
            count[flowlet.choose(&ways.hop(n * 501, 7))] += 1;
        }
        assert!(count.iter().all(|n| (880..1120).contains(n)), "{count:?}");
        assert_eq!(flowlet.flows.len(), 1);
    }
}
