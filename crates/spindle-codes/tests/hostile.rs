//! Arbitrary input that claims to be a block is answered with packets or a typed error, and costs no more than
//! the limits allow.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod common;

use common::{Packets, bytes};
use proptest::prelude::*;
use spindle_codes::{
    Body, CodeError, Content, Contradiction, ErasureCode, Ideal, Label, Ldpc, MAX_SYMBOL_LEN,
    Parity, ReedSolomon, Shape, Source, Symbol, Xor,
};

fn codes() -> [Box<dyn ErasureCode>; 6] {
    [
        Box::new(Ldpc::systematic(1)),
        Box::new(Ldpc::non_systematic(1)),
        Box::new(Ideal::new()),
        Box::new(Xor::new()),
        Box::new(ReedSolomon::new()),
        Box::new(ReedSolomon::new().limited(30, 3)),
    ]
}

fn wild() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0usize..6, 1 => 250usize..260, 1 => 65_530usize..65_540, 1 => Just(usize::MAX)]
}

/// Whether a body has real bytes, and its length.
fn body() -> impl Strategy<Value = (bool, usize)> {
    (
        any::<bool>(),
        prop_oneof![8 => 0usize..5, 1 => 65_534usize..65_538],
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_blocks_return_packets_or_an_error(
        (k, m) in (wild(), wild()),
        sources in prop::collection::vec(prop::option::of(body()), 0..8),
        parities in prop::collection::vec((wild(), any::<u64>(), body()), 0..6),
        at_k in any::<bool>(),
    ) {
        let k = if at_k { sources.len() } else { k };
        let shape = Shape::new(k, m);
        let stock = bytes(3, 66_000);
        let body = |(real, len): (bool, usize)| match real {
            true => Body::Bytes(&stock[..len]),
            false => Body::Length(len as u32),
        };
        let sources: Vec<_> = sources.into_iter().map(|s| s.map(|s| Source { dsn: 5, body: body(s) })).collect();
        let parities: Vec<_> = parities
            .into_iter()
            .map(|(index, label, b)| Parity {
                index,
                label: Label { len: (label >> 32) as u32 & 7, dsn: label as u32 },
                body: body(b),
            })
            .collect();
        let missing = sources.iter().filter(|s| s.is_none()).count();
        for code in codes() {
            let all: Vec<_> = sources.iter().flatten().copied().collect();
            let indices: Vec<_> = parities.iter().map(|p| p.index).collect();
            code.decodable(shape, &indices, &indices);
            if shape.parities < 300 {
                code.encode_unit(shape, &all).ok();
            }
            if let Ok(mut tracker) = code.tracker(shape) {
                for index in &indices {
                    tracker.add_source(*index);
                    tracker.add_parity(*index);
                }
                prop_assert!(tracker.rank() <= k);
            }
            for parity in &parities {
                code.encode(shape, parity.index, &all).ok();
                code.agrees(shape, &all, parity).ok();
            }
            if let Ok(recovered) = code.decode(shape, &sources, &parities) {
                prop_assert_eq!(recovered.len(), missing);
                prop_assert!(code.limits().check(shape).is_ok());
                let width = parities.first().map_or(0, |p| p.body.len());
                for packet in recovered {
                    prop_assert!(packet.content.len() <= width && width <= MAX_SYMBOL_LEN);
                }
            }
        }
    }

    #[test]
    fn damaged_parity_yields_a_packet_of_the_right_length_or_a_padding_error(
        lens in prop::collection::vec(0usize..40, 2..8), at in any::<prop::sample::Index>(),
        flip in 1u8.., lost in any::<prop::sample::Index>(),
    ) {
        let packets = Packets::new(lens.len(), |i| lens[i]);
        let code = ReedSolomon::new();
        let shape = Shape::new(lens.len(), 2);
        let sources = packets.sources();
        let mut made = code.encode(shape, 1, &sources).expect("a block");
        let width = made.content.len();
        let lost = lost.index(lens.len());
        let Content::Bytes(real) = &mut made.content else { return Ok(()) };
        let at = at.index(width);
        real[at] ^= flip;
        let mut arrived: Vec<_> = sources.iter().copied().map(Some).collect();
        arrived[lost] = None;
        let found = code.decode(shape, &arrived, &[made.as_parity(1)]);
        if at >= lens[lost] {
            let padding = Contradiction::Padding { index: lost, len: lens[lost] };
            prop_assert_eq!(found, Err(padding.into()));
        } else {
            prop_assert_eq!(found.expect("looks like a packet")[0].content.len(), lens[lost]);
        }
    }
}

/// A block of three packets and two parities.
struct Block {
    packets: Packets,
    made: [Symbol; 2],
}

const SHAPE: Shape = Shape::new(3, 2);

impl Block {
    fn new() -> Self {
        let packets = Packets::new(3, |i| [10, 30, 20][i]);
        let encode = |row| {
            ReedSolomon::new()
                .encode(SHAPE, row, &packets.sources())
                .expect("a block")
        };
        Self {
            made: [encode(0), encode(1)],
            packets,
        }
    }

    /// The result of decoding when the packets `lost` are missing and these parities arrived.
    fn decode(&self, lost: &[usize], parities: &[Parity<'_>]) -> Result<usize, CodeError> {
        let mut arrived: Vec<_> = self.packets.sources().into_iter().map(Some).collect();
        for lost in lost {
            arrived[*lost] = None;
        }
        let decoded = ReedSolomon::new().decode(SHAPE, &arrived, parities);
        decoded.map(|recovered| recovered.len())
    }
}

#[test]
fn contradictory_symbols_are_refused_with_the_error_that_fits() {
    let block = Block::new();
    let parity = block.made[0].as_parity(0);
    let other = block.made[1].as_parity(1);
    let cut = |parity: Parity<'static>, len| Parity {
        body: Body::Length(len),
        ..parity
    };
    let hollow = |parity: Parity<'_>, len| {
        cut(
            Parity {
                body: Body::Length(0),
                ..parity
            },
            len,
        )
    };
    let told = |lost: &[usize], parities: &[Parity<'_>]| match block.decode(lost, parities) {
        Err(CodeError::Contradiction(contradiction)) => contradiction,
        other => panic!("expected a contradiction, found {other:?}"),
    };

    assert_eq!(
        told(&[0], &[parity, hollow(other, 29)]),
        Contradiction::ParityLength {
            index: 1,
            found: 29,
            expected: 30
        }
    );
    assert_eq!(
        told(&[0], &[hollow(parity, 29)]),
        Contradiction::SourceLength {
            index: 1,
            found: 30,
            width: 29
        }
    );
    let mut long = parity;
    long.label.len ^= 10 ^ 31;
    assert_eq!(
        told(&[0], &[long]),
        Contradiction::DecodedLength {
            index: 0,
            found: 31,
            width: 30
        }
    );
    let mut short = parity;
    short.label.len ^= 10 ^ 4;
    assert_eq!(
        told(&[0], &[short]),
        Contradiction::Padding { index: 0, len: 4 }
    );
    let Body::Bytes(real) = parity.body else {
        panic!("real bytes")
    };
    let longer = [real, &[0]].concat();
    let padded = Parity {
        body: Body::Bytes(&longer),
        ..parity
    };
    assert_eq!(
        told(&[0], &[padded]),
        Contradiction::Width {
            longest: 30,
            width: 31
        }
    );
    assert!(
        block
            .decode(&[0], &[padded])
            .is_err_and(|e| e.is_contradiction())
    );
}

#[test]
fn arguments_out_of_bounds_are_refused_with_the_error_that_fits() {
    let block = Block::new();
    let parity = block.made[0].as_parity(0);
    assert_eq!(block.decode(&[], &[]), Ok(0));
    assert_eq!(block.decode(&[], &[parity]), Ok(0));
    assert_eq!(
        block.decode(&[1, 2], &[parity]),
        Err(CodeError::Undecodable {
            missing: 2,
            parities: 1
        })
    );
    assert_eq!(
        block.decode(&[1], &[parity, parity]),
        Err(CodeError::DuplicateParity { index: 0 })
    );
    assert_eq!(
        block.decode(&[1], &[Parity { index: 2, ..parity }]),
        Err(CodeError::ParityIndex {
            found: 2,
            parities: 2
        })
    );
    assert_eq!(
        block.decode(
            &[1],
            &[Parity {
                body: Body::Length(70_000),
                ..parity
            }]
        ),
        Err(CodeError::TooLong {
            found: 70_000,
            max: MAX_SYMBOL_LEN
        })
    );
    let code = ReedSolomon::new();
    let sources = block.packets.sources();
    assert_eq!(
        code.encode(Shape::new(4, 1), 0, &sources),
        Err(CodeError::SourceCount {
            found: 3,
            expected: 4
        })
    );
    assert_eq!(
        code.encode(Shape::new(3, 1), 1, &sources),
        Err(CodeError::ParityIndex {
            found: 1,
            parities: 1
        })
    );
    let long = [Source {
        dsn: 0,
        body: Body::Length(u32::MAX),
    }];
    assert_eq!(
        code.encode(Shape::new(1, 1), 0, &long),
        Err(CodeError::TooLong {
            found: u32::MAX as usize,
            max: MAX_SYMBOL_LEN
        })
    );
}

#[test]
fn shapes_beyond_the_limits_are_refused() {
    let cases: [(&dyn ErasureCode, Shape, bool); 12] = [
        (&Xor::new(), Shape::new(65_535, 1), true),
        (&Xor::new(), Shape::new(65_536, 1), false),
        (&Xor::new(), Shape::new(2, 2), false),
        (&ReedSolomon::new(), Shape::new(256, 1), true),
        (&ReedSolomon::new(), Shape::new(1, 256), true),
        (&ReedSolomon::new(), Shape::new(256, 2), false),
        (&ReedSolomon::new(), Shape::new(0, 1), false),
        (&ReedSolomon::new(), Shape::new(1, 0), false),
        (&ReedSolomon::new(), Shape::new(usize::MAX, 1), false),
        (&ReedSolomon::new().limited(30, 3), Shape::new(30, 3), true),
        (&ReedSolomon::new().limited(30, 3), Shape::new(31, 3), false),
        (&ReedSolomon::new().limited(30, 3), Shape::new(30, 4), false),
    ];
    for (code, shape, fits) in cases {
        assert_eq!(
            code.limits().check(shape).is_ok(),
            fits,
            "{} {shape:?}",
            code.name()
        );
        assert_eq!(
            code.decodable(shape, &[0], &[0]),
            fits,
            "{} {shape:?}",
            code.name()
        );
    }
    let error = ReedSolomon::new()
        .limited(30, 3)
        .limits()
        .check(Shape::new(31, 9));
    assert_eq!(
        error.expect_err("too many").to_string(),
        "a block of 31 packets and 9 parities; expected 1..=30 packets, 1..=3 parities and at most 33 together"
    );
}
