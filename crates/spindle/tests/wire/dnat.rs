//! A gateway at this host's own addresses (`--dnat`) on a host with a stateful firewall, over two different
//! paths.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::link::Link;
use crate::service::{connect, listen, serve, transfer};
use crate::spindle::{Running, program};
use crate::two_hosts::{Hosts, Namespace, have, on_path, output, run, within};

/// Bytes of a transfer.
fn size() -> u64 {
    if crate::full() {
        200_000_000
    } else {
        20_000_000
    }
}

/// Transfers in each address family.
fn transfers() -> u32 {
    if crate::full() { 20 } else { 1 }
}

/// Which path the first subflow uses. It is path 1, to the gateway's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Slow,
    Fast,
}

impl First {
    /// The number of the fast path.
    fn fast_path(self) -> u32 {
        match self {
            Self::Slow => 2,
            Self::Fast => 1,
        }
    }
}

/// One path of 50 Mbit/s with a round trip of 120 ms, and one of 300 Mbit/s with 20 ms. The window of the
/// connection, for both paths, soon far exceeds what either subflow announced last.
fn unlike_paths(hosts: &Hosts, first: First) {
    let fast = first.fast_path();
    hosts.shape(3 - fast, &Link::new(50, 60));
    hosts.shape(fast, &Link::new(300, 10));
}

/// A firewall that forwards only Spindle's packets and those that connection tracking knows. To this host it
/// admits only these and the packets for the kernel's own service.
fn firewall() {
    run("nft -f - <<END
table inet firewall {
  chain in { type filter hook input priority 0; policy drop;
    ct state established,related accept
    iifname { lo, spin0 } accept
    tcp dport 9001 accept
    meta l4proto ipv6-icmp accept
  }
  chain through { type filter hook forward priority 0; policy drop;
    ct state established,related accept
    iifname spin0 accept
    oifname spin0 accept
  }
}
END");
}

/// Counts packets of Spindle's inner addresses that the client sees or sends.
fn watch_inner_addresses(hosts: &Hosts) {
    hosts.client(
        "nft -f - <<END
table inet watch {
  counter inner { }
  chain in {
    type filter hook prerouting priority raw;
    ip saddr 198.18.0.0/15 counter name inner
    ip6 saddr fd53:7069:6e64:6c66::/64 counter name inner
  }
  chain out {
    type filter hook output priority raw;
    ip daddr 198.18.0.0/15 counter name inner
    ip6 daddr fd53:7069:6e64:6c66::/64 counter name inner
  }
}
END",
    );
}

fn gateway() -> Running {
    let mut command = Command::new(program());
    command.args(["gateway", "--tun", "spin0", "--dnat"]);
    command.args(["--to", "127.0.0.1:9000"]);
    for listen in ["10.1.1.1:8080", "[fd01:1::1]:8080"] {
        command.args(["--listen", listen]);
    }
    for announce in ["10.1.2.1", "fd01:2::1"] {
        command.args(["--announce", announce]);
    }
    Running::start(command, "gateway")
}

/// Fetches `size` bytes in the namespace of this thread. Returns the established subflows when nearly all bytes
/// have arrived, as `ss` lists them, and the number of bytes in all.
fn fetch(mut stream: &TcpStream) -> (String, u64) {
    let mut head = vec![b'd'];
    head.extend_from_slice(&size().to_be_bytes());
    stream.write_all(&head).expect("the request");
    let (mut block, mut total, mut subflows) = (vec![0; 256 << 10], 0, String::new());
    loop {
        let n = stream.read(&mut block).expect("data") as u64;
        total += n;
        if n == 0 {
            return (subflows, total);
        }
        if total > size() / 10 * 9 && subflows.is_empty() {
            let listed = output("ss -Htin state established '( dport = :8080 )'");
            subflows = String::from_utf8_lossy(&listed.stdout).into_owned();
        }
    }
}

/// Makes one transfer from `client` at `from`, which must keep both its subflows. Returns how long it takes.
fn keeps_both_subflows(client: &Namespace, from: IpAddr, gateway: &Running) -> Duration {
    let v6 = from.is_ipv6();
    let to = (on_path(v6, 1, 1), 8080).into();
    let started = Instant::now();
    let (subflows, total) = client.at(|| fetch(&connect(from, to, true)));
    let took = started.elapsed();
    assert_eq!(total, size() + 32, "with the digest behind it");
    // The client joins from either family, whichever address was announced first.
    let joined = [false, true].map(|v6| on_path(v6, 2, 1).to_string());
    let (first, second) = (on_path(v6, 1, 1).to_string(), &joined);
    assert!(
        subflows.contains(&first) && second.iter().any(|s| subflows.contains(s)),
        "IPv6 {v6}, subflows: {subflows}\n{}",
        gateway.log()
    );
    took
}

/// Makes transfers from `client` in each address family, by turns through the gateway and over the kernel's TCP
/// on the fast path. No transfer through the gateway may take longer than the median of the kernel's. An IPv6
/// header has 20 bytes more, so each family is compared with itself. `on_fast` has the client's addresses on
/// the fast path, and `from` has those of its first subflow.
fn transfers_on_both_paths(
    client: &Namespace,
    from: [IpAddr; 2],
    on_fast: [IpAddr; 2],
    first: First,
    gateway: &Running,
) {
    serve("[::]:9001".parse().expect("an address"), false);
    let mut slower = vec![];
    for (from, on_fast) in from.into_iter().zip(on_fast) {
        let family = if from.is_ipv6() { "IPv6" } else { "IPv4" };
        let service = (on_path(from.is_ipv6(), first.fast_path(), 1), 9001).into();
        let (mut ours, mut kernel) = (vec![], vec![]);
        for _ in 0..transfers() {
            ours.push(keeps_both_subflows(client, from, gateway));
            let started = Instant::now();
            let (_, total) = client.at(|| fetch(&connect(on_fast, service, false)));
            kernel.push(started.elapsed());
            assert_eq!(total, size() + 32, "with the digest behind it");
        }
        ours.sort();
        kernel.sort();
        eprintln!(
            "{first:?} path first, {family}: {ours:.2?}; kernel TCP on the fast path: {kernel:.2?}"
        );
        let (slowest, median) = (ours[ours.len() - 1], kernel[kernel.len() / 2]);
        if slowest > median {
            slower.push(format!("{family}: {slowest:?} compared with {median:?}"));
        }
    }
    // A small transfer is over before the second subflow has its share.
    if crate::full() {
        assert!(slower.is_empty(), "{slower:?}");
    }
}

fn dnat_keeps_both(test: &str, first: First) {
    within(test, 900, |hosts| {
        if !have(test, "nft") {
            return;
        }
        unlike_paths(hosts, first);
        firewall();
        watch_inner_addresses(hosts);
        serve("127.0.0.1:9000".parse().expect("an address"), false);
        let gateway = gateway();
        let at = |path| [false, true].map(|v6| on_path(v6, path, 2));
        let (from, on_fast) = (at(1), at(first.fast_path()));
        transfers_on_both_paths(hosts.namespace(), from, on_fast, first, &gateway);
        let seen = hosts.client("nft list counter inet watch inner");
        assert!(seen.contains("packets 0"), "inner addresses: {seen}");
        let tracked = run("cat /proc/net/nf_conntrack");
        assert!(tracked.contains("dport=9000"), "nothing is tracked");
        assert!(!tracked.contains("dport=8080"), "{tracked}");
    });
}

#[test]
fn dnat_keeps_both_subflows_of_unlike_paths_and_tracks_none_of_them() {
    let test = "dnat::dnat_keeps_both_subflows_of_unlike_paths_and_tracks_none_of_them";
    dnat_keeps_both(test, First::Slow);
}

#[test]
fn dnat_keeps_both_subflows_of_unlike_paths_if_the_fast_one_comes_first() {
    let test = "dnat::dnat_keeps_both_subflows_of_unlike_paths_if_the_fast_one_comes_first";
    dnat_keeps_both(test, First::Fast);
}

/// The service answers long after connection tracking has forgotten the connection.
#[test]
fn dnat_delivers_an_answer_that_takes_longer_than_connection_tracking_remembers() {
    let test = "dnat::dnat_delivers_an_answer_that_takes_longer_than_connection_tracking_remembers";
    within(test, 60, |hosts| {
        if !have(test, "nft") {
            return;
        }
        firewall();
        watch_inner_addresses(hosts);
        run("sysctl -qw net.netfilter.nf_conntrack_tcp_timeout_established=1");
        let listener = listen("127.0.0.1:9000".parse().expect("an address"), false);
        let _gateway = gateway();
        for v6 in [false, true] {
            let to = (on_path(v6, 1, 1), 8080).into();
            let mut client = hosts.at_client(|| connect(on_path(v6, 1, 2), to, true));
            let (mut service, _) = listener.accept().expect("a connection");
            client.write_all(b"question").expect("sent");
            service.read_exact(&mut [0; 8]).expect("the question");
            std::thread::sleep(Duration::from_secs(3));
            service.write_all(b"answer").expect("sent");
            let wait = Some(Duration::from_secs(20));
            client.set_read_timeout(wait).expect("an option");
            client.read_exact(&mut [0; 6]).expect("the answer");
        }
        let seen = hosts.client("nft list counter inet watch inner");
        assert!(seen.contains("packets 0"), "inner addresses: {seen}");
    });
}

#[test]
fn dnat_serves_connections_of_the_host_itself_through_its_firewall() {
    let test = "dnat::dnat_serves_connections_of_the_host_itself_through_its_firewall";
    within(test, 60, |_hosts| {
        if !have(test, "nft") {
            return;
        }
        firewall();
        serve("127.0.0.1:9000".parse().expect("an address"), false);
        let gateway = gateway();
        for v6 in [false, true] {
            let own = on_path(v6, 1, 1);
            for down in [true, false] {
                let stream = connect(own, (own, 8080).into(), false);
                let whole = transfer(&stream, down, 1_000_000);
                assert!(whole, "IPv6 {v6}, down {down}: {}", gateway.log());
            }
        }
    });
}

/// A gateway that is killed leaves its table behind, but no device. Packets for it must not be sent towards the
/// inner address by the default route.
#[test]
fn dnat_of_a_killed_gateway_sends_nothing_to_inner_addresses() {
    let test = "dnat::dnat_of_a_killed_gateway_sends_nothing_to_inner_addresses";
    within(test, 60, |hosts| {
        if !have(test, "nft") {
            return;
        }
        run("ip route add default via 10.1.2.2; ip -6 route add default via fd01:2::2");
        hosts.client(
            "nft -f - <<END
table inet watch {
  counter inner { }
  chain in {
    type filter hook prerouting priority raw;
    ip daddr 198.18.0.0/15 counter name inner
    ip6 daddr fd53:7069:6e64:6c66::/64 counter name inner
  }
}
END",
        );
        serve("127.0.0.1:9000".parse().expect("an address"), false);
        // Dropping the gateway kills it.
        drop(gateway());
        for v6 in [false, true] {
            let to = (on_path(v6, 1, 1), 8080).into();
            let opened = hosts
                .at_client(|| TcpStream::connect_timeout(&to, Duration::from_secs(2)).map(|_| ()));
            assert!(opened.is_err(), "IPv6 {v6}: somebody answers");
        }
        let seen = hosts.client("nft list counter inet watch inner");
        assert!(seen.contains("packets 0"), "inner addresses: {seen}");
        let dropped = run("nft list counter inet spindle_spin0 inner_address_elsewhere");
        assert!(!dropped.contains("packets 0"), "{dropped}");
        // A new gateway replaces what was left.
        let gateway = gateway();
        let to = (on_path(false, 1, 1), 8080).into();
        let whole =
            hosts.at_client(|| transfer(&connect(on_path(false, 1, 2), to, true), true, 100_000));
        assert!(whole, "{}", gateway.log());
    });
}

/// A host behind the client, which forwards packets of up to `mtu` bytes for it.
fn behind_the_client(hosts: &Hosts, mtu: u32) -> Namespace {
    let behind = Namespace::new();
    let (client, there) = (hosts.namespace().pid(), behind.pid());
    run(&format!(
        "ip link add n0 netns {client} type veth peer name n1 netns {there}"
    ));
    hosts.client(&format!(
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; \
         ip link set n0 mtu {mtu} up; ip addr add 10.3.0.1/24 dev n0; ip addr add fd03::1/64 dev n0 nodad"
    ));
    behind.run(
        "ip link set n1 up; ip addr add 10.3.0.2/24 dev n1; ip addr add fd03::2/64 dev n1 nodad; \
         ip route add default via 10.3.0.1; ip -6 route add default via fd03::1",
    );
    run("ip route add 10.3.0.0/24 via 10.1.1.2; ip -6 route add fd03::/64 via fd01:1::2");
    behind
}

/// A router on the path reports that segments are too large. It sends its report to the outer address, about a
/// packet from there.
#[test]
fn dnat_hands_icmp_errors_about_its_segments_to_spindle() {
    let test = "dnat::dnat_hands_icmp_errors_about_its_segments_to_spindle";
    within(test, 60, |hosts| {
        if !have(test, "nft") {
            return;
        }
        let behind = behind_the_client(hosts, 1300);
        firewall();
        serve("127.0.0.1:9000".parse().expect("an address"), false);
        let gateway = gateway();
        for (v6, from) in [(false, "10.3.0.2"), (true, "fd03::2")] {
            let to = (on_path(v6, 1, 1), 8080).into();
            let from = from.parse().expect("an address");
            let whole = behind.at(|| transfer(&connect(from, to, false), true, 1_000_000));
            assert!(whole, "IPv6 {v6}: {}", gateway.log());
        }
        // Without reports, each size that is too large would cost more than one timeout.
        let timeouts = gateway.status()["totals"]["timeouts"].as_u64();
        assert!(timeouts.is_some_and(|t| t < 2), "{timeouts:?} timeouts");
    });
}

/// A NAT between client and gateway drops each segment that it considers outside the window that the subflow
/// announced.
fn strict_nat_keeps_both(test: &str, first: First) {
    within(test, 900, |hosts| {
        if !have(test, "nft") {
            return;
        }
        unlike_paths(hosts, first);
        let behind = behind_the_client(hosts, 1500);
        behind.run("ip mptcp limits set subflow 4 add_addr_accepted 4");
        hosts.client(
            "nft -f - <<END
table inet nat {
  counter invalid { }
  chain out { type nat hook postrouting priority srcnat; oifname { c1, c2 } masquerade; }
  chain through { type filter hook forward priority 0; ct state invalid counter name invalid drop; }
}
END
sysctl -qw net.netfilter.nf_conntrack_tcp_be_liberal=0",
        );
        serve("127.0.0.1:9000".parse().expect("an address"), false);
        let gateway = gateway();
        let from = ["10.3.0.2", "fd03::2"].map(|addr| addr.parse().expect("an address"));
        transfers_on_both_paths(&behind, from, from, first, &gateway);
        let invalid = hosts.client("nft list counter inet nat invalid");
        assert!(invalid.contains("packets 0"), "{invalid}");
    });
}

#[test]
fn a_strict_nat_on_the_path_keeps_both_subflows_of_unlike_paths() {
    let test = "dnat::a_strict_nat_on_the_path_keeps_both_subflows_of_unlike_paths";
    strict_nat_keeps_both(test, First::Slow);
}

#[test]
fn a_strict_nat_on_the_path_keeps_both_subflows_if_the_fast_path_comes_first() {
    let test = "dnat::a_strict_nat_on_the_path_keeps_both_subflows_if_the_fast_path_comes_first";
    strict_nat_keeps_both(test, First::Fast);
}
