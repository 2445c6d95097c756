//! The extensions that both ends may agree on in the handshake.
//!
//! | extension | agreement | sender | receiver |
//! |---|---|---|---|
//! | TCP Instant Recovery | [`parities`] | [`tcp_ir`] | [`tcp_ir`] |
//! | CoFUSO | [`parities`] | [`cofuso::sender`] | [`cofuso::receiver`], [`cofuso::decoder`] |
//! | packet scatter (MMPTCP) | [`packet_scatter`] | [`crate::stage::scatter`] | [`crate::stage::scatter`] |
//! | packet coding (CAPS) | [`caps`] | [`crate::stage::coding`] | [`crate::stage::coding`] |
//!
//! Scatter and coding treat whole segments, so that their senders and receivers are stages below TCP. A stage does
//! not know the connection. The agreement chooses the stage and is made here.

pub(in crate::connection) mod caps;
pub(in crate::connection) mod cofuso;
pub(in crate::connection) mod packet_scatter;
pub(in crate::connection) mod parities;
mod payloads;
mod tcp_ir;

use spindle_wire::{Options, Segment};

use caps::Coded;
use packet_scatter::Phases;
use parities::Parities;

use super::Connection;
use crate::stage::coding::PathEstimates;

/// The state of each extension. It is empty where the ends did not agree.
#[derive(Debug)]
pub(crate) struct Extensions {
    pub(in crate::connection) parities: Parities,
    pub(in crate::connection) scatter: Phases,
    pub(in crate::connection) coded: Coded,
}

impl Extensions {
    /// State before an agreement. `path_estimates` are the host's path estimators.
    pub(in crate::connection) fn new(path_estimates: PathEstimates) -> Self {
        Self {
            parities: Parities::default(),
            scatter: Phases::default(),
            coded: Coded::with(path_estimates),
        }
    }
}

impl Connection {
    /// Adds the offers, or the answers, of all extensions to the SYN or SYN/ACK of subflow `i`, which already has its
    /// MPTCP options.
    pub(in crate::connection) fn offer_extensions(&self, i: usize, options: &mut Options) {
        self.offer_parities(i, options);
        self.offer_scatter(i, options);
        self.offer_coding(options);
    }

    /// The MPTCP options of the peer's SYN or SYN/ACK were processed. Decides which extensions both ends use.
    pub(in crate::connection) fn agree_on_extensions(&mut self, syn: &Segment) {
        self.agree_on_parities(syn);
        self.agree_on_scatter(syn);
        self.agree_on_coding(syn);
    }
}
