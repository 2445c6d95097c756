//! Reserves addresses of the host, so that no other program may listen on them.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use super::SetupError;

/// Binds a socket of the system to each address and does not listen. Another gateway or service that binds
/// there gets the error that the address is in use. Packets for the addresses are rewritten before they could
/// reach these sockets.
///
/// Ports below 1024 need CAP_NET_BIND_SERVICE. Without it they are not reserved, which is logged.
///
/// # Errors
/// [`SetupError::AddressInUse`] if another program has one of them, [`SetupError::Reserve`] for other errors of
/// the system.
pub(super) fn reserve(
    addresses: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<Socket>, SetupError> {
    let mut sockets = Vec::new();
    for address in addresses {
        match bind(address) {
            Ok(socket) => sockets.push(socket),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                return Err(SetupError::AddressInUse(address));
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(%address, %error, "cannot reserve the address: another program on it would not be noticed; it takes CAP_NET_BIND_SERVICE");
            }
            Err(source) => return Err(SetupError::Reserve { address, source }),
        }
    }
    Ok(sockets)
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // SO_REUSEADDR is not set, because it would let a second program bind as long as none listens.
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_address_is_reserved_once_and_is_free_after_release() {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("its address");
        let taken = |list: &[SocketAddr]| reserve(list.iter().copied());
        assert!(matches!(taken(&[address]), Err(SetupError::AddressInUse(a)) if a == address));
        drop(free);
        let first = taken(&[address]).expect("a free address");
        assert!(matches!(
            taken(&[address]),
            Err(SetupError::AddressInUse(_))
        ));
        assert!(TcpListener::bind(address).is_err(), "a service");
        drop(first);
        assert!(taken(&[address]).is_ok());
    }
}
