//! Flows from client to server without a request: short and long flows side by side, as in the lab's mixes.
//!
//! A flow begins with its number and its size, in little-endian order. These bytes count as part of the flow.
//! The rest is the pattern that responses have. The server closes the connection once it has all bytes.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Instant as Wall;

use spindle_experiment::traffic::PlannedFlow;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::hosts::host::Listener;
use crate::workload::serve::{PERIOD, PIECE, Reader, pattern};

/// Bytes of number and size, which are also the smallest size of a flow.
const HEADER: usize = 12;

/// What the server has received of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    /// Bytes received, in order.
    pub(crate) bytes: u64,
    /// Of these, bytes that differ from what was sent.
    pub(crate) corrupted: u64,
    /// When the last byte arrived.
    pub(crate) completed: Option<Wall>,
    /// Only bytes after this number of bytes count, from this time on.
    pub(crate) from: Option<(Wall, u64)>,
}

/// What the servers have received of all flows.
pub(crate) struct Inbox(RefCell<Vec<Received>>);

impl Inbox {
    pub(crate) fn new(flows: usize) -> Self {
        Self(RefCell::new(vec![Received::default(); flows]))
    }

    pub(crate) fn get(&self, flow: usize) -> Received {
        self.0.borrow()[flow]
    }

    /// Background flows in progress count only what arrives from now on.
    pub(crate) fn count_from_now(&self, flows: &[PlannedFlow]) {
        let now = Wall::now();
        for (received, planned) in self.0.borrow_mut().iter_mut().zip(flows) {
            if planned.is_background() && planned.counted && received.completed.is_none() {
                received.from = Some((now, received.bytes));
            }
        }
    }

    /// Records further bytes of a flow. Returns false if there is no such flow.
    fn note(&self, flow: usize, bytes: u64, corrupted: u64) -> bool {
        let mut all = self.0.borrow_mut();
        let Some(received) = all.get_mut(flow) else {
            return false;
        };
        received.bytes += bytes;
        received.corrupted = corrupted;
        true
    }

    fn complete(&self, flow: usize) {
        if let Some(received) = self.0.borrow_mut().get_mut(flow) {
            received.completed = Some(Wall::now());
        }
    }
}

/// Accepts connections and receives flows until dropped.
pub(crate) async fn take(mut listener: Listener, inbox: Rc<Inbox>) {
    while let Ok(stream) = listener.accept().await {
        let inbox = inbox.clone();
        tokio::task::spawn_local(async move {
            // A client that closes early ends its flow, which stays incomplete.
            let _ = receive(stream, &inbox).await;
        });
    }
}

async fn receive(mut stream: impl AsyncRead + AsyncWrite + Unpin, inbox: &Inbox) -> io::Result<()> {
    let number = stream.read_u32_le().await? as usize;
    let mut left = stream.read_u64_le().await?.saturating_sub(HEADER as u64);
    let mut reader = Reader::after(HEADER as u64);
    if !inbox.note(number, HEADER as u64, 0) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    while left > 0 {
        let n = reader.read_some(&mut stream, left).await?;
        left -= n;
        inbox.note(number, n, reader.corrupted);
    }
    inbox.complete(number);
    stream.shutdown().await
}

/// Sends a flow of this many bytes (at least 12). Waits until the other end has received them.
pub(crate) async fn send(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    number: u32,
    bytes: u64,
) -> io::Result<()> {
    let bytes = bytes.max(HEADER as u64);
    let mut first = Vec::with_capacity(HEADER);
    first.extend_from_slice(&number.to_le_bytes());
    first.extend_from_slice(&bytes.to_le_bytes());
    let pattern = pattern();
    // The first write also contains data of the flow. The lab has no separate segment for a header.
    let more = (bytes - HEADER as u64).min((PIECE - HEADER) as u64) as usize;
    first.extend_from_slice(&pattern[HEADER..HEADER + more]);
    stream.write_all(&first).await?;
    let mut sent = first.len() as u64;
    while sent < bytes {
        let start = (sent % PERIOD as u64) as usize;
        let most = (bytes - sent).min(PIECE as u64) as usize;
        sent += stream.write(&pattern[start..start + most]).await? as u64;
    }
    stream.shutdown().await?;
    let mut end = [0];
    match stream.read(&mut end).await? {
        0 => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn flows_arrive_complete_and_are_verified() {
        for bytes in [1, 12, 13, 65_536, 65_537, 300_000] {
            let (mut client, server) = tokio::io::duplex(1000);
            let inbox = Inbox::new(4);
            let (sent, received) =
                tokio::join!(send(&mut client, 3, bytes), receive(server, &inbox));
            sent.unwrap();
            received.unwrap();
            let got = inbox.get(3);
            assert_eq!((got.bytes, got.corrupted), (bytes.max(12), 0));
            assert!(got.completed.is_some());
        }
    }

    #[tokio::test]
    async fn corrupted_and_truncated_flows_are_detected() {
        let (mut client, server) = tokio::io::duplex(100_000);
        let mut wrong = [0u8; 1000];
        wrong[0] = 1;
        wrong[4..12].copy_from_slice(&2000u64.to_le_bytes());
        client.write_all(&wrong).await.unwrap();
        drop(client);
        let inbox = Inbox::new(2);
        assert!(receive(server, &inbox).await.is_err());
        let got = inbox.get(1);
        assert!(got.completed.is_none() && got.bytes == 1000 && got.corrupted > 900);
        // A flow that is not in the plan.
        let (mut client, server) = tokio::io::duplex(100_000);
        wrong[0] = 2;
        client.write_all(&wrong).await.unwrap();
        assert!(receive(server, &inbox).await.is_err());
    }
}
