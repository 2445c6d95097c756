//! Coding of short flows, end to end (CAPS).
//!
//! `SPINDLE_NETWORKS` sets how many random networks are tried, `SPINDLE_NETWORKS_SEED` which ones.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use spindle_mptcp::stage::coding::formulas::Blocking;
use spindle_mptcp::stage::coding::{
    CodeKind, CodingConfig, CodingCounters, Destinations, LONG, Redundancy, Samples, Short,
    UnitSize,
};
use spindle_mptcp::stage::scatter::PRIORITY;
use spindle_mptcp::{Config, preset};
use spindle_units::{BitRate, Duration};
use spindle_wire::{CodedKind, CodedPacket, ExperimentId, Flags, Packet, Payload, Segment};
use support::networks::try_scenarios;
use support::transfer::{Transfer, data, net, paths, run, transfer};
use support::{CLIENT, CodedHook, Logged, LoggedCoded, Net, SERVER};

/// A configuration that codes all data up to 100 KB in units of `k` segments with `r` extra packets.
fn coded(k: u8, r: u8) -> Config {
    with(|s| (s.unit, s.redundancy) = (UnitSize::Fixed(k), Redundancy::Packets(r)))
}

fn with(change: impl Fn(&mut CodingConfig)) -> Config {
    let mut config = preset("caps-dark").expect("a preset").config;
    change(Arc::make_mut(config.coding.as_mut().expect("coding")));
    config
}

/// The coding fields of an encoded packet: unit, k, n and index.
fn symbol(packet: &CodedPacket) -> Option<(u16, u8, u8, u8)> {
    let header = &packet.header;
    match header.kind {
        CodedKind::Encoded { sources, total, .. } => {
            Some((header.unit, sources, total, header.index))
        }
        CodedKind::Ack { .. } => None,
    }
}

/// The encoded packets that the client put on the wire.
fn encoded(net: &Net) -> impl Iterator<Item = &LoggedCoded> {
    let all = net.coded_log.iter();
    all.filter(|l| l.side == CLIENT && symbol(&l.packet).is_some())
}

/// The units that the client sent: for each unit k, n and the number of its packets.
fn units(net: &Net) -> BTreeMap<u16, (u8, u8, usize)> {
    let mut all = BTreeMap::new();
    for (unit, k, n, _) in encoded(net).filter_map(|l| symbol(&l.packet)) {
        all.entry(unit).or_insert((k, n, 0)).2 += 1;
    }
    all
}

/// Transfers `bytes` to the server. Returns the counters of both ends.
fn send(net: &mut Net, config: &Config, bytes: u64) -> [CodingCounters; 2] {
    let t = transfer(net, [config, config], CLIENT, bytes);
    counters(net, &t)
}

fn counters(net: &Net, t: &Transfer) -> [CodingCounters; 2] {
    [(CLIENT, Some(t.client)), (SERVER, t.server)].map(|(side, handle)| {
        let live = handle.and_then(|h| net.stacks[side].info(h));
        live.map_or(net.stacks[side].counters().coding, |i| i.coding)
    })
}

/// Drops the encoded packets that `lost` selects by unit and index.
fn losing(lost: impl Fn(u16, u8) -> bool + 'static) -> CodedHook {
    Box::new(move |_, side, packet| {
        side != CLIENT || symbol(packet).is_none_or(|(unit, _, _, index)| !lost(unit, index))
    })
}

#[test]
fn every_unit_has_k_segments_and_the_last_unit_the_rest() {
    let mut net = net(paths(4, Duration::ZERO));
    // Segments of 1434 bytes: 40 segments and one more.
    let [sent, got] = send(&mut net, &coded(4, 2), 40 * 1434 + 100);
    let units = units(&net);
    let full = units.values().filter(|u| **u == (4, 6, 6)).count();
    assert!(full >= units.len() / 2, "{units:?}");
    assert!(
        units
            .values()
            .all(|(k, n, packets)| *n == k + 2 && *packets == usize::from(*n))
    );
    let sources: u64 = units.values().map(|u| u64::from(u.0)).sum();
    assert_eq!(sources, sent.packets_coded);
    assert_eq!(
        (got.units_decoded, got.units_given_up),
        (units.len() as u64, 0)
    );
    assert_eq!(got.packets_late, 2 * units.len() as u64, "the surplus");
    // All data are coded. Segments with timestamps are therefore 14 bytes shorter.
    assert_eq!(data(&net, CLIENT).count(), 0);
    assert_eq!(sent.packets_coded, 41);
}

#[test]
fn losses_up_to_the_number_of_extra_packets_cause_no_retransmission() {
    for code in CodeKind::ALL.map(|(_, code)| code) {
        let mds = !matches!(code, CodeKind::Ldpc | CodeKind::LdpcSystematic);
        let mut config = coded(5, 2);
        let settings = config.coding.as_mut().expect("coding");
        Arc::make_mut(settings).code = code;
        let mut net = net(paths(1, Duration::ZERO));
        // Two packets of each unit are lost, including source packets of a systematic code.
        net.coded_hook = Some(losing(|unit, index| {
            index == 1 || u16::from(index) == unit % 5 + 2
        }));
        let t = transfer(&mut net, [&config, &config], CLIENT, 60_000);
        let [sent, got] = counters(&net, &t);
        assert!(
            got.units_refused == 0 && got.packets_refused == 0,
            "{code:?}: {got:?}"
        );
        let lost = sent.packets_encoded - got.packets_received;
        assert!(
            lost > sent.units_sent && lost <= 2 * sent.units_sent,
            "{lost}"
        );
        if mds {
            let stack = net.stacks[CLIENT].counters().send;
            let total = net.stacks[CLIENT].info(t.client).map_or(stack, |i| i.total);
            assert_eq!((total.retransmissions, total.timeouts), (0, 0), "{code:?}");
            assert_eq!(got.units_decoded, sent.units_sent);
        }
    }
}

#[test]
fn without_sack_duplicate_acknowledgements_with_echoes_trigger_fast_retransmit() {
    let mut config = coded(1, 0);
    config.tcp.sack = false;
    let mut net = net(paths(1, Duration::ZERO));
    // The third segment is lost. Echoes are carried by the acknowledgements of the segments behind it.
    net.coded_hook = Some(losing(|unit, _| unit == 2));
    let t = transfer(&mut net, [&config, &config], CLIENT, 10 * 1434);
    let stack = net.stacks[CLIENT].counters().send;
    let total = net.stacks[CLIENT].info(t.client).map_or(stack, |i| i.total);
    assert_eq!((total.fast_retransmits, total.timeouts), (1, 0));
}

#[test]
fn unit_acknowledged_at_once_grows_cwnd_like_separate_segments() {
    let config = with(|s| (s.unit, s.redundancy) = (UnitSize::Window, Redundancy::Packets(0)));
    let mut net = net(paths(1, Duration::ZERO));
    // Slow start: 10, 20 and 40 segments of 1434 bytes.
    send(&mut net, &config, 70 * 1434);
    let sources: Vec<u8> = units(&net).values().map(|u| u.0).collect();
    assert_eq!(sources, [10, 20, 40]);
}

#[test]
fn unit_with_too_few_packets_is_retransmitted_in_a_new_unit() {
    let mut net = net(paths(1, Duration::ZERO));
    net.coded_hook = Some(losing(|unit, index| unit == 3 && index < 3));
    let [sent, got] = send(&mut net, &coded(4, 2), 60_000);
    assert_eq!(got.units_decoded, sent.units_sent - 1);
    let units = units(&net);
    assert_eq!(units[&3], (4, 6, 6), "sent once, all of it");
    let more = sent.packets_coded - 60_000_u64.div_ceil(1434);
    assert_eq!(more, 4, "its four segments, once more each");
}

#[test]
fn reordering_within_a_unit_causes_no_retransmission() {
    // The slowest of 16 paths is far behind the fastest. TCP does not tolerate this much reordering.
    let run = |config: &Config| {
        let mut net = net(paths(16, Duration::from_micros(40)));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        net.route = Some(Box::new(move |packet| match packet.payload().is_empty() {
            true => 0,
            false => (rng.next_u64() % 16) as usize,
        }));
        let t = transfer(&mut net, [config, config], CLIENT, 90_000);
        let total = net.stacks[CLIENT].counters().send;
        net.stacks[CLIENT].info(t.client).map_or(total, |i| i.total)
    };
    let plain = run(&preset("tcp").expect("a preset").config);
    assert!(plain.retransmissions > 3, "{plain:?}");
    let windows = with(|s| {
        (s.unit, s.redundancy) = (UnitSize::Window, Redundancy::Packets(2));
        s.hold = Some(Duration::from_millis(5));
    });
    let total = run(&windows);
    assert_eq!((total.retransmissions, total.timeouts), (0, 0));
}

/// The server's counters of decoded and disordered segments, if packets that `slow` selects by unit and index take
/// a path that is 400 us slower.
fn decoded_and_disordered(slow: impl Fn(u16, u8) -> bool + 'static) -> (u64, u64) {
    let mut net = net(paths(2, Duration::from_micros(400)));
    net.route = Some(Box::new(move |packet| match packet {
        Packet::Coded(coded) => {
            usize::from(symbol(coded).is_some_and(|(unit, .., index)| slow(unit, index)))
        }
        Packet::Tcp(_) => 0,
    }));
    let [_, got] = send(&mut net, &coded(4, 0), 20_000);
    (got.segments_decoded, got.segments_disordered)
}

#[test]
fn segments_are_disordered_only_if_a_later_unit_was_decoded_before() {
    let (all, disordered) = decoded_and_disordered(|_, index| index == 0);
    assert!(all >= 14, "14 segments or more: {all}");
    assert_eq!(disordered, 0, "packets of a unit have no order");
    let (_, disordered) = decoded_and_disordered(|unit, _| unit == 1);
    assert_eq!(disordered, 4, "the segments of the second unit");
}

#[test]
fn systematic_code_delivers_in_order_segments_before_the_unit_is_decoded() {
    // The fourth packet of each unit is lost, and the only extra packet is 10 ms late.
    let acknowledged_after = |code| {
        let config = with(|s| {
            (s.unit, s.redundancy) = (UnitSize::Fixed(5), Redundancy::Packets(1));
            s.code = code;
        });
        let mut net = net(paths(2, Duration::from_millis(10)));
        net.route = Some(Box::new(|packet| {
            let symbol = packet.coded().and_then(symbol);
            usize::from(symbol.is_some_and(|s| s.3 == 5))
        }));
        net.coded_hook = Some(losing(|_, index| index == 3));
        transfer(&mut net, [&config, &config], CLIENT, 40_000);
        let first = encoded(&net).next().expect("data").at;
        let begin = net.log[0].segment.seq;
        [1, 3 * 1434].map(|bytes| {
            let reached = |l: &&Logged| {
                l.side == SERVER
                    && l.segment.flags.contains(Flags::ACK)
                    && !l.segment.ack.before(begin + 1 + bytes)
            };
            let ack = net.log.iter().find(reached).expect("acknowledged");
            ack.at.since(first) < Duration::from_millis(5)
        })
    };
    let systematic = acknowledged_after(CodeKind::ReedSolomonSystematic);
    assert_eq!(systematic, [true; 2]);
    assert_eq!(acknowledged_after(CodeKind::ReedSolomon), [false; 2]);
}

#[test]
fn duplicate_and_late_packets_are_ignored() {
    let mut net = net(paths(1, Duration::ZERO));
    net.paths[0].duplicate = 1.0;
    let [sent, got] = send(&mut net, &coded(4, 1), 60_000);
    assert_eq!(got.units_decoded, sent.units_sent);
    assert_eq!(got.packets_received, 2 * sent.packets_encoded);
    assert_eq!(got.packets_late, got.packets_received - sent.packets_coded);
    assert_eq!((got.packets_refused, got.units_refused), (0, 0));
}

#[test]
fn flow_of_unknown_length_is_coded_up_to_100_kb() {
    let mut net = net(paths(4, Duration::ZERO));
    let [sent, got] = send(&mut net, &coded(8, 1), 400_000);
    let coded_bytes = sent.packets_coded * 1434;
    assert!((LONG..LONG + 1434).contains(&coded_bytes), "{coded_bytes}");
    assert_eq!(got.units_decoded, sent.units_sent);
    let plain: u64 = data(&net, CLIENT)
        .map(|l| l.segment.payload.len() as u64)
        .sum();
    assert_eq!(plain, 400_000 - coded_bytes);
    // No data are coded after the first uncoded segment.
    let first_plain = data(&net, CLIENT).next().expect("a segment").number;
    assert!(encoded(&net).all(|l| l.number < first_plain));
}

#[test]
fn peer_without_coding_or_with_another_code_gets_plain_tcp() {
    let tcp = preset("tcp").expect("a preset").config;
    let mine = coded(4, 1);
    let other = with(|s| s.code = CodeKind::ReedSolomonSystematic);
    for configs in [[&mine, &tcp], [&tcp, &mine], [&mine, &other]] {
        let mut net = net(paths(2, Duration::ZERO));
        let t = transfer(&mut net, configs, CLIENT, 60_000);
        assert!(net.coded_log.is_empty());
        assert_eq!(counters(&net, &t), [CodingCounters::default(); 2]);
        let full = data(&net, CLIENT).map(|l| l.segment.payload.len()).max();
        assert_eq!(full, Some(1448), "uncoded segments are full-sized");
    }
}

#[test]
fn client_offers_coding_unless_the_dscp_marks_a_long_flow() {
    // Of the default, CS1 (lower than the default), AF21 and EF, the latter two have priority.
    for (name, dscp, offers) in [
        ("caps", 0, false),
        ("caps", 8, false),
        ("caps", PRIORITY, true),
        ("caps", 46, true),
        // If flows are not identified by their tags.
        ("caps-dark", 0, true),
    ] {
        let config = preset(name).expect("a preset").config;
        let mut net = net(paths(2, Duration::ZERO));
        let t = Transfer::begin(&mut net, 80, [&config, &config], CLIENT, 60_000);
        net.stacks[CLIENT].set_dscp(t.client, dscp);
        run(&mut net, &mut [t]);
        let coding = |seg: &Segment| {
            let rare = seg.options.rare.as_ref();
            rare.is_some_and(|r| {
                r.experimental
                    .iter()
                    .any(|e| e.id() == Some(ExperimentId::Coding))
            })
        };
        let syn = &net.log[0].segment;
        assert_eq!((syn.flags, syn.dscp), (Flags::SYN, dscp));
        assert_eq!(coding(syn), offers, "{name}, code point {dscp}");
        let coded = !net.coded_log.is_empty();
        assert_eq!(coded, offers, "{name}, code point {dscp}");
        if !offers {
            assert!(!net.log.iter().any(|l| coding(&l.segment)));
        }
    }
}

#[test]
fn stripped_coding_answer_disables_coding_in_both_directions() {
    let config = coded(4, 1);
    for sender in [CLIENT, SERVER] {
        for stripped in [false, true] {
            let mut net = net(paths(2, Duration::ZERO));
            net.hook = Some(Box::new(move |_, side, seg| {
                if let Some(rare) = &mut seg.options.rare
                    && seg.flags.contains(Flags::SYN)
                    && (stripped && side == SERVER)
                {
                    rare.experimental.clear();
                }
                true
            }));
            transfer(&mut net, [&config, &config], sender, 60_000);
            assert_eq!(net.coded_log.is_empty(), stripped, "from {sender}");
        }
    }
}

#[test]
fn estimated_redundancy_follows_the_share_of_blocked_paths() {
    // Three of ten paths take much longer.
    let mut net = net(paths(10, Duration::ZERO));
    for path in &mut net.paths[..3] {
        path.delay = Duration::from_millis(9);
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    net.route = Some(Box::new(move |packet| {
        match packet.coded().and_then(symbol) {
            Some(_) => (rng.next_u64() % 10) as usize,
            None => 9,
        }
    }));
    let config = with(|s| {
        (s.unit, s.short) = (UnitSize::Fixed(10), Short::UpTo(1 << 40));
        s.sampling.period = Duration::from_millis(4);
    });
    let [sent, got] = send(&mut net, &config, 3_000_000);
    let share = sent.extra_packets as f64 / sent.packets_encoded as f64;
    assert!((0.1..0.45).contains(&share), "{share}");
    assert_eq!(got.units_decoded, sent.units_sent);
    // TCP's own acknowledgements contain little information about it.
    let deaf = with(|s| {
        (s.unit, s.short) = (UnitSize::Fixed(10), Short::UpTo(1 << 40));
        s.sampling.period = Duration::from_millis(4);
        s.samples = Samples::TcpAcks;
    });
    let mut quiet = support::transfer::net(paths(10, Duration::ZERO));
    let [sent, got] = send(&mut quiet, &deaf, 300_000);
    assert_eq!(
        (sent.extra_packets, got.acks_sent),
        (0, 0),
        "and nothing is echoed"
    );
}

#[test]
fn every_encoded_packet_is_echoed_once() {
    let mut net = net(paths(1, Duration::ZERO));
    let [sent, got] = send(&mut net, &coded(4, 2), 60_000);
    let rides = net.log.iter().filter(|l| {
        let rare = l.segment.options.rare.as_ref();
        l.side == SERVER && rare.is_some_and(|r| r.experimental.iter().any(|e| e.data.len() == 3))
    });
    assert_eq!(rides.count() as u64 + got.acks_sent, sent.packets_encoded);
    assert_eq!(got.acks_sent, sent.packets_encoded - sent.units_sent);
}

#[test]
fn configured_share_of_blocked_paths_sets_the_redundancy() {
    let share = Blocking::new(3, 12).expect("a share");
    let config = with(|s| {
        (s.unit, s.redundancy) = (UnitSize::Fixed(10), Redundancy::Blocking(share));
    });
    let mut net = net(paths(1, Duration::ZERO));
    send(&mut net, &config, 90_000);
    let full: BTreeSet<_> = units(&net).into_values().filter(|u| u.0 == 10).collect();
    assert_eq!(full, BTreeSet::from([(10, 14, 14)]), "CAPS section IX-E");
}

#[test]
fn unit_size_follows_the_configured_share_of_blocked_packets() {
    let sizes = |unit, blocked| {
        let share = Blocking::new(blocked, 10).expect("a share");
        let config = with(|s| (s.unit, s.redundancy) = (unit, Redundancy::Blocking(share)));
        let mut net = net(paths(1, Duration::ZERO));
        send(&mut net, &config, 14_340);
        units(&net)
            .into_values()
            .map(|u| (u.0, u.1))
            .collect::<Vec<_>>()
    };
    let ones = vec![(1, 2); 10];
    assert_eq!(ones, sizes(UnitSize::Optimal, 1));
    assert_eq!(vec![(10, 12)], sizes(UnitSize::OptimalUnrounded, 1));
}

/// Knows the rate of the bottleneck.
#[derive(Debug)]
struct Bottleneck(BitRate);

impl Destinations for Bottleneck {
    fn of(&self, _: IpAddr) -> u128 {
        0
    }

    fn bottleneck(&self, _: IpAddr, _: IpAddr) -> Option<BitRate> {
        Some(self.0)
    }
}

#[test]
fn unit_size_follows_the_rate_of_the_bottleneck() {
    let largest = |mbps: u64| {
        let share = Blocking::new(2, 10).expect("a share");
        let config = with(|s| {
            s.unit = UnitSize::OptimalUnrounded;
            s.redundancy = Redundancy::Blocking(share);
            s.rate = BitRate(10_000_000_000);
            s.destinations = Arc::new(Bottleneck(BitRate(mbps * 1_000_000)));
        });
        let mut net = net(paths(1, Duration::ZERO));
        send(&mut net, &config, 90_000);
        units(&net).into_values().map(|u| u.0).max()
    };
    // The longer a packet takes, the longer a unit waits for its other packets (CAPS section VI-C, equation 3).
    assert!(largest(20) < largest(1000), "{:?}", largest(20));
}

/// Turns a packet into a coding-layer packet that our sender would never send.
fn forged(rng: &mut Xoshiro256PlusPlus, packet: &mut CodedPacket) {
    let bits = rng.next_u64();
    let byte = |k: u32| (bits >> (8 * k)) as u8;
    match (byte(0) % 6, &mut packet.header.kind) {
        (0, CodedKind::Encoded { sources, total, .. }) => {
            (*sources, *total) = (byte(1).max(1), byte(1).max(1).saturating_add(byte(2)));
        }
        (1, _) => packet.header.unit = bits as u16,
        (2, _) => {
            let mut junk = vec![0; usize::from(byte(1))];
            rng.fill_bytes(&mut junk);
            packet.payload = Payload::from(junk);
        }
        (3, CodedKind::Encoded { len, .. }) => *len = bits as u16,
        (4, kind) => {
            *kind = CodedKind::Ack {
                arrived: bits as u32,
                decoded: 0,
            };
            packet.header.unit = bits as u16;
            packet.header.index = byte(2);
            packet.header.timestamp = (bits >> 24) as u32 & 0xff_ffff;
        }
        _ => packet.payload = Payload::EMPTY,
    }
}

#[test]
fn forged_coding_packets_are_refused_and_the_transfer_completes() {
    let seen = Rc::new(RefCell::new(CodingCounters::default()));
    for seed in 0..40 {
        let mut config = coded(6, 2);
        config.tcp.receive_buffer = 1 << 20;
        config.tcp.min_rto = Duration::from_millis(5);
        let mut net = net(paths(1, Duration::ZERO));
        net.check_encoding = false;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let cease = Cell::new(60);
        net.coded_hook = Some(Box::new(move |_, side, packet| {
            if side == CLIENT
                && symbol(packet).is_some()
                && cease.get() > 0
                && rng.next_u64() % 12 == 0
            {
                cease.set(cease.get() - 1);
                forged(&mut rng, packet);
            }
            true
        }));
        let begun = Transfer::begin(&mut net, 80, [&config, &config], CLIENT, 90_000);
        let mut transfers = [Transfer {
            real: true,
            ..begun
        }];
        run(&mut net, &mut transfers);
        let [_, got] = counters(&net, &transfers[0]);
        let sum = seen.borrow().plus(&got);
        *seen.borrow_mut() = sum;
    }
    let all = seen.borrow();
    assert!(all.packets_refused > 0 && all.units_refused > 0, "{all:?}");
    assert!(all.units_decoded > 100, "{all:?}");
}

/// Turns an extra packet of a unit into the `n`-th forged packet.
type Forge = fn(&mut CodedPacket, u16);

/// Turns it into an encoded packet of another unit, of shape `shape`, with an invalid symbol.
fn ahead(packet: &mut CodedPacket, by: u16, shape: (u8, u8)) {
    packet.payload = Payload::from(vec![9; 100]);
    let header = &mut packet.header;
    (header.unit, header.index) = (header.unit.wrapping_add(by), 0);
    if let CodedKind::Encoded {
        sources,
        total,
        twin,
        ..
    } = &mut header.kind
    {
        (*sources, *total) = shape;
        *twin = None;
    }
}

#[test]
fn forged_units_ahead_do_not_block_genuine_units() {
    let ways: [(&str, Forge); 3] = [
        ("of another shape", |packet, n| {
            ahead(packet, 1 + n % 4, (9, 11))
        }),
        ("decoded to nothing", |packet, n| {
            ahead(packet, 1 + n % 4, (1, 1))
        }),
        ("as many as are kept", |packet, n| {
            ahead(packet, 500 + n, (4, 8))
        }),
    ];
    for (what, forge) in ways {
        let mut config = coded(4, 4);
        let settings = Arc::make_mut(config.coding.as_mut().expect("coding"));
        settings.short = Short::UpTo(1 << 40);
        let mut net = net(paths(1, Duration::ZERO));
        let n = Cell::new(0);
        net.coded_hook = Some(Box::new(move |_, side, packet| {
            let surplus = symbol(packet).is_some_and(|(_, k, _, index)| index >= k);
            if side == CLIENT && surplus {
                forge(packet, n.replace(n.get() + 1));
            }
            true
        }));
        let t = transfer(&mut net, [&config, &config], CLIENT, 800_000);
        let [sent, got] = counters(&net, &t);
        assert!(
            got.units_refused + got.units_given_up > 10,
            "{what}: {got:?}"
        );
        assert_eq!(got.units_decoded, sent.units_sent, "{what}");
        let stack = net.stacks[CLIENT].counters().send;
        let total = net.stacks[CLIENT].info(t.client).map_or(stack, |i| i.total);
        assert_eq!((total.retransmissions, total.timeouts), (0, 0), "{what}");
    }
}

/// A connection whose first encoded packet from the client is still in flight. Returns that packet.
fn underway(net: &mut Net, configs: [&Config; 2]) -> CodedPacket {
    let sent = Rc::new(RefCell::new(None));
    let seen = sent.clone();
    net.coded_hook = Some(Box::new(move |_, side, packet| {
        if side == CLIENT && symbol(packet).is_some() {
            seen.borrow_mut().get_or_insert(packet.clone());
            return false;
        }
        true
    }));
    let t = Transfer::begin(net, 80, configs, CLIENT, 0);
    let until = net.now + Duration::from_millis(20);
    while net.step(until) {}
    let data = Payload::Length(1_000);
    let taken = net.stacks[CLIENT].send(net.now, t.client, data);
    assert_eq!(taken.ok(), Some(1_000));
    net.pump();
    let sent = sent.borrow_mut().take();
    sent.expect("it is coded")
}

#[test]
fn memory_for_units_that_wait_for_earlier_ones_is_bounded() {
    let mut config = coded(1, 0);
    let settings = Arc::make_mut(config.coding.as_mut().expect("coding"));
    settings.hold = Some(Duration::from_secs(10));
    let mut net = net(paths(1, Duration::ZERO));
    let mut packet = underway(&mut net, [&config, &config]);
    for n in 1..20_000 {
        packet.header.unit = 2 * n;
        net.stacks[SERVER].receive(net.now, packet.clone());
        while net.stacks[SERVER].transmit(net.now).is_some() {}
        // 64 units of one segment each.
        let stored = net.stacks[SERVER].buffered();
        assert!(stored <= 66 * 1_500, "{stored} bytes after {n} units");
    }
    let info = net.stacks[SERVER]
        .handles()
        .next()
        .map(|h| net.stacks[SERVER].info(h));
    let info = info.flatten().expect("the connection lives");
    assert_eq!((info.coding.units_decoded, info.received), (19_999, 1_000));
}

#[test]
fn connections_without_coding_ignore_coding_packets() {
    let config = coded(1, 0);
    let tcp = preset("tcp").expect("a preset").config;
    let mut here = net(paths(1, Duration::ZERO));
    let packet = underway(&mut here, [&config, &config]);
    // No peer agreed to coding here: one end does not code, and there is no connection at the other port.
    let mut there = net(paths(1, Duration::ZERO));
    let t = Transfer::begin(&mut there, 80, [&config, &tcp], CLIENT, 0);
    let until = there.now + Duration::from_millis(20);
    while there.step(until) {}
    let local = there.stacks[CLIENT]
        .info(t.client)
        .map(|i| i.subflows[0].local);
    for port in [local.expect("it lives").port, 9] {
        let mut packet = packet.clone();
        packet.src.port = port;
        there.stacks[SERVER].receive(there.now, packet);
        assert_eq!(there.stacks[SERVER].transmit(there.now), None);
    }
    assert_eq!(there.stacks[SERVER].counters().unknown_segments, 1);
}

/// Number of networks in the ordinary test run.
const NETWORKS: u32 = 200;

#[test]
fn every_byte_arrives_once_and_in_order_with_coding_on_random_networks() {
    let sums: [Cell<u64>; 3] = Default::default();
    try_scenarios(NETWORKS, 11, |s| {
        let draw = s.seed;
        let mut run = s.prepare_with(!draw.is_multiple_of(5), |_, c| {
            let codes = CodeKind::ALL;
            c.multipath = None;
            c.recovery = None;
            c.coding = Some(Arc::new(CodingConfig {
                code: codes[(draw % codes.len() as u64) as usize].1,
                unit: match draw % 3 {
                    0 => UnitSize::Window,
                    1 => UnitSize::Fixed((draw >> 8) as u8 % 127 + 1),
                    _ => UnitSize::Optimal,
                },
                redundancy: match draw % 7 {
                    0..3 => Redundancy::Estimated,
                    r => Redundancy::Packets(r as u8 - 3),
                },
                short: match draw % 4 {
                    0 => Short::UpTo(5_000),
                    _ => Short::UpTo(1 << 40),
                },
                samples: match draw % 6 {
                    0 => Samples::TcpAcks,
                    _ => Samples::Echoes,
                },
                hold: (draw % 11 < 4).then(|| Duration::from_millis(3)),
                ..CodingConfig::default()
            }));
        });
        s.finish(&mut run);
        for stack in &run.net.stacks {
            let c = stack.counters().coding;
            assert_eq!((c.packets_refused, c.units_refused), (0, 0), "{c:?}");
            sums[0].set(sums[0].get() + c.units_decoded);
            sums[1].set(sums[1].get() + c.units_given_up);
            sums[2].set(sums[2].get() + c.extra_packets);
        }
    });
    let [decoded, _, extra] = sums.map(|c| c.get());
    assert!(decoded > 1000 && extra > 500, "{decoded} {extra}");
}
