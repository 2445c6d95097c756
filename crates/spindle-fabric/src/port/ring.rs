//! [`Ring`]: the packets on one link, stored contiguously.

use spindle_units::prefetch;

use super::store::Meta;

/// A queue of packets in one block of memory, whose size is a power of two. A hop reads the front and its
/// neighbour and writes the back. It does not touch the packets in between.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    block: Box<[Meta]>,
    first: u32,
    len: u32,
}

/// The size of the first block in packets.
const LEAST: usize = 4;

impl Ring {
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    fn place(&self, number: u32) -> usize {
        self.first.wrapping_add(number) as usize & self.block.len().wrapping_sub(1)
    }

    /// The packet at position `number` from the front, if there is one.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Meta> {
        if number >= self.len {
            return None;
        }
        self.block.get(self.place(number))
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&Meta> {
        self.get(0)
    }

    /// Prefetches the packet at position `number` from the front, or the position where it will be stored.
    #[inline]
    pub(crate) fn prefetch(&self, number: u32) {
        if let Some(there) = self.block.get(self.place(number)) {
            prefetch(there);
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, meta: Meta) {
        if self.len as usize == self.block.len() {
            self.grow();
        }
        let place = self.place(self.len);
        self.block[place] = meta;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Meta> {
        let meta = *self.front()?;
        self.drop_front();
        Some(meta)
    }

    /// Removes the front. The ring must not be empty.
    #[inline]
    pub(crate) fn drop_front(&mut self) {
        self.len -= 1;
        // An empty ring restarts at position 0, so that a ring that is often empty stays in the same cache
        // line.
        self.first = match self.len {
            0 => 0,
            _ => self.first.wrapping_add(1),
        };
    }

    /// Doubles the block and moves the front to its beginning.
    #[cold] // a queue grows a few times in a run
    fn grow(&mut self) {
        let size = (self.block.len() * 2).max(LEAST);
        let mut block = Vec::with_capacity(size);
        block.extend((0..self.len).filter_map(|n| self.get(n).copied()));
        block.resize(size, Meta::default());
        self.block = block.into();
        self.first = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ring_agrees_with_a_deque(steps in prop::collection::vec(0..5u8, 1..300), first: u32) {
            let mut ring = Ring { first, ..Ring::default() };
            let mut deque = VecDeque::new();
            for (number, step) in (0u32..).zip(steps) {
                if step < 3 {
                    ring.push(Meta { len: number, ..Meta::default() });
                    deque.push_back(number);
                } else {
                    prop_assert_eq!(ring.pop().map(|m| m.len), deque.pop_front());
                }
                prop_assert_eq!(ring.len() as usize, deque.len());
                prop_assert_eq!(ring.front().map(|m| m.len), deque.front().copied());
                let last = ring.len().wrapping_sub(1);
                prop_assert_eq!(ring.get(last).map(|m| m.len), deque.back().copied());
                prop_assert!(ring.get(ring.len()).is_none());
            }
        }
    }
}
