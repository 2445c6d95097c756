//! Each subflow has its own window in addition to the data-level window (RFC 8684, section 3.3.4). Stateful
//! firewalls and NATs on the subflow's path take data beyond it for an attack.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use spindle_mptcp::path_manager::FullMesh;
use spindle_mptcp::{CloseReason, Config, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{Endpoint, Segment};
use support::apps::{App, End, Run};
use support::{CLIENT, Hook, Net, Path, SERVER, endpoint, transfer};

/// The client's second address, on the second path.
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
/// Size of the download in bytes.
const SIZE: u64 = 3_000_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn is_second(seg: &Segment) -> bool {
    seg.src.addr == SECOND || seg.dst.addr == SECOND
}

/// A download over a path of 60 ms and one of 5 ms, one way. `hook` may change segments in transit.
fn download(name: &str, hook: Hook) -> Run {
    download_with(preset(name).expect("a preset").config, hook)
}

/// Like [`download`], but with this configuration at both ends.
fn download_with(mut config: Config, hook: Hook) -> Run {
    let paths = vec![Path::clean(ms(60)), Path::clean(ms(5))];
    let mut net = Net::with_addresses(5, paths, [vec![SECOND], Vec::new()]);
    net.route = Some(Box::new(|p| usize::from(p.tcp().is_some_and(is_second))));
    net.keep_log = true;
    net.hook = Some(hook);
    config.tcp.msl = ms(10);
    if let Some(m) = &mut config.multipath {
        m.path_manager = Arc::new(FullMesh);
    }
    let app = |writes, end| App {
        writes,
        read_size: 1 << 20,
        read_delay: Duration::ZERO,
        end,
    };
    let down = vec![(ms(1000), SIZE as u32)];
    let stay = End::CloseAt(Duration::from_secs(30));
    let apps = [app(vec![], stay), app(down, End::AfterWrites)];
    let ends = (endpoint(1, 0), endpoint(2, 80));
    let mut run = Run::new(net, apps, [config.clone(), config], ends, true);
    run.finish(Duration::from_secs(1000));
    for s in &run.sides {
        assert_eq!(
            (s.wrong_at, s.closed.map(|c| c.1)),
            (None, Some(CloseReason::Finished))
        );
    }
    assert_eq!(run.sides[CLIENT].got, SIZE);
    run
}

/// The most bytes by which the server's data exceeded the window that the client had announced on their
/// subflow. A window applies from the time at which the client sent it, as for a middlebox close to the client.
fn overshoot(run: &Run) -> u32 {
    let mut scale: HashMap<Endpoint, u8> = HashMap::new();
    let mut edges: HashMap<Endpoint, u32> = HashMap::new();
    let mut most = 0;
    for l in &run.net.log {
        let seg = &l.segment;
        if l.side == CLIENT {
            let rare = seg.options.rare.as_ref();
            if let Some(shift) = rare.and_then(|r| r.window_scale) {
                scale.insert(seg.src, shift);
                continue;
            }
            let shift = scale.get(&seg.src).copied().unwrap_or(0);
            let edge = (seg.ack + (u32::from(seg.window) << shift)).0;
            let known = edges.entry(seg.src).or_insert(edge);
            if (edge.wrapping_sub(*known) as i32) > 0 {
                *known = edge;
            }
        } else if let Some(edge) = edges.get(&seg.dst)
            && !seg.payload.is_empty()
        {
            let end = (seg.seq + seg.payload.len() as u32).0;
            let beyond = end.wrapping_sub(*edge) as i32;
            most = most.max(beyond.max(0) as u32);
        }
    }
    most
}

/// Payload bytes that the server sent on the second path from `from` on.
fn sent_on_second(run: &Run, from: Duration) -> u64 {
    let log = run.net.log.iter();
    let sent = log.filter(|l| l.side == SERVER && is_second(&l.segment));
    let late = sent.filter(|l| l.at.since(run.start) >= from);
    late.map(|l| l.segment.payload.len() as u64).sum()
}

/// The most unacknowledged bytes that the server had on one subflow, and on all subflows together. An
/// acknowledgement counts from the time at which the client sent it, so the numbers are lower bounds.
fn most_outstanding(run: &Run) -> (u32, u32) {
    let mut ends: HashMap<Endpoint, (u32, u32)> = HashMap::new();
    let (mut one, mut all) = (0, 0);
    for l in &run.net.log {
        let seg = &l.segment;
        if l.side == CLIENT {
            ends.entry(seg.src).or_insert((seg.ack.0, seg.ack.0)).0 = seg.ack.0;
        } else if let Some((acked, sent)) = ends.get_mut(&seg.dst)
            && !seg.payload.is_empty()
        {
            let end = (seg.seq + seg.payload.len() as u32).0;
            if (end.wrapping_sub(*sent) as i32) > 0 {
                *sent = end;
            }
            one = one.max(sent.wrapping_sub(*acked));
            let outstanding = ends.values().map(|(acked, sent)| sent.wrapping_sub(*acked));
            all = all.max(outstanding.filter(|n| *n < 1 << 31).sum());
        }
    }
    (one, all)
}

/// Whether `seg` is a segment of the client on the second path outside the handshake.
fn is_second_ack(side: usize, seg: &Segment) -> bool {
    side == CLIENT && is_second(seg) && seg.options.rare.is_none()
}

#[test]
fn no_data_are_sent_beyond_the_window_announced_on_their_subflow() {
    for name in ["mptcp", "fuso", "cofuso", "mptcp-linux"] {
        // The second path announces a sixteenth of the first path's window.
        let run = download(
            name,
            Box::new(|_, side, seg| {
                if is_second_ack(side, seg) {
                    seg.window /= 16;
                }
                true
            }),
        );
        assert_eq!(overshoot(&run), 0, "{name}");
        assert!(sent_on_second(&run, Duration::ZERO) > 100_000, "{name}");
    }
}

#[test]
fn a_subflow_whose_window_update_was_lost_is_probed() {
    // Until 1.1 s the second path announces a zero window. From then until 1.3 s all its ACKs, which would open
    // the window, are lost.
    let start = Instant::from_nanos(1_000_000_000);
    let run = download(
        "mptcp",
        Box::new(move |now, side, seg| {
            let at = now.since(start);
            let acks = is_second_ack(side, seg);
            if acks && at < ms(1100) {
                seg.window = 0;
            }
            !acks || at < ms(1100) || at > ms(1300)
        }),
    );
    assert_eq!(overshoot(&run), 0);
    assert!(sent_on_second(&run, ms(1300)) > 100_000);
}

#[test]
fn a_transfer_with_tiny_windows_on_all_subflows_completes_once_they_open() {
    // Until 3 s both subflows announce at most 100, unscaled. Only segments of the handshake announce more.
    let start = Instant::from_nanos(1_000_000_000);
    let run = download(
        "mptcp",
        Box::new(move |now, side, seg| {
            let at = now.since(start);
            if side == CLIENT && at < ms(3000) && seg.options.rare.is_none() {
                seg.window = seg.window.min(100);
            }
            true
        }),
    );
    assert_eq!(overshoot(&run), 0);
}

#[test]
fn send_window_limit_bounds_each_subflow_and_not_the_connection() {
    const LIMIT: u32 = 65_535;
    let of = |name, limit| {
        let mut config = preset(name).expect("a preset").config;
        config.tcp.max_window.send = limit;
        most_outstanding(&download_with(config, Box::new(|_, _, _| true)))
    };
    for name in ["mptcp", "fuso", "mptcp-linux"] {
        let (one, all) = of(name, Some(u64::from(LIMIT)));
        assert!(one <= LIMIT && one > LIMIT - 1460, "{name}: {one}");
        assert!(all > LIMIT, "{name}: {all}");
        assert!(of(name, None).0 > 2 * LIMIT, "{name}");
    }
    let (one, all) = of("tcp", Some(u64::from(LIMIT)));
    assert!(one == all && one <= LIMIT && one > LIMIT - 1460, "{one}");
}

#[test]
fn send_window_limit_below_a_segment_allows_one_segment() {
    let mut config = preset("tcp").expect("a preset").config;
    config.tcp.max_window.send = Some(1);
    let mut net = transfer::net(transfer::paths(1, Duration::ZERO));
    transfer::transfer(&mut net, [&config, &config], CLIENT, 20_000);
}
