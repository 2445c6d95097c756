//! Networks over UDP on the loopback, with a relay between them that behaves like a path.

mod udp_ends;
mod udp_relay;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use spindle_mptcp::stage::coding::CodingCounters;
use spindle_net::Network;
use spindle_net::udp::{NatKeepalive, UdpClientOptions};
use spindle_wire::Flags;
use udp_ends::{
    ALL_CODED, carry, client, client_with, config, connected, datagram, in_time, pattern, server,
};
use udp_relay::Relay;

#[tokio::test]
async fn bytes_arrive_in_both_directions_over_four_sockets() {
    in_time(async {
        let (net, mut listener, outer) = server("mptcp-4").await;
        let relay = Relay::start(outer);
        let client = client(relay.addr());
        let (mut a, mut b) = connected(&client, &mut listener, "mptcp-4").await;
        carry(&mut a, &mut b, b"?").await;
        a.subflows_up(4).await.expect("four subflows");
        b.subflows_up(4).await.expect("four subflows");
        let data = pattern(4_000_000);
        carry(&mut a, &mut b, &data).await;
        carry(&mut b, &mut a, &data).await;
        assert_eq!(relay.clients().len(), 4, "a UDP port for each subflow");
        let status = net.connections().await.expect("the list");
        assert_eq!(status.len(), 1);
        assert_eq!(status[0].outside.ip(), outer.ip());
    })
    .await;
}

/// How many of a client's addresses carried a fair share of the large datagrams in a direction: at least half
/// of the mean.
fn sharing(carried: &[[usize; 2]], direction: usize) -> usize {
    let sum: usize = carried.iter().map(|c| c[direction]).sum();
    let fair = |c: &&[usize; 2]| 2 * c[direction] * carried.len() > sum;
    carried.iter().filter(fair).count()
}

#[tokio::test]
async fn scattered_packets_use_sixteen_ports_in_both_directions() {
    in_time(async {
        let (net, mut listener, outer) = server("ps").await;
        let relay = Relay::start(outer);
        let client = client(relay.addr());
        let (mut a, mut b) = connected(&client, &mut listener, "ps").await;
        let data = pattern(1_500_000);
        carry(&mut a, &mut b, &data).await;
        carry(&mut b, &mut a, &data).await;
        let carried = relay.carried();
        assert_eq!(relay.clients().len(), 16);
        assert!(sharing(&carried, 0) > 12, "{carried:?}");
        assert!(sharing(&carried, 1) > 12, "{carried:?}");
        assert_eq!(net.connections().await.expect("the list").len(), 1);
        // The subflow's own address still moves.
        let before = net.connections().await.expect("the list")[0].outside;
        relay.rebind();
        carry(&mut a, &mut b, &pattern(300_000)).await;
        carry(&mut b, &mut a, &pattern(300_000)).await;
        let after = net.connections().await.expect("the list")[0].outside;
        assert_ne!(before, after);
    })
    .await;
}

#[tokio::test]
async fn after_the_phase_switch_each_subflow_has_one_port() {
    in_time(async {
        let (_net, mut listener, outer) = server("mmptcp").await;
        let relay = Relay::start(outer);
        let client = client(relay.addr());
        let (mut a, mut b) = connected(&client, &mut listener, "mmptcp").await;
        carry(&mut a, &mut b, &pattern(50_000)).await;
        assert_eq!(relay.clients().len(), 16, "one subflow");
        carry(&mut a, &mut b, &pattern(2_000_000)).await;
        a.subflows_up(9).await.expect("nine subflows");
        assert_eq!(relay.clients().len(), 16 + 8);
    })
    .await;
}

#[tokio::test]
async fn a_new_outer_address_is_adopted_after_a_challenge() {
    in_time(async {
        let (net, mut listener, outer) = server("tcp").await;
        let relay = Relay::start(outer);
        let client = client(relay.addr());
        let (mut a, mut b) = connected(&client, &mut listener, "tcp").await;
        carry(&mut a, &mut b, &pattern(300_000)).await;
        let before = net.connections().await.expect("the list")[0].outside;
        relay.rebind();
        carry(&mut a, &mut b, &pattern(300_000)).await;
        carry(&mut b, &mut a, &pattern(300_000)).await;
        let after = net.connections().await.expect("the list")[0].outside;
        assert_ne!(before, after);
    })
    .await;
}

/// The NAT forgets the mapping while the client only waits. Without a keepalive, the server's data would not reach it.
#[tokio::test]
async fn a_client_that_waits_is_reached_although_its_nat_has_forgotten_it() {
    in_time(async {
        let (net, mut listener, outer) = server("tcp").await;
        let relay = Relay::start(outer);
        let mut options = UdpClientOptions::new(relay.addr().port());
        options.keepalive = NatKeepalive::Every(spindle_units::Duration::from_millis(100));
        let client = client_with(options);
        let (mut a, mut b) = connected(&client, &mut listener, "tcp").await;
        carry(&mut a, &mut b, &pattern(1000)).await;
        for _ in 0..2 {
            relay.rebind();
            carry(&mut b, &mut a, &pattern(300_000)).await;
        }
        let rebindings = net
            .counters()
            .await
            .expect("counters")
            .udp
            .expect("UDP")
            .rebindings;
        assert_eq!(rebindings, 2);
    })
    .await;
}

#[tokio::test]
async fn a_path_that_gets_narrower_causes_only_a_delay() {
    in_time(async {
        let (_net, mut listener, outer) = server("tcp").await;
        let relay = Relay::start(outer);
        let client = client(relay.addr());
        let (mut a, mut b) = connected(&client, &mut listener, "tcp").await;
        carry(&mut a, &mut b, &pattern(200_000)).await;
        assert!(relay.largest() > 1400, "{}", relay.largest());
        relay.limit(1300);
        carry(&mut a, &mut b, &pattern(200_000)).await;
        carry(&mut b, &mut a, &pattern(200_000)).await;
    })
    .await;
}

/// Coding counters of the only connection of a network.
async fn coding(network: &Network) -> CodingCounters {
    let list = network.connections().await.expect("the list");
    assert_eq!(list.len(), 1);
    list[0].info.coding
}

#[tokio::test]
async fn coded_bytes_arrive_despite_losses_and_reordering() {
    for name in ["caps-dark", ALL_CODED] {
        in_time(async {
            let (net, mut listener, outer) = server(name).await;
            let relay = Relay::start(outer);
            let client = client(relay.addr());
            let (mut a, mut b) = connected(&client, &mut listener, name).await;
            relay.disturb(41, 7);
            carry(&mut a, &mut b, &pattern(300_000)).await;
            carry(&mut b, &mut a, &pattern(300_000)).await;
            let (ours, theirs) = (coding(&client).await, coding(&net).await);
            for c in [ours, theirs] {
                assert!(c.units_sent > 1 && c.units_decoded > 1, "{c:?}");
                assert_eq!((c.packets_refused, c.units_refused), (0, 0), "{c:?}");
                // 100 KB, or 300 if all data are coded, perhaps a whole segment more, and retransmissions.
                let least = if name == ALL_CODED { 200 } else { 69 };
                assert!(c.packets_coded >= least, "{c:?}");
                assert!(name == ALL_CODED || c.packets_coded < 200, "{c:?}");
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_peer_that_does_not_code_gets_plain_tcp() {
    for (ours, theirs) in [("caps-dark", "tcp"), ("tcp", "caps-dark")] {
        in_time(async {
            let (net, mut listener, outer) = server(theirs).await;
            let client = client(outer);
            let (mut a, mut b) = connected(&client, &mut listener, ours).await;
            carry(&mut a, &mut b, &pattern(50_000)).await;
            carry(&mut b, &mut a, &pattern(50_000)).await;
            assert_eq!(coding(&client).await, CodingCounters::default());
            assert_eq!(coding(&net).await, CodingCounters::default());
        })
        .await;
    }
}

/// Until the search has found out more, no encoded packet is larger than what every path carries.
#[tokio::test]
async fn coded_packets_never_exceed_the_size_known_to_pass() {
    in_time(async {
        let (_net, mut listener, outer) = server(ALL_CODED).await;
        let relay = Relay::start(outer);
        relay.limit(1230);
        let client = client(relay.addr());
        let (mut a, mut b) = connected(&client, &mut listener, ALL_CODED).await;
        carry(&mut a, &mut b, &pattern(60_000)).await;
        carry(&mut b, &mut a, &pattern(60_000)).await;
        assert_eq!(relay.too_large(), 0);
        assert!(coding(&client).await.units_decoded > 1);
    })
    .await;
}

#[tokio::test]
async fn a_path_that_gets_narrower_causes_only_a_delay_if_all_data_are_coded() {
    in_time(async {
        let (net, mut listener, outer) = server(ALL_CODED).await;
        let relay = Relay::start(outer);
        let client = client(relay.addr());
        let (mut a, mut b) = connected(&client, &mut listener, ALL_CODED).await;
        // The search has found the size of a full frame, in both directions.
        for _ in 0..50 {
            carry(&mut a, &mut b, &pattern(20_000)).await;
            carry(&mut b, &mut a, &pattern(20_000)).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(relay.largest() > 1400, "{}", relay.largest());
        // First down to the size that the search begins with, and then to less.
        for limit in [1300, 700] {
            relay.limit(limit);
            let before = relay.too_large();
            let units = [coding(&client).await, coding(&net).await].map(|c| c.units_decoded);
            carry(&mut a, &mut b, &pattern(100_000)).await;
            carry(&mut b, &mut a, &pattern(100_000)).await;
            assert!(relay.too_large() > before, "no packet was too large");
            let after = [coding(&client).await, coding(&net).await].map(|c| c.units_decoded);
            assert!(after[0] > units[0] && after[1] > units[1]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_segment_of_no_connection_is_reset_and_junk_gets_no_answer() {
    in_time(async {
        let (net, _listener, outer) = server("tcp").await;
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a time limit");
        let mut answer = [0; 2000];
        for junk in [&b""[..], b"\x16\x03\x01", &[8; 40], &[0; 20]] {
            socket.send_to(junk, outer).expect("sent");
        }
        socket
            .send_to(&datagram(9, 5, Flags::RST, 0), outer)
            .expect("sent");
        let stray = datagram(9, 5, Flags::ACK, 100);
        socket.send_to(&stray, outer).expect("sent");
        // The first answer is the one to the last datagram: all earlier ones got none.
        let n = socket.recv(&mut answer).expect("a reset");
        assert_eq!((n, answer[1]), (32, 0));
        assert!(Flags(answer[25].into()).contains(Flags::RST));
        assert!(net.connections().await.expect("the list").is_empty());
    })
    .await;
}

#[tokio::test]
async fn other_connections_go_on_during_a_flood_of_ids() {
    in_time(async {
        let (_net, mut listener, outer) = server("tcp").await;
        let relay = Relay::start(outer);
        let client = client(relay.addr());
        let (mut a, mut b) = connected(&client, &mut listener, "tcp").await;
        let flood = std::thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            for id in 1..40_000u64 {
                // Datagrams that the system does not accept do not matter here.
                let _ = socket.send_to(&datagram(id << 20, id as u16, Flags::SYN, 0), outer);
            }
        });
        carry(&mut a, &mut b, &pattern(500_000)).await;
        flood.join().expect("the flood");
        carry(&mut b, &mut a, &pattern(500_000)).await;
    })
    .await;
}

#[tokio::test]
async fn a_connection_is_refused_at_once_if_no_gateway_listens() {
    in_time(async {
        // The port was bound and released, so no socket listens there.
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let outer = socket.local_addr().expect("its address");
        drop(socket);
        let client = client(outer);
        let here = outer.ip();
        let to = SocketAddr::new(here, 80);
        let error = client.connect(here, to, config("mptcp-4")).await;
        let error = error.expect_err("no gateway listens there");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_connection_from_an_address_that_does_not_exist_fails_at_once() {
    in_time(async {
        let (_net, _listener, outer) = server("tcp").await;
        let client = client(outer);
        // TEST-NET-1 (RFC 5737): no host has this address.
        let nowhere = IpAddr::from([192, 0, 2, 77]);
        let error = client.connect(nowhere, outer, config("tcp")).await;
        let error = error.expect_err("it cannot be sent from there");
        assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
    })
    .await;
}
