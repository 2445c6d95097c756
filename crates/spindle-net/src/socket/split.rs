//! The two halves of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::TcpStream;
use crate::datapath::message::Message;

/// The reading half of a [`TcpStream`].
#[derive(Debug)]
pub struct OwnedReadHalf {
    stream: Arc<TcpStream>,
}

/// The writing half of a [`TcpStream`]. Dropping it shuts the sending side down.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<TcpStream>,
}

pub(super) fn split(stream: Arc<TcpStream>) -> (OwnedReadHalf, OwnedWriteHalf) {
    let read = OwnedReadHalf {
        stream: stream.clone(),
    };
    (read, OwnedWriteHalf { stream })
}

impl OwnedReadHalf {
    /// The whole stream, for its addresses and state.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Like [`TcpStream::recv`].
    ///
    /// # Errors
    /// The errors of reading.
    pub async fn recv(&mut self, max: usize) -> io::Result<Option<Bytes>> {
        poll_fn(|cx| self.stream.pipe().poll_recv(cx, max.max(1))).await
    }
}

impl OwnedWriteHalf {
    /// The whole stream, for its addresses and state.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Like [`TcpStream::send`].
    ///
    /// # Errors
    /// The errors of writing.
    pub async fn send(&mut self, mut data: Bytes) -> io::Result<()> {
        poll_fn(|cx| self.stream.pipe().poll_send(cx, &mut data)).await
    }

    /// Describes the message that is written next, for transports whose recovery depends on deadlines or
    /// priorities. The hints hold until the next call; [`Message::default`] ends them.
    pub fn set_message(&self, message: Message) {
        self.stream.pipe().set_message(message);
    }

    /// Announces that more data will follow although none wait to be sent, as in a proxy while its service
    /// answers. Proactive recovery then assumes that new data are coming and leaves the room to them (FUSO
    /// section 4.1). Shutting down, or `false`, ends it.
    pub fn expect_more(&self, more: bool) {
        self.stream.pipe().expect_more(more);
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        self.stream.pipe().shutdown();
    }
}

impl AsyncRead for OwnedReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream.pipe().poll_read(cx, buf)
    }
}

impl AsyncWrite for OwnedWriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream.pipe().poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.pipe().shutdown();
        Poll::Ready(Ok(()))
    }
}
