//! Packet scatter: each segment of a subflow from a source port of its own, so that switches which
//! spread flows by their ports (ECMP) spread its packets over all paths (MMPTCP sections 2.1 and 2.3).
//!
//! The peer finds the connection by the token on the segment ([`spindle_wire::Options::token`]), not by
//! its ports. When a connection scatters, and when it has done with it, is [`ScatterConfig`]'s to say and
//! the connection's to see to (`connection/scatter.rs`).

pub mod topology;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_wire::{Flags, Segment};

use super::{Stage, StageContext};
use crate::config::{Config, EcnMode, LossConfig};
use crate::random::reduce;
use crate::subflow::congestion::CongestionKind;
use topology::Topology;

/// Payload bytes that the initial subflow carries before further ones are opened (MMPTCP section 3:
/// a threshold of 100 KB).
pub const SWITCH_AFTER: u64 = 100_000;

/// Option bytes that a scattered segment has beyond an ordinary one: the token.
pub(crate) const TOKEN_ROOM: u64 = 8;

/// The code point of scattered segments that have priority: Low-Latency Data, AF21 (RFC 4594, section
/// 4.7; RFC 2597).
pub const PRIORITY: u8 = 18;

/// How a connection scatters, and until when.
#[derive(Clone, Debug)]
pub struct ScatterConfig {
    /// When the second phase begins.
    pub switch: Switch,
    /// The source ports drawn from, uniformly, for every transmission. The papers name none: 1024 to
    /// 65535 (mechanisms A3.1). None: segments keep their ports and only have the token, for carriers that
    /// are to vary their own (UDP encapsulation).
    pub ports: Option<RangeInclusive<u16>>,
    /// Bare acknowledgements are scattered as well; otherwise they keep the connection's own ports, and
    /// so one path (mechanisms A3.1).
    pub acks: bool,
    /// Loss detection while scattering.
    pub loss: LossConfig,
    /// What the duplicate-ACK threshold of `loss` becomes.
    pub threshold: Threshold,
    /// What is known of the network between the ends.
    pub topology: Arc<dyn Topology>,
    /// The controller of the initial subflow, which is coupled with none.
    pub congestion: CongestionKind,
    /// Use of ECN by the initial subflow, if not as by the others.
    pub ecn: Option<EcnMode>,
    /// Scattered segments, and the acknowledgements of such, carry [`PRIORITY`], for ports that have a queue
    /// for it (MMPTCP section 4, future work). Only where segments have an IP header of their own: not over UDP.
    pub priority: bool,
    /// Further subflows are opened as there are paths: as many, but no more than the path manager
    /// would, and one where both ends are in one rack (MMPTCP section 2.5, Auto Subflow).
    pub auto_subflows: bool,
}

/// When further subflows are opened, and the initial one is given no new data any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Once so many payload bytes were sent, or received, for the first time and there are more
    /// (MMPTCP section 2.3).
    Bytes(u64),
    /// Once the congestion window has so many bytes and there are more data than it holds (the authors'
    /// code switches by the rate that a window stands for).
    Window(u64),
    /// At the first loss, mark or timeout (the authors' code).
    Congestion,
    /// Never: scatter to the end (MMPTCP's PS).
    Never,
}

/// The duplicate-ACK threshold while scattering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// That of [`ScatterConfig::loss`].
    Fixed,
    /// As much more as there are paths, if more than one: reordering over them is not loss
    /// (MMPTCP section 2.4). Where the topology knows nothing, as [`Threshold::Fixed`].
    Paths {
        /// Paths that the switches spread over at most (ECMP's fan-out: 16 in MMPTCP section 2.4).
        most: u32,
    },
    /// It begins as the fixed one, and what D-SACKs show to have been reordering raises it (RR-TCP, Zhang
    /// et al. 2003: no more than spurious repeats call for).
    Adaptive {
        /// It rises no further.
        most: u32,
    },
}

impl Default for ScatterConfig {
    fn default() -> Self {
        Self {
            switch: Switch::Bytes(SWITCH_AFTER),
            ports: Some(1024..=u16::MAX),
            acks: false,
            loss: LossConfig::default(),
            threshold: Threshold::Paths { most: 16 },
            topology: Arc::new(topology::Unknown),
            congestion: CongestionKind::Reno,
            ecn: None,
            priority: false,
            auto_subflows: false,
        }
    }
}

/// Paths known between two ends, and what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The duplicate-ACK threshold.
    pub(crate) threshold: u32,
    /// Subflows of the second phase, if the number of paths says.
    pub(crate) subflows: Option<usize>,
}

impl ScatterConfig {
    /// [`LossConfig::reordering`] while scattering.
    pub(crate) fn reordering(&self) -> Option<u32> {
        match self.threshold {
            Threshold::Adaptive { most } => Some(most),
            Threshold::Fixed | Threshold::Paths { .. } => self.loss.reordering,
        }
    }

    /// The configuration of the initial subflow as it is opened, where `config` is the connection's.
    pub(crate) fn opening(&self, config: &Arc<Config>) -> Arc<Config> {
        let Some(ecn) = self.ecn.filter(|e| *e != config.tcp.ecn) else {
            return config.clone();
        };
        let mut own = Config::clone(config);
        own.tcp.ecn = ecn;
        Arc::new(own)
    }

    /// What holds between these ends.
    pub(crate) fn reach(&self, local: std::net::IpAddr, remote: std::net::IpAddr) -> Reach {
        let paths = self.topology.paths(local, remote);
        let base = self.loss.dupack_threshold;
        let threshold = match (self.threshold, paths) {
            (Threshold::Paths { most }, Some(n)) if n > 1 => base.saturating_add(n.min(most)),
            _ => base,
        };
        let subflows = paths
            .filter(|_| self.auto_subflows)
            .map(|n| (n as usize).max(1));
        Reach {
            threshold,
            subflows,
        }
    }
}

/// The stage of a subflow that scatters.
#[derive(Debug)]
pub(crate) struct Scatter {
    token: NonZeroU32,
    /// The first of the ports, and how many there are.
    ports: Option<(u16, u64)>,
    acks: bool,
    dscp: u8,
    rng: Xoshiro256PlusPlus,
}

impl Scatter {
    /// Scatters towards the peer whose token this is.
    pub(crate) fn new(config: &ScatterConfig, token: NonZeroU32, seed: u64) -> Self {
        let ports = config.ports.as_ref().map(|range| {
            let (first, last) = (*range.start(), *range.end());
            (first, u64::from(last.saturating_sub(first)) + 1)
        });
        Self {
            token,
            ports,
            acks: config.acks,
            dscp: if config.priority { PRIORITY } else { 0 },
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Handshakes, the close, and what carries rare options, for which there would be no room, keep to
    /// the subflow's own ports.
    fn takes(&self, segment: &Segment) -> bool {
        let plain = !segment
            .flags
            .intersects(Flags::SYN | Flags::FIN | Flags::RST);
        plain && segment.options.rare.is_none() && (self.acks || !segment.payload.is_empty())
    }
}

impl Stage for Scatter {
    fn output(&mut self, _cx: &StageContext, mut segment: Segment, out: &mut VecDeque<Segment>) {
        segment.dscp = self.dscp;
        if self.takes(&segment) {
            segment.options.token = Some(self.token);
            // Bare acknowledgements had not reserved the room.
            let left_out = segment.options.fit();
            debug_assert!(left_out.dss.is_none(), "only SACK blocks make way");
            if let Some((first, count)) = self.ports {
                segment.src.port = first + reduce(self.rng.next_u64(), count) as u16;
            }
        }
        out.push_back(segment);
    }

    fn sees_input(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_wire::{Endpoint, Payload};
    use std::net::IpAddr;

    const TOKEN: NonZeroU32 = NonZeroU32::MIN;
    const CX: StageContext = StageContext {
        now: spindle_units::Instant::ZERO,
        cwnd: 0,
        mss: 1,
        dscp: 0,
    };

    fn segment(payload: usize) -> Segment {
        let end = |n: u8, port| Endpoint::new(IpAddr::from([10, 0, 0, n]), port);
        let mut seg = Segment::new(end(1, 4000), end(2, 80));
        seg.payload = Payload::Length(payload as u32);
        seg
    }

    fn scattered(config: &ScatterConfig, seg: Segment) -> Segment {
        let mut out = VecDeque::new();
        Scatter::new(config, TOKEN, 7).output(&CX, seg, &mut out);
        assert_eq!(out.len(), 1);
        out.remove(0).expect("one")
    }

    #[test]
    fn data_leave_from_ports_of_the_range_with_the_token_and_nothing_else_does() {
        let config = ScatterConfig {
            ports: Some(2000..=2003),
            ..ScatterConfig::default()
        };
        let mut stage = Scatter::new(&config, TOKEN, 7);
        let mut out = VecDeque::new();
        (0..4000).for_each(|_| stage.output(&CX, segment(1), &mut out));
        for port in 2000..=2003 {
            let of = out.iter().filter(|s| s.src.port == port).count();
            assert!((900..1100).contains(&of), "{port}: {of}");
        }
        assert!(out.iter().all(|s| s.options.token == Some(TOKEN)));
        assert!(out.iter().all(|s| s.dst.port == 80));
        assert_eq!(scattered(&config, segment(0)), segment(0));
        for flags in [Flags::SYN, Flags::FIN, Flags::RST] {
            let mut seg = segment(1);
            seg.flags = flags;
            assert_eq!(scattered(&config, seg.clone()), seg, "{flags:?}");
        }
        let mut keys = segment(1);
        keys.options.rare_mut().mp_fail = Some(1);
        assert_eq!(scattered(&config, keys.clone()), keys);
    }

    #[test]
    fn a_carrier_with_ports_of_its_own_sees_by_the_token_what_to_scatter() {
        let config = ScatterConfig {
            ports: None,
            ..ScatterConfig::default()
        };
        let sent = scattered(&config, segment(1));
        assert_eq!(
            (sent.src, sent.options.token),
            (segment(1).src, Some(TOKEN))
        );
    }

    #[test]
    fn what_the_first_subflow_sends_may_have_priority() {
        let config = ScatterConfig {
            priority: true,
            ..ScatterConfig::default()
        };
        assert_eq!(scattered(&config, segment(1)).dscp, PRIORITY);
        assert_eq!(scattered(&config, segment(0)).dscp, PRIORITY);
        assert_eq!(scattered(&ScatterConfig::default(), segment(1)).dscp, 0);
    }

    #[test]
    fn acknowledgements_go_along_where_asked_for_and_give_up_sack_blocks_for_it() {
        let config = ScatterConfig {
            acks: true,
            ..ScatterConfig::default()
        };
        let mut ack = segment(0);
        for k in 0..4 {
            let at = spindle_wire::SeqNumber(k * 10);
            ack.options.sack.push(at, at + 1);
        }
        let ack = scattered(&config, ack);
        assert_eq!(ack.options.token, Some(TOKEN));
        assert_eq!(ack.options.sack.len(), 3);
    }

    #[test]
    fn thresholds_follow_the_paths_as_in_the_paper() {
        #[derive(Debug)]
        struct Paths(Option<u32>);
        impl Topology for Paths {
            fn paths(&self, _: IpAddr, _: IpAddr) -> Option<u32> {
                self.0
            }
        }
        let of = |paths, threshold, auto_subflows| {
            let config = ScatterConfig {
                topology: Arc::new(Paths(paths)),
                threshold,
                auto_subflows,
                ..ScatterConfig::default()
            };
            let end = IpAddr::from([10, 0, 0, 1]);
            let r = config.reach(end, end);
            (r.threshold, r.subflows)
        };
        // MMPTCP section 2.4, for a fat-tree of 8-port switches.
        let paths = Threshold::Paths { most: 16 };
        assert_eq!(of(Some(1), paths, true), (3, Some(1)));
        assert_eq!(of(Some(4), paths, true), (7, Some(4)));
        assert_eq!(of(Some(16), paths, true), (19, Some(16)));
        assert_eq!(of(Some(64), paths, false), (19, None));
        assert_eq!(of(None, paths, true), (3, None));
        assert_eq!(of(Some(16), Threshold::Fixed, false), (3, None));
    }
}
