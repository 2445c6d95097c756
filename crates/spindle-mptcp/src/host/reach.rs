//! What a stack and its link tell each other about single subflows.

use spindle_units::Instant;
use spindle_wire::Endpoint;

use super::Stack;
use crate::connection::PathError;

impl Stack {
    /// Segments from `local` do not reach `remote` at present, as the link has found out by itself or by an ICMP
    /// message. Whether such a message is to be believed is for the caller to judge (RFC 5927, section 4.1).
    /// An attempt to connect fails at once, with [`CloseReason::Refused`] or [`CloseReason::NoRoute`]; an
    /// established subflow's data go over others, if there are any.
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

    /// Whether there is a subflow from `local` to `remote`, whatever its state: one in TIME_WAIT or with an
    /// incomplete handshake counts. A SYN that was answered with a cookie leaves none.
    pub fn has_subflow(&self, local: Endpoint, remote: Endpoint) -> bool {
        let tuple = (local, remote);
        let found = self.table.lookup(&tuple);
        found.is_some_and(|(slot, subflow)| {
            let connection = self.table.connection(slot);
            connection.is_some_and(|c| c.position_of(subflow, &tuple).is_some())
        })
    }
}
