//! Pacing: data that the window allows are not sent all at once.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::collections::HashMap;

use spindle_mptcp::preset;
use spindle_units::Duration;
use support::apps::{App, End, Run};
use support::{Net, Path, SERVER, endpoint, judge};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The server sends 3 MB over two paths with a round trip of 50 ms.
fn bulk(name: &str, pacing: bool, burst: u32) -> Run {
    let mut net = Net::new(9, vec![Path::clean(ms(25)); 2]);
    net.keep_log = true;
    net.whole_bursts = true;
    let app = |writes| App {
        writes,
        read_size: 1 << 20,
        read_delay: Duration::ZERO,
        end: End::AfterWrites,
    };
    let apps = [app(vec![]), app(vec![(ms(200), 3_000_000)])];
    let mut config = preset(name).expect("a preset").config;
    config.tcp.pacing = pacing;
    config.tcp.burst = burst;
    config.tcp.msl = ms(10);
    let ends = (endpoint(1, 0), endpoint(2, 80));
    let mut run = Run::new(net, apps, [config.clone(), config], ends, true);
    run.finish(Duration::from_secs(60));
    judge::at_the_end(&run, Duration::from_secs(300));
    run
}

/// The most payload bytes that one subflow of the server sent at one moment after its first segments, and the
/// time at which the last data were sent.
fn shape(run: &Run) -> (usize, Duration) {
    let mut at_once: HashMap<_, usize> = HashMap::new();
    let mut sent: HashMap<u16, usize> = HashMap::new();
    let mut last = Duration::ZERO;
    let log = run.net.log.iter().filter(|l| l.side == SERVER);
    for l in log.filter(|l| !l.segment.payload.is_empty()) {
        let (port, len) = (l.segment.dst.port, l.segment.payload.len());
        let before = sent.entry(port).or_default();
        if *before >= 10 * 1460 {
            *at_once.entry((port, l.at)).or_default() += len;
        }
        *before += len;
        last = l.at.since(run.start);
    }
    (at_once.values().copied().max().unwrap_or(0), last)
}

#[test]
fn pacing_spreads_a_window_over_the_round_trip_and_delays_completion_little() {
    for name in ["tcp", "mptcp-2", "fuso"] {
        for burst in [0, 64_000] {
            let (all, soonest) = shape(&bulk(name, false, burst));
            let (some, last) = shape(&bulk(name, true, burst));
            assert!(all > 150_000, "{name}: {all} bytes at once without pacing");
            assert!(some <= 70_000, "{name}: {some} bytes at once with pacing");
            assert!(
                last < soonest + ms(100),
                "{name}: the last left at {last:?}, without pacing at {soonest:?}"
            );
        }
    }
}
