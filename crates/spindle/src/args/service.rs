//! The arguments of `gateway` and `connect`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// What both share.
#[derive(Debug, ClapArgs)]
pub(crate) struct Service {
    /// Take flags that are not given here from this file (TOML: a key is a flag's name without dashes)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Standard packets through a TUN device of this name, for peers that nobody changed; takes
    /// root or CAP_NET_ADMIN
    #[arg(long, value_name = "NAME")]
    pub(crate) tun: Option<String>,
    /// TCP segments in UDP, between two Spindles; takes no privileges
    #[arg(long)]
    pub(crate) udp: bool,
    /// The transport, by its name (see `spindle explain`)
    #[arg(long, value_name = "NAME", default_value = "fuso+rack")]
    pub(crate) transport: String,
    /// Own certificate chain (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Authorities whose certificates the other side may have (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Connections at a time
    #[arg(
        long,
        value_name = "N",
        default_value = "10000",
        allow_hyphen_values = true
    )]
    pub(crate) max_connections: String,
    /// Half-open connections at a time; further SYNs are answered with cookies
    #[arg(
        long,
        value_name = "N",
        default_value = "4096",
        allow_hyphen_values = true
    )]
    pub(crate) max_half_open: String,
    /// Bytes one connection may hold, both directions together
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "40MB",
        allow_hyphen_values = true
    )]
    pub(crate) memory_per_connection: String,
    /// Bytes all connections may hold
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1GiB",
        allow_hyphen_values = true
    )]
    pub(crate) max_memory: String,
    /// Serve Prometheus metrics at this address
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<String>,
    /// The control socket that `spindle status` reads
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// On SIGTERM, how long open connections may take to end
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30s",
        allow_hyphen_values = true
    )]
    pub(crate) drain: String,
    /// Reset connections over which nothing has passed for this long; never if not given
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) idle_timeout: Option<String>,
    /// Form of the log on standard error
    #[arg(long, value_name = "FORM", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// Least level that is logged
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub(crate) log: LogLevel,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text each.
    Text,
    /// A JSON object each.
    Json,
}

/// Least level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "spindle gateway [OPTIONS] --listen <ADDR:PORT> --to <HOST:PORT>
       spindle gateway [OPTIONS] --config <FILE>"
)]
pub(crate) struct Gateway {
    /// Address and port for clients; may be repeated, for IPv4 and IPv6
    #[arg(long, value_name = "ADDR:PORT", required_unless_present = "config")]
    pub(crate) listen: Vec<String>,
    /// The service behind it
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "config")]
    pub(crate) to: Option<String>,
    /// The listening addresses are this host's own: rewrite what comes for them to addresses of
    /// Spindle's (nftables)
    #[arg(long)]
    pub(crate) dnat: bool,
    /// A further address of the gateway for clients to open subflows to; may be repeated
    #[arg(long, value_name = "ADDR")]
    pub(crate) announce: Vec<String>,
    /// Tell the service the client's address (PROXY protocol, version 2)
    #[arg(long)]
    pub(crate) proxy_protocol: bool,
    /// Let a UDP gateway without TLS listen beyond loopback
    #[arg(long)]
    pub(crate) insecure: bool,
    #[command(flatten)]
    pub(crate) service: Service,
}

#[derive(Debug, ClapArgs)]
#[command(override_usage = "spindle connect [OPTIONS] --listen <ADDR:PORT>
       spindle connect [OPTIONS] --config <FILE>")]
pub(crate) struct Connect {
    /// Local address and port for programs; may be repeated
    #[arg(long, value_name = "ADDR:PORT", required_unless_present = "config")]
    pub(crate) listen: Vec<String>,
    /// The gateway, or any server; with --socks5 and --tun where the program says if not given
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) via: Option<String>,
    /// The programs speak SOCKS5
    #[arg(long)]
    pub(crate) socks5: bool,
    /// A local address to open a subflow from, with the device and next hop of its way out if they
    /// are not to follow the system's routes; may be repeated
    #[arg(long, value_name = "IP[@DEVICE[/GATEWAY]]")]
    pub(crate) local: Vec<String>,
    /// Subflows from a single local address, told apart by their ports
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) subflows: Option<String>,
    /// The name in the gateway's certificate
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_name: Option<String>,
    #[command(flatten)]
    pub(crate) service: Service,
}
