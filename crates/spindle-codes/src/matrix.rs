//! Gaussian elimination over GF(256), for matrices as small as a block's losses.

use crate::field::{gf_inv, gf_mul};

/// A matrix of `rows x columns` elements, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    columns: usize,
    elements: Vec<u8>,
}

impl Matrix {
    fn zero(rows: usize, columns: usize) -> Self {
        Self {
            columns,
            elements: vec![0; rows * columns],
        }
    }

    /// The elements of row `row`, which must exist.
    pub(crate) fn row(&self, row: usize) -> &[u8] {
        &self.elements[row * self.columns..][..self.columns]
    }

    fn row_mut(&mut self, row: usize) -> &mut [u8] {
        &mut self.elements[row * self.columns..][..self.columns]
    }

    /// Row `target` += `factor` * row `of`; they must differ.
    fn add_row(&mut self, target: usize, factor: u8, of: usize) {
        for column in 0..self.columns {
            let term = gf_mul(factor, self.elements[of * self.columns + column]);
            self.elements[target * self.columns + column] ^= term;
        }
    }
}

/// The `columns x rows` matrix T with `T A = 1`, where A is the `rows x columns` matrix of
/// `element(row, column)`; `None` if the columns of A depend on each other. T uses the earliest rows
/// of A that suffice and is 0 at the others.
pub(crate) fn left_inverse(
    rows: usize,
    columns: usize,
    element: impl Fn(usize, usize) -> u8,
) -> Option<Matrix> {
    if rows < columns {
        return None;
    }
    // [A | 1]: what is done to A's rows is written down on the right.
    let mut work = Matrix::zero(rows, columns + rows);
    for row in 0..rows {
        let out = work.row_mut(row);
        for (column, out) in out[..columns].iter_mut().enumerate() {
            *out = element(row, column);
        }
        out[columns + row] = 1;
    }
    // Rows are taken in their order; each clears the column of its first element in all others.
    let mut pivot_row = vec![usize::MAX; columns];
    let mut rank = 0;
    for row in 0..rows {
        if rank == columns {
            break;
        }
        let Some(column) = work.row(row)[..columns].iter().position(|e| *e != 0) else {
            continue;
        };
        let inverse = gf_inv(work.row(row)[column])?;
        for e in work.row_mut(row) {
            *e = gf_mul(inverse, *e);
        }
        for other in (0..rows).filter(|other| *other != row) {
            let factor = work.row(other)[column];
            if factor != 0 {
                work.add_row(other, factor, row);
            }
        }
        pivot_row[column] = row;
        rank += 1;
    }
    if rank < columns {
        return None;
    }
    let mut inverse = Matrix::zero(columns, rows);
    for (column, &row) in pivot_row.iter().enumerate() {
        inverse
            .row_mut(column)
            .copy_from_slice(&work.row(row)[columns..]);
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_inverse_times_its_matrix_is_one(
            rows in 1usize..7, columns in 1usize..7, elements in prop::collection::vec(0u8..4, 36),
        ) {
            let a = |row: usize, column: usize| elements[row * columns + column];
            if let Some(t) = left_inverse(rows, columns, a) {
                for i in 0..columns {
                    for j in 0..columns {
                        let sum = (0..rows).fold(0, |s, r| s ^ gf_mul(t.row(i)[r], a(r, j)));
                        prop_assert_eq!(sum, u8::from(i == j));
                    }
                }
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
    fn early_rows_are_used_and_dependent_ones_are_not() {
        let a = [[1, 1], [1, 1], [1, 2], [5, 7]];
        let t = left_inverse(4, 2, |r, c| a[r][c]).expect("rank 2");
        for row in 0..2 {
            assert_eq!(t.row(row)[1], 0);
            assert_eq!(t.row(row)[3], 0);
        }
        assert_eq!(left_inverse(2, 2, |_, _| 3), None);
        assert_eq!(left_inverse(1, 2, |_, c| c as u8 + 1), None);
    }
}
