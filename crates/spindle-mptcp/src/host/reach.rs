//! What a stack and its link report to each other about single subflows.

use spindle_units::Instant;
use spindle_wire::Endpoint;

use super::Stack;
use crate::connection::PathError;

impl Stack {
    /// Reports that segments from `local` do not reach `remote` at present. The link has found this out by
    /// itself or from an ICMP message. The caller judges whether such a message can be trusted (RFC 5927,
    /// section 4.1).
    ///
    /// An attempt to connect fails at once, with [`CloseReason::Refused`] or [`CloseReason::NoRoute`]. The data
    /// of an established subflow are sent over other subflows, if there are any.
    ///
    /// [`CloseReason::Refused`]: crate::CloseReason::Refused
    /// [`CloseReason::NoRoute`]: crate::CloseReason::NoRoute
    pub fn unreachable(&mut self, now: Instant, local: Endpoint, remote: Endpoint, why: PathError) {
        let tuple = (local, remote);
        let Some((slot, subflow)) = self.table.lookup(&tuple) else {
            return;
        };
        let Some(c) = self.table.connection_mut(slot) else {
            return;
        };
        if let Some(i) = c.position_of(subflow, &tuple) {
            c.on_path_error(now, i, why);
            self.touch(now, slot);
        }
    }

    /// Whether there is a subflow from `local` to `remote`, whatever its state. A subflow in TIME_WAIT or with
    /// an incomplete handshake counts. A SYN that was answered with a cookie leaves no subflow.
    pub fn has_subflow(&self, local: Endpoint, remote: Endpoint) -> bool {
        let tuple = (local, remote);
        let found = self.table.lookup(&tuple);
        found.is_some_and(|(slot, subflow)| {
            let connection = self.table.connection(slot);
            connection.is_some_and(|c| c.position_of(subflow, &tuple).is_some())
        })
    }
}
