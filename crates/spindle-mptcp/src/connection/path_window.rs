//! The congestion windows that subflows have when they start and when all data are delivered, for the stack's memory
//! of paths (RFC 9040).

use std::net::IpAddr;

use super::Connection;
use super::ended::SubflowEnd;
use crate::types::{SubflowId, SubflowPosition};

/// The two addresses of a path: local and remote.
pub(crate) type Path = (IpAddr, IpAddr);

impl Connection {
    /// The addresses of subflow `id`, if it exists.
    pub(crate) fn path_of(&self, id: SubflowId) -> Option<Path> {
        let s = &self.subflows[self.index(id)?];
        Some((s.local.addr, s.remote.addr))
    }

    /// Lets subflow `id` start with `window` bytes, at most `most` segments, if that is more than its initial window.
    /// Nothing changes if its SYN was retransmitted (RFC 6928, section 2) or if it has sent data.
    #[cold] // the handshake
    pub(crate) fn start_with_window(&mut self, id: SubflowId, window: u64, most: u64) {
        let Some(i) = self.index(id) else {
            return;
        };
        let subflow = &mut self.subflows[i];
        let begins = subflow.syn.tries <= 1 && subflow.tx.nxt == SubflowPosition::FIRST_BYTE;
        let window = window.min(most * subflow.tx.mss);
        if begins && window > subflow.tx.cc.cwnd() {
            subflow.tx.cc.set_cwnd(window);
            let (cwnd, srtt) = (subflow.tx.cc.cwnd(), subflow.tx.srtt());
            self.coupling.update(id.number(), cwnd, srtt);
        }
    }

    /// The path and the congestion window in bytes of each subflow that was closed in order or is established, when
    /// the connection sends no more data.
    #[cold] // the end of a connection
    pub(crate) fn last_windows(&self) -> Vec<(Path, u64)> {
        let closed = self
            .ended
            .iter()
            .filter(|e| e.established && e.end == SubflowEnd::Closed);
        let closed = closed.map(|e| ((e.local.addr, e.remote.addr), e.window));
        let established = self
            .subflows
            .remaining()
            .filter(|s| s.state.is_synchronized())
            .map(|s| ((s.local.addr, s.remote.addr), s.tx.cc.cwnd()));
        closed.chain(established).collect()
    }
}
