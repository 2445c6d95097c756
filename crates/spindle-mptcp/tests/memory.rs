//! The memory accounting of a stack: what is counted, which connections are ended when memory is short, and how
//! much each source may use.
//!
//! One test counts the bytes of the global allocator, so these tests are a separate program.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod peer;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use peer::{Bench, Flow, config, end, here, syn, there};
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{CloseReason, Config, Event, Handle, StackConfig, TcpConfig, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Flags, Payload, Segment, SeqNumber};

const MB: u64 = 1_000_000;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// Counts the bytes that this thread has allocated.
struct Counting;

fn count(bytes: i64) {
    // A thread that is ending has no counter.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call is forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Plain TCP with send buffers of 16 MB.
fn plain() -> Config {
    let mut c = config(Passive);
    c.multipath = None;
    c.tcp.send_buffer = 16 << 20;
    c
}

fn limited(max_memory: u64) -> StackConfig {
    StackConfig {
        max_memory,
        ..StackConfig::default()
    }
}

/// A peer and the stack's handle of its connection.
struct Peer {
    flow: Flow,
    handle: Handle,
}

/// Opens a connection from `from`. Returns `None` if the stack refuses it.
fn open(b: &mut Bench, from: &str) -> Option<Peer> {
    let mut flow = Flow::new(here(), end(from), 1, SeqNumber(0));
    let out = b.push(syn(&flow, Flags::SYN));
    let answer = out.iter().find(|s| s.dst == flow.there)?;
    if !answer.flags.contains(Flags::SYN) {
        return None;
    }
    flow.seq = flow.seq + 1;
    flow.ack = answer.seq + 1;
    b.push(flow.segment(Flags::ACK));
    let mut accepted = None;
    while let Some(event) = b.stack.poll_event() {
        if let Event::Accepted { handle, .. } = event {
            accepted = Some(handle);
        }
    }
    accepted.map(|handle| Peer { flow, handle })
}

impl Peer {
    /// The stack's application writes as much as it can, and the peer receives the data that its first window
    /// allows. The window stays shut afterwards.
    fn pull_and_shut(&mut self, b: &mut Bench) {
        // Data that do not fit are not written.
        let _ = b.stack.send(b.now, self.handle, Payload::Length(1 << 30));
        let out = b.drain();
        self.flow.take(&out);
        self.answer(b);
    }

    /// Acknowledges all received data with a window of zero.
    fn answer(&mut self, b: &mut Bench) {
        let mut ack = self.flow.segment(Flags::ACK);
        ack.window = 0;
        let out = b.push(ack);
        self.flow.take(&out);
    }

    fn closed(&self, b: &Bench) -> Option<CloseReason> {
        b.stack.info(self.handle).and_then(|i| i.closed)
    }
}

/// Lets `time` pass. The `shut` peers answer what the stack sends them and keep their windows shut, and the
/// application closes connections that have ended. Returns how these ended.
fn pass(b: &mut Bench, time: Duration, shut: &mut [Peer]) -> Vec<CloseReason> {
    let until = b.now + time;
    let mut ended = Vec::new();
    loop {
        let due = b.stack.next_timeout().map_or(until, |t| t.max(b.now));
        b.now = due.min(until);
        b.stack.timeout(b.now);
        let out = b.drain();
        for peer in shut.iter_mut() {
            if out
                .iter()
                .any(|s| s.dst == peer.flow.there && !s.flags.contains(Flags::RST))
            {
                peer.flow.take(&out);
                peer.answer(b);
            }
        }
        while let Some(event) = b.stack.poll_event() {
            if let Event::Closed { handle, reason } = event {
                ended.push(reason);
                b.stack.close(b.now, handle);
            }
        }
        if due >= until {
            return ended;
        }
    }
}

/// The limit is 200 MB. Fourteen peers use 16 MB each, shut their windows, and answer probes indefinitely.
#[test]
fn peers_with_shut_windows_at_the_limit_make_room_for_new_connections() {
    let limit = 200 * MB;
    let mut b = Bench::listening(plain(), limited(limit));
    let mut peers: Vec<Peer> = Vec::new();
    for k in 0..14 {
        let mut peer = open(&mut b, &format!("10.0.1.{k}:9")).expect("there is room");
        peer.pull_and_shut(&mut b);
        peers.push(peer);
        pass(&mut b, Duration::from_millis(300), &mut peers);
        assert!(b.stack.memory() <= limit, "{}", b.stack.memory());
    }
    for k in 0..100 {
        let newcomer = open(&mut b, &format!("10.0.2.{k}:9"));
        let newcomer = newcomer.unwrap_or_else(|| panic!("number {k} was refused"));
        b.stack.abort(b.now, newcomer.handle);
        pass(&mut b, Duration::from_millis(50), &mut peers);
        assert!(b.stack.memory() <= limit);
    }
    let ended = b.stack.counters().evicted;
    assert!((1..14).contains(&ended), "{ended} were ended");
    assert_eq!(b.stack.counters().refused.memory, 0);
    assert!(b.stack.memory() < limit / 8 * 7, "there is room again");
}

/// Connections that hold most memory for longest are ended, and only until there is room.
#[test]
fn the_largest_peers_without_progress_are_ended_first() {
    let mut b = Bench::listening(plain(), limited(100 * MB));
    let mut peers: Vec<Peer> = Vec::new();
    for k in 0..8 {
        let mut peer = open(&mut b, &format!("10.0.1.{k}:9")).expect("there is room");
        let len = if k % 2 == 0 { 10 << 20 } else { 1 << 20 };
        b.stack
            .send(b.now, peer.handle, Payload::Length(len))
            .unwrap();
        let out = b.drain();
        peer.flow.take(&out);
        peer.answer(&mut b);
        peers.push(peer);
    }
    pass(&mut b, Duration::from_secs(10), &mut peers);
    assert_eq!(b.stack.counters().evicted, 0, "memory is not short");
    for k in 0..6 {
        let mut peer = open(&mut b, &format!("10.0.2.{k}:9")).expect("there is room");
        peer.pull_and_shut(&mut b);
        peers.push(peer);
    }
    let ended = pass(&mut b, Duration::from_secs(1), &mut peers);
    assert!(!ended.is_empty());
    assert!(ended.iter().all(|r| *r == CloseReason::MemoryPressure));
    let small = [1, 3, 5, 7].map(|k| peers[k].closed(&b));
    assert_eq!(small, [None; 4], "small connections stay open");
    let news: Vec<_> = peers[8..].iter().map(|p| p.closed(&b)).collect();
    assert!(
        news.iter().all(Option::is_none),
        "{news:?}: ended within two seconds without progress"
    );
}

/// A slow client receives 100 KB a second while other connections stall.
#[test]
fn a_slow_connection_that_makes_progress_is_not_ended() {
    let mut b = Bench::listening(plain(), limited(100 * MB));
    let mut slow = open(&mut b, "10.0.3.1:9").expect("there is room");
    b.stack
        .send(b.now, slow.handle, Payload::Length(400_000))
        .unwrap();
    let out = b.drain();
    slow.flow.take(&out);
    let mut peers: Vec<Peer> = Vec::new();
    let mut taken = 0;
    for k in 0..100 {
        if let Some(mut peer) = open(&mut b, &format!("10.0.1.{k}:9")) {
            peer.pull_and_shut(&mut b);
            peers.push(peer);
        }
        let mut ack = slow.flow.segment(Flags::ACK);
        ack.window = 10_000;
        let out = b.push(ack);
        slow.flow.take(&out);
        let room = b.stack.writable(slow.handle).min(10_000) as u32;
        taken += b
            .stack
            .send(b.now, slow.handle, Payload::Length(room))
            .unwrap();
        let out = b.drain();
        slow.flow.take(&out);
        pass(&mut b, Duration::from_millis(100), &mut peers);
        assert_eq!(slow.closed(&b), None);
    }
    assert!(b.stack.counters().evicted > 10);
    assert!(taken > 100_000, "{taken}");
}

/// A byte a second is not progress for a connection that holds megabytes.
#[test]
fn a_peer_that_receives_a_byte_a_second_is_ended_while_memory_is_short() {
    let mut c = plain();
    c.tcp.nagle = false;
    let mut b = Bench::listening(c, limited(100 * MB));
    let mut peers: Vec<Peer> = Vec::new();
    for k in 0..6 {
        let mut peer = open(&mut b, &format!("10.0.1.{k}:9")).expect("there is room");
        peer.pull_and_shut(&mut b);
        peers.push(peer);
    }
    let mut ended = Vec::new();
    for _ in 0..40 {
        for peer in &mut peers {
            let mut ack = peer.flow.segment(Flags::ACK);
            ack.window = 1;
            let out = b.push(ack);
            peer.flow.take(&out);
        }
        ended.extend(pass(&mut b, Duration::from_millis(500), &mut peers));
    }
    assert!(!ended.is_empty());
    assert!(b.stack.memory() < 100 * MB / 8 * 7);
}

/// One host uses as much memory as it can over many connections. Another host is served normally.
#[test]
fn one_source_cannot_use_more_than_its_share_of_memory() {
    let limit = 200 * MB;
    let mut b = Bench::listening(plain(), limited(limit));
    let mut peers: Vec<Peer> = Vec::new();
    for k in 0..30 {
        if let Some(mut peer) = open(&mut b, &format!("10.0.1.1:{}", 1000 + k)) {
            peer.pull_and_shut(&mut b);
            peers.push(peer);
        }
    }
    // Half of the limit, and the memory that its connections were granted before.
    let held = b.stack.memory();
    assert!(held < limit / 2 + 20 * MB, "{held}");
    let mut other = open(&mut b, "10.0.2.1:9").expect("there is room");
    let taken = b.stack.send(b.now, other.handle, Payload::Length(8 << 20));
    assert_eq!(taken, Ok(8 << 20), "the other source is served in full");
    other.answer(&mut b);
}

/// Bytes held by a driver are counted, and a connection may be ended because of them.
#[test]
fn bytes_held_outside_the_stack_count_against_the_memory_limit() {
    let mut b = Bench::listening(plain(), limited(10 * MB));
    let peer = open(&mut b, "10.0.1.1:9").expect("there is room");
    let before = b.stack.memory();
    b.stack.set_outside_of(b.now, peer.handle, 9 * MB);
    b.stack.set_outside(9 * MB);
    assert_eq!(b.stack.memory(), before + 9 * MB);
    assert!(b.stack.is_held_back(peer.handle));
    let ended = pass(&mut b, Duration::from_secs(3), &mut []);
    assert_eq!(ended, [CloseReason::MemoryPressure]);
    b.stack.set_outside(0);
    assert!(open(&mut b, "10.0.1.2:9").is_some());
}

/// Data within announced windows arrive when no memory is free. They are not stored and must be retransmitted.
#[test]
fn unread_in_order_data_are_not_stored_beyond_the_memory_limit() {
    let limit = 2 * MB;
    let mut b = Bench::listening(plain(), limited(limit));
    let mut peers: Vec<Peer> = (0..60)
        .map(|k| {
            pass(&mut b, Duration::from_millis(50), &mut []);
            open(&mut b, &format!("10.0.1.{k}:9")).expect("there is room")
        })
        .collect();
    for _ in 0..40 {
        for peer in &mut peers {
            let mut seg = peer.flow.segment(Flags::ACK);
            seg.payload = Payload::Length(1460);
            let out = b.push(seg);
            let acked = out.iter().rev().find(|s| s.dst == peer.flow.there);
            if let Some(s) = acked.filter(|s| !s.flags.contains(Flags::RST)) {
                peer.flow.seq = s.ack;
            }
        }
        assert!(b.stack.memory() <= limit + 2000, "{}", b.stack.memory());
    }
    // A connection whose application reads continues.
    let got = |b: &mut Bench, h| b.stack.recv(b.now, h, 1 << 20).unwrap().map(|p| p.len());
    let peer = &mut peers[0];
    while got(&mut b, peer.handle).is_some() {}
    let mut seg = peer.flow.segment(Flags::ACK);
    seg.payload = Payload::Length(1000);
    b.push(seg);
    assert_eq!(got(&mut b, peer.handle), Some(1000));
}

/// Once half of all connections are open, a source may have a quarter of the limit. Other sources get the rest.
#[test]
fn one_source_cannot_use_all_connections() {
    let stack = StackConfig {
        max_connections: 40,
        ..StackConfig::default()
    };
    let mut b = Bench::listening(plain(), stack);
    let all: Vec<_> = (0..40)
        .map(|k| open(&mut b, &format!("10.0.1.1:{}", 1000 + k)))
        .collect();
    let taken = all.iter().flatten().count();
    assert_eq!(taken, 20, "half, while no other source has any");
    assert_eq!(b.stack.counters().refused.source, 20);
    let others = (0..20).filter_map(|k| open(&mut b, &format!("10.0.2.{k}:9")));
    assert_eq!(others.count(), 20);
    for peer in all.iter().flatten().take(15) {
        b.stack.abort(b.now, peer.handle);
        b.drain();
    }
    let again = (0..15).filter_map(|k| open(&mut b, &format!("10.0.1.1:{}", 2000 + k)));
    assert_eq!(again.count(), 5, "up to its share");
}

/// SYNs of a source beyond its share are answered with cookies. SYNs of other sources are stored.
#[test]
fn one_source_cannot_use_all_half_open_connections() {
    let stack = StackConfig {
        max_half_open: 40,
        ..StackConfig::default()
    };
    let mut b = Bench::listening(plain(), stack);
    for k in 0..100 {
        let flow = Flow::new(
            here(),
            end(&format!("10.0.1.1:{}", 1000 + k)),
            1,
            SeqNumber(0),
        );
        b.push(syn(&flow, Flags::SYN));
    }
    assert_eq!(
        (b.stack.half_open(), b.stack.counters().cookies.sent),
        (20, 80)
    );
    let flow = Flow::new(here(), end("10.0.2.1:9"), 1, SeqNumber(0));
    b.push(syn(&flow, Flags::SYN));
    assert_eq!(
        (b.stack.half_open(), b.stack.counters().cookies.sent),
        (21, 80)
    );
}

/// SYNs are forged with the address of a source that has no connections. The source can still open its share of
/// connections.
#[test]
fn half_open_connections_do_not_use_up_the_connections_of_their_source() {
    let stack = StackConfig {
        max_connections: 40,
        ..StackConfig::default()
    };
    let mut b = Bench::listening(plain(), stack);
    for k in 0..20 {
        let from = end(&format!("10.0.1.1:{}", 1000 + k));
        b.push(syn(&Flow::new(here(), from, 1, SeqNumber(0)), Flags::SYN));
    }
    assert_eq!(b.stack.half_open(), 20);
    let opened = (0..20).filter_map(|k| open(&mut b, &format!("10.0.1.1:{}", 2000 + k)));
    assert_eq!(opened.count(), 10, "its share");
}

/// All SYNs arrive before the first third ACK, while the source has no connections yet.
#[test]
fn concurrent_handshakes_do_not_exceed_the_connection_share_of_their_source() {
    let stack = StackConfig {
        max_connections: 40,
        ..StackConfig::default()
    };
    let mut b = Bench::listening(plain(), stack);
    let mut flows = Vec::new();
    for k in 0..30 {
        let from = end(&format!("10.0.1.1:{}", 1000 + k));
        let mut flow = Flow::new(here(), from, 1, SeqNumber(0));
        let out = b.push(syn(&flow, Flags::SYN));
        (flow.seq, flow.ack) = (flow.seq + 1, out[0].seq + 1);
        flows.push(flow);
    }
    let resets = flows.iter().filter(|flow| {
        let out = b.push(flow.segment(Flags::ACK));
        out.iter().any(|s| s.flags.contains(Flags::RST))
    });
    assert_eq!(resets.count(), 10);
    let left = (b.stack.half_open(), b.stack.handles().count());
    assert_eq!(left, (0, 20), "half, while no other source has any");
    assert!(open(&mut b, "10.0.2.1:9").is_some());
}

/// Memory is not short, but a window must not stay shut indefinitely.
#[test]
fn a_window_shut_for_the_persist_timeout_ends_the_connection() {
    let mut c = plain();
    c.tcp.persist_timeout = Some(Duration::from_secs(300));
    let mut b = Bench::listening(c, StackConfig::default());
    let mut peers = vec![open(&mut b, "10.0.1.1:9").unwrap()];
    peers[0].pull_and_shut(&mut b);
    assert_eq!(pass(&mut b, Duration::from_secs(295), &mut peers), []);
    let ended = pass(&mut b, Duration::from_secs(10), &mut peers);
    assert_eq!(ended, [CloseReason::PersistTimeout]);
}

/// Each opening of the window restarts the persist timeout.
#[test]
fn a_window_that_opens_within_the_persist_timeout_keeps_the_connection() {
    let mut c = plain();
    c.tcp.persist_timeout = Some(Duration::from_secs(300));
    let mut b = Bench::listening(c, StackConfig::default());
    let mut peers = vec![open(&mut b, "10.0.1.1:9").unwrap()];
    peers[0].pull_and_shut(&mut b);
    for _ in 0..5 {
        assert_eq!(pass(&mut b, Duration::from_secs(200), &mut peers), []);
        let mut ack = peers[0].flow.segment(Flags::ACK);
        ack.window = 20_000;
        let out = b.push(ack);
        peers[0].flow.take(&out);
        peers[0].answer(&mut b);
    }
    assert_eq!(peers[0].closed(&b), None);
}

/// The service continues to write while its client's window is shut.
#[test]
fn an_autotuned_send_buffer_accepts_no_more_data_while_the_window_is_shut() {
    let mut c = plain();
    c.tcp.autotune = true;
    let mut b = Bench::listening(c, StackConfig::default());
    let mut peer = open(&mut b, "10.0.1.1:9").unwrap();
    // The peer first receives megabytes, so that the buffer grows.
    let mut taken = 0;
    while taken < 4 << 20 {
        taken += b
            .stack
            .send(b.now, peer.handle, Payload::Length(1 << 30))
            .unwrap();
        let out = b.drain();
        peer.flow.take(&out);
        let ack = peer.flow.segment(Flags::ACK);
        let out = b.push(ack);
        peer.flow.take(&out);
    }
    peer.answer(&mut b);
    let before = b.stack.info(peer.handle).unwrap();
    let held = before.written - before.acknowledged;
    assert!(held > 64 << 10, "the buffer has grown: {held}");
    assert_eq!(b.stack.writable(peer.handle), 0);
    assert_eq!(
        b.stack.send(b.now, peer.handle, Payload::Length(1 << 30)),
        Ok(0)
    );
    while b.stack.poll_event().is_some() {}
    b.push(peer.flow.segment(Flags::ACK));
    let told = std::iter::from_fn(|| b.stack.poll_event());
    assert!(told.into_iter().any(|e| e
        == Event::Writable {
            handle: peer.handle
        }));
    assert!(
        b.stack.writable(peer.handle) > 0,
        "not writable once the window opens"
    );
}

/// The application has closed, the FIN is acknowledged, and the peer never closes.
#[test]
fn a_closed_connection_waits_for_the_peers_fin_for_the_fin_timeout() {
    let mut b = Bench::listening(plain(), StackConfig::default());
    let mut peer = open(&mut b, "10.0.1.1:9").unwrap();
    b.stack.close(b.now, peer.handle);
    let out = b.drain();
    peer.flow.take(&out);
    b.push(peer.flow.segment(Flags::ACK));
    assert_eq!(b.stack.handles().count(), 1);
    let start = b.now;
    let ended = pass(&mut b, Duration::from_secs(59), &mut []);
    assert!(ended.is_empty(), "{ended:?}");
    let ended = pass(&mut b, Duration::from_secs(2), &mut []);
    assert_eq!(
        ended,
        [CloseReason::FinTimeout],
        "after {:?}",
        b.now.since(start)
    );
    assert_eq!(b.stack.handles().count(), 0);
}

/// Only the sending side is closed. The application may wait indefinitely for an answer.
#[test]
fn a_half_closed_connection_is_not_ended_by_the_fin_timeout() {
    let mut b = Bench::listening(plain(), StackConfig::default());
    let mut peer = open(&mut b, "10.0.1.1:9").unwrap();
    b.stack.shutdown(b.now, peer.handle);
    let out = b.drain();
    peer.flow.take(&out);
    b.push(peer.flow.segment(Flags::ACK));
    assert_eq!(pass(&mut b, Duration::from_secs(3600), &mut []), []);
    assert_eq!(peer.closed(&b), None);
}

/// The DATA_FIN is acknowledged, and the peer's DATA_FIN never arrives.
#[test]
fn a_closed_multipath_connection_waits_for_the_peers_data_fin_for_the_fin_timeout() {
    let (mut b, mut flow) = Bench::server(config(Passive), StackConfig::default());
    let h = b.handle.unwrap();
    b.stack.close(b.now, h);
    let out = b.drain();
    flow.take(&out);
    let ack = b.data_ack(&flow, 1);
    b.push(ack);
    while b.stack.poll_event().is_some() {}
    assert_eq!(pass(&mut b, Duration::from_secs(59), &mut []), []);
    assert_eq!(
        pass(&mut b, Duration::from_secs(2), &mut []),
        [CloseReason::FinTimeout]
    );
}

/// Every subflow acknowledges its data, and the peer sends no DATA_ACK for them.
#[test]
fn subflow_acks_without_data_acks_do_not_postpone_the_user_timeout() {
    let mut c = config(Passive);
    c.tcp.user_timeout = Duration::from_secs(60);
    let (mut b, mut flow) = Bench::server(c, StackConfig::default());
    let h = b.handle.unwrap();
    b.stack.send(b.now, h, Payload::Length(1 << 30)).unwrap();
    let start = b.now;
    let mut out = b.drain();
    while b.stack.info(h).unwrap().closed.is_none() {
        let mine: Vec<Segment> = out.into_iter().filter(|s| s.dst == flow.there).collect();
        flow.take(&mine);
        let ack = b.data_ack(&flow, 0);
        out = b.push(ack);
        if out.is_empty() {
            out = b.wait();
        }
        assert!(b.now.since(start) < Duration::from_secs(90), "not ended");
    }
    assert_eq!(
        b.stack.info(h).unwrap().closed,
        Some(CloseReason::UserTimeout)
    );
}

/// The counted memory of an idle connection matches the memory allocated for it.
#[test]
fn the_counted_memory_of_an_idle_connection_matches_its_allocations() {
    for name in ["tcp", "mptcp", "fuso", "cofuso"] {
        let c = preset(name).unwrap().config;
        let mut b = Bench::listening(c, StackConfig::default());
        open(&mut b, "10.0.0.9:9").expect("there is room");
        let (before, counted) = (HELD.get(), b.stack.memory());
        for k in 0..1000 {
            open(&mut b, &format!("10.0.{}.{}:9", 1 + k / 250, k % 250)).expect("there is room");
        }
        let real = (HELD.get() - before) / 1000;
        let counted = (b.stack.memory() - counted) as i64 / 1000;
        assert!(
            real <= counted && counted <= 2 * real,
            "{name}: {real} bytes, {counted} counted"
        );
    }
}

impl Peer {
    /// The stack closes first, then the peer, so the stack keeps TIME_WAIT.
    fn rest(&mut self, b: &mut Bench) {
        b.stack.close(b.now, self.handle);
        let out = b.drain();
        self.flow.take(&out);
        b.push(self.flow.segment(Flags::ACK));
        b.push(self.flow.segment(Flags::FIN | Flags::ACK));
        while b.stack.poll_event().is_some() {}
    }
}

/// The counted memory of a connection in TIME_WAIT matches the memory allocated for it.
#[test]
fn the_counted_memory_of_a_time_wait_connection_matches_its_allocations() {
    for name in ["tcp", "mptcp", "fuso", "cofuso"] {
        let c = preset(name).unwrap().config;
        let mut b = Bench::listening(c, StackConfig::default());
        open(&mut b, "10.0.0.9:9").unwrap().rest(&mut b);
        let (before, counted) = (HELD.get(), b.stack.memory());
        for k in 0..1000 {
            let from = format!("10.0.{}.{}:9", 1 + k / 250, k % 250);
            open(&mut b, &from).unwrap().rest(&mut b);
        }
        assert_eq!(b.stack.handles().count(), 1001);
        let real = (HELD.get() - before) / 1000;
        let counted = (b.stack.memory() - counted) as i64 / 1000;
        assert!(
            real <= counted && counted <= 2 * real,
            "{name}: {real} bytes, {counted} counted"
        );
    }
}

/// As many connections stay in TIME_WAIT as there is memory for. The oldest ones make room.
#[test]
fn connections_in_time_wait_make_room_for_new_ones() {
    let limit = 8 * MB;
    let mut b = Bench::listening(plain(), limited(limit));
    for k in 0..2000 {
        b.now += Duration::from_millis(20);
        let from = format!("10.0.{}.{}:9", 1 + k / 250, k % 250);
        let peer = open(&mut b, &from);
        peer.unwrap_or_else(|| panic!("number {k} was refused"))
            .rest(&mut b);
        assert!(b.stack.memory() <= limit + 8192, "{}", b.stack.memory());
    }
    assert_eq!(b.stack.counters().evicted, 0);
    pass(&mut b, Duration::from_secs(1), &mut []);
    assert!(b.stack.memory() <= limit / 8 * 7);
    let left = b.stack.handles().count();
    assert!(left > 200, "{left}: more were ended than necessary");
}

/// The memory that a new connection may use at once is reserved when it is established, and for some time.
#[test]
fn memory_for_first_data_is_reserved_for_each_accepted_connection() {
    let limit = 10 * MB;
    let mut b = Bench::listening(plain(), limited(limit));
    let peers: Vec<_> = (0..200)
        .filter_map(|k| open(&mut b, &format!("10.0.1.{k}:9")))
        .collect();
    assert!((100..160).contains(&peers.len()), "{}", peers.len());
    for peer in &peers {
        let sent = b.stack.send(b.now, peer.handle, Payload::Length(64 << 10));
        assert_eq!(sent, Ok(64 << 10));
    }
    assert!(b.stack.memory() <= limit, "{}", b.stack.memory());
}

/// Connections in TIME_WAIT are ended before connections that hold data without progress.
#[test]
fn time_wait_connections_are_ended_before_connections_that_hold_data() {
    let limit = 20 * MB;
    let mut b = Bench::listening(plain(), limited(limit));
    let peer = open(&mut b, "10.0.9.9:9").unwrap();
    let sent = b.stack.send(b.now, peer.handle, Payload::Length(14 << 20));
    assert_eq!(sent, Ok(14 << 20));
    for k in 0..600 {
        b.now += Duration::from_millis(20);
        let from = format!("10.0.{}.{}:9", 1 + k / 250, k % 250);
        open(&mut b, &from).unwrap().rest(&mut b);
    }
    assert!(b.stack.memory() > limit / 8 * 7, "memory is short");
    let ended = pass(&mut b, Duration::from_secs(5), &mut []);
    assert_eq!((ended, b.stack.counters().evicted), (vec![], 0));
    assert!(b.stack.memory() <= limit / 8 * 6);
}

/// One host keeps idle connections open, as many as there is memory for.
#[test]
fn idle_connections_of_a_source_beyond_its_share_are_ended_to_make_room() {
    let limit = 2 * MB;
    let mut b = Bench::listening(plain(), limited(limit));
    let of_others: Vec<_> = (0..20)
        .map(|k| {
            b.now += Duration::from_secs(1);
            open(&mut b, &format!("10.0.2.{k}:9")).unwrap()
        })
        .collect();
    let mut idle = Vec::new();
    while b.stack.memory() < limit {
        b.now += Duration::from_secs(1);
        let Some(peer) = open(&mut b, &format!("10.0.1.1:{}", 1000 + idle.len())) else {
            break;
        };
        b.stack.set_overhead_of(peer.handle, 6 << 10);
        idle.push(peer);
        b.stack.set_outside((6 << 10) * idle.len() as u64);
    }
    // The host is refused once memory is short. Memory held outside the stack uses up the rest.
    b.stack
        .set_outside(limit - b.stack.memory() + (6 << 10) * idle.len() as u64);
    assert!(b.stack.memory() >= limit);
    let ended = pass(&mut b, Duration::from_millis(2500), &mut []);
    assert!(ended.iter().all(|r| *r == CloseReason::MemoryPressure));
    let gone = idle.iter().filter(|p| b.stack.info(p.handle).is_none());
    assert_eq!(gone.count(), ended.len());
    assert!(
        !ended.is_empty() && ended.len() < idle.len(),
        "{}",
        ended.len()
    );
    assert!(
        of_others
            .iter()
            .all(|p| p.closed(&b).is_none() && b.stack.info(p.handle).is_some())
    );
    assert!(open(&mut b, "10.0.3.1:9").is_some());
}

/// Memory becomes short and free again in turn, with each segment. No segment walks over all connections, and
/// few timers do.
#[test]
fn no_segment_walks_over_all_connections_while_memory_is_short() {
    const OTHERS: u64 = 3000;
    let limit = 100 * MB;
    let mut b = Bench::listening(plain(), limited(limit));
    for k in 0..OTHERS {
        open(&mut b, &format!("10.1.{}.{}:9", k / 250, k % 250)).expect("there is room");
    }
    let mut peer = open(&mut b, "10.0.1.1:9").expect("there is room");
    pass(&mut b, Duration::from_secs(1), &mut []);
    let begin = b.stack.counters().steps;
    for k in 0..400 {
        b.stack.set_outside(if k % 2 == 0 { 95 * MB } else { 0 });
        let before = b.stack.counters().steps;
        let mut seg = peer.flow.segment(Flags::ACK);
        seg.payload = Payload::Length(1);
        peer.flow.seq = peer.flow.seq + 1;
        b.push(seg);
        let cost = b.stack.counters().steps - before;
        assert!(cost <= 64, "{cost} steps of one segment");
        b.stack.timeout(b.now);
    }
    // The limit allows, every 100 ms of 400 ms, a walk over all connections and a search for connections
    // without progress.
    let steps = b.stack.counters().steps - begin;
    assert!(steps <= 2 * 5 * (OTHERS + 100) + 64 * 400, "{steps} steps");
    assert!(steps > OTHERS, "steps are not counted");
}

/// The defaults are the documented ones.
#[test]
fn default_limits_match_the_documentation() {
    let tcp = TcpConfig::default();
    assert_eq!(
        (tcp.persist_timeout, tcp.fin_timeout),
        (None, Duration::from_secs(60))
    );
    let stack = StackConfig::default();
    assert_eq!(
        (stack.max_memory, stack.source_share, stack.source_prefix),
        (u64::MAX, 25, 64)
    );
    let _: (Instant, _) = (Instant::ZERO, there());
}
