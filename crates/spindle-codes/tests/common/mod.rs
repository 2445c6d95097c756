//! Test packets whose bytes, lengths and DSNs are distinctive.

use spindle_codes::{Body, Content, Recovered, Source};

/// `len` bytes without a pattern.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

/// The packets of a block.
#[derive(Clone, Debug)]
pub(crate) struct Packets {
    pub(crate) bytes: Vec<Vec<u8>>,
}

impl Packets {
    /// `count` packets, the i-th of `len(i)` bytes.
    pub(crate) fn new(count: usize, len: impl Fn(usize) -> usize) -> Self {
        Self {
            bytes: (0..count).map(|i| bytes(i as u64, len(i))).collect(),
        }
    }

    /// The DSN of packet `index`. DSNs wrap around 32 bits within the block.
    pub(crate) fn dsn(index: usize) -> u32 {
        (index as u32)
            .wrapping_mul(0x1234_5671)
            .wrapping_sub(0x0abc_def0)
    }

    pub(crate) fn sources(&self) -> Vec<Source<'_>> {
        self.map(Body::Bytes)
    }

    /// The same packets without their bytes.
    pub(crate) fn lengths(&self) -> Vec<Source<'_>> {
        self.map(|b| Body::Length(b.len() as u32))
    }

    fn map<'a>(&'a self, body: impl Fn(&'a [u8]) -> Body<'a>) -> Vec<Source<'a>> {
        let packets = self.bytes.iter().enumerate();
        packets
            .map(|(i, b)| Source {
                dsn: Self::dsn(i),
                body: body(b),
            })
            .collect()
    }

    /// Asserts that exactly the packets `missing` were restored, unchanged.
    pub(crate) fn check(&self, missing: &[usize], recovered: &[Recovered]) {
        let indices: Vec<_> = recovered.iter().map(|r| r.index).collect();
        assert_eq!(indices, missing);
        for packet in recovered {
            assert_eq!(packet.dsn, Self::dsn(packet.index));
            let expected = &self.bytes[packet.index];
            match &packet.content {
                Content::Bytes(found) => assert_eq!(found, expected),
                // All packets of the block are empty, so bytes and a length cannot be distinguished.
                Content::Length(len) => assert_eq!((*len as usize, expected.len()), (0, 0)),
            }
        }
    }
}
