//! Coding of short flows: agreed on in the handshake, then the first subflow's [stage](crate::stage).
//!
//! Over plain TCP only. A SYN that wants it names a code by an experimental option (RFC 6994), and the SYN/ACK
//! repeats that if its sender codes likewise; a peer that does not gets TCP. Each end then codes what
//! it sends as its own configuration has it, and decodes whatever comes; the end that was opened to once
//! something behind the handshake shows that its answer has arrived.

use std::sync::Arc;

use spindle_wire::{Options, Segment};

use super::{Connection, Role};
use crate::stage::coding::{
    CODING_ROOM, Coding, CodingConfig, CodingCounters, Short, Ways, offer, offered,
};
use crate::stage::has_priority;

/// What a connection knows of coding.
#[derive(Debug, Default)]
pub(super) struct Coded {
    /// Where the estimate for the way to the peer is to be had.
    ways: Ways,
    /// Both ends agreed.
    pub(super) agreed: bool,
    /// Of a stage that is gone.
    past: CodingCounters,
}

impl Coded {
    /// Not agreed on yet; `ways` are the host's.
    pub(super) fn with(ways: Ways) -> Self {
        Self {
            ways,
            ..Self::default()
        }
    }
}

impl Connection {
    /// How to code, if this end is to.
    fn coding_config(&self) -> Option<Arc<CodingConfig>> {
        let alone = self.config.multipath.is_none() && self.config.stage.is_none();
        self.config.coding.clone().filter(|_| alone)
    }

    /// Adds the offer, or the answer, to the SYN or SYN/ACK.
    pub(super) fn offer_coding(&self, options: &mut Options) {
        let Some(config) = self.coding_config() else {
            return;
        };
        let due = match self.role {
            // A flow that is known to be long is TCP's alone.
            Role::Client => config.short != Short::Tagged || has_priority(self.dscp),
            Role::Server => self.coded.agreed,
        };
        if due {
            options.rare_mut().experimental.push(offer(config.code));
        }
    }

    /// The peer's SYN or SYN/ACK has come: whether both ends code, and by the same code.
    pub(super) fn agree_on_coding(&mut self, syn: &Segment) {
        let Some(mut config) = self.coding_config() else {
            return;
        };
        if self.coded.agreed || offered(syn) != Some(config.code) {
            return;
        }
        self.coded.agreed = true;
        let opened = self.role == Role::Client;
        let (local, peer) = (self.subflows[0].local.addr, self.subflows[0].remote.addr);
        let way = self.coded.ways.to(peer, &config);
        let rate = config.destinations.bottleneck(local, peer);
        if let Some(rate) = rate.filter(|r| *r != config.rate) {
            Arc::make_mut(&mut config).rate = rate;
        }
        let sf = &mut self.subflows[0];
        sf.reserve_options(CODING_ROOM);
        sf.stage = Some(Box::new(Coding::new(config, way, opened)));
    }

    /// Bytes that stages keep, and in how many pieces.
    pub(super) fn stored_by_stages(&self) -> (u64, usize) {
        if !self.coded.agreed {
            return (0, 0);
        }
        let stages = self.subflows.iter().filter_map(|s| s.stage.as_ref());
        stages
            .map(|s| s.stored())
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Memory is short: stages give back what may never be needed.
    pub(super) fn shed_stages(&mut self) {
        if self.coded.agreed {
            let stages = self.subflows.iter_mut().filter_map(|s| s.stage.as_mut());
            stages.for_each(|s| s.shed());
        }
    }

    /// What its coding has done so far.
    pub(crate) fn coding_counters(&self) -> CodingCounters {
        let stages = self.subflows.iter().filter_map(|s| s.stage.as_ref());
        stages
            .filter_map(|s| s.coding())
            .fold(self.coded.past, |all, c| all.plus(c))
    }

    /// Subflow `i` is about to go; what its stage counted stays.
    pub(super) fn keep_coding_counters(&mut self, i: usize) {
        let stage = self.subflows[i].stage.as_ref();
        if let Some(c) = stage.and_then(|s| s.coding()) {
            self.coded.past = self.coded.past.plus(c);
        }
    }
}
