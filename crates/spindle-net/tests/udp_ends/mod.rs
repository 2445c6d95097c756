//! Two networks over UDP on the loopback, and transfers between them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use spindle_mptcp::stage::coding::Short;
use spindle_mptcp::{Config, StackConfig, preset};
use spindle_net::udp::{UdpClient, UdpClientOptions, UdpServer, UdpServerOptions};
use spindle_net::{ListenOptions, Network, NetworkConfig, TcpListener, TcpStream};
use spindle_wire::{Endpoint, Flags, Segment};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Far more than any of these tests needs. It only turns a hang into a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);
pub(crate) const PORT: u16 = 80;

/// `caps-dark`, except that no flow is ever long.
pub(crate) const ALL_CODED: &str = "all-coded";

pub(crate) fn config(name: &str) -> Arc<Config> {
    let mut config = match name {
        ALL_CODED => {
            let mut config = preset("caps-dark").expect("a preset").config;
            let coding = config.coding.as_mut().expect("a coding configuration");
            Arc::make_mut(coding).short = Short::UpTo(u64::MAX);
            config
        }
        name => preset(name).expect("a preset").config,
    };
    config.tcp.msl = spindle_units::Duration::from_millis(10);
    // As on a real wire: the link lowers it to its own limit.
    config.tcp.burst = 65_435;
    Arc::new(config)
}

fn network(link: Box<dyn spindle_net::Link>, stack: StackConfig) -> Network {
    let config = NetworkConfig {
        stack,
        name: "udp".to_owned(),
    };
    Network::start(config, link).expect("a data path")
}

pub(crate) async fn server(name: &str) -> (Network, TcpListener, SocketAddr) {
    server_of(name, StackConfig::default()).await
}

/// A server with its own stack configuration.
pub(crate) async fn server_of(
    name: &str,
    stack: StackConfig,
) -> (Network, TcpListener, SocketAddr) {
    let options = UdpServerOptions::new(vec!["127.0.0.1:0".parse().expect("an address")]);
    server_with(name, stack, options).await
}

/// A server with its own stack configuration and link options.
pub(crate) async fn server_with(
    name: &str,
    stack: StackConfig,
    options: UdpServerOptions,
) -> (Network, TcpListener, SocketAddr) {
    let link = UdpServer::bind(options).expect("a socket");
    let outer = link.local_addrs().expect("its address")[0];
    let network = network(Box::new(link), stack);
    let options = ListenOptions::new(config(name));
    let listener = network
        .listen(UdpServer::listener_addr(PORT), options)
        .await
        .expect("a listener");
    (network, listener, outer)
}

pub(crate) fn client(outer: SocketAddr) -> Network {
    client_with(UdpClientOptions::new(outer.port()))
}

/// A client with its own link options.
pub(crate) fn client_with(options: UdpClientOptions) -> Network {
    let link = UdpClient::new(options).expect("a link");
    network(Box::new(link), StackConfig::default())
}

pub(crate) async fn connected(
    client: &Network,
    listener: &mut TcpListener,
    name: &str,
) -> (TcpStream, TcpStream) {
    let here = IpAddr::from([127, 0, 0, 1]);
    let to = SocketAddr::new(here, PORT);
    let a = client.connect(here, to, config(name)).await;
    let a = a.expect("a connection");
    let (b, _) = listener.accept().await.expect("a connection");
    (a, b)
}

pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 251) as u8).collect()
}

/// Sends `data` and reads it at the other end.
pub(crate) async fn carry(from: &mut TcpStream, to: &mut TcpStream, data: &[u8]) {
    let write = async {
        from.write_all(data).await.expect("room");
        from.flush().await.expect("it is open");
    };
    let read = async {
        let mut got = vec![0; data.len()];
        to.read_exact(&mut got).await.expect("the bytes");
        assert!(got == data, "other bytes arrived");
    };
    tokio::join!(write, read);
}

pub(crate) async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

/// A datagram that carries a segment from `port`.
pub(crate) fn datagram(id: u64, port: u16, flags: Flags, padding: usize) -> Vec<u8> {
    let at = |port| Endpoint::new(IpAddr::from([127, 0, 0, 1]), port);
    let mut s = Segment::new(at(port), at(PORT));
    s.flags = flags;
    s.payload = vec![0; padding].into();
    let mut out = Vec::new();
    s.encapsulate(id, &mut out).expect("it can be written");
    out
}
