//! Whole connections over simple networks.

mod support;

use std::sync::Arc;

use spindle_mptcp::{Config, Event, Handle, preset};
use spindle_units::{Duration, Instant};
use spindle_wire::Payload;
use support::{CLIENT, Net, Path, SERVER, endpoint};

/// Opens a connection, sends `bytes` from the server once connected, closes both ends; returns the
/// client's byte count and the time of completion.
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
    // A farewell that loses every try backs off up to a minute a time.
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
fn every_preset_delivers_over_a_clean_network() {
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
fn every_preset_delivers_over_lossy_paths() {
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
