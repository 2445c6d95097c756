//! What is coded: packets of unequal length, each with its length and DSN.
//!
//! A code adds and multiplies *symbols*. A symbol is a [`Label`] of eight bytes (the packet's length
//! and DSN) and a body. Bodies are as long as they are; what is beyond an end counts as zeros, and
//! the label tells where a decoded packet ends.
//!
//! **The twin for mere lengths.** [`Body::Length`] stands for that many zero bytes of which none is
//! stored. A combination of such bodies is again a length, and no byte is touched; the labels are
//! coded all the same. A block of lengths thus decodes if and only if the block of bytes does,
//! yields the same lengths and DSNs, and is refused for the same contradictions - for any code, not
//! only for those where counting symbols is enough.

use crate::error::CodeError;
use crate::field::WordSum;
use crate::kernel::{BATCH, Kernel};

/// The longest packet that can be coded, in bytes: what an IP packet may be (RFC 791, section 3.1).
pub const MAX_SYMBOL_LEN: usize = 65_535;

/// What is coded along with a packet's bytes: 32 bits each of its length and DSN (CoFUSO section 5.1).
/// In a parity both are combinations, and mean nothing until decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label {
    /// A packet's length in bytes; in a parity `L_CODED`.
    pub len: u32,
    /// The low 32 bits of a packet's DSN; in a parity `D_SN`.
    pub dsn: u32,
}

impl Label {
    fn to_word(self) -> u64 {
        u64::from(self.len) << 32 | u64::from(self.dsn)
    }

    fn from_word(word: u64) -> Self {
        Self {
            len: (word >> 32) as u32,
            dsn: word as u32,
        }
    }
}

/// A packet's or parity's bytes, or only how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Real bytes.
    Bytes(&'a [u8]),
    /// This many bytes, all zero, none of them stored.
    Length(u32),
}

impl Body<'_> {
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Length(len) => *len as usize,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes of one's own, or only how many they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Real bytes.
    Bytes(Vec<u8>),
    /// This many bytes, all zero, none of them stored.
    Length(u32),
}

impl Content {
    /// A view of it.
    pub fn as_body(&self) -> Body<'_> {
        match self {
            Self::Bytes(bytes) => Body::Bytes(bytes),
            Self::Length(len) => Body::Length(*len),
        }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.as_body().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A packet to be protected, or one that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// The low 32 bits of the DSN of its first byte.
    pub dsn: u32,
    /// Its payload.
    pub body: Body<'a>,
}

impl Source<'_> {
    pub(crate) fn label(&self) -> Label {
        Label {
            len: self.body.len() as u32,
            dsn: self.dsn,
        }
    }
}

/// A parity that arrived, with its index in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity<'a> {
    /// Which parity of its block it is, from 0 on (`P_Index`).
    pub index: usize,
    /// The combination of the packets' lengths and DSNs.
    pub label: Label,
    /// The combination of the packets' bytes, as long as the longest of them.
    pub body: Body<'a>,
}

/// A parity made by an encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The combination of the packets' lengths and DSNs.
    pub label: Label,
    /// The combination of the packets' bytes, as long as the longest of them.
    pub content: Content,
}

impl Symbol {
    /// The symbol as parity `index` of its block.
    pub fn as_parity(&self, index: usize) -> Parity<'_> {
        Parity {
            index,
            label: self.label,
            body: self.content.as_body(),
        }
    }

    /// Adds `factor * other`, which is not longer.
    pub(crate) fn add(&mut self, kernel: Kernel, factor: u8, other: &Self) {
        let mut words = WordSum::default();
        words.add(1, self.label.to_word());
        words.add(factor, other.label.to_word());
        self.label = Label::from_word(words.total());
        if let Content::Bytes(from) = &other.content {
            if let Content::Length(len) = self.content {
                self.content = Content::Bytes(vec![0; len as usize]);
            }
            if let Content::Bytes(to) = &mut self.content {
                kernel.mul_add(factor, from, to);
            }
        }
    }
}

/// A packet that a decoder gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Which packet of its block it is, from 0 on.
    pub index: usize,
    /// The low 32 bits of the DSN of its first byte.
    pub dsn: u32,
    /// Its payload.
    pub content: Content,
}

/// A sum of symbols that grows by one at a time.
///
/// Packets need not be kept for it: each is added as it passes, and the sum holds no more than the
/// longest packet so far. With all coefficients 1 it is the XOR of the packets (TCP-IR's coded
/// packet, CoFUSO's parity 0).
///
/// ```
/// use spindle_codes::{Body, Combination, Content, Kernel, Source};
///
/// let mut sum = Combination::new(Kernel::best());
/// sum.add(1, &Source { dsn: 100, body: Body::Bytes(b"ab") })?;
/// sum.add(1, &Source { dsn: 102, body: Body::Bytes(b"\0\0c") })?;
/// let parity = sum.finish();
/// assert_eq!(parity.content, Content::Bytes(b"abc".to_vec()));
/// assert_eq!((parity.label.len, parity.label.dsn), (2 ^ 3, 100 ^ 102));
/// # Ok::<(), spindle_codes::CodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Combination {
    kernel: Kernel,
    label: WordSum,
    /// How long the sum is, in bytes.
    width: usize,
    /// Its first bytes; those beyond are zero. Never longer than `width`.
    bytes: Vec<u8>,
    /// Whether a real byte was among what was added.
    real: bool,
}

impl Combination {
    /// An empty sum: label zero, no bytes.
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            label: WordSum::default(),
            width: 0,
            bytes: Vec::new(),
            real: false,
        }
    }

    /// Adds `coefficient * source`. The sum becomes as long as the source if that is longer, also
    /// with a coefficient of 0.
    ///
    /// # Errors
    /// [`CodeError::TooLong`] if the source exceeds [`MAX_SYMBOL_LEN`]; the sum is unchanged.
    pub fn add(&mut self, coefficient: u8, source: &Source<'_>) -> Result<(), CodeError> {
        check_len(source.body.len())?;
        self.add_term(coefficient, source.label(), source.body);
        Ok(())
    }

    /// How long the sum is: the longest of what was added, in bytes.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The sum. Its content is a mere length if all that was added were lengths.
    pub fn finish(mut self) -> Symbol {
        let content = if self.real {
            self.bytes.resize(self.width, 0);
            Content::Bytes(self.bytes)
        } else {
            Content::Length(self.width as u32)
        };
        Symbol {
            label: Label::from_word(self.label.total()),
            content,
        }
    }

    fn add_term(&mut self, coefficient: u8, label: Label, body: Body<'_>) {
        self.label.add(coefficient, label.to_word());
        self.width = self.width.max(body.len());
        if let Some(bytes) = real_bytes(body) {
            self.make_room(bytes.len());
            self.kernel.mul_add(coefficient, bytes, &mut self.bytes);
        }
    }

    /// Sees to it that `len` real bytes can be added.
    fn make_room(&mut self, len: usize) {
        self.real = true;
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
    }

    /// Adds all terms, as if one by one, but several in each pass over the sum.
    fn add_terms(&mut self, terms: &[Term<'_>]) {
        let (whole, rest) = terms.as_chunks::<BATCH>();
        for batch in whole {
            self.add_batch(batch);
        }
        match rest {
            [a, b, c] => self.add_batch(&[*a, *b, *c]),
            [a, b] => self.add_batch(&[*a, *b]),
            few => few.iter().for_each(|t| self.add_batch(&[*t])),
        }
    }

    fn add_batch<const N: usize>(&mut self, batch: &[Term<'_>; N]) {
        let words = batch.map(|t| (t.coefficient, t.label.to_word()));
        self.kernel.add_words(&words, &mut self.label);
        let mut longest = 0;
        let bytes = batch.map(|t| {
            self.width = self.width.max(t.body.len());
            let real = real_bytes(t.body).unwrap_or_default();
            longest = longest.max(real.len());
            (t.coefficient, real)
        });
        if longest > 0 {
            self.make_room(longest);
            self.kernel.mul_add_batch(bytes, &mut self.bytes);
        }
    }
}

/// A symbol and what it is multiplied by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term<'a> {
    pub(crate) coefficient: u8,
    pub(crate) label: Label,
    pub(crate) body: Body<'a>,
}

/// The sum of all terms, none of which is longer than [`MAX_SYMBOL_LEN`].
pub(crate) fn combine(kernel: Kernel, terms: &[Term<'_>]) -> Symbol {
    let mut sum = Combination::new(kernel);
    sum.add_terms(terms);
    sum.finish()
}

/// The sum of all terms, as long as `width`, which no term exceeds; of bytes also where no term
/// is, if `real`.
pub(crate) fn combine_within(
    kernel: Kernel,
    terms: &[Term<'_>],
    width: usize,
    real: bool,
) -> Symbol {
    let mut sum = Combination::new(kernel);
    sum.width = width;
    sum.real = real;
    sum.add_terms(terms);
    sum.finish()
}

/// Whether there are bytes that are not known to be zero.
pub(crate) fn is_real(body: Body<'_>) -> bool {
    real_bytes(body).is_some()
}

/// The bytes of a body that are not known to be zero.
fn real_bytes<'a>(body: Body<'a>) -> Option<&'a [u8]> {
    match body {
        Body::Bytes(bytes) if !bytes.is_empty() => Some(bytes),
        Body::Bytes(_) | Body::Length(_) => None,
    }
}

/// Refuses what is longer than any packet.
pub(crate) fn check_len(len: usize) -> Result<(), CodeError> {
    if len > MAX_SYMBOL_LEN {
        return Err(CodeError::TooLong {
            found: len,
            max: MAX_SYMBOL_LEN,
        });
    }
    Ok(())
}
