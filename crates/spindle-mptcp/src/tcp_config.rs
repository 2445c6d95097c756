//! Settings of one subflow: its TCP, its loss recovery.

use spindle_units::Duration;

use crate::congestion::SlowStartExit;

pub use crate::types::EcnMode;

/// TCP parameters (RFC 9293 and companions).
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// The largest segment that this end can receive, in payload bytes of a segment without TCP options. It is
    /// announced in the MSS option, and it also limits the segments that this end sends. 536 to 65 495.
    pub mss: u32,
    /// Initial congestion window.
    pub initial_window: InitialWindow,
    /// Upper limits of the windows; none by default.
    pub max_window: WindowLimits,
    /// Where slow start begins and ends.
    pub slow_start: SlowStart,
    /// Floor of the retransmission timeout (RFC 6298, rule 2.4; 1 s there, 200 ms in today's
    /// kernels and by default here).
    pub min_rto: Duration,
    /// What [`Self::min_rto`] bounds; the whole timeout by default.
    pub rto_floor: RtoFloor,
    /// Ceiling of the retransmission timeout (RFC 6298, rule 2.5: at least 60 s).
    pub max_rto: Duration,
    /// How far the timeout grows while it expires again and again; up to [`Self::max_rto`] by default.
    pub back_off: BackOff,
    /// Retransmission timeout before the first RTT measurement, the SYN's included (RFC 6298, rule
    /// 2.1: 1 s).
    pub initial_rto: Duration,
    /// Retransmission timeout at the start of the data.
    pub data_rto: DataRto,
    /// How often a SYN or SYN/ACK is retransmitted before the connection attempt is given up. With the default
    /// values of the other timeouts, the default results in 183 s (RFC 9293, section 3.8.3, R2 of a SYN: at
    /// least 3 min).
    pub syn_retries: u32,
    /// Payload bytes that one burst may cover, at most 65 435. New segments that can be sent at the same time
    /// share a mapping and their options. They are handed out as one [`spindle_wire::Segment`], whose
    /// `segment_size` tells the device where to split it (RFC 8684, section 3.3.1: a mapping is not bound to a
    /// segment). If this is less than two segments, as by default, each segment is sent by itself.
    pub burst: u32,
    /// If full-sized segments time out again and again while small ones arrive, send segments of a size that
    /// arrives, and search for a larger size with larger segments (RFC 4821; Linux: `tcp_mtu_probing` 1). Off
    /// by default.
    pub mtu_probing: bool,
    /// Pacing: segments that the window allows are sent at a rate of 2.0 cwnd per smoothed RTT in slow start
    /// and 1.2 cwnd per smoothed RTT afterwards (as in Linux), not all at once. After a pause ten segments leave at
    /// once (RFC 9002, section 7.7). They are not paced if the whole window takes less than a millisecond at that rate.
    /// Off by default.
    pub pacing: bool,
    /// Payload bytes of a subflow that may wait in the host's egress queue. Further data that the window would
    /// allow are held back until some of these bytes have left (Linux: `tcp_limit_output_bytes`). The driver of
    /// the stack reports when segments leave: [`crate::Stack::handed_over`]. `None`, the default, sets no
    /// limit.
    pub output_limit: Option<u64>,
    /// Receive buffer in bytes: the largest window offered.
    pub receive_buffer: usize,
    /// Send buffer in bytes.
    pub send_buffer: usize,
    /// Both buffers start small and grow with use, up to the given sizes. The send buffer grows to twice what
    /// all paths together can have in flight, and the receive buffer to twice what is read in a round trip. Off
    /// by default: the buffers have the given sizes from the start.
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
    /// Delay of acknowledgements (RFC 9293, section 3.8.6.3: below 500 ms). `None` acknowledges every segment
    /// at once.
    pub delayed_ack: Option<Duration>,
    /// What happens to cwnd after an idle time of one RTO.
    pub idle_restart: IdleRestart,
    /// Keepalive probes (RFC 9293, section 3.8.4); off by default.
    pub keepalive: Option<Keepalive>,
    /// How long data (or a SYN) may stay unacknowledged before the connection is given up (RFC 9293, section
    /// 3.8.3). With MPTCP, the DATA_ACK counts, not the acknowledgement of a subflow.
    pub user_timeout: Duration,
    /// How long the peer may keep its window closed, although it answers probes, before the connection is given
    /// up. `None`, the default, sets no limit, as RFC 9293, section 3.8.6.1 (MUST-37) requires of TCP itself.
    /// RFC 6429, section 3 leaves a limit to the component that manages the memory.
    pub persist_timeout: Option<Duration>,
    /// How long a connection waits for the peer's FIN in FIN_WAIT_2, after [`crate::Stack::close`] was called
    /// and its data and FIN (with MPTCP the DATA_FIN) were acknowledged. 60 s by default (Linux
    /// `tcp_fin_timeout`).
    pub fin_timeout: Duration,
    /// Maximum segment lifetime; TIME_WAIT lasts twice as long (RFC 9293, section 3.6.1: 2 min).
    pub msl: Duration,
}

/// Where slow start begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlowStart {
    /// The initial window counts segments of the MSS that was announced, without the bytes that options take from each (RFC
    /// 6928, section 2; RFC 6691, section 2). Until the first congestion, the last data are sent if a window has room for them,
    /// although it has none for a full segment (RFC 5681, section 3.1). Off by default: as in Linux, a window is a number of
    /// segments, however long their options are.
    pub full_windows: bool,
    /// Initial slow-start threshold in bytes; unlimited by default (RFC 5681, section 3.1).
    pub initial_ssthresh: Option<u64>,
    /// What ends CUBIC's initial slow start apart from a loss; HyStart++ by default.
    pub exit: SlowStartExit,
    /// Slow start also applies while cwnd equals ssthresh, and ends one segment above. RFC 5681, section 3.1,
    /// allows both. Linux did so until version 4.2. Off by default.
    pub through_ssthresh: bool,
}

/// What happens to cwnd if a subflow has been idle for longer than one RTO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IdleRestart {
    /// Nothing.
    Keep,
    /// cwnd becomes at most the initial window (RFC 5681, section 4.1).
    #[default]
    InitialWindow,
    /// cwnd halves for each RTO of idle time, but not below the initial window. Before that, ssthresh becomes at
    /// least 3/4 of cwnd (RFC 2861, section 3.1; Linux `tcp_cwnd_restart`).
    Decay,
}

/// The initial congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialWindow {
    /// This many segments on every subflow.
    PerSubflow(u32),
    /// This many segments over all subflows together. Each subflow gets the total divided by the number of
    /// subflows, rounded down. The remainder goes to the lowest identifiers (FUSO section 5.1).
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

/// Upper limits of the windows of each subflow. By default there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WindowLimits {
    /// Upper limit of cwnd, in segments.
    pub congestion: Option<u32>,
    /// Upper limit of the send window (SND.WND; RFC 9293, section 3.3.1), in bytes. The subflow has no more
    /// unacknowledged bytes than this, even if the peer announces more and cwnd grows beyond it. With MPTCP the
    /// data-level window is not affected. A limit below one segment counts as one segment.
    pub send: Option<u64>,
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
    /// Number of duplicate ACKs that indicate a loss (RFC 5681: 3).
    pub dupack_threshold: u32,
    /// The value up to which D-SACKs may raise the threshold when they show that segments were only reordered
    /// (Zhang et al. 2003, RR-TCP, without its lowering). `None`, the default, keeps the threshold fixed.
    pub reordering: Option<u32>,
    /// Limited Transmit (RFC 3042): one new segment for each duplicate ACK below the threshold. With a
    /// threshold of three these are two segments, with a greater threshold correspondingly more (MMPTCP section
    /// 2.4).
    pub limited_transmit: bool,
    /// Early Retransmit (RFC 5827), in segments.
    pub early_retransmit: bool,
    /// The least wait before Early Retransmit, which otherwise waits for a quarter of the smoothed RTT. Linux 3.5
    /// to 4.9 waits at least 2 ms (`tcp_pause_early_retransmit`), so that reordering causes no retransmission.
    /// `None`, the default, does not wait at all (RFC 5827). It has no effect with RACK.
    pub early_retransmit_delay: Option<Duration>,
    /// RACK time-based detection (RFC 8985, section 6), in addition to the duplicate-ACK threshold.
    pub rack: bool,
    /// Tail loss probe.
    pub tail_loss_probe: Option<TailLossProbe>,
    /// F-RTO (RFC 5682).
    pub frto: bool,
    /// Undo of spurious reductions by D-SACK (RFC 2883, RFC 3708).
    pub dsack_undo: bool,
    /// Proportional rate reduction (RFC 6937) instead of one step to ssthresh.
    pub prr: bool,
    /// Rules 3 and 4 of RFC 6675's NextSeg: retransmission of segments that are not yet known to be lost, if
    /// recovery has nothing else to send.
    pub rescue: bool,
    /// The quantity that a congestion signal reduces, from which ssthresh is computed.
    pub flight: ReductionBase,
    /// The least duration of the retransmission timer, whatever the timeout is. It is meant for senders that
    /// are notified of losses by other means. `None` by default.
    pub least_timer: Option<Duration>,
    /// The timers of loss recovery expire only at multiples of this time, as a kernel's timers expire at ticks: a
    /// timer is set at the last tick, and its duration is rounded up. RACK's timer is not affected. `None`, the
    /// default, lets them expire exactly.
    pub timer_tick: Option<Duration>,
}

/// The retransmission timeout at the start of the data. By default the handshake is the first measurement of the
/// RTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataRto {
    /// If set, the handshake does not count as a measurement, and this is the timeout until data that were sent
    /// only once are acknowledged. `None` by default.
    pub fixed: Option<Duration>,
    /// The timeout if the SYN or SYN/ACK timed out and no timestamp measured the RTT despite the timeout
    /// (RFC 6298, section 5.7: 3 s, the default; Linux `tcp_init_metrics`). At least
    /// [`TcpConfig::initial_rto`].
    pub after_syn_timeout: Duration,
}

impl Default for DataRto {
    fn default() -> Self {
        Self {
            fixed: None,
            after_syn_timeout: Duration::from_secs(3),
        }
    }
}

/// What the lower bound of the retransmission timeout applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RtoFloor {
    /// The timeout: SRTT + 4 RTTVAR is at least the bound (RFC 6298, rule 2.4).
    #[default]
    Timeout,
    /// The part of the timeout beyond SRTT, as in the Linux kernel (`tcp_rtt_estimator` bounds the variation by
    /// `tcp_rto_min`). With a sample for each acknowledgement, RTTVAR is close to zero on a path without jitter
    /// (RFC 7323, appendix G). If the RTT exceeds the bound of a whole timeout, a queue that grows within one
    /// round trip then causes a spurious timeout.
    Variation,
}

/// How far the retransmission timeout grows while it expires again and again without an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackOff {
    /// It doubles each time, up to [`TcpConfig::max_rto`] (RFC 6298, rule 5.5).
    #[default]
    Exponential,
    /// It doubles at most this often, and only up to one second unless the timeout itself is longer. A path that
    /// loses nearly everything, or that was dead for a while, is then tried again soon. Each connection still sends
    /// no more than one segment for each timeout. Linux allows the ceiling of one second for all connections
    /// (`net.ipv4.tcp_rto_max_ms`), and up to six timeouts without any doubling for connections with few segments in
    /// flight (`net.ipv4.tcp_thin_linear_timeouts`). A SYN's timeouts double without this bound.
    Bounded {
        /// The most doublings.
        doublings: u32,
    },
}

/// The quantity taken as the window in use when congestion is signalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReductionBase {
    /// FlightSize, the outstanding data (RFC 5681, equation 4; RFC 9438, section 4.6).
    #[default]
    FlightSize,
    /// cwnd, as in the Linux kernel's controllers (RFC 9438, section 4.6, allows this for CUBIC if cwnd does
    /// not grow while the application limits the rate). The end of a transfer, when little is in flight, then
    /// does not collapse ssthresh.
    CongestionWindow,
}

/// Tail loss probe (RFC 8985, section 7; in the papers "one extra probe after 2 RTT without an
/// ACK", FUSO section 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TailLossProbe {
    /// Added to the probe timeout while a single segment is in flight, for the peer's delayed ACK
    /// (RFC 8985, TLP.max_ack_delay).
    pub max_ack_delay: Duration,
    /// Least probe timeout: zero in RFC 8985 and in the papers, 10 ms in the kernel of the FUSO testbed (Linux
    /// 3.18).
    pub floor: Duration,
    /// If set, the probe is due earlier: this share of the smoothed RTT after the acknowledgement of the last segment
    /// is expected, which is one smoothed RTT and `max_ack_delay` after its transmission, unless there are new data. Each acknowledgement that
    /// arrives defers the probe by the same share, since the queue may be growing. At least 0; `None`, the default,
    /// is RFC 8985's probe.
    pub margin: Option<f64>,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            initial_window: InitialWindow::PerSubflow(10),
            max_window: WindowLimits::default(),
            slow_start: SlowStart::default(),
            min_rto: Duration::from_millis(200),
            rto_floor: RtoFloor::default(),
            max_rto: Duration::from_secs(60),
            back_off: BackOff::default(),
            initial_rto: Duration::from_secs(1),
            data_rto: DataRto::default(),
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
            idle_restart: IdleRestart::default(),
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
            early_retransmit_delay: None,
            rack: false,
            tail_loss_probe: None,
            frto: true,
            dsack_undo: true,
            prr: false,
            rescue: true,
            flight: ReductionBase::FlightSize,
            least_timer: None,
            timer_tick: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::InitialWindow;

    #[test]
    fn total_window_is_split_with_the_remainder_to_the_lowest_subflows() {
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
