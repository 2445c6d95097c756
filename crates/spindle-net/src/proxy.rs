//! The local port of a connect service whose programs name their targets, by SOCKS5 or by HTTP CONNECT.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use data_encoding::BASE64;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::fallback::Fallback;
use crate::forward::answer::{self, Refusal, Status};
use crate::forward::head::{self, HeadError, Request};
use crate::handshake::expired;
use crate::metrics::Refused;
use crate::redirect::names::Names;
use crate::redirect::{self, RedirectedError};
use crate::socks::{self, Reply, SocksError};
use crate::target::{Target, Targets};
use crate::users::Users;

/// How long a program may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// How programs name their targets, and how these are reached.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// The forwarding gateway that connects to the targets. Without one they are reached directly, for which the link
    /// must be able to reach any target, as a TUN device can.
    pub via: Option<Targets>,
    /// Whether connections are opened directly, by the system's TCP, while the gateway cannot be reached. `None`: they
    /// are refused.
    pub fallback: Option<Fallback>,
    /// Which programs receive the answer that their target was reached before the gateway has answered.
    pub answer_early: AnswerEarly,
    /// SOCKS5 (RFC 1928), CONNECT only.
    pub socks5: bool,
    /// HTTP CONNECT (RFC 9110, section 9.3.6). If SOCKS5 is accepted as well, the first byte decides.
    pub http_connect: bool,
    /// The kernel redirects the programs' connections and knows their targets. Programs then speak neither protocol, and have
    /// no users.
    pub redirected: bool,
    /// The names that addresses of redirected connections stand for. `None`: all addresses are ordinary ones.
    pub names: Option<Names>,
    /// The users that are accepted, by SOCKS5 with RFC 1929 and by HTTP with Basic (RFC 7617). `None`: no
    /// authentication.
    pub users: Option<Users>,
}

/// Why a program's request was refused. If its protocol has an answer for the error, the program has received it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProxyError {
    #[error(transparent)]
    Socks(#[from] SocksError),
    #[error("request of a tunnel: {0}")]
    Http(#[from] HeadError),
    /// No user and password were sent, or they are wrong.
    #[error("the user or the password is missing, or not one of --proxy-users")]
    Authentication,
    /// The connection was not redirected, or to no target.
    #[error(transparent)]
    Redirected(#[from] RedirectedError),
    /// The request was not complete in time.
    #[error("{0}")]
    Late(io::Error, Protocol),
}

impl ProxyError {
    /// The reason for the metrics.
    pub(crate) fn counted(&self) -> Refused {
        match self {
            Self::Socks(SocksError::NoPassword | SocksError::WrongPassword)
            | Self::Authentication => Refused::Authentication,
            Self::Socks(_) | Self::Late(_, Protocol::Socks5) => Refused::Socks,
            Self::Http(_) | Self::Late(_, Protocol::Http | Protocol::Redirected) => Refused::Http,
            Self::Redirected(_) => Refused::Redirect,
        }
    }
}

/// The protocol that a program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Socks5,
    Http,
    /// None: the kernel has redirected the connection.
    Redirected,
}

/// Which programs are answered before the gateway has answered, so that their first bytes follow the request at once. It
/// saves a round trip. A target that is not reached then looks like one that resets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerEarly {
    /// None.
    None,
    /// Those whose target the gateway has reached within the last ten minutes, unless it failed to do so since. None if there
    /// is a [`Proxy::fallback`].
    #[default]
    Known,
    /// All.
    All,
}

/// A program's request, which waits for an answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) target: Target,
    /// What the program has sent after its request already. It belongs to the target.
    pub(crate) early: Vec<u8>,
    protocol: Protocol,
}

/// Reads the request of a program.
pub(crate) async fn accept(proxy: &Proxy, program: &mut TcpStream) -> Result<Asked, ProxyError> {
    let deadline = Instant::now() + PATIENCE;
    let users = proxy.users.as_ref();
    match protocol(proxy, program, deadline).await? {
        Protocol::Socks5 => {
            let asked = timeout_at(deadline, socks::accept(program, users)).await;
            let late = |_| ProxyError::Late(expired("SOCKS request"), Protocol::Socks5);
            let refused = match asked.map_err(late)? {
                Ok(target) => {
                    return Ok(Asked {
                        target,
                        early: Vec::new(),
                        protocol: Protocol::Socks5,
                    });
                }
                Err(e) => e,
            };
            if !matches!(refused, SocksError::Io(_) | SocksError::Version(_)) {
                answer::finish(program).await;
            }
            Err(refused.into())
        }
        Protocol::Redirected => Ok(Asked {
            target: redirect::target(program, proxy.names.as_ref())?,
            early: Vec::new(),
            protocol: Protocol::Redirected,
        }),
        Protocol::Http => match http(users, program, deadline).await {
            Ok(asked) => Ok(asked),
            Err((e, refusal)) => {
                if let Some(refusal) = refusal {
                    // The program may be gone. Its request has failed in any case.
                    let _ = answer::refuse(program, &refusal).await;
                }
                Err(e)
            }
        },
    }
}

/// The protocol of a program, by the first byte that it sends.
async fn protocol(
    proxy: &Proxy,
    program: &TcpStream,
    deadline: Instant,
) -> Result<Protocol, ProxyError> {
    if proxy.redirected {
        return Ok(Protocol::Redirected);
    }
    match (proxy.socks5, proxy.http_connect) {
        (true, true) => {}
        (false, true) => return Ok(Protocol::Http),
        (_, false) => return Ok(Protocol::Socks5),
    }
    let mut first = [0];
    let peeked = timeout_at(deadline, program.peek(&mut first)).await;
    let late = |_| ProxyError::Late(expired("SOCKS or HTTP request"), Protocol::Socks5);
    match peeked.map_err(late)? {
        Ok(1) if first[0] != socks::VERSION => Ok(Protocol::Http),
        Ok(_) => Ok(Protocol::Socks5),
        Err(e) => Err(SocksError::Io(e).into()),
    }
}

async fn http(
    users: Option<&Users>,
    program: &mut TcpStream,
    deadline: Instant,
) -> Result<Asked, (ProxyError, Option<Refusal>)> {
    let wrong = |e: HeadError| {
        let refusal = Refusal::to_head(&e);
        (e.into(), refusal)
    };
    let received = head::receive(program, None, deadline).await;
    let received = received.map_err(wrong)?;
    let request = Request::parse(received.head()).map_err(wrong)?;
    if let Some(users) = users
        && !authorized(users, request.authorization.as_deref())
    {
        let e = ProxyError::Authentication;
        let refusal = Refusal {
            status: Status::ProxyAuthenticationRequired,
            error: None,
            text: e.to_string(),
        };
        return Err((e, Some(refusal)));
    }
    Ok(Asked {
        target: request.target,
        early: received.rest().to_vec(),
        protocol: Protocol::Http,
    })
}

/// Whether the value of Proxy-Authorization has the user and the password of a user (RFC 7617, section 2).
fn authorized(users: &Users, value: Option<&[u8]>) -> bool {
    let given = || {
        let value = std::str::from_utf8(value?).ok()?;
        let (scheme, encoded) = value.split_once(' ')?;
        let basic = scheme.eq_ignore_ascii_case("Basic");
        let text = BASE64
            .decode(encoded.trim().as_bytes())
            .ok()
            .filter(|_| basic)?;
        let colon = text.iter().position(|b| *b == b':')?;
        Some((text[..colon].to_vec(), text[colon + 1..].to_vec()))
    };
    given().is_some_and(|(user, password)| users.accept(&user, &password))
}

impl Asked {
    /// Answers the program: the target was reached at this address, or by a gateway, which does not say at which;
    /// or it was not reached. In the latter case the connection to the program is ended.
    pub(crate) async fn answer(
        &self,
        program: &mut TcpStream,
        reached: Result<Option<SocketAddr>, &io::Error>,
    ) -> io::Result<()> {
        match (self.protocol, reached) {
            (Protocol::Socks5, reached) => {
                let bound = reached.ok().flatten();
                let bound = bound.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
                let reply = reached.map_or_else(|e| e.kind().into(), |_| Reply::Succeeded);
                socks::reply(program, reply, bound).await?;
                if reached.is_err() {
                    answer::finish(program).await;
                }
                Ok(())
            }
            // The kernel has accepted the program's connection before it was known whether the target is reached.
            (Protocol::Redirected, _) => Ok(()),
            (Protocol::Http, Ok(_)) => answer::open(program).await,
            (Protocol::Http, Err(e)) => answer::refuse(program, &refusal(e)).await,
        }
    }
}

/// The answer to a program by HTTP (RFC 9209, section 2.3, has the types of errors).
fn refusal(e: &io::Error) -> Refusal {
    let (status, error) = match e.kind() {
        io::ErrorKind::PermissionDenied => (Status::Forbidden, "http_request_denied"),
        io::ErrorKind::TimedOut => (Status::GatewayTimeout, "connection_timeout"),
        io::ErrorKind::ConnectionRefused => (Status::BadGateway, "connection_refused"),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            (Status::BadGateway, "destination_unavailable")
        }
        _ => (Status::BadGateway, "proxy_internal_error"),
    };
    Refusal {
        status,
        error: Some(error),
        text: e.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn basic_credentials_are_compared_with_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        std::fs::write(&path, "Aladdin:open sesame\nann:a:b\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let users = Users::load(&path).unwrap();
        let is = |value: &str| authorized(&users, Some(value.as_bytes()));
        // RFC 7617, section 2.
        assert!(is("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(is(&format!("basic {}", BASE64.encode(b"ann:a:b"))));
        for wrong in [
            "",
            "Basic",
            "Basic ",
            "Basic !!!",
            "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        ] {
            assert!(!is(wrong), "{wrong}");
        }
        assert!(!is(&format!("Basic {}", BASE64.encode(b"Aladdin:other"))));
        assert!(!is(&format!("Basic {}", BASE64.encode(b"Aladdin"))));
        assert!(!authorized(&users, None));
    }

    #[test]
    fn an_error_of_a_connection_becomes_a_status() {
        let status = |kind: io::ErrorKind| refusal(&kind.into()).status;
        assert_eq!(status(io::ErrorKind::PermissionDenied), Status::Forbidden);
        assert_eq!(status(io::ErrorKind::TimedOut), Status::GatewayTimeout);
        assert_eq!(status(io::ErrorKind::ConnectionRefused), Status::BadGateway);
        assert_eq!(status(io::ErrorKind::InvalidData), Status::BadGateway);
    }
}
