//! Connections over UDP as a program opens them: [`Client`], [`TcpStream::connect`], [`TcpListener::bind`].

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use spindle_net::{Client, NetError, TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Far more than any of these tests needs. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(40);

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it takes too long")
}

/// A listener on the loopback, and its address.
async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr();
    (listener, addr)
}

/// Sends bytes in one direction.
async fn carry(from: &mut TcpStream, to: &mut TcpStream) {
    let text: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
    let mut got = vec![0; text.len()];
    let (sent, read) = tokio::join!(from.write_all(&text), to.read_exact(&mut got));
    sent.expect("room");
    read.expect("the bytes");
    assert!(got == text, "other bytes arrived");
}

async fn exchange(near: &mut TcpStream, far: &mut TcpStream) {
    carry(near, far).await;
    carry(far, near).await;
}

#[tokio::test]
async fn streams_of_the_shared_client_reach_a_bound_listener_by_address_and_by_name() {
    in_time(async {
        let (mut listener, addr) = listener().await;
        let name = format!("localhost:{}", addr.port());
        for text in [addr.to_string(), name] {
            let mut near = TcpStream::connect(text.as_str()).await.expect("a stream");
            let (mut far, peer) = listener.accept().await.expect("a connection");
            assert_eq!(peer.ip(), addr.ip(), "the address outside the link");
            assert_eq!(near.peer_addr(), addr);
            exchange(&mut near, &mut far).await;
        }
    })
    .await;
}

#[tokio::test]
async fn connections_of_a_client_use_all_its_paths_and_keep_backups_for_later() {
    in_time(async {
        let (mut listener, addr) = listener().await;
        let paths: Vec<IpAddr> = (1..=3).map(|i| IpAddr::from([127, 0, 0, i])).collect();
        let builder = paths.iter().fold(Client::builder(), |b, p| b.local(*p));
        let client = builder.backup(paths[2]).build().expect("a client");
        let mut near = client.connect(addr).await.expect("a stream");
        let (mut far, _) = listener.accept().await.expect("a connection");
        near.subflows_up(3).await.expect("three subflows");
        exchange(&mut near, &mut far).await;
        let info = near.connection_info().await.expect("an open connection");
        for subflow in &info.subflows {
            let backup = subflow.local.addr == paths[2];
            assert_eq!(subflow.backup, backup, "{}", subflow.local);
        }
    })
    .await;
}

#[tokio::test]
async fn mistakes_are_named_and_have_the_kind_of_a_kernel_socket() {
    in_time(async {
        let client = Client::builder().build().expect("a client");
        let error = client
            .connect("no-port.example")
            .await
            .expect_err("no port");
        assert!(matches!(error, NetError::Target(_)), "{error}");
        assert!(error.to_string().contains("no-port.example"), "{error}");
        let error = client
            .connect("unknown.invalid:80")
            .await
            .expect_err("no such name");
        assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let unused = socket.local_addr().expect("its address");
        drop(socket);
        let error = client.connect(unused).await.expect_err("no listener");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
        let v6: SocketAddr = "[2001:db8::1]:80".parse().expect("an address");
        let from_v4 = Client::builder()
            .local([127, 0, 0, 1].into())
            .build()
            .expect("a client");
        let error = from_v4.connect(v6).await.expect_err("another family");
        assert!(matches!(error, NetError::NoLocalAddress(_)), "{error}");
        let error = Client::builder()
            .transport("quick")
            .build()
            .expect_err("no such transport");
        assert!(error.to_string().contains("\"quick\""), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_listener_takes_the_first_address_that_can_be_bound() {
    in_time(async {
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let taken = taken.local_addr().map(|a| (a, taken)).expect("its address");
        let free: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let error = TcpListener::bind(taken.0).await.expect_err("in use");
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}");
        let listener = TcpListener::bind(&[taken.0, free][..])
            .await
            .expect("the second");
        assert_ne!(listener.local_addr(), taken.0);
    })
    .await;
}
