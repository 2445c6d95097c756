//! Reports whether a block can be decoded, as its symbols arrive one by one.

use std::sync::Arc;

use crate::bits::{Span, bit};
use crate::code::Shape;
use crate::field::{gf_inv, gf_mul};

/// Counts the innovative symbols of a block until they determine all of its packets.
///
/// A symbol is *innovative* if the symbols before it did not determine it. The number of innovative symbols is
/// the rank of their coefficients, independent of their order. A block can be decoded when its
/// [`rank`](Self::rank) is its number of packets. [`ErasureCode::tracker`] creates a tracker.
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

/// The information in the symbols so far.
#[derive(Clone, Debug)]
enum Known {
    /// For a code with which any `sources` symbols are enough. One bit for each symbol that arrived: packets,
    /// then parities.
    Count { came: Vec<u64> },
    /// Like `Count`, for a code whose packets are not sent.
    CountParities { came: Vec<u64> },
    /// For coefficients 0 and 1. Each parity's coefficients are a set of packets.
    Binary { rows: Arc<[u128]>, span: Span },
    /// The coefficients of all parities, one parity after the other, and the rows of the span. A row is stored
    /// at its first packet, whose coefficient is 1. A row is empty if there is none for that packet.
    Field {
        coefficients: Vec<u8>,
        span: Vec<Vec<u8>>,
    },
}

impl Tracker {
    /// A tracker for a code with which any `shape.sources` symbols restore all packets (MDS). It stores one bit
    /// for each symbol, so the code must first check that the shape is within its limits.
    pub fn counting(shape: Shape) -> Self {
        let bits = shape.sources + shape.parities;
        let came = vec![0; bits.div_ceil(64)];
        Self::new(shape, Known::Count { came })
    }

    /// Like [`Self::counting`], for a code whose packets are never sent. Packets do not count.
    pub(crate) fn counting_parities(shape: Shape) -> Self {
        let came = vec![0; shape.parities.div_ceil(64)];
        Self::new(shape, Known::CountParities { came })
    }

    /// A tracker for a code with these coefficients, by `(parity, source)`. It computes and stores all of them,
    /// one byte each, so the code must first check that the shape is within its limits.
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

    /// A tracker for a binary code of up to 128 packets. `rows` are its parities.
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

    /// The number of innovative symbols so far.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Whether all packets can be decoded.
    pub fn is_complete(&self) -> bool {
        self.rank == self.shape.sources
    }

    /// Records that packet `index` arrived. Returns whether it is innovative, which is false if there is no
    /// such packet.
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

    /// Records that parity `index` arrived. Returns whether it is innovative, which is false if there is no
    /// such parity.
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

/// Sets a bit. Returns whether it was clear before.
fn first(came: &mut [u64], index: usize) -> bool {
    let word = &mut came[index / 64];
    let bit = 1 << (index % 64);
    let new = *word & bit == 0;
    *word |= bit;
    new
}

/// Adds a row to a span over GF(256). Returns whether the row was not yet in the span.
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
