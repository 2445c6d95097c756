//! Short flows next to long flows between leaves (the CAPS paper, mechanisms T5 to T7).

use std::path::Path;

use spindle_experiment::metrics::{Metric, RunResult};
use spindle_experiment::registry::Registry;
use spindle_experiment::stats::Pool;
use spindle_experiment::{Overrides, library};
use spindle_lab::driver::{RunOutput, RunRequest, run};

/// Settings of the hosts as in mechanisms A5.1 for this paper.
const HOSTS: &str = "initial_window = 10\nmin_rto = \"10ms\"\ncongestion = \"reno\"\necn = false\n";

fn seeded(
    transport: &str,
    seed: u64,
    (topology, scenario): (&str, &str),
    traffic: &str,
) -> RunOutput {
    let registry = Registry::standard();
    let ask = match traffic.contains("ask =") {
        true => "",
        false => "ask = \"at-once\"\n",
    };
    let text = format!(
        "transports = [\"{transport}\"]\n\
         [topology]\nname = \"leaf-spine\"\nspines = 8\nhosts_per_leaf = 24\n{topology}\n\
         [scenario]\n{HOSTS}{scenario}\n[traffic]\nkind = \"mix\"\n{ask}{traffic}"
    );
    let file = ("test.toml", text.as_str());
    let e = library::parse(&registry, file, Path::new("."), &Overrides::default()).unwrap();
    let scenario = &e.points[0].scenario;
    let mut request = RunRequest::new(scenario, &e.transports[0], &registry);
    request.seed = seed;
    run(&request).unwrap()
}

fn go(transport: &str, traffic: &str) -> RunOutput {
    seeded(transport, 1, ("", ""), traffic)
}

/// Mechanisms T5 on a smaller scale: each flow has its own source host and its own destination host.
const ONE_EACH: &str = "from = \"h0-h23\"\nto = \"h24-h47\"\nmatrix = \"one-to-one\"\nacross = true\n\
                        sizes = [\"10KB\", \"100KB\"]\narrivals = \"on-off\"\non = \"5ms\"\n\
                        off = \"50ms\"\nrate = 4000.0\n";

fn goodput(r: &RunResult) -> f64 {
    r.background.goodput_sum_bps / r.background.completed as f64
}

#[test]
fn a_run_ends_with_its_last_short_flow() {
    let traffic =
        format!("{ONE_EACH}flows = 20\nlong_flows = 4\nhead_start = \"20ms\"\nwarm_up = \"20ms\"");
    for transport in ["tcp@rps", "tcp", "repflow", "newreno", "mptcp"] {
        let out = go(transport, &traffic);
        let r = &out.result;
        assert_eq!(
            (r.flows, r.completed, r.cut_off),
            (20, 20, 0),
            "{transport}"
        );
        assert_eq!((r.background.flows, r.background.completed), (4, 4));
        let last = out.flows.iter().filter(|f| !f.background);
        assert!(
            last.clone()
                .all(|f| f.fct_ns.is_some() && f.bytes <= 100_000)
        );
        assert!(
            r.sim_ns > 20_000_000 && r.sim_ns < 300_000_000,
            "{}",
            r.sim_ns
        );
        // The goodput cannot exceed the rate of the wire, regardless of the holes that were open when the flows
        // began to count.
        let rate = goodput(r);
        assert!(rate > 2e8 && rate < 974e6, "{transport}: {rate}");
    }
}

/// Head-of-line blocking (CAPS section III): packets sprayed over all paths wait behind long flows' packets.
#[test]
fn long_flows_delay_short_ones() {
    let mean = |long: u32| {
        let traffic = format!("{ONE_EACH}flows = 20\nlong_flows = {long}\nhead_start = \"100ms\"");
        let r = go("tcp@rps", &traffic).result;
        r.fct_ns.iter().sum::<u64>() as f64 / r.completed as f64
    };
    let (alone, with_others) = (mean(0), mean(4));
    assert!(with_others > 1.1 * alone, "{with_others} {alone}");
}

/// The time runs from the first packet passed to TCP to the last byte. A packet takes half a round trip and the
/// sending time of four links. On the first link it waits for the acknowledgement that ends the handshake (40
/// B).
#[test]
fn the_time_of_a_flow_begins_with_its_data() {
    let traffic =
        "arrivals = \"at-once\"\nflows = 1\nfrom = \"h0\"\nto = \"h47\"\nsizes = \"1460B\"\n";
    let r = go("tcp", traffic).result;
    assert_eq!(r.fct_ns, [50_000 + 4 * 12_000 + 320]);
    // The handshake takes a round trip over eight links, with segments of 52 B.
    let r = go("tcp", &format!("{traffic}ask = \"opening\"\n")).result;
    assert_eq!(r.fct_ns, [150_000 + 4 * 12_000 + 8 * 416]);
}

/// 1460 of 1500 bytes on a wire of 1 Gbps, after slow start.
#[test]
fn throughput_of_a_long_flow_counts_from_the_warm_up() {
    let one = "flows = 0\nlong_flows = 1\nfrom = \"h0\"\nto = \"h47\"\nsizes = \"10KB\"\nduration = \"300ms\"\n";
    let whole = go("tcp", one).result;
    let warm = go("tcp", &format!("{one}warm_up = \"200ms\"")).result;
    assert_eq!((warm.background.flows, warm.flows), (1, 0));
    let rate = goodput(&warm) / 1e9;
    assert!((rate - 1460.0 / 1500.0).abs() < 0.002, "{rate}");
    assert!(goodput(&whole) < goodput(&warm));

    // Long flows with sizes may complete before the end.
    let sized = format!("{one}long_sizes = [\"28MB\", \"30MB\"]\nwarm_up = \"150ms\"");
    let out = go("tcp", &sized);
    assert!(out.flows[0].fct_ns.is_some());
    let rate = goodput(&out.result) / 1e9;
    assert!((rate - 1460.0 / 1500.0).abs() < 0.002, "{rate}");
    assert!(out.result.background.goodput_squares > 0.0);
}

const LOADED: &str = "across = true\nsizes = \"web-search\"\nload = \"40%\"\ncapacity = \"8Gbps\"\n\
                      warm_up = \"100ms\"\nduration = \"300ms\"\n";

#[test]
fn flows_below_the_limit_are_measured_and_others_are_background() {
    let out = seeded("tcp", 1, ("", "short_below = \"100KB\""), LOADED);
    let r = &out.result;
    // 240 flows a second for 0.2 s, of which 54 % are short.
    assert!((12..50).contains(&r.flows), "{}", r.flows);
    assert!(r.background.flows > r.flows / 2);
    assert_eq!(r.completed + r.cut_off, r.flows);
    assert_eq!(r.fct_ns.len() as u64, r.completed);
    let planned = out.flows.len() as u64;
    assert!(
        planned > r.flows + r.background.flows,
        "those before the warm-up are not counted"
    );
    for f in &out.flows {
        assert_eq!(f.background, f.bytes >= 100_000);
    }
    assert_eq!(r.sim_ns, 300_000_000);

    // Without a limit all flows are in one class, with the same times and sizes.
    let alike = seeded("tcp", 1, ("", ""), LOADED);
    assert_eq!(alike.result.background.flows, 0);
    assert_eq!(alike.result.flows, r.flows + r.background.flows);
    let sizes = |o: &RunOutput| o.flows.iter().map(|f| f.bytes).collect::<Vec<_>>();
    assert_eq!(sizes(&alike), sizes(&out));
}

/// Marked packets overtake others at ports with priorities. At ports without priorities marks change nothing.
#[test]
fn only_ports_with_priorities_respect_marks() {
    let traffic = format!(
        "{ONE_EACH}flows = 20\nlong_flows = 4\nhead_start = \"40ms\"\nobserve = [\"packets\"]"
    );
    let with = |priorities: bool, scenario: &str| {
        let topology = format!("priorities = {priorities}");
        let r = seeded("tcp", 1, (&topology, scenario), &traffic).result;
        (r.fct_ns.iter().sum::<u64>(), r)
    };
    let marked = "short_below = \"100KB\"";
    let (plain, unmarked) = with(false, "");
    assert_eq!(with(false, marked).0, plain);
    assert_eq!(with(true, "").0, plain);
    let (first, r) = with(true, marked);
    assert!(first * 4 < plain * 3, "{first} {plain}");

    // Every data packet of the short flows is identified by its mark.
    let (told, before) = (
        r.observed.packets.unwrap(),
        unmarked.observed.packets.unwrap(),
    );
    let least: u64 = r.completed * 7;
    assert!(
        told.short.sent >= least && told.short.dropped == 0,
        "{told:?}"
    );
    assert!(told.others.sent > 1000, "{told:?}");
    assert_eq!(before.short.sent, 0);
    assert!(before.others.sent > told.others.sent);
}

/// RepFlow sends short flows twice and long flows once (mechanisms A5.5). Everything else is like TCP.
#[test]
fn short_flows_are_replicated_and_long_ones_are_not() {
    let traffic = format!(
        "{ONE_EACH}flows = 20\nlong_flows = 4\nhead_start = \"20ms\"\nlong_sizes = \"150KB\""
    );
    let (once, twice) = (go("tcp", &traffic), go("repflow", &traffic));
    let sizes = |o: &RunOutput| {
        o.flows
            .iter()
            .map(|f| (f.bytes, f.background))
            .collect::<Vec<_>>()
    };
    assert_eq!(sizes(&once), sizes(&twice));
    let short: u64 = once
        .flows
        .iter()
        .filter(|f| !f.background)
        .map(|f| f.bytes)
        .sum();
    let r = &twice.result;
    assert_eq!((r.flows, r.completed), (20, 20));
    assert_eq!(once.result.extra_bytes, 0);
    // The second copy of the last flow may be in progress when the run ends.
    assert!(
        r.extra_bytes <= short && r.extra_bytes + 200_000 > short,
        "{} {short}",
        r.extra_bytes
    );
}

/// CAPS section VIII-A, Fig 13: each long flow on a separate path.
#[test]
fn long_flows_can_use_distinct_paths() {
    let traffic = "flows = 0\nlong_flows = 8\nfrom = \"h0-h23\"\nto = \"h24-h47\"\nmatrix = \"one-to-one\"\n\
                   sizes = \"10KB\"\nduration = \"120ms\"\nwarm_up = \"60ms\"\n";
    let all = |seed: u64, paths: &str| {
        let out = seeded(
            "tcp",
            seed,
            ("rate = \"100Mbps\"", ""),
            &format!("{traffic}long_paths = \"{paths}\""),
        );
        assert_eq!(out.result.background.completed, 8);
        out.result.background.goodput_sum_bps / 8e8
    };
    let mut collided = 0;
    for seed in 1..=4 {
        let apart = all(seed, "distinct");
        assert!(apart > 0.95, "seed {seed}: {apart}");
        collided += u32::from(all(seed, "hashed") < 0.9);
    }
    assert!(
        collided >= 3,
        "{collided} of 4: by chance 8 flows hardly ever have 8 paths"
    );
}

/// Entries 46 and 47: all flows start at once towards one receiver and share its link.
#[test]
fn an_incast_goes_to_one_host() {
    let traffic = "arrivals = \"at-once\"\nflows = 60\nfrom = \"h0-h23\"\nto = \"h24-h47\"\n\
                   matrix = \"one-receiver\"\nsizes = [\"15KB\", \"100KB\"]\nobserve = [\"links\", \"timers\"]\n";
    let out = go("tcp@rps", traffic);
    let r = &out.result;
    assert_eq!((r.flows, r.completed), (60, 60));
    let bytes: u64 = out.flows.iter().map(|f| f.bytes).sum();
    let last = r.fct_ns.iter().max().unwrap();
    assert!(*last > bytes * 8, "{last} ns for {bytes} bytes at 1 Gbps");
    let access = r
        .observed
        .links
        .iter()
        .find(|g| g.group == "access")
        .unwrap();
    assert!(
        access.dropped > 0,
        "60 windows of 10 segments find room for 256"
    );
    assert!(r.observed.links.iter().any(|g| g.group == "leaf-spine"));
}

fn metric(r: &RunResult, name: &str) -> Option<f64> {
    let metric = Metric::parse(name).expect("a metric's name");
    Pool::new([r]).value(metric)
}

/// Short flows next to long flows, counted from a warm-up on, with these observations.
fn observed(transport: &str, observe: &str) -> RunResult {
    let traffic = format!(
        "{ONE_EACH}flows = 40\nlong_flows = 4\nhead_start = \"40ms\"\nwarm_up = \"40ms\"\n\
         observe = [{observe}]\n"
    );
    let marked = ("", "short_below = \"100KB\"");
    seeded(transport, 1, marked, &traffic).result
}

/// CAPS Figs 1, 2, 23 and 28: the effect of spraying on packets, and of priorities on their waiting times.
#[test]
fn waiting_and_overtaking_depend_on_the_balancer() {
    let what = "\"paths\", \"packets\", \"windows\"";
    let [ecmp, rps, first] = ["tcp", "tcp@rps", "tcp@rps-pq"].map(|t| observed(t, what));
    let of = |r: &RunResult, name: &str| metric(r, name).expect(name);
    for name in ["disorder.short", "disorder.long"] {
        assert_eq!(of(&ecmp, name), 0.0, "one path keeps the order: {name}");
        assert!(of(&rps, name) > 0.01, "{name} {}", of(&rps, name));
    }
    // The rest is due to other short flows' packets and the packet in transmission.
    assert!(of(&first, "queueing.short") * 1.5 < of(&rps, "queueing.short"));
    assert!(of(&rps, "queueing.short") < of(&rps, "queueing.long"));
    assert!(of(&rps, "paths.unused") < of(&ecmp, "paths.unused"));
    for r in [&ecmp, &rps, &first] {
        let o = &r.observed;
        let (paths, packets, windows) = (o.paths.unwrap(), o.packets.unwrap(), o.windows.unwrap());
        for (seen, told, window) in [
            (paths.short, packets.short, windows.short),
            (paths.long, packets.others, windows.long),
        ] {
            assert_eq!(window.packets, told.sent);
            // Packets that are in flight at the end have not arrived yet. The same holds for packets that wait
            // in the long flows' hosts, which have room for 1000 each.
            let arrived = told.sent - told.dropped;
            assert!(seen.packets <= arrived && seen.packets + 4500 > arrived);
        }
        let (short, long) = (of(r, "cwnd.short"), of(r, "cwnd.long"));
        assert!((1.0..70.0).contains(&short), "{short}");
        assert!(long > short, "{long} {short}");
    }
    let nothing = observed("tcp", "\"sizes\"");
    assert_eq!(
        (nothing.observed.paths, nothing.observed.windows),
        (None, None)
    );
    assert_eq!(nothing.fct_ns, ecmp.fct_ns, "observing changes nothing");
}

/// CAPS appendix B: the decoder of coded flows removes the disorder within units.
#[test]
fn disorder_of_coded_flows_is_measured_above_the_decoder() {
    let run = observed("caps+k-window@caps", "\"paths\"");
    let short = run.observed.paths.unwrap().short;
    assert!(short.overtaken > 0 && short.decoded > 0, "{short:?}");
    let on_the_wire = short.overtaken as f64 / short.packets as f64;
    let disorder = metric(&run, "disorder.short").unwrap();
    assert!(disorder < on_the_wire, "{disorder} {on_the_wire}");
}

/// Bytes over the spines, each over two of their links, equal the bytes that the long flows are reported to
/// have received.
#[test]
fn goodput_of_links_equals_that_of_flows() {
    let traffic = "flows = 0\nlong_flows = 4\nfrom = \"h0-h23\"\nto = \"h24-h47\"\nmatrix = \"one-to-one\"\n\
                   sizes = \"10KB\"\nduration = \"200ms\"\nwarm_up = \"100ms\"\nlong_paths = \"distinct\"\n\
                   observe = [\"links\", \"goodput\"]\n";
    let r = go("tcp", traffic).result;
    assert_eq!(r.background.completed, 4);
    let spines = r
        .observed
        .goodput
        .iter()
        .find(|g| g.group == "leaf-spine")
        .unwrap();
    let rate = spines.bytes as f64 / 2.0 * 8.0 / 0.1;
    assert!(
        (rate / r.background.goodput_sum_bps - 1.0).abs() < 1e-6,
        "{rate}"
    );
    // Two leaves with eight spines have 16 links in each direction.
    let share = metric(&r, "leaf-spine.goodput").unwrap();
    assert!((share - rate / 16e9).abs() < 1e-9, "{share}");
    assert_eq!(metric(&r, "core.goodput"), Some(share));
    let busy = metric(&r, "leaf-spine.utilisation").unwrap();
    assert!(share > 0.2 && share < 0.25, "{share} {busy}");
}

/// k + r packets for k segments (CAPS section IV).
#[test]
fn redundancy_matches_the_units() {
    let r = observed("caps+k-10+r-2@caps", "\"coding\"");
    assert_eq!((r.flows, r.completed), (40, 40));
    let of = |name: &str| metric(&r, name).expect(name);
    let unit = of("coding.unit");
    assert!(unit > 3.0 && unit <= 10.0, "{unit}");
    let redundant = of("coding.redundant");
    assert!(
        (redundant - 2.0 / (unit + 2.0)).abs() < 1e-12,
        "{redundant} {unit}"
    );
    let all = of("coding.redundant.all");
    assert!(all > 0.0 && all < redundant, "{all} {redundant}");
    let c = r.observed.coding.unwrap();
    assert_eq!(c.extra, 2 * c.units);
    assert_eq!(c.encoded, c.segments + c.extra);
    assert!(c.received <= c.encoded && c.late < c.received);
    assert!(of("coding.undecoded") < 0.2 && of("coding.late") > 0.0);
    // RTT_smooth follows the periods' means. The means differ from it, but not by much.
    let tracking = of("rtt.tracking");
    assert!(
        c.periods > 40 && tracking > 0.0 && tracking < 1.0,
        "{tracking}"
    );
    assert!((0.0..=0.5).contains(&of("coding.blocking")));

    let none = observed("caps+k-10+r-0@caps", "\"coding\"");
    assert_eq!(metric(&none, "coding.redundant"), Some(0.0));
    let uncoded = observed("tcp@caps", "\"coding\"");
    assert_eq!(metric(&uncoded, "coding.redundant"), None);
    assert_eq!(metric(&uncoded, "coding.redundant.all"), Some(0.0));
}

#[test]
fn flows_whose_syns_are_all_lost_are_counted_as_given_up() {
    let traffic = format!(
        "{ONE_EACH}flows = 5\nlong_flows = 0\n[loss]\nmodel = \"bernoulli\"\nrate = \"100%\"\non = \"all\"\n"
    );
    for transport in ["tcp", "repflow", "mptcp"] {
        let scenario = ("", "initial_rto = \"200ms\"\n");
        let r = seeded(transport, 1, scenario, &traffic).result;
        assert_eq!(
            (r.flows, r.completed, r.aborted, r.given_up),
            (5, 0, 5, 5),
            "{transport}"
        );
        // A SYN and six repetitions, each after twice the previous timeout: 25.4 s.
        let seconds = r.sim_ns as f64 / 1e9;
        assert!((25.4..26.0).contains(&seconds), "{seconds}");
    }
}

/// The SYN arrived, and nothing after it. The server gives up the handshake and answers later segments with a
/// reset.
#[test]
fn flows_whose_server_gave_up_the_handshake_are_counted_as_given_up() {
    let hole =
        "[loss]\nmodel = \"black-hole\"\non = \"access:h0.up\"\nfrom = \"60us\"\nuntil = \"30s\"\n";
    let traffic = format!(
        "arrivals = \"at-once\"\nflows = 1\nfrom = \"h0\"\nto = \"h47\"\nsizes = \"20KB\"\n\
         ask = \"opening\"\n{hole}"
    );
    let r = seeded("tcp", 1, ("", "initial_rto = \"200ms\"\n"), &traffic).result;
    assert_eq!((r.flows, r.completed, r.aborted, r.given_up), (1, 0, 1, 1));
    // It ends before the user timeout of a minute.
    let seconds = r.sim_ns as f64 / 1e9;
    assert!((30.0..60.0).contains(&seconds), "{seconds}");
}
