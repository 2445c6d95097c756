//! Programs that name their targets: curl through a connect service and a forwarding gateway to a server that knows
//! nothing of Spindle.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::certificates::{Authority, NAME};
use crate::program::{Running, program, wait_for};
use crate::two_hosts::{have, run, within};
use crate::udp::{free, join, start};

/// An HTTP server that answers every request with the same text. Returns its port.
pub(crate) fn page(at: impl Into<IpAddr>) -> u16 {
    let listener = TcpListener::bind((at.into(), 0)).expect("a service");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\nspindle");
        }
    });
    port
}

pub(crate) fn curl(flags: &str) -> Output {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20", "--noproxy", ""]);
    command.args(flags.split_whitespace());
    command.output().expect("curl")
}

fn users(directory: &Path, mode: u32) -> PathBuf {
    let path = directory.join("users");
    std::fs::write(&path, "# who may\nann:pass:word\n").expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its owner");
    path
}

/// A forwarding gateway with TLS to `localhost` at one port only, a connect service to it whose programs need a
/// password, and the service's address.
fn forwarding(directory: &Path, port: u16) -> (Running, Running, SocketAddr) {
    let ca = Authority::new(directory, "ca");
    let (outer, local) = (free(), free());
    let key = |pair: &(PathBuf, PathBuf)| {
        format!(
            "--tls-cert {} --tls-key {}",
            pair.0.display(),
            pair.1.display()
        )
    };
    let gateway = start(
        "gateway",
        &format!(
            "--listen {outer} --forward localhost:{port} --forward 127.0.0.0/8:{port} --forward [::1]:{port} \
             --tls-ca {} {}",
            ca.ca.display(),
            key(&ca.gateway)
        ),
    );
    let connect = start(
        "connect",
        &format!(
            "--listen {local} --via {outer} --socks5 --http-connect --proxy-users {} --tls-ca {} --tls-name {NAME} {}",
            users(directory, 0o600).display(),
            ca.ca.display(),
            key(&ca.client)
        ),
    );
    (gateway, connect, local)
}

#[test]
fn curl_reaches_a_server_by_name_by_socks_and_http_over_udp_with_tls() {
    let test = "forward::curl_reaches_a_server_by_name_by_socks_and_http_over_udp_with_tls";
    if !have(test, "curl") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let port = page(Ipv4Addr::LOCALHOST);
    let (mut gateway, mut connect, local) = forwarding(dir.path(), port);
    let socks = format!("--socks5-hostname {local}");
    let http = format!("--proxytunnel --proxy http://{local}");
    let url = format!("http://localhost:{port}/");
    for proxy in [&socks, &http] {
        let got = curl(&format!("{proxy} --proxy-user ann:pass:word {url}"));
        let logs = format!("{}\n{}", gateway.log(), connect.log());
        assert_eq!(got.stdout, b"spindle", "{proxy}: {got:?}\n{logs}");
    }
    // A port that no rule allows. CURLE_PROXY for SOCKS; CURLE_RECV_ERROR for HTTP.
    let denied = "--proxy-user ann:pass:word http://localhost:1/";
    let got = curl(&format!("{socks} {denied}"));
    assert_eq!(got.status.code(), Some(97), "{got:?}");
    let got = curl(&format!("{http} {denied}"));
    let said = String::from_utf8_lossy(&got.stderr).into_owned();
    assert!(!got.status.success() && said.contains("403"), "{got:?}");
    // A wrong password.
    let wrong = format!("--proxy-user ann:password {url}");
    let got = curl(&format!("{socks} {wrong}"));
    assert_eq!(got.status.code(), Some(97), "{got:?}");
    let got = curl(&format!("{http} {wrong}"));
    let said = String::from_utf8_lossy(&got.stderr).into_owned();
    assert!(!got.status.success() && said.contains("407"), "{got:?}");
    // A program that uses the proxy for http:// without a tunnel.
    let got = curl(&format!(
        "--proxy http://{local} --proxy-user ann:pass:word {url}"
    ));
    let said = String::from_utf8_lossy(&got.stdout).into_owned();
    assert!(said.contains("--proxytunnel"), "{got:?}");
    let wanted = format!("target=localhost:{port} ");
    wait_for("the gateway logs the target", || {
        gateway.log().contains(&wanted)
    });
    let denied = "localhost:1: no rule of the gateway (--forward) allows it";
    assert!(gateway.log().contains(denied), "{}", gateway.log());
    assert!(
        connect
            .log()
            .contains("localhost:1: the gateway answered 403"),
        "{}",
        connect.log()
    );
    assert!(!connect.log().contains("pass:word"));
    assert_eq!((gateway.end(), connect.end()), (Some(0), Some(0)));
}

#[test]
fn data_sent_before_the_answer_arrive_and_long_and_late_heads_do_not_stop_the_service() {
    let dir = tempfile::tempdir().expect("a directory");
    let port = page(Ipv4Addr::LOCALHOST);
    let (_gateway, connect, local) = forwarding(dir.path(), port);
    // This one never completes its head.
    let mut slow = join(local);
    slow.write_all(b"CONNECT localhost").expect("room");
    let mut long = join(local);
    let head = format!(
        "CONNECT localhost:{port} HTTP/1.1\r\nHost: x\r\nX: {}",
        "x".repeat(9 << 10)
    );
    long.write_all(head.as_bytes()).expect("room");
    let mut text = String::new();
    long.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
    let mut program = join(local);
    // "ann:pass:word", and the request to the server at once.
    let request = format!(
        "CONNECT localhost:{port} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic YW5uOnBhc3M6d29yZA==\r\n\r\n\
         GET / HTTP/1.0\r\n\r\n"
    );
    program.write_all(request.as_bytes()).expect("room");
    let mut text = String::new();
    program.read_to_string(&mut text).expect("the page");
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.ends_with("\r\n\r\nspindle"),
        "{text}"
    );
    let mut text = String::new();
    slow.read_to_string(&mut text).expect("an answer");
    assert!(
        text.starts_with("HTTP/1.1 408 "),
        "{text}\n{}",
        connect.log()
    );
}

#[test]
fn with_users_other_hosts_may_connect_and_a_reload_reads_the_users_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = users(dir.path(), 0o600);
    let (local, via) = (free(), free());
    let flags = format!(
        "--listen 0.0.0.0:{} --via {via} --http-connect --proxy-users {}",
        local.port(),
        file.display()
    );
    let connect = start("connect", &flags);
    let status = || {
        let mut program = join(local);
        let request =
            "CONNECT a:1 HTTP/1.0\r\nProxy-Authorization: Basic YW5uOnBhc3M6d29yZA==\r\n\r\n";
        program.write_all(request.as_bytes()).expect("room");
        let mut text = String::new();
        program.read_to_string(&mut text).expect("an answer");
        text[9..12].to_owned()
    };
    // No gateway is there.
    assert_eq!(status(), "502");
    std::fs::write(&file, "bob:pass:word\n").expect("a file");
    connect.signal("HUP");
    wait_for("the reload", || connect.log().contains("read again"));
    assert_eq!(status(), "407");
}

#[test]
fn any_http_proxy_client_reaches_a_server_through_a_gateway_over_tun_with_mptcp() {
    let test =
        "forward::any_http_proxy_client_reaches_a_server_through_a_gateway_over_tun_with_mptcp";
    within(test, 60, |hosts| {
        if !(have(test, "curl") && have(test, "mptcpize")) {
            return;
        }
        let port = page(Ipv4Addr::new(10, 1, 1, 1));
        let mut command = Command::new(program());
        command.args([
            "gateway",
            "--tun",
            "spin0",
            "--listen",
            "10.9.0.1:3128",
            "--insecure",
        ]);
        command.args(["--forward".to_owned(), format!("10.1.1.1:{port}")]);
        let gateway = Running::start(command);
        let url = format!("http://10.1.1.1:{port}/");
        let line = format!(
            "mptcpize run curl -sS --max-time 20 --noproxy '' --proxytunnel -x http://10.9.0.1:3128 {url}"
        );
        let got = hosts.client_output(&line);
        assert_eq!(got.stdout, b"spindle", "{got:?}\n{}", gateway.log());
        assert_eq!(gateway.status()["totals"]["multipath"], 1);
        // The same through a connect service over TUN.
        run("ip route add 10.8.1.0/24 via 10.1.1.2");
        let mut command = hosts.client_command(&[program(), "connect", "--tun", "spin1"]);
        let flags =
            "--listen 127.0.0.1:1080 --socks5 --via 10.9.0.1:3128 --insecure --local 10.8.1.1";
        command.args(flags.split_whitespace());
        let client = Running::start(command);
        let line =
            format!("curl -sS --max-time 20 --noproxy '' --socks5-hostname 127.0.0.1:1080 {url}");
        let got = hosts.client_output(&line);
        assert_eq!(got.stdout, b"spindle", "{got:?}\n{}", client.log());
    });
}
