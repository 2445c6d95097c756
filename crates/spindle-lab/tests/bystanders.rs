//! Flows of two transports in the same network.

mod support;

use spindle_experiment::metrics::{BystandersOfRun, RunResult};
use spindle_experiment::registry::Registry;
use spindle_lab::driver::{RunRequest, run};

use support::experiment;

const FLOWS: u64 = 300;

fn go(transport: &str, connections: &str, bystanders: &str) -> RunResult {
    let text = format!(
        "topology = {{ name = \"fuso-testbed\" }}\nloss = {{ on = [\"P1\"], rate = \"2%\" }}\n\
         [traffic]\nkind = \"requests\"\nclients = [\"H4\", \"H5\"]\nservers = [\"H1\", \"H2\"]\n\
         load = \"10%\"\ncapacity = \"3Gbps\"\nsizes = \"web-search\"\nbelow = \"100KB\"\nflows = {FLOWS}\n\
         {connections}\n{bystanders}"
    );
    let experiment = experiment(transport, &text);
    let registry = Registry::standard();
    let scenario = &experiment.points[0].scenario;
    let request = RunRequest::new(scenario, &experiment.transports[0], &registry);
    run(&request).unwrap().result
}

fn with_bystanders(transport: &str, share: &str) -> String {
    format!("[bystanders]\ntransport = \"{transport}\"\nshare = \"{share}\"\n")
}

fn bystanders(r: &RunResult) -> &BystandersOfRun {
    r.observed.bystanders.as_ref().expect("bystanders")
}

#[test]
fn every_flow_is_measured_once_under_its_own_transport() {
    for connections in ["connections = \"new\"", "connections = \"persistent\""] {
        let r = go("proactive", connections, &with_bystanders("tcp", "50%"));
        let others = bystanders(&r);
        assert_eq!(r.flows + others.flows, FLOWS);
        assert!((60..240).contains(&others.flows), "{}", others.flows);
        assert_eq!(r.completed, r.flows);
        assert_eq!(others.fct_ns.len() as u64, others.flows);
        assert!(others.goodput_sum_bps > 0.0);
        // Proactive sends every segment twice. If bystanders' bytes were counted, the share would be lower.
        let extra = r.extra_bytes as f64 / r.payload_bytes as f64;
        assert!(extra > 0.45, "{connections}: {extra}");
    }
}

#[test]
fn share_of_zero_changes_nothing_and_a_share_of_one_leaves_nothing_to_the_transport_under_test() {
    let new = "connections = \"new\"";
    let mut none = go("tcp", new, &with_bystanders("rack", "0%"));
    assert_eq!(bystanders(&none).flows, 0);
    none.observed.bystanders = None;
    assert_eq!(none, go("tcp", new, ""));
    let [fuso, tcp] = ["fuso", "tcp"].map(|t| go(t, new, &with_bystanders("rack", "100%")));
    assert_eq!((fuso.flows, bystanders(&fuso).flows), (0, FLOWS));
    assert_eq!(bystanders(&fuso), bystanders(&tcp));
}

#[test]
fn same_flows_are_bystanders_under_every_transport() {
    let new = "connections = \"new\"";
    let count = |transport| bystanders(&go(transport, new, &with_bystanders("rack", "10%"))).flows;
    let tcp = count("tcp");
    for transport in ["repflow", "mptcp", "fuso"] {
        assert_eq!(count(transport), tcp, "{transport}");
    }
}
