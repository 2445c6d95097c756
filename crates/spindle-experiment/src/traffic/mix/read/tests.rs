use std::any::Any;
use std::path::Path;

use super::*;
use crate::document::ExperimentError;
use crate::file::{Context, Experiment, Overrides};
use crate::scenario::Scenario;

const LEAF_SPINE: &str = "topology = { name = \"leaf-spine\", leaves = 2, spines = 4, hosts_per_leaf = 3 }\n\
                          [traffic]\nkind = \"mix\"\nsizes = [\"10KB\", \"100KB\"]\n";

fn parsed(text: &str) -> Result<Experiment> {
    let transports = ["tcp", "fuso"].map(str::to_owned);
    let context = Context {
        directory: Path::new("."),
        transports: &transports,
        balancers: &[],
        registry: &crate::registry::Registry::standard(),
    };
    let text = format!("transports = [\"tcp\"]\n{text}");
    Experiment::parse("f.toml", &text, &Overrides::default(), &context)
}

fn scenario(keys: &str) -> Scenario {
    let experiment = parsed(&format!("{LEAF_SPINE}{keys}"));
    experiment.expect(keys).points.remove(0).scenario
}

fn read(keys: &str) -> Mix {
    mix_of(&scenario(keys)).clone()
}

fn mix_of(scenario: &Scenario) -> &Mix {
    let any: &dyn Any = &*scenario.traffic;
    any.downcast_ref().expect("the traffic is a mix")
}

fn error(keys: &str) -> String {
    let found: std::result::Result<Experiment, ExperimentError> =
        parsed(&format!("{LEAF_SPINE}{keys}"));
    found.expect_err(keys).to_string()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn each_kind_of_arrivals_accepts_only_its_own_keys() {
    let starts = |keys: &str| read(&format!("flows = 100\n{keys}")).starts;
    assert_eq!(starts("rate = 40.0"), Starts::Poisson(40.0));
    // 11 Mbps at 55 KB on average.
    assert_eq!(
        starts("load = \"50%\"\ncapacity = \"22Mbps\""),
        Starts::Poisson(25.0)
    );
    assert_eq!(
        starts("arrivals = \"on-off\"\non = \"5ms\"\noff = \"50ms\"\nrate = 2000"),
        Starts::OnOff {
            on: ms(5),
            off: ms(50),
            rate: 2000.0
        }
    );
    assert_eq!(starts("arrivals = \"at-once\""), Starts::Together);
    let bursts = |times, spread| Starts::Bursts {
        size: 50,
        times,
        spread,
    };
    let keys = "arrivals = \"bursts\"\nburst = 50\n";
    assert_eq!(
        starts(&format!("{keys}rate = 5.0")),
        bursts(BurstTimes::Poisson(5.0), Duration::ZERO)
    );
    assert_eq!(
        starts(&format!("{keys}every = \"1s\"\nspread = \"200ms\"")),
        bursts(BurstTimes::Every(ms(1000)), ms(200))
    );
    for (keys, said) in [
        ("", "traffic.rate: missing, want it or a load"),
        (
            "rate = 1.0\nload = \"1Mbps\"",
            "load: given together with rate, want only one",
        ),
        (
            "rate = 0.0",
            "rate: found 0, want a number a second from 1e-6",
        ),
        (
            "rate = 1.0\nburst = 5",
            "burst: has no meaning with these arrivals",
        ),
        (
            "arrivals = \"at-once\"\nrate = 1.0",
            "rate: has no meaning with these arrivals",
        ),
        (
            "arrivals = \"on-off\"\noff = \"1s\"\nrate = 1.0",
            "on: missing or 0, want a time such as \"5ms\"",
        ),
        (
            "arrivals = \"on-off\"\non = \"5ms\"\noff = \"1s\"\nrate = 1.0",
            "on: too short, want 10us or more",
        ),
        ("arrivals = \"bursts\"\nrate = 1.0", "burst: want how many"),
        (
            "arrivals = \"bursts\"\nburst = 5\nrate = 1.0\nevery = \"1s\"",
            "every: given together with rate",
        ),
        ("arrivals = \"poison\"", "did you mean \"poisson\"?"),
    ] {
        let e = error(&format!("flows = 100\n{keys}"));
        assert!(e.contains(said), "{keys}: {e}");
    }
}

#[test]
fn mix_without_an_end_or_with_too_many_flows_is_refused() {
    let m = read("rate = 10.0\nduration = \"2s\"\nwarm_up = \"1s\"\nhead_start = \"500ms\"");
    assert_eq!((m.duration, m.flows), (Some(ms(2000)), None));
    assert_eq!((m.warm_up, m.head_start), (ms(1000), ms(500)));
    assert_eq!(
        read("flows = 0\nduration = \"1s\"").starts,
        Starts::Poisson(1.0)
    );
    for (keys, said) in [
        (
            "rate = 1.0",
            "duration: missing, want it, or a number of flows",
        ),
        ("flows = 0", "flows: found 0, want 1 or more, or a duration"),
        (
            "flows = 5000001\nrate = 1.0",
            "flows: found 5000001, want 5000000 at most",
        ),
        (
            "rate = 1e8\nduration = \"1s\"",
            "duration: makes 100000000 flows",
        ),
        (
            "arrivals = \"at-once\"\nduration = \"1s\"",
            "flows: missing, want how many",
        ),
        (
            "rate = 1.0\nduration = \"1s\"\nwarm_up = \"1s\"",
            "warm_up: as long as the duration or longer",
        ),
        (
            "rate = 1.0\nduration = \"1s\"\nobserve = [\"recovery\"]",
            "observe: recovery looks at responses",
        ),
    ] {
        let e = error(keys);
        assert!(e.contains(said), "{keys}: {e}");
    }
}

#[test]
fn pairs_and_long_flows_are_read_and_checked() {
    let m = read("arrivals = \"at-once\"\nflows = 5");
    assert_eq!(
        (m.pairs.from.len(), m.pairs.matching),
        (6, Matching::Random)
    );
    assert!(!m.pairs.across && m.long.is_none() && m.background.is_none());
    let m = read(
        "arrivals = \"at-once\"\nflows = 5\nfrom = \"h0-h2\"\nto = \"h3-h5\"\nmatrix = \"one-to-one\"\n\
         across = true\nlong_flows = 2\nlong_sizes = [\"10MB\", \"20MB\"]\nlong_to = \"h4\"\n\
         long_paths = \"distinct\"\nbackground = \"tcp\"\nask = \"at-once\"",
    );
    assert_eq!(m.pairs.to, ["h3", "h4", "h5"]);
    assert_eq!((m.ask, m.background.as_deref()), (Ask::AtOnce, Some("tcp")));
    let long = m.long.expect("two");
    assert!(long.count == 2 && long.distinct);
    assert_eq!(long.sizes.map(|s| s.mean()), Some(15e6));
    let own = long.pairs.expect("own receivers");
    assert_eq!((own.from, own.to), (m.pairs.from, vec!["h4".to_owned()]));

    let none = read("arrivals = \"at-once\"\nflows = 5\nlong_flows = 0\nlong_paths = \"distinct\"");
    assert_eq!(none.long, None);
    for (keys, said) in [
        (
            "from = \"h0-h1\"\nto = \"h3-h5\"\nmatrix = \"one-to-one\"",
            "matrix: one-to-one from 2 to 3 hosts, want as many of each, or one to",
        ),
        (
            "from = \"h0\"\nto = \"h0\"",
            "to: h0 has no partner, want another host for it",
        ),
        (
            "from = \"h0\"\nto = [\"h1\", \"h2\"]\nacross = true",
            "to: h0 has no partner, want another leaf or pod for it",
        ),
        (
            "from = \"h0\"\nto = [\"h3\", \"h2\"]\nacross = true\nmatrix = \"one-receiver\"",
            "from: h2 has no partner",
        ),
        (
            "to = \"h3\"\nfrom = \"h0\"\nlong_flows = 1\nlong_to = \"h0\"",
            "long_to: h0 has no partner",
        ),
        ("from = \"h9\"", "which is no host here"),
        ("background = \"tpc\"", "found transport \"tpc\""),
        (
            "long_flows = 1\nlong_sizes = \"10KBit\"",
            "long_sizes: found \"10KBit\", want web-search",
        ),
    ] {
        let e = error(&format!("arrivals = \"at-once\"\nflows = 5\n{keys}"));
        assert!(e.contains(said), "{keys}: {e}");
    }
    let e = parsed(
        "topology = { name = \"dumbbell\" }\n[traffic]\nkind = \"mix\"\nsizes = \"10KB\"\n\
         across = true",
    );
    let e = e.expect_err("no leaves").to_string();
    assert!(e.contains("across: has no meaning here"), "{e}");
}

#[test]
fn leaf_spine_defaults_are_those_of_caps_section_iii() {
    let text = "topology = { name = \"leaf-spine\" }\ntraffic = { kind = \"none\" }\n\
                scenario = { short_below = \"100KB\" }\n";
    let scenario = parsed(text).unwrap().points.remove(0).scenario;
    assert_eq!(scenario.host.short_below, Some(100_000));
    let network = scenario.topology.build().unwrap();
    assert_eq!((network.hosts(), network.switches().len()), (208, 42));
    let ends = (spindle_fabric::Address(0), spindle_fabric::Address(207));
    assert_eq!(network.path_count(ends.0, ends.1), 40);
    let place = |host| scenario.topology.place(host);
    assert_eq!((place(103), place(104)), (Some(0), Some(1)));
    let links = scenario.topology.links;
    assert_eq!(links.rtt, Duration::from_micros(100));
    assert_eq!(links.ecn_threshold, None);
    let plain = crate::scenario::Buffer::Packets(256);
    assert_eq!(links.buffer, plain);

    let with = |keys: &str| {
        let text = format!(
            "topology = {{ name = \"leaf-spine\", {keys} }}\ntraffic = {{ kind = \"none\" }}"
        );
        parsed(&text).expect_err(keys).to_string()
    };
    for (keys, said) in [
        ("spines = 0", "spines: found 0, want 1 to 65536"),
        (
            "leaves = 700",
            "hosts_per_leaf: found 104, want 1 to 93 with 700 leaves",
        ),
        ("host_ecn_threshold = \"1KB\"", "has no meaning here"),
        ("spine = 3", "did you mean \"spines\"?"),
    ] {
        let e = with(keys);
        assert!(e.contains(said), "{keys}: {e}");
    }
}

/// Entry 38: pods 4 to 12, pods^2 / 4 servers in each, random pairs among pods.
#[test]
fn pods_of_a_fat_tree_are_places() {
    for k in [4u32, 6, 8, 10, 12] {
        let text = format!(
            "topology = {{ name = \"fat-tree\", k = {k}, buffer_packets = 256, ecn_threshold = \"0B\" }}\n\
             [traffic]\nkind = \"mix\"\nsizes = \"mixed\"\nload = \"30%\"\ncapacity = \"1Gbps\"\n\
             duration = \"1s\"\nacross = true\n"
        );
        let scenario = parsed(&text).unwrap().points.remove(0).scenario;
        let m = mix_of(&scenario);
        let pod = k * k / 4;
        assert_eq!(m.pairs.from.len() as u32, pod * k);
        let place = |host| scenario.topology.place(host);
        assert_eq!(
            (place(pod - 1), place(pod), place(pod * k - 1)),
            (Some(0), Some(1), Some(k - 1))
        );
    }
}

#[test]
fn on_periods_are_longer_if_short_flows_would_offer_more_than_the_largest_load() {
    let starts = |more: &str| {
        let keys = "flows = 100\nfrom = \"h0-h2\"\nto = \"h3-h5\"\narrivals = \"on-off\"\n\
                    on = \"5ms\"\noff = \"50ms\"\nrate = 20000.0\n";
        read(&format!("{keys}{more}")).starts
    };
    let unchanged = Starts::OnOff {
        on: ms(5),
        off: ms(50),
        rate: 20_000.0,
    };
    assert_eq!(starts(""), unchanged);
    // 20000 flows of 55 KB a second are 8.8 Gbps, and four paths of 1 Gbps have 4 Gbps.
    let quarter = Starts::OnOff {
        on: ms(20),
        off: ms(200),
        rate: 5000.0,
    };
    assert_eq!(starts("max_on_load = \"55%\""), quarter);
    assert_eq!(starts("max_on_load = \"2.2Gbps\""), quarter);
    assert_eq!(starts("max_on_load = \"9Gbps\""), unchanged);
}

#[test]
fn largest_load_of_on_periods_is_refused_if_it_is_zero_or_a_share_of_one_path() {
    let keys = "flows = 100\narrivals = \"on-off\"\non = \"5ms\"\noff = \"50ms\"\nrate = 1000.0\n";
    let zero = error(&format!("{keys}max_on_load = \"0%\""));
    assert!(
        zero.ends_with("traffic.max_on_load: found 0, want more"),
        "{zero}"
    );
    let under_one_leaf = format!("{keys}from = \"h0-h2\"\nmax_on_load = \"50%\"");
    let one = error(&under_one_leaf);
    assert!(
        one.ends_with("a share, but no pair of hosts has more than one path, want a rate"),
        "{one}"
    );
}
