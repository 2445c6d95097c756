//! The race of a connection's SYNs over several paths ([`MultipathConfig::syn_race`](crate::config::MultipathConfig)).

use spindle_units::{Duration, Instant};

use super::{PathHistory, Stack};
use crate::connection::Connection;
use crate::subflow::Subflow;
use crate::types::SubflowId;

/// The path that the application asked for goes first unless a first flight takes so many times less on another one
/// (our choice).
const CLEARLY_LESS: f64 = 1.25;

impl Stack {
    /// Opens the rivals of a new connection's first SYN, and decides which SYN is sent first and when the others follow.
    pub(super) fn race(&mut self, now: Instant, slot: u32) {
        while let Some(rival) = self.table.connection_mut(slot).and_then(|c| c.next_rival()) {
            if !self.open_subflow(now, slot, &rival) {
                break;
            }
        }
        let raced = |c: &Connection| c.subflows.len() > 1;
        if !self.table.connection(slot).is_some_and(raced) {
            if let Some(c) = self.table.connection_mut(slot) {
                c.race_alone();
            }
            return;
        }
        let favourite = self.favourite(now, slot);
        if let Some(c) = self.table.connection_mut(slot) {
            let (first, after) = favourite.unwrap_or((SubflowId::FIRST, c.race_interval()));
            c.start_race(now, first, after);
        }
    }

    /// The subflow whose SYN is sent first, and the time after which its answer is late. `None` if the stack remembers
    /// nothing about the path that the application asked for. A backup is never preferred to it.
    fn favourite(&self, now: Instant, slot: u32) -> Option<(SubflowId, Duration)> {
        let c = self.table.connection(slot)?;
        let history = |s: &Subflow| {
            let known = self.path_history(now, s.local.addr, s.remote.addr)?;
            Some((s.id, known))
        };
        let mut subflows = c.subflows.iter();
        let planned = subflows.next().and_then(history)?;
        let time = |h: &PathHistory| h.first_flight();
        let best = subflows
            .filter(|s| !c.is_backup_address(s.local.addr))
            .filter_map(history)
            .min_by_key(|(_, history)| time(history));
        let clearly = |(_, history): &(SubflowId, PathHistory)| {
            time(history).as_nanos() as f64 * CLEARLY_LESS < time(&planned.1).as_nanos() as f64
        };
        let (id, history) = best.filter(clearly).unwrap_or(planned);
        Some((id, history.answer_is_late_after()))
    }
}
