//! What former subflows learnt about the paths to peers: temporal sharing of control blocks (RFC 9040,
//! section 6).
//!
//! When the peer has acknowledged all data and the DATA_FIN, or at the latest when the connection ends in order, the
//! stack records the congestion window of each of its subflows under the subflow's two addresses. It does not wait for
//! the subflows to end, because a lost FIN delays that by a retransmission timeout. The next subflow between these
//! addresses starts with half of that window, if this is more than its initial window. Half is a margin, because slow
//! start may have doubled the window beyond what the path carries, and other traffic may have come up since.
//!
//! A record is removed when it is used, and the subflow that used it leaves its own record when it has no more to send.
//! Of several subflows that send at the same time, only one starts with the larger window, and the others start with
//! the initial window. A burst of connections therefore does not multiply a window that only one connection has tried.

use std::collections::{HashMap, VecDeque};

use spindle_units::{Duration, Instant};

use super::table::Keyed;
use crate::connection::{Connection, ConnectionEvent, Path};
use crate::types::SubflowId;

/// A record is used within this time. A path's load changes within minutes (our choice; Linux keeps its
/// `tcp_metrics` for an hour, but they do not contain a window).
const LIFETIME: Duration = Duration::from_secs(600);
/// The most segments that a subflow starts with, if the path's record allows them. It is four initial windows of
/// RFC 6928. Content delivery networks start with windows of this size without any record (Rüth and Hohlfeld 2018,
/// "Demystifying TCP Initial Window Configurations of Content Distribution Networks").
const MOST_SEGMENTS: u64 = 40;

#[derive(Clone, Copy, Debug)]
struct Record {
    /// cwnd after the last data, in bytes.
    window: u64,
    at: Instant,
    /// The number of the record, which distinguishes it from others of the same path.
    number: u64,
}

/// The records of all paths.
#[derive(Debug)]
pub(super) struct PathMemory {
    records: HashMap<Path, Record, Keyed>,
    /// The records by age, the oldest first. Records that were used or replaced are skipped.
    order: VecDeque<(Path, u64)>,
    most: usize,
    numbered: u64,
}

impl PathMemory {
    /// A memory of at most `most` paths.
    pub(super) fn new(keyed: Keyed, most: usize) -> Self {
        Self {
            records: HashMap::with_hasher(keyed),
            order: VecDeque::new(),
            most,
            numbered: 0,
        }
    }

    /// Follows what happens to a connection: a subflow that is established starts with the window that its path's
    /// record allows, and a connection that sends no more data leaves records.
    #[cold] // the beginning and the end of what a subflow sends
    pub(super) fn on_event(&mut self, now: Instant, c: &mut Connection, event: ConnectionEvent) {
        if self.most == 0 {
            return;
        }
        match event {
            ConnectionEvent::Connected => self.recall(now, c, SubflowId::FIRST),
            ConnectionEvent::SubflowUp(id) => self.recall(now, c, id),
            ConnectionEvent::Delivered => {
                for (path, window) in c.last_windows() {
                    self.record(now, path, window);
                }
            }
            _ => {}
        }
    }

    /// Subflow `id` is established, and has sent no data.
    fn recall(&mut self, now: Instant, c: &mut Connection, id: SubflowId) {
        let Some(path) = c.path_of(id) else {
            return;
        };
        if let Some(window) = self.take(now, &path) {
            c.start_with_window(id, window, MOST_SEGMENTS);
        }
    }

    /// Records the window of a subflow that sends no more data. If there are too many records, the oldest is dropped.
    fn record(&mut self, now: Instant, path: Path, window: u64) {
        self.numbered += 1;
        let number = self.numbered;
        let record = Record {
            window,
            at: now,
            number,
        };
        self.records.insert(path, record);
        self.order.push_back((path, number));
        if self.records.len() > self.most {
            self.drop_oldest();
        }
        // Entries of records that were used or replaced may wait behind an old one.
        if self.order.len() > 2 * self.most {
            let records = &self.records;
            self.order
                .retain(|(path, number)| is_current(records, path, *number));
        }
    }

    fn drop_oldest(&mut self) {
        while let Some((path, number)) = self.order.pop_front() {
            if is_current(&self.records, &path, number) {
                self.records.remove(&path);
                return;
            }
        }
    }

    /// The window in bytes with which a subflow may start, if the path's record is not too old. The record is
    /// removed.
    fn take(&mut self, now: Instant, path: &Path) -> Option<u64> {
        let record = self.records.remove(path)?;
        (now.since(record.at) <= LIFETIME).then_some(record.window / 2)
    }
}

/// Whether the record with this number is the current one of its path.
fn is_current(records: &HashMap<Path, Record, Keyed>, path: &Path, number: u64) -> bool {
    records.get(path).is_some_and(|r| r.number == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(most: usize) -> PathMemory {
        PathMemory::new(Keyed::new([7; 16]), most)
    }

    fn path(n: u8) -> Path {
        ([10, 0, 0, 1].into(), [10, 0, 1, n].into())
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn record_serves_one_subflow_with_half_of_the_window() {
        let mut memory = memory(4);
        memory.record(at(0), path(1), 100_000);
        assert_eq!(memory.take(at(1), &path(2)), None);
        assert_eq!(memory.take(at(1), &path(1)), Some(50_000));
        assert_eq!(memory.take(at(1), &path(1)), None);
    }

    #[test]
    fn record_expires() {
        let mut memory = memory(4);
        memory.record(at(0), path(1), 100_000);
        assert_eq!(memory.take(at(601), &path(1)), None);
    }

    #[test]
    fn order_stays_short_while_one_record_waits_and_another_path_is_used() {
        let mut memory = memory(3);
        memory.record(at(0), path(1), 1000);
        for _ in 0..1000 {
            memory.record(at(1), path(2), 2000);
            memory.take(at(1), &path(2));
        }
        assert!(memory.order.len() <= 6, "{}", memory.order.len());
        assert_eq!(memory.take(at(2), &path(1)), Some(500));
    }

    #[test]
    fn oldest_records_are_dropped_beyond_the_limit_and_the_order_stays_short() {
        let mut memory = memory(3);
        for round in 0..1000 {
            for n in 0..5 {
                memory.record(at(round), path(n), 1000 + u64::from(n));
                assert!(memory.records.len() <= 3);
            }
            // A path that is used and recorded again and again.
            memory.take(at(round), &path(4));
            memory.record(at(round), path(4), 4000);
        }
        assert!(memory.order.len() <= 6, "{}", memory.order.len());
        let kept: Vec<_> = (0..5)
            .filter_map(|n| memory.take(at(1000), &path(n)))
            .collect();
        assert_eq!(kept, [501, 501, 2000]);
    }
}
