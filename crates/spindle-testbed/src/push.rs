//! Flows from client to server that nobody asks for: short and long ones beside each other, as the lab's
//! mixes have them.
//!
//! A flow begins with its number and its size, little-endian, which count as bytes of it; the rest is the
//! pattern that responses have. The server closes once it has all.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Instant as Wall;

use spindle_lab::traffic::PlannedFlow;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::host::Listener;
use crate::serve::{PERIOD, PIECE, Reader, pattern};

/// Bytes of number and size: what a flow has at the least.
const HEADER: usize = 12;

/// What has come of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    /// Bytes, in order.
    pub(crate) bytes: u64,
    /// Of these, those that are not what was sent.
    pub(crate) corrupted: u64,
    /// When the last of all came.
    pub(crate) completed: Option<Wall>,
    /// Only what came after these bytes, and this time, counts.
    pub(crate) from: Option<(Wall, u64)>,
}

/// What has come of all flows.
pub(crate) struct Inbox(RefCell<Vec<Received>>);

impl Inbox {
    pub(crate) fn new(flows: usize) -> Self {
        Self(RefCell::new(vec![Received::default(); flows]))
    }

    pub(crate) fn get(&self, flow: usize) -> Received {
        self.0.borrow()[flow]
    }

    /// Of the background flows that are under way, what comes from now on counts.
    pub(crate) fn count_from_now(&self, flows: &[PlannedFlow]) {
        let now = Wall::now();
        for (received, planned) in self.0.borrow_mut().iter_mut().zip(flows) {
            if planned.background && planned.counted && received.completed.is_none() {
                received.from = Some((now, received.bytes));
            }
        }
    }

    /// Notes what else has come of a flow; false if there is no such flow.
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

/// Accepts and takes what comes until dropped.
pub(crate) async fn take(mut listener: Listener, inbox: Rc<Inbox>) {
    while let Ok(stream) = listener.accept().await {
        let inbox = inbox.clone();
        tokio::task::spawn_local(async move {
            // A client that goes away ends its flow, which stays incomplete.
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

/// Sends a flow of so many bytes (at least 12), and waits until the other end has them.
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
    // The first write has data of the flow too: a segment of its own for the header would not be the lab's.
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
    async fn flows_come_whole_and_are_verified() {
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
    async fn what_is_wrong_or_cut_off_is_seen() {
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
        // A flow that nobody planned.
        let (mut client, server) = tokio::io::duplex(100_000);
        wrong[0] = 2;
        client.write_all(&wrong).await.unwrap();
        assert!(receive(server, &inbox).await.is_err());
    }
}
