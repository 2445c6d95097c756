//! [`Networks`]: the networks whose clients are allowed, and those whose clients are denied.

use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::Admission;

/// Why a text is not a network.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// It is neither an address nor a network.
    #[error("want an address or a network, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32")]
    Form,
    /// It has bits of a host.
    #[error("it has bits beyond the length of its prefix; want {0}")]
    HostBits(IpNet),
    /// It is an IPv4 address or network in the form of IPv6.
    #[error("it is an IPv4-mapped address; want the IPv4 address or network itself")]
    Mapped,
}

/// A network of clients: an address, or an address with the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientNetwork(IpNet);

impl FromStr for ClientNetwork {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let address = text.parse::<IpAddr>().map(IpNet::from);
        let network = address.or_else(|_| text.parse::<IpNet>());
        let network = network.map_err(|_| NetworkError::Form)?;
        if network.trunc() != network {
            return Err(NetworkError::HostBits(network.trunc()));
        }
        match network {
            IpNet::V6(n) if n.prefix_len() >= 96 && n.addr().to_ipv4_mapped().is_some() => {
                Err(NetworkError::Mapped)
            }
            network => Ok(Self(network)),
        }
    }
}

/// What a list says about a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allow,
    Deny,
}

/// The networks of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table {
    /// The verdict for each prefix: its length, and its bits followed by zeros.
    verdicts: HashMap<(u8, u128), Verdict>,
    /// The lengths in use, the longest first. A look-up takes one step for each.
    lengths: Vec<u8>,
}

impl Table {
    /// Adds a network. A denied one replaces the same network if that is allowed.
    fn add(&mut self, network: IpNet, verdict: Verdict) {
        let length = network.prefix_len();
        let prefix = prefix(network.addr(), length);
        let known = self.verdicts.entry((length, prefix)).or_insert(verdict);
        if verdict == Verdict::Deny {
            *known = verdict;
        }
        if let Err(at) = (self.lengths).binary_search_by(|l| length.cmp(l)) {
            self.lengths.insert(at, length);
        }
    }

    /// The verdict for the longest prefix of the address.
    fn find(&self, addr: IpAddr) -> Option<Verdict> {
        let verdict = |length: &u8| self.verdicts.get(&(*length, prefix(addr, *length)));
        self.lengths.iter().find_map(verdict).copied()
    }
}

/// The first `length` bits of an address, followed by zeros.
fn prefix(addr: IpAddr, length: u8) -> u128 {
    let (bits, width) = match addr {
        IpAddr::V4(a) => (u128::from(a.to_bits()), 32),
        IpAddr::V6(a) => (a.to_bits(), 128),
    };
    let host = width - u32::from(length).min(width);
    bits & u128::MAX.checked_shl(host).unwrap_or(0)
}

/// The networks whose clients may connect.
///
/// The most specific network that contains a client's address decides: the one with the longest prefix. If the same
/// network is both allowed and denied, it is denied. A client in none of the networks is admitted if no network is
/// allowed, and refused otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    v4: Table,
    v6: Table,
    /// Whether any network is allowed, so that clients in none are refused.
    allows: bool,
}

impl Networks {
    /// These networks.
    pub fn new(
        allow: impl IntoIterator<Item = ClientNetwork>,
        deny: impl IntoIterator<Item = ClientNetwork>,
    ) -> Self {
        let mut networks = Self::default();
        for network in allow {
            networks.allows = true;
            networks.table(network.0).add(network.0, Verdict::Allow);
        }
        for network in deny {
            networks.table(network.0).add(network.0, Verdict::Deny);
        }
        networks
    }

    fn table(&mut self, network: IpNet) -> &mut Table {
        match network {
            IpNet::V4(_) => &mut self.v4,
            IpNet::V6(_) => &mut self.v6,
        }
    }

    /// Whether all clients are admitted because no network is listed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Admission for Networks {
    fn admits(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        let found = match peer {
            IpAddr::V4(_) => self.v4.find(peer),
            IpAddr::V6(_) => self.v6.find(peer),
        };
        found.map_or(!self.allows, |verdict| verdict == Verdict::Allow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipnet::{Ipv4Net, Ipv6Net};
    use proptest::prelude::*;

    fn networks(allow: &[&str], deny: &[&str]) -> Networks {
        let parse = |text: &&str| text.parse::<ClientNetwork>().unwrap();
        Networks::new(allow.iter().map(parse), deny.iter().map(parse))
    }

    fn admits(networks: &Networks, peer: &str) -> bool {
        networks.admits(peer.parse().unwrap())
    }

    #[test]
    fn most_specific_network_decides_and_deny_wins_among_equals() {
        let n = networks(
            &["10.0.0.0/8", "10.1.2.0/24", "192.0.2.1"],
            &["10.1.0.0/16", "192.0.2.1"],
        );
        assert!(admits(&n, "10.9.9.9"));
        assert!(!admits(&n, "10.1.3.1"));
        assert!(admits(&n, "10.1.2.3"));
        assert!(!admits(&n, "192.0.2.1"), "denied as well");
        assert!(!admits(&n, "192.0.2.2"), "in none of them");
        assert!(!admits(&n, "2001:db8::1"), "in none of them");
    }

    #[test]
    fn without_allowed_networks_all_but_the_denied_ones_are_admitted() {
        let n = networks(&[], &["2001:db8::/32", "198.51.100.0/24"]);
        assert!(admits(&n, "2001:db9::1") && admits(&n, "192.0.2.1"));
        assert!(!admits(&n, "2001:db8:7::1") && !admits(&n, "198.51.100.255"));
        assert!(admits(&Networks::default(), "192.0.2.1"));
        assert!(Networks::default().is_empty() && !n.is_empty());
    }

    #[test]
    fn an_ipv4_mapped_client_is_in_the_networks_of_ipv4_only() {
        let n = networks(&["192.0.2.0/24"], &["::/0"]);
        assert!(admits(&n, "::ffff:192.0.2.7"));
        let n = networks(&["::/0"], &["0.0.0.0/0"]);
        assert!(!admits(&n, "::ffff:192.0.2.7") && admits(&n, "2001:db8::1"));
    }

    #[test]
    fn text_that_is_no_network_is_refused_with_what_would_be_right() {
        let error = |text: &str| text.parse::<ClientNetwork>().unwrap_err();
        for text in ["", "10.0.0.0/33", "example.com", "10.0.0", "10.0.0.0/-1"] {
            assert_eq!(error(text), NetworkError::Form, "{text}");
        }
        let right = "10.0.0.0/8".parse().unwrap();
        assert_eq!(error("10.1.0.0/8"), NetworkError::HostBits(right));
        assert_eq!(error("::ffff:10.0.0.0/104"), NetworkError::Mapped);
        assert_eq!(error("::ffff:10.0.0.1"), NetworkError::Mapped);
    }

    /// The rule as its documentation states it: all networks are compared.
    fn naive(allow: &[IpNet], deny: &[IpNet], peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        let longest = |list: &[IpNet]| {
            let containing = list.iter().filter(|n| n.contains(&peer));
            containing.map(IpNet::prefix_len).max()
        };
        match (longest(allow), longest(deny)) {
            (Some(a), Some(d)) => a > d,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => allow.is_empty(),
        }
    }

    /// Addresses that have long prefixes in common.
    fn any_addr() -> impl Strategy<Value = IpAddr> {
        let near = prop_oneof![Just(0u128), Just(1), 0u128..16, any::<u128>()];
        prop_oneof![
            near.clone()
                .prop_map(|n| IpAddr::from((0x0a00_0000 ^ n as u32).to_be_bytes())),
            near.clone()
                .prop_map(|n| IpAddr::from((0x2001 << 112 ^ n).to_be_bytes())),
            near.prop_map(|n| {
                let v4 = std::net::Ipv4Addr::from(0x0a00_0000 ^ n as u32);
                v4.to_ipv6_mapped().into()
            }),
        ]
    }

    fn any_networks() -> impl Strategy<Value = Vec<IpNet>> {
        let network =
            (any_addr(), 0u8..=128).prop_map(|(addr, length)| match addr.to_canonical() {
                IpAddr::V4(a) => IpNet::V4(Ipv4Net::new(a, length % 33).unwrap().trunc()),
                IpAddr::V6(a) => IpNet::V6(Ipv6Net::new(a, length).unwrap().trunc()),
            });
        proptest::collection::vec(network, 0..12)
    }

    proptest! {
        #[test]
        fn verdict_is_that_of_a_comparison_of_all_networks(
            allow in any_networks(),
            deny in any_networks(),
            peers in proptest::collection::vec(any_addr(), 1..20),
        ) {
            let list = |nets: &[IpNet]| nets.iter().map(|n| ClientNetwork(*n)).collect::<Vec<_>>();
            let networks = Networks::new(list(&allow), list(&deny));
            for peer in peers {
                prop_assert_eq!(networks.admits(peer), naive(&allow, &deny, peer), "{}", peer);
            }
        }
    }
}
