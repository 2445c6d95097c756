//! The request/response protocol. A request contains the size of the response in 8 bytes, in little-endian
//! order, and padding up to the request's size. The response's bytes are a pattern over the connection.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::hosts::host::Listener;

/// The smallest size of a request.
pub(crate) const LEAST_REQUEST: u64 = 8;
/// The number of bytes after which the pattern repeats.
pub(crate) const PERIOD: usize = 65_521;
/// Bytes read or written at once.
pub(crate) const PIECE: usize = 65_536;

/// The bytes of responses: byte n of a connection is byte n modulo the period.
pub(crate) fn pattern() -> Vec<u8> {
    let byte = |i: usize| (i.wrapping_mul(2_654_435_761) >> 13) as u8;
    (0..PERIOD + PIECE).map(|i| byte(i % PERIOD)).collect()
}

/// Accepts connections and serves requests until dropped.
pub(crate) async fn serve(mut listener: Listener, request: u64) {
    while let Ok(stream) = listener.accept().await {
        tokio::task::spawn_local(async move {
            // A client that closes early ends its connection. Its flow records this.
            let _ = answer(stream, request).await;
        });
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, size: u64) -> io::Result<()> {
    let pattern = pattern();
    let mut request = vec![0; size as usize];
    let mut sent = 0;
    loop {
        match stream.read_exact(&mut request).await {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => break,
            other => other?,
        };
        let mut left = request
            .iter()
            .take(8)
            .rev()
            .fold(0u64, |n, b| n << 8 | u64::from(*b));
        while left > 0 {
            let start = (sent % PERIOD as u64) as usize;
            let n = stream
                .write(&pattern[start..start + left.min(PIECE as u64) as usize])
                .await?;
            left -= n as u64;
            sent += n as u64;
        }
    }
    stream.shutdown().await
}

/// The bytes of a request.
pub(crate) fn request(size: u64, response: u64) -> Vec<u8> {
    let mut bytes = response.to_le_bytes().to_vec();
    bytes.resize(size as usize, 0);
    bytes
}

/// Reads responses of one connection and compares them with the pattern.
pub(crate) struct Reader {
    pattern: Vec<u8>,
    buffer: Vec<u8>,
    received: u64,
    pub(crate) corrupted: u64,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self::after(0)
    }

    /// Makes a reader for a connection on which this many other bytes have arrived.
    pub(crate) fn after(received: u64) -> Self {
        Self {
            pattern: pattern(),
            buffer: vec![0; PIECE],
            received,
            corrupted: 0,
        }
    }

    /// Reads one response.
    pub(crate) async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        size: u64,
    ) -> io::Result<()> {
        let mut left = size;
        while left > 0 {
            left -= self.read_some(stream, left).await?;
        }
        Ok(())
    }

    /// Reads the bytes that are available, at most `most`. Returns their number.
    pub(crate) async fn read_some(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        most: u64,
    ) -> io::Result<u64> {
        let most = most.min(PIECE as u64) as usize;
        let n = stream.read(&mut self.buffer[..most]).await?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let start = (self.received % PERIOD as u64) as usize;
        let (found, want) = (&self.buffer[..n], &self.pattern[start..start + n]);
        if found != want {
            self.corrupted += found.iter().zip(want).filter(|(a, b)| a != b).count() as u64;
        }
        self.received += n as u64;
        Ok(n as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn responses_are_served_and_verified() {
        let (mut client, server) = tokio::io::duplex(1000);
        let served = tokio::spawn(answer(server, 100));
        let mut reader = Reader::new();
        for size in [1, 200_000, 70_000] {
            client.write_all(&request(100, size)).await.unwrap();
            reader.read(&mut client, size).await.unwrap();
        }
        assert_eq!(reader.corrupted, 0);
        // Bytes from another position of the stream must not be accepted as correct.
        client.write_all(&request(100, 5000)).await.unwrap();
        reader.received += 1;
        reader.read(&mut client, 5000).await.unwrap();
        assert!(reader.corrupted > 4000);
        drop(client);
        served.await.unwrap().unwrap();
    }
}
