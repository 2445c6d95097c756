//! The arguments of `gateway` and `connect`.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum, ValueHint};
use spindle_mptcp::{AnnouncedAddresses, DEFAULT_TRANSPORT};

/// The arguments that both commands share.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Service {
    /// Take flags that are not given here from this file (TOML: a key is a flag's name without dashes)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Standard packets through a TUN device of this name, for unmodified peers; takes
    /// root or CAP_NET_ADMIN
    #[arg(long, value_name = "NAME")]
    pub(crate) tun: Option<String>,
    /// MTU of the TUN device, 1280 to 65535; segments are no larger than fit, and shrink where a path
    /// carries less [default: 1500]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub(crate) mtu: Option<String>,
    /// TCP segments in UDP, between two Spindles; takes no privileges
    #[arg(long)]
    pub(crate) udp: bool,
    /// The transport, by its name (see `spindle explain`)
    #[arg(long, value_name = "NAME", default_value = DEFAULT_TRANSPORT)]
    pub(crate) transport: String,
    /// Require DSS checksums of MPTCP: payload that a middlebox changed is found
    #[arg(long)]
    pub(crate) checksum: bool,
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
    /// Bytes that connections may take of the process, the relay's queues included
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
    /// Per cent of the connections, half-open ones and memory that one source (an IPv4 address, an IPv6
    /// network of 64 bits) may take once half of the limit is in use; 100: no limit to a source
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "25",
        allow_hyphen_values = true
    )]
    pub(crate) source_share: String,
    /// Reset connections over which nothing has passed for this long; or none
    #[arg(
        long,
        value_name = "TIME",
        default_value = "60min",
        allow_hyphen_values = true
    )]
    pub(crate) idle_timeout: String,
    /// The same once one direction of a connection is closed; or none
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5min",
        allow_hyphen_values = true
    )]
    pub(crate) half_close_timeout: String,
    /// Reset connections whose peer keeps its window shut for this long; or none
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5min",
        allow_hyphen_values = true
    )]
    pub(crate) persist_timeout: String,
    /// Probe whether the peer is still there when nothing has come from it for this long; `off`: never
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5min",
        allow_hyphen_values = true
    )]
    pub(crate) keepalive: String,
    /// Write the packets inside, which over --udp are in datagrams, into this file (pcapng, for Wireshark). Payload that is
    /// TLS needs the file of SSLKEYLOGFILE
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Size after which this file is renamed to FILE.1, and another one is begun
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "100MB",
        allow_hyphen_values = true
    )]
    pub(crate) pcap_size: String,
    /// Form of the log on standard error
    #[arg(long, value_name = "FORM", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// Least level that is logged
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub(crate) log: LogLevel,
    /// Lines a second of one kind that are logged, ten times as many at once; further ones are counted,
    /// and the count is logged. 0: all are logged
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) log_rate: u32,
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

/// What happens to a program's connection if the gateway cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FallbackArg {
    /// It is refused
    None,
    /// It is opened directly
    Direct,
}

/// Which programs are answered before the gateway has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerEarlyArg {
    /// No program
    None,
    /// Those whose target the gateway has reached within the last ten minutes, if there is no --fallback
    Known,
    /// All programs
    All,
}

/// Which announced addresses are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Announced {
    /// None
    None,
    /// Those that reach as far as the other side's own: no private ones of a public server
    SameScope,
    /// All
    Any,
}

impl From<Announced> for AnnouncedAddresses {
    fn from(which: Announced) -> Self {
        match which {
            Announced::None => Self::Ignore,
            Announced::SameScope => Self::SameScope,
            Announced::Any => Self::Any,
        }
    }
}

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "spindle gateway [OPTIONS] --listen <ADDR:PORT> --to <HOST:PORT>
       spindle gateway [OPTIONS] --listen <ADDR:PORT> --forward <HOST:PORTS>...
       spindle gateway [OPTIONS] --config <FILE>"
)]
pub(crate) struct Gateway {
    /// Address and port for clients; may be repeated, for IPv4 and IPv6
    #[arg(long, value_name = "ADDR:PORT", required_unless_present = "config")]
    pub(crate) listen: Vec<String>,
    /// The service behind it. HOST:PORT,weight=N gives this one N times as many connections as another; may be
    /// repeated, for several back ends, and a name stands for all its addresses
    #[arg(long, value_name = "HOST:PORT", required_unless_present_any = ["config", "forward"])]
    pub(crate) to: Vec<String>,
    /// In place of --to: clients name their targets with HTTP CONNECT, and those that this rule allows are
    /// reached. HOST is a name, *.NAME, an address, a network (IPv6 in brackets), or * for all public
    /// addresses; PORTS a port, a range or *; names open public addresses only; may be repeated
    #[arg(long, value_name = "HOST:PORTS")]
    pub(crate) forward: Vec<String>,
    /// Connect to the service, or to the targets that clients name, from this address of this host; may be repeated.
    /// Several take turns, and each has as many ports as one alone. One of each family that is needed
    #[arg(long, value_name = "ADDR")]
    pub(crate) source: Vec<String>,
    /// The listening addresses are this host's own: rewrite what comes for them to addresses of
    /// Spindle's (nftables)
    #[arg(long)]
    pub(crate) dnat: bool,
    /// A further address of the gateway for clients to open subflows to, with a port if it is another
    /// than the connection's; may be repeated
    #[arg(long, value_name = "ADDR[:PORT]")]
    pub(crate) announce: Vec<String>,
    /// One of these addresses whose subflows are only used when no other is left (MP_PRIO, flag B); may be
    /// repeated
    #[arg(long, value_name = "ADDR")]
    pub(crate) backup: Vec<String>,
    /// Tell the service the client's address (PROXY protocol, version 2)
    #[arg(long)]
    pub(crate) proxy_protocol: bool,
    /// Admit clients of this network, an address or a prefix such as 10.0.0.0/8, and refuse those of networks that are not
    /// listed; may be repeated. Of several networks that contain a client's address, the most specific one decides
    #[arg(long, value_name = "NETWORK")]
    pub(crate) allow: Vec<String>,
    /// Refuse clients of this network; may be repeated. It wins over the same network in --allow
    #[arg(long, value_name = "NETWORK")]
    pub(crate) deny: Vec<String>,
    /// Take over from the gateway with the same control socket, if one runs: no connection is refused or cut. It ends
    /// with its last connection
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Keys that `spindle keygen` has made: certificate, authority of the clients, revoked clients
    #[arg(long, value_name = "DIR")]
    pub(crate) keys: Option<PathBuf>,
    /// Revoked clients (PEM): a revocation list of each authority in --tls-ca
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_crl: Option<PathBuf>,
    /// Names of the clients that are admitted, separated by commas; all that the authority has signed if
    /// not given
    #[arg(long, value_name = "NAME,NAME")]
    pub(crate) tls_clients: Option<String>,
    /// Let a UDP gateway without TLS, or a gateway with --forward and without clients' certificates, listen beyond loopback
    #[arg(long)]
    pub(crate) insecure: bool,
    #[command(flatten)]
    pub(crate) service: Service,
}

/// The value of `--bundle`. Its debug output does not contain it, since it may be the bundle itself.
#[derive(Clone)]
pub(crate) struct BundleArg(pub(crate) String);

impl BundleArg {
    /// Whether a value of `--bundle` is the bundle itself or standard input, and not a file.
    pub(crate) fn is_no_file(value: &str) -> bool {
        // A line of another version is no file either: no message may repeat it.
        let version = value.trim_start().strip_prefix("spindle");
        let line = version.and_then(|v| v.split_once(':'));
        value == "-" || line.is_some_and(|(v, _)| v.chars().all(|c| c.is_ascii_digit()))
    }
}

impl From<String> for BundleArg {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl fmt::Debug for BundleArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BundleArg")
    }
}

#[derive(Clone, Debug, ClapArgs)]
#[command(override_usage = "spindle connect [OPTIONS] --listen <ADDR:PORT>
       spindle connect [OPTIONS] --config <FILE>")]
pub(crate) struct Connect {
    /// Local address and port for programs; may be repeated
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<String>,
    /// The gateway, or any server; may be repeated: the one that answers first is used
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) via: Vec<String>,
    /// What `spindle enroll` has made for this client: a file, - for standard input, or the line
    /// spindle1:..., which every user of this host can see in the list of processes. It has the gateway's
    /// addresses and all certificates, in place of --via and of --tls-ca, --tls-name, --tls-cert and --tls-key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) bundle: Option<BundleArg>,
    /// How long it may take until the gateway or server has answered; then the program's connection is
    /// refused. `none`: as long as SYNs are repeated
    #[arg(
        long,
        value_name = "TIME",
        default_value = "2s",
        allow_hyphen_values = true
    )]
    pub(crate) connect_timeout: String,
    /// Connections to the gateway that are kept ready for programs at most, if each program's connection has a target of its
    /// own (as with --socks5 or --transparent) and with TLS; as many as programs used lately, none on an idle host
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) ready: usize,
    /// What happens to a program's connection while the gateway cannot be reached, if the program's target is known (as with
    /// --socks5 or --transparent). direct: it is opened to the target without the gateway, which an attacker that blocks
    /// the gateway can force; not if the gateway answers, whatever it answers
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = FallbackArg::None)]
    pub(crate) fallback: FallbackArg,
    /// Which programs are answered before the gateway has answered, if it knows their targets (as with --socks5). It saves
    /// a round trip. A target that is not reached then looks like one that resets
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = AnswerEarlyArg::Known)]
    pub(crate) answer_early: AnswerEarlyArg,
    /// The programs speak SOCKS5 and name their targets, which the gateway of --via connects to (it needs
    /// --forward); over --tun and without --via they are reached directly
    #[arg(long)]
    pub(crate) socks5: bool,
    /// The same for programs that speak HTTP CONNECT; with --socks5, the port accepts both
    #[arg(long)]
    pub(crate) http_connect: bool,
    /// The kernel redirects the programs' connections to --listen and knows their targets, so that programs need know nothing
    /// of proxies. The rules are yours (nftables: redirect; iptables: REDIRECT), or those of --redirect
    #[arg(long)]
    pub(crate) transparent: bool,
    /// --transparent, and until this ends, rules (nftables) that redirect TCP connections. all: those of all programs of this
    /// host; user:NAME, cgroup:PATH: those of a user's or a cgroup's programs; device:NAME: those of other hosts that arrive
    /// on the device; may be repeated. UDP is not redirected. Takes root or CAP_NET_ADMIN
    #[arg(long, value_name = "WHOSE")]
    pub(crate) redirect: Vec<String>,
    /// Connections to this address or network are not redirected; may be repeated. The gateway, this host, and link-local and
    /// multicast addresses are excepted in any case
    #[arg(long, value_name = "NETWORK")]
    pub(crate) redirect_except: Vec<String>,
    /// Remove the rules that a connect with --redirect and the same --listen has left because it was killed, and end
    #[arg(long)]
    pub(crate) remove_redirect: bool,
    /// Programs need a user and a password of this file (lines USER:PASSWORD, not readable by others);
    /// they may then come from other hosts
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy_users: Option<PathBuf>,
    /// Let other hosts use it: listen beyond loopback
    #[arg(long)]
    pub(crate) expose: bool,
    /// Let a connect without TLS go beyond loopback
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Where to open subflows from: an address (IP, IP@DEVICE or IP@DEVICE/GATEWAY: with the device and next
    /// hop of its way out if they are not to follow the system's routes); may be repeated. Over --udp also a
    /// device or a pattern (wlan*), system (the system chooses), or auto [default over --udp]: all uplinks
    #[arg(long, value_name = "WHERE")]
    pub(crate) local: Vec<String>,
    /// A local address, or a device or pattern, whose subflows are only used when no other is left (MP_PRIO,
    /// flag B); may be repeated
    #[arg(long, value_name = "IP|DEVICE")]
    pub(crate) backup: Vec<String>,
    /// Over --udp: how much a device, or the devices of a pattern together, may carry in each day or month of UTC, such as
    /// 10GB/month, as the kernel counts for all programs and both directions. Then its subflows are closed until the next
    /// one. With --backup as well it is only used when no other is left; may be repeated
    #[arg(long, value_name = "DEVICE=SIZE/PERIOD")]
    pub(crate) metered: Vec<String>,
    /// Directory of the counts of --metered, which go on after a restart [default: $STATE_DIRECTORY, /var/lib/spindle for
    /// root, or spindle in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Over --udp: the pause after which a subflow sends a datagram, so that NATs keep its mapping: a time, auto
    /// (learnt, from 20 s on), or off
    #[arg(long, value_name = "TIME", default_value = "auto")]
    pub(crate) nat_keepalive: String,
    /// Which addresses that the other side announces are joined
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Announced::SameScope)]
    pub(crate) accept_announced: Announced,
    /// Subflows from a single local address, told apart by their ports
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) subflows: Option<String>,
    /// The name in the gateway's certificate
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_name: Option<String>,
    /// Hash of the gateway's public key (RFC 7469), which it must have in addition to a certificate of the
    /// authority; may be repeated: one of them
    #[arg(long, value_name = "sha256/BASE64")]
    pub(crate) tls_pin: Vec<String>,
    #[command(flatten)]
    pub(crate) service: Service,
}

/// The flags of `connect` by which programs reach it. `exec` has its own way.
const WAYS_IN: [&str; 9] = [
    "listen",
    "socks5",
    "http_connect",
    "transparent",
    "redirect",
    "redirect_except",
    "remove_redirect",
    "proxy_users",
    "expose",
];

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "spindle exec [OPTIONS] -- <PROGRAM> [ARGUMENT]...",
    mut_args(|arg| {
        let is_way_in = WAYS_IN.iter().any(|name| arg.get_id() == name);
        match arg.get_id().as_str() {
            // The program's own output is on the same terminal.
            "log" => arg.default_value("warn"),
            _ if is_way_in => arg.hide(true),
            _ => arg,
        }
    })
)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) connect: Connect,
    /// Which of its processes this is
    #[arg(long, value_enum, hide = true)]
    pub(crate) part: Option<Part>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM", num_args = 1..)]
    pub(crate) program: Vec<OsString>,
}

/// The processes of `exec` besides the one that becomes the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Starts the service and ends, so that the service is no child of the program.
    Launcher,
    /// The connect service.
    Service,
}
