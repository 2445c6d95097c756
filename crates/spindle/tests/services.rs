//! `gateway` and `connect`: bad flags are refused in one line, before anything is set up.

use std::process::Command;

/// The one line on standard error of a command that ends with exit code 2.
fn refused(arguments: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(arguments)
        .output()
        .unwrap();
    let error = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    assert!(out.stdout.is_empty(), "{arguments:?}");
    error
}

fn check(command: &str, cases: &[(&str, &[&str])]) {
    for (flags, wanted) in cases {
        let mut arguments = vec![command];
        arguments.extend(flags.split_whitespace());
        let error = refused(&arguments);
        for text in *wanted {
            assert!(error.contains(text), "{flags}: {error}");
        }
    }
}

#[test]
fn bad_flags_of_a_gateway_are_refused_with_a_remedy() {
    const UDP: &str = "--listen 127.0.0.1:7000 --to 127.0.0.1:8080 --udp";
    let with = |more: &str| format!("{UDP} {more}");
    let cases: Vec<(String, &[&str])> = vec![
        ("--listen 127.0.0.1:7000 --udp".to_owned(), &["--to"]),
        (
            "--listen 127.0.0.1:7000 --to 127.0.0.1:1".to_owned(),
            &["--tun NAME", "--udp"],
        ),
        (with("--tun spin0"), &["exclude each other"]),
        (with("--dnat"), &["--dnat belongs to --tun"]),
        (
            with("--transport fsuo"),
            &["--transport", "did you mean \"fuso\"?"],
        ),
        (with("--tls-cert a.pem"), &["--tls-cert needs --tls-key"]),
        (with("--tls-key a.pem"), &["--tls-key needs --tls-cert"]),
        (with("--tls-ca a.pem"), &["--tls-ca needs --tls-cert"]),
        (
            with("--tls-cert none.pem --tls-key none.pem"),
            &["none.pem"],
        ),
        (
            with("--max-connections 0"),
            &["--max-connections", "found \"0\"", "1 or more"],
        ),
        (
            with("--memory-per-connection 1KB"),
            &["--memory-per-connection", "65536 or more"],
        ),
        (
            with("--max-memory 1MB"),
            &["--max-memory", "at least --memory-per-connection"],
        ),
        (with("--drain soon"), &["--drain", "soon"]),
        (
            with("--idle-timeout 0s"),
            &["--idle-timeout", "leave it out"],
        ),
        (
            with("--metrics 9100"),
            &["--metrics", "an address and port"],
        ),
        (
            with("--announce 192.0.2.1"),
            &["--announce", "one of the --listen addresses"],
        ),
        (
            with("--listen 127.0.0.1:7000"),
            &["--listen", "each address once"],
        ),
        (
            "--listen 0.0.0.0:7000 --to 127.0.0.1:8080 --udp".to_owned(),
            &["loopback only", "--tls-cert", "--insecure"],
        ),
        (
            "--listen 127.0.0.1:80 --to 127.0.0.1:8080 --tun spin0".to_owned(),
            &["not this host's", "--dnat"],
        ),
        (
            "--listen 192.0.2.77:80 --to 127.0.0.1:8080 --tun spin0 --dnat".to_owned(),
            &["an address of this host"],
        ),
        (
            "--listen 0.0.0.0:80 --to 127.0.0.1:8080 --tun spin0".to_owned(),
            &["the very address"],
        ),
        (
            "--listen 80 --to 127.0.0.1:8080 --udp".to_owned(),
            &["--listen", "an address and port"],
        ),
        (
            "--listen 127.0.0.1:0 --to 127.0.0.1:8080 --udp".to_owned(),
            &["a port other than 0"],
        ),
        (
            "--listen 127.0.0.1:7000 --to nowhere --udp".to_owned(),
            &["--to", "127.0.0.1:8080"],
        ),
    ];
    let cases: Vec<(&str, &[&str])> = cases.iter().map(|(f, w)| (f.as_str(), *w)).collect();
    check("gateway", &cases);
}

#[test]
fn bad_flags_of_a_connect_are_refused_with_a_remedy() {
    const UDP: &str = "--listen 127.0.0.1:9000 --via 127.0.0.1:7000 --udp";
    let with = |more: &str| format!("{UDP} {more}");
    let cases: Vec<(String, &[&str])> = vec![
        (
            "--listen 127.0.0.1:9000 --udp".to_owned(),
            &["--via", "--socks5"],
        ),
        (
            "--listen 127.0.0.1:9000 --udp --socks5".to_owned(),
            &["--udp needs --via"],
        ),
        (
            "--listen 127.0.0.1:9000 --via 192.0.2.1:80 --tun spin0".to_owned(),
            &["--tun needs --local"],
        ),
        (
            "--listen 127.0.0.1:9000 --via 192.0.2.1:80 --tun spin0 --local 127.0.0.1".to_owned(),
            &["not this host's"],
        ),
        (with("--local 192.0.2.77"), &["an address of this host"]),
        (with("--local ::1"), &["address family", "--via"]),
        (
            with("--local 127.0.0.1 --local 127.0.0.1"),
            &["each address once"],
        ),
        (with("--local 127.0.0.1@"), &["IP@DEVICE"]),
        (with("--subflows 0"), &["--subflows", "1 or more"]),
        (with("--subflows 9"), &["--subflows", "1 to 8"]),
        (
            with("--subflows 2 --local 127.0.0.1 --local 127.0.0.2"),
            &["single --local"],
        ),
        (with("--tls-ca none.pem"), &["--tls-ca needs --tls-name"]),
        (with("--tls-name gateway"), &["need --tls-ca"]),
        (with("--tls-ca none.pem --tls-name gateway"), &["none.pem"]),
    ];
    let cases: Vec<(&str, &[&str])> = cases.iter().map(|(f, w)| (f.as_str(), *w)).collect();
    check("connect", &cases);
}
