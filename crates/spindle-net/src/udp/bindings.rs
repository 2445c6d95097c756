//! To which addresses and devices a client's sockets are bound.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use super::socket::Socket;
use crate::link::LocalPath;

/// The bindings of local addresses.
///
/// A socket that is bound to a device sends through that device, whatever other routes there are (SO_BINDTODEVICE). A
/// subflow whose address is lost, and which is the last of its connection, sends from another address: the server sees
/// a NAT rebinding, and the connection continues.
#[derive(Debug)]
pub(super) struct Bindings {
    paths: Vec<LocalPath>,
    /// Addresses that were among `paths` before, as long as subflows have them.
    lost: HashSet<IpAddr>,
    /// Sockets are bound to the address that the system chooses.
    follow_system: bool,
    /// It was logged that sockets cannot be bound to devices.
    warned: AtomicBool,
}

/// The address from which the system sends to `target` at present.
///
/// # Errors
/// The system's error, if there is no route.
pub fn source_for(target: SocketAddr) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind((unspecified(target.ip()), 0))?;
    socket.connect(target)?;
    Ok(socket.local_addr()?.ip())
}

/// The unspecified address of the same family.
fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

impl Bindings {
    /// Bindings of addresses to devices, all of which are required.
    pub(super) fn new(interfaces: &[(IpAddr, String)], follow_system: bool) -> Self {
        let path = |(addr, device): &(IpAddr, String)| LocalPath {
            addr: *addr,
            device: Some(device.clone()),
            required: true,
            backup: false,
        };
        Self {
            paths: interfaces.iter().map(path).collect(),
            lost: HashSet::new(),
            follow_system,
            warned: AtomicBool::new(false),
        }
    }

    /// Replaces the bindings. `in_use` are the addresses of subflows. Returns the addresses whose sockets must be opened
    /// again: those that are lost, those that are back, and those that are on another device.
    pub(super) fn replace(
        &mut self,
        paths: &[LocalPath],
        in_use: &HashSet<IpAddr>,
    ) -> HashSet<IpAddr> {
        let device = |list: &[LocalPath], addr: IpAddr| {
            let found = list.iter().find(|p| p.addr == addr);
            found.map(|p| p.device.clone())
        };
        let mut moved = HashSet::new();
        for addr in in_use {
            let (before, after) = (device(&self.paths, *addr), device(paths, *addr));
            if before.is_some() && after.is_none() {
                self.lost.insert(*addr);
            }
            let back = after.is_some() && self.lost.remove(addr);
            // What a lost address is replaced by may have changed.
            let lost = self.lost.contains(addr);
            if back || lost || before.is_some() && before != after {
                moved.insert(*addr);
            }
        }
        self.lost.retain(|a| in_use.contains(a));
        self.paths = paths.to_vec();
        moved
    }

    /// The address to which a socket of a subflow from `local` is bound.
    pub(super) fn address(&self, local: IpAddr) -> IpAddr {
        self.of(local).0
    }

    /// The address and the device to which a socket of a subflow from `local` is bound.
    fn of(&self, local: IpAddr) -> (IpAddr, Option<&LocalPath>) {
        if self.follow_system {
            return (unspecified(local), None);
        }
        let mut paths = self.paths.iter();
        if self.lost.contains(&local)
            && let Some(path) = paths.find(|p| p.addr.is_ipv4() == local.is_ipv4())
        {
            return (path.addr, Some(path));
        }
        (local, self.paths.iter().find(|p| p.addr == local))
    }

    /// Opens a socket for a subflow from `local` to the address `to`.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn open(&self, local: IpAddr, to: SocketAddr) -> io::Result<Socket> {
        let (address, path) = self.of(local);
        let from = SocketAddr::new(address, 0);
        let device = path.and_then(|p| p.device.as_deref());
        let (Some(name), Some(path)) = (device, path) else {
            return Socket::open(from, None, Some(to));
        };
        let error = match Socket::open(from, device, Some(to)) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => e,
            opened => return opened,
        };
        let text = format!(
            "cannot bind a socket to the device {name}: {error}; before Linux 5.7 this requires CAP_NET_RAW; without it, \
             add a rule that routes packets from {address} through {name} (ip rule add from {address} lookup TABLE)"
        );
        if path.required {
            return Err(io::Error::new(error.kind(), text));
        }
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("{text}; continuing with the system's routes");
        }
        Socket::open(from, None, Some(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn path(n: u8, device: &str) -> LocalPath {
        LocalPath {
            addr: addr(n),
            device: Some(device.to_owned()),
            required: false,
            backup: false,
        }
    }

    fn set(numbers: &[u8]) -> HashSet<IpAddr> {
        numbers.iter().map(|n| addr(*n)).collect()
    }

    #[test]
    fn subflows_of_a_lost_address_send_from_another_until_it_is_back() {
        let mut b = Bindings::new(&[], false);
        let in_use = set(&[1]);
        assert_eq!(b.replace(&[path(1, "a")], &in_use), set(&[]));
        assert_eq!(b.replace(&[], &in_use), set(&[1]));
        assert_eq!(b.address(addr(1)), addr(1), "there is no other");
        assert_eq!(b.replace(&[path(2, "b")], &in_use), set(&[1]));
        assert_eq!(b.address(addr(1)), addr(2));
        assert_eq!(b.address(addr(3)), addr(3), "never lost");
        assert_eq!(b.replace(&[path(2, "b"), path(1, "a")], &in_use), set(&[1]));
        assert_eq!(b.address(addr(1)), addr(1));
        // Addresses that no subflow has are forgotten.
        assert_eq!(b.replace(&[path(2, "b")], &set(&[])), set(&[]));
        assert!(b.lost.is_empty());
    }

    #[test]
    fn an_address_that_moves_to_another_device_gets_new_sockets() {
        let mut b = Bindings::new(&[(addr(1), "a".to_owned())], false);
        assert_eq!(b.replace(&[path(1, "b")], &set(&[1, 5])), set(&[1]));
        assert_eq!(b.replace(&[path(1, "b")], &set(&[1, 5])), set(&[]));
    }

    #[test]
    fn the_address_that_the_system_chooses_does_not_depend_on_paths() {
        let mut b = Bindings::new(&[], true);
        let _ = b.replace(&[path(1, "a")], &set(&[1]));
        assert!(b.address(addr(1)).is_unspecified());
    }
}
