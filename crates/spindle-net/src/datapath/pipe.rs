//! [`Pipe`]: the state of one connection that its stream and the data-path thread share.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use spindle_mptcp::{CloseReason, Config, ConnectionInfo};
use tokio::sync::Notify;

use super::held::{PIECE_COST, RELAY_COST, Share};
use super::message::Message;
use super::queue::Queue;
use crate::error::kind_of;

/// Most bytes that a direction holds in addition to the stack's own buffer. This is enough that a program on
/// another core is not woken for every segment.
pub(crate) const MOST_ROOM: usize = 512 << 10;
/// Most such bytes at first: a full burst.
const LEAST_ROOM: usize = 64 << 10;
/// Most such bytes while the connection must hold little: as much as one system call reads.
const LITTLE_ROOM: usize = 16 << 10;
/// Writes below this are gathered into one piece, so that many small ones cost one entry.
const GATHER_BELOW: usize = 16 << 10;
/// Size of such a piece.
const GATHER_PIECE: usize = 64 << 10;

/// Received pieces are joined while together they are no longer than this: about three segments.
const JOIN_UP_TO: usize = 4096;

/// Most bytes that a pipe holds in each direction, in addition to the stack's own buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    inbound: usize,
    outbound: usize,
}

impl Room {
    /// A quarter of the stack's buffers within a bound, so that
    /// [`Limits::buffer`](crate::limits::Limits::buffer) leaves room for both.
    pub(crate) fn of(config: &Config) -> Self {
        let part = |buffer: usize| (buffer / 4).clamp(1, MOST_ROOM);
        Self {
            inbound: part(config.tcp.receive_buffer),
            outbound: part(config.tcp.send_buffer),
        }
    }

    /// Most bytes that wait for the reader, and for the stack.
    #[cfg(test)]
    pub(crate) fn most(self) -> (usize, usize) {
        (self.inbound, self.outbound)
    }
}

/// Is notified how far the peer has acknowledged the data written to a connection. Offsets count bytes from the
/// beginning of the stream.
pub(crate) trait AckObserver: Send + Sync {
    /// The offset whose acknowledgement must be reported next, when `written` bytes have been written.
    fn next_offset(&self, written: u64) -> u64;
    /// The peer has acknowledged everything before `offset`. The data path's thread calls this function.
    fn acknowledged(&self, offset: u64, at: std::time::Instant);
}

/// Number and addresses of a connection, once they are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) id: u64,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) outside: SocketAddr,
}

/// The state of a connection as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Opening,
    Open,
    Closed(CloseReason),
    /// The data path has ended before the connection.
    Stopped,
}

/// Both directions and their state.
pub(crate) struct State {
    room: Room,
    /// The queued bytes in the account of held memory.
    share: Share,
    /// Bytes that the owner holds for the connection as long as it lives.
    session: Share,
    /// Memory is short, or the peer does not take data. As little as possible is queued.
    pub(crate) little: bool,
    /// Bytes that have passed so far, to the reader and to the stack. The room grows with them.
    passed: (usize, usize),
    pub(crate) phase: Phase,
    inbound: VecDeque<Bytes>,
    inbound_bytes: usize,
    /// The stack holds more data, which did not fit here.
    pub(crate) more: bool,
    pub(crate) eof: bool,
    read_waker: Option<Waker>,
    outbound: VecDeque<Bytes>,
    /// Small writes that are not yet an entry of `outbound`.
    tail: BytesMut,
    outbound_bytes: usize,
    /// Bytes that the owner has written since the beginning.
    pub(crate) written: u64,
    /// The offset whose acknowledgement the stack was last asked to report.
    pub(crate) watched: u64,
    write_waker: Option<Waker>,
    /// The owner will send no more data.
    pub(crate) write_closed: bool,
    /// The owner is in the middle of what it sends, so more data will follow.
    pub(crate) expects_more: bool,
    /// What the owner said about its next message, until that was passed to the stack.
    pub(crate) message: Option<Message>,
    /// The value of `expects_more` that was last passed to the stack.
    pub(crate) told_more: bool,
    /// The owner has released the connection.
    pub(crate) released: bool,
    pub(crate) abort: bool,
    /// Established subflows.
    pub(crate) up: usize,
    /// The connection's information at its end.
    pub(crate) last: Option<Box<ConnectionInfo>>,
}

/// The shared part of one connection.
pub(crate) struct Pipe {
    queue: Arc<Queue>,
    pub(crate) identity: OnceLock<Identity>,
    /// Is notified of acknowledgements.
    pub(crate) observer: OnceLock<Arc<dyn AckObserver>>,
    state: Mutex<State>,
    /// Notifies that the phase or the number of subflows has changed.
    pub(crate) changed: Notify,
    queued: AtomicBool,
}

/// The pipe of a connection that has an owner. Dropping it releases the connection.
pub(crate) struct OwnedPipe(Arc<Pipe>);

impl OwnedPipe {
    pub(crate) fn new(pipe: Arc<Pipe>) -> Self {
        Self(pipe)
    }
}

impl std::ops::Deref for OwnedPipe {
    type Target = Arc<Pipe>;

    fn deref(&self) -> &Arc<Pipe> {
        &self.0
    }
}

impl Drop for OwnedPipe {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Pipe {
    pub(crate) fn new(queue: Arc<Queue>, room: Room) -> Arc<Self> {
        let state = State {
            room,
            share: Share::new(queue.held().clone()),
            session: Share::new(queue.held().clone()),
            little: false,
            passed: (0, 0),
            phase: Phase::Opening,
            inbound: VecDeque::new(),
            inbound_bytes: 0,
            more: false,
            eof: false,
            read_waker: None,
            outbound: VecDeque::new(),
            tail: BytesMut::new(),
            outbound_bytes: 0,
            written: 0,
            watched: 0,
            write_waker: None,
            write_closed: false,
            expects_more: false,
            message: None,
            told_more: false,
            released: false,
            abort: false,
            up: 0,
            last: None,
        };
        Arc::new(Self {
            queue,
            identity: OnceLock::new(),
            observer: OnceLock::new(),
            state: Mutex::new(state),
            changed: Notify::new(),
            queued: AtomicBool::new(false),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Requests that the data path serve this connection. Repeated requests count once.
    pub(crate) fn attend(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst) {
            self.queue.attend(self.clone());
        }
    }

    /// Called when the data path begins to serve the connection. Later changes need a new request.
    pub(crate) fn attended(&self) {
        self.queued.store(false, Ordering::SeqCst);
    }

    /// Takes up to `max` bytes for the reader. `None` is the end of the stream.
    pub(crate) fn poll_recv(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<io::Result<Option<Bytes>>> {
        let mut s = self.lock();
        if let Some(front) = s.inbound.front_mut() {
            let piece = if front.len() > max {
                front.split_to(max)
            } else {
                s.inbound.pop_front().unwrap_or_default()
            };
            s.inbound_bytes -= piece.len();
            s.passed.0 = s.passed.0.saturating_add(piece.len());
            s.recount();
            let wants = s.wants_more();
            drop(s);
            if wants {
                self.attend();
            }
            return Poll::Ready(Ok(Some(piece)));
        }
        if let Some(end) = s.end_of_reading() {
            return Poll::Ready(end.map(|()| None));
        }
        set_waker(&mut s.read_waker, cx);
        Poll::Pending
    }

    /// Fills `buf` with the bytes that are available.
    pub(crate) fn poll_read(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut s = self.lock();
        if s.inbound.is_empty() && buf.remaining() > 0 {
            if let Some(end) = s.end_of_reading() {
                return Poll::Ready(end);
            }
            set_waker(&mut s.read_waker, cx);
            return Poll::Pending;
        }
        while buf.remaining() > 0
            && let Some(front) = s.inbound.front_mut()
        {
            let n = front.len().min(buf.remaining());
            buf.put_slice(&front.split_to(n));
            if front.is_empty() {
                s.inbound.pop_front();
            }
            s.inbound_bytes -= n;
            s.passed.0 = s.passed.0.saturating_add(n);
        }
        s.recount();
        let wants = s.wants_more();
        drop(s);
        if wants {
            self.attend();
        }
        Poll::Ready(Ok(()))
    }

    /// Takes bytes from the writer by copying them; returns how many.
    pub(crate) fn poll_write(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut s = self.lock();
        let room = match s.room_to_write(cx) {
            Poll::Ready(Ok(room)) => room,
            Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
            Poll::Pending => return Poll::Pending,
        };
        let n = data.len().min(room);
        if n == 0 {
            return Poll::Ready(Ok(0));
        }
        s.append(&data[..n]);
        s.recount();
        drop(s);
        self.attend();
        Poll::Ready(Ok(n))
    }

    /// Takes a whole piece from the writer, without a copy, as soon as there is any room.
    pub(crate) fn poll_send(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        data: &mut Bytes,
    ) -> Poll<io::Result<()>> {
        let mut s = self.lock();
        match s.room_to_write(cx) {
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
            Poll::Pending => return Poll::Pending,
        }
        let piece = std::mem::take(data);
        if !piece.is_empty() {
            s.close_tail();
            s.outbound_bytes += piece.len();
            s.written += piece.len() as u64;
            s.outbound.push_back(piece);
            s.recount();
        }
        drop(s);
        self.attend();
        Poll::Ready(Ok(()))
    }

    /// Waits until a writer has room, and returns how much. If the connection accepts no more data, it returns
    /// at once, and the next write returns the error.
    pub(crate) fn poll_writable(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<usize> {
        match self.lock().room_to_write(cx) {
            Poll::Ready(Ok(room)) => Poll::Ready(room),
            Poll::Ready(Err(_)) => Poll::Ready(LITTLE_ROOM),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Closes the sending direction: the owner will send no more data.
    pub(crate) fn shutdown(self: &Arc<Self>) {
        let mut s = self.lock();
        if !s.write_closed {
            s.write_closed = true;
            drop(s);
            self.attend();
        }
    }

    /// Describes the message that the owner writes next. The stack is notified before the message is given to it.
    pub(crate) fn set_message(self: &Arc<Self>, message: Message) {
        self.lock().message = Some(message);
        self.attend();
    }

    /// Sets whether the owner is in the middle of what it sends.
    pub(crate) fn expect_more(self: &Arc<Self>, more: bool) {
        let mut s = self.lock();
        if s.expects_more != more {
            s.expects_more = more;
            drop(s);
            self.attend();
        }
    }

    /// The owner releases the connection.
    fn release(self: &Arc<Self>) {
        let mut s = self.lock();
        s.released = true;
        s.write_closed = true;
        s.discard_inbound();
        s.recount();
        drop(s);
        self.attend();
    }

    /// Sets the number of bytes that the owner holds for the connection as long as it lives.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) {
        self.lock().session.set(bytes);
        self.attend();
    }

    /// Ends the connection at once, on the owner's request.
    pub(crate) fn abort(self: &Arc<Self>) {
        self.lock().abort = true;
        self.attend();
    }
}

impl State {
    /// Bytes that may wait for the reader now.
    fn most_inbound(&self) -> usize {
        self.part(self.room.inbound, self.passed.0)
    }

    /// Bytes that may wait for the stack now.
    fn most_outbound(&self) -> usize {
        self.part(self.room.outbound, self.passed.1)
    }

    /// The room grows up to `most` with the bytes that have passed, so that a peer that has taken no data yet
    /// gets little. It shrinks with the free memory.
    fn part(&self, most: usize, passed: usize) -> usize {
        let room = match self.little {
            true => LITTLE_ROOM,
            false => (passed / 4).max(LEAST_ROOM),
        };
        room.min(self.share.most().max(LITTLE_ROOM)).min(most)
    }

    /// Brings the account of held memory in line with the queues.
    pub(crate) fn recount(&mut self) {
        let pieces = self.inbound.len() + self.outbound.len();
        let bytes = self.inbound_bytes + self.outbound_bytes + pieces * PIECE_COST;
        self.share.set(bytes as u64);
    }

    /// Bytes that the queues hold, as of the last recount.
    pub(crate) fn held(&self) -> u64 {
        self.share.bytes()
    }

    /// Bytes that the connection's task and its owner hold as long as it lives.
    pub(crate) fn overhead(&self) -> u64 {
        RELAY_COST + self.session.bytes()
    }

    /// Drops the data that were not read.
    pub(crate) fn discard_inbound(&mut self) {
        self.inbound.clear();
        self.inbound_bytes = 0;
    }

    /// Whether reading has made enough room for what the stack still holds.
    fn wants_more(&self) -> bool {
        self.more && self.inbound_bytes <= self.most_inbound() / 2
    }

    /// What a reader gets when no bytes are left: the end, an error, or `None` if it must wait.
    fn end_of_reading(&self) -> Option<io::Result<()>> {
        if self.eof {
            return Some(Ok(()));
        }
        match self.phase {
            Phase::Opening | Phase::Open => None,
            Phase::Closed(CloseReason::Finished) => Some(Ok(())),
            Phase::Closed(reason) => Some(Err(io::Error::new(kind_of(reason), reason))),
            Phase::Stopped => Some(Err(io::ErrorKind::NetworkDown.into())),
        }
    }

    fn room_to_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.write_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        match self.phase {
            Phase::Closed(CloseReason::Finished) => {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            Phase::Closed(reason) => {
                return Poll::Ready(Err(io::Error::new(kind_of(reason), reason)));
            }
            Phase::Stopped => return Poll::Ready(Err(io::ErrorKind::NetworkDown.into())),
            Phase::Opening | Phase::Open => {}
        }
        let most = self.most_outbound();
        if self.outbound_bytes >= most {
            set_waker(&mut self.write_waker, cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(most - self.outbound_bytes))
    }

    fn append(&mut self, data: &[u8]) {
        self.outbound_bytes += data.len();
        self.written += data.len() as u64;
        if data.len() >= GATHER_BELOW {
            self.close_tail();
            self.outbound.push_back(Bytes::copy_from_slice(data));
            return;
        }
        if self.tail.len() + data.len() > GATHER_PIECE {
            self.close_tail();
        }
        self.tail.extend_from_slice(data);
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            let tail = self.tail.split().freeze();
            self.outbound.push_back(tail);
        }
    }

    /// Room for bytes from the stack. 0 once the limit is reached.
    pub(crate) fn inbound_room(&self) -> usize {
        self.most_inbound().saturating_sub(self.inbound_bytes)
    }

    /// Appends bytes from the stack. If the owner has released the connection, they are dropped. Small pieces
    /// are joined, so that a peer that sends single bytes does not make the pipe keep an entry for each.
    pub(crate) fn deliver(&mut self, piece: Bytes) {
        if self.released || piece.is_empty() {
            return;
        }
        self.inbound_bytes += piece.len();
        let joins = |last: &Bytes| last.len() + piece.len() <= JOIN_UP_TO;
        match self.inbound.pop_back() {
            Some(last) if joins(&last) => {
                let mut joined = last.try_into_mut().unwrap_or_else(|shared| {
                    let mut copy = BytesMut::with_capacity(JOIN_UP_TO);
                    copy.extend_from_slice(&shared);
                    copy
                });
                joined.extend_from_slice(&piece);
                self.inbound.push_back(joined.freeze());
            }
            last => {
                self.inbound.extend(last);
                self.inbound.push_back(piece);
            }
        }
    }

    /// The next piece for the stack.
    pub(crate) fn next_outbound(&mut self) -> Option<Bytes> {
        if self.outbound.is_empty() {
            self.close_tail();
        }
        self.outbound.pop_front()
    }

    /// Records that `sent` bytes of a piece were taken and `rest` was not.
    pub(crate) fn sent(&mut self, sent: usize, rest: Bytes) {
        self.outbound_bytes -= sent;
        self.passed.1 = self.passed.1.saturating_add(sent);
        if !rest.is_empty() {
            self.outbound.push_front(rest);
        }
    }

    /// Whether all data that were written have been given to the stack.
    pub(crate) fn all_given(&self) -> bool {
        self.outbound_bytes == 0
    }

    /// Drops the data that were written and not yet given to the stack.
    pub(crate) fn discard_outbound(&mut self) {
        self.outbound.clear();
        self.tail.clear();
        self.outbound_bytes = 0;
    }

    /// The reader's waker, if there are data or an end for the reader.
    pub(crate) fn take_reader(&mut self) -> Option<Waker> {
        if self.inbound.is_empty() && self.end_of_reading().is_none() {
            return None;
        }
        self.read_waker.take()
    }

    /// The writer's waker, if there is enough room to wake the writer.
    pub(crate) fn take_writer(&mut self) -> Option<Waker> {
        let over = !matches!(self.phase, Phase::Opening | Phase::Open);
        if over || self.outbound_bytes <= self.most_outbound() / 2 {
            self.write_waker.take()
        } else {
            None
        }
    }
}

fn set_waker(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(w) => w.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> Arc<Pipe> {
        let poller = Arc::new(polling::Poller::new().expect("a poller"));
        Pipe::new(Arc::new(Queue::new(poller)), Room::of(&Config::default()))
    }

    #[test]
    fn single_bytes_are_joined_and_large_pieces_kept() {
        let pipe = pipe();
        let mut s = pipe.lock();
        let large = Bytes::from(vec![1; 60_000]);
        s.deliver(large.clone());
        for i in 0..10_000 {
            s.deliver(Bytes::from(vec![i as u8]));
        }
        s.deliver(large.clone());
        assert_eq!(s.inbound.len(), 2 + 10_000usize.div_ceil(JOIN_UP_TO));
        assert_eq!(s.inbound[0].as_ptr(), large.as_ptr(), "not copied");
        let all: Vec<u8> = s.inbound.iter().flatten().copied().collect();
        assert_eq!(all.len(), s.inbound_bytes);
        assert!(
            all[60_000..70_000]
                .iter()
                .enumerate()
                .all(|(i, b)| *b == i as u8)
        );
    }

    #[test]
    fn queued_bytes_are_accounted_and_returned_with_the_pipe() {
        let pipe = pipe();
        let held = pipe.queue().held().clone();
        let mut s = pipe.lock();
        s.deliver(Bytes::from(vec![1; 60_000]));
        s.append(&[2; 20_000]);
        s.recount();
        assert_eq!(held.total(), 80_000 + 2 * PIECE_COST as u64);
        assert_eq!(s.held(), held.total());
        let piece = s.next_outbound().unwrap();
        s.sent(piece.len(), Bytes::new());
        s.discard_inbound();
        s.recount();
        assert_eq!(held.total(), 0);
        s.append(&[2; 20_000]);
        s.recount();
        drop(s);
        drop(pipe);
        assert_eq!(held.total(), 0, "released with the pipe");
    }

    #[test]
    fn room_grows_with_bytes_passed_and_is_minimal_while_held_back() {
        let pipe = pipe();
        let mut s = pipe.lock();
        s.phase = Phase::Open;
        assert_eq!(s.most_outbound(), LEAST_ROOM);
        s.passed.1 = 1 << 20;
        assert_eq!(s.most_outbound(), 256 << 10);
        s.passed.1 = 1 << 30;
        assert_eq!(s.most_outbound(), MOST_ROOM);
        assert_eq!(
            s.most_inbound(),
            LEAST_ROOM,
            "no bytes have passed in the other direction"
        );
        s.little = true;
        assert_eq!(
            (s.most_outbound(), s.most_inbound()),
            (LITTLE_ROOM, LITTLE_ROOM)
        );
        s.append(&[0; LITTLE_ROOM]);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(s.room_to_write(&mut cx).is_pending());
        s.little = false;
        assert!(s.room_to_write(&mut cx).is_ready());
    }

    #[test]
    fn room_shrinks_with_the_free_memory() {
        let pipe = pipe();
        let held = pipe.queue().held().clone();
        let mut s = pipe.lock();
        s.passed.1 = 1 << 30;
        held.bound(1 << 30);
        assert_eq!(s.most_outbound(), MOST_ROOM);
        held.bound(6_400_000);
        assert_eq!(s.most_outbound(), 100_000);
        held.bound(0);
        assert_eq!(s.most_outbound(), LITTLE_ROOM, "some room always remains");
    }

    #[test]
    fn small_writes_are_gathered_in_order_with_large_ones() {
        let pipe = pipe();
        let mut s = pipe.lock();
        let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let mut at = 0;
        for len in [1, 2, 3, 20_000, 5, 60_000, 10_000, 50_000, 59_989] {
            s.append(&data[at..at + len]);
            at += len;
        }
        assert_eq!(at, data.len());
        let mut out = Vec::new();
        let mut pieces = 0;
        while let Some(piece) = s.next_outbound() {
            pieces += 1;
            // Half of the piece is not taken at first.
            let half = piece.len() / 2;
            out.extend_from_slice(&piece[..half]);
            s.sent(half, piece.slice(half..));
            let rest = s.next_outbound().unwrap_or_default();
            out.extend_from_slice(&rest);
            s.sent(rest.len(), Bytes::new());
        }
        assert!(out == data && s.all_given());
        assert_eq!(pieces, 7);
    }
}
