//! A connection whose transfer no subflow can complete stays alive at the data level for a while, so that a
//! further subflow can take over: "break-before-make" (RFC 8684, sections 3.3.3 and 3.5).

use spindle_units::{Duration, Instant};

use super::path_manager::Wanted;
use super::{CloseReason, Connection, Role};
use crate::subflow::TcpState;

/// State of a connection that waits for a further subflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct CutOff {
    since: Instant,
    /// How the connection ends if no further subflow is established.
    reason: CloseReason,
}

impl Connection {
    /// How long the connection waits for a further subflow.
    fn close_timeout(&self) -> Duration {
        let multipath = self.config.multipath.as_ref();
        multipath.map_or(Duration::ZERO, |m| m.close_timeout)
    }

    /// Whether the peer has all our data and this end will send no more.
    pub(super) fn is_delivered(&self) -> bool {
        self.teardown.closing && self.send.una >= self.send.written
    }

    /// Whether a further subflow would have anything to carry: our data, or the peer's data for an application
    /// that may still read them.
    pub(super) fn outlives_its_subflows(&self) -> bool {
        let expects_data = !self.teardown.peer_closed && !self.teardown.released;
        let alive = self.connected && self.teardown.closed.is_none() && self.is_multipath();
        alive && (expects_data || !self.is_delivered()) && self.close_timeout() > Duration::ZERO
    }

    /// Whether no subflow can carry anything, or no subflow can carry the rest of the peer's data.
    fn is_cut_off(&self) -> bool {
        let synchronized = |s: TcpState| s.is_synchronized() && s != TcpState::TimeWait;
        let mut states = self.subflows.iter().map(|s| s.state);
        let none = !states.clone().any(synchronized);
        none || !self.teardown.peer_closed && !states.any(TcpState::may_receive)
    }

    /// A subflow was lost or closed by the peer. Returns whether the connection waits for a further subflow
    /// from now on. If none is established, it ends with `reason`.
    pub(super) fn note_cut_off(&mut self, now: Instant, reason: CloseReason) -> bool {
        let waits = self.is_cut_off() && self.outlives_its_subflows();
        if waits {
            let since = now;
            self.cut_off.get_or_insert(CutOff { since, reason });
        }
        waits
    }

    /// A further subflow is established.
    pub(super) fn review_cut_off(&mut self) {
        self.cut_off = self.cut_off.filter(|_| self.is_cut_off());
    }

    /// When the connection ends unless a further subflow is established.
    #[inline]
    pub(super) fn cut_off_deadline(&self) -> Option<Instant> {
        self.cut_off.map(|c| c.since + self.close_timeout())
    }

    /// Checks whether the timeout has passed without a further subflow.
    pub(super) fn cut_off_timer(&mut self, now: Instant) {
        if self.cut_off_deadline().is_none_or(|t| t > now) {
            return;
        }
        self.review_cut_off();
        if let Some(c) = self.cut_off {
            self.abort_with(now, c.reason);
        }
    }

    /// Closes the subflows that the peer has closed, if another subflow carries on: "a host MUST NOT close all
    /// functioning subflows unless it is safe to do so" (RFC 8684, section 3.3.3).
    pub(super) fn answer_fins(&mut self) {
        let ended = |s: &TcpState| *s == TcpState::CloseWait;
        if !self.subflows.iter().any(|s| ended(&s.state)) {
            return;
        }
        let mut usable = self.subflows.iter().filter(|s| s.is_usable());
        if !usable.any(|s| s.state.may_receive()) {
            return;
        }
        for s in self.subflows.iter_mut().filter(|s| ended(&s.state)) {
            s.closing = true;
        }
    }

    /// The first pair of endpoints, for a client that has no subflow left. It is returned once the time for
    /// another attempt has come, whatever the path manager is.
    pub(super) fn first_pair_again(&mut self) -> Option<Wanted> {
        let mp = self.multipath()?;
        let free = mp.confirmed && !mp.no_more_to_remote;
        let waits =
            self.cut_off.is_some() && self.subflows.is_empty() && self.teardown.closed.is_none();
        if self.role != Role::Client || !free || !waits {
            return None;
        }
        self.paths.reopen_first()
    }

    /// Ends a client that has no subflow left and will open none. It need not wait, because its peer opens none
    /// either.
    pub(super) fn give_up_without_paths(&mut self) {
        let alone = self.role == Role::Client && self.subflows.is_empty();
        if let Some(c) = self.cut_off.filter(|_| alone && !self.paths.will_retry()) {
            self.finish(c.reason);
        }
    }
}
