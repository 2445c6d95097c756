//! Destination NAT by nftables without connection tracking, in a separate table named after the device.
//!
//! Each packet is rewritten by itself: towards Spindle when it arrives, and back when it leaves. The kernel
//! corrects checksums. Connection tracking does not see these packets (`notrack`), because it treats each
//! subflow as a separate connection. It would not translate a segment outside the window that the subflow last
//! announced, although the window belongs to the whole connection (RFC 8684, section 3.3.4). Also, a flood of
//! SYNs would fill its table.
//!
//! | hook | what happens |
//! |---|---|
//! | prerouting | packets for an outer address, and ICMP errors about packets sent from it, get the inner
//! address |
//! | output | the same for connections of this host to its own outer address |
//! | input | packets to this host get the outer address as their source |
//! | postrouting | packets to other hosts get the outer address as their source |
//!
//! The source is rewritten after routing and not before. Otherwise the host would consider a packet from its
//! own address on the device forged (reverse path filtering). No packet with an inner address crosses any
//! device but Spindle's. The counter `inner_address_elsewhere` of the table counts the packets dropped for this
//! reason.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use super::command::nft;
use super::{Dnat, SetupError};

/// The table of a device, which no other device shares. All characters that are allowed in a device's name here
/// (letters, digits, `-`, `_` and `.`) are allowed in an identifier of nft, too.
fn table(device: &str) -> String {
    format!("spindle_{device}")
}

/// The name of an address's family in rules.
fn family(addr: &SocketAddr) -> &'static str {
    if addr.is_ipv4() { "ip" } else { "ip6" }
}

/// Rules that rewrite the end `end` ("d" for destination, "s" for source) of segments from each first address
/// to the second. `before` is put before the rewriting.
fn segments(
    end: &str,
    before: &str,
    pairs: impl Iterator<Item = (SocketAddr, SocketAddr)>,
) -> String {
    let mut rules = String::new();
    for (found, put) in pairs {
        let family = family(&found);
        // Writing to a string does not fail.
        let _ = writeln!(
            rules,
            "    {family} {end}addr {} tcp {end}port {} {before}{family} {end}addr set {} tcp {end}port set {}",
            found.ip(),
            found.port(),
            put.ip(),
            put.port()
        );
    }
    rules
}

/// Positions in the packet that an ICMP error quotes, in bits from the start of ICMP. The quote begins after 8
/// bytes of ICMP (RFC 792, RFC 4443). It has no IPv4 options or IPv6 extension headers, since Spindle sends
/// neither.
struct Quoted {
    errors: &'static str,
    /// Condition that TCP directly follows the IP header.
    is_tcp: &'static str,
    source: &'static str,
    source_port: &'static str,
}

/// RFC 791: version and length at byte 0, protocol at 9, source at 12; 20 bytes in all.
const QUOTED_V4: Quoted = Quoted {
    errors: "icmp type destination-unreachable",
    is_tcp: "@th,64,8 0x45 @th,136,8 6",
    source: "@th,160,32",
    source_port: "@th,224,16",
};
/// RFC 8200: next header at byte 6, source at 8; 40 bytes in all.
const QUOTED_V6: Quoted = Quoted {
    errors: "icmpv6 type { destination-unreachable, packet-too-big }",
    is_tcp: "@th,112,8 6",
    source: "@th,128,128",
    source_port: "@th,384,16",
};

/// Rules for ICMP errors about segments sent from the outer addresses. The checksum of ICMP is left unchanged,
/// and Spindle does not check it.
fn icmp_errors(list: &[Dnat]) -> String {
    let hex = |addr: IpAddr| match addr {
        IpAddr::V4(a) => format!("{:#010x}", a.to_bits()),
        IpAddr::V6(a) => format!("{:#034x}", a.to_bits()),
    };
    let mut rules = String::new();
    for Dnat { from, to } in list {
        let family = family(from);
        let Quoted {
            errors,
            is_tcp,
            source,
            source_port,
        } = if from.is_ipv4() { QUOTED_V4 } else { QUOTED_V6 };
        let (outer, inner) = (hex(from.ip()), hex(to.ip()));
        let _ = writeln!(
            rules,
            "    {family} daddr {} {errors} {is_tcp} {source} {outer} {source_port} {} notrack \
             {source} set {inner} {source_port} set {} {family} daddr set {}",
            from.ip(),
            from.port(),
            to.port(),
            to.ip(),
        );
    }
    rules
}

/// Rules that drop packets with an inner address at their end `end` if `elsewhere` holds.
fn no_inner(end: &str, elsewhere: &str, list: &[Dnat]) -> String {
    let mut rules = String::new();
    for v4 in [true, false] {
        let mut inner: Vec<IpAddr> = list.iter().map(|d| d.to.ip()).collect();
        inner.retain(|a| a.is_ipv4() == v4);
        inner.sort_unstable();
        inner.dedup();
        let inner: Vec<String> = inner.iter().map(IpAddr::to_string).collect();
        if !inner.is_empty() {
            let family = if v4 { "ip" } else { "ip6" };
            let _ = writeln!(
                rules,
                "    {elsewhere}{family} {end}addr {{ {} }} counter name inner_address_elsewhere drop",
                inner.join(", ")
            );
        }
    }
    rules
}

/// The complete table.
fn rules(device: &str, list: &[Dnat]) -> String {
    let inwards = || list.iter().map(|d| (d.from, d.to));
    let outwards = || list.iter().map(|d| (d.to, d.from));
    let elsewhere = format!("oifname != \"{device}\" ");
    let (from_host, to_others) = (
        segments("d", "notrack ", inwards()),
        segments("s", "", outwards()),
    );
    format!(
        "table inet {} {{\n  counter inner_address_elsewhere {{ }}\n  \
         chain from_others {{\n    type filter hook prerouting priority raw;\n    \
         iifname \"{device}\" notrack accept\n{}{from_host}{}  }}\n  \
         chain from_this_host {{\n    type route hook output priority raw;\n{from_host}  }}\n  \
         chain to_this_host {{\n    type filter hook input priority raw;\n{to_others}  }}\n  \
         chain to_others {{\n    type filter hook postrouting priority srcnat;\n{to_others}{}{}  }}\n}}\n",
        table(device),
        no_inner("d", "", list),
        icmp_errors(list),
        no_inner("s", &elsewhere, list),
        no_inner("d", &elsewhere, list),
    )
}

/// Installs the rules. Returns the device's name for [`remove`].
pub(super) fn install(device: &str, list: &[Dnat]) -> Result<String, SetupError> {
    nft(&rules(device, list))?;
    Ok(device.to_owned())
}

/// Removes the table, if it exists.
pub(super) fn remove(device: &str) {
    let name = table(device);
    // This fails if there is no table, or no nft, in which case there is no table either.
    let _ = nft(&format!("delete table inet {name}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_its_own_table() {
        let names = ["spin0", "spin-0", "spin.0", "spin_0"].map(table);
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        assert_eq!(names[0], "spindle_spin0");
    }

    #[test]
    fn each_direction_has_a_rule_for_each_address_in_both_families() {
        let list = [
            Dnat {
                from: "192.0.2.1:443".parse().expect("an address"),
                to: "10.7.0.1:443".parse().expect("an address"),
            },
            Dnat {
                from: "[2001:db8::1]:80".parse().expect("an address"),
                to: "[fd00::1]:8080".parse().expect("an address"),
            },
        ];
        let text = rules("spin-0", &list);
        assert!(text.starts_with("table inet spindle_spin-0 {"));
        // Once for other hosts and once for this host.
        for rule in [
            "ip daddr 192.0.2.1 tcp dport 443 notrack ip daddr set 10.7.0.1 tcp dport set 443",
            "ip6 daddr 2001:db8::1 tcp dport 80 notrack ip6 daddr set fd00::1 tcp dport set 8080",
            "ip saddr 10.7.0.1 tcp sport 443 ip saddr set 192.0.2.1 tcp sport set 443",
            "ip6 saddr fd00::1 tcp sport 8080 ip6 saddr set 2001:db8::1 tcp sport set 80",
        ] {
            assert_eq!(text.matches(rule).count(), 2, "{rule}: {text}");
        }
        for quoted in [
            "@th,160,32 0xc0000201 @th,224,16 443 notrack @th,160,32 set 0x0a070001 @th,224,16 set 443",
            "@th,128,128 set 0xfd000000000000000000000000000001 @th,384,16 set 8080",
        ] {
            assert_eq!(text.matches(quoted).count(), 1, "{quoted}: {text}");
        }
    }
}
