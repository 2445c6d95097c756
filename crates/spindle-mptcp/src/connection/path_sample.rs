//! What subflows start with and what they have learnt when all data are delivered, for the stack's memory of paths (RFC
//! 9040).

use std::net::IpAddr;

use spindle_units::{Duration, Instant};

use super::Connection;
use super::ended::SubflowEnd;
use crate::congestion::{NetworkRate, PathMeasurements};
use crate::subflow::sender::LastWindow;
use crate::types::{SubflowId, SubflowPosition};

/// The two addresses of a path: local and remote.
type Path = (IpAddr, IpAddr);

/// What a subflow has learnt about its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathSample {
    pub(crate) path: Path,
    pub(crate) window: LastWindow,
    /// What its controller measured of the path.
    pub(crate) measured: Option<PathMeasurements>,
    /// Smoothed RTT and its variation, if measured.
    pub(crate) rtt: Option<(Duration, Duration)>,
    /// Data segments sent, of every kind, and how many of them were retransmissions.
    pub(crate) sent: (u64, u64),
    /// Segments received, and how many of them were retransmissions of lost ones.
    pub(crate) received: (u64, u64),
}

impl Connection {
    /// Subflow `id`, which has sent nothing yet, expects what former subflows measured on its path: a smoothed RTT and
    /// its variation, and a share of lost segments.
    #[cold] // the beginning of a subflow
    pub(crate) fn expect_path(&mut self, id: SubflowId, rtt: (Duration, Duration), loss: f64) {
        if let Some(i) = self.index(id) {
            let tx = &mut self.subflows[i].tx;
            tx.rtt.expect(rtt.0, rtt.1);
            tx.former.loss = loss;
        }
    }

    /// The addresses of subflow `id`, if it exists.
    pub(crate) fn path_of(&self, id: SubflowId) -> Option<Path> {
        let s = &self.subflows[self.index(id)?];
        Some((s.local.addr, s.remote.addr))
    }

    /// The RTT that subflow `id` measured last.
    pub(crate) fn latest_rtt(&self, id: SubflowId) -> Option<Duration> {
        self.subflows[self.index(id)?].tx.rtt.latest()
    }

    /// Lets subflow `id` start with this window, at most `most` segments, if that is more than its initial window.
    /// Nothing changes if its SYN was retransmitted (RFC 6928, section 2) or if it has sent data.
    #[cold] // the handshake
    pub(crate) fn start_with_window(&mut self, id: SubflowId, former: LastWindow, most: u64) {
        let Some(i) = self.index(id) else {
            return;
        };
        let subflow = &mut self.subflows[i];
        let begins = subflow.syn.tries <= 1 && subflow.tx.nxt == SubflowPosition::FIRST_BYTE;
        let window = former.bytes.min(most * subflow.tx.mss);
        if begins && window > subflow.tx.cc.cwnd() {
            subflow.tx.cc.set_cwnd(window);
            subflow.tx.former.window = Some(LastWindow {
                bytes: window,
                ..former
            });
            let (cwnd, srtt) = (subflow.tx.cc.cwnd(), subflow.tx.srtt());
            self.coupling.update(id.number(), cwnd, srtt);
        }
    }

    /// The controller of subflow `id`, which has sent no data, expects what former subflows between the same hosts, or to
    /// other hosts of the network, measured.
    #[cold] // the handshake
    pub(crate) fn expect_measurements(&mut self, id: SubflowId, former: &PathMeasurements) {
        if let Some(i) = self.index(id) {
            self.subflows[i].tx.cc.expect(former);
        }
    }

    /// The controller of subflow `id`, which has sent no data, shares the rate of the slowest link with other flows.
    #[cold] // the handshake
    pub(crate) fn share_rate(&mut self, id: SubflowId, network: &NetworkRate) {
        if let Some(i) = self.index(id) {
            self.subflows[i].tx.cc.share_rate(network);
        }
    }

    /// The controller of subflow `id`, which has sent no data, expects that this share of segments is lost.
    #[cold] // the handshake
    pub(crate) fn expect_losses(&mut self, id: SubflowId, share: f64) {
        if let Some(i) = self.index(id) {
            self.subflows[i].tx.cc.expect_losses(share);
        }
    }

    /// What each subflow that was closed in order or is established has learnt, when the connection sends no more data.
    #[cold] // the end of a connection
    pub(crate) fn path_samples(&self, now: Instant) -> Vec<PathSample> {
        let closed = self
            .ended
            .iter()
            .filter(|e| e.established && e.end == SubflowEnd::Closed);
        let closed = closed.map(|e| PathSample {
            path: (e.local.addr, e.remote.addr),
            window: e.last_window,
            measured: e.measured,
            rtt: e.rtt,
            sent: (e.sent, e.retransmitted),
            received: (e.received, e.repaired),
        });
        let established = self
            .subflows
            .remaining()
            .filter(|s| s.state.is_synchronized())
            .map(|s| PathSample {
                path: (s.local.addr, s.remote.addr),
                window: s.tx.last_window(now),
                measured: s.tx.cc.measurements(),
                rtt: s.tx.rtt.estimate(),
                sent: (s.tx.counters.segments, s.tx.counters.retransmissions),
                received: (s.received_segments(), s.rx.repaired),
            });
        closed.chain(established).collect()
    }
}
