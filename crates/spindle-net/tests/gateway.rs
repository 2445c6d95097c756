//! Gateway and connect with a network in memory between them: half-closes, resets, refusals, limits, draining.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use spindle_mptcp::path_manager::{Passive, Ports};
use spindle_mptcp::preset;
use spindle_net::Target;
use spindle_net::connect::{Connect, ConnectOptions, Destination, Sources};
use spindle_net::gateway::{Gateway, GatewayOptions};
use spindle_net::limits::Limits;
use spindle_net::metrics::Metrics;
use spindle_net::service::{Lifecycle, Summary};
use spindle_net::tls::ServerTls;
use spindle_net::{
    LinkKind, NetError, Network, NetworkConfig, memory, raise_file_limit, wire_config,
};
use spindle_wire::{Flags, Packet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Far more than any of these tests needs. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    service: TcpListener,
    /// The address that programs connect to.
    port: SocketAddr,
    gateway: (Lifecycle, JoinHandle<Result<Summary, NetError>>),
    networks: (Network, Network),
    /// Metrics of the gateway and of connect.
    metrics: (Metrics, Metrics),
}

fn here() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

fn network(link: memory::MemoryLink, limits: &Limits) -> Network {
    let config = NetworkConfig {
        stack: limits.stack(Vec::new()),
        name: "test".to_owned(),
    };
    Network::start(config, Box::new(link)).expect("a data path")
}

impl World {
    async fn new(limits: Limits, drain: Duration) -> Self {
        Self::with(limits, drain, None).await
    }

    async fn with(limits: Limits, drain: Duration, tls: Option<ServerTls>) -> Self {
        Self::over(memory::pair(1 << 14), limits, drain, tls).await
    }

    /// Connect is at the first link, the gateway at the second.
    async fn over(
        (a, b): (memory::MemoryLink, memory::MemoryLink),
        limits: Limits,
        drain: Duration,
        tls: Option<ServerTls>,
    ) -> Self {
        let service = TcpListener::bind(here()).await.expect("a service");
        let to = service.local_addr().expect("its address");
        let networks = (network(a, &Limits::default()), network(b, &limits));
        let config = |paths| {
            let base = preset("fuso").expect("a preset").config;
            wire_config(base, LinkKind::Udp, &limits, paths).into()
        };
        let at: SocketAddr = "10.0.0.2:80".parse().expect("an address");
        let mut options = GatewayOptions::new(vec![at], to, config(Arc::new(Passive)));
        options.drain = drain;
        options.tls = tls;
        options.max_connections = limits.max_connections;
        let metrics = (Metrics::new("fuso"), Metrics::new("fuso"));
        options.metrics = Some(metrics.0.clone());
        let gateway = Gateway::bind(&networks.1, options).await.expect("bound");
        let local: IpAddr = "10.0.0.1".parse().expect("an address");
        let options = ConnectOptions {
            listen: vec![here()],
            destination: Destination::Via(Target::Address(at).into()),
            local: Sources::Listed(vec![local]),
            config: config(Arc::new(Ports(2))),
            metrics: Some(metrics.1.clone()),
            tls: None,
            patience: None,
            ready: 0,
            max_connections: 2000,
            idle_timeout: None,
            half_close_timeout: None,
            drain,
        };
        let connect = Connect::bind(&networks.0, options).await.expect("bound");
        let port = connect.addresses()[0];
        tokio::spawn(connect.serve());
        let lifecycle = gateway.lifecycle();
        Self {
            service,
            port,
            gateway: (lifecycle, tokio::spawn(gateway.serve())),
            networks,
            metrics,
        }
    }

    async fn usual() -> Self {
        Self::new(Limits::default(), PATIENCE).await
    }

    /// A program's connection and the service's end of it.
    async fn joined(&self) -> (TcpStream, TcpStream) {
        let program = TcpStream::connect(self.port).await.expect("a connection");
        let (service, _) = self.service.accept().await.expect("a connection");
        (program, service)
    }

    /// The value of a line of the gateway's metrics.
    async fn gateway_counts(&self, line: &str) -> f64 {
        value(
            &self
                .metrics
                .0
                .text(&self.networks.1)
                .await
                .expect("metrics"),
            line,
        )
    }

    /// The value of a line of connect's metrics.
    async fn connect_counts(&self, line: &str) -> f64 {
        value(
            &self
                .metrics
                .1
                .text(&self.networks.0)
                .await
                .expect("metrics"),
            line,
        )
    }

    async fn end(self) {
        self.networks.0.shutdown().await;
        self.networks.1.shutdown().await;
    }
}

/// The value after `name{transport="fuso",labels}`.
fn value(text: &str, name: &str) -> f64 {
    let (name, label) = name.split_once(' ').unwrap_or((name, ""));
    let comma = if label.is_empty() { "" } else { "," };
    let start = format!("spindle_{name}{{transport=\"fuso\"{comma}{label}}} ");
    let value = text.lines().find_map(|l| l.strip_prefix(&start));
    let value = value.unwrap_or_else(|| panic!("no {start}in\n{text}"));
    value.parse().expect("a number")
}

fn reset(stream: TcpStream) {
    let linger = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    linger.expect("linger");
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 251) as u8).collect()
}

#[tokio::test]
async fn a_half_close_is_relayed_and_the_other_direction_goes_on() {
    in_time(async {
        let w = World::usual().await;
        let (mut program, mut service) = w.joined().await;
        let data = pattern(3_000_000);
        let sent = data.clone();
        let up = tokio::spawn(async move {
            program.write_all(&sent).await.expect("room");
            program.shutdown().await.expect("shut down");
            let mut back = Vec::new();
            program.read_to_end(&mut back).await.expect("the answer");
            back
        });
        let mut got = Vec::new();
        service.read_to_end(&mut got).await.expect("the upload");
        assert!(got == data);
        service.write_all(&got).await.expect("room");
        drop(service);
        assert!(up.await.expect("the program") == data);
        w.end().await;
    })
    .await;
}

#[tokio::test]
async fn resets_are_relayed_in_both_directions() {
    in_time(async {
        let w = World::usual().await;
        let (program, mut service) = w.joined().await;
        reset(program);
        let error = service.read_u8().await.expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let (mut program, mut service) = w.joined().await;
        service.write_all(b"the last words").await.expect("room");
        let mut words = [0; 14];
        program.read_exact(&mut words).await.expect("the words");
        reset(service);
        let error = program.read_u8().await.expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        w.end().await;
    })
    .await;
}

#[tokio::test]
async fn a_reset_ends_a_relay_that_reads_neither_side() {
    in_time(async {
        let w = World::usual().await;
        // The program has closed its direction, so the relay no longer reads from it.
        let (mut program, mut service) = w.joined().await;
        program.shutdown().await.expect("shut down");
        let mut end = Vec::new();
        service.read_to_end(&mut end).await.expect("the end");
        reset(program);
        let error = loop {
            match service.write_all(&[0; 1000]).await {
                Ok(()) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(e) => break e,
            }
        };
        let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(kinds.contains(&error.kind()), "{error}");
        w.end().await;
    })
    .await;
}

#[tokio::test]
async fn a_service_that_refuses_makes_the_program_see_a_reset() {
    in_time(async {
        let mut w = World::usual().await;
        // The service no longer listens: another listener takes its place in the struct, with another port.
        w.service = TcpListener::bind(here()).await.expect("another");
        let mut program = TcpStream::connect(w.port).await.expect("a connection");
        let error = program.read_u8().await.expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let refused = w.gateway_counts("refused_total why=\"unreachable\"").await;
        assert_eq!(refused, 1.0);
        w.end().await;
    })
    .await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_reset_and_the_others_go_on() {
    in_time(async {
        let limits = Limits {
            max_connections: 2,
            source_share: 100,
            ..Limits::default()
        };
        let w = World::new(limits, PATIENCE).await;
        let (mut first, mut service) = w.joined().await;
        let _second = w.joined().await;
        let mut third = TcpStream::connect(w.port).await.expect("a connection");
        let error = third.read_u8().await.expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        first.write_all(b"still there").await.expect("room");
        let mut words = [0; 11];
        service.read_exact(&mut words).await.expect("the words");
        let refused = w.gateway_counts("refused_total why=\"connections\"").await;
        assert_eq!(refused, 1.0);
        assert_eq!(w.gateway_counts("connections").await, 2.0);
        w.end().await;
    })
    .await;
}

#[tokio::test]
async fn draining_finishes_open_connections_and_refuses_new_ones() {
    in_time(async {
        let w = World::usual().await;
        let (mut program, mut service) = w.joined().await;
        w.gateway.0.advance();
        let mut late = TcpStream::connect(w.port).await.expect("a connection");
        let error = late.read_u8().await.expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        service.write_all(&pattern(500_000)).await.expect("room");
        drop(service);
        let mut got = Vec::new();
        program.read_to_end(&mut got).await.expect("the response");
        assert!(got == pattern(500_000));
        drop(program);
        let summary = w.gateway.1.await.expect("a task").expect("a run");
        assert_eq!((summary.connections, summary.aborted), (1, 0));
        w.networks.0.shutdown().await;
    })
    .await;
}

/// Two links joined by a thread that loses the first segment from the second to the first that has a FIN.
fn losing_a_fin() -> (memory::MemoryLink, memory::MemoryLink) {
    let ((a, at_a), (b, at_b)) = (memory::port(1 << 14), memory::port(1 << 14));
    std::thread::spawn(move || {
        let mut lost = false;
        while at_a.is_connected() && at_b.is_connected() {
            while let Some(packet) = at_a.recv() {
                at_b.send(packet);
            }
            while let Some(packet) = at_b.recv() {
                let ends = matches!(&packet, Packet::Tcp(s) if s.flags.contains(Flags::FIN));
                if ends && !std::mem::replace(&mut lost, true) {
                    continue;
                }
                at_a.send(packet);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    (a, b)
}

#[tokio::test]
async fn draining_waits_until_a_lost_fin_was_sent_again() {
    in_time(async {
        let w = World::over(losing_a_fin(), Limits::default(), PATIENCE, None).await;
        let (mut program, mut service) = w.joined().await;
        w.gateway.0.advance();
        service.write_all(b"whole").await.expect("room");
        drop(service);
        let mut got = Vec::new();
        program.shutdown().await.expect("its end");
        program.read_to_end(&mut got).await.expect("the response");
        assert_eq!(got, b"whole");
        let summary = w.gateway.1.await.expect("a task").expect("a run");
        assert_eq!((summary.connections, summary.aborted), (1, 0));
        let left = w.networks.1.connections().await.expect("a list");
        let ends: Vec<_> = left.iter().map(|c| c.info.closed).collect();
        assert!(ends.iter().all(Option::is_some), "{ends:?}");
        w.networks.0.shutdown().await;
    })
    .await;
}

#[tokio::test]
async fn a_drain_timeout_or_a_second_signal_resets_open_connections() {
    in_time(async {
        for (drain, signals) in [(Duration::from_millis(50), 1), (PATIENCE, 2)] {
            let w = World::new(Limits::default(), drain).await;
            let (mut program, mut service) = w.joined().await;
            for _ in 0..signals {
                w.gateway.0.advance();
            }
            for end in [&mut program, &mut service] {
                let error = end.read_u8().await.expect_err("a reset");
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            }
            let summary = w.gateway.1.await.expect("a task").expect("a run");
            assert_eq!(summary.aborted, 1);
            w.networks.0.shutdown().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_thousand_connections_at_once_are_relayed() {
    const BYTES: usize = 64_000;
    const MANY: usize = 1000;
    in_time(async {
        raise_file_limit();
        let w = World::usual().await;
        let mut pairs = Vec::new();
        for _ in 0..MANY {
            pairs.push(w.joined().await);
        }
        let data = std::sync::Arc::new(pattern(BYTES));
        let mut tasks = tokio::task::JoinSet::new();
        for (mut program, mut service) in pairs {
            let expected = data.clone();
            tasks.spawn(async move {
                let up = async {
                    program.write_all(&expected).await.expect("room");
                    program.shutdown().await.expect("shut down");
                };
                let echo = async {
                    let mut got = Vec::new();
                    service.read_to_end(&mut got).await.expect("the upload");
                    assert!(got == *expected);
                    service.write_all(&got).await.expect("room");
                    service.shutdown().await.expect("shut down");
                };
                tokio::join!(up, echo);
                let mut back = Vec::new();
                program.read_to_end(&mut back).await.expect("the echo");
                assert!(back == *expected);
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.expect("a connection");
        }
        w.end().await;
    })
    .await;
}

#[tokio::test]
async fn response_times_and_ends_are_counted_at_both_ends() {
    in_time(async {
        let w = World::usual().await;
        let (mut program, mut service) = w.joined().await;
        for _ in 0..3 {
            program.write_all(b"request").await.expect("room");
            let mut words = [0; 7];
            service.read_exact(&mut words).await.expect("the request");
            tokio::time::sleep(Duration::from_millis(10)).await;
            service.write_all(&words).await.expect("room");
            program.read_exact(&mut words).await.expect("the response");
        }
        drop((program, service));
        let ended = "ended_total how=\"finished\"";
        while w.gateway_counts(ended).await + w.connect_counts(ended).await < 2.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let seconds = "response_time_seconds_sum";
        let (g, c) = (
            w.gateway_counts(seconds).await,
            w.connect_counts(seconds).await,
        );
        let responses = "response_time_seconds_count";
        assert_eq!(w.gateway_counts(responses).await, 3.0);
        assert_eq!(w.connect_counts(responses).await, 3.0);
        let both = format!("{g} s at the gateway, {c} s at connect");
        assert!(g >= 0.03 && c >= 0.03, "{both}");
        w.end().await;
    })
    .await;
}

/// Number of the gateway's response times, and their sum in seconds.
async fn responses(w: &World) -> (f64, f64) {
    let count = w.gateway_counts("response_time_seconds_count").await;
    (count, w.gateway_counts("response_time_seconds_sum").await)
}

/// A client that accepts little before it reads, so that most of a response waits at the gateway.
async fn slow_client(w: &World) -> spindle_net::TcpStream {
    let local: IpAddr = "10.0.0.1".parse().expect("an address");
    let at: SocketAddr = "10.0.0.2:80".parse().expect("an address");
    let mut config = preset("fuso").expect("a preset").config;
    config.tcp.receive_buffer = 64 << 10;
    config.tcp.autotune = false;
    let stream = w.networks.0.connect(local, at, config.into()).await;
    stream.expect("a connection")
}

#[tokio::test]
async fn response_time_at_a_gateway_ends_when_the_client_acknowledges_the_last_byte() {
    const PAUSE: Duration = Duration::from_millis(300);
    in_time(async {
        let w = World::usual().await;
        let mut client = slow_client(&w).await;
        let (mut service, _) = w.service.accept().await.expect("a connection");
        let data = pattern(400_000);
        for _ in 0..2 {
            client.write_all(b"request").await.expect("room");
            let mut request = [0; 7];
            service.read_exact(&mut request).await.expect("the request");
            // The gateway reads all of it at once.
            service.write_all(&data).await.expect("room");
            tokio::time::sleep(PAUSE).await;
            let mut got = vec![0; data.len()];
            client.read_exact(&mut got).await.expect("the response");
            assert!(got == data);
        }
        client.shutdown().await.expect("shut down");
        drop(service);
        let sum = loop {
            match responses(&w).await {
                (2.0, sum) => break sum,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let least = 2.0 * PAUSE.as_secs_f64();
        assert!(sum >= least, "{sum} s for two responses that took {least}");
        w.end().await;
    })
    .await;
}

#[tokio::test]
async fn response_time_includes_acknowledgements_after_the_relay_has_ended() {
    const PAUSE: Duration = Duration::from_millis(300);
    // More than the client holds (80 KiB), by less than the gateway holds for a shut window (64 KiB).
    const SIZE: usize = 160_000;
    in_time(async {
        let w = World::usual().await;
        let mut client = slow_client(&w).await;
        client.write_all(b"request").await.expect("room");
        client.shutdown().await.expect("shut down");
        let (mut service, _) = w.service.accept().await.expect("a connection");
        let mut request = Vec::new();
        service.read_to_end(&mut request).await.expect("a request");
        service.write_all(&pattern(SIZE)).await.expect("room");
        drop(service);
        while w.gateway_counts("ended_total how=\"finished\"").await < 1.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(responses(&w).await.0, 0.0, "the client has read nothing");
        tokio::time::sleep(PAUSE).await;
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.expect("the response");
        assert!(got == pattern(SIZE));
        let sum = loop {
            match responses(&w).await {
                (1.0, sum) => break sum,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        assert!(sum >= PAUSE.as_secs_f64(), "{sum} s");
        w.end().await;
    })
    .await;
}

/// What an operator has to look at: clients whose handshake failed. A connect service that stops is none of them.
#[tokio::test]
async fn a_client_that_leaves_during_its_tls_handshake_is_not_counted_as_refused() {
    in_time(async {
        let w = World::with(Limits::default(), PATIENCE, Some(self_signed())).await;
        let open = async || {
            let local: IpAddr = "10.0.0.1".parse().expect("an address");
            let at: SocketAddr = "10.0.0.2:80".parse().expect("an address");
            let config = preset("fuso").expect("a preset").config;
            let stream = w.networks.0.connect(local, at, config.into()).await;
            stream.expect("a connection")
        };
        drop(open().await);
        open().await.abort();
        // The gateway has handled all that came before this one.
        let mut other = open().await;
        other.write_all(b"no TLS at all").await.expect("room");
        while w.gateway_counts("refused_total why=\"tls\"").await == 0.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let error = other.read_to_end(&mut Vec::new()).await;
        assert_eq!(
            error.expect_err("a reset").kind(),
            ErrorKind::ConnectionReset
        );
        assert_eq!(w.gateway_counts("refused_total why=\"tls\"").await, 1.0);
        w.end().await;
    })
    .await;
}

/// TLS with a certificate of its own.
fn self_signed() -> ServerTls {
    let dir = tempfile::tempdir().expect("a directory");
    let (cert, key) = (dir.path().join("cert"), dir.path().join("key"));
    let own = rcgen::generate_simple_self_signed(["gateway".to_owned()]).expect("signed");
    std::fs::write(&cert, own.cert.pem()).expect("a file");
    std::fs::write(&key, own.signing_key.serialize_pem()).expect("a file");
    ServerTls::load(&cert, &key, None).expect("TLS")
}

#[tokio::test]
async fn a_failed_tls_handshake_ends_in_an_alert_and_a_reset() {
    in_time(async {
        let w = World::with(Limits::default(), PATIENCE, Some(self_signed())).await;
        let local: IpAddr = "10.0.0.1".parse().expect("an address");
        let at: SocketAddr = "10.0.0.2:80".parse().expect("an address");
        let config = preset("fuso").expect("a preset").config;
        let stream = w.networks.0.connect(local, at, config.into()).await;
        let mut stream = stream.expect("a connection");
        stream
            .write_all(b"GET / HTTP/1.1\r\n\r\n")
            .await
            .expect("room");
        let mut got = Vec::new();
        let error = stream.read_to_end(&mut got).await.expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        // A fatal alert (RFC 8446, section 6).
        assert_eq!((got[0], got[5]), (21, 2));
        let refused = w.gateway_counts("refused_total why=\"tls\"").await;
        assert_eq!(refused, 1.0);
        w.end().await;
    })
    .await;
}
