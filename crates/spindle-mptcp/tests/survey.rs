//! Collecting the counters of all connections in parts.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::sync::Arc;

use spindle_mptcp::path_manager::FullMesh;
use spindle_mptcp::{Event, Handle, StackCounters, preset};
use spindle_units::Duration;
use spindle_wire::Payload;
use support::transfer::transfer;
use support::{CLIENT, Net, Path, SERVER, endpoint};

const CONNECTIONS: u16 = 100;
const PART: u32 = 8;

/// A network with [`CONNECTIONS`] connections. The server has received 1000 bytes on each.
fn network() -> (Net, Vec<Handle>) {
    let mut net = Net::new(5, vec![Path::clean(Duration::from_millis(1))]);
    let config = Arc::new(preset("tcp").expect("a preset").config);
    let listening = net.stacks[SERVER].listen(endpoint(2, 80), config.clone());
    listening.expect("free");
    for _ in 0..CONNECTIONS {
        let opened =
            net.stacks[CLIENT].connect(net.now, endpoint(1, 0), endpoint(2, 80), config.clone());
        let h = opened.expect("connects");
        let sent = net.stacks[CLIENT].send(net.now, h, Payload::Length(1000));
        assert_eq!(sent, Ok(1000));
    }
    while net.step(net.now + Duration::from_secs(1)) {}
    let accepted = net.events.iter().filter_map(|(_, _, e)| match e {
        Event::Accepted { handle, .. } => Some(*handle),
        _ => None,
    });
    let handles: Vec<Handle> = accepted.collect();
    assert_eq!(handles.len(), usize::from(CONNECTIONS));
    (net, handles)
}

/// Runs a whole survey and returns the number of calls it took. `between` is called after each call but the
/// last.
fn survey(net: &mut Net, mut between: impl FnMut(&mut Net)) -> (StackCounters, u32) {
    for calls in 1.. {
        if let Some(totals) = net.stacks[SERVER].survey_counters(PART) {
            return (totals, calls);
        }
        between(net);
    }
    unreachable!("the loop has no end")
}

#[test]
fn a_survey_in_parts_of_bounded_size_equals_the_counters_of_all_connections() {
    let (mut net, _) = network();
    let expected = net.stacks[SERVER].counters();
    assert_eq!(expected.bytes_received, 1000 * u64::from(CONNECTIONS));
    let (totals, calls) = survey(&mut net, |_| ());
    assert_eq!(totals, expected);
    assert_eq!(calls, u32::from(CONNECTIONS).div_ceil(PART));
    assert_eq!(survey(&mut net, |_| ()).0, expected, "again");
}

#[test]
fn connections_that_end_during_a_survey_are_counted_once() {
    let (mut net, handles) = network();
    let before = net.stacks[SERVER].counters();
    // Connections are aborted from both ends of the list. Some end before the survey reaches them, and some
    // after.
    let mut ends = handles.iter().rev().copied().take(30);
    let mut begins = handles.iter().copied().take(30);
    let (totals, _) = survey(&mut net, |net| {
        let next = [&mut ends as &mut dyn Iterator<Item = Handle>, &mut begins];
        for h in next.into_iter().flat_map(|i| i.take(3).collect::<Vec<_>>()) {
            // A connection with unread data stays known.
            while let Ok(Some(_)) = net.stacks[SERVER].recv(net.now, h, 1 << 20) {}
            net.stacks[SERVER].abort(net.now, h);
        }
        while net.step(net.now + Duration::from_millis(1)) {}
    });
    assert_eq!(totals.bytes_received, before.bytes_received);
    let (after, _) = survey(&mut net, |_| ());
    assert_eq!(after, net.stacks[SERVER].counters());
    assert_eq!(after.bytes_received, before.bytes_received);
    assert!(after.closed >= 60, "{}", after.closed);
}

#[test]
fn totals_of_local_addresses_add_up_to_those_of_all_subflows() {
    let lossy = |delay| Path {
        loss: [0.02; 2],
        ..Path::clean(Duration::from_millis(delay))
    };
    let own = |last| endpoint(last, 0).addr;
    let further = [vec![own(1), own(3)], Vec::new()];
    let mut net = Net::with_addresses(6, vec![lossy(5), lossy(6)], further);
    let mut config = preset("fuso").expect("a preset").config;
    if let Some(m) = &mut config.multipath {
        m.path_manager = Arc::new(FullMesh);
    }
    let t = transfer(&mut net, [&config, &config], SERVER, 1_000_000);
    let server = t.server.expect("accepted");
    for (side, handle) in [(SERVER, server), (CLIENT, t.client)] {
        net.stacks[side].close(net.now, handle);
    }
    while net.step(net.now + Duration::from_secs(600)) {}

    let [client, server] = [CLIENT, SERVER].map(|side| net.stacks[side].counters());
    // The connections no longer exist, and their totals remain.
    assert_eq!((client.closed, server.closed), (1, 1));
    let received: Vec<_> = client
        .paths
        .iter()
        .map(|(a, c)| (a, c.bytes_received))
        .collect();
    let addresses: Vec<_> = received.iter().map(|(a, _)| *a).collect();
    assert_eq!(addresses, [Some(own(1)), Some(own(3))]);
    assert!(
        received.iter().all(|(_, bytes)| *bytes > 100_000),
        "{received:?}"
    );
    let sum = received.iter().map(|(_, bytes)| bytes).sum::<u64>();
    assert_eq!(sum, client.bytes_received + client.bytes_duplicate);
    let sent: Vec<_> = server.paths.iter().map(|(a, c)| (a, c.send)).collect();
    assert_eq!(sent, [(Some(own(2)), server.send)]);
    assert!(server.send.losses > 0 && server.send.bytes > 1_000_000);
}
