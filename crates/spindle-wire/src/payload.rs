//! [`Payload`]: real bytes, or only their number.

use bytes::Bytes;

/// The data of a segment. Both kinds are processed alike by the whole stack. A [`Payload::Length`] stands for
/// that many zero bytes, so that a simulation does not have to move any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Real bytes, which are cheap to clone and to slice.
    Bytes(Bytes),
    /// This many zero bytes, none of which is stored.
    Length(u32),
}

impl Payload {
    /// No bytes.
    pub const EMPTY: Self = Self::Length(0);

    /// The number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(b) => b.len(),
            Self::Length(n) => *n as usize,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `len` bytes from `start` on.
    ///
    /// # Panics
    /// If `start + len` is beyond the payload's length.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        assert!(
            start + len <= self.len(),
            "slice {start}+{len} of a payload of {} bytes",
            self.len()
        );
        match self {
            Self::Bytes(b) => Self::Bytes(b.slice(start..start + len)),
            Self::Length(_) => Self::Length(len as u32),
        }
    }

    /// The bytes; a [`Payload::Length`] becomes that many real zeros.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Bytes(b) => b.clone(),
            Self::Length(n) => vec![0; *n as usize].into(),
        }
    }

    /// Appends the bytes to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(b) => out.extend_from_slice(b),
            Self::Length(n) => out.resize(out.len() + *n as usize, 0),
        }
    }
}

impl From<Bytes> for Payload {
    fn from(b: Bytes) -> Self {
        Self::Bytes(b)
    }
}

impl From<Vec<u8>> for Payload {
    fn from(b: Vec<u8>) -> Self {
        Self::Bytes(b.into())
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::EMPTY
    }
}
