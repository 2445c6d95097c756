//! The binary code: its decoder compared with the general one, its rows, and the losses that its units survive.

mod common;

use common::Packets;
use proptest::prelude::*;
use spindle_codes::{
    Body, CodeError, Content, ErasureCode, Ideal, Kernel, Ldpc, Limits, Parity, Recovered,
    ReedSolomon, Shape, Source, Symbol, Tracker, Xor,
};

/// A code with only the coefficients of another; everything else is the trait's default.
#[derive(Debug)]
struct Plain<'a>(&'a dyn ErasureCode);

impl ErasureCode for Plain<'_> {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn kernel(&self) -> Kernel {
        self.0.kernel()
    }

    fn coefficient(&self, shape: Shape, parity: usize, source: usize) -> u8 {
        self.0.coefficient(shape, parity, source)
    }
}

/// Replaces plain lengths by zeros, which are equivalent. Which form a result has depends on what was added.
fn bytes_of(recovered: Result<Vec<Recovered>, CodeError>) -> Result<Vec<Recovered>, CodeError> {
    let mut recovered = recovered?;
    for packet in &mut recovered {
        if let Content::Length(len) = packet.content {
            packet.content = Content::Bytes(vec![0; len as usize]);
        }
    }
    Ok(recovered)
}

/// What happened to the symbols in transit.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Label(usize, u32),
    Byte(usize, usize),
    Width(usize, usize),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => Just(Fault::None),
        1 => (0usize..99, 1u32..200).prop_map(|(at, flip)| Fault::Label(at, flip)),
        1 => (0usize..99, 0usize..99).prop_map(|(at, byte)| Fault::Byte(at, byte)),
        1 => (0usize..99, 0usize..99).prop_map(|(at, width)| Fault::Width(at, width)),
    ]
}

fn damage(made: &mut [Symbol], fault: Fault) {
    let count = made.len();
    match fault {
        Fault::None => {}
        Fault::Label(at, flip) => made[at % count].label.len ^= flip,
        Fault::Byte(at, byte) => {
            if let Content::Bytes(bytes) = &mut made[at % count].content {
                let len = bytes.len();
                bytes[byte % len] ^= 1;
            }
        }
        Fault::Width(at, width) => match &mut made[at % count].content {
            Content::Bytes(bytes) => bytes.resize(width, 0),
            Content::Length(len) => *len = width as u32,
        },
    }
}

/// A unit, its lost packets, and its parities in the order of arrival.
#[derive(Clone, Debug)]
struct Unit {
    code: Ldpc,
    shape: Shape,
    packets: Packets,
    missing: Vec<usize>,
    parities: Vec<usize>,
}

impl Unit {
    fn arrived<'a>(&self, sources: &[Source<'a>]) -> Vec<Option<Source<'a>>> {
        let mut arrived: Vec<_> = sources.iter().copied().map(Some).collect();
        self.missing.iter().for_each(|lost| arrived[*lost] = None);
        arrived
    }

    fn come<'a>(&self, made: &'a [Symbol]) -> Vec<Parity<'a>> {
        self.parities
            .iter()
            .map(|i| made[*i].as_parity(*i))
            .collect()
    }
}

fn unit(max: usize) -> impl Strategy<Value = Unit> {
    (1..=max, 0usize..40, any::<bool>(), 0u64..4)
        .prop_flat_map(|(k, r, systematic, seed)| {
            let (code, m, share) = if systematic {
                (Ldpc::systematic(seed), r + 1, 3 * (r + 1) / k)
            } else {
                (Ldpc::non_systematic(seed), k + r, 8)
            };
            let lens = prop::collection::vec(prop_oneof![0usize..9, 0usize..80], k);
            let lost = prop::collection::vec((0usize..8).prop_map(move |x| x < share), k);
            let order = Just((0..m).collect::<Vec<_>>()).prop_shuffle();
            (Just((code, k, m)), lens, lost, order, 0..=(r + 2).min(m))
        })
        .prop_map(|((code, k, m), lens, lost, mut order, gone)| {
            order.truncate(m - gone);
            Unit {
                code,
                shape: Shape::new(k, m),
                packets: Packets::new(k, |i| lens[i]),
                missing: (0..k).filter(|i| lost[*i]).collect(),
                parities: order,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn ldpc_decodes_like_general_elimination(
        unit in unit(40), fault in fault(), swap in any::<prop::sample::Index>(), mixed in any::<u64>(),
    ) {
        let plain = Plain(&unit.code);
        let mut sources = unit.packets.sources();
        let lengths = unit.packets.lengths();
        // Only bytes, only lengths, or a mix.
        for (i, source) in sources.iter_mut().enumerate() {
            if mixed % 3 == 1 || (mixed % 3 == 2 && mixed >> (i % 60) & 1 == 0) {
                *source = lengths[i];
            }
        }
        let mut made = unit.code.encode_unit(unit.shape, &sources).expect("a unit");
        prop_assert_eq!(&made, &plain.encode_unit(unit.shape, &sources).expect("a unit"));
        let one = swap.index(made.len());
        let alone = unit.code.encode(unit.shape, one, &sources);
        prop_assert_eq!(Ok(&made[one]), alone.as_ref());
        if !made[0].content.is_empty() {
            damage(&mut made, fault);
        }
        let (arrived, come) = (unit.arrived(&sources), unit.come(&made));
        let expected = plain.decode(unit.shape, &arrived, &come);
        let found = unit.code.decode(unit.shape, &arrived, &come);
        if mixed % 3 == 2 {
            prop_assert_eq!(bytes_of(found), bytes_of(expected));
        } else {
            prop_assert_eq!(&found, &expected);
        }
        let tells = unit.code.decodable(unit.shape, &unit.missing, &unit.parities);
        prop_assert_eq!(tells, plain.decodable(unit.shape, &unit.missing, &unit.parities));
    }

    #[test]
    fn unit_is_decoded_exactly_when_its_rank_is_full(unit in unit(128)) {
        let sources = unit.packets.sources();
        let made = unit.code.encode_unit(unit.shape, &sources).expect("a unit");
        let tells = unit.code.decodable(unit.shape, &unit.missing, &unit.parities);
        match unit.code.decode(unit.shape, &unit.arrived(&sources), &unit.come(&made)) {
            Ok(recovered) => {
                prop_assert!(tells);
                unit.packets.check(&unit.missing, &recovered);
            }
            Err(error) => {
                prop_assert!(!tells);
                let (missing, parities) = (unit.missing.len(), unit.parities.len());
                prop_assert_eq!(error, CodeError::Undecodable { missing, parities });
            }
        }
        // The twin: the same number of bytes, none of them stored.
        let lengths = unit.packets.lengths();
        let made = unit.code.encode_unit(unit.shape, &lengths).expect("a unit");
        let found = unit.code.decode(unit.shape, &unit.arrived(&lengths), &unit.come(&made));
        prop_assert_eq!(found.is_ok(), tells);
        for packet in found.into_iter().flatten() {
            let len = unit.packets.bytes[packet.index].len();
            prop_assert_eq!(packet.dsn, Packets::dsn(packet.index));
            prop_assert_eq!(packet.content, Content::Length(len as u32));
        }
    }

    #[test]
    fn tracker_is_complete_exactly_when_the_unit_is_decodable(unit in unit(30), turn in any::<u64>()) {
        let (code, shape) = (&unit.code, unit.shape);
        let mut fast = code.tracker(shape).expect("a unit");
        let mut plain = Plain(code).tracker(shape).expect("a unit");
        let mut missing: Vec<usize> = (0..shape.sources).collect();
        let mut parities = Vec::new();
        let mut known = (0..shape.sources).filter(|i| !unit.missing.contains(i));
        let mut coming = unit.parities.iter().copied();
        for step in 0.. {
            let (new, same) = match (turn >> (step % 64) & 1, known.next(), coming.next()) {
                (0, Some(source), _) | (_, Some(source), None) => {
                    missing.retain(|m| *m != source);
                    (fast.add_source(source), plain.add_source(source))
                }
                (_, _, Some(parity)) => {
                    parities.push(parity);
                    (fast.add_parity(parity), plain.add_parity(parity))
                }
                (_, None, None) => break,
            };
            prop_assert_eq!(new, same);
            prop_assert_eq!(fast.rank(), plain.rank());
            prop_assert_eq!(fast.is_complete(), code.decodable(shape, &missing, &parities));
        }
        prop_assert!(!fast.add_source(shape.sources) && !fast.add_parity(shape.parities));
    }

    #[test]
    fn counting_tracker_equals_the_rank_for_mds_codes(
        k in 1usize..14, m in 1usize..8, order in Just((0usize..21).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let reed_solomon: (&dyn ErasureCode, Shape) = (&ReedSolomon::new(), Shape::new(k, m));
        let units: (&dyn ErasureCode, Shape) = (&ReedSolomon::new(), Shape::new(k, k + m));
        let xor: (&dyn ErasureCode, Shape) = (&Xor::new(), Shape::new(k, 1));
        for (code, shape) in [reed_solomon, units, xor] {
            let mut counts = code.tracker(shape).expect("a block");
            let mut plain = Plain(code).tracker(shape).expect("a block");
            for symbol in &order {
                let add = |tracker: &mut Tracker| match symbol.checked_sub(k) {
                    None => tracker.add_source(*symbol),
                    Some(parity) => tracker.add_parity(parity),
                };
                prop_assert_eq!(add(&mut counts), add(&mut plain));
                prop_assert_eq!(counts.is_complete(), plain.is_complete());
            }
        }
    }
}

fn both() -> [Ldpc; 2] {
    [
        Ldpc::systematic(Ldpc::SEED),
        Ldpc::non_systematic(Ldpc::SEED),
    ]
}

/// The packets whose XOR a parity is.
fn row(code: &Ldpc, shape: Shape, parity: usize) -> u128 {
    (0..shape.sources)
        .filter(|source| code.coefficient(shape, parity, *source) != 0)
        .fold(0, |set, source| set | 1 << source)
}

#[test]
fn ldpc_rows_have_the_recorded_values() {
    let [systematic, other] = both();
    let rows = |code: &Ldpc, k, m| -> Vec<u128> {
        let shape = Shape::new(k, m);
        (0..m).map(|parity| row(code, shape, parity)).collect()
    };
    let fold = |rows: Vec<u128>| {
        rows.iter().fold(0u64, |sum, row| {
            let folded = (row >> 64) as u64 ^ *row as u64;
            (sum.rotate_left(9) ^ folded).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    };
    assert_eq!(rows(&systematic, 8, 4), [61, 151, 251, 79]);
    assert_eq!(rows(&other, 5, 7), [3, 6, 12, 24, 7, 14, 26]);
    let large = [(16, 16), (40, 60), (60, 40), (128, 127)];
    assert_eq!(
        large.map(|(k, m)| fold(rows(&systematic, k, m))),
        [
            0x0011_ba1b_5bbe_0ded,
            0xcd7f_bbb0_bd57_7420,
            0x5c78_81fe_8e1e_5524,
            0xb84a_d7e7_6abc_2bb0
        ]
    );
}

#[test]
fn every_loss_of_small_units_is_repaired_if_the_rank_is_full() {
    for code in both() {
        for k in 1..=8 {
            for r in 1..=4 {
                let m = if code.is_systematic() { r } else { k + r };
                every_loss(&code, Shape::new(k, m));
            }
        }
    }
}

/// Loses every set of sent symbols. The rank of the rows that arrived determines whether the unit must be
/// decoded.
fn every_loss(code: &Ldpc, shape: Shape) {
    let Shape {
        sources: k,
        parities: m,
    } = shape;
    let packets = Packets::new(k, |i| (i * 37 + 11) % 50);
    let sources = packets.sources();
    let made = code.encode_unit(shape, &sources).expect("a unit");
    let rows: Vec<u128> = (0..m).map(|i| row(code, shape, i)).collect();
    let sent = if code.is_systematic() { k } else { 0 };
    for lost in 0u32..1 << (sent + m) {
        let come = |i: usize| lost >> i & 1 == 0;
        let arrived: Vec<_> = (0..k)
            .map(|i| (i < sent && come(i)).then_some(sources[i]))
            .collect();
        let missing: Vec<_> = (0..k).filter(|i| arrived[*i].is_none()).collect();
        let unknowns = missing.iter().fold(0u128, |set, i| set | 1 << i);
        let have: Vec<_> = (0..m).filter(|i| come(sent + i)).collect();
        let mut rank = 0;
        let mut left: Vec<u128> = have.iter().map(|i| rows[*i] & unknowns).collect();
        while let Some(row) = left.pop() {
            rank += usize::from(row != 0);
            let low = row & row.wrapping_neg();
            left.iter_mut()
                .filter(|other| **other & low != 0)
                .for_each(|other| *other ^= row);
        }
        let parities: Vec<_> = have.iter().map(|i| made[*i].as_parity(*i)).collect();
        let found = code.decode(shape, &arrived, &parities);
        assert_eq!(
            found.is_ok(),
            rank == missing.len(),
            "{code:?} {shape:?} {lost:b}"
        );
        if let Ok(recovered) = found {
            packets.check(&missing, &recovered);
        }
    }
}

#[test]
fn first_k_symbols_decode_and_any_single_loss_is_repaired() {
    for code in both() {
        for (k, r) in (1..=128).flat_map(|k| [1, 2, 3, k / 2, k, 255 - k].map(|r| (k, r))) {
            let r = r.clamp(1, 255 - k);
            let first = if code.is_systematic() { k } else { 0 };
            let shape = Shape::new(k, k + r - first);
            let complete = |lost: Option<usize>, sent: usize| {
                let mut tracker = code.tracker(shape).expect("a unit");
                for symbol in (0..sent).filter(|symbol| Some(*symbol) != lost) {
                    match symbol.checked_sub(first) {
                        None => tracker.add_source(symbol),
                        Some(parity) => tracker.add_parity(parity),
                    };
                }
                tracker.is_complete()
            };
            assert!(complete(None, k), "{code:?} {shape:?}");
            let lost = if k < 12 {
                (0..k + r).collect()
            } else {
                vec![0, k / 2, k - 1, k, k + r - 1]
            };
            for lost in lost {
                assert!(
                    complete(Some(lost), k + r),
                    "{code:?} {shape:?} less {lost}"
                );
            }
        }
    }
}

#[test]
fn any_two_losses_are_repaired_if_all_vectors_can_differ() {
    let code = Ldpc::systematic(Ldpc::SEED);
    for (k, r) in (1..=64usize).flat_map(|k| (1..=k.min(24)).map(move |r| (k, r))) {
        if k + r > 1 << (r - 1) {
            continue;
        }
        // The vectors of the parities have a single one.
        let shape = Shape::new(k, r);
        let rows: Vec<u128> = (0..r).map(|i| row(&code, shape, i)).collect();
        let columns: std::collections::BTreeSet<u128> = (0..k)
            .map(|j| (0..r).fold(0, |column, i| column | (rows[i] >> j & 1) << i))
            .collect();
        assert_eq!(columns.len(), k, "{shape:?}");
        assert!(columns.iter().all(|c| c.count_ones() > 1), "{shape:?}");
    }
}

#[test]
fn no_encoded_packet_is_a_plain_packet_if_enough_sums_exist() {
    let code = Ldpc::non_systematic(Ldpc::SEED);
    for k in 5..=128 {
        for r in (0..=k.min(255 - k)).filter(|r| k <= 20 || (r + k) % 13 == 0) {
            let shape = Shape::new(k, k + r);
            let alone = (0..k + r).any(|i| row(&code, shape, i).count_ones() < 2);
            assert!(!alone, "{shape:?}");
        }
    }
    // One packet gives copies. Two and three packets give all their sums before any sum occurs twice.
    assert!((0..9).all(|i| row(&code, Shape::new(1, 9), i) == 1));
    for (k, n) in [(2, 3), (3, 7)] {
        let rows: std::collections::BTreeSet<_> =
            (0..n).map(|i| row(&code, Shape::new(k, n), i)).collect();
        assert_eq!(rows.len(), n, "{rows:?}");
    }
}

#[test]
fn shapes_are_accepted_exactly_within_the_limits_of_each_form() {
    let [systematic, other] = both();
    let cases = [
        (&systematic, Shape::new(128, 127), true),
        (&systematic, Shape::new(1, 254), true),
        (&systematic, Shape::new(128, 128), false),
        (&systematic, Shape::new(129, 1), false),
        (&other, Shape::new(128, 255), true),
        (&other, Shape::new(128, 256), false),
        (&other, Shape::new(128, 1), true),
        (&other, Shape::new(0, 9), false),
    ];
    for (code, shape, fits) in cases {
        assert_eq!(
            code.limits().check(shape).is_ok(),
            fits,
            "{code:?} {shape:?}"
        );
        assert_eq!(code.tracker(shape).is_ok(), fits);
        let sources = vec![
            Source {
                dsn: 1,
                body: Body::Length(9)
            };
            shape.sources
        ];
        assert_eq!(code.encode_unit(shape, &sources).is_ok(), fits);
    }
    assert_ne!(
        Ldpc::systematic(1).encode_unit(Shape::new(40, 20), &Packets::new(40, |i| i).sources()),
        Ldpc::systematic(2).encode_unit(Shape::new(40, 20), &Packets::new(40, |i| i).sources()),
    );
}

#[test]
fn ldpc_units_are_the_same_with_every_kernel() {
    let packets = Packets::new(20, |i| (i * 97) % 1500);
    let sources = packets.sources();
    for (code, m) in both().into_iter().zip([10, 30]) {
        let shape = Shape::new(20, m);
        let made = code.encode_unit(shape, &sources).expect("a unit");
        for kernel in Kernel::available() {
            let other = code.clone().with_kernel(kernel);
            assert_eq!(other.kernel(), kernel);
            assert_eq!(other.encode_unit(shape, &sources).as_ref(), Ok(&made));
            let parities: Vec<_> = (m - 24.min(m)..m).map(|i| made[i].as_parity(i)).collect();
            let known = if code.is_systematic() { 14 } else { 0 };
            let mut arrived: Vec<_> = sources.iter().copied().map(Some).collect();
            arrived[known..].fill(None);
            let missing: Vec<usize> = (known..20).collect();
            let recovered = other.decode(shape, &arrived, &parities);
            packets.check(&missing, &recovered.expect("four to spare"));
        }
    }
}

#[test]
fn rows_are_unchanged_after_eviction_from_the_cache() {
    let code = Ldpc::systematic(5);
    let all = |code: &Ldpc| -> Vec<u128> {
        let shapes = (1..=128).flat_map(|k| [2, 9].map(|m| Shape::new(k, m)));
        shapes
            .flat_map(|shape| (0..shape.parities).map(move |i| (shape, i)))
            .map(|(s, i)| row(code, s, i))
            .collect()
    };
    let first = all(&code);
    assert_eq!(all(&code.clone()), first);
    assert_eq!(all(&Ldpc::systematic(5)), first);
}

#[test]
fn any_k_encoded_packets_decode_an_ideal_unit() {
    let code = Ideal::new();
    for (k, n) in [(1, 3), (4, 8), (16, 20), (64, 80), (128, 255)] {
        let packets = Packets::new(k, |i| i % 9);
        let (shape, sources) = (Shape::new(k, n), packets.sources());
        let made = code.encode_unit(shape, &sources).expect("a unit");
        for (from, stride) in [(0, 1), (n - k, 1), (0, n / k)] {
            let have: Vec<usize> = (0..k).map(|i| from + i * stride).collect();
            let parities: Vec<_> = have.iter().map(|i| made[*i].as_parity(*i)).collect();
            let missing: Vec<usize> = (0..k).collect();
            assert!(code.decodable(shape, &missing, &have));
            let recovered = code
                .decode(shape, &vec![None; k], &parities)
                .expect("any k");
            packets.check(&missing, &recovered);
            let mut tracker = code.tracker(shape).expect("a unit");
            assert!(!tracker.add_source(0));
            assert!(
                have.iter()
                    .all(|i| !tracker.is_complete() && tracker.add_parity(*i))
            );
            assert!(tracker.is_complete() && !tracker.add_parity(n - 1));
        }
    }
}

proptest! {
    #[test]
    fn ideal_code_is_decodable_exactly_when_its_rank_is_full(
        k in 1usize..12, r in 0usize..6, order in Just((0usize..17).collect::<Vec<_>>()).prop_shuffle(),
        come in 0usize..17, known in 0usize..3,
    ) {
        let (code, shape) = (Ideal::new(), Shape::new(k, k + r));
        let have: Vec<usize> = order.into_iter().filter(|i| *i < k + r).take(come).collect();
        let missing: Vec<usize> = (known.min(k)..k).collect();
        let found = code.decodable(shape, &missing, &have);
        prop_assert_eq!(found, Plain(&code).decodable(shape, &missing, &have));
        if known == 0 {
            prop_assert_eq!(found, have.len() >= k);
        }
    }
}
