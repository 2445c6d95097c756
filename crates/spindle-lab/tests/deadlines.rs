//! Deadlines of responses: the sender's recovery policy knows them, and late flows are counted.

use std::path::Path;

use spindle_experiment::metrics::{DeadlinesOfFlows, RunResult};
use spindle_experiment::registry::Registry;
use spindle_experiment::{Overrides, library};
use spindle_lab::driver::{RunRequest, run};

/// A response of ten full packets, one window, whose fifth packet is lost. Its retransmission leaves after one round
/// trip of 50 ms and arrives after two.
fn go(transport: &str, keys: &str) -> RunResult {
    let registry = Registry::standard();
    let text = format!(
        "transports = [\"{transport}\"]\n\
         loss = {{ model = \"response\", packet = 5 }}\n\
         topology = {{ name = \"dumbbell\", rate = \"1Gbps\", rtt = \"50ms\", buffer = \"5400KB\", \
         ecn_threshold = \"0B\" }}\n\
         scenario = {{ initial_window = 10, min_rto = \"200ms\", ecn = false }}\n\
         [traffic]\nkind = \"requests\"\nclients = [\"R1\"]\nservers = [\"S1\"]\n\
         pairing = \"one-to-one\"\narrivals = \"sequential\"\nsizes = {{ packets = 10 }}\n\
         connections = \"persistent\"\nper_pair = 1\nidle = \"2s\"\nflows = 1\n{keys}"
    );
    let file = ("t.toml", text.as_str());
    let experiment =
        library::parse(&registry, file, Path::new("."), &Overrides::default()).unwrap();
    let scenario = &experiment.points[0].scenario;
    let request = RunRequest::new(scenario, &experiment.transports[0], &registry);
    run(&request).unwrap().result
}

#[test]
fn retransmission_shortly_before_the_deadline_of_the_response_is_copied() {
    let extra = |keys| go("hairpin", keys).extra_bytes / 1460;
    assert_eq!(extra(""), 0, "no deadline");
    assert_eq!(extra("deadline = \"1s\""), 0, "time for another");
    // One loss of some 80 packets: 125, 3.6 and 3.02 packets and weighted misses for one to three copies.
    assert_eq!(extra("deadline = \"110ms\""), 2, "the last round trip");
    assert_eq!(extra("deadline = \"60ms\""), 0, "too late");
}

#[test]
fn flows_that_take_longer_than_their_deadline_are_counted_as_missed() {
    let missed = |keys| go("rack", keys).observed.deadlines;
    let counted = |missed| Some(DeadlinesOfFlows { flows: 1, missed });
    assert_eq!(missed("deadline = \"90ms\""), counted(1));
    assert_eq!(missed("deadline = \"150ms\""), counted(0));
    assert_eq!((missed(""), missed("priority = 1")), (None, None));
}
