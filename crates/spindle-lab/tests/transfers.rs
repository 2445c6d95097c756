//! Transfers between hosts of a fat-tree, with and without packet scatter (MMPTCP section 3, mechanisms T8).

use std::path::Path;

use spindle_experiment::metrics::RunResult;
use spindle_experiment::registry::Registry;
use spindle_experiment::{Overrides, library};
use spindle_lab::driver::{RunOutput, RunRequest, run};

fn go(transport: &str, topology: &str, traffic: &str) -> RunOutput {
    let registry = Registry::standard();
    let text = format!(
        "transports = [\"{transport}\"]\n\
         [topology]\nname = \"fat-tree\"\nk = 8\nrate = \"100Mbps\"\nrtt = \"240us\"\n\
         buffer_packets = 100\necn_threshold = \"0B\"\n{topology}\n\
         [scenario]\nmss = 1420\ninitial_window_per_subflow = 1\ninitial_ssthresh = \"65KB\"\n\
         min_rto = \"200ms\"\ninitial_rto = \"200ms\"\necn = false\n\
         [traffic]\nkind = \"transfers\"\nobserve = [\"timers\", \"links\"]\n{traffic}"
    );
    let file = ("test.toml", text.as_str());
    let e = library::parse(&registry, file, Path::new("."), &Overrides::default()).unwrap();
    let scenario = &e.points[0].scenario;
    run(&RunRequest::new(scenario, &e.transports[0], &registry)).unwrap()
}

const SHORT: &str = "rate = 200.0\nsizes = \"70KB\"\nduration = \"1s\"\nlong = \"0%\"\n";

/// One flow at a time across the core. No packet is lost, and 16 paths reorder scattered packets.
fn alone(transport: &str) -> RunResult {
    let traffic = "hosts = [\"h0\", \"h127\"]\nmatrix = \"random\"\nlong = \"0%\"\nrate = 4.0\n\
                   sizes = \"1MB\"\nduration = \"5s\"\n";
    go(transport, "", traffic).result
}

#[test]
fn a_lone_flow_retransmits_nothing_despite_16_reordering_paths() {
    for transport in ["ps", "mmptcp", "mmptcp+sack"] {
        let r = alone(transport);
        assert!(r.completed > 10 && r.completed + r.cut_off == r.flows);
        assert_eq!((r.timeouts, r.fast_retransmits), (0, 0), "{transport}");
        let timers = r.observed.timers.unwrap();
        assert_eq!(timers.retransmits, [r.flows], "{transport}");
    }
}

/// RACK does not know paths. D-SACKs widen its window (RFC 8985, section 6.2, step 4).
#[test]
fn rack_enters_recovery_less_than_once_per_reordered_flow() {
    for transport in ["ps+rack", "mmptcp+rack"] {
        let r = alone(transport);
        assert_eq!(r.timeouts, 0, "{transport}");
        assert!(
            r.fast_retransmits < r.flows,
            "{transport}: {}",
            r.fast_retransmits
        );
    }
}

/// The clock of MMPTCP's authors starts a round trip later. Everything else is the same.
#[test]
fn transfer_time_begins_with_the_syn_or_with_the_answer() {
    let times = |ask: &str| {
        let traffic = format!(
            "hosts = [\"h0\", \"h127\"]\nmatrix = \"random\"\nlong = \"0%\"\nrate = 1.0\n\
             sizes = \"70KB\"\nduration = \"5s\"\nask = \"{ask}\"\n"
        );
        go("mmptcp", "", &traffic).result.fct_ns
    };
    let (syn, answer) = (times("opening"), times("at-once"));
    assert!(syn.len() > 1 && syn.len() == answer.len());
    for (from_syn, from_answer) in syn.into_iter().zip(answer) {
        let round_trip = from_syn - from_answer;
        assert!((240_000..350_000).contains(&round_trip), "{round_trip} ns");
    }
}

#[test]
fn scattered_packets_use_all_paths() {
    let one = "hosts = [\"h0\", \"h127\"]\nmatrix = \"stride\"\nstride = 1\nlong = \"100%\"\n\
               sizes = \"70KB\"\nduration = \"1s\"\n";
    // The access links are ten times as fast as the core's, so one path carries a tenth of the offered load.
    let thin = "fabric_rate = \"10Mbps\"";
    let goodput = |t: &str| {
        let r = go(t, thin, one).result;
        r.background.goodput_sum_bps / r.background.completed as f64
    };
    let (tcp, ps) = (goodput("tcp+newreno"), goodput("ps"));
    assert!(tcp < 10e6, "{tcp}");
    // At most the rate of the edge switch's four links.
    assert!((25e6..40e6).contains(&ps), "{ps}");
}

#[test]
fn transfers_in_progress_at_the_end_are_counted_as_cut_off() {
    let traffic = "rate = 256.0\nsizes = \"70KB\"\nduration = \"500ms\"\nlong = \"33%\"\n";
    for transport in [
        "tcp+newreno",
        "ps",
        "ps-tcp",
        "mptcp-tcp",
        "mmptcp",
        "mptcp-8+newreno",
    ] {
        let r = go(transport, "", traffic).result;
        assert!((90..170).contains(&r.flows), "{transport}: {}", r.flows);
        assert_eq!((r.background.flows, r.background.completed), (42, 42));
        assert_eq!(r.completed + r.cut_off, r.flows, "{transport}");
        assert!(
            r.completed * 4 > r.flows * 3,
            "{transport}: {}",
            r.completed
        );
        assert_eq!(r.sim_ns, 500_000_000);
        let mean = r.background.goodput_sum_bps / 42.0;
        assert!((2e7..1e8).contains(&mean), "{transport}: {mean}");
        let core = r
            .observed
            .links
            .iter()
            .find(|g| g.group == "agg-core")
            .unwrap();
        let share = core.busy_s / core.time_s;
        assert!(share > 0.1 && share < 1.0, "{transport}: {share}");
        assert_eq!(core.time_s, 256.0 * 0.5, "128 cables, two links each");
    }
}

#[test]
fn scattered_packets_with_priority_overtake_long_flows() {
    let traffic = "rate = 256.0\nsizes = \"70KB\"\nduration = \"1s\"\nlong = \"33%\"\n";
    let mean = |transport: &str, priorities: bool| {
        let r = go(transport, &format!("priorities = {priorities}"), traffic).result;
        let mean = r.fct_ns.iter().sum::<u64>() as f64 / r.completed as f64;
        (mean, r.timeouts)
    };
    let without = mean("mmptcp", false);
    // If no packet is marked, the priority queues behave like one queue.
    assert_eq!(mean("mmptcp", true), without);
    assert_eq!(mean("mmptcp+priority", false), without);
    let (first, timeouts) = mean("mmptcp+priority", true);
    assert!(first < 0.7 * without.0, "{first} {without:?}");
    assert!(timeouts <= without.1, "{timeouts} {without:?}");
}

#[test]
fn small_flows_open_no_subflows_and_lose_nothing_in_an_idle_network() {
    let few = SHORT.replace("200.0", "20.0");
    let r = go("mmptcp", "", &few).result;
    assert_eq!((r.timeouts, r.fast_retransmits), (0, 0));
    // 51 packets per flow in one direction, an acknowledgement for each in the other, the handshake and the
    // close: no joins.
    let hops_per_flow = r.packet_hops as f64 / r.flows as f64;
    assert!((550.0..680.0).contains(&hops_per_flow), "{hops_per_flow}");
}

#[test]
fn hotspots_drop_more_packets() {
    let topology = "[hotspots]\nshare = \"50%\"\nbuffer_packets = 5\n";
    let traffic = "rate = 256.0\nsizes = \"70KB\"\nduration = \"300ms\"\nlong = \"60%\"\n";
    let dropped = |topology: &str| {
        let r = go("tcp+newreno", topology, traffic).result;
        let core = r
            .observed
            .links
            .iter()
            .find(|g| g.group == "agg-core")
            .unwrap();
        core.dropped
    };
    assert!(dropped(topology) > dropped("") + 20);
}

#[test]
fn the_senders_of_an_incast_round_start_together() {
    let traffic = "matrix = \"random\"\nlong = \"0%\"\nsenders = 20\nevery = \"500ms\"\n\
                   sizes = \"70KB\"\nduration = \"2s\"\n";
    let r = go("tcp+newreno", "", traffic);
    assert_eq!(r.result.flows, 60);
    assert_eq!(r.result.completed, 60);
    // 20 times 70 KB at 100 Mbps: the last flow of a round takes at least 113 ms.
    assert!(r.result.fct_ns.iter().max() > Some(&113_000_000));
}
