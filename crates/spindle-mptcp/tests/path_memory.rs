//! The memory of paths (RFC 9040, section 6): a connection starts with the window that an earlier one filled.

use std::sync::Arc;

use spindle_mptcp::{Config, Event, Handle, Stack, StackConfig, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Flags, Packet, Payload};

/// The initial window in segments.
const INITIAL: usize = 10;
/// The most segments with which a subflow starts.
const MOST: usize = 40;
const RESPONSE: usize = 200_000;

fn end(text: &str) -> Endpoint {
    let addr: std::net::SocketAddr = text.parse().unwrap();
    addr.into()
}

/// A client and a server, 10 ms apart.
struct Pair {
    now: Instant,
    client: Stack,
    server: Stack,
    config: Arc<Config>,
    /// The time from one end to the other.
    delay: Duration,
    /// The most segments that the server sent in a round trip.
    largest_flight: usize,
}

impl Pair {
    fn new(remembered_paths: usize) -> Self {
        Self::of("tcp", remembered_paths)
    }

    fn of(transport: &str, remembered_paths: usize) -> Self {
        let mut config = preset(transport).unwrap().config;
        (config.tcp.send_buffer, config.tcp.receive_buffer) = (1 << 20, 1 << 20);
        let config = Arc::new(config);
        let limits = StackConfig {
            remembered_paths,
            ..StackConfig::default()
        };
        let mut server = Stack::deterministic(limits, 1);
        server.listen(end("10.0.0.2:80"), config.clone()).unwrap();
        server.listen(end("[fd00::2]:80"), config.clone()).unwrap();
        Self {
            now: Instant::from_nanos(1_000_000_000),
            client: Stack::deterministic(StackConfig::default(), 2),
            server,
            config,
            delay: Duration::from_millis(10),
            largest_flight: 0,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.client.timeout(self.now);
        self.server.timeout(self.now);
    }

    /// What one stack sends now.
    fn sent(stack: &mut Stack, now: Instant) -> Vec<Packet> {
        std::iter::from_fn(|| stack.transmit(now)).collect()
    }

    /// Delivers packets one by one. Returns the answers.
    fn deliver(to: &mut Stack, now: Instant, packets: Vec<Packet>) -> Vec<Packet> {
        let answers = packets.into_iter().flat_map(|p| {
            to.receive(now, p);
            Self::sent(to, now)
        });
        answers.collect()
    }

    /// Exchanges packets until none is sent for five delays, which is less than a retransmission timeout. `flight` is on
    /// its way to the client.
    fn exchange_after(&mut self, mut flight: Vec<Packet>) {
        let mut quiet = 0;
        while quiet < 5 {
            self.pass(self.delay);
            let mut answers = Self::deliver(&mut self.client, self.now, flight);
            answers.extend(Self::sent(&mut self.client, self.now));
            quiet = if answers.is_empty() { quiet + 1 } else { 0 };
            self.pass(self.delay);
            flight = Self::deliver(&mut self.server, self.now, answers);
            flight.extend(Self::sent(&mut self.server, self.now));
            self.largest_flight = self.largest_flight.max(flight.len());
        }
    }

    fn exchange(&mut self) {
        self.exchange_after(Vec::new());
    }

    fn accepted(&mut self) -> Handle {
        let mut events = std::iter::from_fn(|| self.server.poll_event());
        let accepted = events.find_map(|e| match e {
            Event::Accepted { handle, .. } => Some(handle),
            _ => None,
        });
        accepted.expect("a connection")
    }

    /// Opens a connection from this address.
    fn open(&mut self, from: &str) -> (Handle, Handle) {
        let config = self.config.clone();
        let to = if end(from).addr.is_ipv4() {
            "10.0.0.2:80"
        } else {
            "[fd00::2]:80"
        };
        let client = self.client.connect(self.now, end(from), end(to), config);
        self.exchange();
        (client.unwrap(), self.accepted())
    }

    /// The server sends a response. Returns the number of segments of its first flight.
    fn first_flight(&mut self, server: Handle) -> usize {
        self.first_flight_of(server, RESPONSE)
    }

    /// The same for a response of this many bytes.
    fn first_flight_of(&mut self, server: Handle, bytes: usize) -> usize {
        let data = Payload::from(vec![7; bytes]);
        self.server.send(self.now, server, data).unwrap();
        let flight = Self::sent(&mut self.server, self.now);
        let segments = flight.iter().filter(|p| !p.payload().is_empty()).count();
        self.pass(self.delay);
        flight
            .into_iter()
            .for_each(|p| self.client.receive(self.now, p));
        self.exchange();
        segments
    }

    /// The client reads everything, and both ends close.
    fn close(&mut self, (client, server): (Handle, Handle)) {
        while let Ok(Some(_)) = self.client.recv(self.now, client, usize::MAX) {}
        self.server.close(self.now, server);
        self.exchange();
        while let Ok(Some(_)) = self.client.recv(self.now, client, usize::MAX) {}
        self.client.close(self.now, client);
        self.exchange();
    }

    /// A connection from its SYN to its end. Returns the number of segments of its first flight.
    fn fetch(&mut self) -> usize {
        self.fetch_of(RESPONSE)
    }

    /// The same with a response of this many bytes.
    fn fetch_of(&mut self, bytes: usize) -> usize {
        let ends = self.open("10.0.0.1:0");
        let flight = self.first_flight_of(ends.1, bytes);
        self.close(ends);
        flight
    }
}

#[test]
fn connection_starts_with_a_larger_window_after_one_that_ended_in_order() {
    let mut pair = Pair::new(4);
    assert_eq!(pair.fetch(), INITIAL);
    let second = pair.fetch();
    assert!((2 * INITIAL..=MOST).contains(&second), "{second} segments");
    let third = pair.fetch();
    assert!((second..=MOST).contains(&third), "{third} segments");
}

/// A record was halved by each connection, even if it sent one segment.
#[test]
fn connection_that_does_not_fill_the_window_leaves_it_to_the_next_one() {
    let mut pair = Pair::new(4);
    pair.fetch();
    for _ in 0..5 {
        assert_eq!(pair.fetch_of(1000), 1);
    }
    let flight = pair.fetch();
    assert!((2 * INITIAL..=MOST).contains(&flight), "{flight} segments");
}

#[test]
fn record_expires_although_connections_that_do_not_fill_the_window_use_it() {
    let mut pair = Pair::new(4);
    pair.fetch();
    for _ in 0..5 {
        pair.pass(Duration::from_secs(121));
        pair.fetch_of(1000);
    }
    assert_eq!(pair.fetch(), INITIAL);
}

/// The next connection may come before the subflows of the last one have ended.
#[test]
fn connection_starts_with_a_larger_window_while_the_fin_of_the_last_one_is_lost() {
    let mut pair = Pair::of("mptcp-1", 4);
    let (client, server) = pair.open("10.0.0.1:0");
    assert_eq!(pair.first_flight(server), INITIAL);
    while let Ok(Some(_)) = pair.client.recv(pair.now, client, usize::MAX) {}
    pair.server.close(pair.now, server);
    pair.exchange();
    pair.client.close(pair.now, client);
    let data_fin = Pair::sent(&mut pair.client, pair.now);
    let fins = Pair::deliver(&mut pair.server, pair.now, data_fin);
    assert!(
        fins.iter()
            .any(|p| matches!(p, Packet::Tcp(s) if s.flags.contains(Flags::FIN)))
    );
    let (_, second) = pair.open("10.0.0.1:0");
    let flight = pair.first_flight(second);
    assert!((2 * INITIAL..=MOST).contains(&flight), "{flight} segments");
}

/// A client closes when it has read the response, and the next connection begins at once. The server's application closes
/// later.
#[test]
fn connection_starts_with_a_larger_window_after_the_client_has_closed_the_last_one() {
    for transport in ["tcp", "mptcp-1"] {
        let mut pair = Pair::of(transport, 4);
        let (client, server) = pair.open("10.0.0.1:0");
        assert_eq!(pair.first_flight(server), INITIAL);
        while let Ok(Some(_)) = pair.client.recv(pair.now, client, usize::MAX) {}
        pair.client.close(pair.now, client);
        pair.exchange();
        let (_, second) = pair.open("10.0.0.1:0");
        let flight = pair.first_flight(second);
        assert!((2 * INITIAL..=MOST).contains(&flight), "{flight} segments");
    }
}

/// A client may close before the response, and read that. The window is that at the end of the response.
#[test]
fn connection_of_which_the_client_closes_first_is_remembered_at_its_end() {
    let mut pair = Pair::of("mptcp-1", 4);
    let ends = pair.open("10.0.0.1:0");
    pair.client.close(pair.now, ends.0);
    pair.exchange();
    assert_eq!(pair.first_flight(ends.1), INITIAL);
    pair.close(ends);
    let flight = pair.fetch();
    assert!((2 * INITIAL..=MOST).contains(&flight), "{flight} segments");
}

/// A timeout without a queue is no congestion for `spindle`. After it, cwnd is one segment, which was once remembered.
#[test]
fn window_before_a_timeout_without_congestion_is_remembered() {
    let mut pair = Pair::of("spindle", 4);
    let ends = pair.open("10.0.0.1:0");
    pair.first_flight(ends.1);
    let last = Payload::from(vec![7; 1000]);
    pair.server.send(pair.now, ends.1, last).unwrap();
    while pair.server.info(ends.1).unwrap().total.timeouts == 0 {
        let _lost = Pair::sent(&mut pair.server, pair.now);
        pair.pass(pair.delay);
    }
    pair.exchange();
    assert_eq!(pair.server.info(ends.1).unwrap().acknowledged, 201_000);
    pair.close(ends);
    let flight = pair.fetch();
    assert!((2 * INITIAL..=MOST).contains(&flight), "{flight} segments");
}

#[test]
fn stack_without_memory_starts_every_connection_with_the_initial_window() {
    let mut pair = Pair::new(0);
    assert_eq!([pair.fetch(), pair.fetch()], [INITIAL; 2]);
}

#[test]
fn one_of_two_connections_at_a_time_starts_with_the_larger_window() {
    let mut pair = Pair::new(4);
    pair.fetch();
    let (first, second) = (pair.open("10.0.0.1:0"), pair.open("10.0.0.1:0"));
    assert!(pair.first_flight(first.1) > INITIAL);
    assert_eq!(pair.first_flight(second.1), INITIAL);
}

/// The connection with the initial window ends last.
#[test]
fn connection_with_a_smaller_window_does_not_replace_the_record() {
    let mut pair = Pair::new(4);
    pair.fetch();
    let (first, second) = (pair.open("10.0.0.1:0"), pair.open("10.0.0.1:0"));
    pair.first_flight(first.1);
    pair.close(first);
    assert_eq!(pair.first_flight_of(second.1, 1000), 1);
    pair.close(second);
    assert!(pair.fetch() > INITIAL);
}

/// The largest flight of a response to `from`, which begins this long after another one to 10.0.0.1 and meets a queue of
/// 40 ms.
fn largest_flight_in_a_queue(from: &str, remembered_paths: usize, later: Duration) -> usize {
    let mut pair = Pair::of("spindle", remembered_paths);
    pair.fetch();
    pair.pass(later);
    pair.delay = Duration::from_millis(30);
    pair.largest_flight = 0;
    let (_, server) = pair.open(from);
    pair.first_flight(server);
    pair.largest_flight
}

/// A subflow would take the queue in which it begins for the path, and double its window until the queue overflows.
#[test]
fn subflow_that_begins_in_a_queue_knows_it_from_an_earlier_one_of_the_same_host() {
    let at_once = Duration::ZERO;
    let known = largest_flight_in_a_queue("10.0.0.1:0", 4, at_once);
    let unknown = [
        largest_flight_in_a_queue("10.0.0.1:0", 0, at_once),
        largest_flight_in_a_queue("10.0.0.99:0", 4, at_once),
        largest_flight_in_a_queue("10.0.0.1:0", 4, Duration::from_secs(21)),
    ];
    assert!(
        unknown.iter().all(|u| known * 2 <= *u),
        "{known} segments, not {unknown:?}"
    );
}

#[test]
fn connection_from_another_address_starts_with_the_initial_window() {
    let mut pair = Pair::new(4);
    pair.fetch();
    let other = pair.open("10.0.0.3:0");
    assert_eq!(pair.first_flight(other.1), INITIAL);
}

/// An IPv6 host changes the last 64 bits of its address, and those of a peer behind UDP are the number of a connection.
#[test]
fn ipv6_host_is_known_by_its_first_64_bits() {
    let mut pair = Pair::new(4);
    let mut flight_from = |from| {
        let ends = pair.open(from);
        let flight = pair.first_flight(ends.1);
        pair.close(ends);
        flight
    };
    assert_eq!(flight_from("[fd00:0:0:1::1]:0"), INITIAL);
    assert!(flight_from("[fd00:0:0:1:7::9]:0") > INITIAL);
    assert_eq!(flight_from("[fd00:0:0:2::1]:0"), INITIAL);
}

#[test]
fn connection_that_was_aborted_leaves_no_record() {
    let mut pair = Pair::new(4);
    let ends = pair.open("10.0.0.1:0");
    pair.first_flight(ends.1);
    pair.client.abort(pair.now, ends.0);
    pair.exchange();
    assert_eq!(pair.fetch(), INITIAL);
}

#[test]
fn record_expires_after_ten_minutes() {
    let mut pair = Pair::new(4);
    pair.fetch();
    pair.pass(Duration::from_secs(601));
    assert_eq!(pair.fetch(), INITIAL);
}

#[test]
fn connection_whose_syn_ack_was_lost_starts_with_no_larger_window() {
    let mut pair = Pair::new(4);
    pair.fetch();
    let ends = (end("10.0.0.1:0"), end("10.0.0.2:80"));
    let config = pair.config.clone();
    pair.client
        .connect(pair.now, ends.0, ends.1, config)
        .unwrap();
    let syn = Pair::sent(&mut pair.client, pair.now);
    let lost = Pair::deliver(&mut pair.server, pair.now, syn);
    assert_eq!(lost.len(), 1);
    pair.pass(Duration::from_secs(1));
    pair.exchange();
    let server = pair.accepted();
    let flight = pair.first_flight(server);
    assert!(flight <= INITIAL, "{flight} segments");
}

/// The time after which the server sends its SYN/ACK again.
fn syn_ack_timeout(pair: &mut Pair, from: &str) -> Duration {
    let config = pair.config.clone();
    pair.client
        .connect(pair.now, end(from), end("10.0.0.2:80"), config)
        .unwrap();
    let syn = Pair::sent(&mut pair.client, pair.now);
    assert_eq!(Pair::deliver(&mut pair.server, pair.now, syn).len(), 1);
    let start = pair.now;
    while Pair::sent(&mut pair.server, pair.now).is_empty() {
        pair.now += Duration::from_millis(1);
        pair.server.timeout(pair.now);
    }
    pair.now.since(start)
}

/// The path has a round-trip time of 20 ms, and the variation counts as half of it: 20 ms + 4 x 10 ms, below the minimum
/// of 200 ms. Another host of the same network has the same path.
#[test]
fn syn_ack_is_repeated_after_the_timeout_of_the_paths_round_trip_time() {
    for from in ["10.0.0.1:0", "10.0.0.99:0"] {
        let mut pair = Pair::new(4);
        pair.fetch();
        let timeout = syn_ack_timeout(&mut pair, from);
        assert_eq!(timeout, Duration::from_millis(200), "{from}");
    }
    let mut pair = Pair::new(4);
    pair.fetch();
    let timeout = syn_ack_timeout(&mut pair, "10.0.7.1:0");
    assert_eq!(timeout, Duration::from_secs(1), "another network");
}

#[test]
fn history_of_a_path_is_there_for_ten_minutes_and_not_without_memory() {
    let addr = |text: &str| end(text).addr;
    for (remembered, known) in [(4, true), (0, false)] {
        let mut pair = Pair::new(remembered);
        pair.fetch();
        let history = |pair: &Pair, after| {
            let at = pair.now + Duration::from_secs(after);
            let (local, remote) = (addr("10.0.0.2:0"), addr("10.0.0.7:0"));
            pair.server.path_history(at, local, remote)
        };
        assert_eq!(history(&pair, 0).is_some(), known);
        assert_eq!(history(&pair, 601), None);
        if let Some(h) = history(&pair, 0) {
            assert_eq!((h.sent.share, h.received.share), (0.0, 0.0));
            let srtt = h.srtt.as_millis();
            assert!((10..=30).contains(&srtt), "{srtt} ms");
        }
    }
}
