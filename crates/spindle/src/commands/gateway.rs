//! `spindle gateway`.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use spindle_experiment::registry::Registry;
use spindle_mptcp::StackConfig;
use spindle_mptcp::path_manager::Passive;
use spindle_net::backends::BackendAddr;
use spindle_net::gateway::{Backend, Gateway, GatewayOptions};
use spindle_net::setup::{Dnat, SetupError, SetupOptions};
use spindle_net::takeover::Offered;
use spindle_net::tls::Certificates;
use spindle_net::tun::TunOptions;
use spindle_net::udp::UdpServer;
use spindle_net::{LinkKind, NetError};

use super::proxy::{backend, backends, closed};
use super::service::{
    Plan, Reloaded, Running, Wire, address, bad, endpoint, is_loopback, is_ours, live, needed,
};
use super::tls;
use crate::args::service::Gateway as Args;
use crate::args::{Args as AllArgs, Command};
use crate::failure::{Failure, Setting};
use crate::settings;

/// Most addresses of this host that one gateway may have ([`translated`]).
const INNER_ADDRESSES: usize = 32;
/// The kind of the service, as its status names it.
pub(super) const KIND: &str = "gateway";
/// What `--listen` accepts.
const LISTEN: &str = "an address and port for clients, such as 192.0.2.1:443";

pub(crate) fn gateway(registry: &Registry, args: &Args) -> Result<ExitCode, Failure> {
    let plan = Plan::new(registry, &args.service)?;
    let (backend, to) = backend(args)?;
    let places = Places::new(&plan, args)?;
    let tls = tls::of_gateway(args)?;
    if plan.kind == LinkKind::Udp {
        guarded(&places.outside, args, tls.is_some())?;
    }
    closed(&places.outside, args)?;
    let config = plan.config(Arc::new(Passive), |m| {
        m.backup_addresses.clone_from(&places.backup)
    });
    let reloaded = match &backend {
        Backend::Service(backends) => Some(backends.clone()),
        Backend::Forward(_) => None,
    };
    let mut options = GatewayOptions::new(places.inside.clone(), backend, config);
    options.announce.clone_from(&places.announce);
    options.outside = places.pairs();
    options.proxy_protocol = args.proxy_protocol;
    options.tls.clone_from(&tls);
    options.max_connections = plan.limits.max_connections;
    options.idle_timeout = plan.idle_timeout;
    options.half_close_timeout = plan.half_close_timeout;
    options.drain = plan.drain;
    let stack = StackConfig {
        outside: places.translations(),
        ..plan.limits.stack(Vec::new())
    };
    let listen: Vec<String> = places.outside.iter().map(SocketAddr::to_string).collect();
    let control = plan.control_path(KIND, &listen);
    let asked = args.take_over.then_some(control.as_path());
    let wire = |offered: &mut Option<Offered>| match offered {
        Some(offered) => taken_over(&plan, &places, offered),
        None => opened(&plan, &places, asked),
    };
    live(
        &plan,
        asked,
        stack,
        wire,
        async |network, counted| {
            options.metrics = Some(counted);
            let gateway = Gateway::bind(&network, options).await?;
            Ok(Running {
                lifecycle: gateway.lifecycle(),
                kind: KIND,
                listen,
                uplinks: None,
                fallback: None,
                to,
                backends: reloaded.clone(),
                serve: gateway.serve(),
            })
        },
        Reloaded {
            tls: tls.as_ref().map(|tls| tls as &dyn Certificates),
            users: None,
            backends: reloaded.as_ref(),
        },
    )
}

/// The wire of a gateway that takes over from none. `asked` is the control socket at which none answered.
fn opened(plan: &Plan, places: &Places, asked: Option<&Path>) -> Result<Wire, Failure> {
    // A gateway that is to be taken over may have another control socket.
    let failure = |in_use: bool, failure: Failure| match (in_use, asked) {
        (true, Some(asked)) => Failure::Other(format!(
            "{}; no gateway could be taken over at {}: if one has the address, give its --control",
            failure.line(),
            asked.display()
        )),
        _ => failure,
    };
    match &plan.tun {
        Some(tun) => Wire::tun(&places.setup(tun)).map_err(|e| {
            let in_use = matches!(e, SetupError::InUse(_) | SetupError::AddressInUse(_));
            failure(in_use, e.into())
        }),
        None => {
            let link = UdpServer::bind(plan.limits.udp_server(places.outside.clone()));
            let link = link.map_err(|e| failure(e.kind() == ErrorKind::AddrInUse, e.into()));
            Ok(Wire::plain(link?))
        }
    }
}

/// The wire of the gateway that is taken over.
fn taken_over(plan: &Plan, places: &Places, offered: &mut Offered) -> Result<Wire, Failure> {
    let flag = |kind| match kind {
        LinkKind::Tun => "--tun",
        LinkKind::Udp => "--udp",
    };
    let (found, want) = (offered.kind(), plan.kind);
    if found != want {
        let (found, want) = (flag(found), flag(want));
        let text = format!("it runs with {found}, this process with {want}; want the same");
        return Err(NetError::Handover(text).into());
    }
    match &plan.tun {
        Some(tun) => Wire::adopted(&places.setup(tun), offered),
        None => {
            let link = plan.limits.udp_server(places.outside.clone());
            let wire = std::mem::take(&mut offered.wire);
            Ok(Wire::plain(UdpServer::from_descriptors(link, wire)?))
        }
    }
}

/// The back ends that the process's flags, and its file of flags as it is now, name.
pub(super) fn backends_again() -> Result<Vec<BackendAddr>, Failure> {
    let (arguments, settings) = settings::read(std::env::args_os().collect())?;
    let args = AllArgs::try_parse_from(arguments).map_err(|e| Failure::Usage(e.to_string()))?;
    let Command::Gateway(args) = args.command else {
        let text = "this process was not started as `spindle gateway`";
        return Err(Failure::Other(text.to_owned()));
    };
    let placed = |failure| match &settings {
        Some(settings) => settings.place(failure),
        None => failure,
    };
    backends(&args).map_err(placed)
}

/// Refuses to listen beyond loopback over UDP without TLS, unless the user allows it: anyone could connect, and
/// read and change the data.
fn guarded(outside: &[SocketAddr], args: &Args, tls: bool) -> Result<(), Failure> {
    match outside.iter().find(|a| !is_loopback(a.ip())) {
        Some(open) if !tls && !args.insecure => Err(Failure::Setting(Setting {
            flag: "listen".to_owned(),
            found: Some(open.to_string()),
            problem: format!(
                " {open}: a UDP gateway without TLS binds to loopback only; give --keys, or --tls-cert \
                 and --tls-key, or --insecure if the network is trusted"
            ),
        })),
        _ => Ok(()),
    }
}

/// Addresses inside, which Spindle's stack has, and outside, by which clients know them.
struct Places {
    outside: Vec<SocketAddr>,
    inside: Vec<SocketAddr>,
    /// Addresses that are announced to clients, as known outside. Each has its own port or uses that of the
    /// connection.
    announce: Vec<(IpAddr, Option<u16>)>,
    /// The addresses outside whose subflows are backups.
    backup: Vec<IpAddr>,
    dnat: Vec<Dnat>,
}

impl Places {
    fn new(plan: &Plan, args: &Args) -> Result<Self, Failure> {
        let mut outside = Vec::new();
        for text in &args.listen {
            let addr = endpoint("listen", text)?;
            if addr.port() == 0 {
                return Err(bad("listen", text, "a port other than 0"));
            }
            if outside.contains(&addr) {
                return Err(bad("listen", text, "each address once"));
            }
            outside.push(addr);
        }
        if outside.is_empty() {
            return Err(needed("listen", LISTEN));
        }
        let announce = args.announce.iter().map(|a| announced(a));
        let announce = announce.collect::<Result<Vec<_>, _>>()?;
        let places = Self {
            backup: backup(args, &outside, &announce)?,
            inside: outside.clone(),
            outside,
            announce,
            dnat: Vec::new(),
        };
        match &plan.tun {
            Some(tun) => places.over_tun(&tun.name, args.dnat),
            None => places.over_udp(args.dnat),
        }
    }

    fn over_udp(mut self, dnat: bool) -> Result<Self, Failure> {
        if dnat {
            let text = " belongs to --tun; over --udp the gateway listens on the host's own \
                        addresses anyway";
            return Err(Failure::setting("dnat", text));
        }
        let bound = |(a, port): &(IpAddr, Option<u16>)| {
            let same = |l: &SocketAddr| {
                let any = l.ip().is_unspecified() && l.is_ipv4() == a.is_ipv4();
                (l.ip() == *a || any) && port.is_none_or(|port| port == l.port())
            };
            self.outside.iter().any(same)
        };
        if let Some((stray, port)) = self.announce.iter().find(|a| !bound(a)) {
            let want = "one of the --listen addresses: clients reach no other over --udp";
            let stray = port.map_or(stray.to_string(), |p| {
                SocketAddr::new(*stray, p).to_string()
            });
            return Err(bad("announce", &stray, want));
        }
        if !self.backup.is_empty() {
            let text =
                " belongs to --tun; over --udp give it to the connect, which opens the subflows";
            return Err(Failure::setting("backup", text));
        }
        let mut ports: Vec<u16> = self.outside.iter().map(SocketAddr::port).collect();
        ports.sort_unstable();
        ports.dedup();
        self.inside = ports.into_iter().map(UdpServer::listener_addr).collect();
        Ok(self)
    }

    fn over_tun(mut self, name: &str, dnat: bool) -> Result<Self, Failure> {
        let listening = self.outside.iter().map(|a| ("listen", a.ip()));
        let announced = self.announce.iter().map(|a| ("announce", a.0));
        for (flag, ip) in listening.chain(announced) {
            let text = ip.to_string();
            if ip.is_unspecified() {
                return Err(bad(
                    flag,
                    &text,
                    "the very address, which clients connect to",
                ));
            }
            match (dnat, is_ours(ip)) {
                (false, true) => {
                    let want = "an address that is not this host's, for Spindle alone, whose \
                                packets are routed here; for one of this host add --dnat";
                    return Err(bad(flag, &text, want));
                }
                (true, false) => {
                    let want = "an address of this host with --dnat";
                    return Err(bad(flag, &text, want));
                }
                _ => {}
            }
        }
        if dnat {
            self.enough_inner_addresses()?;
            self.translate(name);
        }
        Ok(self)
    }

    /// Checks that the [`INNER_ADDRESSES`] inner addresses are enough.
    fn enough_inner_addresses(&self) -> Result<(), Failure> {
        let listening = self.outside.iter().map(SocketAddr::ip);
        let all: HashSet<IpAddr> = listening.chain(self.announce.iter().map(|a| a.0)).collect();
        if all.len() <= INNER_ADDRESSES {
            return Ok(());
        }
        let text = format!(
            ": found {} different addresses with those of --announce, want {INNER_ADDRESSES} at most \
             with --dnat; start further gateways for the rest",
            all.len()
        );
        Err(Failure::setting("listen", text))
    }

    /// Assigns an address of Spindle's to every outside address.
    fn translate(&mut self, name: &str) {
        let mut behind: Vec<IpAddr> = Vec::new();
        let mut inside = |addr: IpAddr| {
            let at = behind.iter().position(|b| *b == addr);
            let at = at.unwrap_or_else(|| {
                behind.push(addr);
                behind.len() - 1
            });
            translated(name, at as u16, addr.is_ipv4())
        };
        self.inside = (self.outside.iter())
            .map(|a| SocketAddr::new(inside(a.ip()), a.port()))
            .collect();
        let pairs = self.outside.iter().zip(&self.inside);
        self.dnat = pairs
            .map(|(from, to)| Dnat {
                from: *from,
                to: *to,
            })
            .collect();
        for (addr, own) in &self.announce {
            let to = inside(*addr);
            let listening = self.outside.iter().map(SocketAddr::port);
            for port in own.map_or_else(|| listening.collect(), |port| vec![port]) {
                let rule = Dnat {
                    from: SocketAddr::new(*addr, port),
                    to: SocketAddr::new(to, port),
                };
                if !self.dnat.iter().any(|d| d.from == rule.from) {
                    self.dnat.push(rule);
                }
            }
        }
    }

    /// Spindle's own addresses that clients know by another address, each with the latter.
    fn translations(&self) -> Vec<(IpAddr, IpAddr)> {
        let mut list: Vec<_> = (self.dnat.iter())
            .map(|d| (d.to.ip(), d.from.ip()))
            .collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Addresses inside, each with its address outside.
    fn pairs(&self) -> Vec<(SocketAddr, SocketAddr)> {
        let inside = |o: &SocketAddr| {
            let over_udp = UdpServer::listener_addr(o.port());
            let rewritten = self.dnat.iter().find(|d| d.from == *o).map(|d| d.to);
            rewritten.or(self.inside.contains(&over_udp).then_some(over_udp))
        };
        self.outside
            .iter()
            .filter_map(|o| Some((inside(o)?, *o)))
            .collect()
    }

    fn setup(&self, tun: &TunOptions) -> SetupOptions {
        let mut addresses: Vec<IpAddr> = self.inside.iter().map(SocketAddr::ip).collect();
        match self.dnat.is_empty() {
            true => addresses.extend(self.announce.iter().map(|a| a.0)),
            false => addresses.extend(self.dnat.iter().map(|d| d.to.ip())),
        }
        addresses.sort_unstable();
        addresses.dedup();
        SetupOptions {
            tun: tun.clone(),
            addresses,
            dnat: self.dnat.clone(),
            source_routes: Vec::new(),
            forwarding: true,
        }
    }
}

/// Parses an address, with or without a port.
fn announced(text: &str) -> Result<(IpAddr, Option<u16>), Failure> {
    let whole = text.parse::<SocketAddr>().ok().filter(|a| a.port() != 0);
    if let Some(end) = whole {
        return Ok((end.ip(), Some(end.port())));
    }
    let want = "an address, with a port if it is another than --listen has, such as 192.0.2.2, \
                192.0.2.2:8443 or [2001:db8::2]:8443";
    let addr = text.parse().map_err(|_| bad("announce", text, want))?;
    Ok((addr, None))
}

/// The addresses whose subflows are backups. Each must be one of the addresses for clients.
fn backup(
    args: &Args,
    listen: &[SocketAddr],
    announce: &[(IpAddr, Option<u16>)],
) -> Result<Vec<IpAddr>, Failure> {
    let listed =
        |addr| listen.iter().any(|l| l.ip() == addr) || announce.iter().any(|(a, _)| *a == addr);
    let checked = |text: &String| {
        let addr = address("backup", text)?;
        let want = "one of the --listen and --announce addresses";
        listed(addr)
            .then_some(addr)
            .ok_or_else(|| bad("backup", text, want))
    };
    args.backup.iter().map(checked).collect()
}

/// Spindle's own address number `index` behind the host's, different for each device. It is in 198.18.0.0/15
/// (RFC 2544, not used on any network except for tests) or in a unique local prefix (RFC 4193) that spells the
/// program's name.
fn translated(device: &str, index: u16, v4: bool) -> IpAddr {
    // FNV-1a.
    let hash = device.bytes().fold(0x811c_9dc5_u32, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    });
    let number = INNER_ADDRESSES as u16 - 1;
    let host = (hash as u16) & !number | (index & number);
    if v4 {
        let [high, low] = host.to_be_bytes();
        Ipv4Addr::new(198, 18, high, low).into()
    } else {
        Ipv6Addr::new(0xfd53, 0x7069, 0x6e64, 0x6c66, 0, 0, 0, host).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translated_addresses_differ_by_device_and_number() {
        let all: HashSet<IpAddr> = (0..4)
            .flat_map(|i| ["spin0", "spin1"].map(|d| translated(d, i, true)))
            .collect();
        assert_eq!(all.len(), 8);
        assert!(translated("spin0", 0, false).is_ipv6());
    }

    #[test]
    fn more_addresses_than_inner_addresses_are_refused() {
        let places = |count: u8| Places {
            outside: vec!["192.0.2.1:80".parse().unwrap()],
            inside: Vec::new(),
            announce: (0..count)
                .map(|i| (IpAddr::from([192, 0, 2, 2 + i]), None))
                .collect(),
            backup: Vec::new(),
            dnat: Vec::new(),
        };
        assert!(places(31).enough_inner_addresses().is_ok());
        assert!(places(32).enough_inner_addresses().is_err());
    }

    #[test]
    fn announced_addresses_are_rewritten_for_every_port() {
        let mut places = Places {
            outside: vec![
                "192.0.2.1:80".parse().unwrap(),
                "192.0.2.1:443".parse().unwrap(),
            ],
            inside: Vec::new(),
            announce: vec![("192.0.2.2".parse().unwrap(), None)],
            backup: Vec::new(),
            dnat: Vec::new(),
        };
        places.translate("spin0");
        assert_eq!(places.dnat.len(), 4);
        assert_eq!(places.inside[0].ip(), places.inside[1].ip());
        let pairs: Vec<_> = places
            .inside
            .iter()
            .copied()
            .zip(places.outside.clone())
            .collect();
        assert_eq!(places.pairs(), pairs);
        assert_eq!(places.setup(&TunOptions::new("spin0")).addresses.len(), 2);
        let outside: Vec<_> = places.translations().into_iter().map(|t| t.1).collect();
        assert_eq!(
            outside,
            ["192.0.2.1", "192.0.2.2"].map(|a| a.parse::<IpAddr>().unwrap())
        );
    }

    #[test]
    fn an_announced_address_with_a_port_is_rewritten_for_that_port_only() {
        let mut places = Places {
            outside: vec!["192.0.2.1:80".parse().unwrap()],
            inside: Vec::new(),
            announce: vec![announced("192.0.2.2:8443").unwrap()],
            backup: Vec::new(),
            dnat: Vec::new(),
        };
        places.translate("spin0");
        let from: Vec<_> = places.dnat.iter().map(|d| d.from.to_string()).collect();
        assert_eq!(from, ["192.0.2.1:80", "192.0.2.2:8443"]);
        assert!(announced("192.0.2.2:0").is_err() && announced("port").is_err());
    }
}
