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

fn check(command: &str, base: &str, cases: &[(&str, &[&str])]) {
    for (flags, wanted) in cases {
        let flags = match flags.strip_prefix('+') {
            Some(more) => format!("{base} {more}"),
            None => (*flags).to_owned(),
        };
        let mut arguments = vec![command];
        arguments.extend(flags.split_whitespace());
        let error = refused(&arguments);
        for text in *wanted {
            assert!(error.contains(text), "{flags}: {error}");
        }
    }
}

const GATEWAY_BASE: &str = "--listen 127.0.0.1:7000 --to 127.0.0.1:8080 --udp";

/// Flags, and parts of the error message. `+` stands for the usual flags.
const GATEWAY: &[(&str, &[&str])] = &[
    ("--listen 127.0.0.1:7000 --udp", &["--to"]),
    (
        "+ --to 127.0.0.1:8080",
        &["127.0.0.1:8080", "each address once"],
    ),
    (
        "+ --to 127.0.0.1:8081,weight=0",
        &["weight=0", "HOST:PORT,weight=N with N from 1 to 1000"],
    ),
    ("+ --to 127.0.0.1", &["--to", "its port"]),
    (
        "+ --forward *:443",
        &["--forward and --to exclude each other"],
    ),
    (
        "--listen 127.0.0.1:7000 --udp --forward *:443 --proxy-protocol",
        &["--proxy-protocol is for the service of --to"],
    ),
    (
        "--listen 127.0.0.1:7000 --udp --forward *:443 --forward example.com",
        &["--forward example.com: no colon", "HOST:PORTS"],
    ),
    (
        "--listen 127.0.0.1:7000 --udp --forward 10.0.0.1/8:443",
        &["--forward 10.0.0.1/8:443", "want 10.0.0.0/8"],
    ),
    (
        "--listen 10.9.0.1:3128 --tun spin0 --forward *:443",
        &[
            "--listen 10.9.0.1:3128",
            "any client",
            "--tls-ca",
            "--insecure",
        ],
    ),
    (
        "--listen 127.0.0.1:7000 --to 127.0.0.1:1",
        &["--tun NAME", "--udp"],
    ),
    ("+ --tun spin0", &["exclude each other"]),
    ("+ --dnat", &["--dnat belongs to --tun"]),
    ("+ --mtu 1400", &["--mtu belongs to --tun"]),
    (
        "--listen 127.0.0.1:7000 --to 127.0.0.1:1 --tun spin0 --mtu 1000",
        &["--mtu", "\"1000\"", "1280", "65535"],
    ),
    (
        "+ --transport fsuo",
        &["--transport", "did you mean \"fuso\"?"],
    ),
    (
        "--listen 127.0.0.1:7000 --to 127.0.0.1:1 --tun spin0 --transport caps-dark",
        &[
            "caps-dark codes packets, which only --udp carries",
            "tcp or fuso",
        ],
    ),
    ("+ --tls-cert a.pem", &["--tls-cert needs --tls-key"]),
    ("+ --tls-key a.pem", &["--tls-key needs --tls-cert"]),
    ("+ --tls-ca a.pem", &["--tls-ca needs --tls-cert"]),
    ("+ --tls-cert none.pem --tls-key none.pem", &["none.pem"]),
    (
        "+ --max-connections 0",
        &["--max-connections", "found \"0\"", "1 or more"],
    ),
    (
        "+ --memory-per-connection 1KB",
        &["--memory-per-connection", "65536 or more"],
    ),
    (
        "+ --max-memory 1MB",
        &["--max-memory", "at least --memory-per-connection"],
    ),
    ("+ --drain soon", &["--drain", "soon"]),
    (
        "+ --idle-timeout 0s",
        &["--idle-timeout", "\"none\" for no limit"],
    ),
    ("+ --half-close-timeout x", &["--half-close-timeout"]),
    ("+ --source-share 0", &["--source-share", "1 to 100"]),
    ("+ --keepalive 0s", &["--keepalive", "`off` for none"]),
    ("+ --keepalive never", &["--keepalive", "never"]),
    ("+ --metrics 9100", &["--metrics", "an address and port"]),
    (
        "+ --announce 192.0.2.1",
        &["--announce", "one of the --listen addresses"],
    ),
    (
        "+ --announce 127.0.0.1:7001",
        &[
            "--announce",
            "127.0.0.1:7001",
            "one of the --listen addresses",
        ],
    ),
    (
        "+ --announce 127.0.0.1:x",
        &["--announce", "192.0.2.2:8443"],
    ),
    (
        "+ --backup 192.0.2.1",
        &["--backup", "--announce addresses"],
    ),
    ("+ --backup 127.0.0.1", &["--backup belongs to --tun"]),
    ("+ --checksum --transport tcp", &["--checksum is for MPTCP"]),
    (
        "+ --listen 127.0.0.1:7000",
        &["--listen", "each address once"],
    ),
    (
        "--listen 0.0.0.0:7000 --to 127.0.0.1:8080 --udp",
        &["loopback only", "--tls-cert", "--insecure"],
    ),
    (
        "--listen 127.0.0.1:80 --to 127.0.0.1:8080 --tun spin0",
        &["not this host's", "--dnat"],
    ),
    (
        "--listen 192.0.2.77:80 --to 127.0.0.1:8080 --tun spin0 --dnat",
        &["an address of this host"],
    ),
    (
        "--listen 0.0.0.0:80 --to 127.0.0.1:8080 --tun spin0",
        &["the very address"],
    ),
    (
        "--listen 80 --to 127.0.0.1:8080 --udp",
        &["--listen", "an address and port"],
    ),
    (
        "--listen 127.0.0.1:0 --to 127.0.0.1:8080 --udp",
        &["a port other than 0"],
    ),
    (
        "--listen 127.0.0.1:7000 --to nowhere --udp",
        &["--to", "127.0.0.1:8080"],
    ),
];

#[test]
fn bad_flags_of_a_gateway_are_refused_with_a_remedy() {
    check("gateway", GATEWAY_BASE, GATEWAY);
}

const CONNECT_BASE: &str = "--listen 127.0.0.1:9000 --via 127.0.0.1:7000 --udp";

/// Flags, and parts of the error message. `+` stands for the usual flags.
const CONNECT: &[(&str, &[&str])] = &[
    (
        "+ --nat-keepalive 1ms",
        &["--nat-keepalive", "1ms", "at least 1 s", "auto", "off"],
    ),
    ("--listen 127.0.0.1:9000 --udp", &["--via", "--socks5"]),
    (
        "--listen 127.0.0.1:9000 --udp --socks5",
        &["--socks5 needs --via over --udp", "--forward", "--tun"],
    ),
    (
        "--listen 127.0.0.1:9000 --udp --http-connect",
        &["--http-connect needs --via over --udp"],
    ),
    (
        "--listen 127.0.0.1:9000 --via 192.0.2.1:7000 --udp --socks5",
        &["loopback only", "--tls-ca", "--insecure"],
    ),
    (
        "+ --proxy-users none",
        &["--proxy-users belongs to --socks5"],
    ),
    (
        "+ --socks5 --proxy-users none",
        &["--proxy-users: none: cannot be read"],
    ),
    (
        "+ --socks5 --proxy-users /etc/passwd",
        &["/etc/passwd", "others may read", "chmod o-rw /etc/passwd"],
    ),
    (
        "--listen 0.0.0.0:9000 --via 127.0.0.1:7000 --udp --http-connect",
        &["--listen 0.0.0.0:9000", "--proxy-users", "--expose"],
    ),
    (
        "--listen 127.0.0.1:9000 --via 192.0.2.1:80 --tun spin0 --insecure",
        &["--tun needs --local"],
    ),
    (
        "--listen 127.0.0.1:9000 --via 192.0.2.1:80 --tun spin0 --insecure --local 127.0.0.1",
        &["not this host's"],
    ),
    (
        "--listen 127.0.0.1:9000 --via 192.0.2.1:7000 --udp --local 127.0.0.1",
        &["loopback only", "--tls-ca", "--insecure"],
    ),
    (
        "--listen 127.0.0.1:9000 --via 192.0.2.1:80 --tun spin0 --local 198.51.100.7",
        &["loopback only", "--tls-ca", "--insecure"],
    ),
    (
        "--listen 0.0.0.0:9000 --via 127.0.0.1:7000 --udp",
        &["--listen 0.0.0.0:9000", "127.0.0.1:9000", "--expose"],
    ),
    (
        "--listen 127.0.0.1:9000 --listen 192.0.2.1:9000 --via 127.0.0.1:7000 --udp",
        &["--listen 192.0.2.1:9000", "--expose"],
    ),
    (
        "--listen 0.0.0.0:1080 --socks5 --tun spin0 --local 198.51.100.7",
        &["--listen 0.0.0.0:1080", "no authentication", "--expose"],
    ),
    // No --insecure is needed: programs encrypt to the servers that they name.
    (
        "--listen 127.0.0.1:1080 --socks5 --tun spin0 --local 198.51.100.7 --backup 198.51.100.8",
        &["--backup", "one of the --local addresses"],
    ),
    ("+ --local 10.0.0.300", &["--local", "10.0.0.300", "eth0"]),
    ("+ --local a/b", &["--local", "wlan*"]),
    ("+ --local abcdefghijklmnop", &["--local", "eth0"]),
    (
        "+ --local auto --local 127.0.0.1",
        &["auto or system alone"],
    ),
    ("+ --local eth0 --local system", &["auto or system alone"]),
    (
        "+ --local 127.0.0.1 --backup eth0",
        &["--backup", "--local addresses"],
    ),
    ("+ --backup auto@x", &["--local"]),
    (
        "+ --metered wwan0=10GB",
        &["--metered", "wwan0=10GB", "wwan0=10GB/month"],
    ),
    (
        "+ --metered wwan0=10GB/year",
        &["--metered", "wwan0=10GB/year", "day or month"],
    ),
    ("+ --metered wwan0=much/day", &["--metered", "a size"]),
    ("+ --metered 192.0.2.1=1GB/day", &["--metered", "a device"]),
    (
        "+ --metered wwan0=1GB/day --metered wwan0=2GB/day",
        &["--metered", "each device once"],
    ),
    (
        "+ --local system --metered wwan0=1GB/day",
        &["--metered", "--local must not be system"],
    ),
    (
        "--listen 127.0.0.1:1080 --socks5 --tun spin0 --local 198.51.100.7 --metered wwan0=1GB/day",
        &["--metered needs --udp"],
    ),
    (
        "+ --local auto --subflows 2",
        &["--subflows", "single --local"],
    ),
    ("+ --local ::1", &["address family", "--via"]),
    (
        "+ --local 127.0.0.1 --local 127.0.0.1",
        &["each address once"],
    ),
    ("+ --local 127.0.0.1@", &["IP@DEVICE"]),
    ("+ --subflows 0", &["--subflows", "1 or more"]),
    ("+ --subflows 9", &["--subflows", "1 to 8"]),
    (
        "+ --subflows 2 --local 127.0.0.1 --local 127.0.0.2",
        &["single --local"],
    ),
    ("+ --tls-ca none.pem", &["--tls-ca needs --tls-name"]),
    ("+ --tls-name gateway", &["need --tls-ca"]),
    ("+ --tls-ca none.pem --tls-name gateway", &["none.pem"]),
];

#[test]
fn bad_flags_of_a_connect_are_refused_with_a_remedy() {
    check("connect", CONNECT_BASE, CONNECT);
}
