//! `spindle gateway`.

mod reload;
mod services;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use spindle_experiment::registry::Registry;
use spindle_mptcp::StackConfig;
use spindle_mptcp::path_manager::Passive;
use spindle_net::gateway::{Gateway, GatewayOptions, Service};
use spindle_net::setup::{Dnat, SetupError, SetupOptions};
use spindle_net::takeover::Offered;
use spindle_net::tls::Certificates;
use spindle_net::tun::TunOptions;
use spindle_net::udp::{UdpServer, UdpServerOptions};
use spindle_net::{LinkKind, NetError};

use super::proxy::closed;
use super::service::{Plan, Reloaded, Running, Wire, address, bad, is_loopback, is_ours, live};
use super::tls;
use crate::args::service::Gateway as Args;
use crate::failure::{Failure, Setting};
use crate::settings::ServiceTable;
pub(super) use reload::ServiceReader;
pub(super) use services::Asked;
use services::Checked;

/// Most addresses of this host that one gateway may have ([`translated`]).
const INNER_ADDRESSES: usize = 32;
/// The kind of the service, as its status names it.
pub(super) const KIND: &str = "gateway";
pub(crate) fn gateway(
    registry: &Registry,
    args: &Args,
    tables: &[ServiceTable],
) -> Result<ExitCode, Failure> {
    let plan = Plan::new(registry, &args.service)?;
    let services = Checked::all(args, tables)?;
    let places = Places::new(&plan, args, &services)?;
    let tls = tls::of_gateway(args)?;
    for service in &services {
        let listen = &service.named.listen;
        let allowed = match plan.kind {
            LinkKind::Udp => guarded(listen, args, tls.is_some()),
            LinkKind::Tun => Ok(()),
        };
        let allowed = allowed.and_then(|()| closed(listen, &service.to, args));
        allowed.map_err(|f| service.place(f))?;
    }
    let config = plan.config(Arc::new(Passive), |m| {
        m.backup_addresses.clone_from(&places.backup)
    });
    let mut options = GatewayOptions::of_services(places.services(&services), config);
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
    let to: Vec<String> = services.iter().map(|s| s.to.to_string()).collect();
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
                to: to.join(", "),
                services: gateway.services(),
                serve: gateway.serve(),
            })
        },
        Reloaded {
            tls: tls.as_ref().map(|tls| tls as &dyn Certificates),
            users: None,
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
            let link = UdpServer::bind(places.udp_server(plan));
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
            let wire = std::mem::take(&mut offered.wire);
            let link = UdpServer::from_descriptors(places.udp_server(plan), wire);
            Ok(Wire::plain(link?))
        }
    }
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
    /// The listening addresses of all services.
    outside: Vec<SocketAddr>,
    /// The address inside for each of `outside`.
    inside: Vec<SocketAddr>,
    /// The index of the service of each of `outside`.
    service: Vec<usize>,
    over_udp: bool,
    /// Addresses that are announced to clients, as known outside. Each has its own port or uses that of the
    /// connection.
    announce: Vec<(IpAddr, Option<u16>)>,
    /// The addresses outside whose subflows are backups.
    backup: Vec<IpAddr>,
    dnat: Vec<Dnat>,
}

impl Places {
    fn new(plan: &Plan, args: &Args, services: &[Checked]) -> Result<Self, Failure> {
        let listen = |(i, s): (usize, &Checked)| {
            let listen = s.named.listen.clone();
            listen.into_iter().map(move |addr| (addr, i))
        };
        let (outside, service): (Vec<_>, Vec<_>) =
            services.iter().enumerate().flat_map(listen).unzip();
        let announce = args.announce.iter().map(|a| announced(a));
        let announce = announce.collect::<Result<Vec<_>, _>>()?;
        let places = Self {
            backup: backup(args, &outside, &announce)?,
            inside: outside.clone(),
            outside,
            service,
            over_udp: plan.tun.is_none(),
            announce,
            dnat: Vec::new(),
        };
        match &plan.tun {
            Some(tun) => places.over_tun(&tun.name, args.dnat, services),
            None => places.over_udp(args.dnat),
        }
    }

    fn over_udp(mut self, dnat: bool) -> Result<Self, Failure> {
        if dnat {
            let text = " belongs to --tun; over --udp the gateway listens on the host's own \
                        addresses anyway";
            return Err(Failure::setting("dnat", text));
        }
        let bound = |a: &(IpAddr, Option<u16>)| self.outside.iter().any(|l| is_bound(*l, *a));
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
        let places = self.service.iter().zip(&self.outside);
        let inside = places.map(|(s, a)| UdpServer::listener_of(*s as u32, a.port()));
        self.inside = inside.collect();
        Ok(self)
    }

    fn over_tun(mut self, name: &str, dnat: bool, services: &[Checked]) -> Result<Self, Failure> {
        for (addr, service) in self.outside.iter().zip(&self.service) {
            usable("listen", addr.ip(), dnat).map_err(|f| services[*service].place(f))?;
        }
        for (addr, _) in &self.announce {
            usable("announce", *addr, dnat)?;
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

    /// Assigns an address of Spindle's to every outside address. It does not depend on the order of the addresses,
    /// since a process that takes over may have them in another order or in other services.
    fn translate(&mut self, name: &str) {
        let listening = self.outside.iter().map(SocketAddr::ip);
        let mut behind: Vec<IpAddr> = listening.chain(self.announce.iter().map(|a| a.0)).collect();
        behind.sort_unstable();
        behind.dedup();
        let inside = |addr: IpAddr| {
            let at = behind.binary_search(&addr).unwrap_or_default();
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

    /// The services, with their addresses.
    fn services(&self, checked: &[Checked]) -> Vec<Service> {
        let service = |(index, c): (usize, &Checked)| {
            let pairs = self.pairs(index);
            let mut listen: Vec<_> = pairs.iter().map(|(inside, _)| *inside).collect();
            // Over UDP, addresses with the same port have one listener.
            listen.sort_unstable();
            listen.dedup();
            Service {
                name: c.named.name.clone(),
                announce: self.announced_by(index),
                outside: pairs,
                proxy_protocol: c.named.asked.proxy_protocol,
                networks: c.named.networks.clone(),
                ..Service::new(listen, c.to.clone())
            }
        };
        checked.iter().enumerate().map(service).collect()
    }

    /// The addresses inside of a service, each with its address outside.
    fn pairs(&self, service: usize) -> Vec<(SocketAddr, SocketAddr)> {
        let pairs = self
            .inside
            .iter()
            .copied()
            .zip(self.outside.iter().copied());
        let of = pairs.zip(&self.service).filter(|(_, s)| **s == service);
        of.map(|(pair, _)| pair).collect()
    }

    /// The addresses that a service announces. Over UDP these are only its own: its clients reach
    /// no other.
    fn announced_by(&self, service: usize) -> Vec<(IpAddr, Option<u16>)> {
        let pairs = self.pairs(service);
        let own = |a: &&(IpAddr, Option<u16>)| pairs.iter().any(|(_, l)| is_bound(*l, **a));
        let all = self.announce.iter().filter(|a| !self.over_udp || own(a));
        all.copied().collect()
    }

    /// The options of the link over UDP.
    fn udp_server(&self, plan: &Plan) -> UdpServerOptions {
        let mut options = plan.limits.udp_server(self.outside.clone());
        options.services = self.service.iter().map(|s| *s as u32).collect();
        options
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

/// Whether a socket over UDP at `listen` is at this address.
fn is_bound(listen: SocketAddr, (addr, port): (IpAddr, Option<u16>)) -> bool {
    let any = listen.ip().is_unspecified() && listen.is_ipv4() == addr.is_ipv4();
    (listen.ip() == addr || any) && port.is_none_or(|port| port == listen.port())
}

/// Checks that clients can reach an address over TUN.
fn usable(flag: &str, ip: IpAddr, dnat: bool) -> Result<(), Failure> {
    let text = ip.to_string();
    if ip.is_unspecified() {
        let want = "the very address, which clients connect to";
        return Err(bad(flag, &text, want));
    }
    match (dnat, is_ours(ip)) {
        (false, true) => {
            let want = "an address that is not this host's, for Spindle alone, whose packets are routed \
                        here; for one of this host add --dnat";
            Err(bad(flag, &text, want))
        }
        (true, false) => Err(bad(flag, &text, "an address of this host with --dnat")),
        _ => Ok(()),
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
            service: vec![0],
            over_udp: false,
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
            service: vec![0, 0],
            over_udp: false,
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
        assert_eq!(places.pairs(0), pairs);
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
            service: vec![0],
            over_udp: false,
            announce: vec![announced("192.0.2.2:8443").unwrap()],
            backup: Vec::new(),
            dnat: Vec::new(),
        };
        places.translate("spin0");
        let from: Vec<_> = places.dnat.iter().map(|d| d.from.to_string()).collect();
        assert_eq!(from, ["192.0.2.1:80", "192.0.2.2:8443"]);
        assert!(announced("192.0.2.2:0").is_err() && announced("port").is_err());
    }

    #[test]
    fn inner_addresses_do_not_depend_on_the_order_of_the_services() {
        let places = |outside: [&str; 3]| {
            let mut places = Places {
                outside: outside.map(|a| a.parse().unwrap()).to_vec(),
                inside: Vec::new(),
                service: vec![0, 1, 1],
                over_udp: false,
                announce: Vec::new(),
                backup: Vec::new(),
                dnat: Vec::new(),
            };
            places.translate("spin0");
            let pairs = [places.pairs(0), places.pairs(1)];
            assert_eq!(pairs.each_ref().map(Vec::len), [1, 2]);
            let mut all = pairs.concat();
            all.sort_unstable();
            all
        };
        let one = places(["192.0.2.2:80", "192.0.2.1:443", "[2001:db8::1]:80"]);
        let other = places(["[2001:db8::1]:80", "192.0.2.2:80", "192.0.2.1:443"]);
        assert_eq!(one, other);
    }
}
