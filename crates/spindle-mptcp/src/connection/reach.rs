//! Errors that this host or the network reports about paths that do not reach the peer.

use spindle_units::Instant;

use super::Connection;
use super::ended::SubflowEnd;
use crate::config::MultipathConfig;
use crate::subflow::{Subflow, TcpState};

/// Why segments do not reach a peer at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// The peer's host is reachable but does not accept segments: ICMP port or protocol unreachable.
    Refused,
    /// There is no path to the peer: ICMP network or host unreachable, or this host cannot send from the local
    /// address.
    NoRoute,
}

impl Connection {
    /// Segments of subflow `i` do not reach the peer. An attempt to open a subflow fails at once, whatever the
    /// error (RFC 5461, section 4.1; Linux `tcp_v4_err` in SYN_SENT). On an established subflow errors are soft
    /// (RFC 1122, section 4.2.3.9; RFC 5927, section 5.2). If another subflow works, it carries the outstanding
    /// data until this subflow acknowledges something. If no other subflow works, the timers of this subflow
    /// decide.
    pub(crate) fn on_path_error(&mut self, now: Instant, i: usize, error: PathError) {
        let sf = &self.subflows[i];
        if sf.state == TcpState::SynSent {
            self.retry_later(now, i);
            self.lose_subflow(now, i, SubflowEnd::Unreachable(error));
        } else if sf.state.is_synchronized() && !sf.dead && !sf.tx.board.is_empty() {
            self.bypass(now, i);
        }
        self.settle(now);
    }

    /// Reinjects the outstanding data of subflow `i` on other subflows, if any of them works.
    fn bypass(&mut self, now: Instant, i: usize) {
        let multipath = self.config.multipath.as_ref();
        let judges = |m: &MultipathConfig| !m.connection_timer && m.dead_after_timeouts < u32::MAX;
        let id = self.subflows[i].id;
        let works = |s: &Subflow| s.id != id && s.is_usable() && !s.dead;
        if !multipath.is_some_and(judges)
            || !self.is_multipath()
            || !self.subflows.iter().any(works)
        {
            return;
        }
        self.subflows[i].dead = true;
        self.settle_draining();
        self.reinject_from(i, true);
        self.subflows[i].tx.probe_dead_path(now, true);
    }
}
