//! A path that drops full-sized segments silently.

use std::process::Command;

use crate::link::Link;
use crate::service::{connect, serve, transfer};
use crate::spindle::{Running, program};
use crate::two_hosts::{on_path, within};

#[test]
fn a_gateway_finds_the_packet_size_of_a_path_that_drops_full_segments_silently() {
    let test =
        "path_mtu::a_gateway_finds_the_packet_size_of_a_path_that_drops_full_segments_silently";
    within(test, 60, |hosts| {
        hosts.shape(1, &Link::new(100, 5).largest(1300));
        serve("127.0.0.1:9000".parse().expect("an address"), false);
        let mut command = Command::new(program());
        command.args(["gateway", "--tun", "spin0", "--to", "127.0.0.1:9000"]);
        command.args(["--listen", "10.9.0.1:8080", "--listen", "[fd09::1]:8080"]);
        let gateway = Running::start(command, "gateway");
        for (v6, to) in [(false, "10.9.0.1:8080"), (true, "[fd09::1]:8080")] {
            let to = to.parse().expect("an address");
            let whole = hosts
                .at_client(|| transfer(&connect(on_path(v6, 1, 2), to, true), true, 1_000_000));
            assert!(whole, "IPv6 {v6}: {}", gateway.log());
        }
    });
}
