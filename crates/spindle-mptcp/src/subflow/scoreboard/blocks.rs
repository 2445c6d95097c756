//! Blocks of segments that parities are computed from (CoFUSO section 4.2): which segments may be in a block,
//! and which segments are in one.

use super::{Scoreboard, Sent, Uses};
use crate::types::{DataOffset, SubflowPosition};

/// Consecutive segments that may be put into a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Position of the first byte of the first segment.
    pub(crate) first: SubflowPosition,
    pub(crate) segments: usize,
    /// Payload bytes of the longest segment.
    pub(crate) longest: usize,
}

impl Sent {
    /// Whether it is a parity in sequence space. A copy, unlike a parity, has the mapping of its data.
    pub(crate) fn is_parity(&self) -> bool {
        self.uses.any(Uses::RECOVERY) && self.map.is_none()
    }

    /// Whether it may be put into a block: original data, un-ACKed, un-SACKed, never copied, in no block yet
    /// (mechanisms A2.3). The data level's conditions are not checked here.
    fn may_be_coded(&self) -> bool {
        let used = self.uses.any(Uses::NOT_CODED);
        !used && self.map.is_some() && !self.payload.is_empty() && !self.sacked
    }
}

impl Scoreboard {
    /// The first run of at most `most` segments that may be put into a block and are at most `longest` bytes
    /// long. `is_over` is called with the data offset and end of a segment. A segment for which it returns true
    /// needs no protection any more and is skipped.
    pub(crate) fn first_run(
        &mut self,
        most: usize,
        longest: usize,
        is_over: impl Fn(DataOffset, DataOffset) -> bool,
    ) -> Option<Run> {
        let fits = |s: &&Sent| {
            let len = s.payload.len();
            let over = s
                .map
                .is_some_and(|m| is_over(m.offset, m.offset + len as u64));
            s.may_be_coded() && len <= longest && !over
        };
        let from = self.count_below(self.uncoded_from);
        let candidates = self.steps.each(self.queue.range(from..));
        let skipped = candidates.take_while(|s| !fits(s)).count();
        let mut run = self
            .steps
            .each(self.queue.range(from + skipped..).take(most))
            .take_while(fits);
        let Some(first) = run.next() else {
            self.uncoded_from = self.end_of_last();
            return None;
        };
        let (segments, longest) = run.fold((1, first.payload.len()), |(n, longest), s| {
            (n + 1, longest.max(s.payload.len()))
        });
        self.uncoded_from = first.start;
        Some(Run {
            first: first.start,
            segments,
            longest,
        })
    }

    /// The `segments` segments from position `first` on, if all of them may be put into a block.
    pub(crate) fn block(
        &self,
        first: SubflowPosition,
        segments: usize,
    ) -> Option<impl Iterator<Item = &Sent>> {
        let from = self.index_of(first)?;
        let all = || self.steps.each(self.queue.range(from..).take(segments));
        let right = self.queue[from].start == first && segments > 0;
        let whole = right && all().filter(|s| s.may_be_coded()).count() == segments;
        whole.then(all)
    }

    /// Puts the `segments` segments from position `first` on into a block.
    pub(crate) fn code(&mut self, first: SubflowPosition, segments: usize) {
        let from = self.count_below(first);
        for s in self.queue.range_mut(from..).take(segments) {
            self.steps.add(1);
            s.uses.insert(Uses::CODED);
            self.coded_to = self.coded_to.max(s.end());
        }
    }

    /// Position after the last segment that is in a block. 0 if no segment ever was in a block.
    pub(crate) fn coded_to(&self) -> SubflowPosition {
        self.coded_to
    }
}

#[cfg(test)]
mod tests {
    use spindle_units::Instant;
    use spindle_wire::Payload;

    use super::super::SentMap;
    use super::*;
    use crate::types::MappingDelta;

    /// Segments of these lengths. Their data are contiguous from offset 0 on.
    fn board(lens: &[u32]) -> Scoreboard {
        let mut board = Scoreboard::default();
        let mut start = SubflowPosition::FIRST_BYTE;
        for len in lens {
            board.push(Sent {
                map: Some(SentMap {
                    offset: MappingDelta::WHOLE_STREAM.offset_of(start),
                    before: 0,
                    len: *len as u16,
                    checksum: None,
                }),
                ..Sent::new(start, Payload::Length(*len), Instant::ZERO)
            });
            start += u64::from(*len);
        }
        board
    }

    fn run(board: &mut Scoreboard, most: usize) -> Option<(u64, usize, usize)> {
        let run = board.first_run(most, 1000, |_, _| false)?;
        Some((run.first.0, run.segments, run.longest))
    }

    #[test]
    fn run_ends_at_a_sacked_or_copied_segment() {
        let mut b = board(&[100; 10]);
        assert_eq!(run(&mut b, 255), Some((1, 10, 100)));
        assert_eq!(run(&mut b, 4), Some((1, 4, 100)));
        b.sack(SubflowPosition(301), SubflowPosition(401));
        assert_eq!(run(&mut b, 255), Some((1, 3, 100)));
        b.protect(SubflowPosition(101));
        assert_eq!(run(&mut b, 255), Some((1, 1, 100)));
        b.acknowledge(SubflowPosition(101), DataOffset::MAX);
        assert_eq!(run(&mut b, 255), Some((201, 1, 100)));
        b.code(SubflowPosition(201), 1);
        assert_eq!(b.coded_to(), SubflowPosition(301));
        assert_eq!(run(&mut b, 255), Some((401, 6, 100)));
        b.code(SubflowPosition(401), 6);
        assert_eq!(
            (run(&mut b, 255), b.coded_to()),
            (None, SubflowPosition(1001))
        );
    }

    #[test]
    fn run_skips_finished_and_too_long_segments() {
        let mut b = board(&[100, 200, 1001, 300, 400]);
        let over = |_, end| end <= DataOffset(100);
        let first = b.first_run(255, 1000, over);
        assert_eq!(
            first,
            Some(Run {
                first: SubflowPosition(101),
                segments: 1,
                longest: 200
            })
        );
        b.code(SubflowPosition(101), 1);
        assert_eq!(run(&mut b, 255), Some((1302, 2, 400)));
    }

    /// Number of segments of the block that begins at `first`, if all of its segments may be in it.
    fn block(board: &Scoreboard, first: u64, segments: usize) -> Option<usize> {
        let block = board.block(SubflowPosition(first), segments);
        block.map(Iterator::count)
    }

    #[test]
    fn block_needs_every_segment_to_be_codable() {
        let mut b = board(&[100; 5]);
        assert_eq!(block(&b, 101, 3), Some(3));
        assert!(block(&b, 101, 5).is_none() && block(&b, 102, 1).is_none());
        assert!(block(&b, 101, 0).is_none() && block(&b, 901, 1).is_none());
        b.sack(SubflowPosition(201), SubflowPosition(301));
        assert!(block(&b, 101, 3).is_none());
        let mut parity = board(&[100]).queue.pop_front().expect("one");
        (parity.start, parity.uses, parity.map) = (SubflowPosition(501), Uses::RECOVERY, None);
        assert!(parity.is_parity());
        b.push(parity);
        assert!(block(&b, 301, 3).is_none());
        assert_eq!(run(&mut b, 255), Some((1, 2, 100)));
        b.code(SubflowPosition(1), 2);
        assert_eq!(run(&mut b, 255), Some((301, 2, 100)));
    }
}
