//! `spindle connect`.

use std::convert::Infallible;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use spindle_experiment::registry::Registry;
use spindle_mptcp::Config;
use spindle_mptcp::path_manager::{FullMesh, PathManager, Ports};
use spindle_net::connect::{Connect, ConnectOptions, Destination};
use spindle_net::metrics::Metrics;
use spindle_net::takeover::Offered;
use spindle_net::tls::{Certificates, ClientTls};
use spindle_net::udp::UdpClient;
use spindle_net::{NEXT_PATH_AFTER, Network, Target, Targets};

use super::paths::Paths;
use super::proxy::{described, destination, fallback_of, users};
use super::redirect;
use super::service::{
    Plan, Reloaded, Running, Wire, bad, count, endpoint, is_loopback, limit, live, needed,
};
use super::tls;
use crate::args::service::Connect as Args;
use crate::failure::{Failure, Setting};

pub(crate) fn connect(registry: &Registry, args: &Args) -> Result<ExitCode, Failure> {
    let listen = |args: &Args| {
        let listen = args.listen.iter().map(|l| endpoint("listen", l));
        let listen = listen.collect::<Result<Vec<_>, _>>()?;
        if listen.is_empty() {
            let want = "a local address and port for programs, such as 127.0.0.1:9000";
            return Err(needed("listen", want));
        }
        Ok(listen)
    };
    if args.remove_redirect {
        return redirect::remove(&listen(args)?);
    }
    let plan = Connecting::new(registry, args, listen, destination)?;
    private(&plan.listen, &plan.destination, &plan.args)?;
    let redirect = redirect::options(&plan.args)?;
    let via = plan.via.clone();
    plan.run(async |network, options| {
        let mut connect = Connect::bind(network, options).await?;
        if let Some(redirect) = redirect {
            redirect::install(&mut connect, redirect, via.as_ref())?;
        }
        let listen = connect.addresses();
        Ok(Entered {
            listen: listen.iter().map(SocketAddr::to_string).collect(),
            connect,
            kind: "connect",
            end: Box::pin(std::future::pending()),
        })
    })
}

/// The flags of a connect service, after they were checked.
pub(super) struct Connecting {
    args: Args,
    bundle: Option<tls::Given>,
    plan: Plan,
    listen: Vec<SocketAddr>,
    via: Option<Targets>,
    destination: Destination,
    paths: Paths,
    tls: Option<ClientTls>,
    config: Arc<Config>,
}

/// A connect service that programs can reach.
pub(super) struct Entered {
    pub(super) connect: Connect,
    pub(super) kind: &'static str,
    /// Where programs reach it, for the log and the status.
    pub(super) listen: Vec<String>,
    /// When it ends, the service accepts no further connections.
    pub(super) end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Connecting {
    /// Checks the flags. `listen` and `destination` say how programs reach the service.
    pub(super) fn new(
        registry: &Registry,
        args: &Args,
        listen: impl FnOnce(&Args) -> Result<Vec<SocketAddr>, Failure>,
        destination: impl FnOnce(&Args, Option<Targets>) -> Result<Destination, Failure>,
    ) -> Result<Self, Failure> {
        let bundle = tls::bundle(args)?;
        let args = tls::with_bundle(args, bundle.as_ref());
        let plan = Plan::new(registry, &args.service)?;
        let listen = listen(&args)?;
        let via = args.via.iter().map(|text| target(text));
        let via = Targets::of(via.collect::<Result<_, _>>()?);
        let destination = destination(&args, via.clone())?;
        let paths = Paths::new(&args, via.as_ref(), plan.is_multipath())?;
        let tls = tls::of_connect(&args, bundle.as_ref())?;
        if tls.is_none() {
            clear_text(via.as_ref(), &args)?;
        }
        let config = plan.config(path_manager(&args, &paths)?, |m| {
            m.backup_addresses.clone_from(&paths.backup);
            m.announced = args.accept_announced.into();
            m.syn_race.get_or_insert(NEXT_PATH_AFTER);
        });
        limit("connect-timeout", &args.connect_timeout)?;
        Ok(Self {
            args,
            bundle,
            plan,
            listen,
            via,
            destination,
            paths,
            tls,
            config,
        })
    }

    fn options(&self) -> Result<ConnectOptions, Failure> {
        let plan = &self.plan;
        Ok(ConnectOptions {
            listen: self.listen.clone(),
            destination: self.destination.clone(),
            local: self.paths.sources(),
            config: self.config.clone(),
            tls: self.tls.clone(),
            metrics: None,
            patience: limit("connect-timeout", &self.args.connect_timeout)?,
            ready: self.args.ready,
            max_connections: plan.limits.max_connections,
            idle_timeout: plan.idle_timeout,
            half_close_timeout: plan.half_close_timeout,
            drain: plan.drain,
        })
    }

    /// Runs the service that `enter` starts.
    pub(super) fn run(
        &self,
        enter: impl AsyncFnOnce(&Network, ConnectOptions) -> Result<Entered, Failure>,
    ) -> Result<ExitCode, Failure> {
        let Self {
            plan,
            paths,
            bundle,
            ..
        } = self;
        let options = self.options()?;
        let wire = |_: &mut Option<Offered>| match &plan.tun {
            Some(tun) => Ok(Wire::tun(&paths.setup(tun))?),
            None => Ok(Wire::plain(UdpClient::new(paths.link())?)),
        };
        let start = async |network: Network, counted: Metrics| {
            if let Some(bundle) = bundle {
                bundle.warn();
            }
            let watching = paths.follow(&network).await?;
            if let Some(uplinks) = &paths.uplinks {
                counted.uplinks(uplinks.clone());
            }
            let via = self.via.iter().flat_map(Targets::iter);
            for unknown in via.filter(|v| !resolves(v)) {
                tracing::warn!(via = %unknown, "--via does not resolve at present; it is looked up for each connection");
            }
            let metrics = Some(counted);
            let entered = enter(&network, ConnectOptions { metrics, ..options }).await?;
            let connect = entered.connect;
            tokio::spawn(connect.trial());
            Ok(Running {
                lifecycle: connect.lifecycle(),
                kind: entered.kind,
                listen: entered.listen,
                to: described(&self.destination),
                services: Vec::new(),
                uplinks: paths.uplinks.clone(),
                fallback: fallback_of(&self.destination),
                serve: async move {
                    let _watching = watching;
                    let lifecycle = connect.lifecycle();
                    let ending = async {
                        entered.end.await;
                        lifecycle.drain();
                        std::future::pending::<Infallible>().await
                    };
                    tokio::select! {
                        summary = connect.serve() => summary,
                        never = ending => match never {},
                    }
                },
            })
        };
        let users = users(&self.destination);
        let reloaded = Reloaded {
            tls: self.tls.as_ref().map(|tls| tls as &dyn Certificates),
            users: users.as_ref(),
        };
        live(
            plan,
            None,
            plan.limits.stack(paths.of_stack()),
            wire,
            start,
            reloaded,
        )
    }
}

/// An address, or a name that need not resolve yet, and a port.
pub(super) fn target(text: &str) -> Result<Target, Failure> {
    text.parse()
        .map_err(|e| Failure::setting("via", format!(": {e}")))
}

fn resolves(target: &Target) -> bool {
    target.to_string().to_socket_addrs().is_ok()
}

/// A program that reaches a listening address connects in this host's name. Addresses that other hosts can
/// reach are refused unless the user allows them.
fn private(listen: &[SocketAddr], to: &Destination, args: &Args) -> Result<(), Failure> {
    let Some(open) = listen.iter().find(|a| !is_loopback(a.ip())) else {
        return Ok(());
    };
    let why = match to {
        _ if args.expose => return Ok(()),
        Destination::Programs(proxy) if proxy.users.is_some() => return Ok(()),
        Destination::Programs(_) => {
            "there is no authentication, so that anyone who reaches this address could connect to all that \
             the programs can name; give --proxy-users"
        }
        Destination::Via(_) => {
            "anyone who reaches this address could connect, with the certificate of this host"
        }
    };
    Err(Failure::Setting(Setting {
        flag: "listen".to_owned(),
        found: Some(open.to_string()),
        problem: format!(
            " {open}: {why}; listen on loopback, such as 127.0.0.1:{}, or give --expose if other hosts \
             are meant to use it",
            open.port()
        ),
    }))
}

/// Refuses to connect beyond loopback without TLS unless the user allows it, since all data of the programs
/// would leave this host in clear text. Programs that name a server themselves and reach it directly (SOCKS5 without
/// `--via`) know that they reach it over a network, and encrypt as they would without a proxy. That server need not know
/// Spindle, so no TLS can be requested here.
fn clear_text(via: Option<&Targets>, args: &Args) -> Result<(), Failure> {
    let mut via = via.into_iter().flat_map(Targets::iter);
    match via.find(|v| !stays_here(v)) {
        Some(via) if !args.insecure => {
            let text = format!(
                " {via}: a connect without TLS goes to loopback only; give --bundle, or --tls-ca and --tls-name, or \
                 --insecure if the network is trusted or the programs encrypt by themselves"
            );
            Err(Failure::setting("via", text))
        }
        _ => Ok(()),
    }
}

/// Whether connections to the target stay on this host. Names may resolve to any address at any time, except
/// `localhost` (RFC 6761, section 6.3).
fn stays_here(target: &Target) -> bool {
    match target {
        Target::Address(addr) => is_loopback(addr.ip()),
        Target::Name(name, _) => name.eq_ignore_ascii_case("localhost"),
    }
}

fn path_manager(args: &Args, paths: &Paths) -> Result<Arc<dyn PathManager>, Failure> {
    let Some(text) = &args.subflows else {
        return Ok(Arc::new(FullMesh));
    };
    let n = count("subflows", text)?;
    if paths.several {
        let text = " is for a single --local address, or --local system; with several addresses each gets \
                    one: leave it out";
        return Err(Failure::setting("subflows", text));
    }
    if n > 8 {
        return Err(bad("subflows", text, "1 to 8"));
    }
    Ok(Arc::new(Ports(n)))
}
