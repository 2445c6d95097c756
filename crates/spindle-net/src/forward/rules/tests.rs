use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn rules(texts: &[&str]) -> Rules {
    let list: Vec<Rule> = texts.iter().map(|t| t.parse().unwrap()).collect();
    Rules::from(list)
}

/// Whether the address is allowed for a target that was named so.
fn allows(rules: &Rules, name: &str, addr: &str) -> bool {
    let addr: SocketAddr = addr.parse().unwrap();
    let target = Target::Name(name.to_owned(), addr.port());
    let permitted = !rules.permitted(&target, [addr]).is_empty();
    assert!(!permitted || rules.may_allow(&target));
    permitted
}

/// Whether a target without a name is allowed.
fn allows_address(rules: &Rules, addr: &str) -> bool {
    let addr: SocketAddr = addr.parse().unwrap();
    let target = Target::Address(addr);
    let permitted = !rules.permitted(&target, [addr]).is_empty();
    assert_eq!(permitted, rules.may_allow(&target));
    permitted
}

#[test]
fn rules_are_displayed_as_they_are_written() {
    for text in [
        "example.com:443",
        "*.example.com:80-89",
        "*:*",
        "*:22",
        "10.0.0.1:80",
        "10.0.0.0/8:*",
        "[fd00::/8]:22",
        "[::1]:1-2",
    ] {
        assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
    }
    let same: Rule = "Example.COM.:443".parse().unwrap();
    assert_eq!(same.to_string(), "example.com:443");
}

#[test]
fn texts_that_are_no_rules_are_refused_with_what_is_wrong() {
    for (text, wrong) in [
        ("example.com", "no colon"),
        ("[::1]", "no colon"),
        ("example.com:", "ports: found \"\""),
        ("example.com:0", "ports: found \"0\""),
        ("example.com:+5", "ports: found \"+5\""),
        ("example.com:65536", "ports"),
        ("example.com:9-8", "ports: found \"9-8\""),
        ("example.com:1-", "ports"),
        (":80", "host: found \"\""),
        ("a..b:80", "host: found \"a..b\""),
        ("ex*mple.com:80", "host"),
        ("*.:80", "host"),
        ("**.example.com:80", "host"),
        (
            "http://example.com:80",
            "host: found \"http://example.com\"",
        ),
        ("10.0.0:80", "host: found \"10.0.0\""),
        ("10.0.0.256:80", "host"),
        ("10.0.0.0/33:80", "host"),
        ("10.0.0.1/8:80", "want 10.0.0.0/8"),
        ("fd00::/8:80", "brackets"),
        ("::1", "want [::1]:PORTS"),
        ("[10.0.0.1]:80", "host"),
        ("[::ffff:10.0.0.1]:80", "IPv4-mapped"),
        ("[::ffff:10.0.0.0/104]:80", "IPv4-mapped"),
        ("[fd00::1/8]:80", "want fd00::/8"),
    ] {
        let error = text.parse::<Rule>().unwrap_err().to_string();
        assert!(error.contains(wrong), "{text}: {error}");
    }
}

#[test]
fn without_rules_nothing_is_allowed() {
    let none = Rules::default();
    assert!(!allows(&none, "example.com", "1.1.1.1:443"));
    assert!(!allows_address(&none, "1.1.1.1:443"));
}

#[test]
fn a_name_covers_itself_in_any_case_and_on_its_ports_only() {
    let r = rules(&["example.com:443", "example.com:8000-8002"]);
    for name in ["example.com", "EXAMPLE.com", "example.com."] {
        assert!(allows(&r, name, "1.1.1.1:443"), "{name}");
    }
    assert!(allows(&r, "example.com", "1.1.1.1:8002"));
    assert!(!allows(&r, "example.com", "1.1.1.1:8003"));
    for name in [
        "www.example.com",
        "example.org",
        "notexample.com",
        "com",
        "",
    ] {
        assert!(!allows(&r, name, "1.1.1.1:443"), "{name}");
    }
    assert!(!allows_address(&r, "1.1.1.1:443"));
}

#[test]
fn an_asterisk_before_a_name_covers_all_names_below_it() {
    let r = rules(&["*.example.com:443"]);
    assert!(allows(&r, "www.example.com", "1.1.1.1:443"));
    assert!(allows(&r, "a.b.Example.com", "1.1.1.1:443"));
    assert!(!allows(&r, "example.com", "1.1.1.1:443"));
    assert!(!allows(&r, "notexample.com", "1.1.1.1:443"));
    assert!(!allows(&r, ".example.com", "1.1.1.1:443"));
}

#[test]
fn names_do_not_open_private_addresses_unless_an_address_rule_does() {
    let inner = ["127.0.0.1:80", "10.1.2.3:80", "[::1]:80", "[fd00::1]:80"];
    for r in [rules(&["example.com:80"]), rules(&["*:*"])] {
        for addr in inner {
            assert!(!allows(&r, "example.com", addr), "{addr}");
        }
        assert!(allows(&r, "example.com", "1.1.1.1:80"));
    }
    let both = rules(&["example.com:80", "10.0.0.0/8:80"]);
    assert!(allows(&both, "example.com", "10.1.2.3:80"));
    assert!(!allows(&both, "example.com", "192.168.0.1:80"));
    // The ports are those of the rule for the address.
    let other = rules(&["example.com:*", "10.0.0.0/8:22"]);
    assert!(!allows(&other, "example.com", "10.1.2.3:80"));
}

#[test]
fn only_permitted_addresses_of_a_name_remain_in_their_order() {
    let r = rules(&["example.com:80", "10.0.0.0/8:80"]);
    let target = Target::Name("example.com".to_owned(), 80);
    let found = [
        "127.0.0.1:0",
        "10.0.0.1:0",
        "1.1.1.1:0",
        "[::ffff:10.0.0.1]:0",
    ];
    let found = found.map(|a| a.parse::<SocketAddr>().unwrap());
    let permitted: Vec<_> = r
        .permitted(&target, found)
        .into_iter()
        .map(|p| p.addr().to_string())
        .collect();
    assert_eq!(permitted, ["10.0.0.1:80", "1.1.1.1:80"]);
}

#[test]
fn mapped_addresses_are_judged_as_ipv4_addresses() {
    let r = rules(&["*:80", "10.0.0.0/8:80", "[::/0]:81"]);
    assert!(allows_address(&r, "[::ffff:10.0.0.1]:80"));
    assert!(allows_address(&r, "[::ffff:1.1.1.1]:80"));
    assert!(!allows_address(&r, "[::ffff:192.168.0.1]:80"));
    assert!(!allows_address(&r, "[::ffff:127.0.0.1]:80"));
    // A rule for all of IPv6 is no rule for IPv4.
    assert!(!allows_address(&r, "[::ffff:127.0.0.1]:81"));
    assert!(allows_address(&r, "[::1]:81"));
}

#[test]
fn names_are_resolved_only_if_a_rule_could_allow_them() {
    let r = rules(&["example.com:443", "10.0.0.0/8:22"]);
    let may = |name: &str, port| r.may_allow(&Target::Name(name.to_owned(), port));
    assert!(may("example.com", 443));
    assert!(
        may("anything.example", 22),
        "it may have an address in 10.0.0.0/8"
    );
    assert!(!may("anything.example", 443));
    assert!(!may("example.com", 80));
}

fn octets_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => match a.to_ipv4_mapped() {
            Some(a) => a.octets().to_vec(),
            None => a.octets().to_vec(),
        },
    }
}

/// Whether the first `len` bits are equal.
fn same_prefix(a: &[u8], b: &[u8], len: u8) -> bool {
    let bit = |x: &[u8], i: usize| x[i / 8] >> (7 - i % 8) & 1;
    a.len() == b.len() && (0..usize::from(len)).all(|i| bit(a, i) == bit(b, i))
}

/// Networks whose addresses no name and no `*` may open (RFC 1122, 1918, 3927, 4193, 4291 and 6598).
const CLOSED: &[(&str, u8)] = &[
    ("0.0.0.0", 8),
    ("10.0.0.0", 8),
    ("100.64.0.0", 10),
    ("127.0.0.0", 8),
    ("169.254.0.0", 16),
    ("172.16.0.0", 12),
    ("192.168.0.0", 16),
    ("224.0.0.0", 4),
    ("::", 127),
    ("fc00::", 7),
    ("fe80::", 10),
    ("ff00::", 8),
];

fn closed(address: IpAddr) -> bool {
    let own = octets_of(address);
    CLOSED.iter().any(|(network, len)| {
        let network: IpAddr = network.parse().unwrap();
        same_prefix(&own, &octets_of(network), *len)
    })
}

/// What the texts of rules say about a target, without the code under test.
fn said(texts: &[String], name: Option<&str>, addr: SocketAddr) -> bool {
    texts.iter().any(|text| {
        let (host, ports) = text.rsplit_once(':').unwrap();
        let (first, last) = match ports {
            "*" => (1, 65_535),
            ports => {
                let (a, b) = ports.split_once('-').unwrap_or((ports, ports));
                (a.parse::<u16>().unwrap(), b.parse().unwrap())
            }
        };
        let host = host.trim_matches(['[', ']']);
        let (network, len) = host.split_once('/').unwrap_or((host, "128"));
        let by_host = if let Ok(network) = network.parse::<IpAddr>() {
            let bits = if network.is_ipv4() { 32 } else { 128 };
            let len = len.parse::<u8>().unwrap().min(bits);
            same_prefix(&octets_of(addr.ip()), &octets_of(network), len)
        } else if let Some(end) = host.strip_prefix('*') {
            let named = name.is_some_and(|n| n.ends_with(end));
            !closed(addr.ip()) && (named || end.is_empty())
        } else {
            !closed(addr.ip()) && name == Some(host)
        };
        by_host && first <= addr.port() && addr.port() <= last
    })
}

const NAMES: [&str; 4] = ["a.example", "b.a.example", "example", "c.test"];

/// Addresses near the edges of networks with a special meaning, and arbitrary ones.
fn address() -> impl Strategy<Value = IpAddr> {
    let edge = (0..CLOSED.len(), any::<u8>(), any::<bool>()).prop_map(|(i, low, mapped)| {
        let near: IpAddr = CLOSED[i].0.parse().unwrap();
        match near {
            IpAddr::V4(a) => {
                let a =
                    Ipv4Addr::from_bits(a.to_bits().wrapping_add(u32::from(low)).wrapping_sub(5));
                if mapped {
                    a.to_ipv6_mapped().into()
                } else {
                    a.into()
                }
            }
            IpAddr::V6(a) => {
                Ipv6Addr::from_bits(a.to_bits().wrapping_add(u128::from(low)).wrapping_sub(5))
                    .into()
            }
        }
    });
    let v4 = any::<u32>().prop_map(|b| IpAddr::from(Ipv4Addr::from_bits(b)));
    let v6 = any::<u128>().prop_map(|b| IpAddr::from(Ipv6Addr::from_bits(b)));
    prop_oneof![3 => edge, 2 => v4, 1 => v6]
}

fn rule() -> impl Strategy<Value = String> {
    let network = (address(), 0u8..=128).prop_map(|(a, len)| {
        let a = a.to_canonical();
        let len = len.min(if a.is_ipv4() { 32 } else { 128 });
        let network = IpNet::new(a, len).unwrap().trunc();
        match network {
            IpNet::V4(n) => n.to_string(),
            IpNet::V6(n) => format!("[{n}]"),
        }
    });
    let name = (0..NAMES.len()).prop_map(|i| NAMES[i].to_owned());
    let below = (0..NAMES.len()).prop_map(|i| format!("*.{}", NAMES[i]));
    let host = prop_oneof![3 => network, 2 => name, 1 => below, 1 => Just("*".to_owned())];
    let ports = prop_oneof![
        Just("*".to_owned()),
        (1u16..5).prop_map(|p| p.to_string()),
        (1u16..5, 0u16..3).prop_map(|(p, more)| format!("{p}-{}", p + more)),
    ];
    (host, ports).prop_map(|(host, ports)| format!("{host}:{ports}"))
}

proptest! {
    #[test]
    fn what_no_rule_allows_is_never_dialled(
        texts in prop::collection::vec(rule(), 0..6),
        name in prop::option::of(0..NAMES.len()),
        found in prop::collection::vec(address(), 1..6),
        port in 1u16..8,
    ) {
        let list = texts.iter().map(|t| t.parse::<Rule>().expect("a rule"));
        let rules = Rules::from(list.collect::<Vec<_>>());
        let name = name.map(|i| NAMES[i]);
        let found: Vec<_> = found.into_iter().map(|a| SocketAddr::new(a, port)).collect();
        let target = match name {
            Some(name) => Target::Name(name.to_owned(), port),
            None => Target::Address(found[0]),
        };
        let permitted = rules.permitted(&target, found.clone());
        for p in &permitted {
            prop_assert!(said(&texts, name, p.addr()), "{texts:?}, {name:?}: {p:?}");
            prop_assert_eq!(p.addr().ip(), p.addr().ip().to_canonical());
            prop_assert!(name.is_none() || rules.may_allow(&target));
        }
        // What the rules' texts allow is dialled, except for special addresses that CLOSED does not list.
        for addr in found {
            let addr = SocketAddr::new(addr.ip().to_canonical(), port);
            let kept = permitted.iter().any(|p| p.addr() == addr);
            if said(&texts, name, addr) && is_public(addr.ip()) {
                prop_assert!(kept, "{texts:?}, {name:?}: {addr}");
            }
        }
    }

    #[test]
    fn any_text_is_a_rule_or_an_error(text in "[a-z0-9.:*/\\[\\]-]{0,24}") {
        if let Ok(rule) = text.parse::<Rule>() {
            prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
        }
    }
}
