//! The two phases of packet scatter (MMPTCP section 2). In the first phase a single subflow sends its packets
//! from random ports under one congestion window. In the second phase MPTCP uses subflows with fixed ports.
//!
//! Both ends agree on scatter by an experimental option (RFC 6994) on the SYN and the SYN/ACK, in addition to
//! MP_CAPABLE. A peer that does not answer the option gets MPTCP from the first byte. Scatter is not used with
//! DSS checksums, because their mappings, timestamps and the token together do not fit into the option space.
//!
//! The end that opened the connection also opens its subflows. So it ends the first phase, both for the data
//! that it sends and for the data that it receives. The other end continues with the first subflow until a new
//! one is established. From then on the first subflow has no new data to send. It retransmits its outstanding
//! data and then is idle. If no other subflow is established, or none is left, the first subflow gets new data
//! again.

use std::num::NonZeroU32;
use std::sync::Arc;

use spindle_wire::{Options, ScatterOption, Segment};

use crate::config::Config;
use crate::connection::{Connection, Role};
use crate::stage::scatter::{PhaseSwitch, Scatter, ScatterConfig};
use crate::subflow::Origin;
use crate::tcp_config::LossConfig;
use crate::types::SubflowId;

/// The subflow that scatters.
const FIRST: SubflowId = SubflowId::FIRST;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Scatter was not requested, was not agreed on, or has ended because the connection fell back.
    #[default]
    Off,
    /// Scatter was agreed on in the handshake and has not begun.
    Agreed,
    /// The first subflow scatters its segments.
    First,
    /// Further subflows exist or will exist soon. The first subflow still scatters the segments that it sends.
    Second,
}

/// Scatter state of a connection.
#[derive(Debug, Default)]
pub(in crate::connection) struct Phases {
    phase: Phase,
    /// Number of further subflows that the topology requires.
    called_for: Option<usize>,
    /// Further subflows are delayed. The first subflow gets new data until one is established.
    late: bool,
    /// The path manager must be asked for further subflows.
    wishes: bool,
}

impl Phases {
    /// Whether segments are being scattered.
    #[inline]
    pub(in crate::connection) fn is_on(&self) -> bool {
        matches!(self.phase, Phase::First | Phase::Second)
    }

    /// Whether this connection scatters segments, did so, or will do so.
    fn is_agreed(&self) -> bool {
        self.phase != Phase::Off
    }

    /// Whether it is too early for further subflows.
    pub(in crate::connection) fn holds_back(&self) -> bool {
        matches!(self.phase, Phase::Agreed | Phase::First)
    }

    /// Total number of subflows, if a path manager would have `n` without scatter.
    pub(in crate::connection) fn subflows(&self, n: usize) -> usize {
        if self.is_agreed() {
            1 + self.called_for.map_or(n, |k| k.min(n))
        } else {
            n
        }
    }
}

/// The configuration of the initial subflow as it is opened.
pub(in crate::connection) fn opening(config: &Arc<Config>) -> Arc<Config> {
    let multipath = config.multipath.as_ref();
    let ecn = multipath
        .and_then(|m| m.scatter.as_ref())
        .and_then(|s| s.ecn);
    let Some(ecn) = ecn.filter(|e| *e != config.tcp.ecn) else {
        return config.clone();
    };
    let mut own = Config::clone(config);
    own.tcp.ecn = ecn;
    Arc::new(own)
}

impl Connection {
    /// The scatter configuration, if this end may scatter.
    fn scatter_config(&self) -> Option<Arc<ScatterConfig>> {
        let multipath = self.config.multipath.as_ref().filter(|m| !m.checksum)?;
        let config = multipath.scatter.clone();
        config.filter(|_| self.config.stage.is_none())
    }

    /// Adds the offer, or the answer, to the SYN or SYN/ACK of subflow `i`.
    pub(in crate::connection) fn offer_scatter(&self, i: usize, options: &mut Options) {
        let rare = options.rare.as_ref();
        let capable = rare.is_some_and(|r| r.mp_capable.is_some());
        let due = match self.role {
            Role::Client => self.scatter_config().is_some(),
            Role::Server => self.extensions.scatter.is_agreed(),
        };
        if due && capable && self.subflows[i].origin == Origin::Initial {
            options.add_experiment(ScatterOption.to_option());
        }
    }

    /// Called when the MPTCP options of the peer's SYN or SYN/ACK were processed. Decides whether both ends
    /// scatter.
    pub(in crate::connection) fn agree_on_scatter(&mut self, syn: &Segment) {
        let unchecked = self.mp.as_ref().is_some_and(|m| !m.checksum);
        let config = self
            .scatter_config()
            .filter(|_| unchecked && ScatterOption::is_in(&syn.options));
        let Some(config) = config else { return };
        let (local, remote) = (self.subflows[0].local.addr, self.subflows[0].remote.addr);
        let reach = config.reach(local, remote);
        self.extensions.scatter.phase = Phase::Agreed;
        self.extensions.scatter.called_for = reach.subflows;
        let own = Config {
            loss: LossConfig {
                dupack_threshold: reach.threshold,
                reordering: config.reordering(),
                ..config.loss.clone()
            },
            congestion: config.congestion.clone(),
            ..Config::clone(&opening(&self.config))
        };
        let sf = &mut self.subflows[0];
        sf.adopt(Arc::new(own));
        sf.reserve_options(ScatterOption::TOKEN_LEN as u64);
        self.coupling.deactivate(FIRST.number());
    }

    /// Begins to scatter if each end has the other's key and both ends know this. The first data of a client
    /// are not scattered. Segments behind the one with the keys would overtake it and would not belong to any
    /// connection.
    pub(in crate::connection) fn begin_to_scatter(&mut self) {
        if self.extensions.scatter.phase != Phase::Agreed {
            return;
        }
        let token = self
            .multipath()
            .and_then(|m| NonZeroU32::new(m.token_remote));
        let (Some(token), Some(config)) = (token, self.scatter_config()) else {
            return;
        };
        let seed = self.rng.next_u64();
        self.subflows[0].stage = Some(Box::new(Scatter::new(&config, token, seed)));
        self.extensions.scatter.phase = Phase::First;
    }

    /// MPTCP has ended, and the token with it, so scatter ends.
    pub(in crate::connection) fn end_scatter(&mut self) {
        if self.extensions.scatter.is_agreed() {
            self.extensions.scatter.phase = Phase::Off;
            if let Some(i) = self.index(FIRST) {
                let config = opening(&self.config);
                let sf = &mut self.subflows[i];
                sf.stage = None;
                sf.scheduling.draining = false;
                sf.keep_to(config);
            }
        }
    }

    /// Index of the subflow for a segment with this end's token, if the segment may come from any port of the
    /// peer.
    pub(crate) fn takes_scattered(&self, seg: &Segment) -> Option<usize> {
        let i = self
            .index(FIRST)
            .filter(|_| self.extensions.scatter.is_agreed() && self.is_multipath())?;
        let sf = &self.subflows[i];
        (sf.local == seg.dst && sf.remote.addr == seg.src.addr).then_some(i)
    }

    /// Ends the first phase if this is due. The path manager may then open further subflows.
    pub(in crate::connection) fn end_first_phase_if_due(&mut self) {
        if self.extensions.scatter.phase != Phase::First
            || self.role != Role::Client
            || self.closing_soon()
        {
            return;
        }
        let Some(config) = self.scatter_config() else {
            return;
        };
        let more = self.send.unsent_bytes() > 0;
        let due = match config.switch {
            PhaseSwitch::Bytes(most) => {
                more && self.send.nxt.since_start() >= most || self.recv.next().since_start() > most
            }
            PhaseSwitch::Window(bytes) => more && self.first_window() >= bytes,
            PhaseSwitch::Congestion => self.first_congested(),
            PhaseSwitch::Never => false,
        };
        if due {
            self.extensions.scatter.phase = Phase::Second;
            self.extensions.scatter.wishes = true;
            self.settle_draining();
        }
    }

    /// Number of subflows that this end's configuration plans, including the one that scatters.
    pub(crate) fn planned_subflows(&self) -> usize {
        self.extensions
            .scatter
            .subflows(self.config.planned_subflows())
    }

    /// Whether further subflows would have nothing to do.
    pub(in crate::connection) fn closing_soon(&self) -> bool {
        self.teardown.closed.is_some() || self.teardown.closing && self.send.unsent_bytes() == 0
    }

    fn first_window(&self) -> u64 {
        self.index(FIRST)
            .map_or(0, |i| self.subflows[i].tx.cc.cwnd())
    }

    fn first_congested(&self) -> bool {
        self.index(FIRST).is_some_and(|i| {
            let c = &self.subflows[i].tx.counters;
            c.losses > 0 || c.timeouts > 0 || c.fast_retransmits > 0 || c.ecn_reductions > 0
        })
    }

    /// Whether the path manager must be asked because of a change other than an arriving segment. Clears the
    /// flag.
    pub(crate) fn take_pending_joins(&mut self) -> bool {
        std::mem::take(&mut self.extensions.scatter.wishes)
    }

    /// A further subflow is established.
    pub(in crate::connection) fn on_further_subflow(&mut self, id: SubflowId) {
        if id != FIRST && self.extensions.scatter.is_on() {
            self.extensions.scatter.phase = Phase::Second;
            self.settle_draining();
        }
    }

    /// A further subflow could not be opened, was refused or lost, or its SYN was retransmitted.
    pub(crate) fn on_late_subflow(&mut self) {
        if self.extensions.scatter.is_on() {
            self.extensions.scatter.late = true;
            self.settle_draining();
        }
    }

    /// Decides whether the first subflow gets new data. In the second phase it gets none, unless further
    /// subflows are delayed and no other subflow works.
    pub(in crate::connection) fn settle_draining(&mut self) {
        if self.extensions.scatter.phase != Phase::Second {
            return;
        }
        let Some(first) = self.index(FIRST) else {
            return;
        };
        let others = |k: &usize| *k != first;
        let up = (0..self.subflows.len()).filter(others).any(|k| {
            let s = &self.subflows[k];
            s.is_usable() && !s.dead
        });
        let draining = up || !self.extensions.scatter.late;
        // Write access makes the subflow's summary stale.
        if self.subflows[first].scheduling.draining != draining {
            self.subflows[first].scheduling.draining = draining;
        }
    }
}
