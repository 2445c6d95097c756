//! How a kernel client reacts to a gateway's path management: addresses announced with a port, addresses
//! announced again after a loss, backups, and checksums.

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::service::{connect, serve, transfer};
use crate::spindle::{Running, program};
use crate::two_hosts::{Hosts, on_path, run, within};

/// Bytes of a transfer: some seconds at the rate that [`prepare`] sets.
const SIZE: u64 = 40_000_000;
/// How long an expected event may take: a back-off of some seconds, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sets the paths' rate and starts the service.
fn prepare(hosts: &Hosts) {
    hosts.limit("30mbit");
    serve("127.0.0.1:9000".parse().expect("an address"), false);
}

/// A gateway with these flags.
fn start(flags: &[&str]) -> Running {
    let mut command = Command::new(program());
    command.args(["gateway", "--tun", "spin0", "--transport", "mptcp"]);
    command.args(["--listen", "10.9.0.1:8080", "--to", "127.0.0.1:9000"]);
    command.args(flags);
    Running::start(command, "gateway")
}

/// Downloads while `look` observes the gateway's only connection. Returns whether all data arrived.
fn downloading(hosts: &Hosts, gateway: &Running, mut look: impl FnMut(&Value)) -> bool {
    let to: IpAddr = "10.9.0.1".parse().expect("an address");
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            hosts.at_client(|| {
                transfer(
                    &connect(on_path(false, 1, 2), (to, 8080).into(), true),
                    true,
                    SIZE,
                )
            })
        });
        while !work.is_finished() {
            look(&gateway.status()["connections"][0]);
            std::thread::sleep(Duration::from_millis(50));
        }
        work.join().expect("the transfer")
    })
}

/// The subflow of a connection at this local end of the gateway.
fn subflow_at<'a>(connection: &'a Value, local: &str) -> Option<&'a Value> {
    let mut all = connection["subflows"].as_array()?.iter();
    all.find(|s| s["local"] == local && s["state"] == "Established")
}

#[test]
fn a_kernel_client_joins_an_address_announced_with_its_own_port() {
    let test = "paths::a_kernel_client_joins_an_address_announced_with_its_own_port";
    within(test, 120, |hosts| {
        prepare(hosts);
        let gateway = start(&["--announce", "10.9.0.2:8443"]);
        let mut carried = 0;
        let whole = downloading(hosts, &gateway, |c| {
            let sent = subflow_at(c, "10.9.0.2:8443").and_then(|s| s["bytes_sent"].as_u64());
            carried = carried.max(sent.unwrap_or_default());
        });
        assert!(whole && carried > 0, "{carried} B: {}", gateway.log());
    });
}

/// Which ends get the resets of a middlebox.
#[derive(Clone, Copy)]
enum Reset {
    BothEnds,
    Gateway,
}

/// For half a second, a middlebox blocks all packets from and to this address of the gateway, and answers with
/// RST.
fn reset_on_the_way(address: &str, heard_by: Reset) {
    let to_client = match heard_by {
        Reset::BothEnds => "reject with tcp reset",
        Reset::Gateway => "drop",
    };
    run(&format!(
        "nft -f - <<END
table inet cut {{
  chain forward {{
    type filter hook forward priority 0;
    ip saddr {address} tcp flags & (syn|rst) == 0 reject with tcp reset
    ip daddr {address} tcp flags & (syn|rst) == 0 {to_client}
  }}
}}
END"
    ));
    std::thread::sleep(Duration::from_millis(500));
    run("nft delete table inet cut");
}

/// A kernel client loses the subflow at an announced address to resets, and joins again.
fn joins_again_after(test: &str, resets: Reset) {
    within(test, 120, |hosts| {
        prepare(hosts);
        let gateway = start(&["--announce", "10.9.0.2"]);
        let (mut killed, mut again) = (None, None);
        let whole = downloading(hosts, &gateway, |c| {
            let up = subflow_at(c, "10.9.0.2:8080").is_some();
            match killed {
                None if up => {
                    reset_on_the_way("10.9.0.2", resets);
                    killed = Some(Instant::now());
                }
                Some(at) if again.is_none() && c["ended"][0]["end"] == "peer_reset" && up => {
                    again = Some(Instant::now() - at);
                }
                _ => {}
            }
        });
        assert!(whole && killed.is_some(), "{}", gateway.log());
        let back = again.unwrap_or_else(|| panic!("it did not join again: {}", gateway.log()));
        assert!(back < PATIENCE, "{back:?}");
        assert!(gateway.log().contains("subflow lost"), "{}", gateway.log());
    });
}

#[test]
fn a_kernel_client_joins_again_at_an_address_that_is_announced_again() {
    let test = "paths::a_kernel_client_joins_again_at_an_address_that_is_announced_again";
    joins_again_after(test, Reset::BothEnds);
}

/// The client's end of the lost subflow still exists, and Linux joins no address twice. The client joins again
/// only after the address was removed.
#[test]
fn a_kernel_client_joins_again_if_only_the_gateway_was_reset() {
    let test = "paths::a_kernel_client_joins_again_if_only_the_gateway_was_reset";
    joins_again_after(test, Reset::Gateway);
}

#[test]
fn a_kernel_client_leaves_the_subflow_of_a_backup_address_idle() {
    let test = "paths::a_kernel_client_leaves_the_subflow_of_a_backup_address_idle";
    within(test, 120, |hosts| {
        prepare(hosts);
        let flags = ["--announce", "10.9.0.2", "--backup", "10.9.0.2"];
        let gateway = start(&flags);
        let (mut seen, mut flagged, mut most) = (false, true, 0);
        let whole = downloading(hosts, &gateway, |c| {
            if let Some(s) = subflow_at(c, "10.9.0.2:8080") {
                seen = true;
                flagged &= s["backup"] == true;
                most = most.max(s["bytes_sent"].as_u64().unwrap_or_default());
            }
        });
        assert!(whole && seen && flagged, "{}", gateway.log());
        assert!(most < SIZE / 100, "{most} B on the backup");
    });
}

#[test]
fn checksums_that_either_end_requests_are_right() {
    let test = "paths::checksums_that_either_end_requests_are_right";
    within(test, 120, |hosts| {
        prepare(hosts);
        hosts.client_endpoint();
        for (kernel, flags) in [("1", &[][..]), ("0", &["--checksum"][..])] {
            let set = format!("sysctl -qw net.mptcp.checksum_enabled={kernel}");
            hosts.client(&set);
            let gateway = start(flags);
            let (mut multipath, mut most) = (false, 0);
            let whole = downloading(hosts, &gateway, |c| {
                multipath |= c["multipath"] == true;
                most = most.max(c["subflows"].as_array().map_or(0, Vec::len));
            });
            assert!(
                whole && multipath && most == 2,
                "{flags:?}: {}",
                gateway.log()
            );
            let errors = hosts.client("nstat -asz MPTcpExtDataCsumErr | grep DataCsumErr");
            assert!(errors.contains(" 0 "), "{errors}");
        }
    });
}
