//! Packet scatter's two phases (MMPTCP section 2): first one subflow whose packets leave from random
//! ports under one congestion window, then MPTCP over subflows of fixed ports.
//!
//! Both ends agree on it by an experimental option (RFC 6994) on the SYN and the SYN/ACK, beside
//! MP_CAPABLE; a peer that does not answer it gets MPTCP from the first byte. Not where DSS checksums are
//! on: with timestamps and the token their mappings would not fit into the option space.
//!
//! The end that opened the connection opens its subflows, so it is the one that ends the first phase,
//! for what it sends as well as for what it receives; the other end goes on with the first subflow until
//! one of the new ones is up. From then on the first has no new data to send; it repeats what it still has
//! outstanding, and rests. Should no other subflow come up, or none be left, it takes data again.

use std::num::NonZeroU32;
use std::sync::Arc;

use spindle_wire::{Experimental, Options, Segment};

use super::{Connection, Role};
use crate::config::{Config, LossConfig};
use crate::stage::scatter::{Scatter, ScatterConfig, Switch, TOKEN_ROOM};
use crate::subflow::{Origin, SubflowId};

/// The subflow that scatters.
const FIRST: SubflowId = 0;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Not agreed on, or over: the connection falls back, or never asked.
    #[default]
    Off,
    /// Agreed on in the handshake.
    Agreed,
    /// The first subflow scatters what it sends.
    First,
    /// There are further subflows, or will be soon; what the first still sends, it scatters.
    Second,
}

/// What a connection knows of its phases.
#[derive(Debug, Default)]
pub(super) struct Phases {
    phase: Phase,
    /// Further subflows that the topology calls for.
    called_for: Option<usize>,
    /// Further subflows are long in coming: the first one takes new data until one is up.
    late: bool,
    /// The path manager should be asked.
    wishes: bool,
}

impl Phases {
    /// Whether segments are being scattered.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        matches!(self.phase, Phase::First | Phase::Second)
    }

    /// Whether this connection scatters, has done, or will do.
    fn is_agreed(&self) -> bool {
        self.phase != Phase::Off
    }

    /// Whether it is too early for further subflows.
    pub(super) fn holds_back(&self) -> bool {
        matches!(self.phase, Phase::Agreed | Phase::First)
    }

    /// Subflows in all where a path manager would have `n` without scatter.
    pub(super) fn subflows(&self, n: usize) -> usize {
        if self.is_agreed() {
            1 + self.called_for.map_or(n, |k| k.min(n))
        } else {
            n
        }
    }
}

/// The configuration of the initial subflow as it is opened.
pub(super) fn opening(config: &Arc<Config>) -> Arc<Config> {
    let multipath = config.multipath.as_ref();
    let scatter = multipath.and_then(|m| m.scatter.as_ref());
    scatter.map_or_else(|| config.clone(), |s| s.opening(config))
}

fn says(seg: &Segment) -> bool {
    let offer = |e: &Experimental| {
        let ours = (e.kind, e.exid) == (Experimental::KIND, Experimental::SCATTER);
        ours && e.data.is_empty()
    };
    let rare = seg.options.rare.as_ref();
    rare.is_some_and(|r| r.experimental.iter().any(offer))
}

impl Connection {
    /// How to scatter, if this end is to.
    fn scatter_config(&self) -> Option<Arc<ScatterConfig>> {
        let multipath = self.config.multipath.as_ref().filter(|m| !m.checksum)?;
        let config = multipath.scatter.clone();
        config.filter(|_| self.config.stage.is_none())
    }

    /// Adds the offer, or the answer, to the SYN or SYN/ACK of subflow `i`.
    pub(super) fn offer_scatter(&self, i: usize, options: &mut Options) {
        let rare = options.rare.as_ref();
        let capable = rare.is_some_and(|r| r.mp_capable.is_some());
        let due = match self.role {
            Role::Client => self.scatter_config().is_some(),
            Role::Server => self.scatter.is_agreed(),
        };
        if due && capable && self.subflows[i].origin == Origin::Initial {
            options.rare_mut().experimental.push(Experimental {
                kind: Experimental::KIND,
                exid: Experimental::SCATTER,
                data: Vec::new(),
            });
        }
    }

    /// The peer's SYN or SYN/ACK has come, and MPTCP's part of it is settled: whether both ends scatter.
    pub(super) fn agree_on_scatter(&mut self, syn: &Segment) {
        let unchecked = self.mp.as_ref().is_some_and(|m| !m.checksum);
        let config = self.scatter_config().filter(|_| unchecked && says(syn));
        let Some(config) = config else { return };
        let (local, remote) = (self.subflows[0].local.addr, self.subflows[0].remote.addr);
        let reach = config.reach(local, remote);
        self.scatter.phase = Phase::Agreed;
        self.scatter.called_for = reach.subflows;
        let own = Config {
            loss: LossConfig {
                dupack_threshold: reach.threshold,
                reordering: config.reordering(),
                ..config.loss.clone()
            },
            congestion: config.congestion,
            ..Config::clone(&config.opening(&self.config))
        };
        let sf = &mut self.subflows[0];
        sf.adopt(Arc::new(own));
        sf.reserve_options(TOKEN_ROOM);
        self.coupling.deactivate(usize::from(FIRST));
    }

    /// Each end has the other's key, and knows that: scattering begins. A client's first data do not
    /// scatter: the segments behind the one with the keys would overtake it, and be of no connection.
    pub(super) fn begin_to_scatter(&mut self) {
        if self.scatter.phase != Phase::Agreed {
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
        self.scatter.phase = Phase::First;
    }

    /// MPTCP is no more, and the token with it.
    pub(super) fn end_scatter(&mut self) {
        if self.scatter.is_agreed() {
            self.scatter.phase = Phase::Off;
            if let Some(i) = self.index(FIRST) {
                let config = opening(&self.config);
                let sf = &mut self.subflows[i];
                sf.stage = None;
                sf.draining = false;
                sf.keep_to(config);
            }
        }
    }

    /// Which subflow a segment with this end's token is for, if it may come from any port of the peer's.
    pub(crate) fn takes_scattered(&self, seg: &Segment) -> Option<usize> {
        let i = self
            .index(FIRST)
            .filter(|_| self.scatter.is_agreed() && self.is_multipath())?;
        let sf = &self.subflows[i];
        (sf.local == seg.dst && sf.remote.addr == seg.src.addr).then_some(i)
    }

    /// Ends the first phase if that is due: the path manager may open further subflows.
    pub(super) fn end_first_phase_if_due(&mut self) {
        if self.scatter.phase != Phase::First || self.role != Role::Client || self.closing_soon() {
            return;
        }
        let Some(config) = self.scatter_config() else {
            return;
        };
        let more = self.send.unsent_bytes() > 0;
        let due = match config.switch {
            Switch::Bytes(most) => more && self.send.nxt >= most || self.recv.next() > most,
            Switch::Window(bytes) => more && self.first_window() >= bytes,
            Switch::Congestion => self.first_congested(),
            Switch::Never => false,
        };
        if due {
            self.scatter.phase = Phase::Second;
            self.scatter.wishes = true;
            self.settle_draining();
        }
    }

    /// Subflows that this end's configuration plans, scatter's own among them.
    pub(crate) fn planned_subflows(&self) -> usize {
        self.scatter.subflows(self.config.planned_subflows())
    }

    /// Whether further subflows would have nothing to do.
    pub(super) fn closing_soon(&self) -> bool {
        self.closed.is_some() || self.closing && self.send.unsent_bytes() == 0
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

    /// Whether the path manager should be asked since something has changed beside what arrived; once.
    pub(crate) fn takes_wishes(&mut self) -> bool {
        std::mem::take(&mut self.scatter.wishes)
    }

    /// A further subflow has come up.
    pub(super) fn on_further_subflow(&mut self, id: SubflowId) {
        if id != FIRST && self.scatter.is_on() {
            self.scatter.phase = Phase::Second;
            self.settle_draining();
        }
    }

    /// A further subflow could not be opened, was refused, or its SYN had to be repeated.
    pub(crate) fn on_late_subflow(&mut self) {
        if self.scatter.is_on() {
            self.scatter.late = true;
            self.settle_draining();
        }
    }

    /// Whether the first subflow is to have new data: not in the second phase, unless there is no other.
    pub(super) fn settle_draining(&mut self) {
        if self.scatter.phase != Phase::Second {
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
        let draining = up || !self.scatter.late;
        // Writing makes the subflow's summary stale.
        if self.subflows[first].draining != draining {
            self.subflows[first].draining = draining;
        }
    }
}
