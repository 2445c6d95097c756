//! The allow-list of a gateway that forwards: which targets its clients may reach.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;

use super::public::is_public;
use crate::target::Target;

/// What a rule looks like, for error messages.
const WANT: &str = "HOST:PORTS, such as example.com:443, *.example.com:80-89, 10.0.0.0/8:*, [fd00::/8]:22 or *:443";
/// Longest name, and longest part of it between dots (RFC 1035, section 2.3.4).
const MOST_NAME: usize = 253;
const MOST_LABEL: usize = 63;

/// Why a text is not a rule.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// There is no port behind the host.
    #[error("no colon with ports follows the host; want {WANT}")]
    NoPorts,
    /// An IPv6 address is not in brackets.
    #[error("an IPv6 address or network needs brackets; want [{0}]:PORTS")]
    Brackets(String),
    /// The ports cannot be read.
    #[error("ports: found \"{0}\", want a port of 1 to 65535, a range such as 8000-8080, or *")]
    Ports(String),
    /// The network has bits of a host.
    #[error("{0} has bits beyond the length of its prefix; want {1}")]
    HostBits(IpNet, IpNet),
    /// The address is an IPv4 address in the form of IPv6.
    #[error("{0} is an IPv4-mapped address; want the IPv4 address or network itself")]
    Mapped(String),
    /// The host is neither a name nor an address.
    #[error("host: found \"{0}\", want a name, *.NAME, *, an address or a network; in all {WANT}")]
    Host(String),
}

/// The hosts that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// Every host at a public address.
    Any,
    /// The host with this name, at a public address. The name is in lower case.
    Name(String),
    /// All hosts whose names end in this text, which begins with a dot, at a public address.
    Below(String),
    /// The hosts at these addresses, whatever name the client used.
    Network(IpNet),
}

/// A rule: `HOST:PORTS`.
///
/// `HOST` is a name, `*.example.com` (all names below it, without `example.com` itself), `*`, an address, or a
/// network such as `10.0.0.0/8`. IPv6 needs brackets: `[fd00::/8]`. `PORTS` is a port, a range such as `8000-8080`,
/// or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    host: Host,
    ports: RangeInclusive<u16>,
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (host, ports) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, ports) = rest.split_once("]:").ok_or(RuleError::NoPorts)?;
                let network = network(host).filter(|n| matches!(n, IpNet::V6(_)));
                let network = network.ok_or_else(|| RuleError::Host(host.to_owned()))?;
                (Host::Network(checked(network)?), ports)
            }
            None => {
                if network(text).is_some_and(|n| matches!(n, IpNet::V6(_))) {
                    return Err(RuleError::Brackets(text.to_owned()));
                }
                let (host, ports) = text.rsplit_once(':').ok_or(RuleError::NoPorts)?;
                if network(host).is_some_and(|n| matches!(n, IpNet::V6(_))) {
                    return Err(RuleError::Brackets(host.to_owned()));
                }
                (unbracketed(host)?, ports)
            }
        };
        let ports = range(ports).ok_or_else(|| RuleError::Ports(ports.to_owned()))?;
        Ok(Self { host, ports })
    }
}

/// A host without brackets.
fn unbracketed(text: &str) -> Result<Host, RuleError> {
    if let Some(network) = network(text) {
        return checked(network).map(Host::Network);
    }
    if text == "*" {
        return Ok(Host::Any);
    }
    let (below, name) = match text.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, text),
    };
    // A name whose last part is a number is a mistyped address (RFC 1123, section 2.1).
    let numeric = |name: &str| {
        let last = name.rsplit('.').next().unwrap_or_default();
        last.bytes().all(|b| b.is_ascii_digit())
    };
    let name = canonical_name(name).filter(|name| !numeric(name));
    let name = name.ok_or_else(|| RuleError::Host(text.to_owned()))?;
    Ok(match below {
        true => Host::Below(format!(".{name}")),
        false => Host::Name(name),
    })
}

/// An address or a network.
fn network(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| address()).ok()
}

fn checked(network: IpNet) -> Result<IpNet, RuleError> {
    if network.trunc() != network {
        return Err(RuleError::HostBits(network, network.trunc()));
    }
    match network {
        IpNet::V6(n) if n.prefix_len() >= 96 && n.addr().to_ipv4_mapped().is_some() => {
            Err(RuleError::Mapped(network.to_string()))
        }
        network => Ok(network),
    }
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    if text == "*" {
        return Some(1..=u16::MAX);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some(first..=last)
}

/// A port other than 0, in digits only.
pub(super) fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let port = text.parse().ok().filter(|port| *port != 0);
    port.filter(|_| digits)
}

/// A host's name in lower case, without the dot of the root at its end. `None` if it is not a host's name:
/// letters, digits, hyphens and underscores, in parts of 1 to 63 bytes between dots, 253 bytes at most.
pub(super) fn canonical_name(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let byte = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let label = |l: &str| !l.is_empty() && l.len() <= MOST_LABEL && l.bytes().all(byte);
    let valid = name.len() <= MOST_NAME && name.split('.').all(label);
    valid.then(|| name.to_ascii_lowercase())
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Any => f.write_str("*")?,
            Host::Name(name) => f.write_str(name)?,
            Host::Below(name) => write!(f, "*{name}")?,
            Host::Network(n) => {
                let text = match n.prefix_len() == n.max_prefix_len() {
                    true => n.addr().to_string(),
                    false => n.to_string(),
                };
                match n {
                    IpNet::V4(_) => f.write_str(&text)?,
                    IpNet::V6(_) => write!(f, "[{text}]")?,
                }
            }
        }
        match (self.ports.start(), self.ports.end()) {
            (1, &u16::MAX) => f.write_str(":*"),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

/// An address that a rule allows for a client's target. Only [`Rules::permitted`] makes one, and only such addresses
/// are dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permitted(SocketAddr);

impl Permitted {
    pub(super) fn addr(self) -> SocketAddr {
        self.0
    }
}

/// An allow-list. A target is refused unless a rule allows it.
///
/// Rules with addresses and networks allow the address that is dialled, whatever name the client used. Rules with
/// names, and `*`, allow public addresses only: otherwise a name that resolves to a private or loopback address
/// would open the gateway's own network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl From<Vec<Rule>> for Rules {
    fn from(list: Vec<Rule>) -> Self {
        Self(list)
    }
}

impl fmt::Display for Rules {
    /// The rules, separated by spaces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(Rule::to_string).collect();
        f.write_str(&texts.join(" "))
    }
}

impl Rules {
    /// Whether any address could be allowed for the target. If not, its name need not be resolved.
    pub(super) fn may_allow(&self, target: &Target) -> bool {
        let name = match target {
            Target::Address(addr) => return self.allow(None, *addr),
            Target::Name(name, _) => canonical_name(name),
        };
        let host = |r: &Rule| match &r.host {
            Host::Any | Host::Network(_) => true,
            named => named.is_named(name.as_deref()),
        };
        self.0
            .iter()
            .any(|r| r.ports.contains(&target.port()) && host(r))
    }

    /// The addresses of `found` that a rule allows for the target, without duplicates. `found` are the addresses
    /// that the target's name has, or the target itself. The port is that of the target.
    pub(super) fn permitted(
        &self,
        target: &Target,
        found: impl IntoIterator<Item = SocketAddr>,
    ) -> Vec<Permitted> {
        let name = match target {
            Target::Address(_) => None,
            Target::Name(name, _) => canonical_name(name),
        };
        let mut list = Vec::new();
        for mut addr in found {
            // The address that is judged is the address that is dialled.
            addr.set_ip(addr.ip().to_canonical());
            addr.set_port(target.port());
            if self.allow(name.as_deref(), addr) && !list.contains(&Permitted(addr)) {
                list.push(Permitted(addr));
            }
        }
        list
    }

    fn allow(&self, name: Option<&str>, addr: SocketAddr) -> bool {
        let (ip, port) = (addr.ip().to_canonical(), addr.port());
        let host = |r: &Rule| match &r.host {
            Host::Network(network) => network.contains(&ip),
            Host::Any => is_public(ip),
            named => named.is_named(name) && is_public(ip),
        };
        self.0.iter().any(|r| r.ports.contains(&port) && host(r))
    }
}

impl Host {
    /// Whether the rule's host is a name or `*.NAME`, and `name` is one of its names.
    fn is_named(&self, name: Option<&str>) -> bool {
        let Some(name) = name else { return false };
        match self {
            Self::Name(own) => own == name,
            Self::Below(end) => name.len() > end.len() && name.ends_with(end),
            Self::Any | Self::Network(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
