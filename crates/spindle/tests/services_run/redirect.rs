//! Programs whose connections the kernel redirects to a connect service: curl, of a host and of a network behind it,
//! reaches servers by way of a forwarding gateway.
//!
//! The servers answer with the address that they were reached from. It is their own host's if the gateway has connected to
//! them, and the client's if the client has done so directly, for which there are routes, too.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use crate::program::{Running, program, wait_for};
use crate::two_hosts::{Hosts, Namespace, have, output, run, within};

/// The servers' addresses.
pub(crate) const SERVERS: [&str; 2] = ["203.0.113.5", "fd99::5"];
const PORT: u16 = 80;
/// The listening addresses of connect, as flags.
pub(crate) const LOOPBACK: &str = "--listen 127.0.0.1:1080 --listen [::1]:1080";

/// An HTTP server whose answer is the address of its client.
pub(crate) fn whence(at: SocketAddr) {
    let listener = TcpListener::bind(at).expect("a service");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let Ok(peer) = stream.peer_addr() else {
                continue;
            };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let text = peer.ip().to_string();
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
            let _ = stream.write_all((head + &text).as_bytes());
        }
    });
}

pub(crate) fn on(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

/// The rules of the gateway.
pub(crate) const FORWARD: [&str; 4] = [
    "--forward",
    "203.0.113.0/24:*",
    "--forward",
    "[fd99::/64]:*",
];

/// Starts the servers, and gives the client routes to them.
pub(crate) fn serve(hosts: &Hosts) {
    for ip in SERVERS {
        let (length, nodad) = if ip.contains(':') {
            (128, " nodad")
        } else {
            (32, "")
        };
        run(&format!("ip addr add {ip}/{length} dev lo{nodad}"));
        whence(on(ip, PORT));
    }
    whence(on("10.1.1.1", PORT));
    hosts.client("ip route add default via 10.1.1.1; ip -6 route add default via fd01:1::1");
}

/// The servers, and a gateway to them.
pub(crate) fn gateway(hosts: &Hosts) -> Running {
    serve(hosts);
    let mut command = Command::new(program());
    command.args("gateway --udp --insecure --listen 10.1.1.1:4430".split(' '));
    command.args(FORWARD);
    Running::start(command)
}

pub(crate) fn connect(hosts: &Hosts, flags: &str) -> Running {
    let mut command = hosts.client_command(&[program(), "connect", "--udp"]);
    command.args("--via 10.1.1.1:4430 --insecure".split(' '));
    command.args(flags.split_whitespace());
    Running::start(command)
}

/// The answer of the server at this address to curl in a namespace. `wrapper` is put before curl.
pub(crate) fn curl(namespace: &Namespace, wrapper: &str, ip: &str) -> String {
    let url = match ip.contains(':') {
        true => format!("http://[{ip}]:{PORT}/"),
        false => format!("http://{ip}:{PORT}/"),
    };
    let flags = "-sS --max-time 20 --noproxy '*' -w '\n%{http_code}'";
    let out = namespace.output(&format!("{wrapper} curl {flags} '{url}'"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    match text.split_once('\n') {
        Some((body, "200")) => body.to_owned(),
        _ => format!("{text} {said}"),
    }
}

/// Whether the servers of both families see this client.
pub(crate) fn seen(namespace: &Namespace, wrapper: &str) -> [String; 2] {
    SERVERS.map(|ip| curl(namespace, wrapper, ip))
}

/// What the servers see of programs that are not redirected.
pub(crate) fn direct() -> [String; 2] {
    ["10.1.1.2", "fd01:1::2"].map(str::to_owned)
}

/// What they see if the gateway connects to them.
pub(crate) fn by_the_gateway() -> [String; 2] {
    SERVERS.map(str::to_owned)
}

fn tables(hosts: &Hosts) -> String {
    hosts.client("nft list tables")
}

#[test]
fn all_tcp_of_a_host_goes_to_the_gateway_until_connect_stops() {
    let test = "redirect::all_tcp_of_a_host_goes_to_the_gateway_until_connect_stops";
    within(test, 60, |hosts| {
        if !(have(test, "curl") && have(test, "nft")) {
            return;
        }
        let gateway = gateway(hosts);
        let client = hosts.namespace();
        assert_eq!(seen(client, ""), direct());
        let mut connect = connect(
            hosts,
            &format!("{LOOPBACK} --redirect all --redirect-except 203.0.113.64/26"),
        );
        let log = || format!("{}\n{}", connect.log(), gateway.log());
        assert_eq!(seen(client, ""), by_the_gateway(), "{}", log());
        assert!(log().contains("UDP is not"), "{}", log());
        wait_for("the gateway logs both targets", || {
            let log = gateway.log();
            log.contains("target=203.0.113.5:80 ") && log.contains("target=[fd99::5]:80 ")
        });
        // The gateway's own address and this host's are reached directly.
        assert_eq!(curl(client, "", "10.1.1.1"), "10.1.1.2");
        hosts.at_client(|| whence(on("10.1.1.2", PORT)));
        assert_eq!(curl(client, "", "10.1.1.2"), "10.1.1.2");
        run("ip addr add 203.0.113.65/32 dev lo");
        whence(on("203.0.113.65", PORT));
        assert_eq!(curl(client, "", "203.0.113.65"), "10.1.1.2");
        // A target that the gateway refuses. curl sees a reset, before or after it takes the connection for established.
        run("ip addr add 198.51.100.1/32 dev lo");
        whence(on("198.51.100.1", PORT));
        let refused = curl(client, "", "198.51.100.1");
        let codes = ["curl: (7)", "curl: (55)", "curl: (56)"];
        let reset = codes.iter().any(|code| refused.contains(code));
        let why = "198.51.100.1:80: the gateway answered 403";
        assert!(reset, "{refused}\n{}", log());
        wait_for("the log has the reason", || connect.log().contains(why));
        assert!(tables(hosts).contains("inet spindle-connect-127.0.0.1-1080"));
        assert_eq!(connect.end(), Some(0), "{}", connect.log());
        assert_eq!(tables(hosts), "");
        assert_eq!(seen(client, ""), direct());
    });
}

#[test]
fn a_redirected_connection_that_is_open_when_connect_stops_ends_in_order() {
    let test = "redirect::a_redirected_connection_that_is_open_when_connect_stops_ends_in_order";
    within(test, 60, |hosts| {
        if !have(test, "nft") {
            return;
        }
        let _gateway = gateway(hosts);
        let echo = TcpListener::bind(on(SERVERS[0], 7)).expect("a service");
        std::thread::spawn(move || {
            let (stream, _) = echo.accept().expect("a client");
            std::io::copy(&mut &stream, &mut &stream)
        });
        let mut connect = connect(hosts, &format!("{LOOPBACK} --redirect all"));
        let mut stream =
            hosts.at_client(|| TcpStream::connect(on(SERVERS[0], 7)).expect("redirected"));
        let mut back = [0; 5];
        stream.write_all(b"first").expect("room");
        stream.read_exact(&mut back).expect("an echo");
        connect.signal("TERM");
        wait_for("no further connection is redirected", || {
            curl(hosts.namespace(), "", SERVERS[0]) == "10.1.1.2"
        });
        stream.write_all(b"later").expect("room");
        let got = stream.read_exact(&mut back);
        let rules = hosts.client("nft list ruleset");
        got.unwrap_or_else(|e| panic!("{e}: {rules}\n{}", connect.log()));
        assert_eq!(&back, b"later");
        stream.shutdown(std::net::Shutdown::Write).expect("open");
        assert_eq!(stream.read(&mut back).expect("the end"), 0);
        drop(stream);
        assert_eq!(connect.wait(), Some(0), "{}", connect.log());
        assert_eq!(tables(hosts), "");
    });
}

#[test]
fn a_table_that_a_killed_connect_left_is_replaced() {
    let test = "redirect::a_table_that_a_killed_connect_left_is_replaced";
    within(test, 60, |hosts| {
        if !(have(test, "curl") && have(test, "nft")) {
            return;
        }
        let _gateway = gateway(hosts);
        let killed = connect(hosts, &format!("{LOOPBACK} --redirect all"));
        drop(killed);
        assert!(
            tables(hosts).contains("spindle-connect"),
            "{}",
            tables(hosts)
        );
        let mut connect = connect(hosts, &format!("{LOOPBACK} --redirect user:65534"));
        let client = hosts.namespace();
        assert_eq!(seen(client, ""), direct());
        assert_eq!(tables(hosts).lines().count(), 1, "{}", tables(hosts));
        assert_eq!(connect.end(), Some(0), "{}", connect.log());
        assert_eq!(tables(hosts), "");
    });
}

#[test]
fn a_table_that_a_killed_connect_left_is_removed_on_request_and_others_are_named() {
    let test =
        "redirect::a_table_that_a_killed_connect_left_is_removed_on_request_and_others_are_named";
    within(test, 60, |hosts| {
        if !have(test, "nft") {
            return;
        }
        let _gateway = gateway(hosts);
        let killed = connect(hosts, &format!("{LOOPBACK} --redirect user:65534"));
        drop(killed);
        let mut other = connect(hosts, "--listen 127.0.0.1:1081 --redirect user:65533");
        let left = "spindle-connect-127.0.0.1-1080";
        assert!(other.log().contains(left), "{}", other.log());
        let remove = || {
            let mut command = hosts.client_command(&[program(), "connect"]);
            command.args(LOOPBACK.split(' ')).arg("--remove-redirect");
            let out = command.output().expect("the command");
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(out.status.success(), "{said}");
            said
        };
        assert!(remove().contains(left));
        assert_eq!(tables(hosts), "table inet spindle-connect-127.0.0.1-1081\n");
        assert_eq!(remove(), "", "nothing is left");
        assert_eq!(other.end(), Some(0), "{}", other.log());
    });
}

#[test]
fn rules_for_a_port_that_the_system_chooses_are_refused() {
    let test = "redirect::rules_for_a_port_that_the_system_chooses_are_refused";
    within(test, 60, |hosts| {
        let mut command = hosts.client_command(&[program(), "connect", "--udp"]);
        command
            .args("--via 10.1.1.1:4430 --insecure --listen 127.0.0.1:0 --redirect all".split(' '));
        let out = command.output().expect("the command");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(
            said.contains("a port other than 0 with --redirect"),
            "{said}"
        );
    });
}

#[test]
fn the_programs_of_one_user_are_redirected_and_not_those_of_another() {
    let test = "redirect::the_programs_of_one_user_are_redirected_and_not_those_of_another";
    within(test, 60, |hosts| {
        if !(have(test, "curl") && have(test, "nft") && have(test, "setpriv")) {
            return;
        }
        let _gateway = gateway(hosts);
        let connect = connect(hosts, &format!("{LOOPBACK} --redirect user:65534"));
        let user = |id: u32| format!("setpriv --reuid={id} --clear-groups");
        let client = hosts.namespace();
        let log = || connect.log();
        assert_eq!(seen(client, &user(65_534)), by_the_gateway(), "{}", log());
        assert_eq!(seen(client, &user(65_533)), direct(), "{}", log());
        assert_eq!(seen(client, ""), direct(), "{}", log());
    });
}

#[test]
fn the_programs_of_a_cgroup_are_redirected_and_not_others() {
    let test = "redirect::the_programs_of_a_cgroup_are_redirected_and_not_others";
    within(test, 60, |hosts| {
        if !(have(test, "curl") && have(test, "nft")) {
            return;
        }
        let random: [u8; 8] = spindle_net::random_bytes().expect("random bytes");
        let name = format!("spindle-test-{:016x}", u64::from_ne_bytes(random));
        let path = format!("/sys/fs/cgroup/{name}/inner");
        // A host with cgroups of both versions has version 2 elsewhere. This mount is in the test's own namespace.
        let made = output(&format!(
            "test -e /sys/fs/cgroup/cgroup.procs || mount -t cgroup2 none /sys/fs/cgroup; mkdir -p {path}"
        ));
        if !made.status.success() {
            eprintln!("skipped {test}: it takes cgroups of version 2 that root may create");
            return;
        }
        let _gateway = gateway(hosts);
        let connect = connect(hosts, &format!("{LOOPBACK} --redirect cgroup:{name}"));
        let inside = format!("echo $$ > {path}/cgroup.procs;");
        let client = hosts.namespace();
        let found = (seen(client, &inside), seen(client, ""));
        let log = connect.log();
        drop(connect);
        output(&format!("rmdir {path} /sys/fs/cgroup/{name}"));
        assert_eq!(found, (by_the_gateway(), direct()), "{log}");
    });
}

#[test]
fn hosts_of_a_network_behind_connect_are_redirected_and_its_own_programs_are_not() {
    let test =
        "redirect::hosts_of_a_network_behind_connect_are_redirected_and_its_own_programs_are_not";
    within(test, 60, |hosts| {
        if !(have(test, "curl") && have(test, "nft")) {
            return;
        }
        let _gateway = gateway(hosts);
        let lan = Namespace::new();
        hosts.client(&format!(
            "ip link add lan0 type veth peer name eth0 netns {}; ip link set lan0 up; \
             ip addr add 192.168.7.1/24 dev lan0; ip addr add fd07::1/64 dev lan0 nodad; \
             sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
            lan.pid()
        ));
        lan.run(
            "ip link set eth0 up; ip addr add 192.168.7.2/24 dev eth0; ip addr add fd07::2/64 dev eth0 nodad; \
             ip route add default via 192.168.7.1; ip -6 route add default via fd07::1",
        );
        run("ip route add 192.168.7.0/24 via 10.1.1.2; ip -6 route add fd07::/64 via fd01:1::2");
        assert_eq!(seen(&lan, ""), ["192.168.7.2", "fd07::2"]);
        let listen = "--listen 192.168.7.1:1080 --listen [fd07::1]:1080 --expose";
        let mut connect = connect(hosts, &format!("{listen} --redirect device:lan0"));
        assert_eq!(seen(&lan, ""), by_the_gateway(), "{}", connect.log());
        assert_eq!(seen(hosts.namespace(), ""), direct());
        assert_eq!(connect.end(), Some(0), "{}", connect.log());
        assert_eq!(tables(hosts), "");
        assert_eq!(seen(&lan, ""), ["192.168.7.2", "fd07::2"]);
    });
}

#[test]
fn connections_to_the_listener_itself_are_refused_without_a_loop() {
    let test = "redirect::connections_to_the_listener_itself_are_refused_without_a_loop";
    within(test, 60, |hosts| {
        if !have(test, "nft") {
            return;
        }
        let gateway = gateway(hosts);
        let listen = "--listen 0.0.0.0:1080 --expose --redirect all";
        let connect = connect(hosts, listen);
        for at in ["127.0.0.1", "10.1.1.2"] {
            let end = hosts.at_client(|| {
                // The reset may already end the call that connects.
                match TcpStream::connect(on(at, 1080)) {
                    Ok(mut stream) => stream.read(&mut [0]).expect_err("a reset").kind(),
                    Err(e) => e.kind(),
                }
            });
            assert_eq!(end, ErrorKind::ConnectionReset, "{at}");
            let wanted = format!("the connection was made to {at}:1080 itself");
            wait_for("a message", || connect.log().contains(&wanted));
        }
        let missing = "IPv6 connections are not redirected, since no --listen is an IPv6 address";
        assert!(connect.log().contains(missing), "{}", connect.log());
        assert_eq!(
            gateway.status()["totals"]["connections"],
            0,
            "{}",
            gateway.status()
        );
    });
}

/// Over TUN, the segments of connect are TCP segments on this host's wire. They are not redirected.
#[test]
fn over_tun_the_segments_of_connect_itself_are_not_redirected() {
    let test = "redirect::over_tun_the_segments_of_connect_itself_are_not_redirected";
    within(test, 60, |hosts| {
        if !(have(test, "curl") && have(test, "nft")) {
            return;
        }
        serve(hosts);
        let mut command = Command::new(program());
        command.args("gateway --tun spin0 --listen 10.9.0.1:3128 --insecure".split(' '));
        command.args(FORWARD);
        let gateway = Running::start(command);
        run("ip route add 10.8.1.0/24 via 10.1.1.2");
        let mut command = hosts.client_command(&[program(), "connect", "--tun", "spin1"]);
        command.args("--via 10.9.0.1:3128 --insecure --local 10.8.1.1 --redirect all".split(' '));
        command.args(LOOPBACK.split(' '));
        let mut connect = Running::start(command);
        let log = || format!("{}\n{}", connect.log(), gateway.log());
        assert_eq!(seen(hosts.namespace(), ""), by_the_gateway(), "{}", log());
        assert_eq!(connect.end(), Some(0), "{}", connect.log());
        assert_eq!(tables(hosts), "");
    });
}

/// Rules of the user's own, of iptables' kind: any redirection will do.
#[test]
fn a_connection_that_the_users_own_rules_redirect_reaches_its_target() {
    let test = "redirect::a_connection_that_the_users_own_rules_redirect_reaches_its_target";
    within(test, 60, |hosts| {
        if !(have(test, "curl") && have(test, "nft")) {
            return;
        }
        let _gateway = gateway(hosts);
        let connect = connect(hosts, "--listen [::]:1080 --expose --transparent");
        hosts.client(
            "nft 'add table inet own; add chain inet own out { type nat hook output priority -100; }; \
             add rule inet own out tcp dport 80 redirect to :1080'",
        );
        assert_eq!(
            seen(hosts.namespace(), ""),
            by_the_gateway(),
            "{}",
            connect.log()
        );
    });
}
