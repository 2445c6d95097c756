//! The watcher of uplinks with the system's netlink and simulated clocks, over two networks joined in memory.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spindle_mptcp::path_manager::FullMesh;
use spindle_mptcp::preset;
use spindle_net::uplinks::{
    Clocks, DevicePattern, NamedAddress, Selection, SystemClocks, UplinkState, Uplinks,
};
use spindle_net::{Client, ListenOptions, Network, NetworkConfig, TcpListener, TcpStream, memory};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// The system's clocks, with a number of seconds in suspend.
struct Suspended(Arc<AtomicU64>);

impl Clocks for Suspended {
    fn boottime(&self) -> Duration {
        self.monotonic() + Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        SystemClocks.monotonic()
    }
}

/// A named address of the loopback network, which every host has.
fn loopback() -> Selection {
    let addr = IpAddr::from([127, 0, 0, 9]);
    Selection {
        addresses: vec![NamedAddress { addr, device: None }],
        ..Selection::default()
    }
}

/// A client's network, an open connection from 10.0.0.1, and the server's end with its network.
async fn connection() -> (Network, TcpStream, (Network, TcpStream)) {
    let (near, far) = memory::pair(1 << 12);
    let start = |link| Network::start(NetworkConfig::default(), Box::new(link));
    let (client, server) = (start(near).expect("a path"), start(far).expect("a path"));
    let mut config = preset("mptcp").expect("a preset").config;
    if let Some(m) = &mut config.multipath {
        m.path_manager = Arc::new(FullMesh);
    }
    let config = Arc::new(config);
    let at: SocketAddr = "10.0.0.2:80".parse().expect("an address");
    let listening = server.listen(at, ListenOptions::new(config.clone())).await;
    let mut listener = listening.expect("a listener");
    let from = IpAddr::from([10, 0, 0, 1]);
    let mut stream = client.connect(from, at, config).await.expect("connected");
    let (mut accepted, _) = listener.accept().await.expect("accepted");
    for _ in 0..2 {
        stream.write_all(b"?").await.expect("room");
        accepted.read_exact(&mut [0]).await.expect("a byte");
        accepted.write_all(b"!").await.expect("room");
        stream.read_exact(&mut [0]).await.expect("a byte");
    }
    (client, stream, (server, accepted))
}

async fn wait_for(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(in_time.is_ok(), "{what}: not in time");
}

async fn sent(network: &Network) -> u64 {
    let counters = network.counters().await.expect("a data path");
    counters.link.packets_out
}

#[tokio::test]
async fn open_connections_join_from_uplinks_and_all_paths_are_probed_after_a_suspend() {
    let (client, _stream, _server) = connection().await;
    let seconds = Arc::new(AtomicU64::new(0));
    let clocks = Suspended(seconds.clone());
    let uplinks = Uplinks::with_clocks(loopback(), Vec::new(), clocks);
    let _watching = uplinks.start(&client).await.expect("netlink");
    assert_eq!(uplinks.list()[0].state, UplinkState::Used);
    wait_for("a join from the uplink", async || {
        let list = client.connections().await.expect("a data path");
        list[0].info.subflows.len() == 2
    })
    .await;
    // Until nothing is sent any more.
    let mut before = 0;
    wait_for("quiet", async || {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let now = sent(&client).await;
        std::mem::replace(&mut before, now) == now
    })
    .await;
    seconds.store(3600, Ordering::Relaxed);
    wait_for("a probe on both subflows", async || {
        sent(&client).await >= before + 2
    })
    .await;
    // Only once.
    let after = sent(&client).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(sent(&client).await, after);
}

#[tokio::test]
async fn connections_of_a_client_that_follows_uplinks_use_all_of_them() {
    let test = async {
        let listening = TcpListener::bind("127.0.0.1:0").await;
        let mut listener = listening.expect("a port");
        let addresses = [1, 2].map(|n| IpAddr::from([127, 0, 0, n]));
        let named = addresses.map(|addr| NamedAddress { addr, device: None });
        let selection = Selection {
            addresses: named.to_vec(),
            backup_addresses: vec![addresses[1]],
            ..Selection::default()
        };
        let client = Client::builder().follow(selection).await.expect("netlink");
        let connecting = client.connect(listener.local_addr()).await;
        let mut near = connecting.expect("a stream");
        let (mut far, _) = listener.accept().await.expect("a connection");
        near.subflows_up(2).await.expect("two subflows");
        near.write_all(b"?").await.expect("room");
        far.read_exact(&mut [0]).await.expect("a byte");
        let info = near.connection_info().await.expect("an open connection");
        for subflow in &info.subflows {
            let backup = subflow.local.addr == addresses[1];
            assert_eq!(subflow.backup, backup, "{}", subflow.local);
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, test).await;
    in_time.expect("it takes too long");
}

#[tokio::test]
async fn targets_get_the_sources_that_lead_to_them_or_the_reason_why_there_are_none() {
    let (client, _stream, _server) = connection().await;
    let target: SocketAddr = "127.0.0.1:80".parse().expect("an address");
    let automatic = Selection {
        automatic: true,
        ..Selection::default()
    };
    let uplinks = Uplinks::new(automatic, Vec::new());
    let _watching = uplinks.start(&client).await.expect("netlink");
    // This host is reached from its own address.
    let pairs = uplinks.pairs(&[target]).await.expect("a source");
    assert_eq!(pairs, [(target.ip(), target)]);
    let none = Selection {
        devices: vec![DevicePattern::new("no-such-device")],
        ..Selection::default()
    };
    let uplinks = Uplinks::new(none, Vec::new());
    let _watching = uplinks.start(&client).await.expect("netlink");
    let error = uplinks.pairs(&[target]).await.expect_err("no source");
    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
    assert!(error.to_string().contains("127.0.0.1:80"), "{error}");
    let named = Uplinks::new(loopback(), Vec::new());
    let _watching = named.start(&client).await.expect("netlink");
    let other: SocketAddr = "[2001:db8::1]:80".parse().expect("an address");
    let pairs = named.pairs(&[other, target]).await.expect("a source");
    assert_eq!(pairs, [(IpAddr::from([127, 0, 0, 9]), target)]);
    let error = named.pairs(&[other]).await.expect_err("another family");
    assert!(
        error.to_string().contains("another address family"),
        "{error}"
    );
}
