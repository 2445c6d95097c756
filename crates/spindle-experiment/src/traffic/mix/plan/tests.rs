use std::sync::Arc;

use proptest::prelude::*;
use spindle_units::BitRate;

use super::*;
use crate::rng::Streams;
use crate::scenario::{Ask, Buffer, LinkSettings, LongFlows, Observe};
use crate::topologies::LeafSpine;
use crate::traffic::Start;
use crate::workload::{SizeSampler, Sizes};

const LEAVES: u32 = 4;
const UNDER_EACH: u32 = 5;

fn hosts(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|i| format!("h{i}")).collect()
}

fn every_host() -> Vec<String> {
    hosts(0..LEAVES * UNDER_EACH)
}

fn topology() -> NamedTopology {
    NamedTopology {
        name: "leaf-spine".to_owned(),
        topology: Arc::new(LeafSpine {
            leaves: LEAVES,
            spines: 2,
            hosts_per_leaf: UNDER_EACH,
            fabric_rate: BitRate(1_000_000_000),
        }),
        links: LinkSettings {
            buffer: Buffer::Packets(256),
            ecn_threshold: None,
            ..LinkSettings::default()
        },
    }
}

fn try_plan(m: &Mix, short_below: Option<u64>, streams: &Streams) -> Result<Plan, PlanError> {
    let (topology, hosts) = (topology(), every_host());
    mix(
        m,
        &PlanRequest {
            topology: &topology,
            short_below,
            hosts: &hosts,
            streams,
            part: 0,
            parts: 1,
        },
    )
}

fn sample(starts: Starts) -> Mix {
    Mix {
        pairs: Pairs {
            from: every_host(),
            to: every_host(),
            matching: Matching::Random,
            across: true,
        },
        long: None,
        starts,
        flows: Some(400),
        sizes: SizeSampler::new(Sizes::Uniform(10_000, 100_000), None).unwrap(),
        ask: Ask::AtOnce,
        head_start: Duration::from_millis(20),
        warm_up: Duration::ZERO,
        duration: None,
        background: None,
        observe: Observe::default(),
    }
}

fn planned(m: &Mix, short_below: Option<u64>, seed: u64) -> Plan {
    let streams = Streams::new(seed, 0);
    try_plan(m, short_below, &streams).unwrap()
}

fn at(flow: &PlannedFlow) -> Duration {
    match flow.start {
        Start::At(at) | Start::After(at) => at,
    }
}

fn longs(count: u32) -> Option<LongFlows> {
    Some(LongFlows {
        count,
        sizes: None,
        pairs: None,
        distinct: false,
    })
}

fn any_starts() -> impl Strategy<Value = Starts> {
    let ms = |range: std::ops::Range<u64>| range.prop_map(Duration::from_millis);
    prop_oneof![
        (10.0..1e5).prop_map(Starts::Poisson),
        (ms(1..50), ms(1..50), 1e3..1e5).prop_map(|(on, off, rate)| Starts::OnOff {
            on,
            off,
            rate
        }),
        Just(Starts::Together),
        (1u32..50, ms(1..100), ms(0..50)).prop_map(|(size, every, spread)| Starts::Bursts {
            size,
            times: BurstTimes::Every(every),
            spread
        }),
        (1u32..50, 1.0..1e3).prop_map(|(size, rate)| Starts::Bursts {
            size,
            times: BurstTimes::Poisson(rate),
            spread: Duration::ZERO
        }),
    ]
}

proptest! {
    /// For all arrivals and partners: flows are in order, and only long flows start before the head start.
    /// At most as many flows as requested start, and none start after the end. Each flow goes from one leaf to
    /// another.
    #[test]
    fn plans_stay_within_their_limits(
        starts in any_starts(),
        matching in prop_oneof![Just(Matching::Random), Just(Matching::OneReceiver)],
        long in 0u32..6,
        most in prop::option::of(1u64..300),
        seed: u64,
    ) {
        let end = Duration::from_millis(120);
        let mut m = sample(starts);
        m.pairs.matching = matching;
        m.long = longs(long);
        (m.flows, m.duration) = (most, most.is_none().then_some(end));
        m.warm_up = Duration::from_millis(50);
        let plan = planned(&m, None, seed);
        prop_assert!(plan.flows.iter().map(at).is_sorted());
        let short = plan.flows.iter().filter(|f| !f.is_background());
        for f in short.clone() {
            prop_assert!(at(f) >= m.head_start);
            prop_assert_eq!(f.counted, at(f) >= m.warm_up);
            prop_assert!((10_000..=100_000).contains(&f.bytes));
            prop_assert!(most.is_some() || at(f) < end);
        }
        match most {
            Some(n) => prop_assert_eq!(short.count() as u64, n),
            None if starts == Starts::Together => prop_assert_eq!(short.count(), 0),
            None => prop_assert!((short.count() as f64) < 6.0 * starts.expected(end) + 100.0),
        }
        let background = plan.flows.iter().filter(|f| f.is_background());
        prop_assert_eq!(background.clone().count() as u32, long);
        prop_assert!(background.clone().all(|f| f.counted && f.bytes == ENDLESS && at(f) < ONSET));
        for (n, f) in plan.flows.iter().enumerate() {
            prop_assert_eq!(f.group, n as u32);
            prop_assert_ne!(f.client / UNDER_EACH, f.server / UNDER_EACH);
            prop_assert!(matching != Matching::OneReceiver || f.server == plan.flows[0].server);
        }
    }
}

#[test]
fn short_flows_do_not_depend_on_long_ones_and_pairs_are_used_in_turn() {
    let mut m = sample(Starts::Poisson(1000.0));
    m.pairs = Pairs {
        from: hosts(0..10),
        to: hosts(10..20),
        matching: Matching::OneToOne,
        across: true,
    };
    m.flows = Some(8);
    let shorts = |m: &Mix| -> Vec<(Start, u32, u64)> {
        let plan = planned(m, None, 3);
        let short = plan.flows.iter().filter(|f| !f.is_background());
        short.map(|f| (f.start, f.client, f.bytes)).collect()
    };
    let alone = shorts(&m);
    assert!(alone.iter().map(|f| f.1).eq(0..8));
    m.long = longs(2);
    assert_eq!(shorts(&m), alone);
    let plan = planned(&m, None, 3);
    let mut long: Vec<(u32, u32)> = plan
        .flows
        .iter()
        .filter(|f| f.is_background())
        .map(ends)
        .collect();
    long.sort_unstable();
    assert_eq!(long, [(8, 18), (9, 19)]);
}

fn ends(f: &PlannedFlow) -> (u32, u32) {
    (f.client, f.server)
}

/// Mechanisms T5: on for 5 ms, off for 50 ms, one flow every 50 us while on.
#[test]
fn on_off_flows_start_in_bursts_of_exponential_length() {
    let mut m = sample(Starts::OnOff {
        on: Duration::from_millis(5),
        off: Duration::from_millis(50),
        rate: 20_000.0,
    });
    (m.flows, m.duration) = (None, Some(Duration::from_secs(30)));
    let plan = planned(&m, None, 1);
    let times: Vec<Duration> = plan.flows.iter().map(at).collect();
    let rate = times.len() as f64 / 30.0;
    assert!((rate / (20_000.0 * 5.0 / 55.0) - 1.0).abs() < 0.1, "{rate}");
    // Gaps within a burst are 50 us on average, gaps between bursts 50 ms.
    let gaps = times.windows(2).map(|w| w[1].saturating_sub(w[0]));
    let long = gaps.filter(|g| *g > Duration::from_millis(1)).count();
    assert!((450..620).contains(&long), "{long} of 545 expected");
    assert!(times[0] < m.head_start + Duration::from_millis(1));
}

#[test]
fn flows_from_short_below_up_are_background_and_the_load_is_as_configured() {
    let sizes = SizeSampler::new(Sizes::named("web-search").unwrap(), None).unwrap();
    let load = 8e9;
    let mut m = sample(Starts::Poisson(load / 8.0 / sizes.mean()));
    (m.flows, m.duration) = (None, Some(Duration::from_secs(40)));
    (m.sizes, m.warm_up) = (sizes, Duration::from_secs(10));
    let plan = planned(&m, Some(100_000), 5);
    let bits: f64 = plan.flows.iter().map(|f| f.bytes as f64 * 8.0).sum();
    assert!((bits / 40.0 / load - 1.0).abs() < 0.03, "{bits}");
    assert!(
        plan.flows
            .iter()
            .all(|f| f.is_background() == (f.bytes >= 100_000))
    );
    let counted = plan.flows.iter().filter(|f| f.counted).count() as f64;
    let share = counted / plan.flows.len() as f64;
    assert!((share - 0.75).abs() < 0.02, "{share}");
    assert!(!planned(&m, None, 5).flows.iter().any(|f| f.is_background()));
}

#[test]
fn bursts_start_at_their_interval_and_spread() {
    let every = Duration::from_millis(100);
    let mut m = sample(Starts::Bursts {
        size: 50,
        times: BurstTimes::Every(every),
        spread: Duration::from_millis(20),
    });
    m.flows = Some(200);
    let plan = planned(&m, None, 2);
    for (n, burst) in plan.flows.chunks(50).enumerate() {
        let begin = m.head_start + every * n as u64;
        let within = burst.iter().map(|f| at(f).saturating_sub(begin));
        let latest = within.max().unwrap();
        assert!(at(&burst[0]) >= begin);
        assert!(latest > Duration::from_millis(15) && latest < Duration::from_millis(20));
    }
}

#[test]
fn host_without_a_partner_is_refused() {
    let mut m = sample(Starts::Together);
    m.pairs.from = hosts(0..2);
    m.pairs.to = hosts(2..5);
    let made = try_plan(&m, None, &Streams::new(1, 0));
    let told = made.unwrap_err().to_string();
    assert!(
        told.ends_with("has no partner, want another host for it"),
        "{told}"
    );
}
