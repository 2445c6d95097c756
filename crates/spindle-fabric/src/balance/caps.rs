//! [`Caps`]: the routing of CAPS.

use rand_core::Rng;
use spindle_units::{Bytes, Duration, Instant};

use super::{
    Balancer, Balancing, Ecmp, FORGET_AFTER, Flows, Hop, MOST_FLOWS, NamedBalancing, RandomSpray,
    SwitchInfo,
};
use crate::Class;

/// "caps" in experiment files and on the command line.
pub(super) const BUILT_IN: NamedBalancing = NamedBalancing {
    name: "caps",
    summary: "each packet takes any path at random, but packets of long flows stay on the path of \
              ECMP while there are short flows; each switch checks this every 500 us (CAPS section \
              V, mechanisms A4.2)",
    make: || Balancing::Caps(CapsSettings::default()),
};

/// "caps-dark" in experiment files and on the command line.
pub(super) const BUILT_IN_DARK: NamedBalancing = NamedBalancing {
    name: "caps-dark",
    summary: "like caps, but without knowledge of which flows are long: a flow is long once a switch \
              has seen 100 KB of it (CAPS section VII, mechanisms A4.1)",
    make: || Balancing::Caps(CapsSettings::dark()),
};

/// How [`Caps`] distinguishes short flows from long ones (mechanisms A4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Classes {
    /// The sender indicates it: a packet of [`Class::High`] belongs to a short flow.
    #[default]
    Known,
    /// The sender does not indicate it. The switch counts each flow's data, and a flow is short until the data
    /// exceed a limit (CAPS section VII, "CAPS_dark").
    Dark,
}

/// Settings of [`Caps`].
#[derive(Clone, Debug, PartialEq)]
pub struct CapsSettings {
    /// Length of the intervals, above zero (default 500 us; CAPS, Algorithm 1).
    pub interval: Duration,
    /// How flows are classified (default [`Classes::Known`]).
    pub classes: Classes,
    /// In dark mode a flow is long once the switch has seen this many bytes of it in packets with data. The
    /// current packet and all headers count (default 100 KB; CAPS section III-A, Algorithm 1).
    pub long_from: Bytes,
    /// In dark mode a flow that was idle for longer than this is a new flow (default [`FORGET_AFTER`]).
    pub forget_after: Duration,
}

impl Default for CapsSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_micros(500),
            classes: Classes::default(),
            long_from: Bytes(100_000),
            forget_after: FORGET_AFTER,
        }
    }
}

impl CapsSettings {
    /// The settings of CAPS_dark.
    pub fn dark() -> Self {
        Self {
            classes: Classes::Dark,
            ..Self::default()
        }
    }
}

/// The routing of CAPS (Hu et al., Algorithm 1; mechanisms A4.2). All packets are sprayed, except that packets
/// of long flows stay on ECMP's path while there are short flows.
///
/// Time is divided into intervals. Each switch has its own phase. The mode is ON during an interval if at least
/// one data packet of a short flow had a choice at this switch in the previous interval. Otherwise, and at the
/// start, it is OFF. In ON, long flows use ECMP over all next hops. In OFF, they are sprayed. Acknowledgements
/// are routed like their flow, but do not affect the mode.
///
/// In dark mode a flow consists of the two directions of a connection, identified by [`Hop::flow_key`]. Its
/// data count at every switch that they pass, even if they have only one next hop there. Otherwise the switch
/// that sprays the acknowledgements would not know about the data. A switch that the data do not pass treats
/// the acknowledgements as those of a short flow.
#[derive(Debug)]
pub struct Caps {
    timer: Timer,
    long_from: u64,
    ecmp: Ecmp,
    spray: RandomSpray,
    /// In dark mode: the bytes of each flow.
    counts: Option<Flows<u64>>,
}

impl Caps {
    /// CAPS with the switch's salt and random stream.
    pub fn new(info: &SwitchInfo, settings: &CapsSettings) -> Self {
        let interval = settings.interval.as_nanos().max(1);
        let mut rng = info.rng();
        // Uniform from 0 to below the interval.
        let phase = (u128::from(rng.next_u64()) * u128::from(interval)) >> 64;
        let forget_after = settings.forget_after;
        let counts =
            (settings.classes == Classes::Dark).then(|| Flows::new(forget_after, MOST_FLOWS));
        Self {
            timer: Timer::new(interval, phase as u64),
            long_from: settings.long_from.0,
            ecmp: Ecmp::new(info),
            spray: RandomSpray::from(rng),
            counts,
        }
    }

    /// Whether a packet's flow is long, including that packet.
    fn is_long(&mut self, hop: &Hop<'_>) -> bool {
        let Some(counts) = &mut self.counts else {
            return hop.class == Class::Low;
        };
        while counts.forget_idle(hop.now).is_some() {}
        let bytes = if hop.is_data {
            u64::from(hop.wire_len)
        } else {
            0
        };
        match counts.see(hop.now, hop.flow_key) {
            Some(count) => {
                *count = count.saturating_add(bytes);
                *count >= self.long_from
            }
            None => {
                counts.add(hop.now, hop.flow_key, bytes);
                bytes >= self.long_from
            }
        }
    }
}

impl Balancer for Caps {
    fn choose(&mut self, hop: &Hop<'_>) -> usize {
        let choices = hop.ports.len() as u32;
        let is_long = self.is_long(hop);
        let is_on = self.timer.is_on(hop.now);
        if !is_long && hop.is_data {
            self.timer.short_seen = true;
        }
        let choice = match is_long && is_on {
            true => self.ecmp.pick(hop.flow_hash, choices),
            false => self.spray.pick(choices),
        };
        choice as usize
    }

    fn sees_passing(&self) -> bool {
        self.counts.is_some()
    }

    fn passes(&mut self, hop: &Hop<'_>) {
        self.is_long(hop);
    }
}

/// The mode, derived from the packets of the previous interval.
#[derive(Debug)]
struct Timer {
    interval: u64,
    /// When the current interval ends. That instant belongs to the next interval.
    end: u64,
    is_on: bool,
    short_seen: bool,
}

impl Timer {
    /// A timer in OFF whose current interval ends at `phase`.
    fn new(interval: u64, phase: u64) -> Self {
        Self {
            interval,
            end: phase,
            is_on: false,
            short_seen: false,
        }
    }

    /// Whether the mode is ON at this time. Must be called with ascending times.
    #[inline]
    fn is_on(&mut self, now: Instant) -> bool {
        let now = now.as_nanos();
        if now >= self.end {
            let silent = (now - self.end) / self.interval;
            self.is_on = self.short_seen && silent == 0;
            self.short_seen = false;
            let passed = (silent + 1).saturating_mul(self.interval);
            self.end = self.end.saturating_add(passed);
        }
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ways, info};
    use super::*;

    /// A CAPS balancer whose intervals begin at 100 us, 600 us and so on.
    fn caps(settings: &CapsSettings) -> Caps {
        let mut caps = Caps::new(&info(0), settings);
        caps.timer = Timer::new(500_000, 100_000);
        caps
    }

    #[test]
    fn short_packet_turns_the_mode_on_for_the_next_interval() {
        let ways = Ways::new(4);
        let mut caps = caps(&CapsSettings::default());
        let mut mode = |micros: u64, short: bool| {
            let hop = match short {
                true => ways.short(micros, 1),
                false => ways.hop(micros, 2),
            };
            caps.choose(&hop);
            caps.timer.is_on
        };
        // A short packet at the very end of the first interval, one at the very end of the third.
        assert!(!mode(0, false));
        assert!(!mode(99, true));
        assert!(mode(100, false), "the boundary is in the next interval");
        assert!(mode(599, false));
        assert!(!mode(600, false), "no short packet since 100");
        assert!(!mode(1099, true));
        assert!(mode(1100, true));
        assert!(mode(1600, false), "a short packet at 1100");
        assert!(!mode(2100, true));
        // The interval from 2600 would be ON, but has no packet itself, so that the interval from 3100 is not
        // ON.
        assert!(!mode(3100, true));
        assert!(mode(3600, true));
        assert!(!mode(1_000_000, false), "long silence");
    }

    #[test]
    fn acknowledgements_do_not_change_the_mode() {
        let ways = Ways::new(4);
        let mut caps = caps(&CapsSettings::default());
        let ack = Hop {
            is_data: false,
            wire_len: 40,
            ..ways.short(50, 1)
        };
        caps.choose(&ack);
        caps.choose(&ways.hop(100, 2));
        assert!(!caps.timer.is_on);
    }

    #[test]
    fn long_flows_stay_on_ecmps_path_only_in_on() {
        let ways = Ways::new(8);
        let mut caps = caps(&CapsSettings::default());
        let ecmp = Ecmp::new(&info(0)).pick(77, 8) as usize;
        let mut off = [0; 8];
        for _ in 0..8000 {
            off[caps.choose(&ways.hop(0, 77))] += 1;
        }
        // Mean 1000, standard deviation 30.
        assert!(off.iter().all(|n| (870..1130).contains(n)), "{off:?}");
        let mut shorts = [0; 8];
        for _ in 0..8000 {
            shorts[caps.choose(&ways.short(50, 5))] += 1;
        }
        let mut on = [0; 8];
        for _ in 0..1000 {
            on[caps.choose(&ways.hop(100, 77))] += 1;
            shorts[caps.choose(&ways.short(100, 5))] += 1;
        }
        assert_eq!(on[ecmp], 1000);
        assert!(shorts.iter().all(|n| (980..1270).contains(n)), "{shorts:?}");
    }

    #[test]
    fn each_switch_has_its_own_phase() {
        let phase = |switch| Caps::new(&info(switch), &CapsSettings::default()).timer.end;
        let phases: Vec<u64> = (0..100).map(phase).collect();
        let sum: u64 = phases.iter().sum();
        assert!(phases.iter().all(|p| *p < 500_000));
        assert!((20_000_000..30_000_000).contains(&sum), "{sum}");
        assert_eq!(phases, (0..100).map(phase).collect::<Vec<_>>());
    }

    #[test]
    fn dark_flow_is_long_from_its_100th_kilobyte() {
        let ways = Ways::new(4);
        let mut caps = caps(&CapsSettings::dark());
        let ack = |flow| Hop {
            is_data: false,
            wire_len: 40,
            ..ways.hop(0, flow)
        };
        // The tag is ignored; 99 packets of 1000 B are too few.
        for _ in 0..99 {
            assert!(!caps.is_long(&ways.hop(0, 1)));
        }
        for _ in 0..100 {
            assert!(!caps.is_long(&ack(1)), "acknowledgements are not data");
        }
        assert!(caps.is_long(&ways.short(0, 1)), "the packet itself counts");
        assert!(caps.is_long(&ack(1)), "ACKs belong to their flow");
        assert!(!caps.is_long(&ways.hop(0, 2)), "another flow");
        // Data count even if there is only one next hop.
        assert!(caps.sees_passing());
        (0..99).for_each(|_| caps.passes(&ways.hop(0, 2)));
        assert!(caps.is_long(&ack(2)));
        // After 10 s of silence it is a new flow.
        assert!(caps.is_long(&ways.hop(10_000_000, 2)));
        assert!(!caps.is_long(&ways.hop(20_000_001, 2)));
    }

    #[test]
    fn only_data_of_short_dark_flows_turn_the_mode_on() {
        let ways = Ways::new(4);
        let settings = CapsSettings {
            long_from: Bytes(2000),
            ..CapsSettings::dark()
        };
        let mut caps = caps(&settings);
        caps.choose(&ways.hop(0, 1));
        caps.choose(&ways.hop(100, 1));
        assert!(caps.timer.is_on, "turned on by its first packet");
        caps.choose(&ways.hop(600, 1));
        assert!(!caps.timer.is_on, "the second packet made the flow long");
        // Data with only one next hop do not compete for the other paths.
        caps.passes(&ways.hop(700, 2));
        caps.choose(&ways.hop(1100, 1));
        assert!(!caps.timer.is_on);
    }
}
