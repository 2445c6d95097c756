//! One direction of a relay: from a [`Source`] to a [`Sink`], in batches of pieces.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::Poll;

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream as KernelStream;

use crate::datapath::held::Share;
use crate::socket::{ConnectionHandle, OwnedReadHalf, OwnedWriteHalf};

/// Least bytes offered to a read: at first, and again after small reads.
const LEAST_READ: usize = 16 << 10;
/// Most bytes read with one call.
const MOST_READ: usize = 256 << 10;
/// Most bytes gathered for one write.
const MOST_BATCH: usize = 256 << 10;
/// Least bytes read once there is any room, so that the data of a small write are not cut up.
const LEAST_ROOM: usize = 16 << 10;
/// Most pieces gathered for one write.
const MOST_PIECES: usize = 64;
/// Bytes that a relay moves before other tasks have their turn: some tenths of a millisecond of copying.
const QUANTUM: usize = 256 << 10;

/// Pieces in transit between a source and a sink.
pub(super) type Batch = VecDeque<Bytes>;

/// The result of taking data from a source.
pub(super) enum Taken {
    /// Pieces were taken. The value is whether more seem to wait.
    Some(bool),
    /// No data at present.
    Nothing,
    /// The end of the stream.
    End,
}

/// The side from which pieces are read.
pub(super) trait Source: Send {
    /// Takes the data that are available without waiting, at most `most` bytes.
    fn take(
        &mut self,
        batch: &mut Batch,
        most: usize,
    ) -> impl Future<Output = io::Result<Taken>> + Send;
    /// Waits until data are available.
    fn ready(&mut self) -> impl Future<Output = io::Result<()>> + Send;
    /// Called when no data are taken for now. Frees the buffer kept for reading.
    fn on_idle(&mut self) {}
}

/// The side to which pieces are written.
pub(super) trait Sink: Send {
    /// Waits until there is room, and returns for how many bytes. A failure of the sink is reported by `send`,
    /// not here.
    fn room(&mut self) -> impl Future<Output = usize> + Send;
    /// Sends all pieces. `more` means that more data seem to follow.
    fn send(
        &mut self,
        batch: &mut Batch,
        more: bool,
    ) -> impl Future<Output = io::Result<()>> + Send;
    /// Called when no data follow at present.
    fn pause(&mut self) {}
    /// Called when no data follow. Closes this direction.
    fn finish(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// Which end failed.
#[derive(Debug)]
pub(super) enum Failure {
    Source(io::Error),
    Sink(io::Error),
}

/// Moves all data from the source to the sink, end of stream included. `moved` is called with the number of
/// bytes.
pub(super) async fn pump(
    source: &mut impl Source,
    sink: &mut impl Sink,
    moved: impl Fn(u64),
    mut held: Share,
) -> Result<(), Failure> {
    let mut batch = Batch::new();
    let mut in_a_row = 0;
    loop {
        if in_a_row >= QUANTUM {
            in_a_row = 0;
            tokio::task::yield_now().await;
        }
        // No data are read for a sink that does not accept them.
        let room = match at_once(sink.room()).await {
            Some(room) => room,
            None => {
                source.on_idle();
                sink.room().await
            }
        };
        let most = room.clamp(LEAST_ROOM, MOST_BATCH);
        let taken = source.take(&mut batch, most).await;
        match taken.map_err(Failure::Source)? {
            Taken::Some(more) => {
                let bytes: usize = batch.iter().map(Bytes::len).sum();
                held.set(bytes as u64);
                sink.send(&mut batch, more).await.map_err(Failure::Sink)?;
                held.set(0);
                moved(bytes as u64);
                in_a_row += bytes;
            }
            Taken::Nothing => {
                sink.pause();
                in_a_row = 0;
                source.ready().await.map_err(Failure::Source)?;
            }
            Taken::End => return sink.finish().await.map_err(Failure::Sink),
        }
    }
}

/// Polls the future once.
async fn at_once<T>(what: impl Future<Output = T>) -> Option<T> {
    let mut what = pin!(what);
    poll_fn(|cx| match what.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Reads from Spindle's side, without copies.
pub(super) struct InsideSource {
    half: OwnedReadHalf,
    first: Option<Option<Bytes>>,
}

impl InsideSource {
    pub(super) fn new(half: OwnedReadHalf) -> Self {
        Self { half, first: None }
    }
}

impl Source for InsideSource {
    async fn take(&mut self, batch: &mut Batch, most: usize) -> io::Result<Taken> {
        let mut bytes = 0;
        while bytes < most && batch.len() < MOST_PIECES {
            let next = match self.first.take() {
                Some(first) => Some(first),
                None => at_once(self.half.recv(MOST_READ)).await.transpose()?,
            };
            match next {
                Some(Some(piece)) => {
                    bytes += piece.len();
                    batch.push_back(piece);
                }
                // The end is returned again at the next call.
                Some(None) if bytes > 0 => {
                    self.first = Some(None);
                    break;
                }
                Some(None) => return Ok(Taken::End),
                None if bytes > 0 => break,
                None => return Ok(Taken::Nothing),
            }
        }
        Ok(Taken::Some(false))
    }

    async fn ready(&mut self) -> io::Result<()> {
        self.first = Some(self.half.recv(MOST_READ).await?);
        Ok(())
    }
}

/// Writes to Spindle's side, without copies.
pub(super) struct InsideSink {
    half: Option<OwnedWriteHalf>,
}

impl InsideSink {
    pub(super) fn new(half: OwnedWriteHalf) -> Self {
        Self { half: Some(half) }
    }
}

impl Sink for InsideSink {
    async fn room(&mut self) -> usize {
        match &self.half {
            Some(half) => half.stream().handle().writable().await,
            None => MOST_BATCH,
        }
    }

    async fn send(&mut self, batch: &mut Batch, more: bool) -> io::Result<()> {
        let Some(half) = &mut self.half else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        if more {
            half.expect_more(true);
        }
        while let Some(piece) = batch.pop_front() {
            half.send(piece).await?;
        }
        Ok(())
    }

    fn pause(&mut self) {
        if let Some(half) = &self.half {
            half.expect_more(false);
        }
    }

    async fn finish(&mut self) -> io::Result<()> {
        // Dropping the half shuts this direction down.
        self.half = None;
        Ok(())
    }
}

/// A read buffer that grows with the size of reads. The part that a read leaves unused serves the next read.
struct Space {
    buffer: BytesMut,
    size: usize,
    /// Bytes offered to the read.
    offered: usize,
}

impl Space {
    fn new() -> Self {
        Self {
            buffer: BytesMut::new(),
            size: LEAST_READ,
            offered: 0,
        }
    }

    /// The empty buffer, with room for at most `most` bytes.
    fn room(&mut self, most: usize) -> Limit<&mut BytesMut> {
        let size = self.size.min(most.max(LEAST_READ));
        if self.buffer.capacity() < size / 4 {
            self.buffer = BytesMut::with_capacity(size);
        }
        self.offered = self.buffer.capacity().min(most);
        (&mut self.buffer).limit(self.offered)
    }

    /// The bytes of the last read, and whether it filled the room. A small piece is copied, so that it does not
    /// hold a large buffer for as long as it waits. Larger pieces leave less than a quarter of the buffer
    /// unused.
    fn piece(&mut self) -> (Bytes, bool) {
        let (len, size) = (self.buffer.len(), self.size);
        let full = len >= self.offered;
        if full {
            self.size = (size * 2).min(MOST_READ);
        } else if len < size / 4 {
            self.size = (size / 2).max(LEAST_READ);
        }
        if len < size / 4 {
            let piece = Bytes::copy_from_slice(&self.buffer);
            self.buffer.clear();
            return (piece, full);
        }
        (self.buffer.split().freeze(), full)
    }

    /// Frees the buffer, so that an idle connection holds none.
    fn release(&mut self) {
        self.buffer = BytesMut::new();
    }
}

/// Reads from the system's side.
pub(super) struct OutsideSource<'a> {
    stream: &'a KernelStream,
    space: Space,
}

impl<'a> OutsideSource<'a> {
    pub(super) fn new(stream: &'a KernelStream) -> Self {
        Self {
            stream,
            space: Space::new(),
        }
    }
}

impl Source for OutsideSource<'_> {
    async fn take(&mut self, batch: &mut Batch, most: usize) -> io::Result<Taken> {
        match self.stream.try_read_buf(&mut self.space.room(most)) {
            Ok(0) => Ok(Taken::End),
            Ok(_) => {
                let (piece, full) = self.space.piece();
                batch.push_back(piece);
                Ok(Taken::Some(full))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Taken::Nothing),
            Err(e) => Err(e),
        }
    }

    async fn ready(&mut self) -> io::Result<()> {
        self.space.release();
        self.stream.readable().await
    }

    fn on_idle(&mut self) {
        self.space.release();
    }
}

/// Writes to the system's side.
pub(super) struct OutsideSink<'a> {
    stream: &'a KernelStream,
}

impl<'a> OutsideSink<'a> {
    pub(super) fn new(stream: &'a KernelStream) -> Self {
        Self { stream }
    }
}

impl Sink for OutsideSink<'_> {
    async fn room(&mut self) -> usize {
        // This fails only if the runtime has ended.
        let _ = self.stream.writable().await;
        MOST_BATCH
    }

    async fn send(&mut self, batch: &mut Batch, _more: bool) -> io::Result<()> {
        while !batch.is_empty() {
            self.stream.writable().await?;
            let mut slices = [IoSlice::new(&[]); MOST_PIECES];
            for (slice, piece) in slices.iter_mut().zip(batch.iter()) {
                *slice = IoSlice::new(piece);
            }
            let used = batch.len().min(MOST_PIECES);
            match self.stream.try_write_vectored(&slices[..used]) {
                Ok(n) => advance(batch, n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    async fn finish(&mut self) -> io::Result<()> {
        match socket2::SockRef::from(self.stream).shutdown(std::net::Shutdown::Write) {
            // The socket is no longer connected. The other direction reports why.
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(()),
            done => done,
        }
    }
}

/// Removes the first `n` bytes of the batch.
fn advance(batch: &mut Batch, mut n: usize) {
    while let Some(front) = batch.front_mut() {
        if front.len() > n {
            front.advance(n);
            return;
        }
        n -= front.len();
        batch.pop_front();
    }
}

/// Reads from any stream, such as TLS.
pub(super) struct AnySource<R> {
    half: R,
    space: Space,
    first: Option<usize>,
}

impl<R> AnySource<R> {
    pub(super) fn new(half: R) -> Self {
        Self {
            half,
            space: Space::new(),
            first: None,
        }
    }
}

impl<R: AsyncRead + Unpin + Send> Source for AnySource<R> {
    async fn take(&mut self, batch: &mut Batch, most: usize) -> io::Result<Taken> {
        let read = match self.first.take() {
            Some(n) => Some(n),
            None => {
                let mut room = self.space.room(most);
                at_once(self.half.read_buf(&mut room)).await.transpose()?
            }
        };
        match read {
            None => Ok(Taken::Nothing),
            Some(0) => Ok(Taken::End),
            Some(_) => {
                let (piece, full) = self.space.piece();
                batch.push_back(piece);
                Ok(Taken::Some(full))
            }
        }
    }

    async fn ready(&mut self) -> io::Result<()> {
        let mut room = self.space.room(LEAST_READ);
        self.first = Some(self.half.read_buf(&mut room).await?);
        Ok(())
    }
}

/// Writes to any stream, such as TLS.
pub(super) struct AnySink<W> {
    half: W,
    /// Handle of the connection that carries the stream.
    handle: ConnectionHandle,
}

impl<W> AnySink<W> {
    pub(super) fn new(half: W, handle: ConnectionHandle) -> Self {
        Self { half, handle }
    }
}

impl<W: AsyncWrite + Unpin + Send> Sink for AnySink<W> {
    async fn room(&mut self) -> usize {
        self.handle.writable().await
    }

    async fn send(&mut self, batch: &mut Batch, _more: bool) -> io::Result<()> {
        while let Some(piece) = batch.pop_front() {
            self.half.write_all(&piece).await?;
        }
        self.half.flush().await
    }

    async fn finish(&mut self) -> io::Result<()> {
        self.half.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn space_grows_with_full_reads_and_shrinks_with_small_ones() {
        let mut space = Space::new();
        for _ in 0..10 {
            space.room(MOST_READ);
            let offered = space.offered;
            space.buffer.resize(offered, 7);
            let (piece, full) = space.piece();
            assert!(full && piece.len() == offered);
        }
        assert_eq!(space.size, MOST_READ);
        for _ in 0..10 {
            space.room(MOST_READ);
            space.buffer.extend_from_slice(b"abc");
            let (piece, full) = space.piece();
            assert!(!full && &piece[..] == b"abc");
        }
        assert_eq!(space.size, LEAST_READ);
    }

    #[test]
    fn space_that_a_read_leaves_unused_serves_the_next_read() {
        // Large enough that the piece is not copied.
        const LEN: usize = MOST_READ / 3;
        let mut space = Space::new();
        space.size = MOST_READ;
        let first = space.room(MOST_READ).get_ref().as_ptr();
        space.buffer.resize(LEN, 7);
        let (a, _) = space.piece();
        let second = space.room(MOST_READ).get_ref().as_ptr();
        assert_eq!(second as usize, first as usize + LEN);
        space.buffer.resize(LEN, 8);
        let (b, _) = space.piece();
        assert_eq!((a.len(), b.len()), (LEN, LEN));
        assert_eq!(space.room(1000).remaining_mut(), 1000);
    }

    /// A service that always has more data.
    struct Endless(usize);

    impl Source for Endless {
        async fn take(&mut self, batch: &mut Batch, most: usize) -> io::Result<Taken> {
            self.0 += most;
            batch.push_back(Bytes::from(vec![0; most]));
            Ok(Taken::Some(true))
        }

        async fn ready(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A client that accepts this many bytes and no more.
    struct Shut(usize);

    impl Sink for Shut {
        async fn room(&mut self) -> usize {
            match self.0 {
                0 => std::future::pending().await,
                room => room,
            }
        }

        async fn send(&mut self, batch: &mut Batch, _more: bool) -> io::Result<()> {
            let bytes: usize = batch.drain(..).map(|p| p.len()).sum();
            self.0 = self.0.saturating_sub(bytes);
            Ok(())
        }

        async fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A client that accepts everything.
    struct Open;

    impl Sink for Open {
        async fn room(&mut self) -> usize {
            MOST_BATCH
        }

        async fn send(&mut self, batch: &mut Batch, _more: bool) -> io::Result<()> {
            batch.clear();
            Ok(())
        }

        async fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_relay_that_always_has_data_to_move_yields_to_other_tasks() {
        let moved = Cell::new(0);
        let relay = async {
            let held = Share::new(Default::default());
            let count = |bytes| moved.set(moved.get() + bytes);
            pump(&mut Endless(0), &mut Open, count, held).await
        };
        let other = async {
            for turn in 0..10 {
                assert!(
                    moved.get() <= turn * (QUANTUM + MOST_BATCH) as u64,
                    "turn {turn}"
                );
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = other => {}
            _ = relay => unreachable!("the relay has no end"),
        }
        assert!(moved.get() > 0);
    }

    #[tokio::test]
    async fn no_data_are_read_from_a_service_whose_client_accepts_none() {
        let held = std::sync::Arc::default();
        let (mut source, mut sink) = (Endless(0), Shut(100_000));
        let moved = std::cell::Cell::new(0);
        let pumped = pump(
            &mut source,
            &mut sink,
            |n| moved.set(moved.get() + n),
            Share::new(std::sync::Arc::clone(&held)),
        );
        assert!(at_once(pumped).await.is_none(), "the relay waits");
        assert_eq!((source.0, moved.get()), (100_000, 100_000));
        assert_eq!(held.total(), 0);
    }

    #[test]
    fn a_partial_write_leaves_the_rest_in_the_batch() {
        let mut batch: Batch = [&b"abc"[..], b"de", b"", b"fgh"]
            .into_iter()
            .map(Bytes::from_static)
            .collect();
        advance(&mut batch, 4);
        assert_eq!(batch, ["e", "", "fgh"]);
        advance(&mut batch, 1);
        advance(&mut batch, 3);
        assert!(batch.is_empty());
    }
}
