//! Whether a block can be decoded, as its symbols arrive one by one.

use std::sync::Arc;

use crate::bits::{Span, bit};
use crate::code::Shape;
use crate::field::{gf_inv, gf_mul};

/// Counts the symbols of a block that told something new, until they tell all of its packets.
///
/// A symbol is *innovative* if those before it did not tell it. There are as many innovative ones as
/// their coefficients have rank, whatever their order, and a block can be decoded when its
/// [`rank`](Self::rank) is its number of packets. A code makes it: [`ErasureCode::tracker`].
///
/// ```
/// use spindle_codes::{ErasureCode, ReedSolomon, Shape};
///
/// let mut block = ReedSolomon::new().tracker(Shape::new(3, 2))?;
/// assert!(block.add_source(0) && block.add_parity(1));
/// assert!(!block.add_source(0));
/// assert!(!block.is_complete());
/// assert!(block.add_parity(0) && block.is_complete());
/// # Ok::<(), spindle_codes::CodeError>(())
/// ```
///
/// [`ErasureCode::tracker`]: crate::ErasureCode::tracker
#[derive(Clone, Debug)]
pub struct Tracker {
    shape: Shape,
    rank: usize,
    known: Known,
}

/// What the symbols so far tell.
#[derive(Clone, Debug)]
enum Known {
    /// Any as many symbols as there are packets tell all. The bits of those that came: packets,
    /// then parities.
    Count { came: Vec<u64> },
    /// The same of a code whose packets are not sent.
    CountParities { came: Vec<u64> },
    /// Coefficients are 0 and 1; the parities' as sets of packets.
    Binary { rows: Arc<[u128]>, span: Span },
    /// Coefficients of all parities, one after the other, and rows of the span: each by the first
    /// packet it has, times 1; empty if there is none.
    Field {
        coefficients: Vec<u8>,
        span: Vec<Vec<u8>>,
    },
}

impl Tracker {
    /// Of a code any `shape.sources` of whose symbols tell all packets (MDS). Holds a bit for each
    /// symbol: the code is to see first that the shape is within its limits.
    pub fn counting(shape: Shape) -> Self {
        let bits = shape.sources + shape.parities;
        let came = vec![0; bits.div_ceil(64)];
        Self::new(shape, Known::Count { came })
    }

    /// The same of a code whose packets are never sent: they do not count.
    pub(crate) fn counting_parities(shape: Shape) -> Self {
        let came = vec![0; shape.parities.div_ceil(64)];
        Self::new(shape, Known::CountParities { came })
    }

    /// Of a code with these coefficients, by `(parity, source)`. They are all made here, a byte
    /// each: the code is to see first that the shape is within its limits.
    pub fn by_coefficients(shape: Shape, coefficient: impl Fn(usize, usize) -> u8) -> Self {
        let row = |parity| (0..shape.sources).map(move |source| (parity, source));
        let coefficients = (0..shape.parities).flat_map(row);
        let coefficients = coefficients.map(|(parity, source)| coefficient(parity, source));
        let known = Known::Field {
            coefficients: coefficients.collect(),
            span: vec![Vec::new(); shape.sources],
        };
        Self::new(shape, known)
    }

    /// Of a binary code of up to 128 packets, whose parities these are.
    pub(crate) fn binary(shape: Shape, rows: Arc<[u128]>) -> Self {
        let span = Span::new(shape.sources);
        Self::new(shape, Known::Binary { rows, span })
    }

    fn new(shape: Shape, known: Known) -> Self {
        Self {
            shape,
            rank: 0,
            known,
        }
    }

    /// The block's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many symbols were innovative.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Whether all packets can be told.
    pub fn is_complete(&self) -> bool {
        self.rank == self.shape.sources
    }

    /// Packet `index` arrived; whether it is innovative. It never is if there is no such packet.
    pub fn add_source(&mut self, index: usize) -> bool {
        if self.is_complete() || index >= self.shape.sources {
            return false;
        }
        let new = match &mut self.known {
            Known::Count { came } => first(came, index),
            Known::CountParities { .. } => false,
            Known::Binary { span, .. } => span.add(bit(index)),
            Known::Field { span, .. } => {
                let mut row = vec![0; self.shape.sources];
                row[index] = 1;
                add(span, row)
            }
        };
        self.rank += usize::from(new);
        new
    }

    /// Parity `index` arrived; whether it is innovative. It never is if there is no such parity.
    pub fn add_parity(&mut self, index: usize) -> bool {
        if self.is_complete() || index >= self.shape.parities {
            return false;
        }
        let sources = self.shape.sources;
        let new = match &mut self.known {
            Known::Count { came } => first(came, sources + index),
            Known::CountParities { came } => first(came, index),
            Known::Binary { rows, span } => span.add(rows[index]),
            Known::Field { coefficients, span } => {
                add(span, coefficients[index * sources..][..sources].to_vec())
            }
        };
        self.rank += usize::from(new);
        new
    }
}

/// Sets a bit; whether it was not set.
fn first(came: &mut [u64], index: usize) -> bool {
    let word = &mut came[index / 64];
    let bit = 1 << (index % 64);
    let new = *word & bit == 0;
    *word |= bit;
    new
}

/// Adds a row to a span over GF(256); whether it was not in it.
fn add(span: &mut [Vec<u8>], mut row: Vec<u8>) -> bool {
    for at in 0..span.len() {
        let factor = row[at];
        if factor == 0 {
            continue;
        }
        if span[at].is_empty() {
            let scale = gf_inv(factor).unwrap_or(0);
            row.iter_mut().for_each(|e| *e = gf_mul(scale, *e));
            span[at] = row;
            return true;
        }
        for (to, from) in row.iter_mut().zip(&span[at]) {
            *to ^= gf_mul(factor, *from);
        }
    }
    false
}
