//! Spindle over TUN with the kernel's TCP and MPTCP as peers, in network namespaces.

mod netns;

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use netns::lossy::{Experiments, Lossy};
use netns::{
    DEVICE, address, device, exchange, ip, kernel_connect, kernel_listen, kernel_mptcp, pattern,
    within,
};
use spindle_mptcp::path_manager::{FullMesh, Passive, PathManager};
use spindle_mptcp::{Config, ConnectionInfo, StackConfig, preset};
use spindle_net::limits::Limits;
use spindle_net::setup::{Dnat, SetupError, SetupOptions, SourceRoute, setup};
use spindle_net::tun::TunOptions;
use spindle_net::{
    Link, LinkKind, ListenOptions, Network, NetworkConfig, TcpListener, TcpStream, wire_config,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Far more than any of these tests needs. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);
const MEGABYTES: usize = 8 << 20;

fn run<F: Future>(what: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime
        .block_on(async { timeout(PATIENCE, what).await })
        .expect("it takes too long")
}

fn network(link: impl Link + 'static, addresses: &[&str]) -> Network {
    let stack = StackConfig {
        addresses: addresses.iter().map(|a| address(a)).collect(),
        ..StackConfig::default()
    };
    let config = NetworkConfig {
        stack,
        name: "test".to_owned(),
    };
    Network::start(config, Box::new(link)).expect("a data path")
}

fn config(name: &str) -> Arc<Config> {
    let mut config = preset(name).expect("a preset").config;
    config.tcp.msl = spindle_units::Duration::from_millis(10);
    Arc::new(config)
}

async fn listen(network: &Network, at: &str, name: &str) -> TcpListener {
    listen_with(network, at, config(name)).await
}

async fn listen_with(network: &Network, at: &str, config: Arc<Config>) -> TcpListener {
    network
        .listen(at.parse().expect("an address"), ListenOptions::new(config))
        .await
        .expect("a listener")
}

/// Echoes until the end of the stream, then closes. Returns the state before the close.
async fn echo(stream: TcpStream) -> ConnectionInfo {
    let (mut read, mut write) = stream.into_split();
    tokio::io::copy(&mut read, &mut write)
        .await
        .expect("the echo");
    let info = read.stream().connection_info().await.expect("its state");
    write.shutdown().await.expect("shut down");
    info
}

/// A kernel client of `at` sends some megabytes and gets them back. Returns the server's view.
async fn round_trip(network: &Network, at: &str, name: &str, multipath: bool) -> ConnectionInfo {
    let mut listener = listen(network, at, name).await;
    let to: SocketAddr = at.parse().expect("an address");
    let (begin, may_begin) = std::sync::mpsc::channel();
    let client = tokio::task::spawn_blocking(move || {
        let stream = kernel_connect(to, multipath);
        may_begin.recv().expect("the server's signal");
        let data = pattern(MEGABYTES);
        let got = exchange(&stream, &data);
        assert!(got == data, "{} bytes came back", got.len());
    });
    let (stream, _) = listener.accept().await.expect("a connection");
    if multipath {
        // A kernel that has shut its sending side down opens no further subflow, so both paths must exist
        // before.
        stream.subflows_up(2).await.expect("two subflows");
    }
    begin.send(()).expect("a waiting client");
    let info = echo(stream).await;
    client.await.expect("the client");
    info
}

#[test]
fn a_kernel_tcp_client_gets_its_bytes_back() {
    within("a_kernel_tcp_client_gets_its_bytes_back", || {
        for offloads in [true, false] {
            let (link, guard) = device(offloads);
            run(async {
                let network = network(link, &[]);
                for at in ["10.7.0.1:80", "[fd07::1]:80"] {
                    let info = round_trip(&network, at, "tcp", false).await;
                    assert_eq!(info.received, MEGABYTES as u64);
                    assert!(!info.multipath);
                    let counters = network.counters().await.expect("totals");
                    assert_eq!(counters.link.dropped_out, 0);
                }
                network.shutdown().await;
            });
            drop(guard);
        }
    });
}

#[test]
fn a_kernel_mptcp_client_uses_two_paths() {
    const NAME: &str = "a_kernel_mptcp_client_uses_two_paths";
    within(NAME, || {
        if !kernel_mptcp(NAME) {
            return;
        }
        ip("mptcp limits set subflow 4 add_addr_accepted 4");
        ip("mptcp endpoint add 10.1.1.1 subflow");
        ip("mptcp endpoint add fd01:1::1 subflow");
        for (offloads, name) in [(true, "mptcp"), (false, "fuso")] {
            let (link, _guard) = device(offloads);
            run(async {
                let network = network(link, &[]);
                for at in ["10.7.0.1:80", "[fd07::1]:80"] {
                    let info = round_trip(&network, at, name, true).await;
                    assert!(info.multipath, "{name} at {at} fell back");
                    assert_eq!(info.received, MEGABYTES as u64);
                    let busy = |s: &&spindle_mptcp::SubflowInfo| s.counters.bytes > 100_000;
                    let n = info.subflows.iter().filter(busy).count();
                    assert_eq!(n, 2, "{name} at {at}: {:?}", info.subflows);
                }
                network.shutdown().await;
            });
        }
    });
}

#[test]
fn a_kernel_client_joins_before_it_sends_anything() {
    const NAME: &str = "a_kernel_client_joins_before_it_sends_anything";
    within(NAME, || {
        if !kernel_mptcp(NAME) {
            return;
        }
        ip("mptcp limits set subflow 4 add_addr_accepted 4");
        ip("mptcp endpoint add 10.1.1.1 subflow");
        let (link, _guard) = device(true);
        run(async {
            let network = network(link, &[]);
            let mut listener = listen(&network, "10.7.0.1:80", "fuso").await;
            let to = listener.local_addr();
            let client = tokio::task::spawn_blocking(move || kernel_connect(to, true));
            let (stream, _) = listener.accept().await.expect("a connection");
            let _client = client.await.expect("the client");
            stream.subflows_up(2).await.expect("two subflows");
            network.shutdown().await;
        });
    });
}

#[test]
fn every_byte_arrives_over_lossy_paths() {
    const NAME: &str = "every_byte_arrives_over_lossy_paths";
    const BYTES: usize = 1 << 20;
    within(NAME, || {
        if kernel_mptcp(NAME) {
            ip("mptcp limits set subflow 4 add_addr_accepted 4");
            ip("mptcp endpoint add 10.1.1.1 subflow");
        }
        let mut seed = 0;
        for name in ["tcp", "rack", "mptcp", "fuso"] {
            for burst in [0, 20_000] {
                seed += 1;
                let mut config = preset(name).expect("a preset").config;
                config.tcp.burst = burst;
                let (link, _guard) = device(false);
                let lossy = Lossy::new(link, seed, 0.02);
                run(async {
                    let network = network(lossy, &[]);
                    let mut listener = listen_with(&network, "10.7.0.1:80", Arc::new(config)).await;
                    let to = listener.local_addr();
                    let client = tokio::task::spawn_blocking(move || {
                        let data = pattern(BYTES);
                        let got = exchange(&kernel_connect(to, true), &data);
                        assert!(got == data, "{} bytes came back", got.len());
                    });
                    let (stream, _) = listener.accept().await.expect("a connection");
                    let info = echo(stream).await;
                    client.await.expect("the client");
                    assert_eq!(info.received, BYTES as u64, "{name}, bursts of {burst}");
                    network.shutdown().await;
                });
            }
        }
    });
}

/// The configuration of CoFUSO's sender in a gateway or a client over TUN.
fn cofuso(paths: Arc<dyn PathManager>) -> Arc<Config> {
    let preset = preset("cofuso").expect("a preset").config;
    Arc::new(wire_config(
        preset,
        LinkKind::Tun,
        &Limits::default(),
        paths,
    ))
}

/// Checks that a kernel was sent copies and no parities, and what the end that sent them reports. `offers` is
/// whether parities were offered to the kernel.
fn check_copies_alone(info: &ConnectionInfo, sent: &Experiments, offers: bool) {
    assert!(info.multipath);
    assert_eq!(sent.beyond.load(Ordering::Relaxed), 0, "parities");
    assert_eq!(sent.handshakes.load(Ordering::Relaxed) > 0, offers);
    assert_eq!(info.data.parities_received, 0);
    assert!(info.total.recoveries > 0, "{:?}", info.total);
}

/// Questions that are echoed as their answers, and the bytes of each. A question is smaller than a window, so
/// that it leaves room for its recovery.
const QUESTIONS: usize = 30;
const QUESTION: usize = 10_000;

#[test]
fn a_kernel_client_gets_copies_instead_of_parities() {
    const NAME: &str = "a_kernel_client_gets_copies_instead_of_parities";
    within(NAME, || {
        if !kernel_mptcp(NAME) {
            return;
        }
        ip("mptcp limits set subflow 4 add_addr_accepted 4");
        ip("mptcp endpoint add 10.1.1.1 subflow");
        let (link, _guard) = device(false);
        let lossy = Lossy::new(link, 77, 0.02);
        let sent = lossy.experiments.clone();
        run(async {
            let network = network(lossy, &[]);
            let config = cofuso(Arc::new(Passive));
            let mut listener = listen_with(&network, "10.7.0.1:80", config).await;
            let to = listener.local_addr();
            let (begin, may_begin) = std::sync::mpsc::channel();
            let client = tokio::task::spawn_blocking(move || {
                let mut stream = kernel_connect(to, true);
                may_begin.recv().expect("the server's signal");
                for question in pattern(QUESTIONS * QUESTION).chunks(QUESTION) {
                    stream.write_all(question).expect("room");
                    let mut answer = vec![0; QUESTION];
                    stream.read_exact(&mut answer).expect("the answer");
                    assert!(answer == question);
                }
            });
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.subflows_up(2).await.expect("two subflows");
            begin.send(()).expect("a waiting client");
            let info = echo(stream).await;
            client.await.expect("the client");
            assert_eq!(info.received, (QUESTIONS * QUESTION) as u64);
            // The kernel offered no parities, so no offer was answered.
            check_copies_alone(&info, &sent, false);
            network.shutdown().await;
        });
    });
}

#[test]
fn a_kernel_server_that_is_offered_parities_gets_copies() {
    const NAME: &str = "a_kernel_server_that_is_offered_parities_gets_copies";
    within(NAME, || {
        if !kernel_mptcp(NAME) {
            return;
        }
        ip("mptcp limits set subflow 4 add_addr_accepted 4");
        let (link, _guard) = device(false);
        let lossy = Lossy::new(link, 78, 0.02);
        let sent = lossy.experiments.clone();
        let to: SocketAddr = "10.1.0.1:90".parse().expect("an address");
        let listener = kernel_listen(to, true);
        run(async {
            let network = network(lossy, &["10.7.1.1"]);
            let server = tokio::task::spawn_blocking(move || {
                let (mut s, _) = listener.accept().expect("a connection");
                let mut out = s.try_clone().expect("a clone");
                std::io::copy(&mut s, &mut out).expect("the echo");
            });
            let config = cofuso(Arc::new(FullMesh));
            let mut stream = network
                .connect(address("10.7.0.1"), to, config)
                .await
                .expect("a connection");
            // The kernel accepts joins once it has received data.
            let mut joined = false;
            for question in pattern(QUESTIONS * QUESTION).chunks(QUESTION) {
                stream.write_all(question).await.expect("room");
                let mut answer = vec![0; QUESTION];
                stream.read_exact(&mut answer).await.expect("the answer");
                assert!(answer == question);
                if !std::mem::replace(&mut joined, true) {
                    stream.subflows_up(2).await.expect("two subflows");
                }
            }
            let info = stream.connection_info().await.expect("its state");
            check_copies_alone(&info, &sent, true);
            stream.shutdown().await.expect("shut down");
            server.await.expect("the server");
            network.shutdown().await;
        });
    });
}

#[test]
fn spindle_connects_to_a_kernel_server() {
    const NAME: &str = "spindle_connects_to_a_kernel_server";
    within(NAME, || {
        let multipath = kernel_mptcp(NAME);
        if multipath {
            ip("mptcp limits set subflow 4 add_addr_accepted 4");
        }
        let (link, _guard) = device(true);
        run(async {
            let network = network(link, &["10.7.1.1", "fd07:1::1"]);
            for (local, to) in [("10.7.0.1", "10.1.0.1:90"), ("fd07::1", "[fd01::1]:90")] {
                let to: SocketAddr = to.parse().expect("an address");
                let listener = kernel_listen(to, multipath);
                let server = tokio::task::spawn_blocking(move || {
                    let (mut s, _) = listener.accept().expect("a connection");
                    let mut out = s.try_clone().expect("a clone");
                    std::io::copy(&mut s, &mut out).expect("the echo");
                    out.shutdown(std::net::Shutdown::Write).expect("shut down");
                });
                let mut config = preset("mptcp").expect("a preset").config;
                if let Some(m) = &mut config.multipath {
                    m.path_manager = Arc::new(FullMesh);
                }
                let stream = network
                    .connect(address(local), to, Arc::new(config))
                    .await
                    .expect("a connection");
                let data = pattern(MEGABYTES);
                let (mut read, mut write) = stream.into_split();
                let sent = data.clone();
                let up = tokio::spawn(async move {
                    write.write_all(&sent).await.expect("room");
                    if multipath {
                        write.stream().subflows_up(2).await.expect("two subflows");
                    }
                    write.shutdown().await.expect("shut down");
                    write
                });
                let mut got = Vec::new();
                read.read_to_end(&mut got).await.expect("the echo");
                assert!(got == data, "{} bytes came back", got.len());
                up.await.expect("the writer");
                let info = read.stream().connection_info().await.expect("its state");
                assert_eq!(info.multipath, multipath);
                server.await.expect("the server");
            }
            network.shutdown().await;
        });
    });
}

#[test]
fn resets_are_carried_in_both_directions() {
    const NAME: &str = "resets_are_carried_in_both_directions";
    within(NAME, || {
        let kinds = if kernel_mptcp(NAME) {
            vec![false, true]
        } else {
            vec![false]
        };
        let (link, _guard) = device(true);
        run(async {
            let network = network(link, &[]);
            let mut listener = listen(&network, "10.7.0.1:80", "mptcp").await;
            let to = listener.local_addr();
            for multipath in kinds {
                let client = tokio::task::spawn_blocking(move || {
                    let mut s = kernel_connect(to, multipath);
                    s.write_all(b"hello").expect("room");
                    let mut answer = [0; 5];
                    s.read_exact(&mut answer).expect("an answer");
                    let s = socket2::Socket::from(s);
                    s.set_linger(Some(Duration::ZERO)).expect("an option");
                });
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut five = [0; 5];
                stream.read_exact(&mut five).await.expect("hello");
                stream.write_all(&five).await.expect("room");
                let end = stream.read(&mut five).await;
                client.await.expect("the client");
                let error = end.expect_err("a reset");
                assert_eq!(
                    error.kind(),
                    ErrorKind::ConnectionReset,
                    "MPTCP: {multipath}"
                );

                let client = tokio::task::spawn_blocking(move || {
                    let mut s = kernel_connect(to, multipath);
                    s.write_all(b"hello").expect("room");
                    s.read(&mut [0; 5]).map_err(|e| e.kind())
                });
                let (mut stream, _) = listener.accept().await.expect("a connection");
                stream.read_exact(&mut five).await.expect("hello");
                stream.abort();
                let end = client.await.expect("the client");
                assert_eq!(end, Err(ErrorKind::ConnectionReset), "MPTCP: {multipath}");
            }
            network.shutdown().await;
        });
    });
}

#[test]
fn a_rewritten_destination_leads_to_spindle() {
    const NAME: &str = "a_rewritten_destination_leads_to_spindle";
    within(NAME, || {
        let nft = std::process::Command::new("nft").arg("--version").output();
        if nft.is_err() {
            eprintln!("skipped {NAME}: nft is not installed");
            return;
        }
        let at = |text: &str| -> SocketAddr { text.parse().expect("an address") };
        let options = SetupOptions {
            tun: TunOptions::new(DEVICE),
            addresses: vec![address("10.7.0.1"), address("fd07::1")],
            dnat: vec![
                Dnat {
                    from: at("10.1.1.1:443"),
                    to: at("10.7.0.1:80"),
                },
                Dnat {
                    from: at("[fd01:1::1]:443"),
                    to: at("[fd07::1]:80"),
                },
            ],
            source_routes: Vec::new(),
            forwarding: true,
        };
        let (link, guard) = setup(&options).expect("the device");
        run(async {
            let network = network(link, &[]);
            for (to, at) in [
                ("10.1.1.1:443", "10.7.0.1:80"),
                ("[fd01:1::1]:443", "[fd07::1]:80"),
            ] {
                let mut listener = listen(&network, at, "mptcp").await;
                let to: SocketAddr = to.parse().expect("an address");
                let client = tokio::task::spawn_blocking(move || {
                    let data = pattern(MEGABYTES);
                    assert!(exchange(&kernel_connect(to, false), &data) == data);
                });
                let (stream, _) = listener.accept().await.expect("a connection");
                echo(stream).await;
                client.await.expect("the client");
            }
            network.shutdown().await;
        });
        drop(guard);
        let tables = std::process::Command::new("nft")
            .args(["list", "tables"])
            .output()
            .expect("nft");
        assert!(!String::from_utf8_lossy(&tables.stdout).contains("spindle"));
    });
}

#[test]
fn leftovers_are_removed_and_a_device_in_use_is_respected() {
    within(
        "leftovers_are_removed_and_a_device_in_use_is_respected",
        || {
            // A persistent device that no process holds, as a crash may leave it.
            ip(&format!("tuntap add {DEVICE} mode tun"));
            let (link, _guard) = device(true);
            let again = setup(&SetupOptions {
                tun: TunOptions::new(DEVICE),
                addresses: Vec::new(),
                dnat: Vec::new(),
                source_routes: Vec::new(),
                forwarding: false,
            });
            assert!(matches!(again, Err(SetupError::InUse(_))));
            drop(link);
        },
    );
}

#[test]
fn each_source_has_its_own_route() {
    within("each_source_has_its_own_route", || {
        ip("addr add 10.2.0.2/24 dev host1");
        let way = |source, device: &str, via: Option<&str>| SourceRoute {
            source: address(source),
            device: device.to_owned(),
            via: via.map(address),
        };
        let options = SetupOptions {
            tun: TunOptions::new(DEVICE),
            addresses: vec![address("10.7.0.1"), address("10.7.1.1"), address("fd07::1")],
            dnat: Vec::new(),
            source_routes: vec![
                way("10.7.0.1", "host0", Some("10.1.0.254")),
                way("10.7.1.1", "host1", Some("10.2.0.1")),
                way("fd07::1", "host0", None),
            ],
            forwarding: true,
        };
        let rules = ip("rule show") + &ip("-6 rule show");
        let (_link, guard) = setup(&options).expect("the device");
        let first = ip(&format!("route get 192.0.2.1 from 10.7.0.1 iif {DEVICE}"));
        assert!(first.contains("via 10.1.0.254 dev host0"), "{first}");
        let second = ip(&format!("route get 192.0.2.1 from 10.7.1.1 iif {DEVICE}"));
        assert!(second.contains("via 10.2.0.1 dev host1"), "{second}");
        drop(guard);
        assert_eq!(ip("rule show") + &ip("-6 rule show"), rules);
        assert!(!ip("route show table all").contains("10.1.0.254"));
    });
}

#[test]
fn undoing_a_set_up_removes_its_routes_and_device() {
    within("undoing_a_set_up_removes_its_routes_and_device", || {
        let rules = ip("rule show");
        let (link, mut guard) = device(true);
        assert!(ip("-4 route show").contains(&format!("10.7.0.1 dev {DEVICE}")));
        assert!(ip("-6 route show").contains("fd07::1"));
        guard.undo();
        assert!(!ip("-4 route show").contains("10.7.0.1"));
        drop(link);
        assert!(!ip("link show").contains(DEVICE));
        assert_eq!(ip("rule show"), rules);
    });
}

/// With two set-ups at the same time, neither takes what the other one has.
#[test]
fn two_set_ups_do_not_share_addresses_or_routing_tables() {
    within(
        "two_set_ups_do_not_share_addresses_or_routing_tables",
        || {
            let options = |name: &str, source: &str| SetupOptions {
                tun: TunOptions::new(name),
                addresses: vec![address(source)],
                dnat: Vec::new(),
                source_routes: vec![SourceRoute {
                    source: address(source),
                    device: "host0".to_owned(),
                    via: None,
                }],
                forwarding: false,
            };
            let first = setup(&options("spin-0", "10.8.0.1")).expect("the first");
            let taken = setup(&options("spin.0", "10.8.0.1")).map(|_| ());
            let taken = taken.expect_err("the same address");
            let text = taken.to_string();
            assert!(matches!(taken, SetupError::Routed { .. }), "{text}");
            assert!(text.contains("routed to spin-0 already"), "{text}");
            let second = setup(&options("spin_0", "10.8.0.2")).expect("the second");
            for table in [7900, 7901] {
                let routes = ip(&format!("-4 route show table {table}"));
                assert!(routes.starts_with("default dev host0"), "{table}: {routes}");
            }
            drop(second);
            let rules = ip("-4 rule show priority 7900");
            assert!(rules.contains("from 10.8.0.1 lookup 7900"), "{rules}");
            assert!(!rules.contains("7901"), "{rules}");
            drop(first);
            // A rule and a route that a killed run left behind are replaced.
            for (family, source) in [("-4", "10.8.0.1/32"), ("-6", "fd00::8/128")] {
                ip(&format!("{family} route add default dev host1 table 7900"));
                ip(&format!(
                    "{family} rule add from {source} lookup 7900 priority 7900"
                ));
                let addr = source.split('/').next().expect("an address");
                let next = setup(&options("spin0", addr)).expect("the next one");
                let rules = ip(&format!("{family} rule show priority 7900"));
                assert_eq!(rules.lines().count(), 1, "{rules}");
                let routes = ip(&format!("{family} route show table 7900"));
                assert!(routes.starts_with("default dev host0"), "{routes}");
                drop(next);
                let rules = ip(&format!("{family} rule show priority 7900"));
                assert_eq!(rules, "", "{source}");
            }
        },
    );
}
