//! The rows, and the parts that run all the time for them.

/// A program that serves until the end of the run. Addresses are those of `scripts/throughput`.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// Whether it runs in the server's namespace, else in the client's.
    pub(crate) at_server: bool,
    /// Whether it is the `spindle` program, else this one.
    pub(crate) spindle: bool,
    pub(crate) args: &'static str,
}

const fn part(name: &'static str, at_server: bool, spindle: bool, args: &'static str) -> Part {
    Part {
        name,
        at_server,
        spindle,
        args,
    }
}

/// All parts. The service behind the proxies speaks TCP on the loopback.
pub(crate) const PARTS: [Part; 8] = [
    part("tcp", true, false, "service tcp 10.9.0.2:5001"),
    part("mptcp", true, false, "service mptcp 10.9.0.2:5002"),
    part("behind", true, false, "service tcp 127.0.0.1:5000"),
    part("proxy", true, false, "proxy 10.9.0.2:5003 127.0.0.1:5000"),
    part("tun", true, false, "tun-service spin1 10.7.1.1:80"),
    part(
        "tun-gateway",
        true,
        true,
        "gateway --tun spin0 --listen 10.7.0.1:80 --to 127.0.0.1:5000 --log warn",
    ),
    part("udp", true, false, "udp-service 10.9.0.2:7001"),
    part(
        "udp-gateway",
        true,
        true,
        "gateway --udp --insecure --listen 10.9.0.2:7000 --to 127.0.0.1:5000 --log warn",
    ),
];

/// An additional part, for the row with `connect`.
pub(crate) const CONNECT: Part = part(
    "udp-connect",
    false,
    true,
    "connect --udp --insecure --listen 127.0.0.1:9000 --via 10.9.0.2:7000 --local 10.9.0.1 --log warn",
);

/// A row: what the client runs, and the parts whose CPU time counts.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) client: &'static str,
    pub(crate) parts: &'static [&'static str],
}

/// The rows that others are compared with.
pub(crate) const PLAIN: &str = "kernel TCP";
/// Multipath TCP of the kernel at both ends.
pub(crate) const REFERENCE: &str = "kernel MPTCP";

/// The rows in the order of the table.
pub(crate) const ROWS: [Row; 8] = [
    Row {
        name: PLAIN,
        client: "client tcp 10.9.0.2:5001",
        parts: &["tcp"],
    },
    Row {
        name: REFERENCE,
        client: "client mptcp 10.9.0.2:5002",
        parts: &["mptcp"],
    },
    Row {
        name: "kernel TCP, byte proxy",
        client: "client tcp 10.9.0.2:5003",
        parts: &["proxy", "behind"],
    },
    Row {
        name: "kernel MPTCP, byte proxy",
        client: "client mptcp 10.9.0.2:5003",
        parts: &["proxy", "behind"],
    },
    Row {
        name: "Spindle over TUN, sockets",
        client: "client mptcp 10.7.1.1:80",
        parts: &["tun"],
    },
    Row {
        name: "Spindle over TUN, gateway",
        client: "client mptcp 10.7.0.1:80",
        parts: &["tun-gateway", "behind"],
    },
    Row {
        name: "Spindle over UDP, sockets",
        client: "udp-client 10.9.0.1 10.9.0.2:7001",
        parts: &["udp"],
    },
    Row {
        name: "Spindle over UDP, connect + gateway",
        client: "client tcp 127.0.0.1:9000",
        parts: &["udp-connect", "udp-gateway", "behind"],
    },
];
