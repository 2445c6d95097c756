//! Identifiers of subflows within a connection, and their reuse.

use std::collections::VecDeque;

use crate::types::SubflowId;

/// The free identifiers. Identifiers that were never used are given out first. After them come the identifiers
/// of ended subflows, in the order in which they became free. So a name in logs and traces refers to a single
/// subflow for as long as possible. [`SubflowId::FIRST`] belongs to the initial subflow and is never given out.
#[derive(Debug)]
pub(super) struct Identifiers {
    /// The lowest identifier that was never given out.
    fresh: u16,
    /// Identifiers of joins that were never established. They count as never used.
    unused: Vec<SubflowId>,
    /// Identifiers of subflows that have ended. The one that became free first is at the front.
    ended: VecDeque<SubflowId>,
}

impl Default for Identifiers {
    fn default() -> Self {
        Self {
            fresh: 1,
            unused: Vec::new(),
            ended: VecDeque::new(),
        }
    }
}

impl Identifiers {
    /// Whether an identifier is free.
    pub(super) fn is_any_free(&self) -> bool {
        self.fresh <= u16::from(SubflowId::MAX.0)
            || !self.unused.is_empty()
            || !self.ended.is_empty()
    }

    /// Takes a free identifier.
    pub(super) fn take(&mut self) -> Option<SubflowId> {
        if let Some(id) = self.unused.pop() {
            return Some(id);
        }
        match u8::try_from(self.fresh) {
            Ok(id) => {
                self.fresh += 1;
                Some(SubflowId(id))
            }
            Err(_) => self.ended.pop_front(),
        }
    }

    /// Frees the identifier of a subflow that no longer exists. With `established`, the subflow may have
    /// carried data.
    pub(super) fn give_back(&mut self, id: SubflowId, established: bool) {
        match (id, established) {
            (SubflowId::FIRST, _) => {}
            (_, false) => self.unused.push(id),
            (_, true) => self.ended.push_back(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_identifiers_are_reused_in_the_order_in_which_they_became_free() {
        let mut ids = Identifiers::default();
        let taken = std::iter::from_fn(|| ids.take());
        assert!(taken.eq((1..=255).map(SubflowId)));
        assert!(!ids.is_any_free());
        for id in [7, 3, 0] {
            ids.give_back(SubflowId(id), true);
        }
        assert_eq!(
            [ids.take(), ids.take(), ids.take()],
            [Some(SubflowId(7)), Some(SubflowId(3)), None]
        );
    }

    #[test]
    fn identifier_of_a_failed_join_is_given_out_next() {
        let mut ids = Identifiers::default();
        assert_eq!([ids.take(), ids.take()], [1, 2].map(SubflowId).map(Some));
        ids.give_back(SubflowId(1), true);
        ids.give_back(SubflowId(2), false);
        assert_eq!([ids.take(), ids.take()], [2, 3].map(SubflowId).map(Some));
    }
}
