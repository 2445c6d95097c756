//! Several services of one gateway over UDP, and the networks that listeners admit.

#[expect(dead_code, reason = "shared with the other tests over UDP")]
mod udp_ends;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use spindle_mptcp::{CloseReason, StackConfig};
use spindle_net::networks::{ClientNetwork, Networks};
use spindle_net::udp::{UdpServer, UdpServerOptions};
use spindle_net::{
    Admission, ListenOptions, NetError, Network, NetworkConfig, TcpListener, TcpStream,
};
use tokio::io::AsyncReadExt;
use udp_ends::{carry, client, config, in_time, pattern};

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn admitting(allow: &[&str], deny: &[&str]) -> Option<Arc<dyn Admission>> {
    let parse = |text: &&str| text.parse::<ClientNetwork>().expect("a network");
    Some(Arc::new(Networks::new(
        allow.iter().map(parse),
        deny.iter().map(parse),
    )))
}

/// A server with a socket for each service, and the sockets' addresses.
fn server(services: usize) -> (Network, Vec<SocketAddr>) {
    let any = "127.0.0.1:0".parse().expect("an address");
    let mut options = UdpServerOptions::new(vec![any; services]);
    options.services = (0..services as u32).collect();
    let link = UdpServer::bind(options).expect("sockets");
    let outer = link.local_addrs().expect("addresses");
    let config = NetworkConfig {
        stack: StackConfig::default(),
        name: "udp".to_owned(),
    };
    let network = Network::start(config, Box::new(link)).expect("a data path");
    (network, outer)
}

async fn listen(
    network: &Network,
    (service, port): (u32, u16),
    admission: Option<Arc<dyn Admission>>,
) -> TcpListener {
    let options = ListenOptions {
        admission,
        ..ListenOptions::new(config("fuso"))
    };
    let at = UdpServer::listener_of(service, port);
    network.listen(at, options).await.expect("a listener")
}

async fn connect(client: &Network, from: &str, port: u16) -> Result<TcpStream, NetError> {
    let from = from.parse().expect("an address");
    client
        .connect(from, SocketAddr::new(LOCAL, port), config("fuso"))
        .await
}

fn is_refused(result: &Result<TcpStream, NetError>) -> bool {
    matches!(
        result,
        Err(NetError::Connection {
            reason: CloseReason::Refused,
            ..
        })
    )
}

#[tokio::test]
async fn client_reaches_only_the_service_of_the_address_to_which_it_sends() {
    in_time(async {
        let (network, outer) = server(2);
        let mut first = listen(&network, (0, 80), None).await;
        let mut second = listen(&network, (1, 81), None).await;
        let to_first = client(outer[0]);
        let to_second = client(outer[1]);
        for (from, port) in [(&to_first, 81), (&to_second, 80)] {
            let result = connect(from, "127.0.0.1", port).await;
            assert!(is_refused(&result), "{port}: {result:?}");
        }
        for (from, port, listener) in [(&to_first, 80, &mut first), (&to_second, 81, &mut second)] {
            let mut stream = connect(from, "127.0.0.1", port)
                .await
                .expect("a connection");
            let (mut accepted, _) = listener.accept().await.expect("a connection");
            carry(&mut stream, &mut accepted, &pattern(10_000)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn refused_networks_leave_no_state_and_a_change_resets_their_connections() {
    in_time(async {
        let (network, outer) = server(1);
        let mut listener = listen(&network, (0, 80), admitting(&["127.0.0.2"], &[])).await;
        let client = client(outer[0]);
        let result = connect(&client, "127.0.0.1", 80).await;
        assert!(is_refused(&result), "{result:?}");
        let counters = network.counters().await.expect("counters");
        assert_eq!((counters.live, counters.half_open), (0, 0));
        assert_eq!(counters.udp.expect("over UDP").ids, 0);
        let mut stream = connect(&client, "127.0.0.2", 80).await.expect("admitted");
        let (mut accepted, peer) = listener.accept().await.expect("a connection");
        assert_eq!(
            peer.ip(),
            "127.0.0.2".parse::<IpAddr>().expect("an address")
        );
        let both = admitting(&["127.0.0.0/24"], &[]);
        assert_eq!(listener.set_admission(both).await.expect("it runs"), 0);
        let mut other = connect(&client, "127.0.0.1", 80).await.expect("admitted");
        let (mut accepted_other, _) = listener.accept().await.expect("a connection");
        carry(&mut stream, &mut accepted, &pattern(10_000)).await;
        let one = admitting(&["127.0.0.0/24"], &["127.0.0.2"]);
        assert_eq!(listener.set_admission(one).await.expect("it runs"), 1);
        let error = stream.read(&mut [0]).await.expect_err("a reset");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        carry(&mut other, &mut accepted_other, &pattern(10_000)).await;
        assert!(is_refused(&connect(&client, "127.0.0.2", 80).await));
        assert_eq!(listener.set_admission(None).await.expect("it runs"), 0);
        connect(&client, "127.0.0.2", 80).await.expect("admitted");
    })
    .await;
}
