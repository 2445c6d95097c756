//! When a connect service sends a program's first bytes to the gateway a second time. The test plays the gateway.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod authority;
mod in_memory;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use authority::{Authority, NAME};
use in_memory::{config, network, settle};
use spindle_mptcp::path_manager::Passive;
use spindle_net::connect::{Connect, ConnectOptions, Destination, Sources};
use spindle_net::proxy::{AnswerEarly, Proxy};
use spindle_net::tls::{ClientTls, ServerTls};
use spindle_net::{ListenOptions, Network, Target, TcpListener, TcpStream, memory};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

type Tls = tokio_rustls::server::TlsStream<TcpStream>;

/// Far more than any of these tests needs. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

fn gateway() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 443))
}

/// A connect service that answers programs early, and the gateway's side of its connections.
struct World {
    _directory: tempfile::TempDir,
    _gateway: Network,
    clients: Network,
    connect: SocketAddr,
    /// A message for each connection whose TLS handshake is complete.
    shaken: mpsc::UnboundedReceiver<()>,
    /// Connections on which a request has arrived, and the request's first bytes.
    requests: mpsc::UnboundedReceiver<(Tls, String)>,
}

impl World {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::new(directory.path(), "ours", "ours");
        let own = authority.sign(NAME, 1, |_| {});
        let server = ServerTls::load(&own.cert, &own.key, None).expect("a server");
        let client = ClientTls::load(&authority.pem, None, NAME).expect("a client");
        let (a, b) = memory::pair(1 << 14);
        let (clients, network) = (network(a), network(b));
        let listener = network.listen(gateway(), ListenOptions::new(config(Arc::new(Passive))));
        let listener = listener.await.expect("a listener");
        let (arrived, requests) = mpsc::unbounded_channel();
        let (shake, shaken) = mpsc::unbounded_channel();
        tokio::spawn(accept(listener, server, shake, arrived));
        let connect = Connect::bind(&clients, options(client)).await;
        let connect = connect.expect("bound");
        let port = connect.addresses()[0];
        tokio::spawn(connect.serve());
        Self {
            _directory: directory,
            _gateway: network,
            clients,
            connect: port,
            shaken,
            requests,
        }
    }

    /// Waits until the service has a connection ready.
    async fn one_is_ready(&mut self) {
        self.shaken.recv().await.expect("the gateway listens");
        // The client's handshake is complete before the gateway's. The pool gets the connection once its task has run.
        settle().await;
    }

    /// A program that has asked for a target, has got the answer that it is open, and has sent these bytes.
    async fn program(&self, bytes: &str) -> tokio::net::TcpStream {
        let program = tokio::net::TcpStream::connect(self.connect).await;
        let mut program = program.expect("connected");
        let request = b"CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\n\r\n";
        program.write_all(request).await.expect("room");
        let mut head = [0; 39];
        program.read_exact(&mut head).await.expect("an answer");
        assert!(head.starts_with(b"HTTP/1.1 200 "));
        program.write_all(bytes.as_bytes()).await.expect("room");
        program
    }

    /// The next request that the gateway receives. It must have these bytes behind its head.
    async fn request(&mut self, bytes: &str) -> Tls {
        let (mut stream, mut text) = self.requests.recv().await.expect("the gateway listens");
        while text
            .split_once("\r\n\r\n")
            .is_none_or(|(_, b)| b.len() < bytes.len())
        {
            let mut more = [0; 1000];
            let n = stream.read(&mut more).await.expect("the rest");
            text.push_str(str::from_utf8(&more[..n]).expect("text"));
        }
        assert!(text.starts_with("CONNECT a.example:80 "), "{text}");
        assert!(text.ends_with(&format!("\r\n\r\n{bytes}")), "{text}");
        stream
    }

    /// Waits until all that the service has sent over its open connections is acknowledged.
    async fn all_is_acknowledged(&self) {
        loop {
            let open = self.clients.connections().await.expect("a state");
            if open.iter().all(|c| c.info.acknowledged >= c.info.written) {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Accepts all connections. Those that carry a request go to the test.
async fn accept(
    mut listener: TcpListener,
    tls: ServerTls,
    shaken: mpsc::UnboundedSender<()>,
    arrived: mpsc::UnboundedSender<(Tls, String)>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, shaken, arrived) = (tls.clone(), shaken.clone(), arrived.clone());
        tokio::spawn(async move {
            let mut stream = tls.accept(stream).await.expect("a handshake");
            // The test may have ended.
            let _ = shaken.send(());
            let mut first = [0; 1000];
            if let Ok(n @ 1..) = stream.read(&mut first).await {
                let text = String::from_utf8_lossy(&first[..n]).into_owned();
                let _ = arrived.send((stream, text));
            }
        });
    }
}

fn options(tls: ClientTls) -> ConnectOptions {
    ConnectOptions {
        listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        destination: Destination::Programs(Proxy {
            via: Some(Target::Address(gateway()).into()),
            answer_early: AnswerEarly::All,
            socks5: false,
            http_connect: true,
            redirected: false,
            names: None,
            fallback: None,
            users: None,
        }),
        local: Sources::Listed(vec![IpAddr::from([10, 0, 0, 1])]),
        config: config(Arc::new(Passive)),
        metrics: None,
        tls: Some(tls),
        patience: None,
        ready: 1,
        max_connections: 100,
        idle_timeout: None,
        half_close_timeout: None,
        drain: PATIENCE,
    }
}

#[tokio::test]
async fn a_request_that_the_gateway_has_acknowledged_is_not_sent_again_after_a_reset() {
    let test = async {
        let mut w = World::new().await;
        w.one_is_ready().await;
        let mut program = w.program("once").await;
        let stream = w.request("once").await;
        w.all_is_acknowledged().await;
        stream.get_ref().0.abort();
        let mut bytes = [0; 10];
        let end = tokio::select! {
            end = program.read(&mut bytes) => end,
            _ = w.requests.recv() => panic!("the request was sent again"),
        };
        assert_eq!(end.expect_err("a reset").kind(), ErrorKind::ConnectionReset);
        // The gateway gets the request of the next program, and nothing before it.
        let _program = w.program("another").await;
        w.request("another").await;
    };
    timeout(PATIENCE, test).await.expect("it takes too long");
}

#[tokio::test]
async fn a_request_that_meets_the_orderly_end_of_a_ready_connection_is_sent_again() {
    let test = async {
        let mut w = World::new().await;
        w.one_is_ready().await;
        let mut program = w.program("twice").await;
        let mut stream = w.request("twice").await;
        stream.shutdown().await.expect("it is open");
        let mut again = w.request("twice").await;
        let answer = b"HTTP/1.1 200 OK\r\n\r\nhello";
        again.write_all(answer).await.expect("room");
        let mut back = [0; 5];
        program
            .read_exact(&mut back)
            .await
            .expect("the target's bytes");
        assert_eq!(&back, b"hello");
    };
    timeout(PATIENCE, test).await.expect("it takes too long");
}
