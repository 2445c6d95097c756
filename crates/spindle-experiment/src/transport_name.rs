//! Names of transports: what servers and clients use, and what carries their segments.

use spindle_mptcp::Variant;

/// Transports that use the kernel's own stack. Only the testbed has them.
pub const KERNEL_TRANSPORTS: [&str; 2] = ["kernel-tcp", "kernel-mptcp"];

/// The transports that a file may name.
#[derive(Clone, Copy, Debug)]
pub struct KnownTransports<'a> {
    /// Their names, without variants.
    pub names: &'a [String],
    /// The variants that may follow a name.
    pub variants: &'a [Variant],
}

impl KnownTransports<'_> {
    /// Whether a transport with this name exists. Variants may follow the name, each after a plus sign.
    pub fn has(&self, name: &str) -> bool {
        let listed = |name: &str| self.names.iter().any(|t| t == name);
        let mut parts = name.split('+');
        let base = parts.next().is_some_and(listed);
        let mut known = parts.map(|part| self.variants.iter().any(|v| v.name() == part));
        listed(name) || base && known.all(|known| known)
    }
}

/// A transport, possibly with its own balancer: `tcp@rps`.
///
/// The part before the `@` names what both servers and clients use, or has one name for each of these two ends,
/// as `server>client`. Each name is a preset's. If the segments of an end do not go straight into the fabric, a
/// [`Carrier`] and a colon precede its name: `tun:fuso>kernel-mptcp`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransportName {
    /// The transport's name.
    pub transport: String,
    /// Name of the balancer, if it is not the scenario's.
    pub balancer: Option<String>,
}

/// What carries a Spindle host's segments to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Straight into the fabric.
    #[default]
    Fabric,
    /// `tun:`, a TUN device of a kernel that forwards packets.
    Tun,
    /// `udp:`, UDP encapsulation through the kernel's sockets. It is used at both ends or at neither.
    Udp,
    /// `gateway:`, a gateway over TUN in front of a server on the kernel's TCP; servers only.
    Gateway,
}

impl Carrier {
    /// The carriers that names contain, without the colon.
    pub const NAMED: [(&'static str, Self); 3] = [
        ("udp", Self::Udp),
        ("tun", Self::Tun),
        ("gateway", Self::Gateway),
    ];
}

/// One end of the connections of a transport: all servers, or all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End<'a> {
    /// What carries its segments.
    pub carrier: Carrier,
    /// A preset's name, or one of [`KERNEL_TRANSPORTS`].
    pub preset: &'a str,
}

impl End<'_> {
    /// Whether it is on the kernel's own stack.
    pub fn is_kernel(&self) -> bool {
        KERNEL_TRANSPORTS.contains(&self.preset)
    }
}

/// Why a name is not a valid transport name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportNameError {
    /// There is no such carrier.
    #[error(
        "found carrier \"{found}:\" in \"{end}\", want udp:, tun:, gateway: or none before a preset"
    )]
    Carrier {
        /// The text before the colon.
        found: String,
        /// The end.
        end: String,
    },
    /// An end on the kernel's stack has one of Spindle's carriers.
    #[error(
        "found \"{end}\", want \"{preset}\" without a carrier: those are for Spindle's presets"
    )]
    Kernel {
        /// The end.
        end: String,
        /// Its preset.
        preset: String,
    },
    /// UDP encapsulation is at one end only.
    #[error(
        "found udp: at one end of \"{name}\", want it at both, as in \"udp:fuso\": only Spindle \
         understands the other's UDP"
    )]
    OneUdp {
        /// The whole name.
        name: String,
    },
    /// A gateway is not at the servers' end.
    #[error(
        "found gateway: at the clients' end of \"{name}\", want it at the servers' only, as in \
         \"gateway:fuso>kernel-mptcp\""
    )]
    Client {
        /// The whole name.
        name: String,
    },
}

/// Reads `[carrier:]preset`.
///
/// # Errors
/// [`TransportNameError::Carrier`] and `Kernel`. Whether the preset exists is not checked.
pub(crate) fn end(text: &str) -> Result<End<'_>, TransportNameError> {
    let Some((found, preset)) = text.split_once(':') else {
        let carrier = Carrier::Fabric;
        return Ok(End {
            carrier,
            preset: text,
        });
    };
    let named = Carrier::NAMED.iter().find(|(name, _)| *name == found);
    let Some((_, carrier)) = named else {
        return Err(TransportNameError::Carrier {
            found: found.to_owned(),
            end: text.to_owned(),
        });
    };
    let end = End {
        carrier: *carrier,
        preset,
    };
    if end.is_kernel() {
        return Err(TransportNameError::Kernel {
            end: text.to_owned(),
            preset: preset.to_owned(),
        });
    }
    Ok(end)
}

impl TransportName {
    /// The servers' end and the clients' end. `fuso>kernel-mptcp` has the first preset at servers and the
    /// second at clients. A single name is at both ends.
    ///
    /// # Errors
    /// [`TransportNameError`].
    pub fn ends(&self) -> Result<(End<'_>, End<'_>), TransportNameError> {
        let whole = self.transport.as_str();
        let (server, client) = whole.split_once('>').unwrap_or((whole, whole));
        let (server, client) = (end(server)?, end(client)?);
        let name = || whole.to_owned();
        if client.carrier == Carrier::Gateway {
            return Err(TransportNameError::Client { name: name() });
        }
        if (server.carrier == Carrier::Udp) != (client.carrier == Carrier::Udp) {
            return Err(TransportNameError::OneUdp { name: name() });
        }
        Ok((server, client))
    }

    /// Whether it has an end on the kernel's stack, different ends, or a carrier. Only the testbed can run such
    /// a transport.
    pub fn needs_testbed(&self) -> bool {
        self.ends().map_or(true, |(server, client)| {
            server != client || server.is_kernel() || server.carrier != Carrier::Fabric
        })
    }
}

impl std::fmt::Display for TransportName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.balancer {
            Some(balancer) => write!(f, "{}@{balancer}", self.transport),
            None => f.write_str(&self.transport),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(transport: &str) -> TransportName {
        TransportName {
            transport: transport.to_owned(),
            balancer: None,
        }
    }

    #[test]
    fn transport_names_are_read_as_ends_with_carriers() {
        let of = |carrier, preset| End { carrier, preset };
        for (text, server, client) in [
            (
                "fuso",
                of(Carrier::Fabric, "fuso"),
                of(Carrier::Fabric, "fuso"),
            ),
            (
                "udp:fuso",
                of(Carrier::Udp, "fuso"),
                of(Carrier::Udp, "fuso"),
            ),
            (
                "tun:fuso>mptcp",
                of(Carrier::Tun, "fuso"),
                of(Carrier::Fabric, "mptcp"),
            ),
            (
                "gateway:fuso>kernel-mptcp",
                of(Carrier::Gateway, "fuso"),
                of(Carrier::Fabric, "kernel-mptcp"),
            ),
        ] {
            assert_eq!(name(text).ends(), Ok((server, client)), "{text}");
            assert_eq!(name(text).needs_testbed(), text != "fuso", "{text}");
        }
        assert!(name("kernel-tcp").needs_testbed());
        assert!(name("fuso>mptcp").needs_testbed());
    }

    #[test]
    fn invalid_transport_names_are_refused() {
        let wrong = |text: &str| name(text).ends().expect_err("refused").to_string();
        assert!(wrong("tcp:fuso").contains("want udp:, tun:, gateway: or none"));
        assert!(wrong(":fuso").contains("found carrier \":\""));
        assert!(wrong("tun:kernel-tcp").contains("want \"kernel-tcp\" without a carrier"));
        assert!(wrong("fuso>udp:kernel-mptcp").contains("without a carrier"));
        for text in [
            "udp:fuso>fuso",
            "fuso>udp:fuso",
            "udp:fuso>kernel-tcp",
            "gateway:fuso>udp:fuso",
        ] {
            assert!(wrong(text).contains("want it at both"), "{text}");
        }
        assert!(wrong("gateway:fuso").contains("servers' only"));
        assert!(wrong("kernel-tcp>gateway:fuso").contains("servers' only"));
        assert!(name("gateway:fuso").needs_testbed());
    }
}
