//! Identifiers of subflows within a connection, and their reuse.

use std::collections::VecDeque;

use crate::subflow::SubflowId;

/// The identifiers that are free. Fresh ones go first, then those of ended subflows, the longest free
/// first, so that a name in logs and traces means one subflow for as long as possible. Identifier 0 is
/// the initial subflow's and is never given out.
#[derive(Debug)]
pub(super) struct Identifiers {
    /// The lowest that was never given out.
    fresh: u16,
    /// Of joins that were never established: as good as fresh.
    unused: Vec<SubflowId>,
    /// Of subflows that have ended, the first to be free at the front.
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
    /// Whether one is free.
    pub(super) fn is_any_free(&self) -> bool {
        self.fresh <= u16::from(SubflowId::MAX) || !self.unused.is_empty() || !self.ended.is_empty()
    }

    /// Takes a free one.
    pub(super) fn take(&mut self) -> Option<SubflowId> {
        if let Some(id) = self.unused.pop() {
            return Some(id);
        }
        match SubflowId::try_from(self.fresh) {
            Ok(id) => {
                self.fresh += 1;
                Some(id)
            }
            Err(_) => self.ended.pop_front(),
        }
    }

    /// A subflow is gone; `established`: it may have carried data.
    pub(super) fn give_back(&mut self, id: SubflowId, established: bool) {
        match (id, established) {
            (0, _) => {}
            (_, false) => self.unused.push(id),
            (_, true) => self.ended.push_back(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_given_out_again_the_longest_free_first() {
        let mut ids = Identifiers::default();
        let taken: Vec<SubflowId> = std::iter::from_fn(|| ids.take()).collect();
        assert_eq!(taken, (1..=255).collect::<Vec<SubflowId>>());
        assert!(!ids.is_any_free());
        for id in [7, 3, 0] {
            ids.give_back(id, true);
        }
        assert_eq!(
            [ids.take(), ids.take(), ids.take()],
            [Some(7), Some(3), None]
        );
    }

    #[test]
    fn an_identifier_of_a_join_that_failed_is_the_next() {
        let mut ids = Identifiers::default();
        assert_eq!([ids.take(), ids.take()], [Some(1), Some(2)]);
        ids.give_back(1, true);
        ids.give_back(2, false);
        assert_eq!([ids.take(), ids.take()], [Some(2), Some(3)]);
    }
}
