//! What former subflows learnt about the paths to peers: temporal sharing of control blocks (RFC 9040,
//! section 6).
//!
//! **Windows.** When the peer has acknowledged all data, and has closed its side or acknowledged the DATA_FIN, the stack
//! records the congestion window of each of its subflows, for its local address and the host of the peer: an IPv4 address or
//! the first 64 bits of an IPv6 address. It does not wait for the connection to end, because the next one may begin before
//! that: a client that has read an answer closes, and asks again. In slow start this is the whole window, which a longer
//! connection would send next. After a timeout it is the slow-start threshold. The next subflow between the
//! two starts with it, if it is more than its initial window. A subflow that does not fill its window leaves the record as it
//! was, and so does one that fills a smaller window without congestion.
//!
//! A record is removed when it is used, and the subflow that used it leaves its own record when it has no more to send.
//! Of several subflows that send at the same time, only one starts with the larger window, and the others start with
//! the initial window. A burst of connections therefore does not multiply a window that only one connection has tried.
//!
//! **Measurements.** What the controllers measured of the path itself, without queues, is recorded for the same hosts and used
//! by all later subflows that begin soon after. A subflow that begins in a full queue would take it for the path. Handshakes
//! and ended subflows also record round-trip times for the network of the peer (RFC 9040, section 6.2). A subflow whose
//! handshake takes as long as those of others in the network begins with the smallest one, and shares the rate of the slowest
//! link with those that run. Its controller finds out whether the path is its own.
//!
//! **Histories.** The round-trip time and the losses of a subflow are recorded for its local address and the network of
//! the peer. They do not change the load of a path, so that all later subflows use them: the timer of a SYN or SYN/ACK
//! expires after the timeout that RFC 6298 gives for this round-trip time, if that is shorter than the initial one, and
//! policies and controllers begin with these losses.

mod aged;
mod history;

use std::net::IpAddr;

use spindle_units::{Duration, Instant};

use super::table::Keyed;
use crate::congestion::{NetworkMeasurements, PathMeasurements};
use crate::connection::{Connection, ConnectionEvent, PathSample};
use crate::subflow::sender::LastWindow;
use crate::types::SubflowId;
use aged::Aged;
pub use history::{LossShare, PathHistory, network_of};
use history::{Route, host_route, route};

/// A record is used within this time. A path's load changes within minutes (our choice; Linux keeps its
/// `tcp_metrics` for an hour, but they do not contain a window).
const LIFETIME: Duration = Duration::from_secs(600);
/// The most segments that a subflow starts with, if the path's record allows them. It is four initial windows of
/// RFC 6928. Content delivery networks start with windows of this size without any record (Rüth and Hohlfeld 2018,
/// "Demystifying TCP Initial Window Configurations of Content Distribution Networks").
const MOST_SEGMENTS: u64 = 40;

/// The memory of all paths.
#[derive(Debug)]
pub(super) struct PathMemory {
    windows: Aged<Route, LastWindow>,
    measurements: Aged<Route, PathMeasurements>,
    networks: Aged<Route, NetworkMeasurements>,
    histories: Aged<Route, PathHistory>,
    is_off: bool,
}

impl PathMemory {
    /// A memory of at most `most` paths.
    pub(super) fn new(keyed: Keyed, most: usize) -> Self {
        Self {
            windows: Aged::new(keyed, most, LIFETIME),
            measurements: Aged::new(keyed, most, PathMeasurements::LIFETIME),
            networks: Aged::new(keyed, most, PathMeasurements::LIFETIME),
            histories: Aged::new(keyed, most, LIFETIME),
            is_off: most == 0,
        }
    }

    /// Follows what happens to a connection: a subflow that is established starts with the window that its path's
    /// record allows, and a connection that sends no more data leaves records.
    #[cold] // the beginning and the end of what a subflow sends
    pub(super) fn on_event(&mut self, now: Instant, c: &mut Connection, event: ConnectionEvent) {
        if self.is_off {
            return;
        }
        match event {
            ConnectionEvent::Connected => self.recall(now, c, SubflowId::FIRST),
            ConnectionEvent::SubflowUp(id) => self.recall(now, c, id),
            ConnectionEvent::Delivered => {
                for sample in c.path_samples(now) {
                    self.record(now, &sample);
                }
            }
            _ => {}
        }
    }

    /// Subflow `id` is about to send its SYN or SYN/ACK.
    #[cold] // the beginning of a subflow
    pub(super) fn prepare(&self, now: Instant, c: &mut Connection, id: SubflowId) {
        if self.is_off {
            return;
        }
        let path = c.path_of(id);
        if let Some(history) = path.and_then(|(local, remote)| self.history(now, local, remote)) {
            c.expect_path(id, (history.srtt, history.rttvar), history.sent.share);
        }
    }

    /// What is known about the path from `local` to the network of `remote`.
    pub(super) fn history(
        &self,
        now: Instant,
        local: IpAddr,
        remote: IpAddr,
    ) -> Option<PathHistory> {
        self.histories.get(now, &route(local, remote))
    }

    /// What was measured on the path to the network of the peer lately.
    fn network(&self, now: Instant, (local, remote): (IpAddr, IpAddr)) -> NetworkMeasurements {
        let known = self.networks.get(now, &route(local, remote));
        known.unwrap_or_default()
    }

    /// Subflow `id` is established, and has sent no data.
    fn recall(&mut self, now: Instant, c: &mut Connection, id: SubflowId) {
        let Some(path) = c.path_of(id) else {
            return;
        };
        let host = host_route(path.0, path.1);
        let mut former = self.measurements.get(now, &host).unwrap_or_default();
        if let Some(rtt) = c.latest_rtt(id) {
            let others = self.network(now, path);
            let mut network = others.clone();
            if network.on_handshake(now, rtt) {
                former.suppose(&others);
                c.share_rate(id, network.rate());
            }
            self.networks.insert(now, route(path.0, path.1), network);
        }
        c.expect_measurements(id, &former);
        let window = self.windows.take(now, &host);
        if let Some(window) = window.filter(|w| now.since(w.at) <= LIFETIME) {
            c.start_with_window(id, window, MOST_SEGMENTS);
        }
        if let Some(history) = self.history(now, path.0, path.1) {
            c.expect_losses(id, history.sent.usual());
        }
    }

    /// Records what a subflow that sends no more data has learnt.
    fn record(&mut self, now: Instant, sample: &PathSample) {
        let host = host_route(sample.path.0, sample.path.1);
        let known = self.windows.get(now, &host);
        let is_smaller = known.is_some_and(|k| k.bytes > sample.window.bytes);
        if sample.window.congested || !is_smaller {
            self.windows.insert(now, host, sample.window);
        }
        if let Some(mut measured) = sample.measured {
            if let Some(known) = self.measurements.get(now, &host) {
                measured.join(&known);
            }
            self.measurements.insert(now, host, measured);
            if let Some((srtt, _)) = sample.rtt {
                let mut network = self.network(now, sample.path);
                network.on_end(now, &measured, srtt);
                self.networks
                    .insert(now, route(sample.path.0, sample.path.1), network);
            }
        }
        let route = route(sample.path.0, sample.path.1);
        let before = self.histories.get(now, &route);
        if let Some(history) = PathHistory::after(before, sample) {
            self.histories.insert(now, route, history);
        }
    }
}

impl super::Stack {
    /// What former subflows measured between `local` and the network of `remote`. `None` if the stack remembers
    /// nothing about it ([`super::StackConfig::remembered_paths`]).
    pub fn path_history(&self, now: Instant, local: IpAddr, remote: IpAddr) -> Option<PathHistory> {
        self.path_memory.history(now, local, remote)
    }
}
