//! What a connection on a real wire is made of.

use std::net::IpAddr;
use std::sync::Arc;

use spindle_mptcp::stage::coding::{Destinations, Networks};
use spindle_mptcp::{Config, Keepalive, PathManager, for_unmodified_receivers};
use spindle_units::Duration;

use crate::limits::Limits;
use crate::udp::is_virtual;

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
/// (2 h) whether the peer is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);
/// Time between keepalive probes, at most.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How long data may stay unacknowledged (RFC 9293, section 3.8.3: 5 min).
const USER_TIMEOUT: Duration = Duration::from_secs(300);
/// The wait for a peer's FIN after all was closed and acknowledged: Linux's (tcp_fin_timeout).
const FIN_TIMEOUT: Duration = Duration::from_secs(60);
/// TIME_WAIT of 60 s in all, as Linux has it (TCP_TIMEWAIT_LEN).
const MSL: Duration = Duration::from_secs(30);

/// In which the share of blocked packets is taken anew, where some are coded: CAPS section IX-C has two round
/// trips without a queue, and those of a site are some milliseconds (our choice).
const CODING_PERIOD: Duration = Duration::from_millis(10);

/// Who is reached by the same paths: the peers of one network, but each client of a server over UDP for
/// itself, since the addresses that the server's stack knows them by say nothing of where they are.
#[derive(Debug)]
struct Outside;

impl Destinations for Outside {
    fn of(&self, peer: IpAddr) -> u128 {
        match peer {
            IpAddr::V6(a) if is_virtual(peer) => a.to_bits(),
            _ => Networks.of(peer),
        }
    }
}

/// Keepalive probes that begin once nothing has come for `idle`, every 30 s, or every `idle` where that is
/// shorter; as many as Linux sends (`tcp_keepalive_probes`).
pub fn keepalive_after(idle: Duration) -> Keepalive {
    Keepalive {
        idle,
        interval: idle.min(KEEPALIVE_INTERVAL),
        ..Keepalive::default()
    }
}

/// The configuration of a gateway's or connect's connections: the only place where it is made.
///
/// The transport's preset says what it is made of: congestion control, loss detection (RACK, TLP),
/// scheduler, proactive recovery. What belongs to the scenario is set here to what suits a wire:
/// 200 ms least RTO, timestamps, SACK and window scaling, acknowledgements delayed by 40 ms (which
/// probes for a lost tail allow for), bursts and MSS as large as the link takes, pacing, buffers that
/// grow up to the limits, keepalive and user timeout. Without pacing a whole congestion window leaves at
/// once when the peer's window opens again after a hole, and overflows a queue.
///
/// Over TUN segments shrink where a path swallows full ones, and the peer's receiver may be anyone's, so
/// recovery sends what such a receiver needs, and nothing is coded: only UDP carries that. `paths` is how
/// this end opens subflows: [`PathManager::Passive`] for a gateway.
pub fn wire_config(preset: Config, kind: LinkKind, limits: &Limits, paths: PathManager) -> Config {
    let mut config = match kind {
        LinkKind::Tun => for_unmodified_receivers(preset),
        LinkKind::Udp => preset,
    };
    // Over UDP the link itself finds out what passes.
    config.tcp.mtu_probing = kind == LinkKind::Tun;
    match kind {
        LinkKind::Tun => config.coding = None,
        LinkKind::Udp => {
            if let Some(coding) = &mut config.coding {
                let settings = Arc::make_mut(coding);
                (settings.sampling.period, settings.destinations) =
                    (CODING_PERIOD, Arc::new(Outside));
            }
        }
    }
    let tcp = &mut config.tcp;
    tcp.mss = MSS;
    tcp.burst = BURST;
    tcp.pacing = true;
    tcp.min_rto = MIN_RTO;
    tcp.timestamps = true;
    tcp.sack = true;
    tcp.window_scaling = true;
    tcp.delayed_ack = Some(DELAYED_ACK);
    tcp.send_buffer = limits.buffer();
    tcp.receive_buffer = limits.buffer();
    tcp.autotune = true;
    tcp.keepalive = Some(keepalive_after(KEEPALIVE_IDLE));
    tcp.user_timeout = USER_TIMEOUT;
    tcp.persist_timeout = limits.persist_timeout.map(Duration::from);
    tcp.fin_timeout = FIN_TIMEOUT;
    tcp.msl = MSL;
    if let Some(probe) = &mut config.loss.tail_loss_probe {
        probe.max_ack_delay = DELAYED_ACK;
    }
    if let Some(m) = &mut config.multipath {
        m.path_manager = paths;
        // Over UDP the other end is a Spindle, which joins again by itself.
        m.announce_again = kind == LinkKind::Tun;
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_mptcp::preset;

    fn coded(kind: LinkKind) -> Config {
        let preset = preset("caps-dark").expect("a preset").config;
        wire_config(preset, kind, &Limits::default(), PathManager::Passive)
    }

    #[test]
    fn only_udp_carries_what_is_coded() {
        assert!(coded(LinkKind::Tun).coding.is_none());
        let coding = coded(LinkKind::Udp).coding.expect("it codes");
        assert_eq!(coding.sampling.period, CODING_PERIOD);
        let of = |a: &str| coding.destinations.of(a.parse().expect("an address"));
        assert_eq!(of("192.0.2.1"), of("192.0.2.9"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        let [a, b] = crate::udp::PREFIX;
        let client = |id: u16| of(&std::net::Ipv6Addr::new(a, b, 7, 7, 0, 0, 0, id).to_string());
        assert_ne!(client(1), client(2));
    }
}
