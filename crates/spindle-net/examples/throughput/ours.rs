//! The parts on Spindle's sockets, without a proxy.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use spindle_mptcp::path_manager::{Passive, PathManager, Ports};
use spindle_mptcp::{Config, StackConfig, preset};
use spindle_net::limits::Limits;
use spindle_net::setup::{SetupOptions, setup};
use spindle_net::tun::TunOptions;
use spindle_net::udp::{UdpClient, UdpClientOptions, UdpServer, UdpServerOptions};
use spindle_net::{
    Link, LinkKind, ListenOptions, Network, NetworkConfig, TcpListener, TcpStream, wire_config,
};

use crate::{Outcome, PIECE, Request};

/// Port of the service inside the encapsulation.
const PORT: u16 = 80;

/// The configuration, made as in `spindle gateway` and `spindle connect`.
fn config(kind: LinkKind, paths: Arc<dyn PathManager>) -> Outcome<Arc<Config>> {
    // THROUGHPUT_TRANSPORT selects another transport.
    let name = std::env::var("THROUGHPUT_TRANSPORT").unwrap_or_else(|_| "fuso".to_owned());
    let preset = preset(&name).ok_or("no such preset")?.config;
    let mut config = wire_config(preset, kind, &Limits::default(), paths);
    // THROUGHPUT_WINDOW makes the window so small that no queue on the path overflows.
    if let Ok(bytes) = std::env::var("THROUGHPUT_WINDOW") {
        config.tcp.receive_buffer = bytes.parse()?;
        config.tcp.send_buffer = 4 * config.tcp.receive_buffer;
        config.tcp.autotune = false;
    }
    Ok(Arc::new(config))
}

/// Number of a client's subflows, the first one included: 1 unless THROUGHPUT_SUBFLOWS is set.
fn subflows() -> Outcome<usize> {
    Ok(std::env::var("THROUGHPUT_SUBFLOWS").map_or(Ok(1), |n| n.parse())?)
}

fn network(link: Box<dyn Link>) -> Outcome<Network> {
    let config = NetworkConfig {
        stack: StackConfig::default(),
        name: "data-path".to_owned(),
    };
    Ok(Network::start(config, link)?)
}

fn block_on(what: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(what)
}

/// Serves transfers over a TUN device with this name indefinitely.
pub(crate) fn tun_service(name: &str, at: SocketAddr) -> Outcome {
    let options = SetupOptions {
        tun: TunOptions::new(name),
        addresses: vec![at.ip()],
        dnat: Vec::new(),
        source_routes: Vec::new(),
        forwarding: true,
    };
    let (link, _guard) = setup(&options)?;
    serve(network(Box::new(link))?, LinkKind::Tun, at)
}

/// Serves transfers over UDP indefinitely.
pub(crate) fn udp_service(at: SocketAddr) -> Outcome {
    let link = UdpServer::bind(UdpServerOptions::new(vec![at]))?;
    let at = UdpServer::listener_addr(PORT);
    serve(network(Box::new(link))?, LinkKind::Udp, at)
}

fn serve(network: Network, kind: LinkKind, at: SocketAddr) -> Outcome {
    block_on(async {
        let options = ListenOptions::new(config(kind, Arc::new(Passive))?);
        let mut listener: TcpListener = network.listen(at, options).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async {
                if let Err(e) = transfer(stream).await {
                    eprintln!("service: {e}");
                }
            });
        }
    })
}

async fn transfer(mut stream: TcpStream) -> Outcome {
    let mut head = Vec::new();
    while head.len() < Request::LEN {
        let piece = stream.recv(Request::LEN - head.len()).await?;
        head.extend_from_slice(&piece.ok_or("the request is cut off")?);
    }
    let mut whole = [0; Request::LEN];
    whole.copy_from_slice(&head);
    let request = Request::decode(whole);
    if request.down {
        return send(&mut stream, request.bytes).await;
    }
    receive(&mut stream, request.bytes).await?;
    Ok(stream.send(Bytes::from_static(&[1])).await?)
}

async fn send(stream: &mut TcpStream, bytes: u64) -> Outcome {
    let piece = Bytes::from(vec![7; PIECE]);
    stream.expect_more(true);
    let mut left = bytes;
    while left > 0 {
        let n = left.min(PIECE as u64);
        stream.send(piece.slice(..n as usize)).await?;
        left -= n;
    }
    stream.expect_more(false);
    Ok(())
}

async fn receive(stream: &mut TcpStream, bytes: u64) -> Outcome {
    let mut left = bytes;
    while left > 0 {
        match stream.recv(PIECE).await? {
            Some(piece) => left = left.saturating_sub(piece.len() as u64),
            None => return Err(format!("{left} bytes of {bytes} are missing").into()),
        }
    }
    Ok(())
}

/// Makes one transfer over UDP from a local address to a service's outer address. Returns a summary.
pub(crate) fn udp_client(local: IpAddr, outer: SocketAddr, request: Request) -> Outcome<String> {
    let link = UdpClient::new(UdpClientOptions::new(outer.port()))?;
    let network = network(Box::new(link))?;
    let subflows = subflows()?;
    let paths: Arc<dyn PathManager> = match subflows {
        1 => Arc::new(Passive),
        n => Arc::new(Ports(n)),
    };
    let mut said = String::new();
    block_on(async {
        let to = SocketAddr::new(outer.ip(), PORT);
        let config = config(LinkKind::Udp, paths)?;
        let mut stream = network.connect(local, to, config).await?;
        stream.subflows_up(subflows).await?;
        stream
            .send(Bytes::copy_from_slice(&request.encode()))
            .await?;
        if request.down {
            receive(&mut stream, request.bytes).await?;
        } else {
            send(&mut stream, request.bytes).await?;
            receive(&mut stream, 1).await?;
        }
        let info = stream.connection_info().await?;
        said = format!(
            "{} subflows, {} retransmissions, {} proactive, {} parities received, {} bytes twice",
            info.subflows.len(),
            info.total.retransmissions,
            info.total.recoveries,
            info.data.parities_received,
            info.data.bytes_duplicate
        );
        if std::env::var_os("THROUGHPUT_VERBOSE").is_some() {
            eprintln!("{:?}\n{:?}", network.counters().await?, info.subflows);
        }
        Ok(())
    })?;
    Ok(said)
}
