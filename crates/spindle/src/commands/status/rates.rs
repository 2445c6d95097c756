//! The rates of subflows between two statuses of the same program.

use std::collections::HashMap;
use std::time::Instant;

use spindle_net::status::{Status, Subflow};

/// Payload that a subflow carried, in Mbit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) sent: f64,
    pub(super) received: f64,
}

/// A subflow: the numbers of its connection and its own.
type Key = (u64, u8);
/// Bytes sent and received.
type Bytes = (u64, u64);

/// The last status of a program.
#[derive(Debug)]
struct Last {
    at: Instant,
    subflows: HashMap<Key, Bytes>,
}

/// The last statuses of all programs, by process id.
#[derive(Debug, Default)]
pub(super) struct Rates {
    programs: HashMap<u32, Last>,
}

/// The rates of one program's subflows since its last status.
#[derive(Debug)]
pub(super) struct Since<'a> {
    last: Option<&'a Last>,
    seconds: f64,
}

impl Rates {
    /// Keeps a status to compare the next one with.
    pub(super) fn remember(&mut self, status: &Status, at: Instant) {
        let each = status.connections.iter().flat_map(|c| {
            let of = move |s: &Subflow| ((c.id, s.id), (s.bytes_sent, s.bytes_received));
            c.subflows.iter().map(of)
        });
        let subflows = each.collect();
        self.programs.insert(status.pid, Last { at, subflows });
    }

    /// The rates of a program whose status was taken `now`.
    pub(super) fn since(&self, status: &Status, now: Instant) -> Since<'_> {
        let last = self.programs.get(&status.pid);
        let seconds = last.map_or(0.0, |l| now.duration_since(l.at).as_secs_f64());
        Since { last, seconds }
    }
}

impl Since<'_> {
    /// The rate of a subflow. `None` if there is no last status. A subflow that is new since then began with nothing.
    pub(super) fn of(&self, connection: u64, subflow: &Subflow) -> Option<Rate> {
        let last = self.last.filter(|_| self.seconds > 0.0)?;
        let key = (connection, subflow.id);
        let (sent, received) = last.subflows.get(&key).copied().unwrap_or_default();
        let mbps = |now: u64, before: u64| now.saturating_sub(before) as f64 * 8e-6 / self.seconds;
        Some(Rate {
            sent: mbps(subflow.bytes_sent, sent),
            received: mbps(subflow.bytes_received, received),
        })
    }
}
