//! The data level's sending side: data that the application wrote, data that were sent, and data that are
//! acknowledged.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use spindle_units::prefetch;
use spindle_wire::Payload;

use crate::types::DataOffset;

/// A write of at least this many segments is not copied to join it with other writes.
const LARGE_WRITE: usize = 8;

/// Data that were sent at once: a segment or a burst of segments. Payloads that are only lengths are merged if
/// they were sent one after the other in segments of the same size, so that a long transfer needs only one
/// entry.
#[derive(Debug)]
struct Taken {
    offset: DataOffset,
    payload: Payload,
    /// Bytes of each segment.
    unit: usize,
}

impl Taken {
    fn end(&self) -> DataOffset {
        self.offset + self.payload.len() as u64
    }

    /// Appends the data that were sent next, if their segment boundaries remain known. They do if both payloads
    /// are lengths and the existing one ends with a whole segment of the same size.
    fn extend(&mut self, more: &Payload, unit: usize) -> bool {
        let (Payload::Length(len), Payload::Length(more)) = (&mut self.payload, more) else {
            return false;
        };
        let whole = self.unit == unit && (*len as usize).is_multiple_of(unit);
        match len.checked_add(*more).filter(|_| whole) {
            Some(sum) => {
                *len = sum;
                true
            }
            None => false,
        }
    }
}

/// Data that were sent from the end of what was written, while data before them were not sent yet.
#[derive(Debug)]
struct Tail {
    /// Segments in the order of their offsets, without gaps.
    sent: VecDeque<Taken>,
    /// Offsets of their first byte, and of the byte after the last.
    from: DataOffset,
    end: DataOffset,
    /// Data behind them. They are offered once all data before `from` were sent.
    later: VecDeque<Payload>,
}

/// The send buffer.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    /// Data from [`Self::nxt`] to the tail, if there is one.
    unsent: VecDeque<Payload>,
    tail: Option<Box<Tail>>,
    /// Data that were sent and are not acknowledged at the data level, in the order of their first
    /// transmission.
    unacked: VecDeque<Taken>,
    /// Lowest offset not acknowledged at the data level.
    pub(crate) una: DataOffset,
    /// Next offset to be sent for the first time.
    pub(crate) nxt: DataOffset,
    /// Offset of the first byte after the last byte written.
    pub(crate) written: DataOffset,
    /// Right edge of the peer's window.
    pub(crate) right_edge: DataOffset,
    /// The data were dropped with the connection.
    discarded: bool,
}

impl SendQueue {
    /// Gives back memory that is not in use.
    pub(crate) fn shed(&mut self) {
        self.unsent.shrink_to_fit();
        self.unacked.shrink_to_fit();
    }

    /// Prefetches the ends of the queues that an acknowledgement and a transmission need.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.unacked.front().into_iter().for_each(prefetch);
        self.unsent.front().into_iter().for_each(prefetch);
    }

    /// Bytes that may be sent for the first time: those that were written, or those before the tail.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> u64 {
        match &self.tail {
            None => self.written - self.nxt,
            Some(tail) => tail.from - self.nxt,
        }
    }

    /// Bytes the buffer holds.
    pub(crate) fn buffered(&self) -> u64 {
        match self.discarded {
            true => 0,
            false => self.written - self.una,
        }
    }

    /// Number of pieces in the buffer.
    pub(crate) fn pieces(&self) -> usize {
        let tail = self.tail.as_ref();
        self.unsent.len() + self.unacked.len() + tail.map_or(0, |t| t.sent.len() + t.later.len())
    }

    /// Drops all data, because the connection has ended.
    pub(crate) fn discard(&mut self) {
        self.discarded = true;
        self.unsent = VecDeque::new();
        self.unacked = VecDeque::new();
        self.tail = None;
    }

    /// Bytes that the peer's window allows.
    pub(crate) fn window(&self) -> u64 {
        self.right_edge.saturating_since(self.nxt)
    }

    /// Accepts data from the application. The caller has checked that there is room.
    pub(crate) fn write(&mut self, data: Payload) {
        if data.is_empty() {
            return;
        }
        self.written += data.len() as u64;
        let queue = match &mut self.tail {
            None => &mut self.unsent,
            Some(tail) => &mut tail.later,
        };
        if let (Some(Payload::Length(n)), Payload::Length(more)) = (queue.back_mut(), &data)
            && let Some(sum) = n.checked_add(*more)
        {
            *n = sum;
            return;
        }
        queue.push_back(data);
    }

    /// Bytes that can be taken at once without being copied, at least one segment of `unit` bytes. If the
    /// writes are so small that copying them costs less than one burst for each write, this is all bytes.
    pub(crate) fn contiguous(&self, unit: usize) -> usize {
        let front = self.unsent.front().map_or(0, Payload::len);
        let next = self.unsent.get(1).map_or(0, Payload::len);
        if front >= 2 * unit {
            front
        } else if next >= LARGE_WRITE * unit {
            unit
        } else {
            usize::MAX
        }
    }

    /// Takes the next `len` bytes that will be sent for the first time, in segments of `unit` bytes. `len` is
    /// at most [`Self::unsent_bytes`], and neither argument is zero.
    pub(crate) fn take(&mut self, len: usize, unit: usize) -> (DataOffset, Payload) {
        let payload = self.take_payload(len);
        let offset = self.nxt;
        self.nxt += len as u64;
        let last = self.unacked.back_mut();
        if !last.is_some_and(|t| t.extend(&payload, unit)) {
            self.unacked.push_back(Taken {
                offset,
                payload: payload.clone(),
                unit,
            });
        }
        if self.tail.as_ref().is_some_and(|t| t.from == self.nxt) {
            self.close_gap();
        }
        (offset, payload)
    }

    /// Bytes that [`Self::take_last`] may take: those before the tail or, if there is none, those that the peer's window
    /// allows.
    pub(crate) fn last_bytes(&self) -> u64 {
        match self.tail {
            None => self.unsent_bytes().min(self.window()),
            Some(_) => self.unsent_bytes(),
        }
    }

    /// Takes the last `len` of the [bytes](Self::last_bytes) that will be sent for the first time. `len` is at most
    /// their number, and not zero.
    #[inline(never)] // only schedulers that send from the end
    pub(crate) fn take_last(&mut self, len: usize) -> (DataOffset, Payload) {
        let end = self.nxt + self.last_bytes();
        let mut tail = self.tail.take().unwrap_or_else(|| {
            let later = self.split_off(self.written - end);
            Box::new(Tail {
                sent: VecDeque::new(),
                from: end,
                end,
                later,
            })
        });
        let payload = join(self.split_off(len as u64).make_contiguous());
        tail.from = end.saturating_sub(len as u64);
        tail.sent.push_front(Taken {
            offset: tail.from,
            payload: payload.clone(),
            unit: len,
        });
        let offset = tail.from;
        self.tail = Some(tail);
        if offset == self.nxt {
            self.close_gap();
        }
        (offset, payload)
    }

    /// Removes the last `bytes` of the unsent data.
    fn split_off(&mut self, bytes: u64) -> VecDeque<Payload> {
        let (mut left, mut last) = (bytes, VecDeque::new());
        while left > 0 {
            let Some(back) = self.unsent.pop_back() else {
                break;
            };
            let n = back.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if n < back.len() {
                self.unsent.push_back(back.slice(0, back.len() - n));
            }
            last.push_front(back.slice(back.len() - n, n));
            left -= n as u64;
        }
        last
    }

    /// All data before the tail were sent: it follows them.
    fn close_gap(&mut self) {
        if let Some(tail) = self.tail.take() {
            self.nxt = tail.end;
            self.unacked.extend(tail.sent);
            self.unsent = tail.later;
        }
    }

    /// Bytes that were sent for the first time.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.written.since_start() - self.unsent_bytes() - self.later_bytes()
    }

    /// Bytes that wait for all data before the tail.
    fn later_bytes(&self) -> u64 {
        self.tail.as_ref().map_or(0, |t| self.written - t.end)
    }

    /// The offset of the first byte of the tail, if there is one.
    pub(crate) fn tail_from(&self) -> Option<DataOffset> {
        self.tail.as_ref().map(|t| t.from)
    }

    fn take_payload(&mut self, len: usize) -> Payload {
        if let Some(front) = self.unsent.front_mut() {
            let have = front.len();
            if have > len {
                let head = front.slice(0, len);
                *front = front.slice(len, have - len);
                return head;
            }
            if have == len {
                return self.unsent.pop_front().unwrap_or_default();
            }
        }
        self.gather(len)
    }

    /// Joins several writes into one segment.
    #[inline(never)] // small writes
    fn gather(&mut self, len: usize) -> Payload {
        let mut parts = Vec::new();
        let mut left = len;
        while left > 0 {
            let Some(front) = self.unsent.pop_front() else {
                break;
            };
            let n = front.len().min(left);
            if n < front.len() {
                self.unsent.push_front(front.slice(n, front.len() - n));
            }
            left -= n;
            parts.push(front.slice(0, n));
        }
        join(&parts)
    }

    /// The sent segment that begins at or contains `offset`, if it is not acknowledged yet.
    pub(crate) fn sent_at(&self, offset: DataOffset) -> Option<(DataOffset, Payload)> {
        let sent = match &self.tail {
            Some(tail) if offset >= tail.from => &tail.sent,
            _ => &self.unacked,
        };
        let i = sent.partition_point(|t| t.end() <= offset);
        let taken = sent.get(i).filter(|t| t.offset <= offset)?;
        let inside = (offset - taken.offset) as usize;
        let at = inside - inside % taken.unit;
        let len = taken.unit.min(taken.payload.len() - at);
        let start = taken.offset + at as u64;
        (start + len as u64 > self.una).then(|| (start, taken.payload.slice(at, len)))
    }

    /// The data level acknowledged everything below `offset`. Returns the number of bytes that are newly
    /// acknowledged.
    pub(crate) fn acknowledge(&mut self, offset: DataOffset) -> u64 {
        let offset = offset.min(self.nxt);
        let news = offset.saturating_since(self.una);
        self.una = self.una.max(offset);
        while self.unacked.front().is_some_and(|t| t.end() <= self.una) {
            self.unacked.pop_front();
        }
        news
    }
}

/// Joins payloads into one. The result has bytes if any part has bytes.
pub(crate) fn join(parts: &[Payload]) -> Payload {
    let total: usize = parts.iter().map(Payload::len).sum();
    if parts.iter().all(|p| matches!(p, Payload::Length(_))) {
        return Payload::Length(total as u32);
    }
    let mut out = BytesMut::with_capacity(total);
    for p in parts {
        match p {
            Payload::Bytes(b) => out.extend_from_slice(b),
            Payload::Length(n) => out.resize(out.len() + *n as usize, 0),
        }
    }
    Payload::Bytes(Bytes::from(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Offset and payload of the sent segment that contains `offset`.
    fn sent_at(q: &SendQueue, offset: u64) -> Option<(u64, Payload)> {
        let (start, payload) = q.sent_at(DataOffset(offset))?;
        Some((start.0, payload))
    }

    proptest! {
        #[test]
        fn bytes_are_taken_in_order_of_writes(writes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
                                              takes in prop::collection::vec(1usize..50, 0..60)) {
            let mut q = SendQueue::default();
            let all: Vec<u8> = writes.concat();
            for w in writes {
                q.write(Payload::from(w));
            }
            let mut out = Vec::new();
            for len in takes {
                let len = len.min(q.unsent_bytes() as usize);
                if len == 0 { break; }
                let (offset, p) = q.take(len, len);
                prop_assert_eq!(offset, DataOffset(out.len() as u64));
                let Payload::Bytes(b) = p else { panic!("bytes stay bytes") };
                out.extend_from_slice(&b);
                prop_assert_eq!(q.sent_at(offset).map(|s| s.0), Some(offset));
            }
            prop_assert_eq!(&out[..], &all[..out.len()]);
        }
    }

    /// Takes bytes from both ends while more are written, and acknowledges what is complete.
    #[derive(Clone, Debug)]
    enum Step {
        Write(Vec<u8>),
        First(usize),
        Last(usize),
        Open(u64),
        Acknowledge(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 1..60).prop_map(Step::Write),
            (1usize..40).prop_map(Step::First),
            (1usize..40).prop_map(Step::Last),
            (1u64..100).prop_map(Step::Open),
            (0u64..50).prop_map(Step::Acknowledge),
        ]
    }

    proptest! {
        #[test]
        fn bytes_taken_from_both_ends_come_out_once_in_their_places(steps in prop::collection::vec(step(), 1..120)) {
            let mut q = SendQueue { right_edge: DataOffset(60), ..SendQueue::default() };
            let (mut written, mut sent) = (Vec::new(), Vec::new());
            for step in steps {
                let taken = match step {
                    Step::Write(data) => {
                        written.extend_from_slice(&data);
                        sent.resize(written.len(), false);
                        q.write(Payload::from(data));
                        None
                    }
                    Step::First(len) => {
                        let len = len.min(q.unsent_bytes().min(q.window()) as usize);
                        (len > 0).then(|| q.take(len, len))
                    }
                    Step::Last(len) => {
                        let len = len.min(q.last_bytes() as usize);
                        (len > 0).then(|| q.take_last(len))
                    }
                    Step::Open(more) => { q.right_edge += more; None }
                    Step::Acknowledge(more) => { q.acknowledge(q.una + more); None }
                };
                if let Some((offset, payload)) = taken {
                    let at = offset.0 as usize..offset.0 as usize + payload.len();
                    prop_assert!(offset + payload.len() as u64 <= q.right_edge, "inside the window");
                    let Payload::Bytes(bytes) = &payload else { panic!("bytes stay bytes") };
                    prop_assert_eq!(&bytes[..], &written[at.clone()]);
                    prop_assert!(sent[at.clone()].iter().all(|s| !s), "only once");
                    sent[at].fill(true);
                    prop_assert_eq!(q.sent_at(offset), Some((offset, payload)));
                }
                let first_unsent = sent.iter().position(|s| !s).unwrap_or(sent.len());
                prop_assert_eq!(q.nxt, DataOffset(first_unsent as u64));
                prop_assert!(q.una <= q.nxt && q.nxt <= q.written);
                let gap = q.tail_from().map_or(q.written, |from| from) - q.nxt;
                prop_assert_eq!(q.unsent_bytes(), gap);
            }
        }
    }

    #[test]
    fn large_writes_are_not_copied_together() {
        let mut q = SendQueue::default();
        let large = Bytes::from(vec![1; 10_500]);
        q.write(Payload::Bytes(large.clone()));
        q.write(Payload::Bytes(large.clone()));
        assert_eq!(q.contiguous(1000), 10_500);
        let (_, taken) = q.take(10_000, 1000);
        let Payload::Bytes(taken) = taken else {
            panic!("bytes stay bytes")
        };
        assert_eq!(taken.as_ptr(), large.as_ptr(), "the same memory");
        assert_eq!(q.contiguous(1000), 1000, "one segment joins the two");
        q.take(1000, 1000);
        assert_eq!(q.contiguous(1000), 10_000);
        let mut small = SendQueue::default();
        (0..9).for_each(|_| small.write(Payload::Bytes(large.slice(0..500))));
        assert_eq!(small.contiguous(1000), usize::MAX);
    }

    #[test]
    fn lengths_merge_and_acknowledged_segments_are_dropped() {
        let mut q = SendQueue::default();
        q.write(Payload::Length(100));
        q.write(Payload::Length(50));
        assert_eq!(q.take(120, 120).1, Payload::Length(120));
        assert_eq!(q.take(30, 20).0, DataOffset(120));
        assert_eq!(q.acknowledge(DataOffset(120)), 120);
        assert_eq!(sent_at(&q, 10), None);
        assert_eq!(sent_at(&q, 130), Some((120, Payload::Length(20))));
        assert_eq!(sent_at(&q, 145), Some((140, Payload::Length(10))));
        assert_eq!(q.acknowledge(DataOffset(1000)), 30, "no more than was sent");
    }

    #[test]
    fn consecutive_lengths_share_one_entry_and_keep_segment_boundaries() {
        let mut q = SendQueue::default();
        q.write(Payload::Length(1000));
        (0..9).for_each(|_| assert_eq!(q.take(100, 100).1, Payload::Length(100)));
        assert_eq!((q.unacked.len(), sent_at(&q, 250).unwrap().0), (1, 200));
        assert_eq!(q.take(60, 100).0, DataOffset(900));
        assert_eq!(
            q.take(40, 100).0,
            DataOffset(960),
            "not at a boundary: separate"
        );
        assert_eq!(q.unacked.len(), 2);
        assert_eq!(sent_at(&q, 955), Some((900, Payload::Length(60))));
        assert_eq!(sent_at(&q, 961), Some((960, Payload::Length(40))));
        assert_eq!(q.acknowledge(DataOffset(500)), 500);
        assert_eq!(sent_at(&q, 499), None, "acknowledged");
        assert_eq!(sent_at(&q, 500), Some((500, Payload::Length(100))));
        assert_eq!(q.acknowledge(DataOffset(550)), 50);
        assert_eq!(sent_at(&q, 500), Some((500, Payload::Length(100))));
        assert_eq!(q.acknowledge(DataOffset(960)), 410);
        assert_eq!(q.unacked.len(), 1);
    }
}
