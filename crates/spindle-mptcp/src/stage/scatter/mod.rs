//! Packet scatter: each segment of a subflow has its own source port, so that switches that spread flows by
//! their ports (ECMP) spread its packets over all paths (MMPTCP sections 2.1 and 2.3).
//!
//! The peer finds the connection by the token on the segment ([`spindle_wire::Options::token`]), not by its
//! ports. [`ScatterConfig`] states when a connection scatters and when it stops. The connection implements this
//! (`connection/extensions/packet_scatter.rs`).

pub mod topology;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_wire::{Flags, Packet, Segment};

use super::{Stage, StageContext};
use crate::congestion::{ControllerFactory, Reno};
use crate::random::reduce;
use crate::tcp_config::{EcnMode, LossConfig};
use topology::Topology;

/// Payload bytes that the initial subflow carries before further ones are opened (MMPTCP section 3:
/// a threshold of 100 KB).
pub const SWITCH_AFTER: u64 = 100_000;

/// The code point of scattered segments that have priority: Low-Latency Data, AF21 (RFC 4594, section
/// 4.7; RFC 2597).
pub const PRIORITY: u8 = 18;

/// How a connection scatters, and until when.
#[derive(Clone, Debug)]
pub struct ScatterConfig {
    /// When the second phase begins.
    pub switch: PhaseSwitch,
    /// The range from which a source port is drawn uniformly for every transmission. The papers name none: 1024
    /// to 65535 (mechanisms A3.1). With `None`, segments keep their ports and only have the token, for carriers
    /// that vary their own ports (UDP encapsulation).
    pub ports: Option<RangeInclusive<u16>>,
    /// Whether bare acknowledgements are scattered as well. Otherwise they keep the connection's own ports, and
    /// so one path (mechanisms A3.1).
    pub acks: bool,
    /// Loss detection while scattering.
    pub loss: LossConfig,
    /// How the duplicate-ACK threshold of `loss` is adapted.
    pub threshold: Threshold,
    /// What is known about the network between the ends.
    pub topology: Arc<dyn Topology>,
    /// The controller of the initial subflow, which is not coupled with the others.
    pub congestion: Arc<dyn ControllerFactory>,
    /// Use of ECN by the initial subflow, if it differs from the other subflows.
    pub ecn: Option<EcnMode>,
    /// Scattered segments and their acknowledgements carry [`PRIORITY`], for ports that have a queue for it
    /// (MMPTCP section 4, future work). This needs segments with their own IP header: it has no effect over
    /// UDP.
    pub priority: bool,
    /// The number of further subflows depends on the number of paths: as many subflows as paths, but no more
    /// than the path manager plans, and one if both ends are in one rack (MMPTCP section 2.5, Auto Subflow).
    pub auto_subflows: bool,
}

/// When further subflows are opened and the initial subflow gets no more new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseSwitch {
    /// Once this many payload bytes were sent, or received, for the first time and there are more (MMPTCP
    /// section 2.3).
    Bytes(u64),
    /// Once the congestion window has this many bytes and there are more data than it holds (the authors' code
    /// switches by the rate that a window stands for).
    Window(u64),
    /// At the first loss, mark or timeout (the authors' code).
    Congestion,
    /// Never: the connection scatters to its end (MMPTCP's PS).
    Never,
}

/// The duplicate-ACK threshold while scattering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// The threshold of [`ScatterConfig::loss`].
    Fixed,
    /// The fixed threshold plus the number of paths, if there is more than one path: reordering over them is
    /// not loss (MMPTCP section 2.4). If the topology does not know the number, this is [`Threshold::Fixed`].
    Paths {
        /// Most paths that switches spread packets over (ECMP's fan-out: 16 in MMPTCP section 2.4).
        most: u32,
    },
    /// The threshold begins as the fixed one. Reordering that D-SACKs reveal raises it (RR-TCP, Zhang et al.
    /// 2003: no more than spurious retransmissions require).
    Adaptive {
        /// The upper limit of the threshold.
        most: u32,
    },
}

impl Default for ScatterConfig {
    fn default() -> Self {
        Self {
            switch: PhaseSwitch::Bytes(SWITCH_AFTER),
            ports: Some(1024..=u16::MAX),
            acks: false,
            loss: LossConfig::default(),
            threshold: Threshold::Paths { most: 16 },
            topology: Arc::new(topology::Unknown),
            congestion: Arc::new(Reno),
            ecn: None,
            priority: false,
            auto_subflows: false,
        }
    }
}

/// What follows from the paths that are known between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The duplicate-ACK threshold.
    pub(crate) threshold: u32,
    /// Subflows of the second phase, if the number of paths determines it.
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

    /// What follows from the paths between these ends.
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
    /// The first of the ports, and the number of ports.
    ports: Option<(u16, u64)>,
    acks: bool,
    dscp: u8,
    rng: Xoshiro256PlusPlus,
}

impl Scatter {
    /// Makes a stage that scatters towards the peer with this token.
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

    /// Whether a segment is scattered. Segments of handshake and close, and segments with rare options, which
    /// leave no room for the token, keep the subflow's own ports.
    fn takes(&self, segment: &Segment) -> bool {
        let plain = !segment
            .flags
            .intersects(Flags::SYN | Flags::FIN | Flags::RST);
        plain && segment.options.rare.is_none() && (self.acks || !segment.payload.is_empty())
    }
}

impl Stage for Scatter {
    fn output(&mut self, _cx: &StageContext, mut segment: Segment, out: &mut VecDeque<Packet>) {
        segment.dscp = self.dscp;
        if self.takes(&segment) {
            segment.options.token = Some(self.token);
            // Bare acknowledgements did not reserve room for the token.
            let left_out = segment.options.fit();
            debug_assert!(left_out.dss.is_none(), "only SACK blocks make way");
            if let Some((first, count)) = self.ports {
                segment.src.port = first + reduce(self.rng.next_u64(), count) as u16;
            }
        }
        out.push_back(Packet::Tcp(segment));
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
        let packet = out.pop_front().expect("a packet");
        packet.into_tcp().expect("a TCP segment")
    }

    #[test]
    fn only_plain_data_are_scattered_over_the_ports_with_the_token() {
        let config = ScatterConfig {
            ports: Some(2000..=2003),
            ..ScatterConfig::default()
        };
        let mut stage = Scatter::new(&config, TOKEN, 7);
        let mut out = VecDeque::new();
        (0..4000).for_each(|_| stage.output(&CX, segment(1), &mut out));
        let out: Vec<Segment> = out.into_iter().filter_map(Packet::into_tcp).collect();
        assert_eq!(out.len(), 4000);
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
    fn segments_keep_their_port_and_carry_the_token_without_a_port_range() {
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
    fn priority_marks_scattered_data_and_acknowledgements() {
        let config = ScatterConfig {
            priority: true,
            ..ScatterConfig::default()
        };
        assert_eq!(scattered(&config, segment(1)).dscp, PRIORITY);
        assert_eq!(scattered(&config, segment(0)).dscp, PRIORITY);
        assert_eq!(scattered(&ScatterConfig::default(), segment(1)).dscp, 0);
    }

    #[test]
    fn scattered_acknowledgements_give_up_sack_blocks_for_the_token() {
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
    fn duplicate_ack_thresholds_follow_the_number_of_paths() {
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
