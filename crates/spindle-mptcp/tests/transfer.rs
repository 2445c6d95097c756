//! Whole connections over simple networks.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod support;

use std::sync::Arc;

use spindle_mptcp::{Config, DataOffset, Event, Handle, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::Payload;
use support::{CLIENT, Net, Path, SERVER, endpoint};

/// Opens a connection, sends `bytes` from the server once connected, and closes both ends. Returns the client's
/// byte count, the time of completion, and the client's handle.
fn download(net: &mut Net, config: Config, bytes: usize, real: bool) -> (usize, Instant, Handle) {
    let config = Arc::new(config);
    net.stacks[SERVER]
        .listen(endpoint(2, 80), config.clone())
        .expect("free");
    let h = net.stacks[CLIENT]
        .connect(net.now, endpoint(1, 0), endpoint(2, 80), config)
        .expect("connects");
    let content: Vec<u8> = (0..bytes).map(|x| (x * 31 % 251) as u8).collect();
    let (mut got, mut seen, mut left, mut server) = (0, 0, bytes, None);
    // An end of the connection whose every segment is lost backs off to a minute per attempt.
    let limit = net.now + Duration::from_secs(600);
    let mut done = None;
    while net.step(limit) {
        while seen < net.events.len() {
            let (now, side, event) = net.events[seen];
            seen += 1;
            match event {
                Event::Accepted { handle, .. } => server = Some(handle),
                Event::Readable { .. } if side == CLIENT => {
                    while let Ok(Some(p)) = net.stacks[CLIENT].recv(now, h, 1 << 20) {
                        if let Payload::Bytes(b) = &p {
                            assert_eq!(&b[..], &content[got..got + b.len()], "content at {got}");
                        }
                        got += p.len();
                    }
                    if got == bytes && done.is_none() {
                        done = Some(now);
                        net.stacks[CLIENT].close(now, h);
                    }
                }
                _ => {}
            }
        }
        if let Some(s) = server.filter(|_| left > 0) {
            let at = bytes - left;
            let data = if real {
                Payload::from(content[at..].to_vec())
            } else {
                Payload::Length(left as u32)
            };
            left -= net.stacks[SERVER].send(net.now, s, data).expect("open");
            if left == 0 {
                net.stacks[SERVER].close(net.now, s);
            }
        }
    }
    (got, done.unwrap_or(net.now), h)
}

fn clean(n: u64) -> Vec<Path> {
    (0..n)
        .map(|k| Path::clean(Duration::from_micros(100 + 10 * k)))
        .collect()
}

fn config(name: &str) -> Config {
    let mut c = preset(name).expect("a preset").config;
    c.tcp.min_rto = Duration::from_millis(5);
    c.tcp.msl = Duration::from_secs(1);
    c
}

#[test]
fn every_preset_delivers_all_bytes_over_a_clean_network() {
    for name in [
        "tcp",
        "newreno",
        "tlp",
        "rack",
        "dctcp",
        "proactive",
        "mptcp",
        "mptcp-8",
        "mptcp-linux",
        "fuso",
        "fuso-1",
    ] {
        for real in [false, true] {
            let mut net = Net::new(1, clean(4));
            let (got, done, _) = download(&mut net, config(name), 300_000, real);
            assert_eq!(got, 300_000, "{name}");
            assert!(
                done < Instant::from_nanos(1_010_000_000),
                "{name} took until {done:?}"
            );
            assert!(
                net.stacks.iter().all(|s| s.handles().count() == 0),
                "{name} leaves connections"
            );
        }
    }
}

#[test]
fn every_preset_delivers_all_bytes_over_lossy_paths() {
    for name in [
        "tcp",
        "newreno",
        "tlp",
        "rack",
        "proactive",
        "mptcp",
        "mptcp-linux",
        "fuso",
    ] {
        for seed in 0..20 {
            let mut paths = clean(3);
            for p in &mut paths {
                p.loss = [0.1; 2];
                p.jitter = Duration::from_micros(50);
                p.duplicate = 0.02;
            }
            let mut net = Net::new(seed, paths);
            let (got, _, _) = download(&mut net, config(name), 200_000, true);
            assert_eq!(got, 200_000, "{name}, seed {seed}");
            for s in &net.stacks {
                let left: Vec<_> = s.handles().filter_map(|h| s.info(h)).collect();
                assert!(left.is_empty(), "{name}, seed {seed} leaves {left:#?}");
            }
        }
    }
}

/// Opens a connection and returns the server's handle once it is accepted.
fn accepted(net: &mut Net, config: Config) -> Handle {
    let config = Arc::new(config);
    let listening = net.stacks[SERVER].listen(endpoint(2, 80), config.clone());
    listening.expect("free");
    let opened = net.stacks[CLIENT].connect(net.now, endpoint(1, 0), endpoint(2, 80), config);
    opened.expect("connects");
    while net.step(net.now + Duration::from_secs(1)) {
        let accepted = net.events.iter().find_map(|(_, _, e)| match e {
            Event::Accepted { handle, .. } => Some(*handle),
            _ => None,
        });
        if let Some(handle) = accepted {
            return handle;
        }
    }
    panic!("no connection")
}

/// The acknowledgements reported to the server, each with its time.
fn acknowledged(net: &Net) -> Vec<(Instant, DataOffset)> {
    let told = net.events.iter().filter_map(|(at, side, e)| match e {
        Event::Acknowledged { offset, .. } if *side == SERVER => Some((*at, *offset)),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_watched_offset_is_reported_once_when_all_data_before_it_are_acknowledged() {
    for name in ["tcp", "fuso"] {
        let delay = Duration::from_millis(10);
        let mut net = Net::new(7, vec![Path::clean(delay); 2]);
        let config = preset(name).expect("a preset").config;
        let h = accepted(&mut net, config);
        let begin = net.now;
        let written = net.stacks[SERVER].send(begin, h, Payload::Length(5000));
        assert_eq!(written, Ok(5000));
        net.stacks[SERVER].watch_acknowledged(begin, h, DataOffset(5000));
        let mut told = 0;
        while net.step(begin + Duration::from_secs(2)) {
            let info = net.stacks[SERVER].info(h).expect("a connection");
            told = acknowledged(&net).len();
            assert_eq!(told == 1, info.acknowledged == 5000, "{name}");
        }
        assert_eq!(told, 1, "{name}");
        let (at, offset) = acknowledged(&net)[0];
        assert_eq!(offset, DataOffset(5000), "{name}");
        assert!(at >= begin + delay + delay, "{name}: a round trip");
        // An offset that is already acknowledged is reported at once. An offset that is not yet written is not
        // reported.
        net.stacks[SERVER].watch_acknowledged(net.now, h, DataOffset(4000));
        assert!(matches!(
            net.stacks[SERVER].poll_event(),
            Some(Event::Acknowledged {
                offset: DataOffset(5000),
                ..
            })
        ));
        net.stacks[SERVER].watch_acknowledged(net.now, h, DataOffset(5001));
        assert_eq!(net.stacks[SERVER].poll_event(), None, "{name}");
    }
}
