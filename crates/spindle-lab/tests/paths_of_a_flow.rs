//! The paths that a recorded flow's subflows have in the trace.

use spindle_experiment::registry::Registry;
use spindle_experiment::{Overrides, library};
use spindle_lab::driver::{self, RunRequest};

/// The paths of flow 0 of an experiment's first point, with a few flows.
fn paths(id: &str, transport: &str) -> Vec<String> {
    let registry = Registry::standard();
    let overrides = Overrides {
        transports: Some(transport.to_owned()),
        flows: Some("20".to_owned()),
        ..Overrides::default()
    };
    let experiment = library::find(id)
        .unwrap()
        .read(&registry, &overrides)
        .unwrap();
    let point = &experiment.points[0];
    let mut request = RunRequest::new(&point.scenario, &experiment.transports[0], &registry);
    request.record = Some(0);
    let trace = driver::run(&request).unwrap().trace(&request).unwrap();
    assert_eq!(trace.paths.len(), usize::from(trace.subflows));
    trace.paths
}

#[test]
fn path_of_a_subflow_is_named_by_the_link_that_other_subflows_do_not_share() {
    let found = paths("fuso-fig4ab", "mptcp");
    assert!(found.len() > 1, "{found:?}");
    for path in &found {
        assert!(path.starts_with('P'), "{found:?}");
    }
    let first = &found[0];
    assert!(found.iter().any(|path| path != first), "{found:?}");
}

#[test]
fn path_of_a_single_subflow_is_named_by_the_links_between_switches() {
    let found = paths("fuso-fig4ab", "tcp");
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with('P'), "{found:?}");
}

#[test]
fn subflow_of_a_balancer_that_chooses_for_each_packet_is_named_by_its_endpoints() {
    let found = paths("fuso-fig4ab", "tcp@rps");
    let (from, to) = found[0].split_once(" to ").unwrap();
    for end in [from, to] {
        let _: std::net::SocketAddr = end.parse().unwrap();
    }
}

#[test]
fn subflow_whose_packets_choose_their_paths_is_named_by_its_endpoints() {
    let found = paths("fuso-fig4ab", "reps");
    assert!(found[0].contains(" to "), "{found:?}");
}
