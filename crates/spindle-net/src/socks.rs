//! SOCKS version 5 (RFC 1928), the server's side: CONNECT, without authentication or with a name and a password
//! (RFC 1929).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::target::Target;
use crate::users::Users;

/// The version, with which a client's greeting begins.
pub(crate) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const PASSWORD: u8 = 2;
/// The version of the negotiation about a password, and its answers (RFC 1929, section 2).
const PASSWORD_VERSION: u8 = 1;
const ACCEPTED: u8 = 0;
const REJECTED: u8 = 1;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const ADDRESS_V4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_V6: u8 = 4;

/// The answer to a request (RFC 1928, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reply {
    /// Connected.
    Succeeded = 0,
    /// Something else went wrong.
    Failure = 1,
    /// The gateway's rules do not allow it.
    NotAllowed = 2,
    /// The network is unreachable.
    NetworkUnreachable = 3,
    /// The host is unreachable, or its name is unknown.
    HostUnreachable = 4,
    /// The host refused.
    Refused = 5,
    /// No answer arrived in time.
    Expired = 6,
    /// The command is not CONNECT.
    CommandNotSupported = 7,
    /// The address type is unknown.
    AddressNotSupported = 8,
}

impl From<io::ErrorKind> for Reply {
    fn from(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Self::Refused,
            io::ErrorKind::NetworkUnreachable => Self::NetworkUnreachable,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NotFound => Self::HostUnreachable,
            io::ErrorKind::TimedOut => Self::Expired,
            io::ErrorKind::PermissionDenied => Self::NotAllowed,
            _ => Self::Failure,
        }
    }
}

/// Why a request was refused. If the protocol has a reply for the error, the client has received it.
#[derive(Debug, thiserror::Error)]
pub enum SocksError {
    /// The connection to the client failed, or ended before the request was complete.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The client speaks another version.
    #[error("found SOCKS version {0}, want 5")]
    Version(u8),
    /// The client does not accept a connection without authentication.
    #[error("the client wants authentication; this proxy has none: let it listen on loopback")]
    Authentication,
    /// The client does not offer to send a name and a password.
    #[error("the client has no user and password; this proxy wants one of --proxy-users")]
    NoPassword,
    /// The name or the password is wrong.
    #[error("the user or the password is not one of --proxy-users")]
    WrongPassword,
    /// The negotiation about a password has another version.
    #[error("found version {0} of the password's negotiation, want 1")]
    PasswordVersion(u8),
    /// The command is BIND, UDP ASSOCIATE or unknown.
    #[error("found SOCKS command {0}, want 1 (CONNECT)")]
    Command(u8),
    /// The address type is unknown, or the name is not UTF-8.
    #[error("found SOCKS address type {0}, want 1 (IPv4), 3 (a UTF-8 name) or 4 (IPv6)")]
    Address(u8),
}

/// Reads a client's greeting and request. With `users`, the client must be one of them. The caller answers the
/// request with [`reply`].
///
/// # Errors
/// [`SocksError`]. If the protocol has a reply for the error, the client has received it.
pub async fn accept<S>(stream: &mut S, users: Option<&Users>) -> Result<Target, SocksError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let version = stream.read_u8().await?;
    if version != VERSION {
        return Err(SocksError::Version(version));
    }
    let mut methods = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut methods).await?;
    let (method, missing) = match users {
        None => (NO_AUTHENTICATION, SocksError::Authentication),
        Some(_) => (PASSWORD, SocksError::NoPassword),
    };
    if !methods.contains(&method) {
        stream.write_all(&[VERSION, NO_ACCEPTABLE_METHOD]).await?;
        return Err(missing);
    }
    stream.write_all(&[VERSION, method]).await?;
    if let Some(users) = users {
        authenticate(stream, users).await?;
    }
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, command, _, kind] = head;
    if version != VERSION {
        return Err(SocksError::Version(version));
    }
    let target = read_target(stream, kind).await?;
    let refused = match (&target, command) {
        (_, c) if c != CONNECT => Some((Reply::CommandNotSupported, SocksError::Command(c))),
        (None, _) => Some((Reply::AddressNotSupported, SocksError::Address(kind))),
        _ => None,
    };
    if let Some((answer, error)) = refused {
        reply(stream, answer, (Ipv4Addr::UNSPECIFIED, 0).into()).await?;
        return Err(error);
    }
    target.ok_or(SocksError::Address(kind))
}

/// The negotiation about a name and a password (RFC 1929, section 2).
async fn authenticate<S>(stream: &mut S, users: &Users) -> Result<(), SocksError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let version = stream.read_u8().await?;
    if version != PASSWORD_VERSION {
        return Err(SocksError::PasswordVersion(version));
    }
    let mut user = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut user).await?;
    let mut password = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut password).await?;
    if users.accept(&user, &password) {
        return Ok(stream.write_all(&[PASSWORD_VERSION, ACCEPTED]).await?);
    }
    stream.write_all(&[PASSWORD_VERSION, REJECTED]).await?;
    Err(SocksError::WrongPassword)
}

async fn read_target<S>(stream: &mut S, kind: u8) -> io::Result<Option<Target>>
where
    S: AsyncRead + Unpin,
{
    let address: IpAddr = match kind {
        ADDRESS_V4 => {
            let mut octets = [0; 4];
            stream.read_exact(&mut octets).await?;
            Ipv4Addr::from(octets).into()
        }
        ADDRESS_V6 => {
            let mut octets = [0; 16];
            stream.read_exact(&mut octets).await?;
            Ipv6Addr::from(octets).into()
        }
        ADDRESS_NAME => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            let port = stream.read_u16().await?;
            let name = String::from_utf8(name).ok().filter(|n| !n.is_empty());
            return Ok(name.map(|n| named(n, port)));
        }
        _ => return Ok(None),
    };
    let port = stream.read_u16().await?;
    Ok(Some(Target::Address(SocketAddr::new(address, port))))
}

/// Treats a name that is a literal address as an address.
fn named(name: String, port: u16) -> Target {
    match name.parse() {
        Ok(ip) => Target::Address(SocketAddr::new(ip, port)),
        Err(_) => Target::Name(name, port),
    }
}

/// Answers a request. `bound` is the address and port in the reply (BND.ADDR and BND.PORT).
///
/// # Errors
/// The error of the write.
pub async fn reply<S>(stream: &mut S, reply: Reply, bound: SocketAddr) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let mut out = vec![VERSION, reply as u8, 0];
    match bound.ip() {
        IpAddr::V4(ip) => {
            out.push(ADDRESS_V4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(ADDRESS_V6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&bound.port().to_be_bytes());
    stream.write_all(&out).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server's result for a client's bytes, and the server's answer.
    async fn told(bytes: &[u8]) -> (Result<Target, SocksError>, Vec<u8>) {
        told_with(bytes, None).await
    }

    async fn told_with(
        bytes: &[u8],
        users: Option<&Users>,
    ) -> (Result<Target, SocksError>, Vec<u8>) {
        let (mut client, mut server) = tokio::io::duplex(1024);
        client.write_all(bytes).await.unwrap();
        client.shutdown().await.unwrap();
        let target = accept(&mut server, users).await;
        drop(server);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        (target, answer)
    }

    #[tokio::test]
    async fn addresses_and_names_are_accepted() {
        let (t, answer) = told(&[5, 1, 0, 5, 1, 0, 1, 10, 0, 0, 1, 0, 80]).await;
        assert_eq!(t.unwrap(), Target::Address("10.0.0.1:80".parse().unwrap()));
        assert_eq!(answer, [5, 0]);
        let mut v6 = vec![5, 2, 2, 0, 5, 1, 0, 4];
        v6.extend_from_slice(&Ipv6Addr::LOCALHOST.octets());
        v6.extend_from_slice(&[1, 187]);
        let (t, _) = told(&v6).await;
        assert_eq!(t.unwrap(), Target::Address("[::1]:443".parse().unwrap()));
        let name = |n: &[u8]| [&[5, 1, 0, 5, 1, 0, 3, n.len() as u8][..], n, &[0, 22]].concat();
        let (t, _) = told(&name(b"example.org")).await;
        assert_eq!(t.unwrap(), Target::Name("example.org".into(), 22));
        let (t, _) = told(&name(b"192.0.2.7")).await;
        assert_eq!(t.unwrap(), Target::Address("192.0.2.7:22".parse().unwrap()));
    }

    #[tokio::test]
    async fn unsupported_requests_are_refused_with_the_replies_of_rfc_1928() {
        let (t, answer) = told(&[5, 1, 2]).await;
        assert!(matches!(t, Err(SocksError::Authentication)));
        assert_eq!(answer, [5, 0xff]);
        let (t, answer) = told(&[5, 1, 0, 5, 3, 0, 1, 10, 0, 0, 1, 0, 80]).await;
        assert!(matches!(t, Err(SocksError::Command(3))));
        assert_eq!(answer[2..4], [5, Reply::CommandNotSupported as u8]);
        let (t, answer) = told(&[5, 1, 0, 5, 1, 0, 9]).await;
        assert!(matches!(t, Err(SocksError::Address(9))));
        assert_eq!(answer[2..4], [5, Reply::AddressNotSupported as u8]);
        assert!(matches!(told(&[4, 1]).await.0, Err(SocksError::Version(4))));
        assert!(matches!(told(&[5]).await.0, Err(SocksError::Io(_))));
    }

    #[tokio::test]
    async fn a_user_needs_the_right_password() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        std::fs::write(&path, "ann:pw\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let users = Users::load(&path).unwrap();
        let request = |password: &[u8]| {
            let greeting = [
                &[5, 2, 0, 2, 1, 3][..],
                b"ann",
                &[password.len() as u8],
                password,
            ];
            [&greeting.concat()[..], &[5, 1, 0, 1, 10, 0, 0, 1, 0, 80]].concat()
        };
        let (t, answer) = told_with(&request(b"pw"), Some(&users)).await;
        assert_eq!(t.unwrap(), Target::Address("10.0.0.1:80".parse().unwrap()));
        assert_eq!(answer, [5, 2, 1, 0]);
        let (t, answer) = told_with(&request(b"pW"), Some(&users)).await;
        assert!(matches!(t, Err(SocksError::WrongPassword)));
        assert_eq!(answer, [5, 2, 1, 1]);
        let (t, answer) = told_with(&[5, 1, 0, 5, 1, 0, 1, 10, 0, 0, 1, 0, 80], Some(&users)).await;
        assert!(matches!(t, Err(SocksError::NoPassword)));
        assert_eq!(answer, [5, 0xff]);
        let (t, _) = told_with(&[5, 1, 2, 9], Some(&users)).await;
        assert!(matches!(t, Err(SocksError::PasswordVersion(9))));
    }

    #[tokio::test]
    async fn a_reply_contains_the_bound_address() {
        let mut out = Vec::new();
        let bound = "10.0.0.9:4000".parse().unwrap();
        reply(&mut out, Reply::Succeeded, bound).await.unwrap();
        assert_eq!(out, [5, 0, 0, 1, 10, 0, 0, 9, 0x0f, 0xa0]);
    }
}
