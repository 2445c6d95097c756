//! The result of a client's first TLS handshake, which is tried at the start so that a wrong certificate is reported
//! before a program needs the connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::metrics::Refused;
use crate::relay::Inside;
use crate::tls::refusal_in_words;

/// How long to wait for the gateway's alert or the end of the stream. In TLS 1.3 a client's handshake ends before the
/// gateway has verified the client's certificate (RFC 8446, section 4.4.2.4).
const PATIENCE: Duration = Duration::from_secs(5);

/// Logs how the handshake with the gateway ended, and closes the connection in order.
pub(crate) async fn judge(gateway: &str, opened: Result<Inside, (Refused, io::Error)>) {
    let tried = match opened {
        Ok(inside) => answered(inside).await.map_err(|e| (Refused::Tls, e)),
        Err(e) => Err(e),
    };
    let Err((why, error)) = tried else {
        tracing::info!(%gateway, "the gateway answers, and its certificate is accepted");
        return;
    };
    match refusal_in_words(&error) {
        Some(reason) => {
            tracing::error!(%gateway, %reason, %error, "no connection to the gateway is possible at present");
        }
        None if why == Refused::Tls => {
            tracing::warn!(%gateway, %error, "the first handshake with the gateway failed; programs' connections are tried all the same");
        }
        None => {
            tracing::warn!(%gateway, %error, "the gateway cannot be reached at present; programs' connections are tried all the same");
        }
    }
}

/// Closes this direction and waits for the first answer: an alert is an error, data and the end of the stream are not.
async fn answered(inside: Inside) -> io::Result<()> {
    let Inside::Wrapped(mut stream, _) = inside else {
        return Ok(());
    };
    stream.shutdown().await?;
    let mut byte = [0];
    match tokio::time::timeout(PATIENCE, stream.read(&mut byte)).await {
        Ok(Err(e)) if refusal_in_words(&e).is_some() => Err(e),
        // A service that resets a connection without a request is as good as one that closes it.
        _ => Ok(()),
    }
}
