//! What `spindle` does to others at a shared bottleneck, and to a bottleneck with a short queue. What its parts are worth
//! where packets are lost.

mod once;
mod support;

use spindle_experiment::metrics::RunResult;

use once::run_once;

/// The seed of tests that make one run.
const FIRST_SEED: u64 = 1;

/// Eight clients download 5 MB each, three times, over one path of 100 Mbps and 20 ms.
fn go(transport: &str, buffer: &str, more: &str) -> RunResult {
    go_with(8, transport, buffer, more)
}

/// The same with this many clients.
fn go_with(clients: u32, transport: &str, buffer: &str, more: &str) -> RunResult {
    let (last, flows) = (clients - 1, 3 * clients);
    let text = format!(
        "[topology]\nname = \"shared-paths\"\nclients = {clients}\npaths = 1\nrate = \"100Mbps\"\nserver_rate = \"10Gbps\"\n\
         host_speedup = 3.0\nrtt = \"20ms\"\nbuffer = \"{buffer}\"\necn_threshold = \"0B\"\n\
         [scenario]\nmss = 1400\nmin_rto = \"200ms\"\necn = false\ncongestion = \"cubic\"\n\
         [traffic]\nkind = \"requests\"\nclients = [\"c0-c{last}\"]\nservers = [\"server\"]\narrivals = \"sequential\"\n\
         sizes = \"5MB\"\nconnections = \"new\"\nflows = {flows}\nobserve = [\"paths\"]\n{more}"
    );
    run_once(transport, &text, FIRST_SEED)
}

fn mean_seconds(fct_ns: &[u64]) -> f64 {
    fct_ns.iter().sum::<u64>() as f64 / fct_ns.len() as f64 / 1e9
}

#[test]
fn flows_with_cubic_are_as_fast_next_to_spindle_as_among_themselves() {
    let half = "[bystanders]\ntransport = \"rack\"\nshare = \"50%\"\n";
    let bystanders = |transport| {
        let r = go(transport, "500KB", half);
        let others = r.observed.bystanders.as_ref().expect("half of the flows");
        mean_seconds(&others.fct_ns)
    };
    let (next_to_spindle, among_themselves) = (bystanders("spindle"), bystanders("rack"));
    let ratio = next_to_spindle / among_themselves;
    assert!(
        ratio < 1.1,
        "{next_to_spindle} against {among_themselves} s"
    );
}

/// Eight clients with four addresses upload 20 MB each at the same time, over a link of 100 Mbps and 20 ms with this buffer.
/// Half of them use plain TCP. Returns the mean times of `spindle`'s flows and of plain TCP's.
fn four_subflows_at_one_link(seed: u64, buffer: &str) -> (f64, f64) {
    let text = format!(
        "[topology]\nname = \"shared-paths\"\nclients = 8\npaths = 4\nrate = \"1Gbps\"\nserver_rate = \"100Mbps\"\n\
         rtt = \"20ms\"\nbuffer = \"{buffer}\"\necn_threshold = \"0B\"\n\
         [scenario]\nmss = 1400\nmin_rto = \"200ms\"\necn = false\ncongestion = \"cubic\"\ntimestamps = true\n\
         short_below = \"1GB\"\n\
         [traffic]\nkind = \"mix\"\nfrom = \"c0-c7\"\nto = \"server\"\narrivals = \"bursts\"\nburst = 8\nevery = \"1s\"\n\
         flows = 8\nsizes = \"20MB\"\n[bystanders]\ntransport = \"rack\"\nshare = \"50%\"\n"
    );
    let r = run_once("spindle", &text, seed);
    let others = r.observed.bystanders.as_ref().expect("half of the flows");
    (mean_seconds(&r.fct_ns), mean_seconds(&others.fct_ns))
}

/// Flows with 1.25 times the share of plain TCP would end after 0.9 times the mean time of the others. It was 0.84 times
/// while each subflow competed by itself.
#[test]
fn four_subflows_at_one_link_take_at_most_a_quarter_more_than_one_flow() {
    let runs =
        ["250KB", "500KB", "1MB"].map(|b| [1, 2].map(|seed| four_subflows_at_one_link(seed, b)));
    let (ours, others) = runs
        .as_flattened()
        .iter()
        .fold((0.0, 0.0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
    assert!(ours > 0.9 * others, "{ours} and {others} s, {runs:?}");
}

/// The mean time in ms that packets of long flows wait in queues.
fn wait(r: &RunResult) -> f64 {
    let long = &r.observed.paths.as_ref().expect("observed").long;
    long.queueing_ns as f64 / long.packets as f64 / 1e6
}

#[test]
fn one_flow_of_spindle_keeps_the_queue_near_its_target_of_5_ms() {
    let (spindle, cubic) = (
        go_with(1, "spindle", "2MB", ""),
        go_with(1, "rack", "2MB", ""),
    );
    assert!(wait(&spindle) < 6.0, "{} ms", wait(&spindle));
    assert!(wait(&cubic) > 8.0 * wait(&spindle), "{} ms", wait(&cubic));
}

#[test]
fn flows_of_spindle_keep_a_deep_buffer_almost_empty_and_the_link_busy() {
    let (spindle, cubic) = (go("spindle", "2MB", ""), go("rack", "2MB", ""));
    // The target is 5 ms for one flow and four times as long for eight, which grow before they notice.
    assert!(wait(&spindle) < 32.0, "{} ms", wait(&spindle));
    assert!(wait(&cubic) > 3.0 * wait(&spindle), "{} ms", wait(&cubic));
    let (a, b) = (mean_seconds(&spindle.fct_ns), mean_seconds(&cubic.fct_ns));
    assert!(a < 1.1 * b, "{a} against {b} s");
}

/// Requests of 20 KB on new connections next to one transfer of the same transport, over paths of 100 Mbps and 20 ms, and of
/// `rate`, of which the client's link has `delay` one way.
fn next_to_a_transfer(rate: &str, delay: &str) -> RunResult {
    let text = format!(
        "[topology]\nname = \"dual-homed\"\npaths = 2\nrate = \"100Mbps\"\nserver_rate = \"1Gbps\"\nrtt = \"20ms\"\n\
         buffer = \"1MB\"\necn_threshold = \"0B\"\n[links]\non = [\"P2\"]\nrate = \"{rate}\"\ndelay = \"{delay}\"\n\
         [scenario]\nmss = 1400\nmin_rto = \"200ms\"\necn = false\ntimestamps = true\n\
         [traffic]\nkind = \"mix\"\nfrom = \"client\"\nto = \"server\"\narrivals = \"bursts\"\nburst = 1\nevery = \"200ms\"\n\
         flows = 60\nsizes = \"20KB\"\nlong_flows = 1\nhead_start = \"1s\"\nwarm_up = \"900ms\"\n"
    );
    run_once("spindle", &text, FIRST_SEED)
}

/// A request without the transfer takes 51 ms. The slowest one took 90 ms while the step of the window doubled before its
/// queue was noticed.
#[test]
fn request_next_to_a_transfer_takes_at_most_half_as_long_again_and_the_paths_stay_busy() {
    for (rate, delay, sum_mbps) in [("100Mbps", "10ms", 200.0), ("20Mbps", "35ms", 120.0)] {
        let r = next_to_a_transfer(rate, delay);
        let slowest = r.fct_ns.iter().max().expect("60 requests");
        assert!(*slowest < 76_500_000, "{slowest} ns next to {rate}");
        let mbps = r.background.goodput_sum_bps / 1e6;
        assert!(mbps > 0.9 * sum_mbps, "{mbps} Mbps of {sum_mbps}");
    }
}

#[test]
fn short_queue_is_shared_without_a_storm_of_losses() {
    let (spindle, cubic) = (go("spindle", "15KB", ""), go("rack", "15KB", ""));
    let (a, b) = (mean_seconds(&spindle.fct_ns), mean_seconds(&cubic.fct_ns));
    assert!(a < 1.2 * b, "{a} against {b} s");
    assert_eq!(spindle.completed, 24);
    assert!(
        spindle.timeouts <= 2 * cubic.timeouts + 24,
        "{} {}",
        spindle.timeouts,
        cubic.timeouts
    );
}

/// Mean time of twenty small responses over new connections that are opened over the second of two equal paths, which
/// loses a fifth of the packets towards the client. The hosts remember so many paths.
fn over_a_lossy_second_path(transport: &str, remembered: u32) -> f64 {
    let text = format!(
        "[topology]\nname = \"dual-homed\"\npaths = 2\nrate = \"300Mbps\"\nserver_rate = \"1Gbps\"\nrtt = \"20ms\"\n\
         buffer = \"1500KB\"\necn_threshold = \"0B\"\n\
         [loss]\non = [\"P2\"]\nrate = \"20%\"\ndirection = \"backward\"\n\
         [scenario]\nmss = 1400\nmin_rto = \"200ms\"\necn = false\ninitial_window_per_subflow = 10\n\
         remembered_paths = {remembered}\n\
         [traffic]\nkind = \"requests\"\nclients = [\"client\"]\nservers = [\"server\"]\npairing = \"one-to-one\"\n\
         arrivals = \"sequential\"\ngap = \"200ms\"\nsizes = \"30KB\"\nconnections = \"new\"\nfirst_path = 2\nflows = 20"
    );
    let result = run_once(transport, &text, FIRST_SEED);
    assert_eq!(result.completed, 20);
    mean_seconds(&result.fct_ns)
}

#[test]
fn lost_syn_costs_no_timeout_and_remembered_losses_decide_where_connections_begin() {
    let alone = over_a_lossy_second_path("spindle+no-race", 0);
    let raced = over_a_lossy_second_path("spindle", 0);
    let remembered = over_a_lossy_second_path("spindle", 64);
    // A fifth of the SYN/ACKs is lost. Without a race each costs a second.
    assert!(alone > 0.2 && raced < 0.13, "{alone} and {raced} s");
    // Three round trips of 20 ms, and what the first flows need to learn the losses.
    assert!(remembered < 0.08, "{remembered} s");
}

/// Mean time of a response of 45 KB to a client that decodes no parities and chooses where connections begin, as kernels
/// do: on a path that loses a tenth of the server's packets.
fn to_a_kernel_over_a_lossy_path(remembered: u32) -> f64 {
    let text = format!(
        "[topology]\nname = \"dual-homed\"\npaths = 2\nrate = \"300Mbps\"\nserver_rate = \"1Gbps\"\nrtt = \"50ms\"\n\
         buffer = \"5400KB\"\necn_threshold = \"0B\"\n\
         [loss]\non = [\"P2\"]\nrate = \"10%\"\ndirection = \"backward\"\ndata_only = true\n\
         [scenario]\nmss = 1400\nmin_rto = \"200ms\"\necn = false\ninitial_window_per_subflow = 10\n\
         remembered_paths = {remembered}\n\
         [traffic]\nkind = \"requests\"\nclients = [\"client\"]\nservers = [\"server\"]\npairing = \"one-to-one\"\n\
         arrivals = \"sequential\"\nsizes = \"45KB\"\nconnections = \"new\"\nask = \"at-once\"\nfirst_path = 2\n\
         flows = 200"
    );
    let transport = "spindle+repeated-copies+no-race+no-early-join";
    let result = run_once(transport, &text, FIRST_SEED);
    assert_eq!(result.completed, 200);
    mean_seconds(&result.fct_ns)
}

/// Losses that are usual on a path end no slow start, and a timeout says nothing about its window. Both once left windows
/// of one to twelve segments to later connections.
#[test]
fn window_of_a_lossy_path_is_remembered() {
    let [first, later] = [0, 64].map(to_a_kernel_over_a_lossy_path);
    assert!(later < 0.75 * first, "{later} and {first} s");
}

/// A tenth of the segments of the path on which a client begins is lost. Copies had been of segments whose acknowledgements
/// were due, and a lost segment was retransmitted over the lossy path only, while all others waited behind it.
#[test]
fn kernel_client_that_begins_on_a_lossy_path_is_nearly_as_fast_as_tcp_on_the_other_one() {
    // TCP needs three round trips, for 10, 20 and 3 segments.
    let mean = to_a_kernel_over_a_lossy_path(64);
    assert!(mean < 0.85 * 0.15, "{mean} s");
}

/// Forty clients of a network begin at the same time, each with two paths, and download four times. Those that began in a
/// full queue took it for the path, and the slowest download took twice as long as the mean. Then each of them measured the
/// rate of the slowest link by itself, those that measured less took less, and the slowest one took 1.28 times the mean.
#[test]
fn clients_of_a_network_share_what_is_known_of_their_paths() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/wire/forty-clients.toml"
    );
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|l| !l.starts_with("transports"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let seeds = (1..=4).flat_map(|seed| run_once("spindle", &text, seed).fct_ns);
    let mut fct_ns: Vec<u64> = seeds.collect();
    fct_ns.sort_unstable();
    let p99 = fct_ns[fct_ns.len() * 99 / 100] as f64 / 1e9;
    let mean = mean_seconds(&fct_ns);
    assert!(p99 < 1.25 * mean, "{p99} s, mean {mean} s");
}

/// Responses of 42 KB over persistent connections through a fabric of which each path loses 1 % of the packets.
fn over_lossy_paths(transport: &str) -> RunResult {
    let text = "[topology]\nname = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 4\n\
         [loss]\non = [\"leaf-spine\"]\nrate = \"1%\"\n\
         [scenario]\nmss = 1400\nmin_rto = \"10ms\"\ninitial_window = 40\n\
         [traffic]\nkind = \"requests\"\nclients = [\"all\"]\nservers = [\"all\"]\npairing = \"random\"\nload = \"400Mbps\"\n\
         sizes = \"42KB\"\nconnections = \"persistent\"\nflows = 4000";
    run_once(transport, text, FIRST_SEED)
}

#[test]
fn parity_of_the_last_flight_saves_waiting_for_at_most_5_percent_of_the_bytes() {
    let (with, without) = (
        over_lossy_paths("spindle"),
        over_lossy_paths("spindle+priced-copies"),
    );
    let share = |r: &RunResult| r.extra_bytes as f64 / r.payload_bytes as f64;
    assert!(share(&without) < 0.001, "{}", share(&without));
    assert!(share(&with) < 0.05, "{}", share(&with));
    let (a, b) = (mean_seconds(&with.fct_ns), mean_seconds(&without.fct_ns));
    assert!(a < 0.95 * b, "{a} against {b} s");
}

/// The answer to the SYN that lost the race arrives after the other path was joined, and is answered by a RST. If both
/// SYNs had the same port, the RST would end the join, which would be repeated after a second.
#[test]
fn slower_path_is_joined_at_once_after_a_race() {
    let text = "[topology]\nname = \"dual-homed\"\npaths = 2\nrate = \"100Mbps\"\nserver_rate = \"1Gbps\"\nrtt = \"20ms\"\n\
         buffer = \"1500KB\"\necn_threshold = \"0B\"\n\
         [links]\non = [\"P2\"]\ndelay = \"18ms\"\n\
         [scenario]\nmss = 1400\nmin_rto = \"200ms\"\necn = false\n\
         [traffic]\nkind = \"requests\"\nclients = [\"client\"]\nservers = [\"server\"]\npairing = \"one-to-one\"\n\
         arrivals = \"sequential\"\nsizes = \"30MB\"\nconnections = \"new\"\nflows = 2";
    let result = run_once("spindle", text, FIRST_SEED);
    assert_eq!((result.completed, result.timeouts), (2, 0));
}

/// Ten responses of 1 MB over one warm connection and two paths of 300 and 50 Mbps, 20 and 50 ms. The faster path dies during
/// the third response, when its window is full, and the other one has a window of ten segments.
fn over_a_path_that_dies() -> RunResult {
    let text = "[topology]\nname = \"dual-homed\"\npaths = 2\nrate = \"300Mbps\"\nserver_rate = \"1Gbps\"\nrtt = \"20ms\"\n\
         buffer = \"1500KB\"\necn_threshold = \"0B\"\n[links]\non = [\"P2\"]\nrate = \"50Mbps\"\ndelay = \"20ms\"\n\
         [loss]\nmodel = \"black-hole\"\non = [\"P1\"]\nfrom = \"1s\"\nuntil = \"11s\"\n\
         [scenario]\nmss = 1400\ninitial_window_per_subflow = 10\nmin_rto = \"200ms\"\necn = false\ntimestamps = true\n\
         [traffic]\nkind = \"requests\"\nclients = [\"client\"]\nservers = [\"server\"]\npairing = \"one-to-one\"\n\
         arrivals = \"sequential\"\ngap = \"50ms\"\nsizes = \"1MB\"\nconnections = \"persistent\"\nper_pair = 1\n\
         first_path = 1\nflows = 10\n";
    run_once("spindle", text, FIRST_SEED)
}

/// It took 245 ms longer while copies were inside the window of the other path, and the next response then waited for a
/// timeout of the dead path.
#[test]
fn response_whose_path_dies_takes_at_most_two_round_trips_longer_than_over_the_other_path() {
    let r = over_a_path_that_dies();
    let ms = |n: usize| r.fct_ns[n] as f64 / 1e6;
    let other = ms(9);
    assert!(ms(1) < 0.5 * other, "{} and {other} ms", ms(1));
    assert!(ms(2) < other + 100.0, "{} and {other} ms", ms(2));
    assert!(ms(3) < other + 1.0, "{} and {other} ms", ms(3));
}
