//! Many open connections, and many new ones while the gateway reloads and restarts, over UDP on loopback.
//!
//! `SPINDLE_LOAD=full` opens 10 000 connections, and then 1000 a second, and prints latencies and memory. Otherwise
//! there are some hundred. In both sizes no connection may be refused or cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

use crate::program::{Running, wait_for};
use crate::two_hosts::have;
use crate::udp::{free, scrape, start};

/// What the tests do.
struct Size {
    /// Connections that are open at a time.
    open: usize,
    /// Requests, or new connections, a second.
    rate: u32,
    /// For how long.
    time: Duration,
}

const FULL: Size = Size {
    open: 10_000,
    rate: 1000,
    time: Duration::from_secs(30),
};
const QUICK: Size = Size {
    open: 400,
    rate: 100,
    time: Duration::from_secs(3),
};
/// Connections that are being opened at a time.
const OPENING: usize = 100;
/// Bytes of a request and of its response.
const EXCHANGE: usize = 500;
/// Only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);
/// Connections of one connect service: each has a socket of a program and one of its subflow. Systems limit the open
/// files of a process, often to 20 000 or less.
const OF_ONE_CONNECT: usize = 5000;

fn size() -> Size {
    match std::env::var("SPINDLE_LOAD") {
        Ok(value) if value == "full" => FULL,
        _ => QUICK,
    }
}

/// A service that sends back all data, in a process of its own because of its open files.
struct Service {
    addr: SocketAddr,
    process: std::process::Child,
}

impl Service {
    fn start() -> Self {
        const ECHO: &str = "
import asyncio, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
class Echo(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(data)
async def main():
    server = await asyncio.get_running_loop().create_server(Echo, '127.0.0.1', 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
";
        let mut process = std::process::Command::new("python3")
            .args(["-c", ECHO])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("python3");
        let mut line = String::new();
        let out = process.stdout.take().expect("it is piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("a line");
        let port: u16 = line.trim().parse().expect("its port");
        let addr = ([127, 0, 0, 1], port).into();
        Self { addr, process }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A service that sends back all data.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a service");
    let addr = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    });
    addr
}

/// Sends a request and reads its response. Returns how long that took.
async fn exchange(stream: &mut TcpStream) -> Duration {
    let begin = Instant::now();
    let (request, mut response) = ([b'x'; EXCHANGE], [0; EXCHANGE]);
    let done = async {
        stream.write_all(&request).await?;
        stream.read_exact(&mut response).await
    };
    let done = tokio::time::timeout(PATIENCE, done).await;
    done.expect("in time").expect("the connection goes on");
    assert_eq!(request, response);
    begin.elapsed()
}

/// Opens a connection and makes an exchange on it. Returns how long that took.
async fn open(port: SocketAddr) -> (TcpStream, Duration) {
    let begin = Instant::now();
    let stream = TcpStream::connect(port).await;
    let mut stream = stream.expect("a connection");
    exchange(&mut stream).await;
    (stream, begin.elapsed())
}

/// Starts as many tasks a second as `size` says, and returns how long each took, the shortest first.
async fn paced<F>(size: &Size, task: impl Fn(usize) -> F) -> Vec<Duration>
where
    F: Future<Output = Duration> + Send + 'static,
{
    let count = (size.time.as_secs() as u32 * size.rate) as usize;
    let mut tick = tokio::time::interval(Duration::from_secs(1) / size.rate);
    let mut tasks = JoinSet::new();
    for n in 0..count {
        tick.tick().await;
        tasks.spawn(task(n));
    }
    let mut times = tasks.join_all().await;
    times.sort();
    times
}

fn report(what: &str, times: &[Duration]) {
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let (half, p99, most) = (at(0.5), at(0.99), at(1.0));
    eprintln!(
        "{what}: {} in all, p50 {half:?}, p99 {p99:?}, longest {most:?}",
        times.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_open_connections_are_served_and_observed() {
    let test = "load::many_open_connections_are_served_and_observed";
    if !have(test, "python3") {
        return;
    }
    spindle_net::raise_file_limit();
    let size = size();
    let (outer, observer) = (free(), free());
    let limits =
        "--max-connections 20000 --max-half-open 20000 --max-memory 2GiB --source-share 100";
    let service = Service::start();
    let to = service.addr;
    let gateway = format!("--listen {outer} --to {to} --metrics {observer} {limits}");
    let gateway = start("gateway", &gateway);
    let begin = |_| {
        let port = free();
        let connect = format!("--listen {port} --via {outer} {limits}");
        (start("connect", &connect), port)
    };
    let connects: Vec<_> = (0..size.open.div_ceil(OF_ONE_CONNECT)).map(begin).collect();
    let before = [gateway.peak(), connects[0].0.peak()];
    let places = Arc::new(Semaphore::new(OPENING));
    let mut opening = JoinSet::new();
    for n in 0..size.open {
        let port = connects[n % connects.len()].1;
        let place = places.clone().acquire_owned().await.expect("it is open");
        opening.spawn(async move {
            let opened = open(port).await;
            drop(place);
            opened
        });
    }
    let (streams, mut times): (Vec<_>, Vec<_>) = opening.join_all().await.into_iter().unzip();
    times.sort();
    report("connections opened", &times);
    let streams: Arc<Vec<_>> = Arc::new(streams.into_iter().map(Mutex::new).collect());
    let scrapes = tokio::task::spawn_blocking(move || {
        let begin = Instant::now();
        let text = scrape(observer);
        (begin.elapsed(), text)
    });
    let times = paced(&size, |n| {
        let streams = streams.clone();
        async move {
            let mut stream = streams[n % streams.len()].lock().await;
            exchange(&mut stream).await
        }
    });
    let times = times.await;
    report("requests", &times);
    let (took, text) = scrapes.await.expect("the metrics");
    let open = format!("spindle_connections{{transport=\"spindle\"}} {}", size.open);
    assert!(text.contains(&open), "{text}");
    let of_connect = (size.open / connects.len()) as u64;
    let memory = [
        (gateway.peak() - before[0]) / size.open as u64,
        (connects[0].0.peak() - before[1]) / of_connect,
    ];
    eprintln!(
        "a scrape under load: {took:?}; bytes for each connection in gateway and connect: {memory:?}"
    );
    let status = tokio::task::spawn_blocking(move || gateway.status())
        .await
        .expect("the status");
    let listed = status["connections"].as_array().expect("a list").len();
    assert_eq!(listed, size.open);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connection_is_refused_or_cut_while_the_gateway_reloads_and_restarts() {
    spindle_net::raise_file_limit();
    let size = size();
    let (outer, port) = (free(), free());
    let to = echo().await;
    let directory = tempfile::tempdir().expect("a directory");
    let control = directory.path().join("gateway.sock");
    let gateway = move |more: &str| {
        let mut command = std::process::Command::new(crate::program::program());
        command.args(["gateway", "--udp"]);
        command.args(format!("--listen {outer} --to {to} {more}").split_whitespace());
        Running::start_at(command, &control)
    };
    let first = gateway("");
    let _connect = start("connect", &format!("--listen {port} --via {outer}"));
    let (mut lasting, _) = open(port).await;
    let restarts = tokio::task::spawn_blocking({
        let pause = size.time / 5;
        move || {
            let mut former = Vec::new();
            let mut present = first;
            for _ in 0..3 {
                std::thread::sleep(pause);
                present.signal("HUP");
                let next = gateway("--take-over");
                former.push(std::mem::replace(&mut present, next));
            }
            (former, present)
        }
    });
    let times = paced(&size, |_| async move { open(port).await.1 }).await;
    report("new connections", &times);
    let (mut former, mut present) = restarts.await.expect("restarts");
    exchange(&mut lasting).await;
    drop(lasting);
    let ended = tokio::task::spawn_blocking(move || {
        for gateway in &mut former {
            assert_eq!(gateway.wait(), Some(0), "{}", gateway.log());
            wait_for("all connections ended in order", || {
                gateway.log().contains("aborted=0")
            });
        }
        assert_eq!(present.end(), Some(0), "{}", present.log());
    });
    ended.await.expect("the ends");
    drop(directory);
}
