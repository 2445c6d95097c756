//! The hosts of a scenario: their addresses, the class of their packets, and the configuration of their stacks.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use spindle_fabric::Class;
use spindle_mptcp::path_manager::Endpoints;
use spindle_mptcp::stage::has_priority;
use spindle_mptcp::{Config, EcnMode, InitialWindow, MultipathConfig};
use spindle_wire::Endpoint;

use crate::registry::Transport;
use crate::scenario::{HostSettings, Window};

/// How often a simulated host retransmits a SYN: as often as Linux and the papers' testbeds
/// (`tcp_syn_retries`).
const SYN_RETRIES: u32 = 6;

/// A transport's configuration with the scenario's settings applied.
pub fn configure(transport: &Transport, host: &HostSettings) -> Config {
    let mut config = transport.config();
    for variant in &host.variants.0 {
        config = variant.apply(config.clone()).unwrap_or(config);
    }
    if let Some(controller) = &host.congestion
        && !config.congestion.is_part_of_transport()
    {
        config.congestion = controller.clone();
    }
    let tcp = &mut config.tcp;
    tcp.mss = host.mss;
    tcp.initial_window = match host.initial_window {
        Window::Total(n) => InitialWindow::Total(n),
        Window::PerSubflow(n) => InitialWindow::PerSubflow(n),
    };
    tcp.min_rto = host.min_rto;
    tcp.initial_rto = host.initial_rto;
    // A scenario has one timeout for every case without an RTT measurement.
    tcp.data_rto.after_syn_timeout = host.initial_rto;
    tcp.syn_retries = SYN_RETRIES;
    tcp.send_buffer = host.send_buffer as usize;
    tcp.receive_buffer = host.receive_buffer as usize;
    tcp.delayed_ack = host.delayed_ack;
    tcp.timestamps = host.timestamps;
    tcp.output_limit = host.output_limit;
    tcp.user_timeout = host.user_timeout;
    tcp.msl = host.msl;
    if host.max_window.is_some() {
        tcp.max_window.congestion = host.max_window;
    }
    tcp.slow_start.initial_ssthresh = host.initial_ssthresh;
    if let (Some(m), Some(most)) = (&mut config.multipath, host.join_spacing) {
        m.join_spacing = most;
    }
    config.tcp.ecn = match (host.ecn, config.congestion.ecn()) {
        (false, _) => EcnMode::Off,
        (true, EcnMode::Off) => EcnMode::Classic,
        (true, needed) => needed,
    };
    config
}

pub use crate::topologies::MAX_INTERFACES;

/// Position of the interface's number in an address.
const INTERFACE_SHIFT: u32 = 20;

/// The address of a host's interface, both counted from 0. First interfaces have 10.0.0.1 and up, second
/// interfaces 10.16.0.1 and up.
pub fn address(host: u32, interface: u32) -> IpAddr {
    let n = (interface << INTERFACE_SHIFT) | (host + 1);
    IpAddr::V4(Ipv4Addr::new(10, (n >> 16) as u8, (n >> 8) as u8, n as u8))
}

/// The host and the interface with this address.
pub fn place_of(addr: IpAddr) -> Option<(u32, u32)> {
    match addr {
        IpAddr::V4(a) => {
            let [_, x, y, z] = a.octets();
            let n = u32::from_be_bytes([0, x, y, z]);
            let host = n & ((1 << INTERFACE_SHIFT) - 1);
            Some((host.checked_sub(1)?, n >> INTERFACE_SHIFT))
        }
        IpAddr::V6(_) => None,
    }
}

/// An endpoint on a host's first interface.
pub fn endpoint(host: u32, port: u16) -> Endpoint {
    Endpoint::new(address(host, 0), port)
}

/// The host with this address.
pub fn host_of(endpoint: &Endpoint) -> Option<u32> {
    place_of(endpoint.addr).map(|(host, _)| host)
}

/// The configuration of a connection that starts from interface `first` of a host with `interfaces` interfaces.
/// If there are several, a multipath transport opens one subflow from each, because the address determines the
/// path there, unless its path manager [chooses addresses](spindle_mptcp::path_manager::PathManager) itself.
/// Otherwise it is `config` itself.
///
/// If `subflows` is not empty, it contains the number of subflows on each interface. The first subflow of all
/// is on `first` in any case.
pub fn over_interfaces(
    config: &Config,
    host: u32,
    interfaces: u32,
    first: u32,
    subflows: &[u32],
) -> Config {
    let mut config = config.clone();
    let replaced = |m: &&mut MultipathConfig| !m.path_manager.uses_local_addresses();
    if interfaces > 1
        && let Some(m) = config.multipath.as_mut().filter(replaced)
    {
        let on = |i: u32| subflows.get(i as usize).copied();
        let wanted = |i: u32| on(i).unwrap_or(u32::from(subflows.is_empty()));
        let others = (0..interfaces).flat_map(|i| {
            let more = wanted(i).saturating_sub(u32::from(i == first));
            (0..more).map(move |_| address(host, i))
        });
        m.path_manager = Arc::new(Endpoints(others.collect()));
    }
    config
}

/// The class in which packets with this code point wait at ports: high if it [has priority](has_priority).
pub fn class(dscp: u8) -> Class {
    if has_priority(dscp) {
        Class::High
    } else {
        Class::Low
    }
}

#[cfg(test)]
mod tests {
    use spindle_mptcp::path_manager::FullMesh;
    use spindle_mptcp::preset;

    use super::*;

    fn manager(config: &Config) -> String {
        format!("{:?}", config.multipath.as_ref().unwrap().path_manager)
    }

    #[test]
    fn configuration_for_one_interface_is_adapted_to_another() {
        let config = preset("mptcp-3").unwrap().config;
        let over = |config, first| over_interfaces(config, 0, 2, first, &[2, 1]);
        let (one, two) = (over(&config, 0), over(&config, 1));
        assert_ne!(manager(&one), manager(&two));
        assert_eq!(manager(&over(&one, 1)), manager(&two));
    }

    #[test]
    fn path_manager_that_finds_addresses_itself_is_kept() {
        let mut config = preset("mptcp-3").unwrap().config;
        config.multipath.as_mut().unwrap().path_manager = Arc::new(FullMesh);
        assert_eq!(manager(&over_interfaces(&config, 0, 2, 0, &[])), "FullMesh");
    }
}
