//! What each source of connections uses of the stack. A source is an IPv4 address or an IPv6 network.
//!
//! A source may use any part of a limit while less than half of the limit is in use. Once half of it is in use,
//! no source may take more than its share, so that one host cannot shut out all others.

use std::collections::HashMap;
use std::net::IpAddr;

use super::account::CONNECTION_COST;
use super::table::Keyed;

/// The index of a source in the list, which each of its connections stores.
pub(super) type SourceId = u32;

#[derive(Debug, Default)]
struct Source {
    key: u128,
    /// Existing connections, including those in TIME_WAIT. The source is forgotten with the last of them.
    known: usize,
    connections: usize,
    half_open: usize,
    /// Bytes stored by its connections, and bytes held for them outside the stack.
    memory: u64,
    /// Whether it holds more than its share of memory.
    over: bool,
}

/// All sources.
#[derive(Debug)]
pub(super) struct Sources {
    list: Vec<Source>,
    free: Vec<SourceId>,
    by_key: HashMap<u128, SourceId, Keyed>,
    share: u8,
    prefix: u8,
}

impl Sources {
    /// `share` is the part of each limit, in per cent, that one source may take. `prefix` is the number of
    /// leading bits of an IPv6 address that identify a source.
    pub(super) fn new(keyed: Keyed, share: u8, prefix: u8) -> Self {
        Self {
            list: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::with_hasher(keyed),
            share,
            prefix: prefix.min(128),
        }
    }

    fn key(&self, peer: IpAddr) -> u128 {
        match peer.to_canonical() {
            IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
            IpAddr::V6(a) => {
                let host = u32::from(128 - self.prefix);
                let network = u128::MAX.checked_shl(host).unwrap_or(0);
                a.to_bits() & network
            }
        }
    }

    fn get(&self, peer: IpAddr) -> Option<&Source> {
        let id = self.by_key.get(&self.key(peer))?;
        self.list.get(*id as usize)
    }

    /// Whether a source that holds `own` of a limit has used up its share, while `used` of the limit are in
    /// use.
    fn is_spent(&self, own: u64, used: u64, limit: u64) -> bool {
        used >= limit / 2 && own >= self.of(limit)
    }

    /// A source's share of a limit; at least one.
    fn of(&self, limit: u64) -> u64 {
        let share = u128::from(limit) * u128::from(self.share) / 100;
        u64::try_from(share).unwrap_or(u64::MAX).max(1)
    }

    /// Whether `peer`'s source has used up its share of the `limit` connections, of which `used` are open.
    /// Half-open connections of the source do not count, because anyone can forge its address in a SYN.
    pub(super) fn has_its_connections(&self, peer: IpAddr, used: usize, limit: usize) -> bool {
        let own = self
            .get(peer)
            .map_or(0, |s| s.connections.saturating_sub(s.half_open));
        self.is_spent(own as u64, used as u64, limit as u64)
    }

    /// Like [`Self::has_its_connections`], but for half-open connections.
    pub(super) fn has_its_half_open(&self, peer: IpAddr, used: usize, limit: usize) -> bool {
        let own = self.get(peer).map_or(0, |s| s.half_open);
        self.is_spent(own as u64, used as u64, limit as u64)
    }

    /// Whether `peer`'s source holds more than its share of the memory.
    pub(super) fn holds_its_memory(&self, peer: IpAddr) -> bool {
        self.get(peer).is_some_and(|s| s.over)
    }

    /// Counts a half-open connection of `peer`, and returns its source.
    pub(super) fn open(&mut self, peer: IpAddr) -> SourceId {
        let key = self.key(peer);
        let id = match self.by_key.get(&key) {
            Some(id) => *id,
            None => {
                let source = Source {
                    key,
                    ..Source::default()
                };
                let id = self.free.pop().unwrap_or(self.list.len() as SourceId);
                match self.list.get_mut(id as usize) {
                    Some(place) => *place = source,
                    None => self.list.push(source),
                }
                self.by_key.insert(key, id);
                id
            }
        };
        let source = &mut self.list[id as usize];
        source.known += 1;
        source.connections += 1;
        source.half_open += 1;
        id
    }

    fn change(&mut self, id: Option<SourceId>, how: impl FnOnce(&mut Source)) {
        if let Some(source) = id.and_then(|id| self.list.get_mut(id as usize)) {
            how(source);
        }
    }

    /// A connection of the source is no longer half-open.
    pub(super) fn settle(&mut self, id: Option<SourceId>) {
        self.change(id, |s| s.half_open = s.half_open.saturating_sub(1));
    }

    /// Only TIME_WAIT is left of a connection of the source.
    pub(super) fn rest(&mut self, id: Option<SourceId>) {
        self.change(id, |s| s.connections = s.connections.saturating_sub(1));
    }

    /// A connection of the source is forgotten. `rested`: only TIME_WAIT was left of it.
    pub(super) fn forget(&mut self, id: Option<SourceId>, rested: bool) {
        if !rested {
            self.rest(id);
        }
        self.change(id, |s| s.known = s.known.saturating_sub(1));
        let Some(id) = id else { return };
        if let Some(source) = self.list.get(id as usize).filter(|s| s.known == 0) {
            self.by_key.remove(&source.key);
            self.free.push(id);
        }
    }

    /// A connection of the source held `before` bytes, and holds `after` bytes now.
    #[inline]
    pub(super) fn hold(&mut self, id: Option<SourceId>, before: u64, after: u64) {
        self.change(id, |s| s.memory = (s.memory + after).saturating_sub(before));
    }

    /// Checks whether the source holds more than its share of `limit` bytes. Returns whether the result has
    /// changed. A source stays over its share until an eighth of the share is free again.
    #[inline]
    pub(super) fn judge(&mut self, id: Option<SourceId>, limit: u64) -> bool {
        let share = self.of(limit);
        let Some(source) = id.and_then(|id| self.list.get_mut(id as usize)) else {
            return false;
        };
        let mark = if source.over { share / 8 * 7 } else { share };
        let established = source.connections.saturating_sub(source.half_open);
        let over = source.memory + CONNECTION_COST * established as u64 >= mark;
        std::mem::replace(&mut source.over, over) != over
    }

    /// Whether the source held more than its share when [`Self::judge`] was last called.
    #[inline]
    pub(super) fn is_over(&self, id: Option<SourceId>) -> bool {
        let source = id.and_then(|id| self.list.get(id as usize));
        source.is_some_and(|s| s.over)
    }

    /// The number of sources.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Sources {
        Sources::new(Keyed::new([1; 16]), 25, 64)
    }

    fn ip(s: &str) -> IpAddr {
        s.parse().unwrap()
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_a_network_of_ipv6() {
        let s = sources();
        assert_ne!(s.key(ip("192.0.2.1")), s.key(ip("192.0.2.2")));
        assert_eq!(s.key(ip("192.0.2.1")), s.key(ip("::ffff:192.0.2.1")));
        assert_eq!(s.key(ip("2001:db8::1")), s.key(ip("2001:db8::2:1")));
        assert_ne!(s.key(ip("2001:db8::1")), s.key(ip("2001:db8:0:1::1")));
        let each = Sources::new(Keyed::new([1; 16]), 25, 128);
        assert_ne!(each.key(ip("2001:db8::1")), each.key(ip("2001:db8::2")));
    }

    #[test]
    fn share_applies_once_half_of_the_limit_is_in_use() {
        let mut s = sources();
        let opened: Vec<_> = (0..25).map(|_| s.open(ip("192.0.2.1"))).collect();
        assert!(!s.has_its_half_open(ip("192.0.2.1"), 49, 100));
        assert!(s.has_its_half_open(ip("192.0.2.1"), 50, 100));
        assert!(!s.has_its_connections(ip("192.0.2.1"), 50, 100));
        opened.into_iter().for_each(|id| s.settle(Some(id)));
        assert!(!s.has_its_connections(ip("192.0.2.1"), 49, 100));
        assert!(s.has_its_connections(ip("192.0.2.1"), 50, 100));
        assert!(!s.has_its_connections(ip("192.0.2.2"), 99, 100));
    }

    #[test]
    fn a_source_is_forgotten_with_its_last_connection() {
        let mut s = sources();
        let a = Some(s.open(ip("192.0.2.1")));
        s.open(ip("192.0.2.1"));
        s.settle(a);
        s.rest(a);
        s.forget(a, true);
        assert_eq!(s.len(), 1);
        s.forget(a, false);
        assert_eq!(s.len(), 0);
        s.open(ip("192.0.2.9"));
        assert_eq!(s.list.len(), 1, "its place is used again");
    }

    #[test]
    fn a_source_is_over_its_share_until_an_eighth_is_free() {
        let mut s = sources();
        let a = Some(s.open(ip("192.0.2.1")));
        s.hold(a, 0, 250);
        assert!(s.judge(a, 1000) && s.is_over(a));
        s.hold(a, 250, 220);
        assert!(!s.judge(a, 1000) && s.is_over(a));
        s.hold(a, 220, 200);
        assert!(s.judge(a, 1000) && !s.is_over(a));
        s.settle(a);
        assert!(s.judge(a, 4 * CONNECTION_COST) && s.is_over(a));
    }
}
