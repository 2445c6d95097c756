//! The values that are coded: packets of unequal length, each with its length and DSN.
//!
//! A code adds and multiplies *symbols*. A symbol is a [`Label`] of eight bytes (the packet's length and DSN)
//! and a body. Bodies keep their own lengths. Bytes after the end of a body count as zeros, and the label
//! states where a decoded packet ends.
//!
//! **The twin for plain lengths.** [`Body::Length`] stands for that many zero bytes, none of which is stored. A
//! combination of such bodies is again a length, and no byte is touched. The labels are coded as usual. A block
//! of lengths therefore decodes if and only if the block of bytes does. It yields the same lengths and DSNs,
//! and it is refused for the same contradictions. This holds for every code, not only for codes that just count
//! symbols.

use crate::error::CodeError;
use crate::field::WordSum;
use crate::kernel::{BATCH, Kernel};

/// The longest packet that can be coded, in bytes: the largest IP packet (RFC 791, section 3.1).
pub const MAX_SYMBOL_LEN: usize = 65_535;

/// The fields that are coded together with a packet's bytes: its length and DSN, 32 bits each (CoFUSO
/// section 5.1). In a parity both are combinations, which have no meaning until they are decoded.
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

/// The bytes of a packet or parity, or only their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Real bytes.
    Bytes(&'a [u8]),
    /// This many zero bytes, none of which is stored.
    Length(u32),
}

impl Body<'_> {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Length(len) => *len as usize,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Owned bytes, or only their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Real bytes.
    Bytes(Vec<u8>),
    /// This many zero bytes, none of which is stored.
    Length(u32),
}

impl Content {
    /// A borrowed view of the content.
    pub fn as_body(&self) -> Body<'_> {
        match self {
            Self::Bytes(bytes) => Body::Bytes(bytes),
            Self::Length(len) => Body::Length(*len),
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.as_body().len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A packet to protect, or a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// The low 32 bits of the DSN of the packet's first byte.
    pub dsn: u32,
    /// The packet's payload.
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
    /// The index of the parity in its block, from 0 (`P_Index`).
    pub index: usize,
    /// The combination of the packets' lengths and DSNs.
    pub label: Label,
    /// The combination of the packets' bytes, as long as the longest of them.
    pub body: Body<'a>,
}

/// A parity that an encoder made.
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

    /// Adds `factor * other`; `other` must not be longer.
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

/// A packet that a decoder restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The index of the packet in its block, from 0.
    pub index: usize,
    /// The low 32 bits of the DSN of the packet's first byte.
    pub dsn: u32,
    /// The packet's payload.
    pub content: Content,
}

/// A sum of symbols that grows by one symbol at a time.
///
/// The packets need not be kept: each is added when it is sent, and the sum is only as long as the longest
/// packet so far. With all coefficients 1 it is the XOR of the packets (TCP-IR's coded packet, CoFUSO's
/// parity 0).
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
    /// The length of the sum in bytes.
    width: usize,
    /// The first bytes of the sum; the rest is zero. Never longer than `width`.
    bytes: Vec<u8>,
    /// Whether a real byte has been added.
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

    /// Adds `coefficient * source`. If the source is longer than the sum, the sum grows to its length, even
    /// with a coefficient of 0.
    ///
    /// # Errors
    /// [`CodeError::TooLong`] if the source exceeds [`MAX_SYMBOL_LEN`]; the sum does not change in that case.
    pub fn add(&mut self, coefficient: u8, source: &Source<'_>) -> Result<(), CodeError> {
        check_len(source.body.len())?;
        self.add_term(coefficient, source.label(), source.body);
        Ok(())
    }

    /// The length of the sum in bytes, which is that of the longest source.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the sum. Its content is a plain length if only lengths were added.
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

    /// Makes room for `len` real bytes.
    fn make_room(&mut self, len: usize) {
        self.real = true;
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
    }

    /// Adds all terms with the same result as one by one, but several in each pass over the sum.
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

/// A symbol and its coefficient.
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

/// The sum of all terms with length `width`, which no term exceeds. If `real` is set, the result consists of
/// bytes even if no term does.
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

/// Whether the body has bytes that are not known to be zero.
pub(crate) fn is_real(body: Body<'_>) -> bool {
    real_bytes(body).is_some()
}

/// The bytes of the body, unless all of them are known to be zero.
fn real_bytes<'a>(body: Body<'a>) -> Option<&'a [u8]> {
    match body {
        Body::Bytes(bytes) if !bytes.is_empty() => Some(bytes),
        Body::Bytes(_) | Body::Length(_) => None,
    }
}

/// Returns an error for a length above that of any packet.
pub(crate) fn check_len(len: usize) -> Result<(), CodeError> {
    if len > MAX_SYMBOL_LEN {
        return Err(CodeError::TooLong {
            found: len,
            max: MAX_SYMBOL_LEN,
        });
    }
    Ok(())
}
