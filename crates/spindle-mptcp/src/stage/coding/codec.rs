//! The code of a unit, and how it turns segments into packets and back.

use std::str::FromStr;

use bytes::Bytes;
use spindle_codes::{
    Body, CodeError, Content, ErasureCode, Ideal, Label, Ldpc, Parity, ReedSolomon, Shape, Source,
    Tracker,
};
use spindle_wire::Payload;

use super::{MAX_PACKETS, MAX_SOURCES};

/// Codes that two ends may agree on. The number identifies the code in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CodeKind {
    /// LDPC over packets. No encoded packet is a segment as it is (CAPS section IV).
    #[default]
    Ldpc = 0,
    /// LDPC; the first k encoded packets are the segments.
    LdpcSystematic = 1,
    /// Reed-Solomon, not systematic either.
    ReedSolomon = 2,
    /// Reed-Solomon, systematic.
    ReedSolomonSystematic = 3,
    /// An ideal code for the lab, as the papers assume it: any k packets are enough, whatever the cost
    /// (mechanisms A4.5). Real bytes are coded by Reed-Solomon.
    Ideal = 4,
}

impl CodeKind {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("ldpc", Self::Ldpc),
        ("ldpc-systematic", Self::LdpcSystematic),
        ("rs", Self::ReedSolomon),
        ("rs-systematic", Self::ReedSolomonSystematic),
        ("ideal", Self::Ideal),
    ];

    /// The code with this number in a handshake.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        let mut all = Self::ALL.into_iter().map(|(_, kind)| kind);
        all.find(|kind| *kind as u8 == number)
    }

    /// Whether the first k packets of a unit are its segments.
    pub const fn is_systematic(self) -> bool {
        matches!(self, Self::LdpcSystematic | Self::ReedSolomonSystematic)
    }
}

impl FromStr for CodeKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, kind)| kind).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            format!("found code \"{text}\", want one of {names}")
        })
    }
}

/// An encoded packet that arrived: its index, the coded length, and the symbol.
pub(super) type Arrived = (u8, u16, Bytes);

/// A code as units use it.
#[derive(Debug)]
pub(super) struct UnitCode {
    code: Box<dyn ErasureCode>,
    systematic: bool,
}

impl UnitCode {
    pub(super) fn new(kind: CodeKind) -> Self {
        let code: Box<dyn ErasureCode> = match kind {
            CodeKind::Ldpc => Box::new(Ldpc::non_systematic(Ldpc::SEED)),
            CodeKind::LdpcSystematic => Box::new(Ldpc::systematic(Ldpc::SEED)),
            CodeKind::ReedSolomonSystematic => Box::new(ReedSolomon::new()),
            CodeKind::ReedSolomon | CodeKind::Ideal => Box::new(Ideal::new()),
        };
        Self {
            code,
            systematic: kind.is_systematic(),
        }
    }

    /// Whether the first packets of a unit are its segments.
    pub(super) fn is_systematic(&self) -> bool {
        self.systematic
    }

    /// Most segments of a unit.
    pub(super) fn max_sources(&self) -> usize {
        self.code.limits().max_sources.min(MAX_SOURCES)
    }

    /// Whether units of `k` segments and `n` packets are within its limits.
    pub(super) fn takes(&self, k: usize, n: usize) -> bool {
        let known = (1..=self.max_sources()).contains(&k) && (k..=MAX_PACKETS).contains(&n);
        known
            && self
                .shape(k, n)
                .is_none_or(|shape| self.code.limits().check(shape).is_ok())
    }

    /// The unit's shape as the code sees it, or `None` if its packets are all segments as they are.
    fn shape(&self, k: usize, n: usize) -> Option<Shape> {
        match self.systematic {
            true => (n > k).then(|| Shape::new(k, n - k)),
            false => Some(Shape::new(k, n)),
        }
    }

    /// The `n` packets of the unit with the segments `sources`, each with its coded length and its symbol.
    /// There are none if the code has no such unit.
    pub(super) fn encode(&self, sources: &[Source<'_>], n: usize) -> Vec<(u16, Payload)> {
        let mut packets = Vec::with_capacity(n);
        if self.systematic {
            packets.extend(sources.iter().map(|s| (s.body.len() as u16, owned(s.body))));
        }
        let Some(shape) = self.shape(sources.len(), n) else {
            return packets;
        };
        let Ok(symbols) = self.code.encode_unit(shape, sources) else {
            return Vec::new();
        };
        let coded = symbols.into_iter();
        packets.extend(coded.map(|s| (s.label.len as u16, payload(s.content))));
        packets
    }

    /// Tracks which packets of a unit have arrived; `None` if its packets are all segments as they are.
    pub(super) fn tracker(&self, k: usize, n: usize) -> Option<Tracker> {
        self.code.tracker(self.shape(k, n)?).ok()
    }

    /// Packet `index` of a unit of `k` segments has arrived. Returns whether the `arrived` packets so far are
    /// enough.
    pub(super) fn suffice(
        &self,
        tracker: Option<&mut Tracker>,
        k: usize,
        index: usize,
        arrived: usize,
    ) -> bool {
        let Some(tracker) = tracker else {
            return arrived >= k;
        };
        match self.systematic {
            true if index < k => tracker.add_source(index),
            true => tracker.add_parity(index - k),
            false => tracker.add_parity(index),
        };
        tracker.is_complete()
    }

    /// The unit's segments as bytes, in their order.
    ///
    /// # Errors
    /// Those of [`ErasureCode::decode`].
    pub(super) fn decode(
        &self,
        (k, n): (usize, usize),
        arrived: &[Arrived],
    ) -> Result<Vec<Bytes>, CodeError> {
        let mut sources: Vec<Option<Bytes>> = vec![None; k];
        let mut parities = Vec::new();
        for (index, len, symbol) in arrived {
            match usize::from(*index) {
                i if self.systematic && i < k => sources[i] = Some(symbol.clone()),
                i => parities.push(Parity {
                    index: if self.systematic { i - k } else { i },
                    label: Label {
                        len: u32::from(*len),
                        dsn: 0,
                    },
                    body: Body::Bytes(symbol),
                }),
            }
        }
        if let Some(shape) = self.shape(k, n) {
            let known: Vec<_> = sources.iter().map(|s| s.as_ref().map(source)).collect();
            for packet in self.code.decode(shape, &known, &parities)? {
                if let Content::Bytes(bytes) = packet.content {
                    sources[packet.index] = Some(bytes.into());
                }
            }
        }
        let missing = sources.iter().filter(|s| s.is_none()).count();
        let all: Option<Vec<Bytes>> = sources.into_iter().collect();
        all.ok_or(CodeError::Undecodable {
            missing,
            parities: parities.len(),
        })
    }
}

fn source(bytes: &Bytes) -> Source<'_> {
    Source {
        dsn: 0,
        body: Body::Bytes(bytes),
    }
}

fn owned(body: Body<'_>) -> Payload {
    match body {
        Body::Bytes(bytes) => Payload::Bytes(Bytes::copy_from_slice(bytes)),
        Body::Length(len) => Payload::Length(len),
    }
}

fn payload(content: Content) -> Payload {
    match content {
        Content::Bytes(bytes) => Payload::from(bytes),
        Content::Length(len) => Payload::Length(len),
    }
}
