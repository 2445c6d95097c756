//! Coding of short flows. It is agreed on in the handshake and then is the first subflow's
//! [stage](crate::stage).
//!
//! Coding works over plain TCP only. A SYN that requests it names a code in an experimental option (RFC 6994).
//! The SYN/ACK repeats the option if its sender uses the same code. If the peer does not use this code, the
//! connection is plain TCP. Each end encodes its data according to its own configuration and decodes everything
//! that arrives. The end that received the SYN begins to encode once a segment after the handshake shows that
//! its answer has arrived.

use std::sync::Arc;

use spindle_wire::{Options, Segment};

use crate::connection::{Connection, Role};
use crate::stage::coding::{
    CODING_ROOM, Coding, CodingConfig, CodingCounters, PathEstimates, Short, offer, offered,
};
use crate::stage::has_priority;

/// Coding state of a connection.
#[derive(Debug, Default)]
pub(in crate::connection) struct Coded {
    /// Source of the estimate for the path to the peer.
    path_estimates: PathEstimates,
    /// Both ends agreed on coding.
    pub(in crate::connection) agreed: bool,
    /// Counters of a stage that no longer exists.
    past: CodingCounters,
}

impl Coded {
    /// State before an agreement. `path_estimates` are the host's path estimators.
    pub(in crate::connection) fn with(path_estimates: PathEstimates) -> Self {
        Self {
            path_estimates,
            ..Self::default()
        }
    }
}

impl Connection {
    /// The coding configuration, if this end may code.
    fn coding_config(&self) -> Option<Arc<CodingConfig>> {
        let alone = self.config.multipath.is_none() && self.config.stage.is_none();
        self.config.coding.clone().filter(|_| alone)
    }

    /// Adds the offer, or the answer, to the SYN or SYN/ACK.
    pub(in crate::connection) fn offer_coding(&self, options: &mut Options) {
        let Some(config) = self.coding_config() else {
            return;
        };
        let due = match self.role {
            // A flow that is known to be long uses plain TCP.
            Role::Client => config.short != Short::Tagged || has_priority(self.dscp),
            Role::Server => self.extensions.coded.agreed,
        };
        if due {
            options.rare_mut().experimental.push(offer(config.code));
        }
    }

    /// The peer's SYN or SYN/ACK has arrived. Decides whether both ends use the same code.
    pub(in crate::connection) fn agree_on_coding(&mut self, syn: &Segment) {
        let Some(config) = self.coding_config() else {
            return;
        };
        if self.extensions.coded.agreed || offered(syn) != Some(config.code) {
            return;
        }
        self.extensions.coded.agreed = true;
        let opened = self.role == Role::Client;
        let (local, peer) = (self.subflows[0].local.addr, self.subflows[0].remote.addr);
        let config = config.for_path(local, peer);
        let estimates = &self.extensions.coded.path_estimates;
        let estimator = estimates.between(local, peer, &config);
        let sf = &mut self.subflows[0];
        sf.reserve_options(CODING_ROOM);
        sf.stage = Some(Box::new(Coding::new(config, estimator, opened)));
    }

    /// Bytes and number of pieces that stages store.
    pub(in crate::connection) fn stored_by_stages(&self) -> (u64, usize) {
        if !self.extensions.coded.agreed {
            return (0, 0);
        }
        let stages = self.subflows.iter().filter_map(|s| s.stage.as_ref());
        stages
            .map(|s| s.stored())
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Memory is short: stages free memory that may never be needed.
    pub(in crate::connection) fn shed_stages(&mut self) {
        if self.extensions.coded.agreed {
            let stages = self.subflows.iter_mut().filter_map(|s| s.stage.as_mut());
            stages.for_each(|s| s.shed());
        }
    }

    /// Counters of the connection's coding so far.
    pub(crate) fn coding_counters(&self) -> CodingCounters {
        let stages = self.subflows.iter().filter_map(|s| s.stage.as_ref());
        stages
            .filter_map(|s| s.coding())
            .fold(self.extensions.coded.past, |all, c| all.plus(c))
    }

    /// Keeps the counters of the stage of subflow `i`, which will be removed.
    pub(in crate::connection) fn keep_coding_counters(&mut self, i: usize) {
        let stage = self.subflows[i].stage.as_ref();
        if let Some(c) = stage.and_then(|s| s.coding()) {
            self.extensions.coded.past = self.extensions.coded.past.plus(c);
        }
    }
}
