//! TLS handshakes. If a handshake fails, its connection ends in a reset.

use std::io;
use std::time::Duration;

use crate::relay::{self, Inside, Wrapped};
use crate::service::Lifecycle;
use crate::socket::TcpStream;

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a TLS session: rustls's buffers of one record in each direction (16 KiB and their headers), and its
/// state.
const TLS_COST: u64 = 40 << 10;
/// Time within which an alert reaches the data path.
const HAND_OVER: Duration = Duration::from_millis(5);

/// Runs `handshake` on the stream. If it fails, its TLS alert has one second to be acknowledged by the peer
/// before the connection is reset.
pub(crate) async fn secured<T, F>(
    stream: TcpStream,
    lifecycle: &Lifecycle,
    handshake: impl FnOnce(TcpStream) -> F,
) -> io::Result<Inside>
where
    T: Wrapped + 'static,
    F: Future<Output = Result<T, (io::Error, TcpStream)>>,
{
    let handle = stream.handle();
    handle.hold(TLS_COST);
    // Abort here, before `select!` drops the handshake: dropping the stream would close the connection in
    // order.
    let late = async {
        tokio::time::sleep(PATIENCE).await;
        handle.abort();
    };
    let done = tokio::select! {
        done = handshake(stream) => done,
        () = late => return Err(expired("TLS handshake")),
    };
    match done {
        Ok(tls) => Ok(Inside::Wrapped(Box::new(tls), handle)),
        Err((e, stream)) => {
            tokio::time::sleep(HAND_OVER).await;
            relay::delivered(&handle, 0, lifecycle).await;
            stream.abort();
            Err(e)
        }
    }
}

/// The error for a step that took too long.
pub(crate) fn expired(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("{what}: no answer in time"),
    )
}
