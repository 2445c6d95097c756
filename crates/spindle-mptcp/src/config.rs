//! The configuration of a connection, as one value.
//!
//! A scheme of the papers is a [`Config`] with certain fields set (see [`crate::preset`]). No code in the core
//! looks up a scheme by name. Initial window, minimum RTO, MSS, ECN and buffer sizes belong to the scenario and
//! override the preset's values.

use std::sync::Arc;

use spindle_units::Duration;

use crate::congestion::{ControllerFactory, Reno};
use crate::entropy::EntropyFactory;
use crate::path_manager::{Passive, PathManager};
use crate::recovery::{RecoveryBudget, RecoveryFactory};
use crate::scheduler::{MinRtt, SchedulerFactory};
use crate::stage::StageFactory;
use crate::stage::coding::CodingConfig;
use crate::stage::scatter::ScatterConfig;
use crate::tcp_config::{LossConfig, TcpConfig};

/// Everything that can be chosen about a connection.
#[derive(Clone, Debug)]
pub struct Config {
    /// TCP parameters of each subflow.
    pub tcp: TcpConfig,
    /// How losses are found and repaired within a subflow.
    pub loss: LossConfig,
    /// The congestion controller of each subflow.
    pub congestion: Arc<dyn ControllerFactory>,
    /// By how much scheduling on both hosts may prolong a measured round-trip time. Shorter delays are no evidence of a
    /// queue in the network. Zero, the default, suits a simulated host.
    pub timing_precision: Duration,
    /// Multipath TCP, if it should be negotiated.
    pub multipath: Option<MultipathConfig>,
    /// Proactive recovery; none by default.
    pub recovery: Option<Arc<dyn RecoveryFactory>>,
    /// Limit of the bytes that proactive recovery may send, whatever the policy requests. `None`, the default,
    /// is no limit.
    pub recovery_budget: Option<RecoveryBudget>,
    /// The stage between a subflow and the wire. `None`, the default, forwards segments unchanged.
    pub stage: Option<Arc<dyn StageFactory>>,
    /// Coding of short flows (CAPS). It is used only over plain TCP, without another stage, and if the peer
    /// agrees.
    pub coding: Option<Arc<CodingConfig>>,
    /// The policy that gives segments flow labels, so that switches choose a path for them. `None`, the default,
    /// sends segments without a label.
    pub entropy: Option<Arc<dyn EntropyFactory>>,
}

/// Multipath TCP (RFC 8684).
#[derive(Clone, Debug)]
pub struct MultipathConfig {
    /// How further subflows are opened.
    pub path_manager: Arc<dyn PathManager>,
    /// How new data are distributed over subflows.
    pub scheduler: Arc<dyn SchedulerFactory>,
    /// Require DSS checksums (RFC 8684, section 3.1, flag A).
    pub checksum: bool,
    /// Deliver data to the data level even if they are out of order within their subflow (FUSO section 4.1).
    pub early_dsn_delivery: bool,
    /// Opportunistic retransmission and penalisation when the window blocks new data (mechanisms
    /// A5.6).
    pub opportunistic_retransmission: bool,
    /// Consecutive timeouts after which a subflow counts as dead and its data are reinjected (mechanisms A5.6:
    /// 3). With `u32::MAX`, no subflow ever counts as dead.
    pub dead_after_timeouts: u32,
    /// New data wait while a join's SYN is unanswered, even if other subflows could carry them. Off by default.
    pub wait_for_joins: bool,
    /// No data are sent on a joined subflow before the peer's first DATA_ACK, as long as the first subflow
    /// works. A Linux receiver drops data that are out of order at the data level and lie beyond the window
    /// that it last announced with a DATA_ACK, although it acknowledges them on the subflow
    /// (`mptcp_data_queue_ofo`). Off by default, because Spindle's own receiver keeps such data.
    pub joins_wait_for_data_ack: bool,
    /// The peer's receiver delivers only data that are in order within their subflow, like the Linux kernel's.
    /// Data that it SACKed behind a hole on a dead subflow are therefore reinjected together with data that it
    /// did not. Opportunistic retransmission, whose segments open such a receiver's window one by one, sends
    /// twice as many segments each time.
    pub peer_holds_back: bool,
    /// Reinjection as the Linux kernel does it: on a connection-level timer, the oldest data only,
    /// on an idle subflow.
    pub connection_timer: bool,
    /// How long the connection waits for another subflow after its last one was reset, or after the peer ended
    /// all subflows before the end of its data (RFC 8684, sections 3.3.3 and 3.5). A client without another
    /// path to try does not wait, and neither end waits after MP_FASTCLOSE. 60 s by default, as in Linux
    /// (`net.mptcp.close_timeout`). With zero, the connection ends with its last subflow.
    pub close_timeout: Duration,
    /// Most subflows in total. Joins are accepted up to this limit, even beyond the number that this end's path
    /// manager plans.
    pub max_subflows: usize,
    /// Subflows opened by this end's path manager are backups (RFC 8684, section 3.3.8).
    pub backup: bool,
    /// Own addresses, as peers see them, whose subflows are backups (RFC 8684, section 3.3.8), no matter which
    /// end opened them. Empty by default.
    pub backup_addresses: Vec<std::net::IpAddr>,
    /// Which addresses announced by a peer are joined, if the path manager joins any.
    pub announced: AnnouncedAddresses,
    /// At which own addresses joins are accepted.
    pub joins: JoinPolicy,
    /// Server: if a subflow is lost to a reset or to a timeout while the connection lives, its own address is
    /// announced again, so that the peer can join it again. If no other subflow uses the address, it is removed
    /// first. Off by default.
    pub announce_again: bool,
    /// Client: the SYN is also sent from the other addresses from which the path manager would open subflows, and the
    /// first SYN/ACK decides which of these paths the initial subflow uses. The others are joined later. Each SYN
    /// follows the one before it after this time. If the stack [remembers](crate::StackConfig::remembered_paths) the
    /// path that was asked for, another remembered one may be better and gets the first SYN, and the others follow when
    /// its answer is late. Those of backups come last, after the timeout of the first. If there is no other address and
    /// this is zero, the SYN is sent twice at once, with two flow labels if labels change. `None`, the default, sends
    /// the SYN on one path.
    pub syn_race: Option<Duration>,
    /// Client: further subflows are opened together with the third ACK, not only once the peer has shown that it has the
    /// keys (RFC 8684, section 3.1), a round trip later. Server: a join that arrives before the keys is answered as
    /// soon as they arrive. Both ends must agree, which they do next to parities of blocks only
    /// (`docs/wire/parities.md`), since a SYN/ACK has no room for another option. Off by default.
    pub early_joins: bool,
    /// Most time between the openings of two subflows. The time is drawn uniformly up to this value (MMPTCP
    /// section 2.3: so that their first segments do not arrive in one burst). Zero by default.
    pub join_spacing: Duration,
    /// Packet scatter on the first subflow, if the peer agrees. The path manager's further subflows are opened
    /// when the scatter phase ends (MMPTCP section 2).
    pub scatter: Option<Arc<ScatterConfig>>,
}

/// Which announced addresses (ADD_ADDR; RFC 8684, section 3.4.1) may be joined. Addresses that no host can have
/// (unspecified, multicast, broadcast) are never joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnnouncedAddresses {
    /// No announced address.
    Ignore,
    /// Addresses that reach at least as far as the peer's first address. A public peer cannot make this end
    /// open subflows to private, link-local or loopback addresses.
    #[default]
    SameScope,
    /// All announced addresses.
    Any,
}

/// At which own addresses joins (RFC 8684, section 3.2) are accepted. Joins at other addresses are reset as
/// administratively prohibited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinPolicy {
    /// Where the stack has an open listener, at the local endpoint of the first subflow, and at announced
    /// addresses (and ports).
    #[default]
    Listening,
    /// At every address at which the peer's packets arrive.
    Anywhere,
}

impl Default for MultipathConfig {
    fn default() -> Self {
        Self {
            path_manager: Arc::new(Passive),
            scheduler: Arc::new(MinRtt),
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
            syn_race: None,
            early_joins: false,
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
            congestion: Arc::new(Reno),
            timing_precision: Duration::ZERO,
            multipath: None,
            recovery: None,
            recovery_budget: None,
            stage: None,
            coding: None,
            entropy: None,
        }
    }
}

impl Config {
    /// Whether one acknowledgement may cover many segments: if several are sent under one header, or if several
    /// arrive at once because their unit was decoded, so that all are acknowledged together.
    pub(crate) fn coalesces(&self) -> bool {
        self.tcp.burst > self.tcp.mss || self.coding.is_some()
    }

    /// How many subflows the connection plans; 1 without multipath.
    pub fn planned_subflows(&self) -> usize {
        self.multipath
            .as_ref()
            .map_or(1, |m| m.path_manager.planned_subflows())
    }
}
