//! [`Target`]: where a connection shall lead, by address or by name. [`Targets`]: several that offer the same.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

/// An address or a name, and a port.
///
/// ```
/// use spindle_net::Target;
/// let target: Target = "gateway.example:443".parse()?;
/// assert_eq!(target, Target::Name("gateway.example".to_owned(), 443));
/// assert!("gateway.example".parse::<Target>().is_err());
/// # Ok::<(), spindle_net::TargetError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// An address.
    Address(SocketAddr),
    /// A host's name, which is looked up for each connection, and a port.
    Name(String, u16),
}

/// The text is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found \"{0}\", want an address or name and a port, such as 192.0.2.1:443 or gateway.example:443"
)]
pub struct TargetError(String);

impl Target {
    /// The target's port.
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(addr) => addr.port(),
            Self::Name(_, port) => *port,
        }
    }

    /// The addresses of the target, in the order in which the system's resolver lists them.
    ///
    /// # Errors
    /// [`io::ErrorKind::HostUnreachable`] if the name is unknown.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::Address(addr) => Ok(vec![*addr]),
            Self::Name(name, port) => look_up(name, *port, ()).await.map_err(|e| {
                io::Error::new(io::ErrorKind::HostUnreachable, format!("{name}: {e}"))
            }),
        }
    }
}

/// Most addresses of a name that are looked at. A resolver may answer with thousands.
const MOST_FOUND: usize = 256;

/// Looks up a name with the system's resolver, which cannot be interrupted. `held` is dropped when it has ended, even if
/// the caller no longer waits.
pub(crate) async fn look_up(
    name: &str,
    port: u16,
    held: impl Send + 'static,
) -> io::Result<Vec<SocketAddr>> {
    let name = name.to_owned();
    let looking = tokio::task::spawn_blocking(move || {
        let _held = held;
        let found = (name, port).to_socket_addrs();
        found.map(|list| list.take(MOST_FOUND).collect())
    });
    looking.await.map_err(io::Error::other)?
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(a) => a.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

impl From<SocketAddr> for Target {
    fn from(addr: SocketAddr) -> Self {
        Self::Address(addr)
    }
}

impl FromStr for Target {
    type Err = TargetError;

    /// Neither the port may be 0 nor the address unspecified.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let error = || TargetError(text.to_owned());
        if let Ok(addr) = text.parse::<SocketAddr>() {
            let usable = addr.port() != 0 && !addr.ip().is_unspecified();
            return usable.then_some(Self::Address(addr)).ok_or_else(error);
        }
        let (name, port) = text.rsplit_once(':').ok_or_else(error)?;
        let port = port.parse().ok().filter(|p| *p != 0).ok_or_else(error)?;
        if name.is_empty() || name.contains([':', '/', ' ']) {
            return Err(error());
        }
        Ok(Self::Name(name.to_owned(), port))
    }
}

impl TryFrom<&str> for Target {
    type Error = TargetError;

    fn try_from(text: &str) -> Result<Self, TargetError> {
        text.parse()
    }
}

impl TryFrom<String> for Target {
    type Error = TargetError;

    fn try_from(text: String) -> Result<Self, TargetError> {
        text.parse()
    }
}

/// One or more targets that offer the same, such as a gateway's addresses. The first one that answers is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets(Vec<Target>);

/// As soon as an address is known, names whose look-up takes longer than this are given up (our choice; RFC 8305,
/// section 3, waits for 50 ms between the two families of one name).
const LOOK_UP: Duration = Duration::from_millis(250);

impl Targets {
    /// The targets in the order in which they are tried. `None` if the list is empty.
    pub fn of(list: Vec<Target>) -> Option<Self> {
        (!list.is_empty()).then_some(Self(list))
    }

    /// The targets, at least one.
    pub fn iter(&self) -> std::slice::Iter<'_, Target> {
        self.0.iter()
    }

    /// The addresses of all targets, in their order.
    ///
    /// # Errors
    /// The error of one of the names, if none of them has an address.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let mut found = vec![Vec::new(); self.0.len()];
        let mut failed = None;
        let mut lookups = JoinSet::new();
        for (i, target) in self.0.iter().cloned().enumerate() {
            lookups.spawn(async move { (i, target.addresses().await) });
        }
        loop {
            let next = lookups.join_next();
            let known = found.iter().any(|addresses| !addresses.is_empty());
            let done = match known {
                false => next.await,
                true => timeout(LOOK_UP, next).await.unwrap_or(None),
            };
            match done {
                Some(Ok((i, Ok(addresses)))) => found[i] = addresses,
                Some(Ok((_, Err(e)))) => failed = Some(e),
                // The runtime ends the tasks when it shuts down.
                Some(Err(_)) => {}
                None => break,
            }
        }
        let found: Vec<SocketAddr> = found.into_iter().flatten().collect();
        match failed {
            Some(e) if found.is_empty() => Err(e),
            _ => Ok(found),
        }
    }
}

impl From<Target> for Targets {
    fn from(target: Target) -> Self {
        Self(vec![target])
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, target) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{target}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_of_several_targets_keep_their_order_and_names_may_be_unknown() {
        let list = ["unknown.invalid:1", "192.0.2.1:2", "192.0.2.1:1"];
        let targets = Targets::of(list.iter().map(|t| t.parse().unwrap()).collect()).unwrap();
        let found = targets.addresses().await.unwrap();
        assert_eq!(
            found,
            [
                "192.0.2.1:2".parse().unwrap(),
                "192.0.2.1:1".parse().unwrap()
            ]
        );
        assert_eq!(targets.to_string(), list.join(", "));
        let unknown = Targets::from(list[0].parse::<Target>().unwrap());
        assert!(
            unknown
                .addresses()
                .await
                .unwrap_err()
                .to_string()
                .contains("unknown.invalid")
        );
        assert_eq!(Targets::of(Vec::new()), None);
    }

    #[test]
    fn addresses_and_names_with_a_port_are_targets() {
        let target = |text: &str| text.parse::<Target>();
        let v6 = "[2001:db8::1]:443";
        assert_eq!(target(v6).unwrap().to_string(), v6);
        assert_eq!(target("a.example:1").unwrap().port(), 1);
        for bad in [
            "",
            "a.example",
            "a.example:0",
            ":80",
            "0.0.0.0:80",
            "http://a:80",
            "::1:80",
            "a:70000",
        ] {
            let error = target(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("\"{bad}\"")), "{error}");
        }
    }

    #[tokio::test]
    async fn unknown_names_are_reported_as_unreachable() {
        let target = Target::Name("unknown.invalid".to_owned(), 80);
        let error = target.addresses().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::HostUnreachable);
        assert!(error.to_string().contains("unknown.invalid"));
    }
}
