//! `spindle connect`.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::ExitCode;

use spindle_lab::registry::Registry;
use spindle_mptcp::PathManager;
use spindle_net::connect::{Connect, ConnectOptions};
use spindle_net::setup::{SetupOptions, SourceRoute};
use spindle_net::tls::ClientTls;
use spindle_net::tun::TunOptions;
use spindle_net::udp::{UdpClient, UdpClientOptions};

use super::service::{
    Plan, Running, Wire, address, bad, count, endpoint, is_ours, live, needed, pair, readable,
    resolved,
};
use crate::args::service::Connect as Args;
use crate::failure::Failure;

pub(crate) fn connect(registry: &Registry, args: &Args) -> Result<ExitCode, Failure> {
    let plan = Plan::new(registry, &args.service)?;
    let listen = args.listen.iter().map(|l| endpoint("listen", l));
    let listen = listen.collect::<Result<Vec<_>, _>>()?;
    if listen.is_empty() {
        let want = "a local address and port for programs, such as 127.0.0.1:9000";
        return Err(needed("listen", want));
    }
    let via = via(args)?;
    let paths = Paths::new(args, via)?;
    let tls = tls(args)?;
    let config = plan.config(path_manager(args, &paths)?);
    let locals: Vec<IpAddr> = paths.list.iter().map(|p| p.source).collect();
    let options = ConnectOptions {
        listen,
        via,
        socks5: args.socks5,
        local: locals.clone(),
        config,
        tls: tls.clone(),
        metrics: None,
        max_connections: plan.limits.max_connections,
        idle_timeout: plan.idle_timeout,
        drain: plan.drain,
    };
    let to = via.map_or("where the program says".to_owned(), |v| v.to_string());
    let wire = || match (&plan.tun, via) {
        (Some(name), _) => Wire::tun(&paths.setup(name)),
        (None, via) => {
            let port = via.map_or(0, |v| v.port());
            let mut link = UdpClientOptions::new(port);
            link.interfaces = paths.interfaces();
            Ok(Wire::plain(UdpClient::new(link)?))
        }
    };
    live(
        &plan,
        locals,
        wire,
        async |network, counted| {
            let metrics = Some(counted);
            let connect = Connect::bind(&network, ConnectOptions { metrics, ..options }).await?;
            let listen = connect.addresses();
            Ok(Running {
                lifecycle: connect.lifecycle(),
                kind: "connect",
                listen: listen.iter().map(SocketAddr::to_string).collect(),
                to,
                serve: connect.serve(),
            })
        },
        || match &tls {
            Some(tls) => tls.reload().map_err(|e| e.to_string()),
            None => Ok(()),
        },
    )
}

fn via(args: &Args) -> Result<Option<SocketAddr>, Failure> {
    let usage = |flag, text: &str| Err(Failure::setting(flag, text));
    match &args.via {
        Some(text) => resolved("via", text).map(Some),
        None if !args.socks5 => usage(
            "",
            "want --via ADDR:PORT, or --socks5 for programs that say where to",
        ),
        None if args.service.udp => usage(
            "udp",
            " needs --via, the gateway: other servers take no UDP encapsulation",
        ),
        None => Ok(None),
    }
}

fn tls(args: &Args) -> Result<Option<ClientTls>, Failure> {
    let identity = pair(&args.service)?;
    let identity = identity.map(|(c, k)| (c.as_path(), k.as_path()));
    let Some(ca) = &args.service.tls_ca else {
        if identity.is_some() || args.tls_name.is_some() {
            let text = "--tls-cert, --tls-key and --tls-name need --tls-ca, the authorities that the \
                        gateway's certificate may come from";
            return Err(Failure::setting("", text));
        }
        return Ok(None);
    };
    let Some(name) = &args.tls_name else {
        let text = " needs --tls-name, the name in the gateway's certificate";
        return Err(Failure::setting("tls-ca", text));
    };
    readable("tls-ca", ca)?;
    let tls = ClientTls::load(ca, identity, name);
    tls.map(Some).map_err(|e| Failure::Usage(e.to_string()))
}

fn path_manager(args: &Args, paths: &Paths) -> Result<PathManager, Failure> {
    let Some(text) = &args.subflows else {
        return Ok(PathManager::FullMesh);
    };
    let n = count("subflows", text)?;
    if paths.list.len() > 1 {
        let text = " is for a single --local; with several each gets one: leave it out";
        return Err(Failure::setting("subflows", text));
    }
    if n > 8 {
        return Err(bad("subflows", text, "1 to 8"));
    }
    Ok(PathManager::Ports(n))
}

/// Local addresses and their ways out.
struct Paths {
    list: Vec<Path>,
}

struct Path {
    source: IpAddr,
    device: Option<String>,
    gateway: Option<IpAddr>,
}

impl Paths {
    fn new(args: &Args, via: Option<SocketAddr>) -> Result<Self, Failure> {
        let mut list: Vec<Path> = Vec::new();
        for text in &args.local {
            let path = Path::parse(text)?;
            if list.iter().any(|p| p.source == path.source) {
                return Err(bad("local", text, "each address once"));
            }
            path.check(args.service.udp)?;
            list.push(path);
        }
        if list.is_empty() {
            list.push(Path::usual(args, via)?);
        }
        let fits = |v: &SocketAddr| list.iter().any(|p| p.source.is_ipv4() == v.is_ipv4());
        if let Some(v) = via.filter(|v| !fits(v)) {
            let text = format!(": none is of the address family of --via {v}; add one");
            return Err(Failure::setting("local", text));
        }
        Ok(Self { list })
    }

    fn interfaces(&self) -> Vec<(IpAddr, String)> {
        let named = |p: &Path| Some((p.source, p.device.clone()?));
        self.list.iter().filter_map(named).collect()
    }

    fn setup(&self, name: &str) -> SetupOptions {
        let route = |p: &Path| {
            Some(SourceRoute {
                source: p.source,
                device: p.device.clone()?,
                via: p.gateway,
            })
        };
        SetupOptions {
            tun: TunOptions::new(name),
            addresses: self.list.iter().map(|p| p.source).collect(),
            dnat: Vec::new(),
            source_routes: self.list.iter().filter_map(route).collect(),
            forwarding: true,
        }
    }
}

impl Path {
    fn parse(text: &str) -> Result<Self, Failure> {
        let (source, way) = match text.split_once('@') {
            None => (text, None),
            Some((source, way)) => (source, Some(way)),
        };
        let source = address("local", source)?;
        let (device, gateway) = match way.map(|w| w.split_once('/').unwrap_or((w, ""))) {
            None => (None, None),
            Some(("", _)) => return Err(bad("local", text, "IP, IP@DEVICE or IP@DEVICE/GATEWAY")),
            Some((device, "")) => (Some(device.to_owned()), None),
            Some((device, hop)) => (Some(device.to_owned()), Some(address("local", hop)?)),
        };
        Ok(Self {
            source,
            device,
            gateway,
        })
    }

    fn check(&self, udp: bool) -> Result<(), Failure> {
        let text = self.source.to_string();
        match (udp, is_ours(self.source)) {
            (true, false) => Err(bad("local", &text, "an address of this host with --udp")),
            (false, true) => {
                let want = "an address that is not this host's: over --tun it is Spindle's alone, \
                            and packets for it are routed here";
                Err(bad("local", &text, want))
            }
            _ => Ok(()),
        }
    }

    /// The address that the system would use.
    fn usual(args: &Args, via: Option<SocketAddr>) -> Result<Self, Failure> {
        let Some(via) = via.filter(|_| args.service.udp) else {
            let text = " needs --local, an address of Spindle's own to connect from";
            return Err(Failure::setting("tun", text));
        };
        let any: SocketAddr = match via {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0u16; 8], 0).into(),
        };
        let source = UdpSocket::bind(any).and_then(|s| {
            s.connect(via)?;
            s.local_addr()
        });
        let source = source.map_err(|e| Failure::Other(format!("--via {via}: no route: {e}")))?;
        Ok(Self {
            source: source.ip(),
            device: None,
            gateway: None,
        })
    }
}
