//! Data that the peer acknowledges on a subflow and does not accept at the data level. Linux does this with
//! data beyond the window of its last DATA_ACK, and if memory is short.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use spindle_mptcp::path_manager::FullMesh;
use spindle_mptcp::{CloseReason, Config, for_unmodified_receivers, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::{DataNumber, Segment};
use support::apps::{App, End, Run};
use support::{CLIENT, Hook, Net, Path, SERVER, endpoint};

/// The client's second address, on the second path.
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
/// Size of the download in bytes.
const SIZE: u64 = 1_000_000;
/// Round-trip time of the slower path.
const ROUND_TRIP: Duration = Duration::from_millis(40);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn is_second(seg: &Segment) -> bool {
    seg.src.addr == SECOND || seg.dst.addr == SECOND
}

/// A request of 100 bytes at once, and an answer of `SIZE` bytes after `wait`, over a path of 20 ms and one of
/// 10 ms each way. `hook` may change segments in transit.
fn fetch(name: &str, wait: Duration, hook: Hook) -> Run {
    let paths = vec![Path::clean(ROUND_TRIP / 2), Path::clean(ms(10))];
    let mut net = Net::with_addresses(7, paths, [vec![SECOND], Vec::new()]);
    net.route = Some(Box::new(|p| usize::from(p.tcp().is_some_and(is_second))));
    net.keep_log = true;
    net.hook = Some(hook);
    let mut config: Config = preset(name).expect("a preset").config;
    config.tcp.msl = ms(10);
    config = for_unmodified_receivers(config);
    if let Some(m) = &mut config.multipath {
        m.path_manager = Arc::new(FullMesh);
    }
    let app = |writes, end| App {
        writes,
        read_size: 1 << 20,
        read_delay: Duration::ZERO,
        end,
    };
    let stay = End::CloseAt(Duration::from_secs(60));
    let apps = [
        app(vec![(Duration::ZERO, 100)], stay),
        app(vec![(wait, SIZE as u32)], End::AfterWrites),
    ];
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

fn data_ack(seg: &Segment) -> Option<DataNumber> {
    seg.options.dss.and_then(|d| d.data_ack)
}

/// The longest time without progress of the client's DATA_ACK once the answer had begun.
fn longest_stall(run: &Run) -> Duration {
    let answered = run.start + ms(500) + ROUND_TRIP;
    let log = run.net.log.iter();
    let log = log.filter(|l| l.side == CLIENT && l.at >= answered);
    let acks = log.filter_map(|l| Some((l.at, data_ack(&l.segment)?)));
    let (mut longest, mut last) = (Duration::ZERO, None);
    for (at, ack) in acks {
        match last {
            Some((since, known)) if known != ack => {
                longest = longest.max(at.since(since));
                last = Some((at, ack));
            }
            Some(_) => {}
            None => last = Some((at, ack)),
        }
    }
    longest
}

/// Replaces the mapping of `seg` with that of the first bytes of the stream, which the peer already has. The
/// peer acknowledges the segment on its subflow, and its data level accepts nothing.
fn drop_at_data_level(seg: &mut Segment, first: DataNumber) {
    if let Some(mapping) = seg.options.dss.as_mut().and_then(|d| d.mapping.as_mut()) {
        mapping.dsn = first;
    }
}

#[test]
fn no_data_are_sent_on_a_joined_subflow_before_the_first_data_ack() {
    // Until the client has data to acknowledge, none of its DSS options arrives.
    for name in ["mptcp", "fuso", "cofuso"] {
        let run = fetch(
            name,
            ms(500),
            Box::new(|now, side, seg| {
                let early = now < Instant::from_nanos(1_000_000_000) + ms(500);
                side == SERVER || !early || data_ack(seg).is_none()
            }),
        );
        let log = &run.net.log;
        let first = log
            .iter()
            .find(|l| l.side == CLIENT && data_ack(&l.segment).is_some())
            .map(|l| l.at + ms(10))
            .expect("a DATA_ACK");
        let joined = |l: &&support::Logged| {
            l.side == SERVER && is_second(&l.segment) && !l.segment.payload.is_empty()
        };
        let before = log.iter().filter(joined).filter(|l| l.at < first).count();
        let after = log.iter().filter(joined).count();
        assert_eq!(before, 0, "{name}");
        assert!(after > 50, "{name}: {after} segments on the joined subflow");
    }
}

/// The first path loses all data for half a minute. Its subflow is the only one, and backs off, until the
/// second subflow is up.
#[test]
fn a_new_subflow_carries_the_data_of_a_subflow_in_back_off() {
    const DEAD: Duration = Duration::from_millis(500);
    const JOINED: Duration = Duration::from_millis(6900);
    const BACK: Duration = Duration::from_secs(30);
    let start = Instant::from_nanos(1_000_000_000);
    let hook: Hook = Box::new(move |now, _, seg| match is_second(seg) {
        true => now.since(start) >= JOINED,
        false => seg.payload.is_empty() || !(DEAD..BACK).contains(&now.since(start)),
    });
    let run = fetch("fuso-2", DEAD, hook);
    let mut second = run.net.log.iter().filter(|l| is_second(&l.segment));
    let up = second.find(|l| l.at.since(start) >= JOINED);
    let data = second.find(|l| l.side == SERVER && !l.segment.payload.is_empty());
    let waited = data.zip(up).map(|(d, u)| d.at.since(u.at));
    // Two round trips for the handshake, and at worst one timeout of the new subflow.
    assert!(waited.is_some_and(|w| w < ms(500)), "{waited:?}");
}

#[test]
fn data_acked_on_a_subflow_but_not_at_the_data_level_are_reinjected_within_rtts() {
    for name in ["mptcp", "fuso"] {
        let mut dropped = 0;
        let mut first = None;
        let run = fetch(
            name,
            ms(500),
            Box::new(move |_, side, seg| {
                if side == SERVER && !seg.payload.is_empty() {
                    let mapping = seg.options.dss.and_then(|d| d.mapping);
                    let first = *first.get_or_insert(mapping.expect("a mapping").dsn);
                    let (DataNumber::Low(start), Some(DataNumber::Low(dsn))) =
                        (first, mapping.map(|m| m.dsn))
                    else {
                        return true;
                    };
                    if dropped < 30 && is_second(seg) && dsn.wrapping_sub(start) > 200_000 {
                        dropped += 1;
                        drop_at_data_level(seg, first);
                    }
                }
                true
            }),
        );
        let stall = longest_stall(&run);
        assert!(stall < ROUND_TRIP * 4, "{name}: stalled for {stall:?}");
        let server = run.sides[SERVER].last.as_ref().expect("the connection");
        assert!(server.data.undelivered >= 30, "{name}: {:?}", server.data);
        assert!(server.data.undelivered < 70, "{name}: {:?}", server.data);
    }
}

#[test]
fn no_data_are_reinjected_if_the_data_level_accepts_all_data_acked_on_subflows() {
    for name in ["mptcp", "fuso", "cofuso"] {
        let run = fetch(name, ms(500), Box::new(|_, _, _| true));
        let server = run.sides[SERVER].last.as_ref().expect("the connection");
        assert_eq!(server.data.undelivered, 0, "{name}");
    }
}
