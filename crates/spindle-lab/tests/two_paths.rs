//! CoFUSO's testbed (section 6.1): subflows are spread unevenly over two paths, a chosen packet of each
//! response is lost, and the tests check what proactive recovery does.

use std::path::Path;

use spindle_experiment::metrics::RecoveryOfFlows;
use spindle_experiment::registry::Registry;
use spindle_experiment::{Overrides, library};
use spindle_lab::driver::{RunOutput, RunRequest, run};

/// A response of 29 full packets over three windows of ten, on a warm or a new connection.
fn go(transport: &str, loss: &str, traffic: &str) -> RunOutput {
    let registry = Registry::standard();
    let text = format!(
        "transports = [\"{transport}\"]\n{loss}\n\
         topology = {{ name = \"dual-homed\", rate = \"1Gbps\", rtt = \"50ms\", buffer = \"5400KB\", \
         ecn_threshold = \"0B\" }}\n\
         scenario = {{ initial_window_per_subflow = 10, min_rto = \"200ms\", ecn = false }}\n\
         [traffic]\nkind = \"requests\"\nclients = [\"client\"]\nservers = [\"server\"]\n\
         pairing = \"one-to-one\"\narrivals = \"sequential\"\nsubflows = [2, 1]\n\
         sizes = {{ packets = 29 }}\nobserve = [\"recovery\", \"sizes\"]\n{traffic}"
    );
    let file = ("t.toml", text.as_str());
    let experiment =
        library::parse(&registry, file, Path::new("."), &Overrides::default()).unwrap();
    let scenario = &experiment.points[0].scenario;
    let request = RunRequest::new(scenario, &experiment.transports[0], &registry);
    run(&request).unwrap()
}

const WARM: &str = "connections = \"persistent\"\nper_pair = 1\nwarm_up = \"1KB\"\nidle = \"2s\"\n\
                    first_path = 1\nflows = 1";

fn warm(transport: &str, packet: u32) -> RunOutput {
    let loss = format!("loss = {{ model = \"response\", subflow = 1, packet = {packet} }}");
    go(transport, &loss, WARM)
}

fn recovery(o: &RunOutput) -> &RecoveryOfFlows {
    o.result.recovery.as_ref().unwrap()
}

/// Completion time in whole milliseconds.
fn took(o: &RunOutput) -> u64 {
    o.flows[0].fct_ns.unwrap() / 1_000_000
}

#[test]
fn one_parity_repairs_losses_that_one_copy_does_not() {
    for packet in [1, 2, 7, 10] {
        let (fuso, cofuso) = (
            warm("fuso-3+worst-1", packet),
            warm("cofuso-xor+worst-1", packet),
        );
        // One round trip, or two.
        let more = if packet == 1 { 0 } else { 50 };
        assert_eq!((took(&cofuso), took(&fuso)), (50, 50 + more), "{packet}");
        let (r, f) = (recovery(&cofuso), recovery(&fuso));
        assert_eq!((&r.first_hits[..], r.useful), (&[1][..], 1), "{packet}");
        assert_eq!(f.first_hits.first(), Some(&packet));
        // There is room for one packet of thirty until the first acknowledgements arrive.
        assert_eq!((r.spare[0][0], f.spare[0][0]), (1, 1));
        // The sizes of full packets: 1460 less 20 for the mapping, and 20 less for parities.
        let sizes = |o: &RunOutput| o.result.sizes.clone();
        assert_eq!(
            (sizes(&fuso), sizes(&cofuso)),
            (vec![29 * 1440], vec![29 * 1420])
        );
    }
}

#[test]
fn subflows_start_on_the_requested_paths() {
    let new = "connections = \"new\"\nask = \"when-joined\"\nflows = 5";
    // Everything on P2 except handshakes is lost. P2 carried nine or ten of the 29 packets.
    let loss =
        "loss = { rate = \"100%\", on = [\"P2\"], direction = \"backward\", data_only = true }";
    let o = go("mptcp-3", loss, &format!("{new}\nfirst_path = 1"));
    assert_eq!(o.result.completed, 5);
    let waited = o.flows.iter().filter(|f| f.timeouts > 0).count();
    assert_eq!(waited, 5, "each flow waits for the packets on P2");
    let whole = go("mptcp-3", "", &format!("{new}\nfirst_path = 2"));
    assert_eq!((whole.result.completed, took(&whole)), (5, 50), "30 places");
    assert_eq!(
        recovery(&whole),
        &RecoveryOfFlows {
            spare: recovery(&whole).spare.clone(),
            ..RecoveryOfFlows::default()
        }
    );
}

#[test]
fn a_random_packet_is_the_same_under_every_transport() {
    let loss = "loss = { model = \"response\", packet = \"random\" }";
    let traffic = WARM
        .replace("per_pair = 1", "per_pair = 40")
        .replace("flows = 1", "flows = 40");
    let fcts = |t: &str| go(t, loss, &traffic).result.fct_ns;
    let (a, b) = (fcts("fuso-3"), fcts("cofuso-xor"));
    assert_eq!((a.len(), b.len()), (40, 40));
    let halved = a.iter().zip(&b).filter(|(a, b)| 10 * *b < 6 * *a).count();
    let same = a.iter().zip(&b).filter(|(a, b)| 10 * *b > 9 * *a).count();
    assert!(
        halved >= 5 && same >= 15 && halved + same == 40,
        "{halved} {same}"
    );
}

/// A response of 35 full packets on a warm connection with a window of ten packets on a path of 20 ms and ten on
/// one of 200 ms. All data on the second path are lost.
fn short_response(transport: &str) -> RunOutput {
    response_on_lossy_paths(transport, [20, 200], "{ packets = 35 }", WARM)
}

/// A response of this size over two paths with these round-trip times in milliseconds. All data on the second
/// path are lost.
fn response_on_lossy_paths(
    transport: &str,
    [first, second]: [u32; 2],
    size: &str,
    traffic: &str,
) -> RunOutput {
    let registry = Registry::standard();
    let text = format!(
        "transports = [\"{transport}\"]\n\
         loss = {{ rate = \"100%\", on = [\"P2\"], direction = \"backward\", data_only = true }}\n\
         topology = {{ name = \"dual-homed\", rate = \"1Gbps\", path_rtts = [\"{first}ms\", \"{second}ms\"], \
         buffer = \"5400KB\", ecn_threshold = \"0B\" }}\n\
         scenario = {{ initial_window_per_subflow = 10, min_rto = \"200ms\", ecn = false, \
         receive_buffer = \"128KB\" }}\n\
         [traffic]\nkind = \"requests\"\nclients = [\"client\"]\nservers = [\"server\"]\n\
         pairing = \"one-to-one\"\narrivals = \"sequential\"\nsubflows = [1, 1]\n\
         sizes = {size}\nobserve = [\"recovery\", \"sizes\"]\n{traffic}"
    );
    let file = ("t.toml", text.as_str());
    let experiment =
        library::parse(&registry, file, Path::new("."), &Overrides::default()).unwrap();
    let scenario = &experiment.points[0].scenario;
    run(&RunRequest::new(
        scenario,
        &experiment.transports[0],
        &registry,
    ))
    .unwrap()
}

#[test]
fn ecf_and_blest_use_the_fast_path_alone_for_a_short_response_and_min_rtt_does_not() {
    // Windows of 10, 20 and 5 packets on the fast path.
    for transport in ["mptcp-ecf-2", "mptcp-blest-2", "mptcp-2+ecf"] {
        let o = short_response(transport);
        assert_eq!((took(&o), o.flows[0].timeouts), (60, 0), "{transport}");
    }
    let o = short_response("mptcp-2");
    assert!(took(&o) >= 200 && o.flows[0].timeouts > 0, "{}", took(&o));
}

const NEW: &str = "connections = \"new\"\nfirst_path = 1\nflows = 1";

/// On a new connection, the second path is ready when the first acknowledgements arrive. They make room for all that is left
/// of a response of up to thirty packets, so that an untried path would save nothing.
#[test]
fn last_data_wait_for_due_acknowledgements_instead_of_an_untried_path() {
    let go = |transport, packets: u32| {
        let size = format!("{{ packets = {packets} }}");
        response_on_lossy_paths(transport, [20, 20], &size, NEW)
    };
    for packets in [11, 20, 25] {
        let o = go("spindle", packets);
        assert_eq!((took(&o), o.flows[0].timeouts), (60, 0), "{packets}");
        assert!(took(&go("spindle+minrtt", packets)) > 60, "{packets}");
    }
    assert!(took(&go("spindle", 40)) > 60, "two windows are too small");
}

/// Ten segments of 1460 bytes are 14 600 bytes (RFC 6928), also if MPTCP's options make each segment shorter.
#[test]
fn initial_window_is_as_many_bytes_as_without_options() {
    let go = |transport, size| took(&response_on_lossy_paths(transport, [20, 20], size, NEW));
    for (transport, size, ms) in [
        ("rack", "\"14600B\"", 40),
        ("spindle", "\"14600B\"", 40),
        ("spindle", "\"14601B\"", 60),
        ("spindle+no-full-windows", "\"14600B\"", 60),
    ] {
        assert_eq!(go(transport, size), ms, "{transport} {size}");
    }
}
