//! A connect that knows several addresses of its gateway, and a gateway with several back ends, over UDP on
//! loopback.

use std::net::UdpSocket;

use crate::program::wait_for;
use crate::udp::{echo, free, join, metric, pair, scrape, start, works};

/// A UDP port that never answers.
fn silent() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("a port")
}

#[test]
fn a_gateway_that_is_silent_is_passed_over_for_one_that_answers() {
    let (silent, outer, port) = (silent(), free(), free());
    let _gateway = start("gateway", &format!("--listen {outer} --to {}", echo()));
    let first = silent.local_addr().expect("its address");
    let connect = format!("--listen {port} --via {first} --via {outer}");
    let connect = start("connect", &connect);
    assert!(works(port), "{}", connect.log());
    let reached = format!("reached={outer}");
    wait_for("it was reached", || connect.log().contains(&reached));
}

#[test]
fn a_program_is_refused_after_the_timeout_if_no_gateway_answers() {
    let (one, other, port) = (silent(), silent(), free());
    let [one, other] = [&one, &other].map(|s| s.local_addr().expect("its address"));
    let connect = format!("--listen {port} --via {one} --via {other} --connect-timeout 300ms");
    let connect = start("connect", &connect);
    let mut byte = [0];
    let ended = std::io::Read::read(&mut join(port), &mut byte);
    assert_eq!(
        ended.map_err(|e| e.kind()),
        Err(std::io::ErrorKind::ConnectionReset)
    );
    let reason = format!("{one}, {other}: no answer in time");
    wait_for("the reason is logged", || connect.log().contains(&reason));
}

#[test]
fn clients_do_not_notice_that_one_of_the_back_ends_is_down() {
    let (missing, observer) = (free(), free());
    let flags = format!("--to {missing},weight=3 --metrics {observer}");
    let (gateway, _connect, port) = pair(echo(), &flags, "");
    for _ in 0..8 {
        assert!(works(port), "{}", gateway.log());
    }
    wait_for("the log tells of it", || {
        gateway.log().contains("a back end is down")
    });
    let of = |name: &str, backend| {
        let line =
            format!("spindle_backend_{name}{{transport=\"spindle\",backend=\"{backend}\"}} ");
        metric(&scrape(observer), &line)
    };
    assert_eq!(of("up", missing), 0.0);
    let _service = std::net::TcpListener::bind(missing).expect("the port");
    wait_for("a probe succeeds", || of("up", missing) == 1.0);
    assert_eq!(
        of("connections_total", missing),
        0.0,
        "probes are not counted"
    );
}

#[test]
fn a_reload_replaces_the_back_ends_unless_the_file_is_wrong() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gateway.toml");
    let (outer, port, missing) = (free(), free(), free());
    let write = |to: &str| {
        let text = format!("udp = true\nlisten = \"{outer}\"\nto = \"{to}\"\n");
        std::fs::write(&file, text).expect("the file");
    };
    write(&missing.to_string());
    let mut command = std::process::Command::new(crate::program::program());
    command.arg("gateway").arg("--config").arg(&file);
    let gateway = crate::program::Running::start(command);
    let connect = start("connect", &format!("--listen {port} --via {outer}"));
    assert!(!works(port), "nothing listens there");
    let service = echo();
    write(&service.to_string());
    gateway.signal("HUP");
    wait_for("the reload", || {
        gateway.log().contains("back ends read again")
    });
    assert!(works(port), "{}", connect.log());
    assert_eq!(gateway.status()["to"], service.to_string());
    write("nowhere");
    gateway.signal("HUP");
    wait_for("the mistake", || {
        let log = gateway.log();
        log.contains("back ends stay as they were") && log.contains("gateway.toml:3: to")
    });
    assert!(works(port), "{}", connect.log());
}

/// A service that answers a connection with the address from which it came.
fn mirror(at: &str) -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind(at).expect("a service");
    let addr = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let Ok(peer) = stream.peer_addr() else {
                continue;
            };
            // An error means that the test has ended.
            let _ = std::io::Write::write_all(&mut stream, peer.ip().to_string().as_bytes());
        }
    });
    addr
}

#[test]
fn connections_to_a_service_come_from_source_addresses_in_turn() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gateway.toml");
    let (outer, port, service) = (free(), free(), mirror("127.0.0.1:0"));
    let write = |service: std::net::SocketAddr, source: &str| {
        let text = format!(
            "udp = true\n[[service]]\nlisten = \"{outer}\"\nto = \"{service}\"\nsource = {source}\n"
        );
        std::fs::write(&file, text).expect("the file");
    };
    write(service, "[\"127.0.0.2\", \"127.0.0.3\"]");
    let mut command = std::process::Command::new(crate::program::program());
    command.arg("gateway").arg("--config").arg(&file);
    let gateway = crate::program::Running::start(command);
    let connect = start("connect", &format!("--listen {port} --via {outer}"));
    let came_from = || {
        let mut text = String::new();
        let read = std::io::Read::read_to_string(&mut join(port), &mut text);
        read.unwrap_or_else(|e| panic!("{e}: {}{}", gateway.log(), connect.log()));
        text
    };
    let four: Vec<_> = std::iter::repeat_with(came_from).take(4).collect();
    assert_eq!(four, ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3"]);
    write(service, "\"127.0.0.4\"");
    gateway.signal("HUP");
    wait_for("the reload", || came_from() == "127.0.0.4");
    write(service, "\"::1\"");
    gateway.signal("HUP");
    wait_for("the mistake", || {
        let log = gateway.log();
        log.contains("back ends stay as they were") && log.contains("gateway.toml:5: source")
    });
    assert_eq!(came_from(), "127.0.0.4");
    // A source address is judged by the back ends that are read with it.
    write(mirror("[::1]:0"), "\"::1\"");
    gateway.signal("HUP");
    wait_for("another family", || came_from() == "::1");
}

#[test]
fn signals_are_handled_while_names_of_back_ends_are_looked_up_in_vain() {
    let test = "signals_are_handled_while_names_of_back_ends_are_looked_up_in_vain";
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped {test}: it takes root");
        return;
    }
    // A name server that never answers.
    let [a, b, ..] = std::process::id().to_le_bytes();
    let at = std::net::Ipv4Addr::new(127, 77, a, b);
    let Ok(server) = std::net::UdpSocket::bind((at, 53)) else {
        eprintln!("skipped {test}: {at} cannot be a name server");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let (file, resolver) = (
        directory.path().join("gateway.toml"),
        directory.path().join("resolv.conf"),
    );
    let text = format!("nameserver {at}\noptions timeout:30 attempts:5\n");
    std::fs::write(&resolver, text).expect("a file");
    let (outer, port) = (free(), free());
    let write = |to: &str| {
        let text = format!("udp = true\nlisten = \"{outer}\"\nto = \"{to}\"\n");
        std::fs::write(&file, text).expect("the file");
    };
    write(&echo().to_string());
    let line = format!(
        "mount --bind {} /etc/resolv.conf && exec \"$@\"",
        resolver.display()
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", &line, "sh"]);
    command.arg(crate::program::program());
    command.arg("gateway").arg("--config").arg(&file);
    let mut gateway = crate::program::Running::start(command);
    let connect = start("connect", &format!("--listen {port} --via {outer}"));
    write("service.example:80");
    gateway.signal("HUP");
    let patience = Some(std::time::Duration::from_secs(20));
    server.set_read_timeout(patience).expect("a timeout");
    let mut query = [0; 512];
    server.recv(&mut query).expect("a query");
    assert!(works(port), "{}", connect.log());
    assert_eq!(gateway.end(), Some(0), "{}", gateway.log());
    let log = gateway.log();
    assert!(!log.contains("back ends"), "no answer came: {log}");
}
