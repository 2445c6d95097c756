//! The experimental options of Spindle (RFC 6994): their identifiers, and what each of them carries.

mod coding;
mod parity;
mod scatter;

pub use coding::CodingOption;
pub use parity::{ParityHeader, ParityOption, ParityOutcome};
pub use scatter::ScatterOption;

use crate::{Experimental, Options, RareOptions, Segment};

/// The identifiers (ExID) of Spindle's experiments. None of them is registered. They are used with
/// [`Experimental::KIND`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ExperimentId {
    /// Parities of TCP Instant Recovery and CoFUSO ([`ParityOption`]).
    Parity = 0x5350,
    /// Packet scatter of MMPTCP ([`ScatterOption`], [`Options::token`]).
    Scatter = 0x5354,
    /// Packet coding of CAPS ([`CodingOption`]).
    Coding = 0x5343,
}

impl ExperimentId {
    /// Every identifier.
    pub const ALL: [Self; 3] = [Self::Parity, Self::Scatter, Self::Coding];

    /// The number on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

impl Experimental {
    /// The kind of all Spindle-specific options: the first of the two kinds for experiments (RFC 4727).
    pub const KIND: u8 = 253;

    /// An option of one of Spindle's experiments.
    pub const fn of(id: ExperimentId, data: Vec<u8>) -> Self {
        Self {
            kind: Self::KIND,
            exid: id.number(),
            data,
        }
    }

    /// Spindle's experiment that the option belongs to. `None` if it belongs to another experiment.
    pub fn id(&self) -> Option<ExperimentId> {
        let ours = |id: &ExperimentId| self.kind == Self::KIND && self.exid == id.number();
        ExperimentId::ALL.into_iter().find(ours)
    }

    /// The option's length field, which covers kind, length, ExID and data.
    pub fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.data.len()
    }

    /// Bytes of kind, length and ExID.
    pub(crate) const HEADER_LEN: usize = 4;
}

/// The length of an experimental option with `data` bytes of data, padded to a multiple of four.
pub(crate) const fn padded_len(data: usize) -> usize {
    (Experimental::HEADER_LEN + data).next_multiple_of(4)
}

impl Options {
    /// The data of the first option of this experiment.
    pub fn experiment(&self, id: ExperimentId) -> Option<&[u8]> {
        let all = &self.rare.as_ref()?.experimental;
        let first = all.iter().find(|e| e.id() == Some(id))?;
        Some(&first.data)
    }

    /// Removes the first option of this experiment and returns its data.
    pub fn take_experiment(&mut self, id: ExperimentId) -> Option<Vec<u8>> {
        let rare = self.rare.as_mut()?;
        let at = rare.experimental.iter().position(|e| e.id() == Some(id))?;
        let data = rare.experimental.remove(at).data;
        self.rare.take_if(|r| **r == RareOptions::default());
        Some(data)
    }

    /// Adds an experimental option behind the others.
    pub fn add_experiment(&mut self, option: Experimental) {
        self.rare_mut().experimental.push(option);
    }
}

impl Segment {
    /// The data of the segment's first option of this experiment.
    pub fn experiment(&self, id: ExperimentId) -> Option<&[u8]> {
        self.options.experiment(id)
    }
}
