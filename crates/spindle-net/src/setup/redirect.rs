//! Rules (nftables) that redirect programs' TCP connections to a connect service, in a separate table named after the
//! service's first address.
//!
//! | chain | hook | what happens |
//! |---|---|---|
//! | `from_programs` | output | connections of programs of this host are redirected |
//! | `from_hosts` | prerouting | connections of other hosts that arrive on a device are redirected |
//! | `exceptions` | both call it | connections to this host, its link, its gateway and excepted networks are not |
//!
//! The segments of a connect service itself travel in UDP or come from a TUN device. TCP connections of the kernel are opened
//! by the system's resolver, to a name server (port 53, or 853 for DNS over TLS), and by the service if it opens programs'
//! connections directly, which have the mark [`OWN_MARK`]. Both are never redirected. A service that runs as a user of its
//! own also excepts that user, so that a gateway or a resolver of that user can run on the same host.

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::str::FromStr;

pub use ipnet::IpNet;
use nix::unistd::{Uid, User, geteuid};

use super::SetupError;
use super::command::nft;

/// The mark (SO_MARK of socket(7)) of connections that a service opens directly. Our choice: it has no bit of the
/// masks of Kubernetes (0xc000), of mwan3 of OpenWrt (0x3f00) and of Tailscale (0xff0000).
pub const OWN_MARK: u32 = 0x5300_0000;

/// Whose TCP connections are redirected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirected {
    /// Those of all programs of this host.
    All,
    /// Those of a user's programs, by the user's number.
    User(u32),
    /// Those of the programs of a cgroup (version 2) and of the cgroups below it, by its path below /sys/fs/cgroup,
    /// without a leading slash. The cgroup must exist.
    Cgroup(String),
    /// Those of other hosts that arrive on this device.
    Device(String),
}

/// Why the rules could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum RedirectError {
    /// The text does not say whose connections are redirected.
    #[error(
        "found \"{0}\", want all, user:NAME or user:NUMBER, cgroup:PATH below /sys/fs/cgroup, or device:NAME"
    )]
    Syntax(String),
    /// No user has this name.
    #[error("this host has no user \"{0}\"; want a user's name or number")]
    NoUser(String),
    /// Other hosts cannot reach any of the service's addresses.
    #[error(
        "connections that arrive on {0} cannot be redirected to loopback: the service must listen on an address of that \
         device as well"
    )]
    Loopback(String),
    /// The system refused the rules.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl FromStr for Redirected {
    type Err = RedirectError;

    fn from_str(text: &str) -> Result<Self, RedirectError> {
        let wrong = || RedirectError::Syntax(text.to_owned());
        if text == "all" {
            return Ok(Self::All);
        }
        // No character may end a quoted string of nft.
        let quotable = |c: char| !c.is_control() && c != '"';
        match text.split_once(':').ok_or_else(wrong)? {
            ("user", name) if !name.is_empty() => user(name).map(Self::User),
            ("cgroup", path) => {
                let path = path.trim_matches('/');
                let ok = !path.is_empty() && path.chars().all(quotable);
                let ok = ok && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
                ok.then(|| Self::Cgroup(path.to_owned())).ok_or_else(wrong)
            }
            ("device", name) => {
                // The kernel's limit is IFNAMSIZ, 16 with the final zero. nft takes `*` for any ending.
                let allowed = |c: char| quotable(c) && !c.is_whitespace() && !"/*\\".contains(c);
                let ok = (1..16).contains(&name.len()) && name.chars().all(allowed);
                ok.then(|| Self::Device(name.to_owned())).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }
}

/// The number of a user.
fn user(name: &str) -> Result<u32, RedirectError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let found = User::from_name(name).ok().flatten();
    let found = found.ok_or_else(|| RedirectError::NoUser(name.to_owned()))?;
    Ok(found.uid.as_raw())
}

impl fmt::Display for Redirected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::User(number) => match User::from_uid(Uid::from_raw(*number)) {
                Ok(Some(user)) => write!(f, "user:{}", user.name),
                _ => write!(f, "user:{number}"),
            },
            Self::Cgroup(path) => write!(f, "cgroup:{path}"),
            Self::Device(name) => write!(f, "device:{name}"),
        }
    }
}

/// What is redirected, and what is not.
#[derive(Clone, Debug, Default)]
pub struct RedirectOptions {
    /// Whose connections are redirected.
    pub redirected: Vec<Redirected>,
    /// Destinations that programs reach directly, such as the gateway. Those of this host and of its link are excepted in
    /// any case: loopback, its own addresses, link-local, multicast and broadcast ones.
    pub except: Vec<IpNet>,
}

/// A listening address of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listening {
    pub(crate) at: SocketAddr,
    /// Whether it also accepts IPv4 connections at an IPv6 address.
    pub(crate) both_families: bool,
}

/// Where connections of one origin are redirected to, for each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ends {
    v4: Option<SocketAddr>,
    v6: Option<SocketAddr>,
}

impl Ends {
    /// The first suitable addresses. Connections of other hosts cannot be redirected to loopback.
    fn of(list: &[Listening], other_hosts: bool) -> Self {
        let usable = |l: &&Listening| !(other_hosts && l.at.ip().is_loopback());
        let is_v4 = |l: &&Listening| l.at.is_ipv4() || l.both_families;
        let first = |v4: bool| {
            let mut usable = list.iter().filter(usable);
            usable.find(|l| if v4 { is_v4(l) } else { l.at.is_ipv6() })
        };
        Self {
            v4: first(true).map(|l| l.at),
            v6: first(false).map(|l| l.at),
        }
    }

    fn is_none(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }

    /// The rules of a chain that redirects everything.
    fn rules(&self) -> String {
        let rule = |family: &str, ip: &str, at: SocketAddr| {
            let to = match at.ip().is_unspecified() {
                true => format!("redirect to :{}", at.port()),
                false => format!("dnat {ip} to {at}"),
            };
            format!("    meta nfproto {family} meta l4proto tcp {to}\n")
        };
        let v4 = self.v4.map(|at| rule("ipv4", "ip", at));
        let v6 = self.v6.map(|at| rule("ipv6", "ip6", at));
        v4.unwrap_or_default() + &v6.unwrap_or_default()
    }
}

/// The rules of a service, which are removed when this is dropped.
#[derive(Debug)]
pub struct Redirection {
    table: String,
    /// Whether connections of each family are redirected: IPv4, IPv6.
    families: (bool, bool),
}

impl Redirection {
    /// Installs the rules for a service that listens at these addresses. A table that a killed service at the same address
    /// left is replaced.
    pub(crate) fn install(
        listening: &[Listening],
        options: &RedirectOptions,
    ) -> Result<Self, RedirectError> {
        let table = table(listening.first().map(|l| l.at));
        let text = rules(&table, listening, options, geteuid().as_raw())?;
        nft(&text)?;
        warn_of_others(&table);
        let v4 = listening.iter().any(|l| l.at.is_ipv4() || l.both_families);
        let v6 = listening.iter().any(|l| l.at.is_ipv6());
        Ok(Self {
            table,
            families: (v4, v6),
        })
    }

    /// The name of the table, of the family `inet`.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Whether connections are redirected over IPv4, and over IPv6.
    pub fn families(&self) -> (bool, bool) {
        self.families
    }

    /// Redirects no further connections. Those that were redirected before continue: the kernel tracks connections and
    /// translates their packets as long as a rule with `dnat` or `redirect` and the chains of the hooks exist.
    pub(crate) fn release(&self) {
        let chains = ["from_programs", "from_hosts"];
        let flush = chains.map(|chain| format!("flush chain inet {} {chain}\n", self.table));
        if let Err(error) = nft(&flush.concat()) {
            tracing::warn!(table = %self.table, %error, "connections are still redirected until connect ends");
        }
    }
}

impl Drop for Redirection {
    fn drop(&mut self) {
        if let Err(error) = nft(&format!("delete table inet {}\n", self.table)) {
            tracing::warn!(table = %self.table, %error, "the rules could not be removed; `nft delete table inet {}` does so", self.table);
        }
    }
}

/// Removes the rules that a killed service with this first listening address has left. Returns the name of the table if there
/// was one.
///
/// # Errors
/// [`SetupError`], which names the command that failed.
pub fn remove_redirection(first: SocketAddr) -> Result<Option<String>, SetupError> {
    let table = table(Some(first));
    if !tables()?.contains(&table) {
        return Ok(None);
    }
    nft(&format!("delete table inet {table}\n"))?;
    Ok(Some(table))
}

/// The tables of all services, and those that killed ones have left.
fn tables() -> Result<Vec<String>, SetupError> {
    let list = nft("list tables inet\n")?;
    let names = list.lines().filter_map(|l| l.strip_prefix("table inet "));
    let ours = names.filter(|name| name.starts_with(TABLE));
    Ok(ours.map(str::to_owned).collect())
}

/// Logs the tables that this service has not made.
fn warn_of_others(own: &str) {
    // The table of this service could be made, so nft works.
    let others = tables().unwrap_or_default();
    for table in others.iter().filter(|table| *table != own) {
        tracing::warn!(
            %table,
            "another table redirects connections, too; if the connect that made it was killed, `nft delete table inet {table}` removes it"
        );
    }
}

/// The name of the table. No other process listens at the same address, so no running one has the same table. An identifier
/// of nft has letters, digits, `.`, `-` and `_`, but no colons.
fn table(first: Option<SocketAddr>) -> String {
    let first = first.map(|at| at.to_string());
    let place = first.unwrap_or_default().replace(['[', ']'], "");
    let place = place.replace('%', "-");
    match place.rsplit_once(':') {
        Some((ip, port)) => format!("{TABLE}-{}-{port}", ip.replace(':', "_")),
        None => TABLE.to_owned(),
    }
}

/// The beginning of the names of all tables.
const TABLE: &str = "spindle-connect";

/// Destinations that are not redirected in any case.
const HERE: &str = "    meta l4proto != tcp accept
    fib daddr type { local, broadcast, anycast, multicast } accept
    ip daddr { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 } accept
    ip6 daddr { ::1, fe80::/10, ff00::/8 } accept
";

/// The complete table, in place of an existing one. `own` is the user that the service runs as.
fn rules(
    table: &str,
    listening: &[Listening],
    options: &RedirectOptions,
    own: u32,
) -> Result<String, RedirectError> {
    let (programs, hosts) = (Ends::of(listening, false), Ends::of(listening, true));
    let mut exceptions = HERE.to_owned();
    for network in &options.except {
        let family = if network.addr().is_ipv4() {
            "ip"
        } else {
            "ip6"
        };
        // Writing to a string does not fail.
        let _ = writeln!(exceptions, "    {family} daddr {} accept", network.trunc());
    }
    let (mut from_programs, mut from_hosts) = (String::new(), String::new());
    for which in &options.redirected {
        let _ = match which {
            Redirected::All => writeln!(from_programs, "    jump programs_to_connect"),
            Redirected::User(user) => {
                writeln!(
                    from_programs,
                    "    meta skuid {user} jump programs_to_connect"
                )
            }
            Redirected::Cgroup(path) => writeln!(
                from_programs,
                "    socket cgroupv2 level {} \"{path}\" jump programs_to_connect",
                path.split('/').count()
            ),
            Redirected::Device(name) => {
                if hosts.is_none() {
                    return Err(RedirectError::Loopback(name.clone()));
                }
                writeln!(from_hosts, "    iifname \"{name}\" jump hosts_to_connect")
            }
        };
    }
    let named = options.redirected.contains(&Redirected::User(own));
    let own = match own {
        0 => String::new(),
        _ if named => String::new(),
        own => format!("    meta skuid {own} accept\n"),
    };
    Ok(format!(
        "table inet {table} {{ }}\ndelete table inet {table}\ntable inet {table} {{\n  \
         chain exceptions {{\n{exceptions}  }}\n  \
         chain programs_to_connect {{\n{}  }}\n  \
         chain hosts_to_connect {{\n{}  }}\n  \
         chain from_programs {{\n    type nat hook output priority -100;\n    \
         jump exceptions\n    tcp dport {{ 53, 853 }} accept\n    meta mark {OWN_MARK:#x} accept\n{own}{from_programs}  }}\n  \
         chain from_hosts {{\n    type nat hook prerouting priority -100;\n    \
         jump exceptions\n{from_hosts}  }}\n}}\n",
        programs.rules(),
        hosts.rules(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Listening {
        Listening {
            at: text.parse().unwrap(),
            both_families: false,
        }
    }

    fn options(redirected: &[&str]) -> RedirectOptions {
        RedirectOptions {
            redirected: redirected.iter().map(|t| t.parse().unwrap()).collect(),
            except: vec![
                "192.0.2.1/32".parse().unwrap(),
                "fd00::9/8".parse().unwrap(),
            ],
        }
    }

    #[test]
    fn origins_are_read_and_texts_that_nft_would_misread_are_refused() {
        let read = |text: &str| text.parse::<Redirected>();
        assert_eq!(read("all").unwrap(), Redirected::All);
        assert_eq!(read("user:0").unwrap(), Redirected::User(0));
        assert_eq!(read("user:root").unwrap(), Redirected::User(0));
        let cgroup = Redirected::Cgroup("system.slice/a\\x2db.service".to_owned());
        assert_eq!(
            read("cgroup:/system.slice/a\\x2db.service/").unwrap(),
            cgroup
        );
        let device = Redirected::Device("br-lan".to_owned());
        assert_eq!(read("device:br-lan").unwrap(), device);
        for text in ["all", "user:root", "cgroup:a/b", "device:eth0.1"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "everything",
            "user:",
            "cgroup:",
            "cgroup:/",
            "cgroup:a//b",
            "cgroup:a/../b",
            "cgroup:a\" jump b \"",
            "cgroup:a\nb",
            "device:",
            "device:a b",
            "device:a\"b",
            "device:eth*",
            "device:sixteen-letters-",
        ] {
            let error = read(wrong).unwrap_err();
            assert!(
                matches!(error, RedirectError::Syntax(_)),
                "{wrong}: {error}"
            );
        }
        let unknown = read("user:no such user").unwrap_err().to_string();
        assert!(unknown.contains("no such user"), "{unknown}");
    }

    #[test]
    fn each_origin_and_each_exception_has_a_rule() {
        let listening = [at("127.0.0.1:1080"), at("[::1]:1080"), at("192.0.2.9:1080")];
        let asked = ["user:1000", "cgroup:system.slice/a.service", "device:lan0"];
        let name = table(Some(listening[0].at));
        assert_eq!(name, "spindle-connect-127.0.0.1-1080");
        let text = rules(&name, &listening, &options(&asked), 0).unwrap();
        for rule in [
            "    ip daddr 192.0.2.1/32 accept\n",
            "    ip6 daddr fd00::/8 accept\n",
            "    tcp dport { 53, 853 } accept\n    meta mark 0x53000000 accept\n    meta skuid 1000 jump programs_to_connect\n",
            "    socket cgroupv2 level 2 \"system.slice/a.service\" jump programs_to_connect\n",
            "    iifname \"lan0\" jump hosts_to_connect\n",
            "  chain programs_to_connect {\n    meta nfproto ipv4 meta l4proto tcp dnat ip to 127.0.0.1:1080\n    \
             meta nfproto ipv6 meta l4proto tcp dnat ip6 to [::1]:1080\n  }\n",
            "  chain hosts_to_connect {\n    meta nfproto ipv4 meta l4proto tcp dnat ip to 192.0.2.9:1080\n  }\n",
        ] {
            assert_eq!(text.matches(rule).count(), 1, "{rule}: {text}");
        }
    }

    #[test]
    fn the_services_own_user_is_excepted_unless_it_is_root_or_is_named() {
        let listening = [at("127.0.0.1:1080")];
        let excepted = |own: u32, asked: &str| {
            let text = rules("t", &listening, &options(&[asked]), own).unwrap();
            text.contains(&format!("meta skuid {own} accept"))
        };
        assert!(excepted(997, "all"));
        assert!(!excepted(0, "all"));
        assert!(!excepted(997, "user:997"));
    }

    #[test]
    fn a_listener_at_any_address_serves_its_families_and_loopback_no_other_hosts() {
        let both = Listening {
            both_families: true,
            ..at("[::]:1080")
        };
        let text = rules("t", &[both], &options(&["device:lan0"]), 0).unwrap();
        assert_eq!(text.matches("tcp redirect to :1080\n").count(), 4, "{text}");
        assert_eq!(table(Some(both.at)), "spindle-connect-__-1080");
        let text = rules("t", &[at("[::]:1080")], &options(&["all"]), 0).unwrap();
        assert!(!text.contains("nfproto ipv4"), "{text}");
        let listening = [at("127.0.0.1:1080"), at("[::1]:1080")];
        let error = rules("t", &listening, &options(&["device:lan0"]), 0).unwrap_err();
        assert!(matches!(error, RedirectError::Loopback(_)), "{error}");
    }
}
