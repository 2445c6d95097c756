//! A gateway as a forwarder, and a connect service whose programs name their targets, with a network in memory
//! between them.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use spindle_mptcp::path_manager::{Passive, PathManager, Ports};
use spindle_mptcp::{Config, preset};
use spindle_net::Target;
use spindle_net::connect::{Connect, ConnectOptions, Destination, Sources};
use spindle_net::forward::{Forwarder, Rule, Rules};
use spindle_net::gateway::{Backend, Gateway, GatewayOptions};
use spindle_net::limits::Limits;
use spindle_net::metrics::Metrics;
use spindle_net::proxy::{AnswerEarly, Proxy};
use spindle_net::users::Users;
use spindle_net::{LinkKind, Network, NetworkConfig, memory, wire_config};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Far more than any of these tests needs. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

fn here() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn at() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 80))
}

fn config(paths: Arc<dyn PathManager>) -> Arc<Config> {
    let base = preset("fuso").expect("a preset").config;
    wire_config(base, LinkKind::Udp, &Limits::default(), paths).into()
}

/// A forwarding gateway, and the network of its clients.
struct World {
    clients: Network,
    network: Network,
    /// Metrics of the gateway and of connect.
    metrics: (Metrics, Metrics),
}

impl World {
    async fn new(rules: &[String]) -> Self {
        let list = rules.iter().map(|r| r.parse::<Rule>().expect("a rule"));
        let rules = Rules::from(list.collect::<Vec<_>>());
        Self::with(Backend::Forward(Forwarder::new(rules))).await
    }

    async fn with(to: Backend) -> Self {
        let network = |link| {
            let config = NetworkConfig {
                stack: Limits::default().stack(Vec::new()),
                name: "test".to_owned(),
            };
            Network::start(config, Box::new(link)).expect("a data path")
        };
        let (a, b) = memory::pair(1 << 14);
        let (clients, network) = (network(a), network(b));
        let metrics = (Metrics::new("fuso"), Metrics::new("fuso"));
        let mut options = GatewayOptions::new(vec![at()], to, config(Arc::new(Passive)));
        options.metrics = Some(metrics.0.clone());
        let gateway = Gateway::bind(&network, options).await.expect("bound");
        tokio::spawn(gateway.serve());
        Self {
            clients,
            network,
            metrics,
        }
    }

    /// A client that speaks to the gateway itself.
    async fn client(&self) -> spindle_net::TcpStream {
        let from = IpAddr::from([10, 0, 0, 1]);
        let client = self.clients.connect(from, at(), config(Arc::new(Passive)));
        client.await.expect("a connection")
    }

    /// The gateway's whole answer to these bytes, until the end of the stream.
    async fn answer(&self, bytes: &[u8]) -> String {
        answer(self.client().await, bytes).await
    }

    /// Starts a connect service to the gateway, whose programs name their targets. Returns its address.
    async fn connect(&self, users: Option<Users>, socks5: bool, http_connect: bool) -> SocketAddr {
        let options = ConnectOptions {
            listen: vec![here()],
            destination: Destination::Programs(Proxy {
                via: Some(Target::Address(at()).into()),
                answer_early: AnswerEarly::default(),
                socks5,
                http_connect,
                redirected: false,
                names: None,
                fallback: None,
                users,
            }),
            local: Sources::Listed(vec![IpAddr::from([10, 0, 0, 1])]),
            config: config(Arc::new(Ports(2))),
            metrics: Some(self.metrics.1.clone()),
            tls: None,
            patience: None,
            ready: 0,
            max_connections: 100,
            idle_timeout: None,
            half_close_timeout: None,
            drain: PATIENCE,
        };
        let connect = Connect::bind(&self.clients, options).await.expect("bound");
        let port = connect.addresses()[0];
        tokio::spawn(connect.serve());
        port
    }

    /// Waits until the gateway has refused this many connections for this reason, and no more.
    async fn gateway_refuses(&self, why: &str, n: u64) {
        counted(&self.metrics.0, &self.network, why, n).await;
    }

    /// The same of the connect service.
    async fn connect_refuses(&self, why: &str, n: u64) {
        counted(&self.metrics.1, &self.clients, why, n).await;
    }
}

async fn counted(metrics: &Metrics, network: &Network, why: &str, n: u64) {
    let start = format!("spindle_refused_total{{transport=\"fuso\",why=\"{why}\"}} ");
    loop {
        let text = metrics.text(network).await.expect("metrics");
        let value = text.lines().find_map(|l| l.strip_prefix(&start));
        let value: u64 = value.expect("a line").parse().expect("a number");
        assert!(value <= n, "{why}: {value}");
        if value == n {
            return;
        }
        // A refused connection is counted when it has ended.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> String {
    stream.write_all(bytes).await.expect("room");
    let mut text = String::new();
    stream
        .read_to_string(&mut text)
        .await
        .expect("an answer and the end");
    text
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

async fn service() -> (TcpListener, u16) {
    let service = TcpListener::bind(here()).await.expect("a service");
    let port = service.local_addr().expect("its address").port();
    (service, port)
}

fn rules(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|t| (*t).to_owned()).collect()
}

/// A program's request for a tunnel, with the bytes that follow it.
fn connect_to(target: &str, more: &str) -> Vec<u8> {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n{more}").into_bytes()
}

/// A SOCKS5 greeting and a request for a name.
fn socks_to(name: &str, port: u16) -> Vec<u8> {
    let head = [
        &[5, 1, 0, 5, 1, 0, 3, name.len() as u8][..],
        name.as_bytes(),
    ];
    [&head.concat()[..], &port.to_be_bytes()].concat()
}

/// The code of the reply to a SOCKS5 request without authentication.
async fn reply(program: &mut TcpStream) -> u8 {
    let mut reply = [0; 12];
    program.read_exact(&mut reply).await.expect("two replies");
    assert_eq!(reply[..3], [5, 0, 5]);
    reply[3]
}

fn users(text: &str) -> Users {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("room");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(file.path(), mode).expect("its owner");
    Users::load(file.path()).expect("users")
}

#[tokio::test]
async fn data_that_follow_a_request_at_once_reach_the_target_before_later_data() {
    in_time(async {
        let (service, port) = service().await;
        let w = World::new(&rules(&["127.0.0.1:*"])).await;
        let mut client = w.client().await;
        let request = connect_to(&format!("127.0.0.1:{port}"), "early, ");
        client.write_all(&request).await.expect("room");
        let (mut target, _) = service.accept().await.expect("a connection");
        let mut words = [0; 7];
        target.read_exact(&mut words).await.expect("early data");
        assert_eq!(&words, b"early, ");
        let mut head = [0; 39];
        client.read_exact(&mut head).await.expect("an answer");
        assert_eq!(&head, b"HTTP/1.1 200 Connection established\r\n\r\n");
        // From here it is a relay, with half-closes.
        client.write_all(b"later").await.expect("room");
        client.shutdown().await.expect("shut down");
        let mut rest = Vec::new();
        target.read_to_end(&mut rest).await.expect("the rest");
        assert_eq!(rest, b"later");
        target.write_all(b"answer").await.expect("room");
        drop(target);
        let mut back = Vec::new();
        client.read_to_end(&mut back).await.expect("the answer");
        assert_eq!(back, b"answer");
    })
    .await;
}

#[tokio::test]
async fn only_targets_that_were_reached_lately_are_answered_before_the_gateway_has_answered() {
    in_time(async {
        let (service, port) = service().await;
        let w = World::new(&rules(&["127.0.0.1:*"])).await;
        let connect = w.connect(None, false, true).await;
        let request = connect_to(&format!("127.0.0.1:{port}"), "");
        let ask = async || {
            let mut program = TcpStream::connect(connect).await.expect("connected");
            program.write_all(&request).await.expect("room");
            program
        };
        let mut head = [0; 39];
        let mut first = ask().await;
        first.read_exact(&mut head).await.expect("an answer");
        service.accept().await.expect("a connection");
        drop(service);
        // The target is known, and now refuses.
        let mut second = ask().await;
        second.read_exact(&mut head).await.expect("an answer");
        assert!(head.starts_with(b"HTTP/1.1 200 "));
        let end = second.read(&mut head).await;
        assert_eq!(end.expect_err("a reset").kind(), ErrorKind::ConnectionReset);
        let third = TcpStream::connect(connect).await.expect("connected");
        let refused = answer(third, &request).await;
        assert!(refused.starts_with("HTTP/1.1 502 "), "{refused}");
    })
    .await;
}

#[tokio::test]
async fn a_target_that_no_rule_allows_is_answered_with_403_and_not_dialled() {
    in_time(async {
        let (service, port) = service().await;
        let w = World::new(&rules(&[
            "*:*",
            "localhost:*",
            "10.0.0.0/8:*",
            "127.0.0.1:1",
        ]))
        .await;
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let text = w
                .answer(&connect_to(&format!("{host}:{port}"), "more"))
                .await;
            assert!(text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{text}");
            assert!(text.contains("--forward"), "{text}");
        }
        w.gateway_refuses("rule", 4).await;
        let dialled = timeout(Duration::from_millis(50), service.accept()).await;
        assert!(dialled.is_err(), "{dialled:?}");
    })
    .await;
}

#[tokio::test]
async fn requests_that_are_no_request_for_a_tunnel_are_answered_and_closed_in_order() {
    in_time(async {
        let w = World::new(&rules(&["*:*"])).await;
        let long = format!(
            "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
            "x".repeat(9 << 10)
        );
        for (request, status, words) in [
            (
                "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
                "405",
                "Allow: CONNECT",
            ),
            ("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", "400", "HOST:PORT"),
            ("CONNECT a:1 HTTP/1.1\r\n\r\n", "400", "0 Host fields"),
            ("\x16\x03\x01 not HTTP\r\n\r\n", "400", "not HTTP/1.1"),
            (&long, "431", "8192"),
        ] {
            let text = w.answer(request.as_bytes()).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            assert!(text.contains(words), "{text}");
        }
        w.gateway_refuses("http", 5).await;
    })
    .await;
}

#[tokio::test]
async fn targets_that_cannot_be_reached_are_answered_with_502_and_the_reason() {
    in_time(async {
        let (service, port) = service().await;
        drop(service);
        let w = World::new(&rules(&["127.0.0.0/8:*", "nowhere.invalid:80"])).await;
        let text = w
            .answer(&connect_to(&format!("127.0.0.1:{port}"), ""))
            .await;
        assert!(text.starts_with("HTTP/1.1 502 "), "{text}");
        assert!(text.contains("error=connection_refused\r\n"), "{text}");
        let text = w.answer(&connect_to("nowhere.invalid:80", "")).await;
        assert!(text.contains("error=dns_error\r\n"), "{text}");
        w.gateway_refuses("unreachable", 2).await;
    })
    .await;
}

#[tokio::test]
async fn programs_reach_a_server_by_name_by_socks_and_http_on_one_port() {
    in_time(async {
        let (service, port) = service().await;
        let w = World::new(&rules(&["127.0.0.0/8:*", "[::1]:*"])).await;
        let proxy = w.connect(None, true, true).await;
        let target = format!("localhost:{port}");
        for socks in [true, false] {
            let mut program = TcpStream::connect(proxy).await.expect("a connection");
            // The program sends data before the answer, and the server speaks at once.
            let mut request = match socks {
                true => socks_to("localhost", port),
                false => connect_to(&target, ""),
            };
            request.extend_from_slice(b"question");
            program.write_all(&request).await.expect("room");
            let (mut server, _) = service.accept().await.expect("a connection");
            server.write_all(b"banner").await.expect("room");
            let mut words = [0; 8];
            server.read_exact(&mut words).await.expect("the question");
            assert_eq!(&words, b"question");
            server.write_all(&[b'x'; 300_000]).await.expect("room");
            drop(server);
            if socks {
                assert_eq!(reply(&mut program).await, 0);
            } else {
                let mut head = [0; 39];
                program.read_exact(&mut head).await.expect("an answer");
                assert!(head.starts_with(b"HTTP/1.1 200 ") && head.ends_with(b"\r\n\r\n"));
            }
            let mut got = Vec::new();
            program.read_to_end(&mut got).await.expect("all data");
            assert_eq!((&got[..6], got.len()), (&b"banner"[..], 300_006));
        }
    })
    .await;
}

#[tokio::test]
async fn a_gateways_refusal_becomes_the_reply_code_and_the_status_for_the_program() {
    in_time(async {
        let (service, port) = service().await;
        drop(service);
        let w = World::new(&rules(&["127.0.0.0/8:*", "[::1]:*", "nowhere.invalid:*"])).await;
        let proxy = w.connect(None, true, true).await;
        for (name, port, code, status) in [
            ("example.invalid", 80, 4, "502"),
            ("denied.example", 0, 1, "400"),
            ("nowhere.invalid", 80, 4, "502"),
            ("localhost", port, 5, "502"),
        ] {
            let mut program = TcpStream::connect(proxy).await.expect("a connection");
            program
                .write_all(&socks_to(name, port))
                .await
                .expect("room");
            assert_eq!(reply(&mut program).await, code, "{name}");
            assert_eq!(program.read(&mut [0]).await.expect("the end"), 0);
            let program = TcpStream::connect(proxy).await.expect("a connection");
            let text = answer(program, &connect_to(&format!("{name}:{port}"), "")).await;
            assert!(
                text.starts_with(&format!("HTTP/1.1 {status} ")),
                "{name}: {text}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_denied_target_is_reply_2_and_status_403_for_the_program_and_counted_at_both_ends() {
    in_time(async {
        let w = World::new(&rules(&["example.com:443"])).await;
        let proxy = w.connect(None, true, true).await;
        let mut program = TcpStream::connect(proxy).await.expect("a connection");
        program
            .write_all(&socks_to("example.org", 443))
            .await
            .expect("room");
        assert_eq!(reply(&mut program).await, 2);
        let program = TcpStream::connect(proxy).await.expect("a connection");
        let text = answer(program, &connect_to("example.com:22", "")).await;
        assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
        assert!(
            text.contains("example.com:22: the gateway answered 403"),
            "{text}"
        );
        w.gateway_refuses("rule", 2).await;
        w.connect_refuses("rule", 2).await;
    })
    .await;
}

#[tokio::test]
async fn other_commands_and_methods_are_refused_by_the_local_port() {
    in_time(async {
        let w = World::new(&rules(&["*:*"])).await;
        let proxy = w.connect(None, true, true).await;
        // BIND and UDP ASSOCIATE.
        for command in [2, 3] {
            let mut program = TcpStream::connect(proxy).await.expect("a connection");
            let request = [5, 1, 0, 5, command, 0, 1, 127, 0, 0, 1, 0, 80];
            program.write_all(&request).await.expect("room");
            assert_eq!(reply(&mut program).await, 7);
            assert_eq!(program.read(&mut [0]).await.expect("the end"), 0);
        }
        let program = TcpStream::connect(proxy).await.expect("a connection");
        let text = answer(program, b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(
            text.starts_with("HTTP/1.1 405 ") && text.contains("SOCKS5"),
            "{text}"
        );
        // A port for one protocol does not accept the other.
        let http = w.connect(None, false, true).await;
        let program = TcpStream::connect(http).await.expect("a connection");
        let text = answer(program, &[&socks_to("a.example", 80)[..], b"\n\n"].concat()).await;
        assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
        let socks = w.connect(None, true, false).await;
        let mut program = TcpStream::connect(socks).await.expect("a connection");
        program.write_all(b"C").await.expect("room");
        let end = program.read(&mut [0]).await;
        assert!(
            matches!(&end, Ok(0)) || end.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
        );
        w.connect_refuses("socks", 3).await;
        w.connect_refuses("http", 2).await;
    })
    .await;
}

#[tokio::test]
async fn programs_need_a_user_and_the_right_password_if_users_are_configured() {
    in_time(async {
        let (service, port) = service().await;
        let w = World::new(&rules(&["127.0.0.1:*"])).await;
        let proxy = w
            .connect(Some(users("ann:open sesame\n")), true, true)
            .await;
        let http = |credentials: &str| {
            format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n{credentials}\r\nmore")
        };
        // "ann:wrong".
        for credentials in ["", "Proxy-Authorization: Basic YW5uOndyb25n\r\n"] {
            let program = TcpStream::connect(proxy).await.expect("a connection");
            let text = answer(program, http(credentials).as_bytes()).await;
            assert!(text.starts_with("HTTP/1.1 407 "), "{text}");
            assert!(
                text.contains("\r\nProxy-Authenticate: Basic realm="),
                "{text}"
            );
        }
        let socks = |password: &str| {
            let head = [
                &[5, 1, 2, 1, 3][..],
                b"ann",
                &[password.len() as u8],
                password.as_bytes(),
            ];
            let [high, low] = port.to_be_bytes();
            [&head.concat()[..], &[5, 1, 0, 1, 127, 0, 0, 1, high, low]].concat()
        };
        let mut program = TcpStream::connect(proxy).await.expect("a connection");
        program.write_all(&socks("wrong")).await.expect("room");
        let mut replies = Vec::new();
        program.read_to_end(&mut replies).await.expect("the end");
        assert_eq!(replies, [5, 2, 1, 1]);
        w.connect_refuses("authentication", 3).await;
        // The right password.
        let mut program = TcpStream::connect(proxy).await.expect("a connection");
        program
            .write_all(&socks("open sesame"))
            .await
            .expect("room");
        let mut replies = [0; 6];
        program.read_exact(&mut replies).await.expect("replies");
        assert_eq!(replies, [5, 2, 1, 0, 5, 0]);
        let _first = service.accept().await.expect("a connection");
        // "ann:open sesame".
        let right = http("Proxy-Authorization: Basic YW5uOm9wZW4gc2VzYW1l\r\n");
        let mut program = TcpStream::connect(proxy).await.expect("a connection");
        program.write_all(right.as_bytes()).await.expect("room");
        let (mut server, _) = service.accept().await.expect("a connection");
        let mut words = [0; 4];
        server.read_exact(&mut words).await.expect("data");
        assert_eq!(&words, b"more");
    })
    .await;
}

#[tokio::test]
async fn a_gateway_that_does_not_forward_is_a_general_failure_for_the_program() {
    in_time(async {
        let (service, port) = service().await;
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        let w = World::with(to.into()).await;
        let proxy = w.connect(None, true, true).await;
        for greeting in [
            "220 mail.example ESMTP\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\n\r\n",
        ] {
            let mut program = TcpStream::connect(proxy).await.expect("a connection");
            program
                .write_all(&socks_to("a.example", 25))
                .await
                .expect("room");
            let (mut server, _) = service.accept().await.expect("a connection");
            server.write_all(greeting.as_bytes()).await.expect("room");
            assert_eq!(reply(&mut program).await, 1, "{greeting}");
        }
    })
    .await;
}
