//! Answers to requests for a tunnel, and the orderly end of a connection whose request was refused.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::head::HeadError;

/// The answer that opens a tunnel. It has no content and no fields about content (RFC 9110, section 9.3.6).
const OPEN: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
/// How long the other end may take to receive an answer and to close its direction.
const GRACE: Duration = Duration::from_secs(1);
/// Most bytes that are read and dropped meanwhile.
const MOST_DROPPED: u64 = 1 << 20;

/// Status codes of refusals (RFC 9110, section 15; 431: RFC 6585, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    BadRequest = 400,
    Forbidden = 403,
    MethodNotAllowed = 405,
    ProxyAuthenticationRequired = 407,
    RequestTimeout = 408,
    HeadTooLarge = 431,
    BadGateway = 502,
    GatewayTimeout = 504,
}

impl Status {
    /// The reason phrase, and the fields that this status needs.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::BadRequest => ("Bad Request", ""),
            Self::Forbidden => ("Forbidden", ""),
            // RFC 9110, section 15.5.6.
            Self::MethodNotAllowed => ("Method Not Allowed", "Allow: CONNECT\r\n"),
            // RFC 9110, section 15.5.8, and RFC 7617, section 2.
            Self::ProxyAuthenticationRequired => (
                "Proxy Authentication Required",
                "Proxy-Authenticate: Basic realm=\"spindle\", charset=\"UTF-8\"\r\n",
            ),
            Self::RequestTimeout => ("Request Timeout", ""),
            Self::HeadTooLarge => ("Request Header Fields Too Large", ""),
            Self::BadGateway => ("Bad Gateway", ""),
            Self::GatewayTimeout => ("Gateway Timeout", ""),
        }
    }
}

/// Why no tunnel is opened, as the other end reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    /// The type of error for Proxy-Status (RFC 9209, section 2.3).
    pub(crate) error: Option<&'static str>,
    /// One line of text.
    pub(crate) text: String,
}

impl Refusal {
    /// The answer to a head that is not a request for a tunnel. `None` if no answer can be sent.
    pub(crate) fn to_head(e: &HeadError) -> Option<Self> {
        let status = match e {
            HeadError::Io(_) | HeadError::Unused => return None,
            HeadError::TooLong => Status::HeadTooLarge,
            HeadError::Late => Status::RequestTimeout,
            HeadError::Method(_) => Status::MethodNotAllowed,
            HeadError::NotHttp(_) | HeadError::Host(_) | HeadError::Target => Status::BadRequest,
        };
        let more = match e {
            HeadError::Method(_) => {
                "; this proxy opens tunnels only: let the program use CONNECT for http:// URLs as well \
                 (curl: --proxytunnel), or SOCKS5"
            }
            _ => "",
        };
        Some(Self {
            status,
            error: None,
            text: format!("{e}{more}"),
        })
    }

    /// The whole answer.
    fn bytes(&self) -> Vec<u8> {
        let (phrase, fields) = self.status.texts();
        let status = self
            .error
            .map(|e| format!("Proxy-Status: spindle; error={e}\r\n"));
        let text = format!(
            "HTTP/1.1 {} {phrase}\r\n{fields}{}Content-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{}\n",
            self.status as u16,
            status.unwrap_or_default(),
            self.text.len() + 1,
            self.text
        );
        text.into_bytes()
    }
}

/// Answers that the tunnel is open.
pub(crate) async fn open<S>(stream: &mut S) -> io::Result<()>
where
    S: AsyncWrite + Unpin + ?Sized,
{
    stream.write_all(OPEN).await?;
    stream.flush().await
}

/// Answers that no tunnel is opened, and ends the connection in order.
pub(crate) async fn refuse<S>(stream: &mut S, refusal: &Refusal) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let answered = timeout(GRACE, stream.write_all(&refusal.bytes())).await;
    answered.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    finish(stream).await;
    Ok(())
}

/// Closes this direction and waits, for a second at most, for the other end to close its own. What it sends
/// meanwhile is dropped: if it were left unread, the end of the connection would be a reset, which may destroy the
/// answer before it is read (RFC 9112, section 9.6).
pub(crate) async fn finish<S>(stream: &mut S)
where
    S: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let ending = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(MOST_DROPPED), &mut tokio::io::sink()).await
    };
    // The connection ends in any case.
    let _ = timeout(GRACE, ending).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_length_of_its_text_and_the_fields_of_its_status() {
        let refusal = Refusal::to_head(&HeadError::Method("GET".to_owned())).unwrap();
        let answer = String::from_utf8(refusal.bytes()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 405 Method Not Allowed\r\nAllow: CONNECT\r\n"));
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", text.len())));
        assert!(text.contains("found the method GET") && text.ends_with('\n'));
        let refusal = Refusal {
            status: Status::BadGateway,
            error: Some("dns_error"),
            text: "x".to_owned(),
        };
        let answer = String::from_utf8(refusal.bytes()).unwrap();
        assert!(answer.contains("\r\nProxy-Status: spindle; error=dns_error\r\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_arrives_although_the_other_end_goes_on_sending() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let refusal = Refusal::to_head(&HeadError::Target).unwrap();
        let refusing = async {
            refuse(&mut far, &refusal).await.unwrap();
            drop(far);
        };
        let asking = async {
            let (mut read, mut write) = tokio::io::split(&mut near);
            let mut answer = Vec::new();
            let sending = async { while write.write_all(b"more").await.is_ok() {} };
            let reading = read.read_to_end(&mut answer);
            tokio::join!(sending, async { reading.await.unwrap() });
            answer
        };
        let ((), answer) = tokio::join!(refusing, asking);
        assert_eq!(answer, refusal.bytes());
    }
}
