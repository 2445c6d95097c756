//! The papers' scenarios in addition to the queries on FUSO's testbed: background traffic, the simulated
//! networks, links drawn to be lossy, incast.

mod once;
mod support;

use spindle_experiment::registry::Registry;
use spindle_experiment::{Overrides, library};
use spindle_lab::sweep::{Options, execute};

use once::run_once;

/// Fig 5 on a small scale.
fn background(transport: &str) -> String {
    format!(
        "topology = {{ name = \"fuso-testbed\" }}\nloss = {{ on = [\"P1\"], rate = \"2%\" }}\n\
         [traffic]\nkind = \"requests\"\nclients = [\"H4\", \"H5\"]\nservers = [\"H1\", \"H2\"]\n\
         load = \"30%\"\ncapacity = \"3Gbps\"\nsizes = \"web-search\"\nflows = 60\n\
         background_from = \"100KB\"\nbackground = \"{transport}\"\n"
    )
}

const SIM: &str = "topology = { name = \"fuso-sim\" }\n\
     [loss]\nmodel = \"lossy-links\"\nshare = \"5%\"\n\
     locations = { access = \"22%\", edge-agg = \"24%\", agg-core = \"54%\" }\n\
     [scenario]\nuser_timeout = \"10000s\"\n\
     [traffic]\nkind = \"requests\"\nclients = \"all\"\nservers = \"all\"\n\
     sizes = \"web-search\"\nbelow = \"100KB\"\nflows = 80\nload = \"1%\"\ncapacity = \"640Gbps\"\n";

#[test]
fn background_is_measured_separately_and_equal_under_every_transport() {
    let mut seen = None;
    for transport in ["tcp", "repflow", "proactive", "mptcp", "fuso"] {
        let r = run_once(transport, &background("tcp"), 1);
        assert_eq!(r.flows + r.background.flows, 60, "{transport}");
        assert_eq!(
            (r.completed, r.background.completed),
            (r.flows, r.background.flows)
        );
        assert_eq!((r.aborted, r.background.aborted), (0, 0));
        assert_eq!(r.fct_ns.len() as u64, r.flows);
        assert!(r.background.goodput_sum_bps > 0.0);
        let same = *seen.get_or_insert((r.flows, r.background.flows, r.bytes_delivered));
        assert_eq!(
            same,
            (r.flows, r.background.flows, r.bytes_delivered),
            "{transport}"
        );
        // Queries are below 100 KB, so the bytes sent for each are below 250 KB, even if it is sent twice with
        // repeats.
        assert!(
            r.payload_bytes < r.flows * 250_000,
            "{transport}: {}",
            r.payload_bytes
        );
    }
    // 45.6 % of web search's requests are of 100 KB and more (mechanisms C1).
    let (queries, background, _) = seen.unwrap();
    assert!((15..=40).contains(&background), "{queries} {background}");
}

#[test]
fn the_background_has_its_own_transport() {
    let tcp = run_once("fuso", &background("tcp"), 3);
    let same = run_once("fuso", &background("same"), 3);
    assert_eq!(tcp.background.completed, same.background.completed);
    assert_ne!(
        tcp.background.goodput_sum_bps,
        same.background.goodput_sum_bps
    );
    // 10 MB are transferred faster over four paths than over one.
    assert!(same.background.goodput_sum_bps > tcp.background.goodput_sum_bps);
    let plain = run_once("tcp", &background("tcp"), 3);
    let named = run_once("tcp", &background("same"), 3);
    assert_eq!(plain, named);
}

#[test]
fn extra_load_is_also_measured_per_flow() {
    for (transport, low, high) in [
        ("tcp", 0.0, 0.0),
        ("proactive", 0.45, 0.501),
        ("repflow", 0.45, 0.501),
        ("fuso", 0.2, 0.501),
    ] {
        let r = run_once(transport, &background("tcp"), 2);
        let mean = r.flow_extra_sum / r.flow_extra_count as f64;
        assert!((low..=high).contains(&mean), "{transport} {mean}");
        let most = r.flows * if transport == "repflow" { 2 } else { 1 };
        assert!(r.flow_extra_count <= most && r.flow_extra_count > most / 2);
    }
}

#[test]
fn lossy_links_are_drawn_for_each_run_and_not_for_each_transport() {
    let lossy = |transport: &str, seed| run_once(transport, SIM, seed).lossy;
    let first = lossy("tcp", 1);
    assert_eq!(first.len(), 5);
    assert!(first.iter().all(|c| (0.01..=0.6).contains(&c.rate)));
    assert_eq!(first, lossy("fuso-8", 1));
    assert_ne!(first, lossy("tcp", 2));
}

#[test]
fn runs_in_the_simulated_network_complete_and_are_reproducible() {
    for transport in ["tcp", "mptcp-8", "fuso-8"] {
        let r = run_once(transport, SIM, 4);
        assert_eq!((r.flows, r.completed), (80, 80), "{transport}");
        assert_eq!(r, run_once(transport, SIM, 4), "{transport}");
        // At least 240 us between pods, slightly less within one.
        assert!(r.fct_ns.iter().all(|t| *t > 80_000));
    }
}

/// A drawn link loses no packets while connections are opened, even at a rate that no handshake would survive.
#[test]
fn drawn_links_lose_packets_only_during_the_measurement() {
    let worst = SIM
        .replace(
            "share = \"5%\"",
            "links = 64\non = \"access\"\nrates = \"production\"",
        )
        .replace(
            "locations = { access = \"22%\", edge-agg = \"24%\", agg-core = \"54%\" }\n",
            "",
        )
        .replace("10000s", "2s");
    let r = run_once("tcp", &worst, 1);
    assert_eq!(r.lossy.len(), 64);
    // Not all flows complete, but each had a connection: no flow is aborted when it is issued.
    assert!(r.timeouts > 0 && r.completed > 0, "{r:?}");
    let clean = run_once(
        "tcp",
        &worst.replace("rates = \"production\"", "rates = \"below-10%\""),
        1,
    );
    assert_eq!(clean.completed, clean.flows);
}

#[test]
fn a_run_without_traffic_only_draws_lossy_links() {
    let text = "topology = { name = \"fuso-sim\" }\ntraffic = { kind = \"none\" }\n\
                [loss]\nmodel = \"lossy-links\"\nlinks = 5\nrates = \"production\"\n";
    let r = run_once("tcp", text, 1);
    assert_eq!((r.flows, r.completed, r.lossy.len()), (0, 0, 5));
    assert_eq!(r.packet_hops, 0);
}

#[test]
fn incast_rounds_take_at_least_the_transmission_time() {
    let text = "topology = { name = \"fuso-testbed\" }\n[traffic]\nkind = \"incast\"\n\
                client = \"H1\"\nservers = [\"H2-H6\"]\nfanout = 30\nresponse = \"64KB\"\n\
                rounds = 2\n";
    for transport in ["tcp", "fuso"] {
        let r = run_once(transport, text, 1);
        assert_eq!((r.flows, r.completed), (2, 2), "{transport}");
        // 30 times 64 000 bytes at 1 Gbps.
        assert!(
            r.fct_ns.iter().all(|t| *t > 15_360_000),
            "{transport} {:?}",
            r.fct_ns
        );
        assert!(
            r.fct_ns.iter().all(|t| *t < 40_000_000),
            "{transport} {:?}",
            r.fct_ns
        );
    }
}

/// Fig 13 of the CoFUSO paper on a small scale.
const MESH: &str = "topology = { name = \"cofuso-sim\" }\n\
     [loss]\nmodel = \"lossy-links\"\nlinks = 4\nrate = \"20%\"\non = \"mesh\"\n\
     direction = \"backward\"\ndata_only = true\n\
     [scenario]\ninitial_window_per_subflow = 10\nmin_rto = \"200ms\"\necn = false\n\
     [traffic]\nkind = \"requests\"\nclients = [\"H1\"]\nservers = [\"H11\"]\n\
     pairing = \"one-to-one\"\narrivals = \"sequential\"\nsizes = \"40KB\"\n\
     connections = \"new\"\nask = \"when-joined\"\nflows = 40\n";

#[test]
fn four_links_of_the_mesh_lose_the_same_share_under_every_transport() {
    let mut seen = None;
    for transport in [
        "reactive",
        "corrective",
        "repflow",
        "fuso-5",
        "cofuso",
        "cofuso-fixed-8",
    ] {
        let r = run_once(transport, MESH, 1);
        assert_eq!((r.flows, r.completed), (40, 40), "{transport}");
        assert_eq!(r.lossy.len(), 4);
        assert!(r.lossy.iter().all(|l| l.group == "mesh" && l.rate == 0.2));
        let lossy = seen.get_or_insert_with(|| r.lossy.clone());
        assert_eq!(&r.lossy, lossy, "{transport}");
        // The request travels to the server, and all data fits in one window: at least one round trip.
        assert!(r.fct_ns.iter().all(|t| *t > 48_000_000), "{transport}");
    }
}

/// A set-up with joins does not affect the flow that follows: the request before it has no response data.
#[test]
fn joins_need_no_data_from_the_server() {
    let clean = MESH.replace("\"20%\"", "\"0%\"");
    for transport in ["reactive", "mptcp-5"] {
        let r = run_once(transport, &clean, 1);
        assert_eq!(r.bytes_delivered, 40 * 40_000, "{transport}");
        // 27.4 packets fit into the windows of three subflows, but not into that of one.
        let (least, most) = match transport {
            "reactive" => (96_000_000, 98_000_000),
            _ => (48_000_000, 51_000_000),
        };
        assert!(
            r.fct_ns.iter().all(|t| (least..most).contains(t)),
            "{transport} {:?}",
            r.fct_ns
        );
    }
}

/// 64 KB times the fan-out at 1 Gbps: 15.36 ms at a fan-out of 30.
#[test]
fn incast_round_of_fuso_fig6_is_no_faster_than_the_wire() {
    let file = library::find("fuso-fig6").unwrap();
    let overrides = Overrides {
        seeds: Some("1".to_owned()),
        transports: Some("tcp,tlp,repflow,proactive,mptcp,fuso".to_owned()),
        set: vec![
            "traffic.rounds=1".to_owned(),
            "sweep.fanout=[30]".to_owned(),
        ],
        ..Overrides::default()
    };
    let registry = Registry::standard();
    let experiment = file.read(&registry, &overrides).unwrap();
    let result = execute(&experiment, &registry, &Options::default()).unwrap();
    for transport in &result.points[0] {
        let times = transport.runs.iter().flat_map(|run| &run.fct_ns);
        let fastest = times.min().unwrap();
        assert!(*fastest > 15_360_000, "{}: {fastest} ns", transport.name);
    }
}
