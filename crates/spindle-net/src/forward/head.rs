//! HTTP/1.1 heads of CONNECT (RFC 9110, section 9.3.6): reading, parsing and writing them, for both ends of a tunnel.

use std::io;
use std::net::SocketAddr;

use bytes::BufMut;
use httparse::{EMPTY_HEADER, Header};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};

use super::rules::{canonical_name, port};
use crate::datapath::held::Share;
use crate::target::Target;

/// Most bytes of a head. It is the usual limit of servers (Apache's and nginx's are 8 KiB as well).
pub(crate) const MOST_BYTES: usize = 8 << 10;
/// Most header fields of a head. Programs send five or so with CONNECT.
const MOST_FIELDS: usize = 64;
/// Bytes that the buffer of a head grows by at least.
const STEP: usize = 1 << 10;

/// Why there is no request, or no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadError {
    /// The connection failed, or ended within the head.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The connection ended before the head began.
    #[error("the connection was closed without a request")]
    Unused,
    /// The head is too long.
    #[error("the head has more than {MOST_BYTES} bytes")]
    TooLong,
    /// The head was not complete in time.
    #[error("the head was not complete in time")]
    Late,
    /// The head is not HTTP/1.
    #[error("not HTTP/1.1: {0}")]
    NotHttp(httparse::Error),
    /// There is not exactly one Host field (RFC 9112, section 3.2).
    #[error("found {0} Host fields, want 1")]
    Host(usize),
    /// The method is not CONNECT.
    #[error("found the method {0}, want CONNECT")]
    Method(String),
    /// The target is not a host and a port (RFC 9112, section 3.2.3).
    #[error("the target of CONNECT is not HOST:PORT, such as example.com:443 or [2001:db8::1]:443")]
    Target,
}

/// A head as it was received, and the bytes that followed it.
#[derive(Debug)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    end: usize,
}

impl Received {
    /// The head, with the empty line at its end.
    pub(crate) fn head(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    /// What was received after the head. It belongs to the tunnel.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.end..]
    }
}

/// Reads a head until its empty line. The bytes held for it are set in `held`.
pub(crate) async fn receive<S>(
    stream: &mut S,
    mut held: Option<&mut Share>,
    deadline: Instant,
) -> Result<Received, HeadError>
where
    S: AsyncRead + Unpin + ?Sized,
{
    let mut bytes = Vec::new();
    let mut lines = Lines::default();
    loop {
        if bytes.len() == MOST_BYTES {
            return Err(HeadError::TooLong);
        }
        bytes.reserve(STEP.min(MOST_BYTES - bytes.len()));
        if let Some(held) = held.as_deref_mut() {
            held.set(bytes.capacity() as u64);
        }
        let mut room = (&mut bytes).limit(MOST_BYTES - lines.seen);
        let read = timeout_at(deadline, stream.read_buf(&mut room)).await;
        match read.map_err(|_| HeadError::Late)? {
            Ok(1..) => {}
            // A peer that ends its TLS session without an alert (RFC 8446, section 6.1) is an error of the stream.
            Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => return Err(e.into()),
            _ if bytes.is_empty() => return Err(HeadError::Unused),
            _ => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
        if let Some(end) = lines.end(&bytes) {
            return Ok(Received { bytes, end });
        }
    }
}

/// Finds the end of a head. Each byte is looked at once.
#[derive(Debug, Default)]
struct Lines {
    seen: usize,
    /// Where the current line begins.
    begin: usize,
    /// A line that is not empty was seen. Empty lines before it are ignored (RFC 9112, section 2.2).
    begun: bool,
}

impl Lines {
    /// The offset behind the empty line that ends the head. A line ends in LF or CRLF (RFC 9112, section 2.2).
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while self.seen < bytes.len() {
            let at = self.seen;
            self.seen += 1;
            if bytes[at] != b'\n' {
                continue;
            }
            let empty = matches!(&bytes[self.begin..at], b"" | b"\r");
            self.begin = self.seen;
            if empty && self.begun {
                return Some(self.seen);
            }
            self.begun |= !empty;
        }
        None
    }
}

/// A request for a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) target: Target,
    /// The value of Proxy-Authorization (RFC 9110, section 11.7.2).
    pub(crate) authorization: Option<Vec<u8>>,
}

impl Request {
    /// Parses the head of a request.
    pub(crate) fn parse(head: &[u8]) -> Result<Self, HeadError> {
        let mut fields = [EMPTY_HEADER; MOST_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        complete(request.parse(head), head)?;
        let method = request.method.unwrap_or_default();
        if method != "CONNECT" {
            return Err(HeadError::Method(method.chars().take(20).collect()));
        }
        let hosts = values(request.headers, "host").count();
        if hosts > 1 || hosts == 0 && request.version == Some(1) {
            return Err(HeadError::Host(hosts));
        }
        let target = target(request.path.unwrap_or_default()).ok_or(HeadError::Target)?;
        let authorization = values(request.headers, "proxy-authorization").next();
        Ok(Self {
            target,
            authorization: authorization.map(<[u8]>::to_vec),
        })
    }
}

/// The request for a tunnel to the target. `None` if the target's name is not a host's name.
pub(super) fn request(target: &Target) -> Option<String> {
    if let Target::Name(name, _) = target {
        canonical_name(name)?;
    }
    Some(format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
    ))
}

/// A host and a port. IPv6 addresses are in brackets and have no zone.
fn target(text: &str) -> Option<Target> {
    if let Ok(addr) = text.parse::<SocketAddr>() {
        let zone = text.contains('%');
        return (addr.port() != 0 && !zone).then_some(Target::Address(addr));
    }
    let (name, number) = text.rsplit_once(':')?;
    Some(Target::Name(canonical_name(name)?, port(number)?))
}

/// The response to a request for a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// The `error` parameter of Proxy-Status (RFC 9209, section 2.1.1).
    pub(super) error: Option<String>,
}

impl Response {
    /// Parses the head of a response.
    pub(super) fn parse(head: &[u8]) -> Result<Self, HeadError> {
        let mut fields = [EMPTY_HEADER; MOST_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        complete(response.parse(head), head)?;
        let status = values(response.headers, "proxy-status").next();
        let error = status
            .and_then(|s| std::str::from_utf8(s).ok())
            .and_then(|s| {
                let parameter = s.split(';').find_map(|p| p.trim().strip_prefix("error="));
                parameter.map(str::to_owned)
            });
        Ok(Self {
            status: response.code.unwrap_or_default(),
            error,
        })
    }
}

/// Checks that the parser found the head's end where it was found before.
fn complete(
    parsed: Result<httparse::Status<usize>, httparse::Error>,
    head: &[u8],
) -> Result<(), HeadError> {
    match parsed.map_err(HeadError::NotHttp)? {
        httparse::Status::Complete(end) if end == head.len() => Ok(()),
        _ => Err(HeadError::NotHttp(httparse::Error::NewLine)),
    }
}

/// The values of all fields of this name.
fn values<'a>(fields: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let named = fields
        .iter()
        .filter(move |f| f.name.eq_ignore_ascii_case(name));
    named.map(|f| f.value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    async fn received(bytes: &[u8]) -> Result<Received, HeadError> {
        let (mut near, mut far) = tokio::io::duplex(1 << 16);
        near.write_all(bytes).await.unwrap();
        near.shutdown().await.unwrap();
        receive(&mut far, None, soon()).await
    }

    fn parsed(text: &str) -> Result<Request, HeadError> {
        Request::parse(text.as_bytes())
    }

    #[tokio::test]
    async fn bytes_behind_the_head_are_kept() {
        let all = b"\r\nCONNECT a.example:22 HTTP/1.1\r\nHost: a\r\n\r\nSSH-2.0-x\r\n\r\n";
        let r = received(all).await.unwrap();
        assert_eq!(r.rest(), b"SSH-2.0-x\r\n\r\n");
        let request = Request::parse(r.head()).unwrap();
        assert_eq!(request.target, Target::Name("a.example".to_owned(), 22));
        let r = received(b"CONNECT a:22 HTTP/1.0\n\nrest").await.unwrap();
        assert_eq!(r.rest(), b"rest");
        assert!(Request::parse(r.head()).is_ok());
    }

    #[tokio::test]
    async fn a_head_of_8192_bytes_is_read_and_a_longer_one_is_not() {
        let head = |len: usize| {
            let mut head = b"CONNECT a:22 HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
            head.resize(len - 4, b'x');
            head.extend_from_slice(b"\r\n\r\n");
            head
        };
        let r = received(&head(MOST_BYTES)).await.unwrap();
        assert!(Request::parse(r.head()).is_ok() && r.rest().is_empty());
        let long = received(&head(MOST_BYTES + 1)).await;
        assert!(matches!(long, Err(HeadError::TooLong)));
        let cut = received(b"CONNECT a:22 HT").await;
        assert!(matches!(cut, Err(HeadError::Io(_))));
        assert!(matches!(received(b"").await, Err(HeadError::Unused)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_trickles_in_is_given_up_at_the_deadline() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let sending = async {
            loop {
                near.write_all(b"x").await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = sending => {}
            r = receive(&mut far, None, soon()) => assert!(matches!(r, Err(HeadError::Late))),
        }
    }

    #[test]
    fn targets_are_names_or_addresses_with_a_port() {
        let of = |text: &str| parsed(&format!("CONNECT {text} HTTP/1.1\r\nHost: x\r\n\r\n"));
        for (text, shown) in [
            ("Example.com:443", "example.com:443"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("[2001:db8::1]:22", "[2001:db8::1]:22"),
        ] {
            assert_eq!(of(text).unwrap().target.to_string(), shown);
        }
        for text in [
            "example.com",
            "example.com:0",
            "example.com:",
            "example.com:+5",
            "example.com:99999",
            ":80",
            "a b:80",
            "[fe80::1%1]:80",
            "2001:db8::1:22",
            "http://example.com:80",
            "user@example.com:80",
            "ex%61mple.com:80",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn requests_that_are_not_for_a_tunnel_are_different_errors() {
        assert!(matches!(
            parsed("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
            Err(HeadError::Method(m)) if m == "GET"
        ));
        assert!(matches!(
            parsed("CONNECT a:1 HTTP/1.1\r\n\r\n"),
            Err(HeadError::Host(0))
        ));
        assert!(matches!(
            parsed("CONNECT a:1 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
            Err(HeadError::Host(2))
        ));
        assert!(matches!(
            parsed("SSH-2.0-OpenSSH\r\n\r\n"),
            Err(HeadError::NotHttp(_))
        ));
    }

    #[test]
    fn a_request_that_is_written_is_understood() {
        for target in [
            Target::Name("a.example".to_owned(), 22),
            Target::Address("[::1]:80".parse().unwrap()),
        ] {
            let text = request(&target).unwrap();
            assert_eq!(parsed(&text).unwrap().target, target);
        }
        let injected = Target::Name("a:1 HTTP/1.1\r\nX: y\r\n\r\n".to_owned(), 80);
        assert_eq!(request(&injected), None);
    }

    #[test]
    fn the_reason_of_a_refusal_is_found_in_proxy_status() {
        let text =
            b"HTTP/1.1 502 Bad Gateway\r\nProxy-Status: spindle; error=dns_error; x=y\r\n\r\n";
        let r = Response::parse(text).unwrap();
        assert_eq!((r.status, r.error.as_deref()), (502, Some("dns_error")));
        assert!(Response::parse(b"220 mail.example ESMTP\r\n\r\n").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut head = b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n".to_vec();
            head.extend_from_slice(&bytes);
            let mut lines = Lines::default();
            if let Some(end) = lines.end(&head) {
                let _ = Request::parse(&head[..end]);
            }
            let _ = (Request::parse(&bytes), Response::parse(&bytes));
        }
    }
}
