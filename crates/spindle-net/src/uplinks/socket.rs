//! The netlink sockets: messages about changes, and dumps of the present state (rtnetlink(7)).

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use bytes::BytesMut;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;
use tokio::io::unix::AsyncFd;

use super::event::Event;
use super::table::Table;
use crate::netlink::{BUFFER, dump, each, open};

/// The multicast groups (linux/rtnetlink.h, `enum rtnetlink_groups`): links, IPv4 and IPv6 addresses, IPv4 and IPv6
/// routes.
const GROUPS: [u32; 5] = [1, 5, 9, 7, 11];
/// Bytes of messages that may wait to be read. If there are more, the kernel drops them and reports ENOBUFS.
const WAITING: usize = 1 << 20;
/// Most datagrams of one batch.
const BATCH: usize = 256;
/// How often a dump is begun again because the kernel's state changed in the meantime.
const ATTEMPTS: usize = 5;

/// A socket that receives messages about changes.
pub(super) struct Changes(AsyncFd<Socket>);

impl Changes {
    /// Subscribes to changes.
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        // The default size is enough for a few hundred messages.
        let _ = socket.set_rx_buf_sz(WAITING as libc::c_int);
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        // SAFETY: the descriptor belongs to the socket, which the `AsyncFd` owns and which never changes it.
        let registered = unsafe { AsyncFd::register(socket) };
        Ok(Self(registered.map_err(io::Error::from)?))
    }

    /// Waits for changes. Returns a bounded batch of them.
    ///
    /// # Errors
    /// ENOBUFS if messages were lost, so that the state must be read again. The system's other errors.
    pub(super) async fn next(&mut self) -> io::Result<Vec<Event>> {
        let mut ready = self.0.readable().await?;
        let mut events = Vec::new();
        let mut buffer = BytesMut::with_capacity(BUFFER);
        for _ in 0..BATCH {
            buffer.clear();
            buffer.reserve(BUFFER);
            match self.0.get_ref().recv_from(&mut buffer, 0) {
                Ok((_, from)) if from.port_number() == 0 => {
                    let keep = |m| events.extend(Event::of(m));
                    each(&buffer, keep);
                }
                // Only the kernel is believed.
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    ready.clear_ready();
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(events)
    }
}

/// Reads the present state. It blocks, for as long as the kernel takes for some dumps.
///
/// # Errors
/// The system's error.
pub(super) fn read(gateways: &[IpAddr]) -> io::Result<Table> {
    for _ in 1..ATTEMPTS {
        if let Some(table) = attempt(gateways)? {
            return Ok(table);
        }
    }
    // What has changed meanwhile is reported as a change.
    Ok(attempt(gateways)?.unwrap_or_default())
}

/// Reads the present state. Returns `None` if it changed in the meantime, so that parts may be missing.
fn attempt(gateways: &[IpAddr]) -> io::Result<Option<Table>> {
    let socket = open()?;
    let mut table = Table::new(gateways.to_vec());
    let route = |family| {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        RouteNetlinkMessage::GetRoute(message)
    };
    let requests = [
        RouteNetlinkMessage::GetLink(LinkMessage::default()),
        RouteNetlinkMessage::GetAddress(AddressMessage::default()),
        route(AddressFamily::Inet),
        route(AddressFamily::Inet6),
    ];
    for request in requests {
        let whole = dump(&socket, request, |message| {
            if let Some(event) = Event::of(message) {
                // The table is only filled here.
                let _ = table.apply(event);
            }
        })?;
        if !whole {
            return Ok(None);
        }
    }
    Ok(Some(table))
}

/// Reads how many bytes each device has received and sent since it was created. It blocks.
///
/// # Errors
/// The system's error.
pub(super) fn read_counters() -> io::Result<BTreeMap<String, u64>> {
    let socket = open()?;
    let mut counters = BTreeMap::new();
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    // A device that appears meanwhile is counted the next time.
    dump(&socket, request, |message| {
        let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = message.payload
        else {
            return;
        };
        counters.extend(carried(link.attributes));
    })?;
    Ok(counters)
}

/// A device's name, and the bytes that it has received and sent.
fn carried(attributes: Vec<LinkAttribute>) -> Option<(String, u64)> {
    let (mut name, mut bytes) = (None, None);
    for attribute in attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(text),
            LinkAttribute::Stats64(s) => bytes = Some(s.rx_bytes.saturating_add(s.tx_bytes)),
            _ => {}
        }
    }
    Some((name?, bytes?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_this_host_grow_with_what_its_loopback_device_carries() {
        let read = || read_counters().expect("netlink").get("lo").copied();
        let before = read().expect("a loopback device");
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        assert_eq!(socket.send_to(&[0; 5000], to).unwrap(), 5000);
        // What a loopback device sends it receives as well.
        assert!(read().unwrap() >= before + 2 * 5000);
    }

    #[test]
    fn the_state_of_this_host_has_its_loopback_device() {
        let table = read(&[]).expect("netlink");
        let has = table.addresses().any(|(link, _)| link.loopback);
        // A namespace in which the device is disabled has no addresses.
        assert!(has || table.addresses().next().is_none());
    }
}
