//! TLS handshakes; one that fails ends its connection in a reset.

use std::io;
use std::time::Duration;

use crate::datapath::held::TLS_COST;
use crate::relay::{self, Inside, Wrapped};
use crate::service::Lifecycle;
use crate::socket::TcpStream;

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Within this an alert is with the data path.
const HAND_OVER: Duration = Duration::from_millis(5);

/// What `handshake` makes of the stream. If it fails, the peer is told by its alert, which has a
/// second to be acknowledged, and then reset.
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
    // In here, since the stream is dropped, which would close it in order, when the other is ready.
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

/// A step took too long.
pub(crate) fn expired(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("{what}: no answer in time"),
    )
}
