//! The first flight of a response of 100 KB that its service writes at once, on a new connection each time,
//! over two equal paths.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::link::Link;
use crate::programs::server;
use crate::service::connect;
use crate::spindle::{Running, program};
use crate::two_hosts::{Hosts, have, on_path, within};

/// Bytes of the response's body.
const BODY: usize = 100_000;
/// The least bound on a response time without losses. A retransmission timer of Linux (200 ms, `TCP_RTO_MIN`)
/// exceeds it, and the delays of a busy machine do not.
const NO_TIMER: Duration = Duration::from_millis(150);
/// Fetches before those that are counted.
const WARM_UP: usize = 5;

fn fetches() -> usize {
    if crate::full() { 1000 } else { 60 }
}

/// A service that is measured, and how to reach it.
struct Service {
    name: &'static str,
    at: SocketAddr,
    multipath: bool,
}

/// The gateway, and the kernel's own stacks in front of the same back end.
fn services() -> [Service; 3] {
    let at = |addr: &str, port| {
        let addr: IpAddr = addr.parse().expect("an address");
        (addr, port).into()
    };
    let service = |name, at, multipath| Service {
        name,
        at,
        multipath,
    };
    [
        service("gateway", at("10.9.0.1", 8080), true),
        service("kernel TCP", at("10.1.1.1", 9001), false),
        service("kernel MPTCP", at("10.1.1.1", 9002), true),
    ]
}

fn gateway() -> Running {
    let mut command = std::process::Command::new(program());
    command.args(["gateway", "--tun", "spin0", "--to", "127.0.0.1:9000"]);
    command.args(["--listen", "10.9.0.1:8080"]);
    Running::start(command, "gateway")
}

/// Answers any request with a response that is written with one call.
fn write_at_once(listener: std::net::TcpListener) {
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n").into_bytes();
    response.resize(response.len() + BODY, b'x');
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let response = response.clone();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let asked = stream.read(&mut request);
                // A client that has already closed needs no answer.
                let _ = asked.and_then(|_| stream.write_all(&response));
            });
        }
    });
}

/// Starts the service that writes all at once, behind the gateway and at the kernel's ports.
fn serve_at_once() {
    for (port, multipath) in [(9000, false), (9001, false), (9002, true)] {
        let at = ([0, 0, 0, 0], port).into();
        write_at_once(crate::service::listen(at, multipath));
    }
}

/// How long a response takes on a new connection, from its SYN to its last byte.
fn fetch(service: &Service) -> Duration {
    let started = Instant::now();
    let mut stream: TcpStream = connect(on_path(false, 1, 2), service.at, service.multipath);
    let request = b"GET /page HTTP/1.1\r\nHost: page\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("the request");
    let (mut block, mut got, mut most) = (vec![0; 64 << 10], Vec::new(), usize::MAX);
    while got.len() < most {
        let n = stream.read(&mut block).expect("data");
        assert!(n > 0, "{}: ended after {} bytes", service.name, got.len());
        got.extend_from_slice(&block[..n]);
        if let Some(head) = got.windows(4).position(|w| w == b"\r\n\r\n") {
            most = head + 4 + BODY;
        }
    }
    started.elapsed()
}

/// Response times in ascending order.
#[derive(Debug)]
struct Times(Vec<Duration>);

impl Times {
    fn quantile(&self, q: f64) -> Duration {
        let at = (self.0.len() as f64 * q).ceil() as usize;
        self.0[at.clamp(1, self.0.len()) - 1]
    }

    fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    fn worst(&self) -> Duration {
        self.quantile(1.0)
    }
}

/// Fetches from each service by turns.
fn measure(hosts: &Hosts, what: &str) -> [Times; 3] {
    let services = services();
    let mut times = [vec![], vec![], vec![]];
    hosts.at_client(|| {
        for round in 0..WARM_UP + fetches() {
            for (service, times) in services.iter().zip(&mut times) {
                let took = fetch(service);
                if round >= WARM_UP {
                    times.push(took);
                }
            }
        }
    });
    let times = times.map(|mut t: Vec<Duration>| {
        t.sort();
        Times(t)
    });
    for (service, t) in services.iter().zip(&times) {
        let q = [0.5, 0.9, 0.99, 1.0].map(|q| t.quantile(q));
        eprintln!(
            "{what}, {}: p50, p90, p99, longest {q:.1?} of {}",
            service.name,
            t.0.len()
        );
    }
    times
}

/// Checks that no response waits for a timer if there are no losses.
fn check_clean(hosts: &Hosts, what: &str) {
    let [gateway, tcp, _] = measure(hosts, what);
    let (p99, worst) = (tcp.quantile(0.99).mul_f64(1.1), gateway.median() * 5);
    if !crate::full() {
        // A busy machine may delay one fetch in ten beyond any bound.
        let p90 = gateway.quantile(0.9);
        assert!(p90 <= NO_TIMER.max(p99), "{what}: p90 is {p90:?}");
        return;
    }
    assert!(gateway.quantile(0.99) <= p99, "{what}: p99 above {p99:?}");
    assert!(gateway.worst() <= worst, "{what}: one above {worst:?}");
}

/// Checks the times with losses on path 2, which the first subflow does not use.
fn check_lossy(hosts: &Hosts, what: &str) {
    let [gateway, _, mptcp] = measure(hosts, what);
    if crate::full() {
        assert!(gateway.quantile(0.99) <= mptcp.quantile(0.99), "{what}");
    }
    // Of fetches that a busy machine delays, one in ten may exceed the bound.
    let most = match crate::full() {
        true => gateway.worst(),
        false => gateway.quantile(0.9),
    };
    assert!(most <= NO_TIMER, "{what}: {most:?}");
}

/// Two paths, each of 100 Mbit/s and with a round trip of 2 ms.
fn like_paths(hosts: &Hosts, loss: f64) {
    hosts.shape(1, &Link::new(100, 1));
    hosts.shape(2, &Link::new(100, 1).losses(loss));
    // The kernel's own second subflow uses path 2, like the gateway's.
    hosts.client("ip route add 10.1.1.1 via 10.1.2.1 dev c2 table 102");
    hosts.client_endpoint();
}

#[test]
fn a_first_flight_written_at_once_waits_for_no_timer() {
    let test = "first_flight::a_first_flight_written_at_once_waits_for_no_timer";
    within(test, 600, |hosts| {
        like_paths(hosts, 0.0);
        serve_at_once();
        let _gateway = gateway();
        check_clean(hosts, "no losses");
    });
}

#[test]
fn a_first_flight_written_at_once_waits_for_no_timer_next_to_a_lossy_path() {
    let test =
        "first_flight::a_first_flight_written_at_once_waits_for_no_timer_next_to_a_lossy_path";
    within(test, 600, |hosts| {
        like_paths(hosts, 0.05);
        serve_at_once();
        let _gateway = gateway();
        check_lossy(hosts, "5 % loss");
    });
}

/// Starts nginx with a page. It listens with the kernel's TCP and MPTCP, and behind the gateway.
fn nginx(dir: &std::path::Path) -> crate::programs::Server {
    std::fs::write(dir.join("page"), vec![b'x'; BODY]).expect("a file");
    let conf = dir.join("nginx.conf");
    let text = format!(
        "daemon off; pid {dir}/pid; error_log {dir}/error.log; user root;\n\
         events {{ worker_connections 512; }}\n\
         http {{ access_log off; sendfile on; client_body_temp_path {dir}; proxy_temp_path {dir};\n\
         fastcgi_temp_path {dir}; uwsgi_temp_path {dir}; scgi_temp_path {dir};\n\
         server {{ listen 9000; listen 9001; listen 9002; root {dir}; }} }}\n",
        dir = dir.display()
    );
    std::fs::write(&conf, text).expect("a file");
    let conf = conf.to_str().expect("a path");
    // A kernel listener with MPTCP also accepts plain TCP, so all ports may have it.
    server(9002, &["mptcpize", "run", "nginx", "-c", conf])
}

#[test]
fn a_first_flight_of_nginx_waits_for_no_timer() {
    let test = "first_flight::a_first_flight_of_nginx_waits_for_no_timer";
    within(test, 1200, |hosts| {
        if !(have(test, "nginx") && have(test, "mptcpize")) {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let _nginx = nginx(dir.path());
        let _gateway = gateway();
        like_paths(hosts, 0.0);
        check_clean(hosts, "nginx, no losses");
    });
}

#[test]
fn a_first_flight_of_nginx_waits_for_no_timer_next_to_a_lossy_path() {
    let test = "first_flight::a_first_flight_of_nginx_waits_for_no_timer_next_to_a_lossy_path";
    within(test, 1200, |hosts| {
        if !(have(test, "nginx") && have(test, "mptcpize")) {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let _nginx = nginx(dir.path());
        let _gateway = gateway();
        like_paths(hosts, 0.05);
        check_lossy(hosts, "nginx, 5 % loss");
    });
}
