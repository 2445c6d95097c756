//! Tests whole runs: stacks over the fabric, with the applications of an experiment.

mod support;

use spindle_experiment::Experiment;
use spindle_experiment::registry::Registry;
use spindle_lab::driver::{RunOutput, RunRequest, run};

use support::experiment;

const T1: &str = "topology = { name = \"fuso-testbed\" }\n";

fn go(experiment: &Experiment, payload: Option<&'static [u8]>) -> RunOutput {
    let registry = Registry::standard();
    let scenario = &experiment.points[0].scenario;
    let mut request = RunRequest::new(scenario, &experiment.transports[0], &registry);
    request.payload = payload.map(bytes::Bytes::from_static);
    run(&request).unwrap()
}

fn queries(loss: &str, flows: u32) -> String {
    format!(
        "{T1}[loss]\nrate = \"{loss}\"\non = [\"P1\"]\n\
         [traffic]\nkind = \"requests\"\nclients = [\"H4\", \"H5\"]\nservers = [\"H1\", \"H2\"]\n\
         sizes = \"web-search\"\nbelow = \"100KB\"\nflows = {flows}\n"
    )
}

const TRANSPORTS: [&str; 15] = [
    "tcp",
    "newreno",
    "tlp",
    "rack",
    "proactive",
    "repflow",
    "mptcp",
    "fuso",
    "cofuso",
    "tcp-ir",
    "deadline-reinjection",
    "oracle",
    "ps",
    "mmptcp",
    "spindle",
];

#[test]
fn every_transport_completes_without_loss_and_without_timeouts() {
    for transport in TRANSPORTS {
        let r = go(&experiment(transport, &queries("0%", 60)), None).result;
        assert_eq!(
            (r.flows, r.completed, r.aborted),
            (60, 60, 0),
            "{transport}"
        );
        assert_eq!(
            (r.timeouts, r.flows_with_timeout, r.bytes_corrupted),
            (0, 0, 0),
            "{transport}"
        );
        // A response takes at least a round trip of 280 us, and these sizes take less than 3 ms.
        assert!(
            r.fct_ns.iter().all(|t| (280_000..3_000_000).contains(t)),
            "{transport}"
        );
    }
}

#[test]
fn real_bytes_arrive_intact_and_behave_like_lengths() {
    static BYTES: [u8; 4099] = {
        let mut b = [0; 4099];
        let mut i = 0;
        while i < b.len() {
            b[i] = (i * 31 % 251) as u8;
            i += 1;
        }
        b
    };
    for transport in TRANSPORTS {
        let e = experiment(transport, &queries("10%", 40));
        let (lengths, bytes) = (go(&e, None).result, go(&e, Some(&BYTES)).result);
        assert_eq!(bytes.completed, 40, "{transport}");
        assert!(
            bytes.bytes_delivered > 0 && bytes.bytes_corrupted == 0,
            "{transport}"
        );
        // The whole results are equal: times, counters, events and packet-hops.
        assert_eq!(lengths, bytes, "{transport}");
    }
}

#[test]
fn results_are_reproducible_and_depend_on_the_seed() {
    let e = experiment("fuso", &queries("5%", 50));
    let registry = Registry::standard();
    let mut request = RunRequest::new(&e.points[0].scenario, &e.transports[0], &registry);
    let first = run(&request).unwrap().result;
    assert_eq!(first, run(&request).unwrap().result);
    request.seed = 2;
    assert_ne!(first.fct_ns, run(&request).unwrap().result.fct_ns);
}

#[test]
fn copies_and_second_connections_are_extra_load() {
    let extra = |transport: &str| {
        let r = go(&experiment(transport, &queries("0%", 100)), None).result;
        r.extra_bytes as f64 / r.payload_bytes as f64
    };
    assert_eq!(extra("tcp"), 0.0);
    assert_eq!(extra("mptcp"), 0.0);
    assert!(
        (extra("repflow") - 0.5).abs() < 0.01,
        "{}",
        extra("repflow")
    );
    assert!(
        (extra("proactive") - 0.5).abs() < 0.01,
        "{}",
        extra("proactive")
    );
    assert!((0.05..0.5).contains(&extra("fuso")), "{}", extra("fuso"));
}

#[test]
fn requests_on_new_connections_pay_for_the_handshake() {
    let text = |connections: &str| {
        format!(
            "{T1}[traffic]\nkind = \"requests\"\nclients = [\"H4\"]\nservers = [\"H1\"]\n\
             sizes = \"5KB\"\narrivals = \"sequential\"\nflows = 20\nconnections = \"{connections}\"\n"
        )
    };
    for transport in ["tcp", "repflow", "mptcp"] {
        let mean = |connections: &str| {
            let r = go(&experiment(transport, &text(connections)), None).result;
            assert_eq!(r.completed, 20, "{transport}");
            r.fct_ns.iter().sum::<u64>() / 20
        };
        let (new, warm) = (mean("new"), mean("persistent"));
        assert!(
            (250_000..400_000).contains(&(new - warm)),
            "{transport}: {new} {warm}"
        );
    }
}

#[test]
fn incast_is_complete_when_the_last_answer_is() {
    let text = format!(
        "{T1}[traffic]\nkind = \"incast\"\nclient = \"H1\"\n\
         servers = [\"H2\", \"H3\", \"H4\", \"H5\", \"H6\"]\n\
         fanout = 20\nresponse = \"64KB\"\nrounds = 3\n"
    );
    for transport in ["tcp", "fuso"] {
        let r = go(&experiment(transport, &text), None).result;
        assert_eq!(
            (r.flows, r.completed, r.fct_ns.len()),
            (3, 3, 3),
            "{transport}"
        );
        // 20 answers of 64 000 B need 10.5 ms on the client's link, including headers.
        assert!(
            r.fct_ns.iter().all(|t| *t > 10_400_000),
            "{transport}: {:?}",
            r.fct_ns
        );
        assert_eq!(r.bytes_delivered, 3 * 20 * 64_000);
    }
}

#[test]
fn flows_end_with_an_error_when_no_path_is_left() {
    let text = format!(
        "{T1}[loss]\nmodel = \"black-hole\"\non = [\"H1\"]\nfrom = \"2s\"\n\
         [traffic]\nkind = \"requests\"\nclients = [\"H4\"]\nservers = [\"H1\"]\nsizes = \"10KB\"\n\
         load = \"100kbps\"\nflows = 20\n[scenario]\nuser_timeout = \"5s\"\n"
    );
    for transport in ["tcp", "fuso"] {
        let r = go(&experiment(transport, &text), None).result;
        assert_eq!(r.completed + r.aborted, 20, "{transport}: {r:?}");
        assert!(r.completed > 0 && r.aborted > 0, "{transport}: {r:?}");
    }
}

#[test]
fn flows_complete_over_every_balancer() {
    let registry = Registry::standard();
    let mut times = Vec::new();
    for name in registry.balancer_names() {
        let e = experiment(&format!("tcp@{name}"), &queries("0%", 30));
        let request = RunRequest::new(&e.points[0].scenario, &e.transports[0], &registry);
        let result = run(&request).unwrap().result;
        assert_eq!(result.completed, 30, "{name}");
        times.push((name, result.fct_ns));
    }
    // There is only one class, so priorities change nothing.
    let of = |name: &str| &times.iter().find(|(n, _)| n == name).unwrap().1;
    assert_eq!(of("rps"), of("rps-pq"));
    assert_eq!(of("caps-dark"), of("caps-dark-pq"));
}

#[test]
fn losses_in_one_direction_do_not_affect_the_other() {
    // Losses of data on the way out of the servers cause timeouts. Without losses there are none.
    let text = queries("20%", 40).replace(
        "[\"P1\"]",
        "[\"H1\", \"H2\"]\ndirection = \"forward\"\ndata_only = true",
    );
    let lost = go(&experiment("tcp", &text), None).result;
    let clean = go(&experiment("tcp", &queries("0%", 40)), None).result;
    assert_eq!(lost.completed, 40);
    assert!(lost.flows_with_timeout > 5 && clean.flows_with_timeout == 0);
    assert!(lost.payload_bytes > clean.payload_bytes);
    // In the other direction only acknowledgements and small requests travel.
    let back = text.replace("forward", "backward").replace("20%", "5%");
    let back = go(&experiment("tcp", &back), None).result;
    assert!(back.payload_bytes < clean.payload_bytes * 101 / 100);
}

#[test]
fn losses_cost_the_oracle_no_timeout_and_hardly_any_time() {
    let mean = |r: &spindle_experiment::metrics::RunResult| {
        r.fct_ns.iter().sum::<u64>() as f64 / r.fct_ns.len() as f64
    };
    let run = |name, loss| go(&experiment(name, &queries(loss, 300)), None).result;
    let (clean, lossy) = (run("oracle", "0%"), run("oracle", "8%"));
    assert_eq!(
        (lossy.completed, lossy.timeouts, lossy.late_timeouts),
        (300, 0, 0)
    );
    assert!(mean(&lossy) < 1.05 * mean(&clean));
    let fuso = run("fuso", "8%");
    assert!(mean(&lossy) < mean(&fuso), "the oracle is a bound");
}

#[test]
fn dctcp_uses_its_exact_echo_however_it_was_chosen() {
    use spindle_mptcp::EcnMode;
    let registry = Registry::standard();
    let echo = |name: &str, more: &str| {
        let text = format!("{}[scenario]\necn = true\n{more}", queries("0%", 1));
        let host = &experiment("tcp", &text).points[0].scenario.host;
        let transport = registry.find(name).unwrap();
        spindle_experiment::hosts::configure(transport, host)
            .tcp
            .ecn
    };
    assert_eq!(echo("mptcp", ""), EcnMode::Classic);
    assert_eq!(echo("mptcp+dctcp", ""), EcnMode::Dctcp);
    assert_eq!(echo("mptcp", "congestion = \"dctcp\"\n"), EcnMode::Dctcp);
    assert_eq!(echo("dctcp", "congestion = \"reno\"\n"), EcnMode::Classic);
}
