//! Messages between the old and the new process: four bytes of length, then JSON, with descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::failed;
use crate::descriptors::{MOST, receive_with, send_with};
use crate::error::NetError;

/// Most bytes of a message: the ends of some hundred thousand half-open connections.
const LONGEST: usize = 32 << 20;
/// Bytes of the length before a message.
const HEAD: usize = 4;
/// Bytes that are read at once.
const PIECE: usize = 65_536;

/// Sends a message with these descriptors.
pub(super) async fn send(
    stream: &UnixStream,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), NetError> {
    if descriptors.len() > MOST {
        let found = descriptors.len();
        return Err(failed(format!(
            "found {found} descriptors, want {MOST} at most"
        )));
    }
    let body = serde_json::to_vec(message).map_err(|e| failed(e.to_string()))?;
    if body.len() > LONGEST {
        let found = body.len();
        return Err(failed(format!(
            "found a message of {found} bytes, want {LONGEST} at most"
        )));
    }
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    let mut sent = 0;
    while sent < bytes.len() {
        // Descriptors go with the first byte.
        let with = if sent == 0 { descriptors } else { &[] };
        let once = || send_with(stream.as_fd(), &bytes[sent..], with);
        let n = stream.async_io(Interest::WRITABLE, once).await;
        sent += n.map_err(|e| failed(format!("it does not listen: {e}")))?;
    }
    Ok(())
}

/// Receives a message and its descriptors. Bytes of the next message are left where they are.
pub(super) async fn receive<T: DeserializeOwned>(
    stream: &UnixStream,
) -> Result<(T, Vec<OwnedFd>), NetError> {
    let mut descriptors = Vec::new();
    let head = exactly(stream, HEAD, &mut descriptors).await?;
    let len = head.iter().fold(0, |n, byte| n << 8 | usize::from(*byte));
    if len > LONGEST {
        return Err(failed(format!(
            "its message has {len} bytes, want {LONGEST} at most: it is not one of this version"
        )));
    }
    let body = exactly(stream, len, &mut descriptors).await?;
    let message = serde_json::from_slice(&body);
    let message = message.map_err(|e| failed(format!("its message cannot be read: {e}")))?;
    Ok((message, descriptors))
}

/// Receives this many bytes, and the descriptors that come with them.
async fn exactly(
    stream: &UnixStream,
    len: usize,
    descriptors: &mut Vec<OwnedFd>,
) -> Result<Vec<u8>, NetError> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let most = len - bytes.len();
        let more = || more(stream.as_fd(), most, &mut bytes, descriptors);
        match stream.async_io(Interest::READABLE, more).await {
            Ok(0) => return Err(failed("it has closed the connection")),
            Ok(_) => {}
            Err(e) => return Err(failed(e.to_string())),
        }
    }
    Ok(bytes)
}

fn more(
    from: BorrowedFd<'_>,
    most: usize,
    bytes: &mut Vec<u8>,
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut piece = vec![0; most.min(PIECE)];
    let n = receive_with(from, &mut piece, descriptors)?;
    bytes.extend_from_slice(&piece[..n]);
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[tokio::test]
    async fn long_message_arrives_whole_with_its_descriptors() {
        let (a, b) = UnixStream::pair().unwrap();
        let (mut inside, outside) = std::os::unix::net::UnixStream::pair().unwrap();
        let text = "x".repeat(1 << 20);
        let with = [outside.as_fd()];
        let (sent, received) = tokio::join!(send(&a, &text, &with), receive::<String>(&b));
        sent.unwrap();
        let (message, mut descriptors) = received.unwrap();
        assert_eq!(message, text);
        assert_eq!(descriptors.len(), 1);
        let mut passed = std::os::unix::net::UnixStream::from(descriptors.remove(0));
        passed.write_all(b"hello").unwrap();
        let mut five = [0; 5];
        inside.read_exact(&mut five).unwrap();
        assert_eq!(&five, b"hello");
    }

    #[tokio::test]
    async fn messages_that_were_sent_at_once_are_received_one_by_one() {
        let (a, b) = UnixStream::pair().unwrap();
        for text in ["one", "two", "three"] {
            send(&a, &text, &[]).await.unwrap();
        }
        for text in ["one", "two", "three"] {
            assert_eq!(receive::<String>(&b).await.unwrap().0, text);
        }
    }

    #[tokio::test]
    async fn message_that_the_other_side_would_refuse_is_not_sent() {
        let (a, _b) = UnixStream::pair().unwrap();
        let text = "x".repeat(LONGEST);
        let error = send(&a, &text, &[]).await.unwrap_err().to_string();
        let (found, most) = ((LONGEST + 2).to_string(), LONGEST.to_string());
        assert!(error.contains(&found) && error.contains(&most), "{error}");
    }

    #[tokio::test]
    async fn message_of_another_kind_or_length_is_an_error() {
        let (a, b) = UnixStream::pair().unwrap();
        send(&a, &7, &[]).await.unwrap();
        let error = receive::<String>(&b).await.unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
        a.try_write(&[0xff; 8]).unwrap();
        assert!(receive::<String>(&b).await.is_err());
        let (a, b) = UnixStream::pair().unwrap();
        a.try_write(&[0, 0, 0, 8, b'"']).unwrap();
        drop(a);
        let error = receive::<String>(&b).await.unwrap_err().to_string();
        assert!(error.contains("closed"), "{error}");
    }
}
