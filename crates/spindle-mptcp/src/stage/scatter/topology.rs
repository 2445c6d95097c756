//! What an end knows about the network: how many paths of equal cost lead to its peer.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// Answers how many paths of equal cost there are between two addresses (MMPTCP section 2.4).
pub trait Topology: Send + Sync + fmt::Debug {
    /// Number of paths of equal cost from `local` to `remote`: 1 if both are in one rack, `None` if it is not
    /// known.
    fn paths(&self, local: IpAddr, remote: IpAddr) -> Option<u32>;
}

/// A topology about which nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown;

impl Topology for Unknown {
    fn paths(&self, _local: IpAddr, _remote: IpAddr) -> Option<u32> {
        None
    }
}

/// A fat-tree of `k`-port switches with its own addressing, 10.pod.switch.host (MMPTCP section 2.4;
/// Al-Fares et al. 2008, section 3.2).
#[derive(Clone, Copy, Debug)]
pub struct FatTree {
    /// Ports of a switch; even, from 2 to 254.
    pub k: u8,
}

impl Topology for FatTree {
    fn paths(&self, local: IpAddr, remote: IpAddr) -> Option<u32> {
        let place = |addr: IpAddr| match addr {
            IpAddr::V4(a) => match a.octets() {
                [10, pod, switch, _] if pod < self.k && switch < self.k / 2 => Some((pod, switch)),
                _ => None,
            },
            IpAddr::V6(_) => None,
        };
        let (here, there) = (place(local)?, place(remote)?);
        let half = u32::from(self.k / 2);
        Some(match (here == there, here.0 == there.0) {
            (true, _) => 1,
            (false, true) => half,
            (false, false) => half * half,
        })
    }
}

/// Rules that are read from a text. The first rule that matches counts.
///
/// A line has two prefixes and a number of paths, `10.1.0.0/16 10.2.0.0/16 16`, and holds in both directions.
/// `same/24 1` matches two addresses that agree in their first 24 bits. `any` matches every address. Text after
/// `#` is a comment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    between: Between,
    paths: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Prefixes(Prefix, Prefix),
    Same(u8),
}

/// An address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    addr: IpAddr,
    len: u8,
}

const ANY: Prefix = Prefix {
    addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    len: 0,
};

fn bits(addr: IpAddr) -> (u128, u8) {
    match addr {
        IpAddr::V4(a) => (u128::from(a.to_bits()) << 96, 32),
        IpAddr::V6(a) => (a.to_bits(), 128),
    }
}

/// Whether two addresses of one family agree in their first `len` bits.
fn agree(a: IpAddr, b: IpAddr, len: u8) -> bool {
    let ((a, width), (b, other)) = (bits(a), bits(b));
    width == other && len <= width && (a ^ b).checked_shr(128 - u32::from(len)).unwrap_or(0) == 0
}

impl Prefix {
    fn holds(self, addr: IpAddr) -> bool {
        self.len == 0 || agree(self.addr, addr, self.len)
    }
}

impl Topology for Table {
    fn paths(&self, local: IpAddr, remote: IpAddr) -> Option<u32> {
        let fits = |rule: &&Rule| match rule.between {
            Between::Same(len) => agree(local, remote, len),
            Between::Prefixes(a, b) => {
                a.holds(local) && b.holds(remote) || a.holds(remote) && b.holds(local)
            }
        };
        self.rules.iter().find(fits).map(|rule| rule.paths)
    }
}

/// A line that is not a valid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: found {found:?}; want two prefixes (10.1.0.0/16, any) or same/BITS, and a number of paths from 1"
)]
pub struct BadRule {
    /// Its number, from 1.
    pub line: usize,
    /// The text of the line.
    pub found: String,
}

impl FromStr for Table {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let mut rules = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let rule = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = rule.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let rule = read_rule(&words).ok_or_else(|| BadRule {
                line: n + 1,
                found: line.to_owned(),
            })?;
            rules.push(rule);
        }
        Ok(Self { rules })
    }
}

fn read_rule(words: &[&str]) -> Option<Rule> {
    let (paths, between) = words.split_last()?;
    let between = match between {
        [same] => {
            let len = same.strip_prefix("same/")?.parse().ok();
            Between::Same(len.filter(|n| *n <= 128)?)
        }
        [a, b] => Between::Prefixes(read_prefix(a)?, read_prefix(b)?),
        _ => return None,
    };
    let paths = paths.parse().ok().filter(|n| *n > 0)?;
    Some(Rule { between, paths })
}

fn read_prefix(word: &str) -> Option<Prefix> {
    if word == "any" {
        return Some(ANY);
    }
    let (addr, len) = word
        .split_once('/')
        .map_or((word, None), |(a, l)| (a, Some(l)));
    let addr: IpAddr = addr.parse().ok()?;
    let (_, width) = bits(addr);
    let len = len.map_or(Some(width), |l| l.parse().ok())?;
    (len <= width).then_some(Prefix { addr, len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(a: [u8; 4]) -> IpAddr {
        IpAddr::from(a)
    }

    #[test]
    fn fat_tree_derives_path_counts_from_addresses() {
        let tree = FatTree { k: 8 };
        let from = at([10, 0, 1, 2]);
        assert_eq!(tree.paths(from, at([10, 0, 1, 5])), Some(1));
        assert_eq!(tree.paths(from, at([10, 0, 3, 2])), Some(4));
        assert_eq!(tree.paths(from, at([10, 7, 1, 2])), Some(16));
        for stranger in [at([10, 8, 0, 2]), at([10, 0, 4, 2]), at([192, 168, 0, 1])] {
            assert_eq!(tree.paths(from, stranger), None, "{stranger}");
        }
        assert_eq!(tree.paths(from, "::1".parse().unwrap()), None);
    }

    #[test]
    fn first_matching_rule_counts() {
        let table: Table = "# racks\nsame/24 1\n10.1.0.0/16 10.2.0.0/16 4 # pods\nany any 16\n"
            .parse()
            .unwrap();
        assert_eq!(table.paths(at([10, 1, 0, 1]), at([10, 1, 0, 9])), Some(1));
        assert_eq!(table.paths(at([10, 1, 0, 1]), at([10, 2, 9, 9])), Some(4));
        assert_eq!(table.paths(at([10, 2, 9, 9]), at([10, 1, 0, 1])), Some(4));
        assert_eq!(table.paths(at([10, 1, 0, 1]), at([10, 3, 0, 1])), Some(16));
        let v6: Table = "fd00::/64 fd00:0:0:1::/64 8".parse().unwrap();
        let (a, b) = ("fd00::7".parse().unwrap(), "fd00:0:0:1::7".parse().unwrap());
        assert_eq!(v6.paths(a, b), Some(8));
        assert_eq!(v6.paths(a, at([10, 0, 0, 1])), None);
        for bad in [
            "10.0.0.0/33 any 4",
            "any any",
            "any any 0",
            "same/129 1",
            "any 4",
        ] {
            let error = format!("any any 1\n{bad}").parse::<Table>().unwrap_err();
            assert_eq!((error.line, error.found.as_str()), (2, bad));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read_as_a_symmetric_table(text in "[a-z0-9:./# \n]{0,80}", a: [u8; 4], b: [u8; 16]) {
            if let Ok(table) = text.parse::<Table>() {
                let ends = [at(a), IpAddr::from(b)];
                for (x, y) in [(0, 1), (0, 0), (1, 1)] {
                    prop_assert_eq!(table.paths(ends[x], ends[y]), table.paths(ends[y], ends[x]));
                }
            }
        }
    }
}
