//! The configuration of connections on a real wire.

use std::net::IpAddr;
use std::sync::Arc;

use spindle_mptcp::congestion::SlowStartExit;
use spindle_mptcp::path_manager::PathManager;
use spindle_mptcp::stage::coding::{Destinations, Networks};
use spindle_mptcp::{Config, Keepalive, RtoFloor, for_unmodified_receivers};
use spindle_units::Duration;

use crate::limits::Limits;
use crate::udp::is_virtual;

/// What carries the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Standard packets through a TUN device, to peers with unmodified TCP.
    Tun,
    /// UDP encapsulation between two hosts that run Spindle.
    Udp,
}

/// The largest burst that fits an IP packet of 65 535 bytes. Each link lowers it to its own limit.
const BURST: u32 = 65_435;
/// The largest MSS. Each link lowers it to its own.
const MSS: u32 = 65_495;
/// Delay of acknowledgements: Linux's minimum (TCP_DELACK_MIN).
const DELAYED_ACK: Duration = Duration::from_millis(40);
/// Minimum of the retransmission timeout: Linux's (TCP_RTO_MIN).
const MIN_RTO: Duration = Duration::from_millis(200);
/// By how much scheduling may prolong a round-trip time: the granularity that RFC 9002, section 6.1.2, recommends
/// (kGranularity).
pub const TIMING_PRECISION: Duration = Duration::from_millis(1);
/// A relay holds a socket on its other side for each connection, so it checks earlier than Linux (2 h) whether
/// the peer still exists.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);
/// Longest time between keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How long data may stay unacknowledged (RFC 9293, section 3.8.3: 5 min).
const USER_TIMEOUT: Duration = Duration::from_secs(300);
/// How long to wait for a peer's FIN after all data were sent, closed and acknowledged: Linux's value
/// (tcp_fin_timeout).
const FIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Gives a TIME_WAIT of 60 s, as in Linux (TCP_TIMEWAIT_LEN).
const MSL: Duration = Duration::from_secs(30);

/// If a SYN is not answered, the next path is tried after this time (RFC 8305, section 5: Connection Attempt
/// Delay), unless the transport has its own.
pub const NEXT_PATH_AFTER: Duration = Duration::from_millis(250);

/// Period after which the share of blocked packets is measured again, if some packets are coded. CAPS section
/// IX-C uses two round trips without a queue, which are some milliseconds within a site (our choice).
const CODING_PERIOD: Duration = Duration::from_millis(10);

/// Groups the peers that are reached by the same paths: the peers of one network. Each client of a UDP server
/// is its own group, since the addresses by which the server's stack knows clients do not indicate where they
/// are.
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

/// Keepalive probes that begin when nothing has been received for `idle`. They are sent every 30 s, or every
/// `idle` if that is shorter, as often as Linux sends them (`tcp_keepalive_probes`).
pub fn keepalive_after(idle: Duration) -> Keepalive {
    Keepalive {
        idle,
        interval: idle.min(KEEPALIVE_INTERVAL),
        ..Keepalive::default()
    }
}

/// The configuration of the connections of a gateway or connect service. It is made only here.
///
/// The transport's preset determines congestion control, loss detection (RACK, TLP), scheduler and proactive
/// recovery. The parameters of the scenario are set here to values that suit a real wire: a minimum RTO of 200
/// ms, timestamps, SACK and window scaling, acknowledgements delayed by 40 ms (which tail loss probes allow
/// for), bursts and MSS as large as the link accepts, pacing, a timing precision of 1 ms, buffers that grow up to the limits, keepalive and
/// user timeout. Without pacing, a whole congestion window would be sent at once when the peer's window opens
/// again after a hole, and would overflow a queue.
///
/// Over TUN, segments shrink if a path drops full-sized ones silently. The peer may have any receiver, so
/// recovery sends what an unmodified receiver needs, and nothing is coded, because only UDP carries coded
/// packets. `paths` determines how this end opens subflows: [`spindle_mptcp::path_manager::Passive`] for a gateway.
pub fn wire_config(
    preset: Config,
    kind: LinkKind,
    limits: &Limits,
    paths: Arc<dyn PathManager>,
) -> Config {
    let mut config = match kind {
        LinkKind::Tun => for_unmodified_receivers(preset),
        LinkKind::Udp => preset,
    };
    // Over UDP, the link itself searches for the path MTU.
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
    config.timing_precision = TIMING_PRECISION;
    let tcp = &mut config.tcp;
    tcp.mss = MSS;
    tcp.burst = BURST;
    tcp.pacing = true;
    tcp.min_rto = MIN_RTO;
    tcp.rto_floor = RtoFloor::Variation;
    tcp.slow_start.exit = SlowStartExit::RecentDelay;
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
        // Over UDP, the other end is Spindle, which joins again by itself.
        m.announce_again = kind == LinkKind::Tun;
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_mptcp::path_manager::Passive;
    use spindle_mptcp::preset;

    fn coded(kind: LinkKind) -> Config {
        let preset = preset("caps-dark").expect("a preset").config;
        wire_config(preset, kind, &Limits::default(), Arc::new(Passive))
    }

    #[test]
    fn coding_is_configured_over_udp_only() {
        assert!(coded(LinkKind::Tun).coding.is_none());
        let coding = coded(LinkKind::Udp).coding.expect("a coding configuration");
        assert_eq!(coding.sampling.period, CODING_PERIOD);
        let of = |a: &str| coding.destinations.of(a.parse().expect("an address"));
        assert_eq!(of("192.0.2.1"), of("192.0.2.9"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        let [a, b] = crate::udp::PREFIX;
        let client = |id: u16| of(&std::net::Ipv6Addr::new(a, b, 7, 7, 0, 0, 0, id).to_string());
        assert_ne!(client(1), client(2));
    }
}
