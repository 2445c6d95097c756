//! How the keys of scenarios are read, and which errors wrong keys cause.

use std::any::Any;
use std::path::Path;

use spindle_units::{BitRate, Duration};

use super::{Context, Experiment, Overrides, Scale};
use crate::document::ExperimentError;
use crate::registry::Registry;
use crate::scenario::{Arrivals, Background, Buffer, NoTraffic, Observe, Requests, Traffic};
use crate::topologies::FatTree;
use crate::workload::LossRates;

fn read(text: &str) -> Result<Experiment, ExperimentError> {
    read_with(text, &Overrides::default())
}

fn read_with(text: &str, overrides: &Overrides) -> Result<Experiment, ExperimentError> {
    let transports = ["tcp", "fuso"].map(str::to_owned);
    let context = Context {
        directory: Path::new("."),
        transports: &transports,
        balancers: &[],
        registry: &Registry::standard(),
    };
    let text = format!("transports = [\"tcp\"]\n{text}");
    Experiment::parse("f.toml", &text, overrides, &context)
}

/// The one-line error about a text whose first line is line 2 of the file.
fn error(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

const SIM: &str = "topology = { name = \"fuso-sim\" }\n";

/// A simulation with these keys in its requests from all hosts to all hosts.
fn requests(keys: &str) -> String {
    format!(
        "{SIM}[traffic]\nkind = \"requests\"\nclients = \"all\"\nservers = \"all\"\nsizes = \
         \"web-search\"\n{keys}"
    )
}

/// The traffic of the first point.
fn first_traffic<T: Traffic>(e: &Experiment) -> &T {
    let any: &dyn Any = &*e.points[0].scenario.traffic;
    any.downcast_ref().expect("the traffic has this kind")
}

/// A simulation with these keys of a `lossy-links` model.
fn lossy(keys: &str) -> String {
    format!("{SIM}traffic = {{ kind = \"none\" }}\n[loss]\nmodel = \"lossy-links\"\n{keys}")
}

#[test]
fn subflows_sizes_in_packets_and_observed_items_are_read() {
    let keys = "subflows = [2, 1]\nobserve = [\"recovery\", \"sizes\"]";
    let e = read(&requests(keys)).unwrap();
    let r: &Requests = first_traffic(&e);
    assert_eq!(r.subflows, [2, 1]);
    assert!(r.observe.recovery && r.observe.sizes && r.sizes.packets().is_none());
    for name in Observe::NAMES {
        let e = read(&requests(&format!("observe = [\"{name}\"]"))).unwrap();
        let r: &Requests = first_traffic(&e);
        for other in Observe::NAMES {
            assert_eq!(r.observe.has(other), other == name, "{name} {other}");
        }
    }
    for (keys, said) in [
        ("subflows = [2, 0]", "want a number from 1"),
        ("subflows = [5, 4]", "8 in all"),
        ("observe = [\"recovry\"]", "did you mean \"recovery\"?"),
    ] {
        let e = error(&requests(keys));
        assert!(e.contains(said), "{e}");
    }
    let packets = |n: &str| requests("").replace("\"web-search\"", n);
    let e = read(&packets("{ packets = 29 }")).unwrap();
    assert_eq!(first_traffic::<Requests>(&e).sizes.packets(), Some(29));
    let e = error(&packets("{ packets = 0 }"));
    assert!(e.contains("want 1 to 1000000"), "{e}");
    let e = error(&format!("cdf = [\"fcts\"]\n{}", requests("")));
    assert!(e.contains("want some of fct, first-hit"), "{e}");
}

#[test]
fn inline_size_table_is_read_like_a_file() {
    let table = "100 0.5\n200 0.5\n400 1\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.cdf");
    std::fs::write(&file, table).unwrap();
    let with = |sizes: &str| {
        let keys = "below = \"300B\"\n";
        let e = read(&requests(keys).replace("\"web-search\"", sizes))?;
        Ok::<_, ExperimentError>(format!("{:?}", e.points[0].scenario.traffic))
    };
    let inline = |table: &str| with(&format!("{{ cdf = {table:?} }}"));
    assert_eq!(
        inline(table).unwrap(),
        with(&format!("{:?}", format!("file:{}", file.display()))).unwrap()
    );
    assert_ne!(inline(table).unwrap(), inline("100 0\n400 1\n").unwrap());
    for (table, said) in [
        (
            "100 0.5\nmany 1",
            "traffic.sizes.cdf: line 2: found \"many 1\"",
        ),
        ("100 0\n200 0.9", "the last probability is 0.9, want 1"),
        ("", "traffic.sizes.cdf: "),
    ] {
        let e = inline(table).unwrap_err().to_string();
        assert!(e.contains(said), "{e}");
    }
    let e = with("{ cdf = \"1 1\", sigma = 1 }")
        .unwrap_err()
        .to_string();
    assert!(e.contains("accepted here: cdf"), "{e}");
}

#[test]
fn response_loss_is_read_with_subflow_and_packet() {
    let loss = |keys: &str| format!("{}\n[loss]\nmodel = \"response\"\n{keys}", requests(""));
    let read = |keys: &str| {
        let e = read(&loss(keys)).unwrap();
        let r = e.points[0].scenario.loss[0].model.response().unwrap();
        (r.subflow, r.packet)
    };
    assert_eq!(read("subflow = 1\npacket = 7"), (Some(0), Some(7)));
    assert_eq!(read("packet = \"random\""), (None, None));
    for (keys, said) in [
        ("", "loss.packet: missing"),
        ("packet = 0", "want a number from 1"),
        (
            "packet = \"random\"\nsubflow = 1",
            "no meaning together with a random packet",
        ),
        ("packet = 1\non = [\"h1\"]", "lost wherever it goes"),
    ] {
        let e = error(&loss(keys));
        assert!(e.contains(said), "{e}");
    }
}

#[test]
fn numbered_packets_count_from_1() {
    let text = |packets: &str| {
        let loss = format!("[loss]\nmodel = \"numbered\"\npackets = {packets}");
        format!("{SIM}traffic = {{ kind = \"none\" }}\n{loss}")
    };
    let e = read(&text("[1, 5]")).unwrap();
    let model = format!("{:?}", e.points[0].scenario.loss[0].model);
    assert_eq!(model, "Numbered([1, 5])");
    for wrong in ["[0]", "0", "[3, 0]"] {
        let told = "f.toml:6: loss.packets: found 0, want a number from 1";
        assert_eq!(error(&text(wrong)), told);
    }
}

#[test]
fn set_flag_refuses_tables() {
    let told = |set: &str| {
        let flags = Overrides {
            set: vec![set.to_owned()],
            ..Overrides::default()
        };
        read_with(&requests(""), &flags).map_err(|e| e.to_string())
    };
    // A shell has removed the quotes of the last one.
    for set in [
        "traffic.sizes={packets=29}",
        "size = { packets = 29 }",
        "traffic.sizes={lognormal=48KiB}",
    ] {
        let key = if set.starts_with("size") {
            "size"
        } else {
            "traffic.sizes"
        };
        let problem = "found a table, which --set does not take, want it in the file";
        assert_eq!(
            told(set).unwrap_err(),
            format!("--set {set}: {key}: {problem}")
        );
    }
    assert!(told("traffic.sizes=[\"1KB\",\"2KB\"]").is_ok());
    assert!(told("title=\"{a}\"").is_ok(), "a text in quotes");
}

#[test]
fn hotspots_must_name_existing_switches() {
    let text = |topology: &str, keys: &str| {
        format!(
            "topology = {{ name = \"{topology}\" }}\ntraffic = {{ kind = \"none\" }}\n\
             [hotspots]\nshare = \"50%\"\nbuffer_packets = 5\n{keys}"
        )
    };
    assert!(read(&text("fuso-sim", "")).is_ok());
    assert!(read(&text("leaf-spine", "among = \"spine\"")).is_ok());
    let told = "no switch's name begins with \"core\": they begin with leaf, spine";
    assert_eq!(
        error(&text("leaf-spine", "")),
        format!("f.toml:4: hotspots.among: {told}")
    );
    assert_eq!(
        error(&text("leaf-spine", "among = \"core\"")),
        format!("f.toml:7: hotspots.among: {told}")
    );
}

#[test]
fn fuso_sim_has_the_dimensions_of_fuso_section_5_3() {
    let e = read(&requests("")).unwrap();
    let scenario = &e.points[0].scenario;
    let links = scenario.topology.links;
    let expected = FatTree {
        k: 4,
        hosts_per_edge: 8,
        fabric_rate: BitRate(40_000_000_000),
    };
    assert_eq!(scenario.topology.name, "fuso-sim");
    assert_eq!(
        format!("{:?}", scenario.topology.topology),
        format!("{expected:?}")
    );
    assert_eq!(links.rate, BitRate(10_000_000_000));
    assert_eq!(links.rtt, Duration::from_micros(240));
    assert_eq!(links.buffer, Buffer::Bytes(1_000_000));
    assert_eq!(links.ecn_threshold, Some(300_000));
    assert_eq!(links.host_ecn_threshold, None);
    let network = scenario.topology.build().unwrap();
    assert_eq!((network.hosts(), network.cables().len()), (64, 96));
    assert_eq!(network.switches().len(), 20);
    let far = (spindle_fabric::Address(0), spindle_fabric::Address(63));
    assert_eq!(network.path_count(far.0, far.1), 4);
}

#[test]
fn cofuso_sim_has_the_dimensions_of_cofuso_section_6_2() {
    let text = "topology = { name = \"cofuso-sim\" }\ntraffic = { kind = \"none\" }";
    let e = read(text).unwrap();
    let topology = &e.points[0].scenario.topology;
    assert_eq!(topology.name, "cofuso-sim");
    let links = topology.links;
    assert_eq!(links.rate, BitRate(300_000_000));
    assert_eq!(links.rtt, Duration::from_millis(48));
    assert_eq!(links.buffer, Buffer::Bytes(5_400_000));
    assert_eq!(
        (links.ecn_threshold, links.host_ecn_threshold),
        (None, None)
    );
    let network = topology.build().unwrap();
    // 20 hosts' cables, 8 at the sites' routers, 16 between R2-R5 and R6-R9.
    assert_eq!((network.hosts(), network.cables().len()), (20, 44));
    let far = (spindle_fabric::Address(10), spindle_fabric::Address(0));
    assert_eq!(network.path_count(far.0, far.1), 16);
    let delays = network.route_on_path(far.0, far.1, 7);
    let delays = delays.iter().map(|l| network.link(*l).spec.delay);
    assert!(delays.eq([Duration::from_micros(4800); 5]));
}

#[test]
fn parts_default_to_twenty_runs_over_all_seeds() {
    let parts = |head: &str| read(&format!("{head}\n{}", requests(""))).map(|e| e.parts());
    assert_eq!(parts("").unwrap(), 20);
    assert_eq!(parts("seeds = 8").unwrap(), 3);
    assert_eq!(parts("parts = 1").unwrap(), 1);
    assert_eq!(
        error(&format!("parts = 0\n{}", requests(""))),
        "f.toml:2: parts: found 0, want 1 or more"
    );
}

/// The maximum segment lifetime, which determines the length of TIME-WAIT, is a setting of the host.
#[test]
fn msl_is_read_and_reaches_the_configuration() {
    let e = read(&format!("{}\n[scenario]\nmsl = \"5ms\"\n", requests(""))).unwrap();
    let host = &e.points[0].scenario.host;
    let registry = crate::registry::Registry::standard();
    let config = crate::hosts::configure(registry.find("tcp").unwrap(), host);
    assert_eq!(config.tcp.msl, Duration::from_millis(5));
    let least = error(&format!("{}\n[scenario]\nmsl = \"-5ms\"\n", requests("")));
    assert!(least.starts_with("f.toml:10: scenario.msl:"), "{least}");
}

/// The limit is a setting of the host and reaches every transport's configuration.
#[test]
fn output_limit_is_read_and_reaches_the_configuration() {
    let text = |limit: &str| format!("{}\n[scenario]\noutput_limit = \"{limit}\"\n", requests(""));
    let e = read(&text("128KiB")).unwrap();
    let host = &e.points[0].scenario.host;
    assert_eq!(host.output_limit, Some(131_072));
    let tcp = crate::registry::Registry::standard()
        .find("tcp")
        .unwrap()
        .clone();
    let config = crate::hosts::configure(&tcp, host);
    assert_eq!(config.tcp.output_limit, Some(131_072));
    assert_eq!(
        read(&requests("")).unwrap().points[0]
            .scenario
            .host
            .output_limit,
        None
    );
    assert_eq!(
        error(&text("1000B")),
        "f.toml:10: scenario.output_limit: found 1000 bytes, want one segment (1460 B) or more"
    );
}

#[test]
fn host_ports_mark_from_host_ecn_threshold_on() {
    let text = |name: &str| {
        format!(
            "traffic = {{ kind = \"none\" }}\n[topology]\nname = \"{name}\"\nhost_ecn_threshold = \
             \"32KB\"\n"
        )
    };
    for name in ["fuso-testbed", "fuso-sim", "fat-tree"] {
        let e = read(&text(name)).unwrap();
        let topology = &e.points[0].scenario.topology;
        let network = topology.build().unwrap();
        let uplink = network.uplink(spindle_fabric::Address(0));
        let mark = network.link(uplink).spec.mark_above;
        assert_eq!(mark, Some(spindle_units::Bytes(32_000)), "{name}");
    }
    assert_eq!(
        error(&text("dumbbell")),
        "f.toml:5: topology.host_ecn_threshold: has no meaning here, want it in fuso-testbed, \
         fuso-sim, fat-tree, file"
    );
}

#[test]
fn priorities_setting_applies_to_all_ports() {
    let text = |name: &str| {
        format!(
            "traffic = {{ kind = \"none\" }}\n[topology]\nname = \"{name}\"\npriorities = true\n"
        )
    };
    for name in [
        "fuso-testbed",
        "fuso-sim",
        "cofuso-sim",
        "dumbbell",
        "fat-tree",
    ] {
        let e = read(&text(name)).unwrap();
        let topology = &e.points[0].scenario.topology;
        let network = topology.build().unwrap();
        let has = |l| network.link(l).spec.priorities;
        assert!(has(network.downlink(spindle_fabric::Address(0))), "{name}");
        assert!(has(network.uplink(spindle_fabric::Address(0))), "{name}");
    }
    assert_eq!(
        error(&text("dual-homed")),
        "f.toml:5: topology.priorities: has no meaning here, want it in fuso-testbed, fuso-sim, cofuso-sim, \
         dumbbell, fat-tree, leaf-spine, file"
    );
}

#[test]
fn paths_of_a_dual_homed_client_have_the_rates_and_round_trips_of_the_file() {
    let text = |keys: &str| {
        format!(
            "traffic = {{ kind = \"none\" }}\n[topology]\nname = \"dual-homed\"\nrate = \"100Mbps\"\n\
             rtt = \"60ms\"\n{keys}\n"
        )
    };
    let links = |keys: &str| {
        let e = read(&text(keys)).unwrap();
        let network = e.points[0].scenario.topology.build().unwrap();
        [0, 1, 2].map(|host| {
            let spec = &network
                .link(network.uplink(spindle_fabric::Address(host)))
                .spec;
            (spec.rate.0, spec.delay.as_micros())
        })
    };
    let rates = "path_rates = [\"0.3Mbps\", \"8.6Mbps\"]";
    let rtts = "path_rtts = [\"20ms\", \"200ms\"]";
    let (all, rate) = (15_000, 100_000_000);
    assert_eq!(links(""), [(rate, all); 3]);
    let expected = [(300_000, all), (8_600_000, all), (rate, all)];
    assert_eq!(links(rates), expected);
    // Half of each round trip is 10 or 100 ms, of which the server's link has 5 ms.
    let expected = [(rate, 5_000), (rate, 95_000), (rate, 5_000)];
    assert_eq!(links(rtts), expected);
    assert_eq!(
        error(&text("path_rates = [\"1Mbps\"]")),
        "f.toml:7: topology.path_rates: found 1 values, want one for each of the 2 paths"
    );
    assert_eq!(
        error(&text("path_rates = [\"1Mbps\", \"0bps\"]")),
        "f.toml:7: topology.path_rates: found 0, want a rate above 0 such as \"8.6Mbps\""
    );
}

#[test]
fn host_speedup_multiplies_the_rate_of_the_hosts_links_only() {
    let text = |name: &str, speedup: &str| {
        format!(
            "traffic = {{ kind = \"none\" }}\n[topology]\nname = \"{name}\"\nrate = \"1Gbps\"\n\
             host_speedup = {speedup}\n"
        )
    };
    for (name, between_switches) in [
        ("leaf-spine", "leaf0-*"),
        ("fat-tree", "pod0.agg*"),
        ("dumbbell", "bottleneck"),
    ] {
        let e = read(&text(name, "2.5")).unwrap();
        let network = e.points[0].scenario.topology.build().unwrap();
        let rate = |link| network.link(link).spec.rate.0;
        let host = spindle_fabric::Address(0);
        let ends = [network.uplink(host), network.downlink(host)];
        assert_eq!(ends.map(rate), [2_500_000_000; 2], "{name}");
        let links = network.links_matching(between_switches).unwrap();
        assert!(
            links.into_iter().all(|l| rate(l) == 1_000_000_000),
            "{name}"
        );
    }
    assert_eq!(
        error(&text("dual-homed", "2.5")),
        "f.toml:6: topology.host_speedup: has no meaning here, want it in fuso-sim, dumbbell, fat-tree, \
         leaf-spine, shared-paths, file"
    );
    assert_eq!(
        error(&text("leaf-spine", "0")),
        "f.toml:6: topology.host_speedup: found 0, want a factor above 0 and at most 10000, such as 2.5"
    );
}

#[test]
fn fat_trees_can_be_oversubscribed() {
    let wide = "topology = { name = \"fat-tree\", k = 4, hosts_per_edge = 3 }\n\
                traffic = { kind = \"none\" }";
    let e = read(wide).unwrap();
    let topology = &e.points[0].scenario.topology;
    let network = topology.build().unwrap();
    assert_eq!(network.hosts(), 24);
    let e = error(
        "topology = { name = \"fat-tree\", hosts_per_edge = 0 }\ntraffic = { kind = \"none\" }",
    );
    assert_eq!(
        e,
        "f.toml:2: topology.hosts_per_edge: found 0, want 1 to 8192 with k = 4"
    );
}

#[test]
fn loads_are_rates_or_shares_of_a_capacity() {
    let load = |keys: &str| {
        let e = read(&requests(keys)).unwrap();
        {
            let r: &Requests = first_traffic(&e);
            r.arrivals
        }
    };
    let of = |bps| Arrivals::Poisson(BitRate(bps));
    assert_eq!(load("load = \"10Mbps\""), of(10_000_000));
    let share = "capacity = \"640Gbps\"\nload = ";
    assert_eq!(load(&format!("{share}\"50%\"")), of(320_000_000_000));
    assert_eq!(load(&format!("{share}0.9")), of(576_000_000_000));

    assert_eq!(
        error(&requests("load = \"50%\"")),
        "f.toml:8: traffic.load: a share, but capacity is missing, want it as a rate such as \
         \"3Gbps\""
    );
    assert_eq!(
        error(&requests("load = \"150%\"")),
        "f.toml:8: traffic.load: found \"150%\", want a rate such as \"10Mbps\" or a share of the \
         capacity such as \"50%\""
    );
    assert_eq!(
        error(&requests("capacity = \"3Gbps\"\nload = \"10Mbps\"")),
        "f.toml:8: traffic.capacity: given without a load that is a share of it, such as load = \
         \"50%\""
    );
    let e = error(&requests("capacity = \"3Gbps\"\nload = \"0%\""));
    assert_eq!(e, "f.toml:9: traffic.load: found 0, want more");
}

#[test]
fn background_needs_a_size_and_a_known_transport() {
    let background = |keys: &str| {
        let e = read(&requests(keys)).unwrap();
        {
            let r: &Requests = first_traffic(&e);
            r.background.clone()
        }
    };
    let of = |transport: Option<&str>| {
        Some(Background {
            from: 100_000,
            transport: transport.map(str::to_owned),
        })
    };
    let from = "background_from = \"100KB\"\n";
    assert_eq!(background(""), None);
    assert_eq!(background(from), of(Some("tcp")));
    let named = |name: &str| background(&format!("{from}background = \"{name}\""));
    assert_eq!(named("fuso"), of(Some("fuso")));
    assert_eq!(named("fuso+roundrobin"), of(Some("fuso+roundrobin")));
    assert_eq!(named("same"), of(None));

    assert_eq!(
        error(&requests(&format!("{from}background = \"fusoo\""))),
        "f.toml:9: traffic.background: found \"fusoo\", want one of same, tcp, fuso, did you mean \
         \"fuso\"?"
    );
    assert_eq!(
        error(&requests("background = \"tcp\"")),
        "f.toml:8: traffic.background: given without background_from, want that size as well, \
         such as \"100KB\""
    );
    assert_eq!(
        error(&requests(&format!("{from}below = \"100KB\""))),
        "f.toml:9: traffic.below: given together with background_from, want only one of them"
    );
}

#[test]
fn hosts_are_named_by_patterns_and_need_a_partner_other_than_themselves() {
    let traffic = |clients: &str, servers: &str| {
        format!(
            "{SIM}[traffic]\nkind = \"requests\"\nsizes = \"10KB\"\nclients = {clients}\nservers \
             = {servers}"
        )
    };
    let hosts = |clients: &str, servers: &str| {
        let e = read(&traffic(clients, servers)).unwrap();
        {
            let r: &Requests = first_traffic(&e);
            (r.clients.len(), r.servers.len())
        }
    };
    assert_eq!(hosts("\"all\"", "\"all\""), (64, 64));
    assert_eq!(hosts("[\"h0-h7\", \"h9\"]", "[\"h1?\"]"), (9, 10));

    let e = error(&traffic("[\"h0-h7\", \"h7\"]", "\"all\""));
    assert_eq!(
        e,
        "f.toml:6: traffic.clients: h7 is in it twice, want each host once"
    );
    let e = error(&traffic("[\"h0\"]", "[\"h0\"]"));
    assert_eq!(
        e,
        "f.toml:7: traffic.servers: h0 would have to ask itself, want another host for it"
    );
    let e = error(&traffic("[\"x*\"]", "\"all\""));
    assert!(
        e.starts_with(
            "f.toml:6: traffic.clients: found \"x*\", which is no host here; there are h0,"
        ),
        "{e}"
    );
}

#[test]
fn lossy_links_are_read_with_number_rates_and_locations() {
    let model = |keys: &str| {
        let e = read(&lossy(keys)).unwrap();
        let model = &e.points[0].scenario.loss[0].model;
        model.lossy_links().unwrap().clone()
    };
    // 5% of 96 cables are 4.8.
    assert_eq!(model("share = \"5%\"").links, 5);
    let all =
        model("links = 7\nrates = \"below-10%\"\nlocations = { access = \"30%\", edge-agg = 0.7 }");
    assert_eq!((all.links, all.rates), (7, LossRates::Below10));
    let locations = [("access".to_owned(), 0.3), ("edge-agg".to_owned(), 0.7)];
    assert_eq!(all.locations, locations);

    assert_eq!(
        model("links = 4\nrate = \"15%\"").rates,
        LossRates::Same(0.15)
    );
    assert_eq!(
        error(&lossy("links = 4\nrate = \"15%\"\nrates = \"production\"")),
        "f.toml:7: loss.rate: given together with rates, want only one of them"
    );

    assert_eq!(
        error(&lossy("")),
        "f.toml:4: loss.links: missing, want how many cables are lossy, such as 5, or a share of \
         them such as share = \"5%\""
    );
    assert_eq!(
        error(&lossy("links = 97")),
        "f.toml:6: loss.links: makes 97 lossy cables of 96, want 1 or more of them"
    );
    assert_eq!(
        error(&lossy("links = 5\nshare = \"5%\"")),
        "f.toml:7: loss.share: given together with links, want only one of them"
    );
    assert_eq!(
        error(&lossy("links = 5\nrates = \"belov-60%\"")),
        "f.toml:7: loss.rates: found \"belov-60%\", want one of production, below-60%, below-10%, \
         did you mean \"below-60%\"?"
    );
    assert_eq!(
        error(&lossy("links = 5\nlocations = { acces = \"100%\" }")),
        "f.toml:7: loss.locations.acces: no such group of cables, want some of access, agg-core, \
         edge-agg, did you mean \"access\"?"
    );
    assert_eq!(
        error(&lossy("links = 5\nlocations = { access = \"90%\" }")),
        "f.toml:7: loss.locations: the shares sum to 90%, want 100%"
    );
    assert_eq!(
        error(&lossy("links = 5\nlocations = \"edge\"")),
        "f.toml:7: loss.locations: found \"edge\", want a table of groups and shares such as { \
         access = \"22%\" }"
    );
    assert_eq!(
        error(&lossy("links = 5\non = \"access:h0-h3\"")),
        "f.toml:6: loss.links: makes 5 lossy cables of 4, want 1 or more of them"
    );
}

#[test]
fn an_axis_may_set_several_keys_at_once() {
    let cases = "[sweep]\ncase = [{ name = \"a\", load = \"1Mbps\", \"traffic.flows\" = 7 }, { name \
                 = \"b\" }]\nsize = [\"10KB\", \"20KB\"]\n";
    let e = read(&format!("{}\n{cases}", requests("flows = 3"))).unwrap();
    let seen: Vec<(String, String, u64)> = e
        .points
        .iter()
        .map(|p| {
            let at = |n: usize| p.set[n].1.clone();
            (at(0), at(1), p.scenario.traffic.flows())
        })
        .collect();
    let want = [
        ("a", "10KB", 7),
        ("a", "20KB", 7),
        ("b", "10KB", 3),
        ("b", "20KB", 3),
    ];
    let want = want.map(|(case, size, flows)| (case.to_owned(), size.to_owned(), flows));
    assert_eq!(seen, want);

    let flags = Overrides {
        flows: Some("9".to_owned()),
        ..Overrides::default()
    };
    let e = read_with(&format!("{}\n{cases}", requests("flows = 3")), &flags).unwrap();
    assert!(e.points.iter().all(|p| p.scenario.traffic.flows() == 9));

    let nameless = format!("{}\n[sweep]\ncase = [{{ load = \"1Mbps\" }}]", requests(""));
    assert_eq!(
        error(&nameless),
        "f.toml:10: sweep.case: a table without a name, want name = \"...\" next to the keys that \
         it sets"
    );
}

#[test]
fn traffic_may_be_none() {
    let e = read(&lossy("links = 5")).unwrap();
    assert_eq!(first_traffic::<NoTraffic>(&e), &NoTraffic);
    let e = error(&format!("{SIM}traffic = {{ kind = \"nothing\" }}"));
    assert!(
        e.starts_with(
            "f.toml:3: traffic.kind: found \"nothing\", want one of requests, incast, none"
        ),
        "{e}"
    );
}

/// A formula with these keys from line 5 on. The context knows no transports.
fn formula(keys: &str) -> Result<Experiment, ExperimentError> {
    let text = format!(
        "transports = [\"coded\"]\n[traffic]\nkind = \"formula\"\nformula = \"caps\"\n{keys}"
    );
    let context = Context {
        directory: Path::new("."),
        transports: &[],
        balancers: &[],
        registry: &Registry::standard(),
    };
    Experiment::parse("f.toml", &text, &Overrides::default(), &context)
}

#[test]
fn valid_formulas_are_read_and_invalid_ones_refused() {
    let e = formula("blocking = \"20%\"").unwrap();
    let f = e.points[0].scenario.traffic.formula().unwrap();
    assert_eq!((f.k, f.redundancy, f.window), (None, None, 64));
    assert_eq!(f.conditions.rate, BitRate(1_000_000_000));
    assert!(e.points[0].is_computed());
    let paths = formula("blocked = 2\npaths = 40").unwrap();
    assert!(paths.points[0].is_computed());
    let of_40 = "blocked = 2\npaths = 40\n";
    for (keys, said) in [
        (String::new(), "traffic.blocking: want either it"),
        ("blocked = 2".to_owned(), "both blocked and paths"),
        (format!("{of_40}blocking = \"5%\""), "want either it"),
        ("blocking = \"1\"".to_owned(), "0 to 0.99"),
        ("blocked = 40\npaths = 40".to_owned(), "found 40/40"),
        (
            format!("{of_40}k = 0"),
            "traffic.k: found 0, want 1 to 4096",
        ),
        (format!("{of_40}window = 5000"), "want 1 to 4096"),
        (format!("{of_40}redundancy = 5000"), "want 0 to 4096"),
        (format!("{of_40}rate = \"0bps\""), "a rate above 0"),
        (format!("{of_40}ratio = -1"), "found -1, want 0 or more"),
        (
            format!("{of_40}units = \"hole\""),
            "did you mean \"whole\"?",
        ),
        (format!("{of_40}flows = 3"), "traffic.flows"),
        (
            format!("{of_40}[topology]\nname = \"fuso-sim\""),
            "has no meaning together with a formula",
        ),
        (
            format!("{of_40}[sweep]\n\"traffic.kind\" = [\"formula\", \"none\"]"),
            "topology: missing",
        ),
    ] {
        let error = formula(&keys).expect_err(&keys).to_string();
        assert!(error.contains(said), "{keys}: {error}");
    }
    let text = format!("{SIM}[traffic]\nkind = \"formula\"\nformula = \"caps\"\nblocking = \"5%\"");
    let error = error(&text);
    assert!(error.contains("topology: has no meaning"), "{error}");
    let text = text.replace(SIM, "");
    let missing = read(&text).expect_err("no such series").to_string();
    assert!(
        missing.contains("found \"tcp\", want one of coded, uncoded"),
        "{missing}"
    );
}

#[test]
fn points_of_several_sweeps_follow_each_other() {
    let both =
        "[[sweep]]\nload = [\"1Mbps\", \"2Mbps\"]\n[[sweep]]\nload = [\"3Mbps\"]\nflows = [1, 2]";
    let e = read(&format!("{}\n{both}", requests(""))).unwrap();
    let sets: Vec<String> = e
        .points
        .iter()
        .map(|p| p.set.iter().map(|(a, v)| format!("{a}={v} ")).collect())
        .collect();
    assert_eq!(
        sets,
        [
            "load=1Mbps ",
            "load=2Mbps ",
            "load=3Mbps flows=1 ",
            "load=3Mbps flows=2 "
        ]
    );
    let flags = Overrides {
        set: vec!["traffic.load=9Mbps".to_owned()],
        ..Overrides::default()
    };
    let e = read_with(&format!("{}\n{both}", requests("")), &flags).unwrap();
    assert!(e.points.len() == 3 && e.points.iter().all(|p| p.set[0].1 == "9Mbps"));
    let claim = "[[claims]]\nid = \"c\"\nkind = \"numeric\"\ntext = \"t\"\ntest = \"below\"\n\
                 of = \"tcp\"\nvalue = 1\nwhere = \"flows = 1\"";
    let e = read(&format!("{}\n{both}\n{claim}", requests(""))).unwrap();
    assert_eq!(e.claims.len(), 1, "an axis of the second sweep is known");
    let wrong = error(&format!("{}\nsweep = [1]", SIM));
    assert!(wrong.contains("want a table of axes"), "{wrong}");
}

#[test]
fn scale_replaces_transports_and_seeds() {
    let text = requests("flows = 10\n[scale.full]\ntransports = [\"fuso\", \"tcp\"]\nseeds = 3\n");
    let at = |scale| {
        let overrides = Overrides {
            scale,
            ..Overrides::default()
        };
        let e = read_with(&text, &overrides).unwrap();
        let names: Vec<String> = e.transports.iter().map(ToString::to_string).collect();
        (names.join(" "), e.seeds)
    };
    assert_eq!(at(Some(Scale::Full)), ("fuso tcp".to_owned(), 3));
    assert_eq!(at(Some(Scale::Quick)), ("tcp".to_owned(), 1));
    assert_eq!(at(None), ("tcp".to_owned(), 1));
}

#[test]
fn set_flag_refuses_keys_of_a_scale() {
    let text = requests("flows = 10\n[scale.quick]\nflows = 5\n");
    for set in ["scale.quick.flows=3", "scale=quick"] {
        let flags = Overrides {
            set: vec![set.to_owned()],
            scale: Some(Scale::Quick),
            ..Overrides::default()
        };
        let problem = read_with(&text, &flags).unwrap_err().to_string();
        assert!(problem.contains(&format!("--set {set}")), "{problem}");
        assert!(
            problem.contains("want the key that it stands for, such as traffic.flows"),
            "{problem}"
        );
    }
}
