//! What a connection on a real wire is made of.

use spindle_mptcp::{Config, Keepalive, PathManager, for_unmodified_receivers};
use spindle_units::Duration;

use crate::limits::Limits;

/// What carries the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Standard packets through a TUN device, towards peers that nobody changed.
    Tun,
    /// UDP encapsulation between two Spindles.
    Udp,
}

/// The largest burst that an IP packet of 65 535 bytes holds; each link lowers it to its own.
const BURST: u32 = 65_435;
/// The largest MSS; each link lowers it to its own.
const MSS: u32 = 65_495;
/// Delay of acknowledgements: Linux's least (TCP_DELACK_MIN).
const DELAYED_ACK: Duration = Duration::from_millis(40);
/// Floor of the retransmission timeout: Linux's (TCP_RTO_MIN).
const MIN_RTO: Duration = Duration::from_millis(200);
/// A relay holds a socket at its other side for each connection, so it looks sooner than Linux
/// (2 h) whether the peer is still there; the number of probes is Linux's, tcp_keepalive_probes.
const KEEPALIVE: Keepalive = Keepalive {
    idle: Duration::from_secs(300),
    interval: Duration::from_secs(30),
    probes: 9,
};
/// How long data may stay unacknowledged (RFC 9293, section 3.8.3: 5 min).
const USER_TIMEOUT: Duration = Duration::from_secs(300);
/// TIME_WAIT of 60 s in all, as Linux has it (TCP_TIMEWAIT_LEN).
const MSL: Duration = Duration::from_secs(30);

/// The configuration of a gateway's or connect's connections: the only place where it is made.
///
/// The transport's preset says what it is made of: congestion control, loss detection (RACK, TLP),
/// scheduler, proactive recovery. What belongs to the scenario is set here to what suits a wire:
/// 200 ms least RTO, timestamps, SACK and window scaling, acknowledgements delayed by 40 ms (which
/// probes for a lost tail allow for), bursts and MSS as large as the link takes, buffers that grow up
/// to the limits, keepalive and user timeout. Over TUN the peer's receiver may be anyone's, so recovery sends what such a receiver
/// needs. `paths` is how this end opens subflows: [`PathManager::Passive`] for a gateway.
pub fn wire_config(preset: Config, kind: LinkKind, limits: &Limits, paths: PathManager) -> Config {
    let mut config = match kind {
        LinkKind::Tun => for_unmodified_receivers(preset),
        LinkKind::Udp => preset,
    };
    let tcp = &mut config.tcp;
    tcp.mss = MSS;
    tcp.burst = BURST;
    tcp.min_rto = MIN_RTO;
    tcp.timestamps = true;
    tcp.sack = true;
    tcp.window_scaling = true;
    tcp.delayed_ack = Some(DELAYED_ACK);
    tcp.send_buffer = limits.buffer();
    tcp.receive_buffer = limits.buffer();
    tcp.autotune = true;
    tcp.keepalive = Some(KEEPALIVE);
    tcp.user_timeout = USER_TIMEOUT;
    tcp.msl = MSL;
    if let Some(probe) = &mut config.loss.tail_loss_probe {
        probe.max_ack_delay = DELAYED_ACK;
    }
    if let Some(m) = &mut config.multipath {
        m.path_manager = paths;
    }
    config
}
