//! TIME_WAIT (RFC 9293, section 3.3.2) against the limits: it is no open connection, and bounded.

use std::sync::Arc;

use spindle_mptcp::{Config, Event, Handle, Stack, StackConfig, StackError, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::Endpoint;

const MOST: usize = 4;
const MOST_TIME_WAIT: usize = 8;

struct Pair {
    now: Instant,
    stacks: [Stack; 2],
    config: Arc<Config>,
    server: Endpoint,
}

impl Pair {
    fn new() -> Self {
        let limits = StackConfig {
            max_connections: MOST,
            max_time_wait: MOST_TIME_WAIT,
            source_share: 100,
            ..StackConfig::default()
        };
        let config = Arc::new(preset("fuso").unwrap().config);
        let server = Endpoint::new("10.0.0.2".parse().unwrap(), 80);
        let mut stacks = [1, 2].map(|seed| Stack::deterministic(limits.clone(), seed));
        stacks[1].listen(server, config.clone()).unwrap();
        Self {
            now: Instant::from_nanos(1_000_000_000),
            stacks,
            config,
            server,
        }
    }

    /// Until nothing is on its way any more. Returns what the server accepted.
    fn settle(&mut self) -> Vec<Handle> {
        let mut accepted = Vec::new();
        let mut quiet = 0;
        while quiet < 2 {
            quiet += 1;
            for side in [0, 1] {
                while let Some(segment) = self.stacks[side].transmit(self.now) {
                    self.stacks[1 - side].receive(self.now, segment);
                    quiet = 0;
                }
                while let Some(event) = self.stacks[side].poll_event() {
                    if let Event::Accepted { handle, .. } = event {
                        accepted.push(handle);
                    }
                }
            }
            self.pass(Duration::from_millis(50));
        }
        accepted
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.stacks.iter_mut().for_each(|s| s.timeout(self.now));
    }

    fn open(&mut self) -> Result<Handle, StackError> {
        let local = Endpoint::new("10.0.0.1".parse().unwrap(), 0);
        self.stacks[0].connect(self.now, local, self.server, self.config.clone())
    }

    /// A connection from its handshake to its end; the client closes first, and keeps TIME_WAIT.
    fn come_and_go(&mut self) {
        let client = self.open().unwrap();
        let accepted = self.settle();
        assert_eq!(accepted.len(), 1, "refused");
        self.stacks[0].close(self.now, client);
        self.settle();
        self.stacks[1].close(self.now, accepted[0]);
        self.settle();
    }
}

#[test]
fn time_wait_counts_against_no_limit_of_connections_and_the_oldest_goes_at_its_own() {
    let mut p = Pair::new();
    for k in 1..=3 * MOST_TIME_WAIT {
        p.come_and_go();
        let there = p.stacks[0].handles().count();
        assert_eq!(there, k.min(MOST_TIME_WAIT), "after {k}");
    }
    let first = p.stacks[0].handles().count();
    assert_eq!(
        p.stacks[0].counters().closed as usize,
        3 * MOST_TIME_WAIT - first
    );
    // 2 MSL later nothing is left.
    p.pass(p.config.tcp.msl * 2 + Duration::from_millis(1));
    p.settle();
    assert_eq!(p.stacks[0].handles().count(), 0);
}

#[test]
fn open_connections_still_count() {
    let mut p = Pair::new();
    p.come_and_go();
    for _ in 0..MOST {
        p.open().unwrap();
        assert_eq!(p.settle().len(), 1);
    }
    assert_eq!(p.open(), Err(StackError::TooManyConnections(MOST)));
}
