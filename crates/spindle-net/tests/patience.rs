//! Time limits of a gateway and a connect service for others. Only the runtime's clock is advanced, so that no
//! test depends on the speed of the machine.

mod in_memory;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use in_memory::{config, network, settle};
use socket2::{Domain, Socket, Type};
use spindle_mptcp::path_manager::Passive;
use spindle_net::connect::{Connect, ConnectOptions, Destination, Sources};
use spindle_net::forward::{Forwarder, Rule, Rules};
use spindle_net::gateway::{Backend, Gateway, GatewayOptions};
use spindle_net::metrics::Metrics;
use spindle_net::proxy::{AnswerEarly, Proxy};
use spindle_net::tls::ServerTls;
use spindle_net::{Network, TcpStream, memory};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

/// The time limit of each step before a connection is relayed.
const STEP: Duration = Duration::from_secs(10);
/// Bytes that are counted for a TLS session.
const SESSION: u64 = 40 << 10;

/// A gateway, and the network of its clients.
struct World {
    clients: Network,
    network: Network,
    metrics: Metrics,
}

fn at() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 80))
}

impl World {
    async fn new(to: SocketAddr, change: impl FnOnce(&mut GatewayOptions)) -> Self {
        let (a, b) = memory::pair(1 << 14);
        let (clients, network) = (network(a), network(b));
        let mut options = GatewayOptions::new(vec![at()], to, config(Arc::new(Passive)));
        let metrics = Metrics::new("tcp");
        options.metrics = Some(metrics.clone());
        change(&mut options);
        let gateway = Gateway::bind(&network, options).await.expect("bound");
        tokio::spawn(gateway.serve());
        Self {
            clients,
            network,
            metrics,
        }
    }

    async fn client(&self) -> TcpStream {
        let from = IpAddr::from([10, 0, 0, 1]);
        let client = self.clients.connect(from, at(), config(Arc::new(Passive)));
        client.await.expect("a connection")
    }

    async fn memory(&self) -> u64 {
        self.network.counters().await.expect("counters").memory
    }

    /// Waits until the gateway has accepted this many connections.
    async fn accepted(&self, n: u64) {
        while self.network.counters().await.expect("counters").accepted < n {
            tokio::task::yield_now().await;
        }
        settle().await;
    }

    async fn has(&self, line: &str) -> bool {
        let text = self.metrics.text(&self.network).await.expect("metrics");
        text.lines().any(|l| l == line)
    }
}

/// Advances the runtime's clock by this time.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
    settle().await;
}

/// A service that never accepts, because its queue is full.
async fn full() -> (TcpListener, Vec<Socket>, SocketAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(here).expect("an address");
    let listener = socket.listen(1).expect("a listener");
    let to = listener.local_addr().expect("its address");
    let fill = |_| {
        let filler = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        filler.set_nonblocking(true).expect("a mode");
        // The connection attempt is in progress.
        let _ = filler.connect(&to.into());
        filler
    };
    (listener, (0..4).map(fill).collect(), to)
}

/// TLS with a self-signed certificate, whose files are in the directory.
fn tls() -> (tempfile::TempDir, ServerTls) {
    let dir = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(["gateway.example".to_owned()]);
    let made = made.expect("a certificate");
    let file = |name: &str, text: String| -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("room");
        path
    };
    let cert = file("cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    let tls = ServerTls::load(&cert, &key, None).expect("they fit");
    (dir, tls)
}

#[tokio::test]
async fn a_client_that_does_not_begin_its_tls_handshake_is_counted_and_reset_after_ten_seconds() {
    let (_dir, tls) = tls();
    let service = TcpListener::bind("127.0.0.1:0").await.expect("a service");
    let to = service.local_addr().expect("its address");
    let w = World::new(to, |o| o.tls = Some(tls)).await;
    let before = w.memory().await;
    let mut client = w.client().await;
    w.accepted(1).await;
    let counted = w.memory().await - before;
    assert!(counted >= SESSION + (14 << 10), "{counted} bytes");
    pass(STEP / 2).await;
    assert!(
        !w.has("spindle_refused_total{transport=\"tcp\",why=\"tls\"} 1")
            .await
    );
    pass(STEP / 2).await;
    let read = client.read(&mut [0; 10]).await;
    assert_eq!(
        read.expect_err("a reset").kind(),
        std::io::ErrorKind::ConnectionReset
    );
    assert!(
        w.has("spindle_refused_total{transport=\"tcp\",why=\"tls\"} 1")
            .await
    );
}

#[tokio::test]
async fn a_client_is_reset_if_the_service_does_not_accept_within_ten_seconds() {
    let (_listener, _fillers, to) = full().await;
    let w = World::new(to, |_| ()).await;
    let mut client = w.client().await;
    w.accepted(1).await;
    let refused = "spindle_refused_total{transport=\"tcp\",why=\"unreachable\"} 1";
    pass(STEP / 2).await;
    assert!(!w.has(refused).await);
    pass(STEP / 2).await;
    let read = client.read(&mut [0; 10]).await;
    assert_eq!(
        read.expect_err("a reset").kind(),
        std::io::ErrorKind::ConnectionReset
    );
    assert!(w.has(refused).await);
}

/// Makes a gateway forward to loopback.
fn forwarding(options: &mut GatewayOptions) {
    let rule: Rule = "127.0.0.0/8:*".parse().expect("a rule");
    options.services[0].to = Backend::Forward(Forwarder::new(Rules::from(vec![rule])));
}

/// The gateway's answer to a request for a tunnel, once it has waited for ten seconds.
async fn answer_after_ten_seconds(w: &World, request: &str, refused: &str) -> String {
    let mut client = w.client().await;
    client.write_all(request.as_bytes()).await.expect("room");
    w.accepted(1).await;
    // The gateway's task must have read the request before the clock moves.
    let sent = request.len() as u64;
    while client
        .connection_info()
        .await
        .expect("a state")
        .acknowledged
        < sent
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let refused = format!("spindle_refused_total{{transport=\"tcp\",why=\"{refused}\"}} 1");
    pass(STEP / 2).await;
    assert!(!w.has(&refused).await);
    pass(STEP / 2).await;
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("an answer");
    client.shutdown().await.expect("it is open");
    while !w.has(&refused).await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    text
}

#[tokio::test]
async fn a_head_that_is_not_complete_after_ten_seconds_is_answered_with_408() {
    let w = World::new(at(), forwarding).await;
    let text = answer_after_ten_seconds(&w, "CONNECT a.example:1 HT", "http").await;
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
}

#[tokio::test]
async fn a_target_that_does_not_accept_within_ten_seconds_is_answered_with_504() {
    let (_listener, _fillers, to) = full().await;
    let w = World::new(at(), forwarding).await;
    let request = format!("CONNECT {to} HTTP/1.0\r\n\r\n");
    let text = answer_after_ten_seconds(&w, &request, "unreachable").await;
    assert!(text.starts_with("HTTP/1.1 504 "), "{text}");
    assert!(text.contains("error=connection_timeout\r\n"), "{text}");
}

#[tokio::test]
async fn a_half_closed_connection_is_reset_after_its_timeout_and_an_open_one_is_not() {
    const LIMIT: Duration = Duration::from_secs(300);
    // Timers have a resolution of a millisecond.
    const TICK: Duration = Duration::from_millis(10);
    let service = TcpListener::bind("127.0.0.1:0").await.expect("a service");
    let to = service.local_addr().expect("its address");
    let w = World::new(to, |o| o.half_close_timeout = Some(LIMIT)).await;
    let mut whole = w.client().await;
    let (mut whole_service, _) = service.accept().await.expect("a connection");
    let mut half = w.client().await;
    let (mut half_service, _) = service.accept().await.expect("a connection");
    half.shutdown().await.expect("it is open");
    assert_eq!(half_service.read(&mut [0; 10]).await.expect("the end"), 0);
    settle().await;
    for _ in 0..7 {
        pass(LIMIT / 8 + TICK).await;
    }
    // The answer still arrives, and restarts the timeout.
    half_service.write_all(b"?").await.expect("room");
    assert_eq!(half.read(&mut [0; 10]).await.expect("a byte"), 1);
    for _ in 0..10 {
        pass(LIMIT / 8 + TICK).await;
    }
    let read = half.read(&mut [0; 10]).await;
    assert_eq!(
        read.expect_err("a reset").kind(),
        std::io::ErrorKind::ConnectionReset
    );
    whole.write_all(b"?").await.expect("room");
    whole.flush().await.expect("it is open");
    assert_eq!(whole_service.read(&mut [0; 10]).await.expect("a byte"), 1);
}

#[tokio::test]
async fn a_program_that_sends_no_socks_request_within_ten_seconds_is_disconnected() {
    let (link, _other) = memory::pair(1 << 14);
    let network = network(link);
    let metrics = Metrics::new("tcp");
    let options = ConnectOptions {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        destination: Destination::Programs(Proxy {
            via: None,
            answer_early: AnswerEarly::None,
            socks5: true,
            http_connect: false,
            redirected: false,
            names: None,
            fallback: None,
            users: None,
        }),
        local: Sources::Listed(vec![IpAddr::from([10, 0, 0, 1])]),
        config: config(Arc::new(Passive)),
        metrics: Some(metrics.clone()),
        tls: None,
        patience: None,
        ready: 0,
        max_connections: 10,
        idle_timeout: None,
        half_close_timeout: None,
        drain: STEP,
    };
    let connect = Connect::bind(&network, options).await.expect("bound");
    let port = connect.addresses()[0];
    tokio::spawn(connect.serve());
    let mut program = tokio::net::TcpStream::connect(port)
        .await
        .expect("a connection");
    // The service's task must be waiting before the clock moves.
    tokio::time::sleep(Duration::from_millis(100)).await;
    pass(STEP + Duration::from_millis(100)).await;
    let read = program.read(&mut [0; 10]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let text = metrics.text(&network).await.expect("metrics");
    assert!(
        text.contains("spindle_refused_total{transport=\"tcp\",why=\"socks\"} 1"),
        "{text}"
    );
}
