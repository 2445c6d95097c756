//! Gateway and connect over UDP, on loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::certificates::{Authority, NAME};
use crate::program::{Running, program, wait_for};
use crate::two_hosts::{StopOnDrop, have};

/// Only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// A port that is free for TCP and UDP. It is below those that the system chooses for sockets without one (from 32768
/// on), so that none of the many sockets of a test gets it before its service binds it, and no two calls return the same.
pub(crate) fn free() -> SocketAddr {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    loop {
        let calls = CALLS.fetch_add(1, Ordering::Relaxed);
        let n = std::process::id().wrapping_mul(499).wrapping_add(calls);
        let addr = SocketAddr::from(([127, 0, 0, 1], 10_000 + (n % 20_000) as u16));
        if TcpListener::bind(addr).is_ok() && UdpSocket::bind(addr).is_ok() {
            return addr;
        }
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a service");
    let addr = listener.local_addr().expect("its address");
    (listener, addr)
}

/// A service that sends back all data, and the end of the stream.
pub(crate) fn echo() -> SocketAddr {
    let (listener, addr) = listener();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    addr
}

pub(crate) fn start(kind: &str, flags: &str) -> Running {
    let mut command = Command::new(program());
    command.args([kind, "--udp"]).args(flags.split_whitespace());
    Running::start(command)
}

/// A gateway in front of `to`, a connect service to the gateway, and the address that programs connect to.
pub(crate) fn pair(to: SocketAddr, gateway: &str, connect: &str) -> (Running, Running, SocketAddr) {
    let (outer, port) = (free(), free());
    let gateway = start("gateway", &format!("--listen {outer} --to {to} {gateway}"));
    let connect = start(
        "connect",
        &format!("--listen {port} --via {outer} {connect}"),
    );
    (gateway, connect, port)
}

pub(crate) fn join(port: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(port).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Sends some bytes and the end of the stream. Returns the bytes that come back.
pub(crate) fn exchange(port: SocketAddr, len: usize) -> std::io::Result<Vec<u8>> {
    // A reset that follows at once may already end the call that connects.
    let mut stream = TcpStream::connect(port)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let data = vec![b'x'; len];
    stream.write_all(&data)?;
    stream.shutdown(Shutdown::Write)?;
    let mut back = Vec::new();
    stream.read_to_end(&mut back)?;
    Ok(back)
}

pub(crate) fn works(port: SocketAddr) -> bool {
    exchange(port, 5000).is_ok_and(|back| back == [b'x'; 5000])
}

/// Whether the connection ends in a reset without a byte. A call after the reset may report that the socket is
/// not connected.
fn is_reset(port: SocketAddr) -> bool {
    let kinds = [
        ErrorKind::ConnectionReset,
        ErrorKind::BrokenPipe,
        ErrorKind::NotConnected,
    ];
    exchange(port, 1).is_err_and(|e| kinds.contains(&e.kind()))
}

fn trusting(ca: &Authority) -> String {
    format!("--tls-ca {} --tls-name {NAME}", ca.ca.display())
}

fn proving(pair: &(std::path::PathBuf, std::path::PathBuf)) -> String {
    format!(
        "--tls-cert {} --tls-key {}",
        pair.0.display(),
        pair.1.display()
    )
}

#[test]
fn tls_accepts_clients_of_the_authority_and_a_reload_changes_the_authority() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (
        Authority::new(dir.path(), "old"),
        Authority::new(dir.path(), "new"),
    );
    let flags = format!("--tls-ca {} {}", old.ca.display(), proving(&old.gateway));
    let right = format!("{} {}", trusting(&old), proving(&old.client));
    let (gateway, _connect, port) = pair(echo(), &flags, &right);
    assert!(works(port), "{}", gateway.log());
    let via = gateway.status()["listen"][0]
        .as_str()
        .expect("an address")
        .to_owned();
    let another = |flags: &str| {
        let port = free();
        let flags = format!("--listen {port} --via {via} {flags}");
        (start("connect", &flags), port)
    };
    let wrong = format!("{} {}", trusting(&new), proving(&old.client));
    let (connect, stranger) = another(&wrong);
    assert!(is_reset(stranger), "{}", connect.log());
    wait_for("connect says why", || {
        connect.log().contains("UnknownIssuer")
    });
    let (connect, untrusted) = another(&trusting(&old));
    assert!(is_reset(untrusted), "{}", connect.log());
    wait_for("the gateway says why", || {
        gateway.log().contains("no certificates")
    });
    // Certificates of another authority, in the files of the old ones.
    for (from, to) in [
        (&new.ca, &old.ca),
        (&new.gateway.0, &old.gateway.0),
        (&new.gateway.1, &old.gateway.1),
    ] {
        std::fs::copy(from, to).expect("a file");
    }
    assert!(works(port), "nothing changes before the signal");
    gateway.signal("HUP");
    wait_for("the reload", || gateway.log().contains("read again"));
    assert!(is_reset(port), "{}", gateway.log());
    let renewed = format!("{} {}", trusting(&new), proving(&new.client));
    let (connect, port) = another(&renewed);
    assert!(works(port), "{}", connect.log());
    // If a file cannot be read, the certificates in use stay.
    std::fs::write(&old.gateway.0, "nothing").expect("a file");
    gateway.signal("HUP");
    wait_for("the refusal", || {
        gateway.log().contains("stay as they were")
    });
    assert!(works(port), "{}", gateway.log());
}

#[test]
fn flows_are_coded_only_if_both_ends_are_configured_for_it() {
    let coding = "--transport caps-dark";
    for (ours, theirs) in [(coding, coding), (coding, "--transport tcp"), ("", coding)] {
        let (gateway, _connect, port) = pair(echo(), ours, theirs);
        for len in [1, 5000, 300_000] {
            let back = exchange(port, len);
            assert!(
                back.is_ok_and(|b| b == vec![b'x'; len]),
                "{ours}, {theirs}: {}",
                gateway.log()
            );
        }
    }
}

#[test]
fn the_proxy_protocol_reports_both_outer_addresses_to_the_service() {
    let (service, to) = listener();
    let (gateway, _connect, port) = pair(to, "--proxy-protocol", "");
    let mut stream = join(port);
    stream.write_all(b"hello").expect("room");
    let (mut inside, _) = service.accept().expect("a connection");
    let mut got = [0; 33];
    inside.read_exact(&mut got).expect("header and data");
    assert_eq!(got[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c");
    let status = gateway.status();
    let outside: SocketAddr = status["connections"][0]["outside"]
        .as_str()
        .and_then(|a| a.parse().ok())
        .expect("an address");
    let at: SocketAddr = status["listen"][0]
        .as_str()
        .and_then(|a| a.parse().ok())
        .expect("an address");
    assert_eq!(got[16..24], [127, 0, 0, 1, 127, 0, 0, 1]);
    assert_eq!(got[24..26], outside.port().to_be_bytes());
    assert_eq!(got[26..28], at.port().to_be_bytes());
    assert_eq!(&got[28..], b"hello");
}

#[test]
fn an_idle_connection_is_reset_and_every_line_of_the_log_is_an_object() {
    let flags = "--log-format json --log debug --idle-timeout 2s";
    let (mut gateway, mut connect, port) = pair(echo(), flags, "--log-format json");
    assert!(works(port));
    let mut idle = join(port);
    let mut byte = [0];
    let error = idle.read(&mut byte).expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!((gateway.end(), connect.end()), (Some(0), Some(0)));
    let parsed = |log: String| -> Vec<serde_json::Value> {
        let line = |l: &str| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"));
        log.lines().map(line).collect()
    };
    let lines = parsed(gateway.log());
    let ends: Vec<&str> = lines.iter().filter_map(|l| l["ended"].as_str()).collect();
    assert_eq!(ends, ["finished", "idle"]);
    let closed = lines
        .iter()
        .find(|l| l["ended"] == "finished")
        .expect("one");
    assert_eq!(
        (&closed["from_client"], &closed["to_client"]),
        (&5000.into(), &5000.into())
    );
    for wanted in ["listening", "draining", "ended"] {
        let has = |lines: &[serde_json::Value]| lines.iter().any(|l| l["message"] == wanted);
        assert!(has(&lines) && has(&parsed(connect.log())), "{wanted}");
    }
}

/// The value of a line of the metrics.
pub(crate) fn metric(text: &str, start: &str) -> f64 {
    let value = text.lines().find_map(|l| l.strip_prefix(start));
    let value = value.unwrap_or_else(|| panic!("no {start} in\n{text}"));
    value.trim().parse().expect("a number")
}

pub(crate) fn scrape(at: SocketAddr) -> String {
    let mut stream = join(at);
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("room");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("# EOF\n"),
        "{text}"
    );
    text
}

#[test]
fn status_and_metrics_answer_under_load_and_sigterm_lets_connections_finish() {
    const WORKERS: usize = 20;
    let at = free();
    let flags = format!("--metrics {at}");
    let (mut gateway, _connect, port) = pair(echo(), &flags, "");
    // A connection that stays open beyond the signal.
    let mut open = join(port);
    open.write_all(b"first").expect("room");
    let mut five = [0; 5];
    open.read_exact(&mut five).expect("the echo");
    let stop = AtomicBool::new(false);
    let done: usize = std::thread::scope(|scope| {
        // A failure below ends the workers, too.
        let stopping = StopOnDrop(&stop);
        let work = || {
            let mut done = 0;
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(exchange(port, 20_000).expect("an exchange").len(), 20_000);
                done += 1;
            }
            done
        };
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        for _ in 0..5 {
            let status = gateway.status();
            let open = status["connections"].as_array().expect("a list").len();
            let now = metric(&scrape(at), "spindle_connections{transport=\"spindle\"} ");
            assert!(open >= 1 && now >= 1.0, "{open} and {now}");
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(stopping);
        workers
            .into_iter()
            .map(|w| w.join().expect("a worker"))
            .sum()
    });
    let finished = "spindle_ended_total{transport=\"spindle\",how=\"finished\"} ";
    wait_for("all are counted", || {
        metric(&scrape(at), finished) == done as f64
    });
    let responses = "spindle_response_time_seconds_count{transport=\"spindle\"} ";
    wait_for("all responses are acknowledged", || {
        metric(&scrape(at), responses) >= done as f64
    });
    gateway.signal("TERM");
    wait_for("it drains", || gateway.log().contains("draining"));
    assert!(is_reset(port), "a new connection");
    open.write_all(b"again").expect("room");
    open.read_exact(&mut five).expect("the echo");
    assert_eq!(&five, b"again");
    drop(open);
    assert_eq!(gateway.wait(), Some(0), "{}", gateway.log());
}

#[test]
fn a_second_signal_resets_open_connections_and_the_exit_code_is_1() {
    let (mut gateway, _connect, port) = pair(echo(), "", "");
    let mut open = join(port);
    open.write_all(b"x").expect("room");
    let mut byte = [0];
    open.read_exact(&mut byte).expect("the echo");
    gateway.signal("TERM");
    wait_for("it drains", || gateway.log().contains("draining"));
    gateway.signal("INT");
    let error = open.read(&mut byte).expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(gateway.wait(), Some(1), "{}", gateway.log());
}

#[test]
fn metrics_and_status_answer_again_after_the_process_had_no_files_left() {
    let test = "udp::metrics_and_status_answer_again_after_the_process_had_no_files_left";
    if !have(test, "prlimit") {
        return;
    }
    let (outer, port, at, to) = (free(), free(), free(), echo());
    let mut command = Command::new("prlimit");
    command.args(["--nofile=40:40", program(), "gateway", "--udp"]);
    let flags = format!("--listen {outer} --to {to} --metrics {at}");
    let gateway = Running::start({
        command.args(flags.split_whitespace());
        command
    });
    let connect = start("connect", &format!("--listen {port} --via {outer}"));
    // Each connection takes a file of the gateway, as long as the gateway has any.
    let mut held: Vec<TcpStream> = (0..60).map(|_| join(port)).collect();
    wait_for("the gateway has no files left for connections", || {
        gateway.log().contains("Too many open files")
    });
    wait_for("nor for an observer", || {
        held.push(TcpStream::connect(at).expect("room in the backlog"));
        gateway.log().contains("cannot accept an observer")
    });
    drop(held);
    wait_for("the metrics answer", || {
        let mut stream = join(at);
        let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut text = String::new();
        let answered = asked.and_then(|()| stream.read_to_string(&mut text));
        answered.is_ok() && text.ends_with("# EOF\n")
    });
    assert_eq!(gateway.status()["kind"], "gateway", "{}", gateway.log());
    // The connections that were held may be ending still.
    wait_for("a connection is served", || works(port));
    assert!(
        gateway.status()["totals"]["connections"].as_u64() > Some(0),
        "{}",
        connect.log()
    );
}

#[test]
fn clients_cannot_make_the_log_grow_faster_than_its_rate() {
    const MANY: usize = 200;
    // No service listens there.
    let (mut gateway, _connect, port) = pair(free(), "--log-rate 1", "");
    for _ in 0..MANY {
        assert!(is_reset(port), "{}", gateway.log());
    }
    assert_eq!(gateway.end(), Some(0), "{}", gateway.log());
    let log = gateway.log();
    let refused = log.lines().filter(|l| l.contains(" refused ")).count();
    // Ten lines at once, and one line a second.
    assert!((10..MANY).contains(&refused), "{refused}: {log}");
    assert!(log.contains("like=refused"), "{log}");
}

/// Bytes of TCP payload in a capture that were received and sent, retransmissions included, and the number of MPTCP's
/// handshake options.
fn captured(file: &std::path::Path) -> [usize; 3] {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-T", "fields"]);
    for field in [
        "frame.interface_name",
        "tcp.len",
        "tcp.options.mptcp.subtype",
    ] {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let (mut received, mut sent, mut capable) = (0, 0, 0);
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let len: usize = fields[1].parse().expect("a length");
        match fields[0] {
            "received" => received += len,
            "sent" => sent += len,
            other => panic!("found interface {other:?}"),
        }
        capable += usize::from(fields[2] == "0");
    }
    [received, sent, capable]
}

#[test]
fn capture_has_the_segments_inside_udp_at_both_ends() {
    let test = "udp::capture_has_the_segments_inside_udp_at_both_ends";
    let dir = tempfile::tempdir().expect("a directory");
    let [ours, theirs] = ["gateway", "connect"].map(|n| dir.path().join(format!("{n}.pcapng")));
    let flag = |file: &std::path::Path| format!("--pcap {}", file.display());
    let (mut gateway, mut connect, port) = pair(echo(), &flag(&ours), &flag(&theirs));
    let back = exchange(port, 20_000).expect("an echo");
    assert_eq!(back.len(), 20_000);
    assert_eq!((connect.end(), gateway.end()), (Some(0), Some(0)));
    if !have(test, "tshark") {
        return;
    }
    for file in [ours, theirs] {
        let [received, sent, capable] = captured(&file);
        assert!(received >= 20_000 && sent >= 20_000, "{received}, {sent}");
        // SYN, SYN/ACK and the third packet.
        assert!(capable >= 3, "{capable}");
    }
}
