//! Which clients a gateway with TLS admits, and what a reload does to those that are connected.

mod authority;
#[expect(dead_code, reason = "shared by tests that each use a part")]
mod in_memory;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use authority::{Authority, Identity, NAME};
use in_memory::{config, network};
use spindle_mptcp::path_manager::Passive;
use spindle_net::gateway::{Gateway, GatewayOptions};
use spindle_net::metrics::Metrics;

use spindle_net::tls::{ClientTls, ServerFiles, ServerTls};
use spindle_net::{Network, TcpStream, memory};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

type Tls = tokio_rustls::client::TlsStream<TcpStream>;

fn at() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 80))
}

/// A gateway in front of a service that echoes, and its clients.
struct World {
    _directory: tempfile::TempDir,
    ours: Authority,
    crl: PathBuf,
    tls: ServerTls,
    clients: Network,
    network: Network,
    metrics: Metrics,
}

impl World {
    async fn new(admitted: Option<&[&str]>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let ours = Authority::new(directory.path(), "ours", "ours");
        let crl = directory.path().join("revoked.pem");
        ours.revoke(&[], &crl);
        let own = ours.sign(NAME, 1, |_| {});
        let tls = ServerTls::from_files(ServerFiles {
            client_ca: Some(ours.pem.clone()),
            crl: Some(crl.clone()),
            clients: admitted.map(|list| list.iter().map(|n| (*n).to_owned()).collect()),
            ..ServerFiles::new(&own.cert, &own.key)
        });
        let tls = tls.expect("a configuration");
        let (a, b) = memory::pair(1 << 14);
        let (clients, network) = (network(a), network(b));
        let mut options = GatewayOptions::new(vec![at()], echo().await, config(Arc::new(Passive)));
        let metrics = Metrics::new("tcp");
        options.metrics = Some(metrics.clone());
        options.tls = Some(tls.clone());
        let gateway = Gateway::bind(&network, options).await.expect("bound");
        tokio::spawn(gateway.serve());
        Self {
            _directory: directory,
            ours,
            crl,
            tls,
            clients,
            network,
            metrics,
        }
    }

    async fn stream(&self) -> TcpStream {
        let from = IpAddr::from([10, 0, 0, 1]);
        let stream = self
            .clients
            .connect(from, at(), config(Arc::new(Passive)))
            .await;
        stream.expect("a connection")
    }

    /// Connects and exchanges a message, which shows that the gateway has accepted the client.
    async fn join(&self, id: &Identity) -> io::Result<Tls> {
        self.join_over(self.stream().await, id).await
    }

    async fn join_over(&self, stream: TcpStream, id: &Identity) -> io::Result<Tls> {
        let client = ClientTls::load(&self.ours.pem, id.paths(), NAME).expect("a client");
        let mut tls = client.connect(stream).await?;
        talk(&mut tls).await?;
        Ok(tls)
    }

    /// Waits until so many connections were refused because of TLS. They are counted once the client has the alert.
    async fn refused(&self, n: usize) {
        let line = format!("spindle_refused_total{{transport=\"tcp\",why=\"tls\"}} {n}");
        let reached = async {
            loop {
                let text = self.metrics.text(&self.network).await.expect("metrics");
                if text.lines().any(|l| l == line) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, reached).await;
        assert!(found.is_ok(), "not {n} refused");
    }

    async fn connected(&self, n: usize) {
        let reached = async {
            while self.tls.connected() != n {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, reached).await;
        assert!(found.is_ok(), "{} and not {n}", self.tls.connected());
    }
}

async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a service");
    let addr = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    addr
}

async fn talk(stream: &mut Tls) -> io::Result<()> {
    let exchange = async {
        stream.write_all(b"spindle").await?;
        let mut back = [0; 7];
        stream.read_exact(&mut back).await?;
        assert_eq!(&back, b"spindle");
        Ok(())
    };
    tokio::time::timeout(PATIENCE, exchange)
        .await
        .expect("an answer in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_resets_the_open_connections_of_that_client_only() {
    let world = World::new(None).await;
    let (laptop, phone) = (
        world.ours.sign("laptop", 2, |_| {}),
        world.ours.sign("phone", 3, |_| {}),
    );
    let mut first = world.join(&laptop).await.expect("admitted");
    let mut second = world.join(&laptop).await.expect("admitted");
    let mut other = world.join(&phone).await.expect("admitted");
    world.connected(3).await;
    world.tls.reload().expect("the same files");
    for stream in [&mut first, &mut second, &mut other] {
        talk(stream)
            .await
            .expect("a reload without a revocation resets no connection");
    }
    world.ours.revoke(&[2], &world.crl);
    talk(&mut first).await.expect("nothing changes by itself");
    world.tls.reload().expect("a new list");
    for stream in [&mut first, &mut second] {
        let mut byte = [0];
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut byte)).await;
        let error = read.expect("in time").expect_err("a reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
    talk(&mut other).await.expect("the other client");
    world.connected(1).await;
    world.refused(0).await;
    let error = world.join(&laptop).await.expect_err("revoked");
    assert!(error.to_string().contains("CertificateRevoked"), "{error}");
    world.refused(1).await;
    assert!(world.join(&phone).await.is_ok());
    drop(other);
    world.connected(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_of_the_admitted_names_are_accepted() {
    let world = World::new(Some(&["phone", "Laptop"])).await;
    let laptop = world.ours.sign("laptop", 2, |_| {});
    let guest = world.ours.sign("guest", 3, |_| {});
    assert!(world.join(&laptop).await.is_ok(), "case does not matter");
    let error = world.join(&guest).await.expect_err("not admitted");
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    world.refused(1).await;
    // The common name counts only in a certificate without other names.
    let common = |p: &mut rcgen::CertificateParams| {
        p.distinguished_name
            .push(rcgen::DnType::CommonName, "phone");
    };
    let both = world.ours.sign("guest", 4, common);
    assert!(world.join(&both).await.is_err());
    let only = world.ours.sign("guest", 5, |p| {
        common(p);
        p.subject_alt_names.clear();
    });
    assert!(world.join(&only).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_an_authority_that_is_no_longer_accepted_is_reset() {
    let world = World::new(None).await;
    let laptop = world.ours.sign("laptop", 2, |_| {});
    let mut open = world.join(&laptop).await.expect("admitted");
    let directory = world.crl.parent().expect("a directory");
    let theirs = Authority::new(directory, "theirs", "theirs");
    std::fs::copy(&theirs.pem, &world.ours.pem).expect("a file");
    world
        .tls
        .reload()
        .expect_err("the revocation list is of another authority");
    talk(&mut open)
        .await
        .expect("the configuration in use stays");
    theirs.revoke(&[], &world.crl);
    world.tls.reload().expect("the list of the new authority");
    let mut byte = [0];
    let read = tokio::time::timeout(PATIENCE, open.read(&mut byte)).await;
    read.expect("in time").expect_err("a reset");
    world.connected(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_revoked_during_its_handshake_is_refused() {
    let world = World::new(None).await;
    let laptop = world.ours.sign("laptop", 2, |_| {});
    // The gateway begins its side of the handshake with the old list.
    let stream = world.stream().await;
    let accepted = async {
        while world.network.counters().await.expect("counters").accepted < 1 {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    accepted.await;
    world.ours.revoke(&[2], &world.crl);
    world.tls.reload().expect("a new list");
    world.join_over(stream, &laptop).await.expect_err("revoked");
    world.connected(0).await;
    world.refused(1).await;
}
