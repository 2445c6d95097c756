//! Common parts of `gateway` and `connect`: reading the flags, and the life of the process.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spindle_experiment::registry::Registry;
use spindle_mptcp::path_manager::PathManager;
use spindle_mptcp::{Config, Keepalive, MultipathConfig, StackConfig};
use spindle_net::fallback::Fallback;
use spindle_net::gateway::ServiceHandle;
use spindle_net::limits::{LEAST_PER_CONNECTION, Limits};
use spindle_net::metrics::{self, Metrics};
use spindle_net::service::{
    Lifecycle, Notifier, Signal, Signals, Stopper, Summary, disable_huge_pages, watch,
};
use spindle_net::setup::{SetupError, SetupGuard, SetupOptions, Share, adopt, setup};
use spindle_net::status::{Control, Source, default_path};
use spindle_net::takeover::{Offered, Old};
use spindle_net::tun::TunOptions;
use spindle_net::uplinks::Uplinks;
use spindle_net::{
    Link, LinkKind, NetError, Network, NetworkConfig, keepalive_after, raise_file_limit,
    wire_config,
};
use spindle_units::Bytes;
use tokio::net::TcpListener;

use super::capture::Capture;
use super::expiry::ExpiryWatch;
pub(super) use super::expiry::Reloaded;
use super::handover::{self, Before};
use super::log::{self, Limiter};
use crate::allocator;
use crate::args::service::{LogFormat, LogLevel, Service};
use crate::failure::{Failure, Setting};

/// The least MTU of a device: no link with IPv6 has less (RFC 8200, section 5).
const LEAST_MTU: u16 = 1280;
/// How long resets and undoing the set-up may take after draining: some runs of `ip` and `nft`.
const UNDOING: Duration = Duration::from_secs(15);

/// How long the end of the process waits for threads that look up names.
const LOOKING_UP: Duration = Duration::from_secs(5);

/// How often the data path is checked if no service manager requests it. A hang is logged.
const UNWATCHED: Duration = Duration::from_secs(10);

impl From<NetError> for Failure {
    fn from(e: NetError) -> Self {
        Self::Other(e.to_string())
    }
}

impl From<SetupError> for Failure {
    fn from(e: SetupError) -> Self {
        match e {
            SetupError::Name(_) | SetupError::Families(..) => Self::Usage(e.to_string()),
            e => Self::Other(e.to_string()),
        }
    }
}

/// A mistake in a flag, with the value that was found and the values that are accepted.
pub(super) fn bad(flag: &str, found: &str, want: &str) -> Failure {
    Failure::Setting(Setting {
        flag: flag.to_owned(),
        found: Some(found.to_owned()),
        problem: format!(": found \"{found}\", want {want}"),
    })
}

/// An address and port.
pub(super) fn endpoint(flag: &str, text: &str) -> Result<SocketAddr, Failure> {
    let want = "an address and port, such as 192.0.2.1:443 or [2001:db8::1]:443";
    text.parse().map_err(|_| bad(flag, text, want))
}

/// The failure for a required flag that is missing. clap checks this unless a file may contain the flag.
pub(super) fn needed(flag: &str, want: &str) -> Failure {
    Failure::setting(flag, format!(": missing, want {want}"))
}

/// An address.
pub(super) fn address(flag: &str, text: &str) -> Result<IpAddr, Failure> {
    let want = "an address, such as 192.0.2.1 or 2001:db8::1";
    text.parse().map_err(|_| bad(flag, text, want))
}

/// A whole number of at least 1.
pub(super) fn count(flag: &str, text: &str) -> Result<usize, Failure> {
    let found = text.parse().ok().filter(|n| *n > 0);
    found.ok_or_else(|| bad(flag, text, "a whole number, 1 or more"))
}

fn unit<T: FromStr>(flag: &str, text: &str) -> Result<T, Failure>
where
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|e| Failure::setting(flag, format!(": {e}")))
}

/// The capture of `--pcap`.
fn capture(args: &Service) -> Result<Option<Capture>, Failure> {
    let limit: Bytes = unit("pcap-size", &args.pcap_size)?;
    let capture = |path: &PathBuf| Capture {
        path: path.clone(),
        limit: limit.0,
    };
    Ok(args.pcap.as_ref().map(capture))
}

fn time(flag: &str, text: &str) -> Result<Duration, Failure> {
    let time: spindle_units::Duration = unit(flag, text)?;
    Ok(Duration::from_nanos(time.as_nanos()))
}

/// A time limit. "none" disables it.
pub(super) fn limit(flag: &str, text: &str) -> Result<Option<Duration>, Failure> {
    if text == "none" {
        return Ok(None);
    }
    match time(flag, text)? {
        Duration::ZERO => Err(bad(flag, text, "more, or \"none\" for no limit")),
        limit => Ok(Some(limit)),
    }
}

/// Whether this host has the address, so that its own TCP would answer there.
pub(super) fn is_ours(addr: IpAddr) -> bool {
    UdpSocket::bind((addr, 0)).is_ok()
}

/// Whether only this host can reach the address.
pub(super) fn is_loopback(addr: IpAddr) -> bool {
    addr.to_canonical().is_loopback()
}

/// The shared flags, after they were checked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) kind: LinkKind,
    /// The device, if the wire is TUN.
    pub(super) tun: Option<TunOptions>,
    pub(super) transport: String,
    preset: Config,
    pub(super) limits: Limits,
    pub(super) drain: Duration,
    pub(super) idle_timeout: Option<Duration>,
    keepalive: Option<Keepalive>,
    pub(super) half_close_timeout: Option<Duration>,
    /// Whether DSS checksums are required.
    checksum: bool,
    metrics: Option<SocketAddr>,
    control: Option<PathBuf>,
    capture: Option<Capture>,
    log: (LogFormat, LogLevel, u32),
}

impl Plan {
    /// Checks the flags.
    pub(super) fn new(registry: &Registry, args: &Service) -> Result<Self, Failure> {
        let kind = match (&args.tun, args.udp) {
            (Some(_), false) => LinkKind::Tun,
            (None, true) => LinkKind::Udp,
            (Some(_), true) => {
                let text = " and --udp exclude each other; give one of them";
                return Err(Failure::setting("tun", text));
            }
            (None, false) => {
                let text = "want --tun NAME (standard packets, as root) or --udp (no privileges)";
                return Err(Failure::setting("", text));
            }
        };
        let transport = registry.find(&args.transport).ok_or_else(|| {
            let text = registry.no_such_transport(&args.transport);
            Failure::setting("transport", format!(": {text}"))
        })?;
        let preset = transport.config();
        if kind == LinkKind::Tun && preset.coding.is_some() {
            let text = format!(
                ": {} codes packets, which only --udp carries; with --tun want one that does not, \
                 such as tcp or fuso",
                transport.name
            );
            return Err(Failure::setting("transport", text));
        }
        if args.checksum && preset.multipath.is_none() {
            let text = format!(
                " is for MPTCP; {} is plain TCP: leave it out, or take a transport of several subflows",
                transport.name
            );
            return Err(Failure::setting("checksum", text));
        }
        let metrics = args.metrics.as_deref();
        Ok(Self {
            kind,
            tun: device(args)?,
            transport: transport.name.clone(),
            preset,
            limits: limits(args)?,
            drain: time("drain", &args.drain)?,
            idle_timeout: limit("idle-timeout", &args.idle_timeout)?,
            half_close_timeout: limit("half-close-timeout", &args.half_close_timeout)?,
            keepalive: keepalive(&args.keepalive)?,
            checksum: args.checksum,
            metrics: metrics.map(|m| endpoint("metrics", m)).transpose()?,
            control: args.control.clone(),
            capture: capture(args)?,
            log: (args.log_format, args.log, args.log_rate),
        })
    }

    /// The path of the control socket of a service that listens on these addresses.
    pub(super) fn control_path(&self, kind: &str, listen: &[String]) -> PathBuf {
        let port = || {
            let port = listen.first().and_then(|l| l.rsplit(':').next());
            format!("{kind}-{}", port.unwrap_or_default())
        };
        let name = self.tun.as_ref().map(|t| t.name.clone());
        let path = || default_path(&name.unwrap_or_else(port));
        self.control.clone().unwrap_or_else(path)
    }

    /// The arguments that the process which takes over needs in addition to those of this one: the control socket, whose
    /// default name depends on the order of the services.
    fn more_arguments(&self, control: &Path) -> Vec<OsString> {
        match self.control {
            Some(_) => Vec::new(),
            None => vec!["--control".into(), control.into()],
        }
    }

    /// Whether connections may have several subflows.
    pub(super) fn is_multipath(&self) -> bool {
        self.preset.multipath.is_some()
    }

    /// The configuration of connections. `paths`, and the change that `change` makes to the part of MPTCP,
    /// depend on the command.
    pub(super) fn config(
        &self,
        paths: Arc<dyn PathManager>,
        change: impl FnOnce(&mut MultipathConfig),
    ) -> Arc<Config> {
        let mut config = wire_config(self.preset.clone(), self.kind, &self.limits, paths);
        config.tcp.keepalive = self.keepalive;
        if let Some(m) = &mut config.multipath {
            m.checksum = self.checksum;
            change(m);
        }
        Arc::new(config)
    }
}

fn keepalive(text: &str) -> Result<Option<Keepalive>, Failure> {
    if text == "off" {
        return Ok(None);
    }
    let idle: spindle_units::Duration = unit("keepalive", text)?;
    if idle.as_nanos() == 0 {
        let text = ": found 0, want more; `off` for none";
        return Err(Failure::setting("keepalive", text));
    }
    Ok(Some(keepalive_after(idle)))
}

/// The TUN device, if the wire is TUN.
fn device(args: &Service) -> Result<Option<TunOptions>, Failure> {
    let device = args.tun.as_ref().map(TunOptions::new);
    let Some(text) = &args.mtu else {
        return Ok(device);
    };
    let Some(mut device) = device else {
        let problem = " belongs to --tun; over --udp the MTU of each path is found out";
        return Err(Failure::setting("mtu", problem));
    };
    let mtu = text.parse().ok().filter(|mtu| *mtu >= LEAST_MTU);
    device.mtu = mtu.ok_or_else(|| {
        let want = format!("bytes, {LEAST_MTU} (the least of IPv6) to 65535");
        bad("mtu", text, &want)
    })?;
    Ok(Some(device))
}

fn limits(args: &Service) -> Result<Limits, Failure> {
    let per: Bytes = unit("memory-per-connection", &args.memory_per_connection)?;
    let all: Bytes = unit("max-memory", &args.max_memory)?;
    if per.0 < LEAST_PER_CONNECTION {
        let want = format!("{LEAST_PER_CONNECTION} or more");
        return Err(bad(
            "memory-per-connection",
            &args.memory_per_connection,
            &want,
        ));
    }
    if all.0 < per.0 {
        let want = "at least --memory-per-connection";
        return Err(bad("max-memory", &args.max_memory, want));
    }
    let text = args.source_share.as_str();
    let share = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let share = share.filter(|p| (1..=100).contains(p));
    Ok(Limits {
        max_connections: count("max-connections", &args.max_connections)?,
        max_half_open: count("max-half-open", &args.max_half_open)?,
        memory_per_connection: per.0,
        max_memory: all.0,
        persist_timeout: limit("persist-timeout", &args.persist_timeout)?,
        source_share: share.ok_or_else(|| bad("source-share", text, "a per cent, 1 to 100"))?,
    })
}

/// Checks that a file can be read, before its contents are checked.
pub(super) fn readable(flag: &str, path: &Path) -> Result<(), Failure> {
    let opened = std::fs::File::open(path).map(drop);
    opened.map_err(|e| {
        let text = format!(": {}: cannot be read: {e}", path.display());
        Failure::setting(flag, text)
    })
}

/// The certificate and its key: both flags must be given, or neither.
pub(super) fn pair(args: &Service) -> Result<Option<(&PathBuf, &PathBuf)>, Failure> {
    match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => {
            readable("tls-cert", cert)?;
            readable("tls-key", key)?;
            Ok(Some((cert, key)))
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err(Failure::setting(
            "tls-cert",
            " needs --tls-key, the private key of that certificate",
        )),
        (None, Some(_)) => Err(Failure::setting(
            "tls-key",
            " needs --tls-cert, the certificate of that key",
        )),
    }
}

/// A service that listens, as the main loop of the process sees it.
pub(super) struct Running<F> {
    pub(super) lifecycle: Lifecycle,
    pub(super) kind: &'static str,
    /// The addresses that it listens on, as its users know them.
    pub(super) listen: Vec<String>,
    pub(super) to: String,
    /// The services of a gateway.
    pub(super) services: Vec<ServiceHandle>,
    /// The uplinks that it follows.
    pub(super) uplinks: Option<Uplinks>,
    /// What it opens directly.
    pub(super) fallback: Option<Fallback>,
    /// The future that runs the service.
    pub(super) serve: F,
}

/// The link, and the guard that undoes its set-up.
pub(super) struct Wire {
    pub(super) link: Box<dyn Link>,
    pub(super) guard: Option<SetupGuard>,
}

impl Wire {
    /// A TUN device.
    pub(super) fn tun(options: &SetupOptions) -> Result<Self, SetupError> {
        let (link, guard) = setup(options)?;
        Ok(Self {
            link: Box::new(link),
            guard: Some(guard),
        })
    }

    /// The TUN device of a process that is taken over.
    pub(super) fn adopted(options: &SetupOptions, offered: &mut Offered) -> Result<Self, Failure> {
        let device = offered.wire.pop();
        let (Some(device), Some((state, reserved))) = (device, offered.setup.take()) else {
            let text = "it has no TUN device; want the same of --tun and --udp".to_owned();
            return Err(NetError::Handover(text).into());
        };
        let (link, guard) = adopt(options, state, device, reserved)?;
        Ok(Self {
            link: Box::new(link),
            guard: Some(guard),
        })
    }

    /// A link that needs no set-up.
    pub(super) fn plain(link: impl Link + 'static) -> Self {
        Self {
            link: Box::new(link),
            guard: None,
        }
    }
}

/// The whole life of the process: log, signals, set-up, `start`, serving until a signal, and undoing the
/// set-up. If `before` is given, it takes over from the gateway with this control socket.
pub(super) fn live<S, F>(
    plan: &Plan,
    before: Option<&Path>,
    stack: StackConfig,
    wire: impl FnOnce(&mut Option<Offered>) -> Result<Wire, Failure>,
    start: impl FnOnce(Network, Metrics) -> S,
    reloaded: Reloaded<'_>,
) -> Result<ExitCode, Failure>
where
    S: Future<Output = Result<Running<F>, Failure>>,
    F: Future<Output = Result<Summary, NetError>> + Send + 'static,
{
    let (format, level, rate) = plan.log;
    let limiter = log::start(format, level, rate);
    warn_of_key_log(&reloaded);
    raise_file_limit();
    disable_huge_pages();
    allocator::give_back_soon();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::Other(format!("cannot start the runtime: {e}")))?;
    let done = runtime.block_on(async {
        // Catch signals before the set-up, so that a signal during it does not leave it behind.
        let mut signals =
            Signals::catch().map_err(|e| Failure::Other(format!("cannot catch signals: {e}")))?;
        let mut offered = match before {
            Some(control) => handover::ask(control).await?,
            None => None,
        };
        let wire = wire(&mut offered)?;
        let config = NetworkConfig {
            stack,
            name: "data-path".to_owned(),
        };
        let link = match &plan.capture {
            Some(capture) => capture.of(wire.link)?,
            None => wire.link,
        };
        let network = Network::start(config, link)?;
        let share = wire.guard.as_ref().map(SetupGuard::share).transpose();
        let share = share.map_err(|e| Failure::Other(format!("cannot share the set-up: {e}")))?;
        let done = {
            let run = run(
                plan,
                (&network, offered, share),
                &mut signals,
                start,
                reloaded,
            );
            tokio::select! {
                done = run => done,
                never = sum_up(&limiter) => match never {},
            }
        };
        network.shutdown().await;
        drop(wire.guard);
        limiter.summarize();
        done
    });
    runtime.shutdown_timeout(LOOKING_UP);
    done
}

/// Logs periodically how many lines the log has suppressed.
async fn sum_up(limiter: &Limiter) -> Infallible {
    loop {
        tokio::time::sleep(log::SUMMARY).await;
        limiter.summarize();
    }
}

async fn run<S, F>(
    plan: &Plan,
    (network, offered, share): (&Network, Option<Offered>, Option<Share>),
    signals: &mut Signals,
    start: impl FnOnce(Network, Metrics) -> S,
    reloaded: Reloaded<'_>,
) -> Result<ExitCode, Failure>
where
    S: Future<Output = Result<Running<F>, Failure>>,
    F: Future<Output = Result<Summary, NetError>> + Send + 'static,
{
    let counted = Metrics::new(&plan.transport);
    let running = start(network.clone(), counted.clone()).await?;
    let expiry = ExpiryWatch::new(reloaded, running.services.clone(), counted.clone());
    let manager = Arc::new(Notifier::from_environment());
    let mut control = Observers::default();
    let before = observe(
        plan,
        network,
        &running,
        (counted, offered, share),
        &mut control,
        (&manager, signals.stopper()),
    )
    .await?;
    log_listening(plan, &running, &control.path);
    manager.ready();
    // Serve on a worker, where the task of a connection begins on the thread that accepted it. From this
    // thread, each connection would wake another thread.
    let serve = tokio::spawn(running.serve);
    // Twice within the manager's time limit, as sd_watchdog_enabled(3) advises.
    let every = manager.watchdog().map_or(UNWATCHED, |w| w / 2);
    let watching = watch(network, every, || {
        if manager.watchdog().is_some() {
            manager.alive();
        }
    });
    tokio::pin!(watching);
    tokio::pin!(serve);
    let mut daily = ExpiryWatch::daily();
    let summary = loop {
        tokio::select! {
            done = &mut serve => match done {
                Ok(summary) => break summary,
                Err(e) => std::panic::resume_unwind(e.into_panic()),
            },
            never = &mut watching => match never {},
            signal = signals.next() => match signal {
                Signal::Stop => {
                    running.lifecycle.advance();
                    before.stop().await;
                    manager.stopping(plan.drain + UNDOING);
                }
                Signal::Reload => expiry.reload(),
                Signal::Replace => handover::start_again(running.kind, &plan.more_arguments(&control.path)),
            },
            _ = daily.tick() => expiry.look(),
        }
    };
    if summary.is_ok() {
        tokio::select! {
            () = before.outlive(plan.drain, signals) => {}
            never = &mut watching => match never {},
        }
    }
    control.stop();
    handover::log_counters(network).await;
    let summary = summary?;
    tracing::info!(
        connections = summary.connections,
        aborted = summary.aborted,
        "ended"
    );
    Ok(match summary.aborted {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Logs where the service listens, and each service of a gateway that has several.
fn log_listening<F>(plan: &Plan, running: &Running<F>, control: &Path) {
    let (listen, to) = (running.listen.join(" "), &running.to);
    let transport = &plan.transport;
    tracing::info!(%listen, %to, %transport, control = %control.display(), "listening");
    for service in running
        .services
        .iter()
        .filter(|_| running.services.len() > 1)
    {
        let listen: Vec<_> = service.listen().iter().map(SocketAddr::to_string).collect();
        let (service, listen, to) = (service.name(), listen.join(" "), service.to());
        tracing::info!(service, %listen, %to, "a service");
    }
}

/// Warns if the secrets of TLS connections are written to a file, and logs an error if they cannot be written.
fn warn_of_key_log(reloaded: &Reloaded<'_>) {
    let (Some(_), Some(file)) = (reloaded.tls, std::env::var_os("SSLKEYLOGFILE")) else {
        return;
    };
    let path = Path::new(&file);
    match OpenOptions::new().append(true).create(true).open(path) {
        Ok(_) => tracing::warn!(
            file = %path.display(),
            "SSLKEYLOGFILE is set: everyone who can read the file can decipher the TLS connections"
        ),
        Err(error) => tracing::error!(
            file = %path.display(), %error,
            "SSLKEYLOGFILE is set, but the file cannot be written: no secrets of TLS connections are in it"
        ),
    }
}

/// The tasks that serve observers, and the path of the control socket.
#[derive(Default)]
struct Observers {
    path: PathBuf,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Observers {
    fn stop(&self) {
        self.tasks.iter().for_each(|t| t.abort());
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Opens the metrics' port and the control socket, taking over from another process in between if it has offered to.
async fn observe<F>(
    plan: &Plan,
    network: &Network,
    running: &Running<F>,
    (counted, mut offered, setup): (Metrics, Option<Offered>, Option<Share>),
    observers: &mut Observers,
    (manager, stopper): (&Arc<Notifier>, Stopper),
) -> Result<Before, Failure> {
    let metrics =
        match plan.metrics {
            Some(addr) => {
                let listener = handover::metrics_listener(addr, offered.as_mut()).await;
                Some(listener.and_then(TcpListener::into_std).map_err(|e| {
                    Failure::Other(format!("--metrics: cannot listen on {addr}: {e}"))
                })?)
            }
            None => None,
        };
    // From here on, the old process reads no more. It reads again if this one fails.
    let begun = match offered {
        Some(offered) => Some(offered.begin(network).await?),
        None => None,
    };
    let path = plan.control_path(running.kind, &running.listen);
    let control = Control::bind(&path)?;
    observers.path = path;
    let source = Source {
        network: network.clone(),
        kind: running.kind,
        transport: plan.transport.clone(),
        listen: running.listen.clone(),
        to: running.to.clone(),
        services: running.services.clone(),
        uplinks: running.uplinks.clone(),
        fallback: running.fallback.clone(),
        since: Instant::now(),
        lifecycle: running.lifecycle.clone(),
    };
    let ownership = setup.as_ref().map(|s| s.ownership.clone());
    if running.kind == super::gateway::KIND {
        let copy = metrics.as_ref().map(std::net::TcpListener::try_clone);
        let copy = copy
            .transpose()
            .map_err(|e| Failure::Other(format!("--metrics: {e}")))?;
        let old = Old {
            network: network.clone(),
            lifecycle: running.lifecycle.clone(),
            control: control.name(),
            metrics: copy,
            stopper,
            setup,
        };
        observers.tasks.push(handover::allow(old, manager.clone())?);
    }
    let before = Before::confirm(begun, ownership).await?;
    observers.tasks.push(tokio::spawn(
        async move { match control.serve(source).await {} },
    ));
    if let Some(listener) = metrics {
        let observed = metrics::Observed {
            metrics: counted,
            network: network.clone(),
            lifecycle: running.lifecycle.clone(),
        };
        observers.tasks.push(tokio::spawn(async move {
            let lifecycle = observed.lifecycle.clone();
            while let Ok(copy) = listener.try_clone().and_then(TcpListener::from_std) {
                // The process that has taken over serves its own metrics there.
                lifecycle.running().await;
                tokio::select! {
                    never = metrics::serve(copy, observed.clone()) => match never {},
                    () = lifecycle.handed_over() => {}
                }
            }
        }));
    }
    Ok(before)
}
