//! One connection between Spindle over TUN and the kernel in this network namespace, in either direction.
//!
//! `unshare --net cargo run --release --example tun_throughput -- [mptcp|tcp] [down|up] [MiB]`: `down` sends
//! from Spindle to the kernel.

use std::error::Error;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use spindle_mptcp::{StackConfig, preset};
use spindle_net::setup::{SetupOptions, setup};
use spindle_net::tun::TunOptions;
use spindle_net::{Link, ListenOptions, Network, NetworkConfig};

/// Bytes of a write and of a read.
const PIECE: usize = 256 << 10;
/// Protocol number that requests MPTCP from socket(2) (IPPROTO_MPTCP).
const MPTCP: i32 = 262;

fn ip(line: &str) -> Result<(), Box<dyn Error>> {
    let status = Command::new("ip").args(line.split_whitespace()).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("ip {line} failed").into())
    }
}

/// Runs the kernel's end. Returns the number of bytes that it read.
fn kernel(to: SocketAddr, multipath: bool, down: bool, bytes: u64) -> std::io::Result<u64> {
    let protocol = if multipath {
        Protocol::from(MPTCP)
    } else {
        Protocol::TCP
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.connect(&to.into())?;
    let mut stream = std::net::TcpStream::from(socket);
    let mut buffer = vec![7; PIECE];
    if !down {
        for _ in 0..bytes.div_ceil(PIECE as u64) {
            stream.write_all(&buffer)?;
        }
        stream.shutdown(std::net::Shutdown::Write)?;
    }
    let mut read = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(read),
            n => read += n as u64,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let name = args.get(1).map_or("mptcp", String::as_str);
    let down = args.get(2).is_none_or(|d| d == "down");
    let bytes = args.get(3).map_or(Ok(4096), |n| n.parse::<u64>())? << 20;
    ip("link set lo up")?;
    ip("addr add 10.1.0.1/32 dev lo")?;
    let mut tun = TunOptions::new("spin0");
    tun.mtu = args.get(4).map_or(Ok(1500), |n| n.parse())?;
    let options = SetupOptions {
        tun,
        addresses: vec!["10.7.0.1".parse()?],
        dnat: Vec::new(),
        source_routes: Vec::new(),
        forwarding: false,
    };
    let (link, _guard) = setup(&options)?;
    let mut config = preset(name).ok_or("no such preset")?.config;
    config.tcp.mss = link.mss();
    config.tcp.burst = args.get(5).map_or(Ok(64_000), |n| n.parse())?;
    let network = NetworkConfig {
        stack: StackConfig::default(),
        name: "data-path".to_owned(),
    };
    let network = Network::start(network, Box::new(link))?;
    let multipath = config.multipath.is_some();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let to: SocketAddr = "10.7.0.1:80".parse()?;
        let mut listener = network
            .listen(to, ListenOptions::new(Arc::new(config)))
            .await?;
        let begin = Instant::now();
        let kernel = std::thread::spawn(move || kernel(to, multipath, down, bytes));
        let (mut stream, _) = listener.accept().await?;
        let mut moved = 0;
        if down {
            let piece = Bytes::from(vec![7; PIECE]);
            stream.expect_more(true);
            while moved < bytes {
                stream.send(piece.clone()).await?;
                moved += PIECE as u64;
            }
        } else {
            while let Some(piece) = stream.recv(PIECE).await? {
                moved += piece.len() as u64;
            }
        }
        let info = stream.connection_info().await?;
        drop(stream);
        let read = kernel.join().map_err(|_| "the kernel's end panicked")??;
        let seconds = begin.elapsed().as_secs_f64();
        let counters = network.counters().await?;
        println!(
            "{name} {}: {:.2} Gbit/s, {} bytes, kernel read {read}",
            if down { "down" } else { "up" },
            moved as f64 * 8e-9 / seconds,
            moved
        );
        println!("{:?}", counters.link);
        println!("{:?}", info.subflows);
        network.shutdown().await;
        Ok(())
    })
}
