//! [`ErasureCode`]: the interface of every code over packets, with default implementations for any linear code.

use std::fmt;

use crate::error::{CodeError, Contradiction};
use crate::field::products;
use crate::kernel::Kernel;
use crate::matrix::{Step, Taken, eliminate};
use crate::symbol::{
    Body, Content, Label, Parity, Recovered, Source, Symbol, Term, check_len, combine,
};
use crate::tracker::Tracker;

/// The number of packets in a block (CAPS: a coding unit) and the number of its possible parities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The number of packets: K of CoFUSO, k of CAPS.
    pub sources: usize,
    /// The number of parities: M of CoFUSO, r of CAPS.
    pub parities: usize,
}

impl Shape {
    /// A shape of `sources` packets and `parities` parities.
    pub const fn new(sources: usize, parities: usize) -> Self {
        Self { sources, parities }
    }
}

/// The largest blocks of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The largest number of packets.
    pub max_sources: usize,
    /// The largest number of parities.
    pub max_parities: usize,
    /// The largest number of packets and parities together.
    pub max_total: usize,
}

impl Limits {
    /// The limits of units whose packets are not sent themselves. A set of up to 128 packets is one integer
    /// ([`Ldpc`](crate::Ldpc)). 255 encoded packets can be counted in a byte, and each has a different power of
    /// 2 in GF(256) ([`Ideal`](crate::Ideal)).
    pub const UNIT: Self = Self {
        max_sources: 128,
        max_parities: 255,
        max_total: 128 + 255,
    };

    /// Checks that blocks of this shape are within the limits.
    ///
    /// # Errors
    /// [`CodeError::Shape`] if they are not, or if the block has no packet or no parity.
    pub fn check(&self, shape: Shape) -> Result<(), CodeError> {
        let Shape { sources, parities } = shape;
        let fits = (1..=self.max_sources).contains(&sources)
            && (1..=self.max_parities).contains(&parities)
            && sources.saturating_add(parities) <= self.max_total;
        if fits {
            return Ok(());
        }
        Err(CodeError::Shape {
            sources,
            parities,
            max_sources: self.max_sources,
            max_parities: self.max_parities,
            max_total: self.max_total,
        })
    }
}

/// A linear erasure code over packets.
///
/// A block has `shape.sources` packets, which are sent unchanged, and up to `shape.parities` parities, each of
/// which is a combination of the packets. In CAPS's units the k packets are not sent, but n encoded ones are.
/// Such a unit is a block of shape (k, n) with all packets missing. A code is defined by its
/// [`limits`](Self::limits) and its [`coefficient`](Self::coefficient)s. The other methods have default
/// implementations, which a code replaces only if it has a faster algorithm. A code keeps no state between
/// calls, so one value serves all connections.
///
/// Packets and parities may be real bytes or plain lengths (see [`Body`]). Both behave alike.
///
/// The code's limits bound the memory of a call. Encoding needs one parity. Decoding needs the missing packets,
/// and three coefficients for each pair of them. A peer may send arbitrary data: every call answers it with
/// packets or a [`CodeError`].
pub trait ErasureCode: fmt::Debug + Send + Sync {
    /// The code's name.
    fn name(&self) -> &'static str;

    /// The largest blocks that the code can make and accepts for decoding.
    fn limits(&self) -> Limits;

    /// The kernel that multiplies packets.
    fn kernel(&self) -> Kernel;

    /// The factor of packet `source` in parity `parity` of a block of this shape. The caller guarantees that
    /// the shape is within the limits and the indices are within the shape.
    fn coefficient(&self, shape: Shape, parity: usize, source: usize) -> u8;

    /// Whether all packets of `missing` can be decoded from `parities` and the other packets. Both are lists of
    /// indices, each index at most once. True if `missing` is empty; otherwise false for a block that this code
    /// does not have.
    fn decodable(&self, shape: Shape, missing: &[usize], parities: &[usize]) -> bool {
        missing.is_empty()
            || (missing.len() <= parities.len()
                && self.limits().check(shape).is_ok()
                && missing.iter().all(|m| *m < shape.sources)
                && parities.iter().all(|p| *p < shape.parities)
                && eliminate(parities.len(), missing.len(), |row, column| {
                    self.coefficient(shape, parities[row], missing[column])
                })
                .is_some())
    }

    /// Parity `parity` of the block `sources`, whose packets are in order.
    ///
    /// Parities are made one at a time, directly from the packets. An encoder keeps no state between them.
    ///
    /// # Errors
    /// [`CodeError::Shape`], [`CodeError::SourceCount`], [`CodeError::ParityIndex`] or
    /// [`CodeError::TooLong`] if the arguments are out of bounds.
    fn encode(
        &self,
        shape: Shape,
        parity: usize,
        sources: &[Source<'_>],
    ) -> Result<Symbol, CodeError> {
        check_block(self.limits(), shape, parity, sources)?;
        let terms = sources.iter().enumerate().map(|(index, source)| Term {
            coefficient: self.coefficient(shape, parity, index),
            label: source.label(),
            body: source.body,
        });
        Ok(combine(self.kernel(), &terms.collect::<Vec<_>>()))
    }

    /// All parities of the block `sources`, from 0 on. Each is what [`encode`](Self::encode) returns for its
    /// index.
    ///
    /// # Errors
    /// The errors of [`encode`](Self::encode).
    fn encode_unit(&self, shape: Shape, sources: &[Source<'_>]) -> Result<Vec<Symbol>, CodeError> {
        self.limits().check(shape)?;
        let parities = 0..shape.parities;
        parities.map(|p| self.encode(shape, p, sources)).collect()
    }

    /// A tracker that reports, as symbols arrive one by one, whether a block of this shape can be decoded. It
    /// is complete as soon as [`decodable`](Self::decodable) is true for the same symbols.
    ///
    /// The tracker of the default implementation stores all coefficients of the block.
    ///
    /// # Errors
    /// [`CodeError::Shape`] if the shape exceeds the limits.
    fn tracker(&self, shape: Shape) -> Result<Tracker, CodeError> {
        self.limits().check(shape)?;
        let coefficient = |parity, source| self.coefficient(shape, parity, source);
        Ok(Tracker::by_coefficients(shape, coefficient))
    }

    /// Decodes the packets that are `None` in `sources` from the other packets and from `parities`, and returns
    /// them in order. It uses no more parities than necessary. The result is empty if no packet is missing.
    ///
    /// # Errors
    /// [`CodeError::Undecodable`] if more symbols must arrive first; [`CodeError::Contradiction`] if the
    /// symbols cannot belong to one block; the other errors if the arguments are out of bounds.
    fn decode(
        &self,
        shape: Shape,
        sources: &[Option<Source<'_>>],
        parities: &[Parity<'_>],
    ) -> Result<Vec<Recovered>, CodeError> {
        let width = check_received(self.limits(), shape, sources, parities)?;
        solve(self, shape, sources, parities, width)
    }

    /// Whether `parity` is what [`encode`](Self::encode) makes of `sources`. This verifies a parity that
    /// arrives when no packet is missing, or that was not needed.
    ///
    /// # Errors
    /// The errors of [`encode`](Self::encode).
    fn agrees(
        &self,
        shape: Shape,
        sources: &[Source<'_>],
        parity: &Parity<'_>,
    ) -> Result<bool, CodeError> {
        let expected = self.encode(shape, parity.index, sources)?;
        Ok(expected.label == parity.label && same(expected.content.as_body(), parity.body))
    }
}

/// Whether two bodies have the same bytes. A length stands for that many zeros.
fn same(a: Body<'_>, b: Body<'_>) -> bool {
    let zeros = |bytes: &[u8]| bytes.iter().all(|b| *b == 0);
    a.len() == b.len()
        && match (a, b) {
            (Body::Bytes(a), Body::Bytes(b)) => a == b,
            (Body::Bytes(bytes), Body::Length(_)) | (Body::Length(_), Body::Bytes(bytes)) => {
                zeros(bytes)
            }
            (Body::Length(_), Body::Length(_)) => true,
        }
}

/// Returns an error for a block that is out of bounds or has no such parity.
pub(crate) fn check_block(
    limits: Limits,
    shape: Shape,
    parity: usize,
    sources: &[Source<'_>],
) -> Result<(), CodeError> {
    limits.check(shape)?;
    if sources.len() != shape.sources {
        return Err(CodeError::SourceCount {
            found: sources.len(),
            expected: shape.sources,
        });
    }
    if parity >= shape.parities {
        return Err(CodeError::ParityIndex {
            found: parity,
            parities: shape.parities,
        });
    }
    sources.iter().try_for_each(|s| check_len(s.body.len()))
}

/// Returns an error for symbols that are out of bounds or cannot belong to one block. Otherwise returns the
/// length of the parities in bytes, 0 if there is none.
pub(crate) fn check_received(
    limits: Limits,
    shape: Shape,
    sources: &[Option<Source<'_>>],
    parities: &[Parity<'_>],
) -> Result<usize, CodeError> {
    limits.check(shape)?;
    if sources.len() != shape.sources {
        return Err(CodeError::SourceCount {
            found: sources.len(),
            expected: shape.sources,
        });
    }
    for source in sources.iter().flatten() {
        check_len(source.body.len())?;
    }
    let Some(first) = parities.first() else {
        return Ok(0);
    };
    let width = first.body.len();
    check_len(width)?;
    let mut seen = vec![false; shape.parities];
    for parity in parities {
        let Some(seen) = seen.get_mut(parity.index) else {
            return Err(CodeError::ParityIndex {
                found: parity.index,
                parities: shape.parities,
            });
        };
        let index = parity.index;
        if std::mem::replace(seen, true) {
            return Err(CodeError::DuplicateParity { index });
        }
        let (found, expected) = (parity.body.len(), width);
        if found != expected {
            return Err(Contradiction::ParityLength {
                index,
                found,
                expected,
            }
            .into());
        }
    }
    for (index, source) in sources.iter().enumerate() {
        if let Some(found) = source.map(|s| s.body.len()).filter(|len| *len > width) {
            return Err(Contradiction::SourceLength {
                index,
                found,
                width,
            }
            .into());
        }
    }
    Ok(width)
}

/// Gaussian elimination. It first computes the contribution of the missing packets to each parity that is
/// needed, and from these, in place, the missing packets. The arguments have been checked; `width` is the
/// parities' length.
fn solve<C: ErasureCode + ?Sized>(
    code: &C,
    shape: Shape,
    sources: &[Option<Source<'_>>],
    parities: &[Parity<'_>],
    width: usize,
) -> Result<Vec<Recovered>, CodeError> {
    let missing: Vec<usize> = (0..shape.sources)
        .filter(|index| sources[*index].is_none())
        .collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let plan = eliminate(parities.len(), missing.len(), |row, column| {
        code.coefficient(shape, parities[row].index, missing[column])
    })
    .ok_or(CodeError::Undecodable {
        missing: missing.len(),
        parities: parities.len(),
    })?;

    let rest = |taken: &Taken| rest(code, shape, sources, &parities[taken.row], taken.scale);
    let mut packets: Vec<Symbol> = plan.taken.iter().map(rest).collect();
    for &Step { to, factor, from } in &plan.steps {
        if let Ok([to, from]) = packets.get_disjoint_mut([to, from]) {
            to.add(code.kernel(), factor, from);
        }
    }
    let indices = plan.taken.iter().map(|taken| missing[taken.column]);
    packets_of(indices.zip(packets).collect(), sources, width)
}

/// Cuts decoded packets to their lengths and returns them in order, with their indices. `width` is the
/// parities' length.
pub(crate) fn packets_of(
    mut packets: Vec<(usize, Symbol)>,
    sources: &[Option<Source<'_>>],
    width: usize,
) -> Result<Vec<Recovered>, CodeError> {
    packets.sort_unstable_by_key(|(index, _)| *index);
    let mut recovered = Vec::with_capacity(packets.len());
    for (index, symbol) in packets {
        recovered.push(unpad(index, symbol, width)?);
    }

    let known = sources.iter().flatten().map(|source| source.body.len());
    let decoded = recovered.iter().map(|packet| packet.content.len());
    match known.chain(decoded).max() {
        Some(longest) if longest != width => Err(Contradiction::Width { longest, width }.into()),
        _ => Ok(recovered),
    }
}

/// `scale` times the contribution of the missing packets to a parity, which is the parity minus the known
/// packets.
fn rest<C: ErasureCode + ?Sized>(
    code: &C,
    shape: Shape,
    sources: &[Option<Source<'_>>],
    parity: &Parity<'_>,
    scale: u8,
) -> Symbol {
    let scaled = products(scale);
    let mut terms = Vec::with_capacity(shape.sources + 1);
    for (index, source) in sources.iter().enumerate() {
        let Some(source) = source else { continue };
        let coefficient = code.coefficient(shape, parity.index, index);
        terms.push(Term {
            coefficient: scaled[usize::from(coefficient)],
            label: source.label(),
            body: source.body,
        });
    }
    terms.push(Term {
        coefficient: scale,
        label: parity.label,
        body: parity.body,
    });
    combine(code.kernel(), &terms)
}

/// Packet `index`, cut to the length in its label.
fn unpad(index: usize, symbol: Symbol, width: usize) -> Result<Recovered, CodeError> {
    let Label { len, dsn } = symbol.label;
    let len = len as usize;
    if len > width {
        return Err(Contradiction::DecodedLength {
            index,
            found: len,
            width,
        }
        .into());
    }
    let content = match symbol.content {
        Content::Bytes(mut bytes) => {
            if bytes[len..].iter().any(|b| *b != 0) {
                return Err(Contradiction::Padding { index, len }.into());
            }
            bytes.truncate(len);
            Content::Bytes(bytes)
        }
        Content::Length(_) => Content::Length(len as u32),
    };
    Ok(Recovered {
        index,
        dsn,
        content,
    })
}
