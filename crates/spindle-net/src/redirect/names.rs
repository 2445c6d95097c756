//! Addresses that stand for names, so that a name that a program looks up reaches the gateway, which resolves it.
//!
//! A program that knows nothing of proxies looks a name up and connects to the address that it gets. It gets an address of
//! [`NAMES_V4`] or [`NAMES_V6`], which exists nowhere else. When the program connects to this address, the name is found
//! again.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// First of the IPv4 addresses that stand for names: 198.18.0.0/15, for tests between networks (RFC 2544, RFC 6890). No
/// public server has such an address.
pub const NAMES_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const LENGTH_V4: u32 = 15;
/// First of the IPv6 addresses that stand for names: a local network of 64 bits (RFC 4193) of our choice.
pub const NAMES_V6: Ipv6Addr = Ipv6Addr::new(0xfd53, 0x7069, 0x6e64, 0x6e61, 0, 0, 0, 0);
const LENGTH_V6: u32 = 64;
/// Numbers below this one stand for no name. 0 is a network's own address, and 1 is the program's.
const FIRST: u32 = 2;
/// Most names that are remembered (our choice). A program that looks up more than this is a crawler. Half of the IPv4
/// addresses are used.
const MOST: usize = 1 << 16;
/// Most bytes of a name without its final dot (RFC 1035, section 2.3.4).
const LONGEST: usize = 253;
/// Most bytes of a label (RFC 1035, section 2.3.4).
const LONGEST_LABEL: usize = 63;

/// The names that a program has looked up. All clones share one table.
#[derive(Clone, Debug, Default)]
pub struct Names(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    most: usize,
    numbers: HashMap<Arc<str>, u32>,
    /// By number, less [`FIRST`].
    entries: Vec<Entry>,
    /// Numbers by the time of their last use.
    used: BTreeMap<u64, u32>,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    used: u64,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            most: MOST,
            numbers: HashMap::new(),
            entries: Vec::new(),
            used: BTreeMap::new(),
            clock: 0,
        }
    }
}

/// What an address stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A name.
    Name(String),
    /// A name that is no longer remembered, or none yet.
    Forgotten,
    /// The address is an ordinary one.
    Itself,
}

impl Names {
    fn table(&self) -> MutexGuard<'_, Table> {
        // No code panics while it holds the lock with the table half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a name, which [`v4`] and [`v6`] turn into its addresses. A name without a number gets one. If as many
    /// names as allowed have one, the least recently used name is forgotten. `None` if no host can have the name.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let name = name.strip_suffix('.').unwrap_or(name);
        is_host(name).then(|| self.table().number(&name.to_ascii_lowercase()))
    }

    /// What the address stands for. A name counts as used.
    pub(crate) fn meaning(&self, address: IpAddr) -> Meaning {
        match number_of(address) {
            None => Meaning::Itself,
            Some(number) => match self.table().name(number) {
                Some(name) => Meaning::Name(name.to_string()),
                None => Meaning::Forgotten,
            },
        }
    }
}

impl Table {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            self.touch(number);
            return number;
        }
        let name: Arc<str> = name.into();
        let number = match self.used.first_key_value() {
            Some((&oldest, &number)) if self.entries.len() >= self.most => {
                self.used.remove(&oldest);
                let entry = &mut self.entries[(number - FIRST) as usize];
                self.numbers.remove(&entry.name);
                entry.name = name.clone();
                number
            }
            _ => {
                let number = FIRST + self.entries.len() as u32;
                self.entries.push(Entry {
                    name: name.clone(),
                    used: 0,
                });
                number
            }
        };
        self.numbers.insert(name, number);
        self.touch(number);
        number
    }

    fn name(&mut self, number: u32) -> Option<Arc<str>> {
        let index = number.checked_sub(FIRST)? as usize;
        let name = self.entries.get(index)?.name.clone();
        self.touch(number);
        Some(name)
    }

    /// Notes that an existing number is used.
    fn touch(&mut self, number: u32) {
        self.clock += 1;
        let entry = &mut self.entries[(number - FIRST) as usize];
        self.used.remove(&entry.used);
        entry.used = self.clock;
        self.used.insert(self.clock, number);
    }
}

/// The IPv4 address of a number.
pub(crate) fn v4(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(NAMES_V4.to_bits() + number)
}

/// The IPv6 address of a number.
pub(crate) fn v6(number: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(NAMES_V6.to_bits() + u128::from(number))
}

/// The number of an address that stands for a name, whether or not the number is in use.
fn number_of(address: IpAddr) -> Option<u32> {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let offset = address.to_bits().checked_sub(NAMES_V4.to_bits())?;
            (offset >> (32 - LENGTH_V4) == 0).then_some(offset)
        }
        IpAddr::V6(address) => {
            let offset = address.to_bits().checked_sub(NAMES_V6.to_bits())?;
            let ours = offset >> (128 - LENGTH_V6) == 0;
            // No name has a number that does not fit.
            ours.then(|| u32::try_from(offset).unwrap_or(u32::MAX))
        }
    }
}

/// Whether a host may have this name: labels of letters, digits, hyphens and, as some have in practice, underscores.
fn is_host(name: &str) -> bool {
    let fits = |label: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(allowed)
    };
    name.len() <= LONGEST && name.split('.').all(fits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(most: usize) -> Names {
        Names(Arc::new(Mutex::new(Table {
            most,
            ..Table::default()
        })))
    }

    #[test]
    fn both_addresses_of_a_name_lead_back_to_it_and_others_are_themselves() {
        let names = Names::default();
        let a = names.number("A.example.").unwrap();
        assert_eq!(names.number("a.EXAMPLE"), Some(a));
        let b = names.number("b.example").unwrap();
        assert_ne!(a, b);
        let meaning = |address: IpAddr| names.meaning(address);
        let is = |name: &str| Meaning::Name(name.to_owned());
        assert_eq!(meaning(v4(a).into()), is("a.example"));
        assert_eq!(meaning(v6(b).into()), is("b.example"));
        assert_eq!(meaning(v4(a).to_ipv6_mapped().into()), is("a.example"));
        for unused in [
            "198.18.0.0",
            "198.18.0.1",
            "198.19.255.255",
            "fd53:7069:6e64:6e61::1",
            "fd53:7069:6e64:6e61:ffff::",
        ] {
            assert_eq!(
                meaning(unused.parse().unwrap()),
                Meaning::Forgotten,
                "{unused}"
            );
        }
        for ordinary in [
            "198.17.255.255",
            "198.20.0.0",
            "203.0.113.1",
            "fd53:7069:6e64:6e62::2",
            "::1",
        ] {
            assert_eq!(
                meaning(ordinary.parse().unwrap()),
                Meaning::Itself,
                "{ordinary}"
            );
        }
    }

    #[test]
    fn names_that_no_host_has_get_no_address() {
        let long = format!("{}.example", "a".repeat(64));
        let longer = vec!["abcdefg"; 32].join(".");
        for wrong in [
            "",
            ".",
            "a..b",
            ".a",
            "a b",
            "a:1",
            "a/b",
            "ä.example",
            "a\r\nb",
            &long,
            &longer,
        ] {
            assert_eq!(Names::default().number(wrong), None, "{wrong:?}");
        }
        let longest = vec!["abcdefg"; 31].join(".");
        assert!(Names::default().number(&longest).is_some());
    }

    #[test]
    fn the_least_recently_used_name_is_forgotten() {
        let names = of(2);
        let a = names.number("a").unwrap();
        let b = names.number("b").unwrap();
        // A connection to a name uses it.
        assert_eq!(names.meaning(v4(a).into()), Meaning::Name("a".to_owned()));
        let c = names.number("c").unwrap();
        assert_eq!(c, b);
        assert_eq!(names.meaning(v6(b).into()), Meaning::Name("c".to_owned()));
        assert_eq!(names.number("a"), Some(a));
    }

    proptest! {
        #[test]
        fn the_table_stays_bounded_and_consistent(looked_up in prop::collection::vec(0_u32..12, 0..200)) {
            let names = of(5);
            for n in looked_up {
                let name = format!("n{n}");
                let number = names.number(&name).unwrap();
                prop_assert_eq!(names.meaning(v4(number).into()), Meaning::Name(name));
                let table = names.table();
                prop_assert!(table.entries.len() <= 5);
                prop_assert_eq!(table.numbers.len(), table.entries.len());
                prop_assert_eq!(table.used.len(), table.entries.len());
            }
        }
    }
}
