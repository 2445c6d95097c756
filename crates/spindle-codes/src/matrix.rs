//! Gaussian elimination over GF(256), for systems as small as the losses of a block.

use crate::field::{gf_inv, gf_mul};

/// A plan that solves a linear system. It selects equations, multiplies each by a constant, and then adds
/// multiples of one to another, in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elimination {
    /// The selected equations, as many as there are unknowns: the earliest ones that suffice.
    pub(crate) taken: Vec<Taken>,
    /// The additions that follow, in this order. Their indices are those of `taken`.
    pub(crate) steps: Vec<Step>,
}

/// An equation that is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The index of the equation.
    pub(crate) row: usize,
    /// The factor by which it is multiplied first.
    pub(crate) scale: u8,
    /// The unknown to which it reduces at the end.
    pub(crate) column: usize,
}

/// `to` += `factor` * `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) to: usize,
    pub(crate) factor: u8,
    pub(crate) from: usize,
}

/// The elimination of `rows` equations with `columns` unknowns. `element(row, column)` is the coefficient of
/// the unknown. Returns `None` if the equations do not determine all unknowns.
pub(crate) fn eliminate(
    rows: usize,
    columns: usize,
    element: impl Fn(usize, usize) -> u8,
) -> Option<Elimination> {
    if rows < columns {
        return None;
    }
    let mut out = Elimination {
        taken: Vec::with_capacity(columns),
        steps: Vec::new(),
    };
    // The selected equations. Each is 1 at its own column and 0 at the columns of earlier equations.
    let mut done: Vec<u8> = Vec::with_capacity((columns + 1) * columns);
    for row in 0..rows {
        let this = out.taken.len();
        if this == columns {
            break;
        }
        let steps = out.steps.len();
        done.extend((0..columns).map(|column| element(row, column)));
        let (earlier, current) = done.split_at_mut(this * columns);
        for (from, taken) in out.taken.iter().enumerate() {
            let factor = current[taken.column];
            if factor != 0 {
                add(factor, &earlier[from * columns..][..columns], current);
                let to = this;
                out.steps.push(Step { to, factor, from });
            }
        }
        let Some(column) = current.iter().position(|e| *e != 0) else {
            out.steps.truncate(steps);
            done.truncate(this * columns);
            continue;
        };
        let scale = gf_inv(current[column])?;
        for e in current {
            *e = gf_mul(scale, *e);
        }
        for step in &mut out.steps[steps..] {
            step.factor = gf_mul(scale, step.factor);
        }
        out.taken.push(Taken { row, scale, column });
    }
    if out.taken.len() < columns {
        return None;
    }
    // Back substitution: the last equation contains a single unknown and is cleared from the others, and so on.
    for (from, taken) in out.taken.iter().enumerate().rev() {
        for to in 0..from {
            let factor = done[to * columns + taken.column];
            if factor != 0 {
                out.steps.push(Step { to, factor, from });
            }
        }
    }
    Some(out)
}

/// `to` += `factor` * `from`, element by element.
fn add(factor: u8, from: &[u8], to: &mut [u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= gf_mul(factor, *from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Applies the elimination to the equations' right sides and returns the unknowns in order.
    fn apply(e: &Elimination, right: &[u8]) -> Vec<u8> {
        let scaled = e.taken.iter().map(|t| gf_mul(t.scale, right[t.row]));
        let mut values: Vec<u8> = scaled.collect();
        for s in &e.steps {
            values[s.to] ^= gf_mul(s.factor, values[s.from]);
        }
        let mut unknowns = vec![0; values.len()];
        for (taken, value) in e.taken.iter().zip(values) {
            unknowns[taken.column] = value;
        }
        unknowns
    }

    proptest! {
        #[test]
        fn elimination_solves_independent_equations(
            rows in 1usize..7, columns in 1usize..7, unknowns in prop::array::uniform6(any::<u8>()),
            elements in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 36),
        ) {
            let a = |row: usize, column: usize| elements[row * columns + column];
            let side = |row| (0..columns).fold(0, |s, c| s ^ gf_mul(a(row, c), unknowns[c]));
            let right: Vec<u8> = (0..rows).map(side).collect();
            if let Some(e) = eliminate(rows, columns, a) {
                prop_assert_eq!(apply(&e, &right), &unknowns[..columns]);
            } else {
                prop_assert!(rows < columns || dependent(rows, columns, &a));
            }
        }
    }

    /// Whether every choice of `columns` rows has determinant 0, computed by expansion.
    fn dependent(rows: usize, columns: usize, a: &impl Fn(usize, usize) -> u8) -> bool {
        (0u32..1 << rows)
            .filter(|set| set.count_ones() as usize == columns)
            .all(|set| {
                let chosen: Vec<usize> = (0..rows).filter(|r| set >> r & 1 == 1).collect();
                determinant(&chosen, 0, columns, a) == 0
            })
    }

    fn determinant(
        rows: &[usize],
        column: usize,
        columns: usize,
        a: &impl Fn(usize, usize) -> u8,
    ) -> u8 {
        if column == columns {
            return 1;
        }
        let mut sum = 0;
        for at in 0..rows.len() {
            let mut rest = rows.to_vec();
            let row = rest.remove(at);
            sum ^= gf_mul(a(row, column), determinant(&rest, column + 1, columns, a));
        }
        sum
    }

    #[test]
    fn elimination_takes_early_equations_and_skips_dependent_ones() {
        let a = [[1, 1], [1, 1], [1, 2], [5, 7]];
        let e = eliminate(4, 2, |r, c| a[r][c]).expect("rank 2");
        let rows: Vec<_> = e.taken.iter().map(|t| t.row).collect();
        assert_eq!(rows, [0, 2]);
        assert_eq!(e.taken[0].scale, 1, "an XOR needs no multiplication");
        assert_eq!(eliminate(2, 2, |_, _| 3), None);
        assert_eq!(eliminate(1, 2, |_, c| c as u8 + 1), None);
    }
}
