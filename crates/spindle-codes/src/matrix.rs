//! Gaussian elimination over GF(256), for systems as small as a block's losses.

use crate::field::{gf_inv, gf_mul};

/// How the unknowns of a linear system come out of its equations: equations are taken, each times a
/// constant, then multiples of one are added to another, in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elimination {
    /// The equations taken, as many as there are unknowns: the earliest that suffice.
    pub(crate) taken: Vec<Taken>,
    /// What is then added, in this order; indices are those of `taken`.
    pub(crate) steps: Vec<Step>,
}

/// An equation that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Which it is.
    pub(crate) row: usize,
    /// What it is multiplied by at first.
    pub(crate) scale: u8,
    /// The unknown that it is in the end.
    pub(crate) column: usize,
}

/// `to` += `factor` * `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) to: usize,
    pub(crate) factor: u8,
    pub(crate) from: usize,
}

/// The elimination of `rows` equations with `columns` unknowns, in which `element(row, column)` is what
/// the unknown is multiplied by; `None` if they do not tell all unknowns.
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
    // The equations taken: each is 1 at its own column and 0 at those of earlier ones.
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
    // Backwards: the last is an unknown alone, and is cleared from the others; and so on.
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

    /// What the elimination makes of the equations' right sides, by unknown.
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
        fn unknowns_come_out_of_their_equations(
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

    /// Whether every choice of `columns` rows has determinant 0, by expansion.
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
    fn early_equations_are_taken_and_dependent_ones_are_not() {
        let a = [[1, 1], [1, 1], [1, 2], [5, 7]];
        let e = eliminate(4, 2, |r, c| a[r][c]).expect("rank 2");
        let rows: Vec<_> = e.taken.iter().map(|t| t.row).collect();
        assert_eq!(rows, [0, 2]);
        assert_eq!(e.taken[0].scale, 1, "an XOR stays one");
        assert_eq!(eliminate(2, 2, |_, _| 3), None);
        assert_eq!(eliminate(1, 2, |_, c| c as u8 + 1), None);
    }
}
