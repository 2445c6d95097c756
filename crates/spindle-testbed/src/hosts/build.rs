//! Makes hosts of every kind: on the kernel's stack, or on Spindle over one of its carriers.

use std::net::SocketAddr;
use std::sync::Arc;

use spindle_experiment::hosts::{address, configure, over_interfaces};
use spindle_experiment::informed::informed;
use spindle_experiment::registry::{Application, Registry};
use spindle_experiment::scenario::Window;
use spindle_experiment::traffic::Plan;
use spindle_experiment::{Carrier, End, Scenario};
use spindle_mptcp::path_manager::Passive;
use spindle_mptcp::{Config, StackConfig, for_unmodified_receivers};
use spindle_net::limits::Limits;
use spindle_net::udp::{UdpClient, UdpClientOptions, UdpServer, UdpServerOptions};
use spindle_net::{Link, LinkKind, Network, NetworkConfig, TIMING_PRECISION, memory, wire_config};

use crate::error::TestbedError;
use crate::hosts::PORT;
use crate::hosts::gateway::GatewayHost;
use crate::hosts::host::Host;
use crate::hosts::namespace::{KernelHost, KernelTcp, Made, Namespace, Role};
use crate::model::fabric::Attachment;

/// Segments that may wait between a Spindle host and the fabric's thread.
const PORT_CAPACITY: usize = 16_384;
/// Length of an IPv4 and a TCP header.
const HEADERS: u32 = 40;
/// The smallest MTU for UDP encapsulation. Its path MTU search begins at 1200 bytes.
const UDP_MTU: u32 = 1280;
/// A burst as large as an IP packet. Each link reduces it to its limit.
const BURST: u32 = 65_435;

/// A host that will be made.
pub(crate) struct HostRequest<'a> {
    pub(crate) host: u32,
    /// The host's own end, and its peer's.
    pub(crate) end: End<'a>,
    pub(crate) peer: End<'a>,
    /// The network. Hosts that code know it, as in the lab.
    pub(crate) network: &'a spindle_fabric::Network,
    /// The number of interfaces of each host.
    pub(crate) interfaces: &'a [u32],
    pub(crate) plan: &'a Plan,
}

impl HostRequest<'_> {
    fn own(&self) -> u32 {
        self.interfaces[self.host as usize]
    }

    fn serves(&self) -> bool {
        self.plan.flows.iter().any(|f| f.server == self.host)
    }

    /// Checks that the host is either a server or a client. The links for gateways and UDP do not support both
    /// roles in one host.
    fn one_role(&self) -> Result<(), TestbedError> {
        if self.serves() && self.plan.flows.iter().any(|f| f.client == self.host) {
            return Err(TestbedError::Scenario(format!(
                "host {} is both a server and a client, want one of the two with udp: and gateway:",
                self.host
            )));
        }
        Ok(())
    }
}

/// Makes the hosts of a scenario.
pub(crate) struct HostBuilder<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) registry: &'a Registry,
}

impl HostBuilder<'_> {
    /// Makes a host and its attachment to the fabric.
    pub(crate) fn build(
        &self,
        place: &HostRequest<'_>,
    ) -> Result<(Host, Attachment), TestbedError> {
        if place.end.is_kernel() {
            return self.on_kernel(place);
        }
        let config = self.config(place)?;
        match place.end.carrier {
            Carrier::Fabric => {
                let (link, port) = memory::port(PORT_CAPACITY);
                let link = link.with_mss(self.scenario.host.mss);
                let network = self.network(place, Box::new(link))?;
                let host = Host::Spindle {
                    network,
                    configs: configs(place, &config),
                    over_udp: false,
                    _namespace: None,
                };
                Ok((host, Attachment::Spindle(port)))
            }
            Carrier::Tun => {
                let (namespace, devices, network) = self.routed(place)?;
                let host = Host::Spindle {
                    network,
                    configs: configs(place, &in_real_time(config)),
                    over_udp: false,
                    _namespace: Some(namespace),
                };
                Ok((host, Attachment::Devices(devices)))
            }
            Carrier::Gateway => {
                place.one_role()?;
                let (namespace, devices, network) = self.routed(place)?;
                let config = self.gateway_config(config);
                let front = GatewayHost::new(network, namespace, Arc::new(config));
                Ok((Host::Gateway(front), Attachment::Devices(devices)))
            }
            Carrier::Udp => self.over_udp(place, config),
        }
    }

    fn on_kernel(&self, place: &HostRequest<'_>) -> Result<(Host, Attachment), TestbedError> {
        let multipath = place.end.preset == "kernel-mptcp";
        let role = Role::Sockets(self.kernel_tcp(multipath));
        let made = Namespace::make(&self.kernel_host(place, role))?;
        let host = Host::Kernel {
            namespace: made.namespace,
            multipath,
            interfaces: place.own(),
        };
        Ok((host, Attachment::Devices(made.devices)))
    }

    /// The configuration of a Spindle host's connections. It is the same for all carriers.
    fn config(&self, place: &HostRequest<'_>) -> Result<Config, TestbedError> {
        let name = place.end.preset;
        let no = || TestbedError::Transport(self.registry.no_such_transport(name));
        let transport = self.registry.find(name).ok_or_else(no)?;
        if transport.application != Application::Plain {
            let text = format!("{name}: replicated requests are not made in real time");
            return Err(TestbedError::Transport(text));
        }
        let config = configure(transport, &self.scenario.host);
        let config = match &config.coding {
            None => config,
            Some(_) if matches!(place.end.carrier, Carrier::Tun | Carrier::Gateway) => {
                let text =
                    format!("{name} codes packets, which a TUN does not carry; want udp:{name}");
                return Err(TestbedError::Transport(text));
            }
            Some(_) => informed(config, place.network, self.scenario),
        };
        Ok(match place.peer.is_kernel() {
            true => for_unmodified_receivers(config),
            false => config,
        })
    }

    /// The configuration that the gateway's program uses, except for the scenario's settings of its hosts.
    fn gateway_config(&self, config: Config) -> Config {
        let limits = Limits::default();
        let mut config = wire_config(config, LinkKind::Tun, &limits, Arc::new(Passive));
        let s = &self.scenario.host;
        (config.tcp.min_rto, config.tcp.timestamps) = (s.min_rto, s.timestamps);
        config.tcp.user_timeout = s.user_timeout;
        config
    }

    fn network(
        &self,
        place: &HostRequest<'_>,
        link: Box<dyn Link>,
    ) -> Result<Network, TestbedError> {
        let host = place.host;
        let stack = StackConfig {
            addresses: (0..place.own()).map(|i| address(host, i)).collect(),
            remembered_paths: self.scenario.host.remembered_paths as usize,
            ..StackConfig::default()
        };
        let config = NetworkConfig {
            stack,
            name: format!("host-{host}"),
        };
        Ok(Network::start(config, link)?)
    }

    /// A data path on a TUN device in a namespace that routes the host's addresses to it.
    fn routed(
        &self,
        place: &HostRequest<'_>,
    ) -> Result<(Namespace, Vec<tun_rs::SyncDevice>, Network), TestbedError> {
        let made = Namespace::make(&self.kernel_host(place, Role::Routed))?;
        let Made {
            namespace,
            devices,
            tun: Some(link),
        } = made
        else {
            let text = "a namespace came without Spindle's device".to_owned();
            return Err(TestbedError::Scenario(text));
        };
        Ok((namespace, devices, self.network(place, Box::new(link))?))
    }

    /// A data path on UDP sockets in a namespace. It starts while the thread is in that namespace. A client
    /// opens its sockets as subflows need them.
    fn over_udp(
        &self,
        place: &HostRequest<'_>,
        config: Config,
    ) -> Result<(Host, Attachment), TestbedError> {
        place.one_role()?;
        let mtu = self.mtu();
        if u32::from(mtu) < UDP_MTU {
            return Err(TestbedError::Scenario(format!(
                "scenario.mss: found {}, want {} or more with udp:",
                self.scenario.host.mss,
                UDP_MTU - HEADERS
            )));
        }
        let role = Role::Sockets(self.kernel_tcp(false));
        let Made {
            namespace, devices, ..
        } = Namespace::make(&self.kernel_host(place, role))?;
        let started = namespace.within(|| {
            let link: Box<dyn Link> = if place.serves() {
                let own = (0..place.own()).map(|i| SocketAddr::new(address(place.host, i), PORT));
                let mut options = UdpServerOptions::new(own.collect());
                options.max_mtu = mtu;
                Box::new(UdpServer::bind(options)?)
            } else {
                let mut options = UdpClientOptions::new(PORT);
                options.max_mtu = mtu;
                Box::new(UdpClient::new(options)?)
            };
            self.network(place, link)
        });
        let network = started.map_err(TestbedError::system("enter a namespace"))??;
        let host = Host::Spindle {
            network,
            configs: configs(place, &in_real_time(config)),
            over_udp: true,
            _namespace: Some(namespace),
        };
        Ok((host, Attachment::Devices(devices)))
    }

    fn mtu(&self) -> u16 {
        (self.scenario.host.mss + HEADERS).min(65_535) as u16
    }

    fn kernel_host(&self, place: &HostRequest<'_>, role: Role) -> KernelHost {
        KernelHost {
            host: place.host,
            interfaces: place.own(),
            mtu: self.mtu(),
            role,
        }
    }

    /// The settings of a kernel's TCP: the scenario's settings, as far as the kernel supports them.
    fn kernel_tcp(&self, multipath: bool) -> KernelTcp {
        let s = &self.scenario.host;
        KernelTcp {
            congestion: s
                .congestion
                .as_ref()
                .and_then(|c| c.kernel_name())
                .unwrap_or(KERNEL_DEFAULT)
                .to_owned(),
            ecn: s.ecn,
            timestamps: s.timestamps,
            min_rto_ms: s.min_rto.as_micros().div_ceil(1000).max(1),
            initial_window: match s.initial_window {
                Window::PerSubflow(n) => Some(n),
                Window::Total(_) => None,
            },
            multipath,
        }
    }
}

/// The congestion controller of a kernel host if the scenario sets none that the kernel has.
const KERNEL_DEFAULT: &str = "cubic";

/// What every host in real time has: large bursts, since the kernel segments them, and a timing precision.
fn in_real_time(mut config: Config) -> Config {
    config.tcp.burst = BURST;
    config.timing_precision = TIMING_PRECISION;
    config
}

/// The configuration for each interface that a connection can start from.
fn configs(place: &HostRequest<'_>, config: &Config) -> Vec<Arc<Config>> {
    // A server's windows are divided as if it were its first client's end.
    let client = place.plan.flows.first().map_or(place.host, |f| f.client);
    let of = if place.own() > 1 { place.host } else { client };
    let n = place.interfaces[of as usize];
    let subflows = &place.plan.subflows;
    let each = |first| Arc::new(over_interfaces(config, of, n, first, subflows));
    (0..n).map(each).collect()
}
