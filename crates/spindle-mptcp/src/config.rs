//! What a connection is made of, as one value.
//!
//! A scheme of the papers is a [`Config`] with certain fields set (see [`crate::preset`]); nothing
//! in the core asks for a scheme by name. Initial window, minimum RTO, MSS, ECN and buffers belong
//! to the scenario and are set over the preset.

use std::sync::Arc;

use spindle_units::Duration;

use crate::connection::scheduler::SchedulerKind;
use crate::recovery::RecoveryFactory;
use crate::stage::StageFactory;
use crate::stage::coding::CodingConfig;
use crate::stage::scatter::ScatterConfig;
use crate::subflow::congestion::CongestionKind;

/// Everything that can be chosen about a connection.
#[derive(Clone, Debug)]
pub struct Config {
    /// TCP as each subflow runs it.
    pub tcp: TcpConfig,
    /// How losses are found and repaired within a subflow.
    pub loss: LossConfig,
    /// The congestion controller.
    pub congestion: CongestionKind,
    /// Multipath TCP, if it is to be negotiated.
    pub multipath: Option<MultipathConfig>,
    /// Proactive recovery; none by default.
    pub recovery: Option<Arc<dyn RecoveryFactory>>,
    /// What stands between a subflow and the wire; nothing (identity) by default.
    pub stage: Option<Arc<dyn StageFactory>>,
    /// Coding of short flows, where the peer agrees; over plain TCP, and only without another stage (CAPS).
    pub coding: Option<Arc<CodingConfig>>,
}

/// TCP parameters (RFC 9293 and companions).
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// The largest segment this end can receive, in payload bytes with no TCP options: announced in
    /// the MSS option and the upper limit of what is sent. 536 to 65 495.
    pub mss: u32,
    /// Initial congestion window.
    pub initial_window: InitialWindow,
    /// Upper limit of cwnd in segments; none by default.
    pub max_window: Option<u32>,
    /// Initial slow-start threshold in bytes; unlimited by default (RFC 5681, section 3.1).
    pub initial_ssthresh: Option<u64>,
    /// Floor of the retransmission timeout (RFC 6298, rule 2.4; 1 s there, 200 ms in today's
    /// kernels and by default here).
    pub min_rto: Duration,
    /// Ceiling of the retransmission timeout (RFC 6298, rule 2.5: at least 60 s).
    pub max_rto: Duration,
    /// Retransmission timeout before the first RTT measurement, the SYN's included (RFC 6298, rule
    /// 2.1: 1 s).
    pub initial_rto: Duration,
    /// Retransmission timeout at the beginning of the data, where the SYN or SYN/ACK timed out and no
    /// timestamp measured the RTT in spite of that (RFC 6298, section 5.7: 3 s; Linux
    /// `tcp_init_metrics`); no less than `initial_rto`.
    pub rto_after_syn_timeout: Duration,
    /// The handshake is no RTT measurement, and this is the retransmission timeout until data sent
    /// once are acknowledged. None by default: the handshake is the first measurement.
    pub data_rto: Option<Duration>,
    /// How often a SYN or SYN/ACK is repeated before giving up. The default, with the other timeouts' defaults,
    /// makes 183 s (RFC 9293, section 3.8.3, R2 of a SYN: at least 3 min).
    pub syn_retries: u32,
    /// Payload bytes that one burst may cover, at most 65 435: new segments that may leave at once
    /// share a mapping and their options, and are handed out as one [`spindle_wire::Segment`] with
    /// its `segment_size` for the device to cut up (RFC 8684, section 3.3.1: a mapping is not bound
    /// to a segment). Below two segments each leaves by itself, as by default.
    pub burst: u32,
    /// Where full segments time out again and again and small ones pass, send what passes, and search for
    /// more with larger segments (RFC 4821; Linux: `tcp_mtu_probing` 1). Off by default.
    pub mtu_probing: bool,
    /// Pacing: what the window lets out leaves at 2.0 cwnd a smoothed RTT in slow start and at 1.2
    /// later (as in Linux), not all at once, unless the whole window leaves within a millisecond at that rate. Off
    /// by default.
    pub pacing: bool,
    /// Payload bytes of a subflow that may wait in the host's own output queue; what more the window
    /// would let out stays back until some have left (Linux: `tcp_limit_output_bytes`). Whoever drives
    /// the stack says when segments leave: [`crate::Stack::handed_over`]. None by default.
    pub output_limit: Option<u64>,
    /// Receive buffer in bytes: the largest window offered.
    pub receive_buffer: usize,
    /// Send buffer in bytes.
    pub send_buffer: usize,
    /// Both buffers begin small and grow with what the connection uses, up to the sizes given: the
    /// one for sending to twice what all paths hold, the one for receiving to twice what is read in a
    /// round trip. Off by default: they have these sizes from the start.
    pub autotune: bool,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer SACK (RFC 2018).
    pub sack: bool,
    /// Explicit congestion notification.
    pub ecn: EcnMode,
    /// Nagle's algorithm (RFC 9293, section 3.7.4).
    pub nagle: bool,
    /// Delay of acknowledgements (RFC 9293, section 3.8.6.3: below 500 ms); every segment is
    /// acknowledged at once if none.
    pub delayed_ack: Option<Duration>,
    /// Restart from the initial window after an idle time of one RTO (RFC 5681, section 4.1).
    pub idle_restart: bool,
    /// Keepalive probes (RFC 9293, section 3.8.4); off by default.
    pub keepalive: Option<Keepalive>,
    /// How long data (or a SYN) may stay unacknowledged before the connection is given up
    /// (RFC 9293, section 3.8.3). With MPTCP the acknowledgement of the data level counts, DATA_ACK, not
    /// that of a subflow.
    pub user_timeout: Duration,
    /// How long the peer may keep its window shut, although it answers probes, before the connection
    /// is given up. None by default: without a limit, as RFC 9293, section 3.8.6.1 (MUST-37) requires of TCP by
    /// itself; RFC 6429, section 3 leaves a limit to whoever manages the memory.
    pub persist_timeout: Option<Duration>,
    /// How long a connection that [`crate::Stack::close`] was called for, and whose data and FIN (with
    /// MPTCP the DATA_FIN) are acknowledged, waits for the peer's end: FIN_WAIT_2. 60 s by default (Linux
    /// `tcp_fin_timeout`).
    pub fin_timeout: Duration,
    /// Maximum segment lifetime; TIME_WAIT lasts twice as long (RFC 9293, section 3.6.1: 2 min).
    pub msl: Duration,
}

/// The initial congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialWindow {
    /// So many segments on every subflow.
    PerSubflow(u32),
    /// So many segments over all subflows: each gets the total over their number, rounded down,
    /// the remainder going to the lowest identifiers (FUSO section 5.1).
    Total(u32),
}

impl InitialWindow {
    /// The window of subflow `index` of `subflows`, in segments; at least one.
    pub fn segments(self, index: usize, subflows: usize) -> u32 {
        match self {
            Self::PerSubflow(n) => n.max(1),
            Self::Total(total) => {
                let n = subflows.max(1) as u32;
                (total / n + u32::from((index as u32) < total % n)).max(1)
            }
        }
    }
}

/// Use of ECN (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// Neither asked for nor accepted.
    #[default]
    Off,
    /// Classic ECN: the receiver echoes until CWR, the sender reduces once per window.
    Classic,
    /// DCTCP's exact echo of each mark (RFC 8257, section 3.2), for use with the DCTCP controller.
    Dctcp,
}

/// Keepalive parameters (RFC 9293, section 3.8.4); the defaults are Linux's (`tcp_keepalive_time`,
/// `tcp_keepalive_intvl`, `tcp_keepalive_probes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle time before the first probe; 2 h by default, the least default that RFC 9293 allows.
    pub idle: Duration,
    /// Time between probes; 75 s by default.
    pub interval: Duration,
    /// Unanswered probes after which the connection is given up; 9 by default.
    pub probes: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(2 * 60 * 60),
            interval: Duration::from_secs(75),
            probes: 9,
        }
    }
}

/// Loss detection and recovery within one subflow.
#[derive(Clone, Debug)]
pub struct LossConfig {
    /// Duplicate acknowledgements that mean loss (RFC 5681: 3).
    pub dupack_threshold: u32,
    /// How far D-SACKs may raise the threshold once they show that segments had only been reordered
    /// (Zhang et al. 2003, RR-TCP, without its lowering); not at all by default.
    pub reordering: Option<u32>,
    /// Limited Transmit (RFC 3042): a new segment for each duplicate acknowledgement below the
    /// threshold, two where that is three; with a greater one that many more (MMPTCP section 2.4).
    pub limited_transmit: bool,
    /// Early Retransmit (RFC 5827), in segments.
    pub early_retransmit: bool,
    /// RACK time-based detection (RFC 8985, section 6), beside the duplicate-ACK threshold.
    pub rack: bool,
    /// Tail loss probe.
    pub tail_loss_probe: Option<TailLossProbe>,
    /// F-RTO (RFC 5682).
    pub frto: bool,
    /// Undo of spurious reductions by D-SACK (RFC 2883, RFC 3708).
    pub dsack_undo: bool,
    /// Proportional rate reduction (RFC 6937) instead of one step to ssthresh.
    pub prr: bool,
    /// RFC 6675's rules 3 and 4 of NextSeg: repeats of segments not yet known lost, when recovery
    /// has nothing else to send.
    pub rescue: bool,
    /// What a congestion signal reduces, and so what ssthresh comes from.
    pub flight: Flight,
    /// The retransmission timer runs for so long at least, whatever the timeout is, for senders that
    /// are told of losses otherwise; none by default.
    pub least_timer: Option<Duration>,
}

/// What counts as the window in use when congestion is signalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flight {
    /// FlightSize, what is outstanding (RFC 5681, equation 4; RFC 9438, section 4.6).
    #[default]
    FlightSize,
    /// cwnd, as in the Linux kernel's controllers (RFC 9438, section 4.6, lets CUBIC do so where cwnd
    /// does not grow while the application limits the rate): the end of a transfer, with little left
    /// in flight, does not collapse ssthresh.
    CongestionWindow,
}

/// Tail loss probe (RFC 8985, section 7; in the papers "one extra probe after 2 RTT without an
/// ACK", FUSO section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailLossProbe {
    /// Added to the probe timeout while a single segment is in flight, for the peer's delayed ACK
    /// (RFC 8985, TLP.max_ack_delay).
    pub max_ack_delay: Duration,
    /// Least probe timeout; zero in RFC 8985 and in the papers' words, 10 ms in the kernel that the
    /// FUSO testbed ran (Linux 3.18).
    pub floor: Duration,
}

/// Multipath TCP (RFC 8684).
#[derive(Clone, Debug)]
pub struct MultipathConfig {
    /// How further subflows are opened.
    pub path_manager: PathManager,
    /// How new data are spread.
    pub scheduler: SchedulerKind,
    /// Require DSS checksums (RFC 8684, section 3.1, flag A).
    pub checksum: bool,
    /// Hand data up to the data level although they are out of order within their subflow (FUSO
    /// section 4.1).
    pub early_dsn_delivery: bool,
    /// Opportunistic retransmission and penalisation when the window blocks new data (mechanisms
    /// A5.6).
    pub opportunistic_retransmission: bool,
    /// Consecutive timeouts after which a subflow counts as dead and its data are reinjected
    /// (mechanisms A5.6: 3); `u32::MAX`: none ever does.
    pub dead_after_timeouts: u32,
    /// New data wait, whatever other subflows may take, while a join's SYN is unanswered. Off by
    /// default.
    pub wait_for_joins: bool,
    /// No data go on a joined subflow before the peer's first DATA_ACK, while the first subflow works. Linux
    /// as a receiver drops data that are out of order at the data level and lie beyond the window it last
    /// announced with a DATA_ACK, although it acknowledges them on the subflow (`mptcp_data_queue_ofo`).
    /// Off by default: Spindle's own receiver keeps them.
    pub joins_wait_for_data_ack: bool,
    /// The peer's receiver hands up only what is in order in its subflow, as the Linux kernel's: what it has
    /// selectively acknowledged on a dead subflow behind a hole is reinjected with what it has not, and opportunistic
    /// retransmission, whose segments open the window one by one there, sends twice as many each time.
    pub peer_holds_back: bool,
    /// Reinjection as the Linux kernel does it: on a connection-level timer, the oldest data only,
    /// on an idle subflow.
    pub connection_timer: bool,
    /// How long the connection waits for a further subflow when its last one was reset, or the peer ended all
    /// of them before its data (RFC 8684, sections 3.3.3 and 3.5). A client that has no further path to try
    /// does not wait, and nobody does after MP_FASTCLOSE. 60 s by default, as in Linux
    /// (`net.mptcp.close_timeout`); zero: the connection ends with its last subflow.
    pub close_timeout: Duration,
    /// Accept joins beyond the own path manager's wish, up to this many subflows in all.
    pub max_subflows: usize,
    /// Subflows opened by this end's path manager are backups (RFC 8684, section 3.3.8).
    pub backup: bool,
    /// Own addresses, as peers know them, whose subflows are backups (RFC 8684, section 3.3.8), whichever
    /// end opened them. None by default.
    pub backup_addresses: Vec<std::net::IpAddr>,
    /// Which addresses that a peer announces are joined, where the path manager joins any.
    pub announced: AnnouncedAddresses,
    /// At which own addresses joins are accepted.
    pub joins: JoinPolicy,
    /// Server: when a subflow is lost to a reset or to silence while the connection lives, its own
    /// address is announced (again), so that the peer may join it again; removed before, if no other
    /// subflow is there. Off by default.
    pub announce_again: bool,
    /// Time between the openings of two subflows: uniform, up to this (MMPTCP section 2.3: so that
    /// their first segments do not arrive in one burst). None by default.
    pub join_spacing: Duration,
    /// Packet scatter on the first subflow, where the peer agrees; the path manager's further subflows
    /// are then opened beside it, once it has done its part (MMPTCP section 2).
    pub scatter: Option<Arc<ScatterConfig>>,
}

/// Which announced addresses (ADD_ADDR; RFC 8684, section 3.4.1) may be joined. Addresses that no host can
/// have (unspecified, multicast, broadcast) never are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnnouncedAddresses {
    /// None.
    Ignore,
    /// Those that reach at least as far as the address by which the peer was reached first: a public peer
    /// cannot make this end open subflows to private, link-local or loopback addresses.
    #[default]
    SameScope,
    /// All.
    Any,
}

/// At which own addresses joins (RFC 8684, section 3.2) are accepted. Others are reset as
/// administratively prohibited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinPolicy {
    /// Where a listener of the stack is open, at the first subflow's own end, and at addresses (and ports)
    /// that were announced.
    #[default]
    Listening,
    /// Wherever packets of the peer arrive.
    Anywhere,
}

/// How a client opens further subflows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathManager {
    /// Not at all.
    Passive,
    /// So many subflows in all between the first pair of addresses, told apart by source port; the
    /// network's ECMP spreads them.
    Ports(usize),
    /// One subflow for each pair of local and remote address; remote ones learnt by ADD_ADDR. The
    /// local ones are those of the stack.
    FullMesh,
    /// From each of these local addresses to the peer's first address, beside the first subflow; an
    /// address that stands there several times, or is the first subflow's own, has several.
    Endpoints(Vec<std::net::IpAddr>),
}

impl PathManager {
    /// How many subflows the connection is meant to have, where that is known beforehand.
    pub fn planned_subflows(&self) -> usize {
        match self {
            Self::Passive | Self::FullMesh => 1,
            Self::Ports(n) => (*n).max(1),
            Self::Endpoints(list) => list.len() + 1,
        }
    }
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            initial_window: InitialWindow::PerSubflow(10),
            max_window: None,
            initial_ssthresh: None,
            min_rto: Duration::from_millis(200),
            max_rto: Duration::from_secs(60),
            initial_rto: Duration::from_secs(1),
            rto_after_syn_timeout: Duration::from_secs(3),
            data_rto: None,
            syn_retries: 7,
            burst: 0,
            pacing: false,
            mtu_probing: false,
            output_limit: None,
            receive_buffer: 4 << 20,
            send_buffer: 4 << 20,
            autotune: false,
            window_scaling: true,
            timestamps: true,
            sack: true,
            ecn: EcnMode::Off,
            nagle: false,
            delayed_ack: None,
            idle_restart: true,
            keepalive: None,
            user_timeout: Duration::from_secs(300),
            persist_timeout: None,
            fin_timeout: Duration::from_secs(60),
            msl: Duration::from_secs(60),
        }
    }
}

impl Default for LossConfig {
    fn default() -> Self {
        Self {
            dupack_threshold: 3,
            reordering: None,
            limited_transmit: true,
            early_retransmit: false,
            rack: false,
            tail_loss_probe: None,
            frto: true,
            dsack_undo: true,
            prr: false,
            rescue: true,
            flight: Flight::FlightSize,
            least_timer: None,
        }
    }
}

impl Default for MultipathConfig {
    fn default() -> Self {
        Self {
            path_manager: PathManager::Passive,
            scheduler: SchedulerKind::MinRtt,
            checksum: false,
            early_dsn_delivery: false,
            opportunistic_retransmission: true,
            dead_after_timeouts: 3,
            wait_for_joins: false,
            joins_wait_for_data_ack: false,
            peer_holds_back: false,
            connection_timer: false,
            close_timeout: Duration::from_secs(60),
            max_subflows: 8,
            backup: false,
            backup_addresses: Vec::new(),
            announced: AnnouncedAddresses::default(),
            joins: JoinPolicy::default(),
            announce_again: false,
            join_spacing: Duration::ZERO,
            scatter: None,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tcp: TcpConfig::default(),
            loss: LossConfig::default(),
            congestion: CongestionKind::Reno,
            multipath: None,
            recovery: None,
            stage: None,
            coding: None,
        }
    }
}

impl Config {
    /// Whether one acknowledgement may stand for many segments: where several leave under one header, or
    /// come up together since their unit was decoded, which answers all of them at once.
    pub(crate) fn coalesces(&self) -> bool {
        self.tcp.burst > self.tcp.mss || self.coding.is_some()
    }

    /// How many subflows the connection is meant to have; 1 without multipath.
    pub fn planned_subflows(&self) -> usize {
        self.multipath
            .as_ref()
            .map_or(1, |m| m.path_manager.planned_subflows())
    }
}

#[cfg(test)]
mod tests {
    use super::InitialWindow;

    #[test]
    fn a_total_window_is_split_with_the_remainder_to_the_lowest() {
        let split = |n| {
            (0..n)
                .map(|i| InitialWindow::Total(16).segments(i, n))
                .collect::<Vec<_>>()
        };
        assert_eq!(split(4), [4, 4, 4, 4]);
        assert_eq!(split(3), [6, 5, 5]);
        assert_eq!(split(8), [2; 8]);
    }
}
