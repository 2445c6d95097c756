//! Sockets over two networks joined in memory.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use spindle_mptcp::{Config, StackConfig, preset};
use spindle_net::{
    ListenOptions, NetError, Network, NetworkConfig, TcpListener, TcpStream, memory,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const LOCAL: &str = "10.0.0.1";
const SERVER: &str = "10.0.0.2:80";
/// Far more than any of these tests needs. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

fn network(link: memory::MemoryLink) -> Network {
    let config = NetworkConfig {
        stack: StackConfig::default(),
        name: "test".to_owned(),
    };
    Network::start(config, Box::new(link)).expect("a data path")
}

fn config(name: &str) -> Arc<Config> {
    let mut config = preset(name).expect("a preset").config;
    config.tcp.msl = spindle_units::Duration::from_millis(10);
    Arc::new(config)
}

fn options(config: &Arc<Config>) -> ListenOptions {
    ListenOptions::new(config.clone())
}

fn server() -> SocketAddr {
    SERVER.parse().expect("an address")
}

struct World {
    client: Network,
    server: Network,
    listener: TcpListener,
    config: Arc<Config>,
}

impl World {
    async fn new(name: &str) -> Self {
        Self::with(config(name), |o| o).await
    }

    async fn with(
        config: Arc<Config>,
        change: impl FnOnce(ListenOptions) -> ListenOptions,
    ) -> Self {
        let (a, b) = memory::pair(4096);
        let (client, server_net) = (network(a), network(b));
        let listener = server_net
            .listen(server(), change(options(&config)))
            .await
            .expect("a listener");
        Self {
            client,
            server: server_net,
            listener,
            config,
        }
    }

    async fn connect(&self) -> Result<TcpStream, NetError> {
        let local = LOCAL.parse().expect("an address");
        self.client
            .connect(local, server(), self.config.clone())
            .await
    }

    async fn connected(&mut self) -> (TcpStream, TcpStream) {
        let client = self.connect().await.expect("a connection");
        let (server, peer) = self.listener.accept().await.expect("a connection");
        assert_eq!(peer, client.local_addr());
        assert_eq!(server.local_addr(), client.peer_addr());
        (client, server)
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 251) as u8).collect()
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

#[tokio::test]
async fn bytes_arrive_in_both_directions_and_both_ends_see_the_end() {
    for name in ["tcp", "mptcp-2", "fuso-2"] {
        in_time(async {
            let mut w = World::new(name).await;
            let (client, mut server) = w.connected().await;
            let data = pattern(3_000_000);
            let (mut read, mut write) = client.into_split();
            let echo = tokio::spawn(async move {
                let mut got = Vec::new();
                server.read_to_end(&mut got).await.expect("the upload");
                server.write_all(&got).await.expect("room");
                server.shutdown().await.expect("shut down");
                server
            });
            let sent = data.clone();
            let up = tokio::spawn(async move {
                write.write_all(&sent).await.expect("room");
                write.shutdown().await.expect("shut down");
                write
            });
            let mut back = Vec::new();
            read.read_to_end(&mut back).await.expect("the echo");
            assert!(back == data, "{name}: {} bytes came back", back.len());
            up.await.expect("the writer");
            echo.await.expect("the server");
        })
        .await;
    }
}

#[tokio::test]
async fn subflows_are_established_and_reported() {
    in_time(async {
        let mut w = World::new("mptcp-3").await;
        let (client, server) = w.connected().await;
        client.subflows_up(3).await.expect("three subflows");
        server.subflows_up(3).await.expect("three subflows");
        let info = client.connection_info().await.expect("its state");
        assert!(info.multipath);
        assert_eq!(info.subflows.len(), 3);
        let address = self::server();
        let statuses = w.server.connections().await.expect("the list");
        assert_eq!(statuses.len(), 1);
        assert_eq!(statuses[0].listener, Some(address));
        assert_eq!(statuses[0].id, server.id());
        let counters = w.server.counters().await.expect("totals");
        assert_eq!((counters.accepted, counters.live), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_connection_to_a_port_without_a_listener_is_refused() {
    in_time(async {
        let w = World::new("tcp").await;
        let local = LOCAL.parse().expect("an address");
        let other = "10.0.0.2:81".parse().expect("an address");
        let refused = w.client.connect(local, other, w.config.clone()).await;
        let error = std::io::Error::from(refused.expect_err("no listener there"));
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    })
    .await;
}

#[tokio::test]
async fn an_abort_resets_the_connection_at_the_peer() {
    for name in ["tcp", "mptcp-2"] {
        in_time(async {
            let mut w = World::new(name).await;
            let (mut client, mut server) = w.connected().await;
            server.write_all(b"last words").await.expect("room");
            let mut word = [0; 10];
            client.read_exact(&mut word).await.expect("the words");
            server.abort();
            let error = client.read(&mut word).await.expect_err("a reset");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{name}");
            let error = server.read(&mut word).await.expect_err("aborted here");
            assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{name}");
            let error = client.write_all(b"x").await.expect_err("the peer's reset");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{name}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_dropped_stream_delivers_the_data_that_were_written() {
    in_time(async {
        let mut w = World::new("mptcp-2").await;
        let (mut client, mut server) = w.connected().await;
        let data = pattern(400_000);
        client.write_all(&data).await.expect("room");
        drop(client);
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.expect("all of it");
        assert!(got == data);
        drop(server);
        while !w.server.connections().await.expect("the list").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_never_reads_stops_the_writer() {
    in_time(async {
        let mut narrow = preset("tcp").expect("a preset").config;
        narrow.tcp.send_buffer = 100_000;
        narrow.tcp.receive_buffer = 100_000;
        let mut w = World::with(Arc::new(narrow), |o| o).await;
        let (mut client, mut server) = w.connected().await;
        let (mut written, chunk) = (0, pattern(50_000));
        // Write until no data have moved for a while, since buffers are bounded.
        while let Ok(n) = timeout(Duration::from_millis(300), client.write(&chunk)).await {
            written += n.expect("it is open");
            assert!(written < 4_000_000, "unbounded");
        }
        let mut got = vec![0; written];
        server
            .read_exact(&mut got)
            .await
            .expect("what was written arrives");
        client.write_all(&chunk).await.expect("there is room again");
    })
    .await;
}

#[tokio::test]
async fn connections_beyond_a_full_backlog_are_reset() {
    in_time(async {
        let w = World::with(config("tcp"), |o| ListenOptions { backlog: 2, ..o }).await;
        let mut streams = Vec::new();
        for _ in 0..2 {
            streams.push(w.connect().await.expect("the handshake"));
        }
        // The reset follows the handshake. It may arrive before `connect` has returned.
        let error = match w.connect().await {
            Ok(mut third) => third.read(&mut [0]).await.expect_err("a reset"),
            Err(e) => e.into(),
        };
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(w.server.counters().await.expect("totals").refused, 1);
    })
    .await;
}

#[tokio::test]
async fn a_dropped_listener_refuses_connections_and_frees_its_port() {
    in_time(async {
        let mut w = World::new("tcp").await;
        let (_client, _server) = w.connected().await;
        let again = w.server.listen(server(), options(&w.config)).await;
        let error = std::io::Error::from(again.expect_err("it is taken"));
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        drop(w.listener);
        // The data path handles requests in order: once it answers, the listener no longer exists.
        w.server.counters().await.expect("totals");
        let refused = w
            .client
            .connect(
                LOCAL.parse().expect("an address"),
                server(),
                w.config.clone(),
            )
            .await;
        assert!(refused.is_err());
        let any = SocketAddr::new(server().ip(), 0);
        let l = w
            .server
            .listen(any, options(&w.config))
            .await
            .expect("a port");
        assert_ne!(l.local_addr().port(), 0);
    })
    .await;
}

#[tokio::test]
async fn shutdown_ends_connections_and_listeners() {
    in_time(async {
        let mut w = World::new("mptcp-2").await;
        let (mut client, mut server) = w.connected().await;
        w.server.shutdown().await;
        let mut one = [0];
        assert!(server.read(&mut one).await.is_err());
        let error = client.read(&mut one).await.expect_err("aborted");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(matches!(
            w.server.connections().await,
            Err(NetError::Stopped(_))
        ));
        assert!(matches!(
            w.listener.accept().await,
            Err(NetError::Stopped(_))
        ));
    })
    .await;
}

#[tokio::test]
async fn pieces_pass_without_copies_and_infos_outlive_the_connection() {
    in_time(async {
        let mut w = World::new("tcp").await;
        let (mut client, mut server) = w.connected().await;
        let data = bytes::Bytes::from(pattern(200_000));
        client.send(data.clone()).await.expect("room");
        client.shutdown().await.expect("shut down");
        let mut got = Vec::new();
        while let Some(piece) = server.recv(50_000).await.expect("open") {
            got.extend_from_slice(&piece);
        }
        assert!(got == data);
        server.shutdown().await.expect("shut down");
        let mut one = [0];
        assert_eq!(client.read(&mut one).await.expect("the end"), 0);
        let info = client.connection_info().await.expect("known");
        assert_eq!(info.written, 200_000);
        let error = client.write(b"x").await.expect_err("shut down");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    })
    .await;
}

#[tokio::test]
async fn many_connections_at_once_keep_their_bytes_apart() {
    const CONNECTIONS: usize = 200;
    const EACH: usize = 64 << 10;
    in_time(async {
        let mut w = World::new("mptcp-2").await;
        let serving = tokio::spawn(async move {
            for _ in 0..CONNECTIONS {
                let (stream, _) = w.listener.accept().await.expect("a connection");
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.into_split();
                    tokio::io::copy(&mut read, &mut write)
                        .await
                        .expect("copied");
                });
            }
            w.listener
        });
        let (client, config) = (w.client.clone(), w.config.clone());
        let mut clients = tokio::task::JoinSet::new();
        for i in 0..CONNECTIONS {
            let (client, config) = (client.clone(), config.clone());
            clients.spawn(async move {
                let local = LOCAL.parse().expect("an address");
                let mut s = client
                    .connect(local, server(), config)
                    .await
                    .expect("a connection");
                let data: Vec<u8> = (0..EACH).map(|k| ((k * (i + 3)) % 253) as u8).collect();
                s.write_all(&data).await.expect("room");
                s.shutdown().await.expect("shut down");
                let mut got = Vec::new();
                s.read_to_end(&mut got).await.expect("the echo");
                assert!(got == data, "connection {i}");
            });
        }
        while let Some(done) = clients.join_next().await {
            done.expect("a client");
        }
        serving.await.expect("the server");
        let counters = client.counters().await.expect("totals");
        assert_eq!(counters.connected, CONNECTIONS as u64);
    })
    .await;
}

#[tokio::test]
async fn a_connect_that_is_given_up_leaves_no_connection() {
    in_time(async {
        // No peer answers at the other end.
        let (link, _port) = memory::port(64);
        let network = network(link);
        let local = LOCAL.parse().expect("an address");
        let attempt = network.connect(local, server(), config("mptcp-2"));
        assert!(timeout(Duration::from_millis(50), attempt).await.is_err());
        while !network.connections().await.expect("the list").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_data_path_ends_with_its_last_handle() {
    in_time(async {
        let (link, port) = memory::port(4096);
        let network = network(link);
        let listener = network
            .listen(server(), options(&config("tcp")))
            .await
            .expect("a listener");
        drop(listener);
        drop(network);
        // The link is dropped with the thread, and its wires with the link.
        while port.is_connected() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_idle_data_path_sleeps() {
    in_time(async {
        let mut w = World::new("mptcp-2").await;
        let (mut client, mut server) = w.connected().await;
        client.write_all(&pattern(100_000)).await.expect("room");
        server
            .read_exact(&mut vec![0; 100_000])
            .await
            .expect("the bytes");
        client.subflows_up(2).await.expect("two subflows");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = w
            .server
            .counters()
            .await
            .expect("totals")
            .turn_times
            .count();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let turns = w
            .server
            .counters()
            .await
            .expect("totals")
            .turn_times
            .count()
            - before;
        // A spinning thread makes a hundred thousand turns.
        assert!(turns < 1000, "{turns} turns while idle");
    })
    .await;
}

#[tokio::test]
async fn no_copies_are_sent_while_more_data_are_expected() {
    in_time(async {
        for more in [true, false] {
            let mut w = World::new("fuso-2").await;
            let (mut client, mut server) = w.connected().await;
            client.write_all(b"?").await.expect("room");
            server.read_exact(&mut [0]).await.expect("the byte");
            client.subflows_up(2).await.expect("two subflows");
            server.subflows_up(2).await.expect("two subflows");
            server.expect_more(more);
            server.write_all(&pattern(8000)).await.expect("room");
            client.read_exact(&mut [0; 8000]).await.expect("the bytes");
            let info = server.connection_info().await.expect("its state");
            let copied = info.total.bytes_recovery;
            assert_eq!(copied == 0, more, "{copied} bytes copied");
        }
    })
    .await;
}
