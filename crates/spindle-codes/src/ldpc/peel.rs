//! Decoding over GF(2): peeling, and Gaussian elimination if peeling stops.
//!
//! A row with one unknown gives that unknown. Once it is known, it is removed from the other rows, and so on.
//! If every row has two or more unknowns, one unknown is set aside, and peeling continues as if it were known.
//! The unknowns peeled after that are correct except for a sum of unknowns that were set aside. The rows that
//! peeling did not use determine these, by the inverse of a matrix with one row for each unknown set aside
//! ("inactivation", RFC 6330, section 5.4.2). Matrices are sets of bits. Packets are touched only by XOR,
//! several in one pass.

use crate::bits::{Span, bit, invert, ones};

/// The positions of the earliest `rows` that determine all `unknowns`; `None` if all rows together do not.
pub(super) fn enough(rows: impl Iterator<Item = u128>, unknowns: u128) -> Option<Vec<usize>> {
    let wanted = unknowns.count_ones() as usize;
    let mut span = Span::new(128);
    let mut taken = Vec::with_capacity(wanted);
    for (place, row) in rows.enumerate() {
        if span.add(row & unknowns) {
            taken.push(place);
            if taken.len() == wanted {
                return Some(taken);
            }
        }
    }
    None
}

/// The order in which independent rows, as many as there are unknowns, give their unknowns.
#[derive(Debug)]
pub(super) struct Peeling {
    /// Rows, each with the unknown that it gives.
    pub(super) peeled: Vec<(usize, usize)>,
    /// The unknowns set aside.
    pub(super) aside: u128,
    /// The rows that determine the unknowns set aside, one for each of them.
    pub(super) left: Vec<usize>,
}

impl Peeling {
    /// The order for `rows` that are independent in the `unknowns`.
    pub(super) fn new(rows: &[u128], unknowns: u128) -> Self {
        let mut state = State {
            rows,
            open: unknowns,
            used: vec![false; rows.len()],
            counts: rows.iter().map(|r| (r & unknowns).count_ones()).collect(),
            ready: Vec::new(),
        };
        state
            .ready
            .extend((0..rows.len()).rev().filter(|r| state.counts[*r] == 1));
        let mut degrees = [0u8; 128];
        rows.iter()
            .flat_map(|row| ones(row & unknowns))
            .for_each(|u| degrees[u] += 1);

        let mut peeled = Vec::with_capacity(rows.len());
        let mut aside = 0;
        while state.open != 0 {
            if let Some(row) = state.ready.pop() {
                // The row may have lost its last unknown to another row.
                if state.counts[row] == 1 {
                    let unknown = (rows[row] & state.open).trailing_zeros() as usize;
                    state.used[row] = true;
                    peeled.push((row, unknown));
                    state.settle(unknown);
                }
            } else if let Some(unknown) = state.to_set_aside(&degrees) {
                aside |= bit(unknown);
                state.settle(unknown);
            } else {
                break;
            }
        }
        let left = (0..rows.len()).filter(|row| !state.used[*row]).collect();
        Self {
            peeled,
            aside,
            left,
        }
    }

    /// For each peeled unknown, the unknowns set aside on which it depends after the known packets and the
    /// unknowns peeled before it have been added. For each row in `left`, the same set.
    pub(super) fn dependence(&self, rows: &[u128]) -> ([u128; 128], Vec<u128>) {
        let mut depends = [0u128; 128];
        let mut seen = 0;
        for &(row, unknown) in &self.peeled {
            let before = ones(rows[row] & seen);
            depends[unknown] = before.fold(rows[row] & self.aside, |sum, u| sum ^ depends[u]);
            seen |= bit(unknown);
        }
        let of = |row: &usize| {
            let before = ones(rows[*row] & seen);
            before.fold(rows[*row] & self.aside, |sum, u| sum ^ depends[u])
        };
        (depends, self.left.iter().map(of).collect())
    }

    /// Each unknown set aside, with the positions in `left` of the rows whose sum it is. `left` is the second
    /// result of [`dependence`](Self::dependence).
    pub(super) fn solved(&self, left: &[u128]) -> Option<Vec<(usize, u128)>> {
        invert(left, self.aside)
    }
}

/// The state of peeling.
struct State<'a> {
    rows: &'a [u128],
    /// The unknowns neither peeled nor set aside.
    open: u128,
    /// For each row, whether it has given an unknown.
    used: Vec<bool>,
    /// For each row, its number of open unknowns.
    counts: Vec<u32>,
    /// Rows that were reduced to one open unknown.
    ready: Vec<usize>,
}

impl State<'_> {
    fn settle(&mut self, unknown: usize) {
        self.open &= !bit(unknown);
        for (row, set) in self.rows.iter().enumerate() {
            if set & bit(unknown) != 0 {
                self.counts[row] -= 1;
                if self.counts[row] == 1 && !self.used[row] {
                    self.ready.push(row);
                }
            }
        }
    }

    /// The unknown to set aside: in the row with the fewest open unknowns, the one that most rows contain.
    fn to_set_aside(&self, degrees: &[u8; 128]) -> Option<usize> {
        let open = |row: &usize| !self.used[*row] && self.counts[*row] > 0;
        let rows = (0..self.rows.len()).filter(open);
        let row = rows.min_by_key(|row| self.counts[*row])?;
        ones(self.rows[row] & self.open).max_by_key(|u| degrees[*u])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sum of some of the unknowns, which have distinct values.
    fn sum(set: u128) -> u64 {
        ones(set).fold(0, |sum, i| {
            sum ^ (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    fn rows() -> impl Strategy<Value = Vec<u128>> {
        let sparse = prop::collection::vec(0usize..40, 1..4);
        let sparse = sparse.prop_map(|set| set.iter().fold(0, |row, i| row | bit(*i)));
        let dense = any::<u64>().prop_map(|row| u128::from(row) & ((1 << 40) - 1));
        prop::collection::vec(prop_oneof![3 => sparse, 1 => dense], 1..90)
    }

    proptest! {
        #[test]
        fn peeling_solves_all_unknowns(rows in rows(), unknowns in any::<u64>()) {
            let unknowns = u128::from(unknowns) & ((1 << 40) - 1);
            let Some(taken) = enough(rows.iter().copied(), unknowns) else {
                let mut span = Span::new(128);
                rows.iter().for_each(|row| { span.add(row & unknowns); });
                prop_assert!(span.rank() < unknowns.count_ones() as usize || unknowns == 0);
                return Ok(());
            };
            let rows: Vec<u128> = taken.iter().map(|place| rows[*place]).collect();
            let plan = Peeling::new(&rows, unknowns);
            prop_assert_eq!(plan.left.len(), plan.aside.count_ones() as usize);
            let (depends, left) = plan.dependence(&rows);
            let mut values = [0u64; 128];
            let mut seen = 0;
            let add_up = |row: usize, seen: u128, values: &[u64; 128]| {
                ones(rows[row] & seen).fold(sum(rows[row] & unknowns), |sum, u| sum ^ values[u])
            };
            for &(row, unknown) in &plan.peeled {
                values[unknown] = add_up(row, seen, &values);
                prop_assert_eq!(values[unknown], sum(bit(unknown)) ^ sum(depends[unknown]));
                seen |= bit(unknown);
            }
            let sides: Vec<u64> = plan.left.iter().map(|row| add_up(*row, seen, &values)).collect();
            for (unknown, set) in plan.solved(&left).expect("independent rows") {
                values[unknown] = ones(set).fold(0, |sum, place| sum ^ sides[place]);
                prop_assert_eq!(values[unknown], sum(bit(unknown)));
                seen |= bit(unknown);
            }
            prop_assert_eq!(seen, unknowns);
        }
    }

    #[test]
    fn chain_of_sums_needs_one_unknown_set_aside() {
        let rows: Vec<u128> = (0..19).map(|i| 0b11 << i).chain([0b111]).collect();
        let plan = Peeling::new(&rows, (1 << 20) - 1);
        assert_eq!((plan.peeled.len(), plan.aside.count_ones()), (19, 1));
        let triangle = [0b111, 0b110, 0b100];
        assert_eq!(Peeling::new(&triangle, 0b111).aside, 0);
    }
}
