//! Sets of up to 128 packets as words, and linear algebra over GF(2) on them.

/// The indices in a set, in ascending order.
pub(crate) fn ones(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (index < 128).then_some(index)
    })
}

/// The set that contains only `index`.
pub(crate) const fn bit(index: usize) -> u128 {
    1 << index
}

/// The space that some rows span, stored as rows no two of which have the same highest packet.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// For each packet, the row whose highest packet it is; 0 if there is none.
    rows: Vec<u128>,
    rank: usize,
}

impl Span {
    /// The span of no rows, over `columns` packets (at most 128).
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            rows: vec![0; columns],
            rank: 0,
        }
    }

    /// The dimension of the span.
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Adds a row of packets below `columns`. Returns whether the row was not yet in the span.
    pub(crate) fn add(&mut self, mut row: u128) -> bool {
        while row != 0 {
            let high = 127 - row.leading_zeros() as usize;
            let Some(with) = self.rows.get_mut(high) else {
                return false;
            };
            if *with == 0 {
                *with = row;
                self.rank += 1;
                return true;
            }
            row ^= *with;
        }
        false
    }
}

/// For each unknown in `unknowns`, the set of `rows` (by position) whose sum it is. There are as many rows as
/// unknowns, at most 128. Returns `None` if the rows do not determine all unknowns.
pub(crate) fn invert(rows: &[u128], unknowns: u128) -> Option<Vec<(usize, u128)>> {
    let mut left: Vec<(u128, u128)> = rows
        .iter()
        .enumerate()
        .map(|(place, row)| (row & unknowns, bit(place)))
        .collect();
    let mut out = Vec::with_capacity(left.len());
    for (done, unknown) in ones(unknowns).enumerate() {
        let has = |row: &(u128, u128)| row.0 & bit(unknown) != 0;
        let found = left.iter().skip(done).position(has)?;
        left.swap(done, done + found);
        let pivot = left[done];
        for (place, row) in left.iter_mut().enumerate() {
            if place != done && has(row) {
                row.0 ^= pivot.0;
                row.1 ^= pivot.1;
            }
        }
        out.push(unknown);
    }
    Some(out.into_iter().zip(left.into_iter().map(|l| l.1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ones_yields_the_indices_of_a_set() {
        assert_eq!(ones(0).count(), 0);
        assert_eq!(
            ones(bit(0) | bit(5) | bit(127)).collect::<Vec<_>>(),
            [0, 5, 127]
        );
        assert_eq!(ones(u128::MAX).count(), 128);
    }

    proptest! {
        #[test]
        fn span_contains_exactly_the_sums_of_its_rows(
            rows in prop::collection::vec(any::<u16>(), 1..12), chosen in any::<u16>(),
        ) {
            let mut span = Span::new(16);
            let innovative = rows.iter().filter(|r| span.add(u128::from(**r))).count();
            prop_assert_eq!(innovative, span.rank());
            let mut sums = vec![0u16];
            for row in &rows {
                sums.extend(sums.clone().iter().map(|s| s ^ row));
            }
            sums.sort_unstable();
            sums.dedup();
            prop_assert_eq!(sums.len(), 1 << span.rank());
            let known = sums.binary_search(&chosen).is_ok();
            prop_assert_eq!(span.add(u128::from(chosen)), !known);
        }

        #[test]
        fn inverse_isolates_each_unknown(
            rows in prop::collection::vec(any::<[u64; 2]>(), 1..40), shift in 0usize..80,
        ) {
            let columns = rows.len();
            let unknowns = ((1u128 << columns) - 1) << shift;
            let rows: Vec<u128> = rows.iter().map(|[a, b]| u128::from(*a) << 64 | u128::from(*b)).collect();
            let mut span = Span::new(128);
            let full = rows.iter().filter(|r| span.add(**r & unknowns)).count() == columns;
            let inverse = invert(&rows, unknowns);
            prop_assert_eq!(inverse.is_some(), full);
            for (unknown, set) in inverse.into_iter().flatten() {
                let sum = ones(set).fold(0, |sum, place| sum ^ rows[place]);
                prop_assert_eq!(sum & unknowns, bit(unknown));
            }
        }
    }
}
