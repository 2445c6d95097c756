//! Local addresses and their identifiers (RFC 8684, section 3.4), and which announced addresses of a peer may
//! be joined.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::config::AnnouncedAddresses;

/// A local address with its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Local {
    id: u8,
    addr: IpAddr,
    /// The path manager may open subflows from it.
    configured: bool,
    /// It was withdrawn and not announced again since then.
    withdrawn: bool,
    /// Its subflows are backups.
    backup: bool,
}

/// The local addresses of a connection. Identifiers are unique, as RFC 8684, section 3.4, demands. If all 256
/// are taken, an address that is no longer in use gives up its identifier.
#[derive(Debug)]
pub(super) struct LocalAddresses {
    /// The addresses in the order in which they were added. The first is the address of the first subflow, with
    /// identifier 0.
    list: Vec<Local>,
    /// Local addresses that a NAT translates, so that peers know them by a different address: (inside,
    /// outside).
    outside: Arc<[(IpAddr, IpAddr)]>,
}

impl LocalAddresses {
    /// Creates the list from the first subflow's address and the addresses that the path manager may use
    /// (without `first`, the first 255 of them). `outside` has the translations of a NAT.
    pub(super) fn new(
        first: IpAddr,
        further: Vec<IpAddr>,
        outside: Arc<[(IpAddr, IpAddr)]>,
    ) -> Self {
        let further = further.into_iter().filter(|a| *a != first);
        let list = std::iter::once(first).chain(further).zip(0..=u8::MAX);
        Self {
            list: list
                .map(|(addr, id)| Local {
                    id,
                    addr,
                    configured: true,
                    withdrawn: false,
                    backup: false,
                })
                .collect(),
            outside,
        }
    }

    /// The address of the first subflow.
    pub(super) fn first(&self) -> IpAddr {
        self.list[0].addr
    }

    /// The addresses from which the path manager may open subflows.
    pub(super) fn usable(&self) -> impl Iterator<Item = IpAddr> {
        let usable = |l: &&Local| l.configured && !l.withdrawn;
        self.list.iter().filter(usable).map(|l| l.addr)
    }

    /// The identifiers of the addresses that this host has lost and that were added last, at most `most` of them.
    pub(super) fn lost_ids(&self, most: usize) -> Vec<u8> {
        let lost = self
            .list
            .iter()
            .rev()
            .filter(|l| !l.configured && l.withdrawn);
        lost.take(most).map(|l| l.id).collect()
    }

    /// The local address behind an address that peers know.
    pub(super) fn inside(&self, outside: IpAddr) -> IpAddr {
        let pair = self.outside.iter().find(|(_, o)| *o == outside);
        pair.map_or(outside, |(inside, _)| *inside)
    }

    /// The address by which peers know a local address.
    pub(super) fn outside(&self, inside: IpAddr) -> IpAddr {
        let pair = self.outside.iter().find(|(i, _)| *i == inside);
        pair.map_or(inside, |(_, outside)| *outside)
    }

    /// The identifier of a local address, if it has one.
    pub(super) fn id_of(&self, addr: IpAddr) -> Option<u8> {
        self.list.iter().find(|l| l.addr == addr).map(|l| l.id)
    }

    /// The identifier of a local address. The address gets one if any identifier is free or no longer `in_use`.
    pub(super) fn assign(&mut self, addr: IpAddr, in_use: impl Fn(u8) -> bool) -> Option<u8> {
        if let Some(l) = self.list.iter_mut().find(|l| l.addr == addr) {
            l.withdrawn = false;
            return Some(l.id);
        }
        let taken = |id: u8| self.list.iter().any(|l| l.id == id);
        let id = (0..=u8::MAX).find(|id| !taken(*id) && !in_use(*id));
        let id = id.or_else(|| {
            let over = |l: &Local| l.id != 0 && !l.configured && !in_use(l.id);
            let at = self.list.iter().position(over)?;
            Some(self.list.remove(at).id)
        })?;
        self.list.push(Local {
            id,
            addr,
            configured: false,
            withdrawn: false,
            backup: false,
        });
        Some(id)
    }

    /// The first subflow uses `addr`, so that this address has identifier 0 (RFC 8684, section 3.4). Returns the former
    /// identifier of `addr`, if it was another one. The address that had 0 has it now.
    pub(super) fn start_from(&mut self, addr: IpAddr) -> Option<u8> {
        let former = self.assign(addr, |_| false).filter(|id| *id != 0)?;
        for l in &mut self.list {
            l.id = exchanged(l.id, 0, former);
        }
        Some(former)
    }

    /// The path manager may open subflows from this address. Returns its identifier, if there is one left for it.
    pub(super) fn add(&mut self, addr: IpAddr, in_use: impl Fn(u8) -> bool) -> Option<u8> {
        let id = self.assign(addr, in_use)?;
        for l in self.list.iter_mut().filter(|l| l.addr == addr) {
            l.configured = true;
        }
        Some(id)
    }

    /// This host no longer has the address. Its identifier may be reused once no subflow has it.
    pub(super) fn lose(&mut self, addr: IpAddr) {
        for l in self.list.iter_mut().filter(|l| l.addr == addr) {
            (l.configured, l.withdrawn) = (false, true);
        }
    }

    /// Sets whether the subflows of this address are backups. Returns whether this changes anything.
    pub(super) fn set_backup(&mut self, addr: IpAddr, backup: bool) -> bool {
        let found = self.list.iter_mut().find(|l| l.addr == addr);
        found.is_some_and(|l| std::mem::replace(&mut l.backup, backup) != backup)
    }

    /// Whether the subflows of this address are backups.
    pub(super) fn is_backup(&self, addr: IpAddr) -> bool {
        self.list.iter().any(|l| l.addr == addr && l.backup)
    }

    /// No subflow may be opened from this address until it is announced again.
    pub(super) fn withdraw(&mut self, addr: IpAddr) {
        for l in self.list.iter_mut().filter(|l| l.addr == addr) {
            l.withdrawn = true;
        }
    }
}

/// The identifier after `a` and `b` were exchanged.
pub(super) fn exchanged(id: u8, a: u8, b: u8) -> u8 {
    match id {
        id if id == a => b,
        id if id == b => a,
        id => id,
    }
}

/// The scope of an address, the narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Loopback,
    /// RFC 3927; RFC 4291, section 2.5.6.
    Link,
    /// RFC 1918, RFC 6598 and RFC 2544; RFC 4193 and RFC 8215.
    Private,
    Global,
}

/// The scope of an address. `None` for an address that no host can have.
fn scope(addr: IpAddr) -> Option<Scope> {
    match addr.to_canonical() {
        IpAddr::V4(a) => scope_v4(a),
        IpAddr::V6(a) => scope_v6(a),
    }
}

fn scope_v4(a: Ipv4Addr) -> Option<Scope> {
    let [first, second, ..] = a.octets();
    // RFC 1122, section 3.2.1.3 (a), and RFC 1112, section 4: class E, including the limited broadcast address.
    if first == 0 || first >= 240 || a.is_multicast() {
        return None;
    }
    let shared = first == 100 && second & 0xc0 == 64;
    let tests = first == 198 && second & 0xfe == 18;
    Some(if a.is_loopback() {
        Scope::Loopback
    } else if a.is_link_local() {
        Scope::Link
    } else if a.is_private() || shared || tests {
        Scope::Private
    } else {
        Scope::Global
    })
}

fn scope_v6(a: Ipv6Addr) -> Option<Scope> {
    if a.is_unspecified() || a.is_multicast() {
        return None;
    }
    if a.is_loopback() {
        return Some(Scope::Loopback);
    }
    if let Some(inner) = embedded(a) {
        return scope_v4(inner);
    }
    // RFC 8215, section 5: translators within a single operator.
    let local_translation = a.segments()[..3] == [0x64, 0xff9b, 1];
    Some(if local_translation {
        Scope::Private
    } else if a.is_unicast_link_local() {
        Scope::Link
    } else if a.is_unique_local() {
        Scope::Private
    } else {
        Scope::Global
    })
}

/// The IPv4 address to which packets for an IPv6 address are finally sent. They are sent there by a translator
/// (RFC 6052, section 2.1), through a 6to4 tunnel (RFC 3056, section 2), or on a host that accepts the
/// deprecated IPv4-compatible addresses (RFC 4291, section 2.5.5.1). IPv4-mapped addresses are IPv4 addresses
/// already ([`IpAddr::to_canonical`]).
fn embedded(a: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = a.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match s[..6] {
        [0x64, 0xff9b, 0, 0, 0, 0] | [0, 0, 0, 0, 0, 0] => Some(v4(s[6], s[7])),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

/// Whether an address that a peer announced may be joined. `peer` is the address at which the peer itself was
/// reached.
pub(super) fn admits(policy: AnnouncedAddresses, peer: IpAddr, announced: IpAddr) -> bool {
    let Some(reach) = scope(announced) else {
        return false;
    };
    match policy {
        AnnouncedAddresses::Ignore => false,
        AnnouncedAddresses::SameScope => scope(peer).is_none_or(|own| reach >= own),
        AnnouncedAddresses::Any => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(k: u32) -> IpAddr {
        IpAddr::from(k.to_be_bytes())
    }

    fn addresses() -> LocalAddresses {
        LocalAddresses::new(at(0), Vec::new(), Arc::new([]))
    }

    #[test]
    fn identifier_is_reused_once_its_address_is_not_in_use() {
        let mut list = addresses();
        for k in 0..256 {
            assert_eq!(list.assign(at(k), |_| false), Some(k as u8));
        }
        assert_eq!(list.assign(at(256), |_| true), None);
        assert_eq!(list.assign(at(256), |id| id != 7), Some(7));
        assert_eq!(list.id_of(at(7)), None);
        assert_eq!(list.assign(at(255), |_| true), Some(255));
    }

    #[test]
    fn ten_thousand_successive_addresses_all_get_an_identifier() {
        let mut list = addresses();
        for k in 1..10_000 {
            assert!(list.assign(at(k), |_| false).is_some_and(|id| id != 0));
        }
        assert!(list.list.len() <= 256);
    }

    #[test]
    fn withdrawn_address_is_usable_again_once_it_is_announced() {
        let mut list = LocalAddresses::new(at(0), vec![at(1)], Arc::new([]));
        list.withdraw(at(1));
        assert_eq!(list.usable().collect::<Vec<_>>(), [at(0)]);
        assert_eq!(list.assign(at(1), |_| true), Some(1));
        assert_eq!(list.usable().count(), 2);
    }

    #[test]
    fn lost_addresses_leave_room_for_any_number_of_later_ones() {
        let mut list = addresses();
        for k in 1..10_000 {
            assert!(list.add(at(k), |_| false).is_some_and(|id| id != 0), "{k}");
            assert!(list.usable().any(|a| a == at(k)));
            list.lose(at(k));
            assert!(!list.usable().any(|a| a == at(k)));
        }
        assert_eq!(list.first(), at(0));
    }

    #[test]
    fn embedded_ipv4_address_determines_the_scope() {
        for (v4, reach) in [
            ("127.0.0.1", Some(Scope::Loopback)),
            ("169.254.169.254", Some(Scope::Link)),
            ("10.0.0.1", Some(Scope::Private)),
            ("192.0.2.1", Some(Scope::Global)),
            ("224.0.0.1", None),
            ("255.255.255.255", None),
        ] {
            let v4: Ipv4Addr = v4.parse().unwrap();
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for v6 in [
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 1, 2, 3, 4, 5),
                v4.to_ipv6_mapped(),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
            ] {
                assert_eq!(scope(v6.into()), reach, "{v6}");
            }
        }
        let v6 = |text: &str| scope(text.parse::<IpAddr>().unwrap());
        assert_eq!(v6("64:ff9b:1::c000:201"), Some(Scope::Private));
        assert_eq!(v6("64:ff9b::1:c000:201"), Some(Scope::Global));
        assert_eq!(v6("2001:db8::7f00:1"), Some(Scope::Global));
    }

    #[test]
    fn announced_addresses_are_admitted_by_their_scope() {
        use AnnouncedAddresses::{Any, Ignore, SameScope};
        let admits = |policy, peer: &str, announced: &str| {
            super::admits(policy, peer.parse().unwrap(), announced.parse().unwrap())
        };
        let invalid = [
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "::",
            "ff02::1",
            "::ffff:0.0.0.0",
        ];
        for addr in invalid {
            assert!(!admits(Any, "192.0.2.1", addr), "{addr}");
        }
        let narrower = [
            "127.0.0.1",
            "169.254.1.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.0.1",
            "100.64.0.1",
            "198.18.0.1",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ];
        for addr in narrower {
            assert!(!admits(SameScope, "192.0.2.1", addr), "{addr}");
            assert!(admits(Any, "192.0.2.1", addr), "{addr}");
        }
        assert!(admits(SameScope, "192.0.2.1", "198.51.100.1"));
        assert!(admits(SameScope, "10.0.0.1", "192.168.0.1"));
        assert!(admits(SameScope, "10.0.0.1", "198.51.100.1"));
        assert!(!admits(SameScope, "10.0.0.1", "127.0.0.1"));
        assert!(admits(SameScope, "127.0.0.1", "127.0.0.2"));
        assert!(!admits(Ignore, "192.0.2.1", "198.51.100.1"));
    }
}
