//! [`ErasureCode`]: what every code over packets offers, and how any linear one does it.

use std::fmt;

use crate::error::{CodeError, Contradiction};
use crate::field::products;
use crate::kernel::Kernel;
use crate::matrix::{Step, Taken, eliminate};
use crate::symbol::{
    Body, Content, Label, Parity, Recovered, Source, Symbol, Term, check_len, combine,
};
use crate::tracker::Tracker;

/// How many packets a block (CAPS: a coding unit) has, and how many parities it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Packets: K of CoFUSO, k of CAPS.
    pub sources: usize,
    /// Parities: M of CoFUSO, r of CAPS.
    pub parities: usize,
}

impl Shape {
    /// `sources` packets and `parities` parities.
    pub const fn new(sources: usize, parities: usize) -> Self {
        Self { sources, parities }
    }
}

/// The largest blocks of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The most packets.
    pub max_sources: usize,
    /// The most parities.
    pub max_parities: usize,
    /// The most of both together.
    pub max_total: usize,
}

impl Limits {
    /// Those of units whose packets are not sent themselves: a set of up to 128 packets is one integer
    /// ([`Ldpc`](crate::Ldpc)), and 255 encoded packets can be counted in a byte and have each another power of 2 in
    /// GF(256) ([`Ideal`](crate::Ideal)).
    pub const UNIT: Self = Self {
        max_sources: 128,
        max_parities: 255,
        max_total: 128 + 255,
    };

    /// Whether blocks of this shape are within them.
    ///
    /// # Errors
    /// [`CodeError::Shape`] if not, or if the block has no packet or no parity.
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
/// A block has `shape.sources` packets, sent as they are, and up to `shape.parities` parities, each
/// a combination of the packets. If the packets are not sent (CAPS' units, k packets of which n
/// encoded ones travel) the block has shape (k, n) and all packets are missing. A code is its
/// [`limits`](Self::limits) and its [`coefficient`](Self::coefficient)s; all else follows, and is
/// replaced only where a code knows a faster way. A code keeps nothing between calls, so one value
/// serves all connections.
///
/// Packets and parities may be real bytes or lengths (see [`Body`]); both behave alike.
///
/// Memory of a call is bounded by the code's limits: one parity when encoding; the missing packets,
/// and three coefficients for each pair of them, when decoding. What a peer
/// sends may be anything: every call answers it with packets or a [`CodeError`].
pub trait ErasureCode: fmt::Debug + Send + Sync {
    /// The code's name.
    fn name(&self) -> &'static str;

    /// The largest blocks it can make and is willing to decode.
    fn limits(&self) -> Limits;

    /// How packets are multiplied.
    fn kernel(&self) -> Kernel;

    /// By what packet `source` is multiplied in parity `parity` of a block of this shape. Called
    /// with a shape within the limits, and indices within the shape.
    fn coefficient(&self, shape: Shape, parity: usize, source: usize) -> u8;

    /// Whether all of `missing` (indices of packets, each once) can be told from `parities` (indices,
    /// each once) and the other packets. False also for what is no block of this code.
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

    /// Parity `parity` of the block that `sources` are, in their order.
    ///
    /// Parities are made one at a time, from the packets where they lie; an encoder keeps nothing
    /// from one to the next.
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

    /// All parities of the block that `sources` are, from 0 on: what [`encode`](Self::encode) makes
    /// of each index.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    fn encode_unit(&self, shape: Shape, sources: &[Source<'_>]) -> Result<Vec<Symbol>, CodeError> {
        self.limits().check(shape)?;
        let parities = 0..shape.parities;
        parities.map(|p| self.encode(shape, p, sources)).collect()
    }

    /// What tells, symbol by symbol as they arrive, whether a block of this shape can be decoded.
    /// Complete when [`decodable`](Self::decodable) says so of the same symbols.
    ///
    /// By default it holds all coefficients of the block.
    ///
    /// # Errors
    /// [`CodeError::Shape`] if the shape is beyond the limits.
    fn tracker(&self, shape: Shape) -> Result<Tracker, CodeError> {
        self.limits().check(shape)?;
        let coefficient = |parity, source| self.coefficient(shape, parity, source);
        Ok(Tracker::by_coefficients(shape, coefficient))
    }

    /// The packets that are `None` in `sources`, in their order, told from the others and from
    /// `parities`, of which no more are used than are needed. Empty if none is missing.
    ///
    /// # Errors
    /// [`CodeError::Undecodable`] if more must arrive first;
    /// [`CodeError::Contradiction`] if what arrived cannot be of one block;
    /// the others if the arguments are out of bounds.
    fn decode(
        &self,
        shape: Shape,
        sources: &[Option<Source<'_>>],
        parities: &[Parity<'_>],
    ) -> Result<Vec<Recovered>, CodeError> {
        let width = check_received(self.limits(), shape, sources, parities)?;
        solve(self, shape, sources, parities, width)
    }

    /// Whether `parity` is what [`encode`](Self::encode) makes of `sources`: how a parity that
    /// arrives when no packet is missing, or that was not needed, is put to the test.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
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

/// Whether two bodies are the same bytes, a length being that many zeros.
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

/// Refuses a block that is out of bounds, or of which there is no such parity.
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

/// Refuses what is out of bounds or cannot be of one block; the length of its parities in bytes, 0
/// if there is none.
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

/// Gaussian elimination: of each parity that is needed what the missing packets add to it, and of
/// these, in place, the missing packets. Arguments are checked; `width` is the parities' length.
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

/// The packets that decoding came to, in their order and cut to their lengths, with their indices;
/// `width` is the parities' length.
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

/// `scale` times what the missing packets add to a parity: the parity less the known packets.
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

/// Packet `index`, cut to the length it says it has.
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
