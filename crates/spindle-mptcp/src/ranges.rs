//! Sets of positions or data offsets.

use std::collections::BTreeMap;

/// A set of numbers, kept as ranges `[start, end)` that neither overlap nor touch. Every operation costs O(log
/// n) for n ranges, plus one step for each range that it removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges<N>(BTreeMap<N, N>);

impl<N: Copy + Ord> Ranges<N> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The range that contains `at`.
    pub(crate) fn containing(&self, at: N) -> Option<(N, N)> {
        let (&start, &end) = self.0.range(..=at).next_back()?;
        (at < end).then_some((start, end))
    }

    /// Whether any number of `[start, end)` is in the set.
    pub(crate) fn overlaps(&self, start: N, end: N) -> bool {
        let last = self.0.range(..end).next_back();
        start < end && last.is_some_and(|(_, &e)| e > start)
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<(N, N)> {
        self.0.first_key_value().map(|(&s, &e)| (s, e))
    }

    /// The highest range.
    pub(crate) fn last(&self) -> Option<(N, N)> {
        self.0.last_key_value().map(|(&s, &e)| (s, e))
    }

    /// The ranges in ascending order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (N, N)> {
        self.0.iter().map(|(&s, &e)| (s, e))
    }

    /// Adds `[start, end)`.
    pub(crate) fn insert(&mut self, start: N, end: N) {
        if start >= end {
            return;
        }
        let (mut from, mut to) = (start, end);
        while let Some((&s, &e)) = self.0.range(..=to).next_back()
            && e >= from
        {
            (from, to) = (from.min(s), to.max(e));
            self.0.remove(&s);
        }
        self.0.insert(from, to);
    }

    /// Removes `[start, end)`.
    pub(crate) fn remove(&mut self, start: N, end: N) {
        while start < end
            && let Some((&s, &e)) = self.0.range(..end).next_back()
            && e > start
        {
            self.0.remove(&s);
            if e > end {
                self.0.insert(end, e);
            }
            if s < start {
                self.0.insert(s, start);
                return;
            }
        }
    }

    /// Removes everything below `at`.
    pub(crate) fn remove_below(&mut self, at: N) {
        while let Some(first) = self.0.first_entry()
            && *first.key() < at
        {
            let end = first.remove();
            if end > at {
                self.0.insert(at, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_behave_like_a_set_of_numbers(changes in prop::collection::vec((0u8..8, 0u64..200, 0u64..30), 0..60)) {
            let mut ranges = Ranges::default();
            let mut numbers = [false; 256];
            for (what, start, len) in changes {
                let span = start as usize..(start + len) as usize;
                prop_assert_eq!(ranges.overlaps(start, start + len), numbers[span.clone()].contains(&true));
                match what {
                    0 => {
                        ranges.remove_below(start);
                        numbers[..start as usize].fill(false);
                    }
                    1..=3 => {
                        ranges.remove(start, start + len);
                        numbers[span].fill(false);
                    }
                    _ => {
                        ranges.insert(start, start + len);
                        numbers[span].fill(true);
                    }
                }
                let all: Vec<_> = ranges.iter().collect();
                prop_assert!(all.windows(2).all(|w| w[0].1 < w[1].0) && all.iter().all(|r| r.0 < r.1));
                for (k, there) in numbers.iter().enumerate() {
                    prop_assert_eq!(ranges.containing(k as u64).is_some(), *there);
                }
                prop_assert_eq!((ranges.first(), ranges.last()), (all.first().copied(), all.last().copied()));
                prop_assert_eq!(ranges.is_empty(), all.is_empty());
            }
        }
    }
}
