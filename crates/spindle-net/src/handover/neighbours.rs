//! [`Neighbours`]: the part of a link that every link whose wire can be handed over needs.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use polling::{Event, PollMode, Poller};
use spindle_wire::Endpoint;

use super::{Channel, Predecessor, Received};

/// The processes that share a link's wire with this one, and whether this one reads it.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    poller: Option<Arc<Poller>>,
    /// The key of the wire's first descriptor in the poller.
    first_key: usize,
    /// The wire is not read now.
    waits: bool,
    successor: Option<Channel>,
    predecessor: Option<Predecessor>,
    /// Messages that could not be sent to the predecessor.
    dropped: u64,
}

impl Neighbours {
    /// The state of a process that waits until it may read the wire.
    pub(crate) fn waiting() -> Self {
        Self {
            waits: true,
            ..Self::default()
        }
    }

    /// Remembers the poller, and adds the wire's descriptors to it if this process may read them. Their keys are
    /// `first_key` and the following. The next keys are those of the channels to the successor and to the predecessor.
    pub(crate) fn register(
        &mut self,
        poller: &Arc<Poller>,
        first_key: usize,
        wire: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        (self.poller, self.first_key) = (Some(poller.clone()), first_key);
        match self.waits {
            true => Ok(()),
            false => read(poller, first_key, wire),
        }
    }

    fn poller(&self) -> io::Result<Arc<Poller>> {
        let poller = self.poller.clone();
        poller.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Reads the channel in place of the wire. After an error, the wire is read on.
    pub(crate) fn leave(&mut self, wire: &[BorrowedFd<'_>], successor: Channel) -> io::Result<()> {
        let poller = self.poller()?;
        let interest = Event::readable(self.first_key + wire.len());
        // SAFETY: `close` deletes the channel from the poller before it is dropped. If the link is dropped, the
        // poller is dropped with it.
        unsafe { poller.add_with_mode(&successor, interest, PollMode::Level)? };
        self.successor = Some(successor);
        self.waits = true;
        wire.iter().try_for_each(|source| poller.delete(source))
    }

    /// Closes the channel to the successor, and reads the wire again.
    pub(crate) fn resume(&mut self, wire: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.close();
        let poller = self.poller()?;
        match std::mem::take(&mut self.waits) {
            true => read(&poller, self.first_key, wire),
            false => Ok(()),
        }
    }

    /// Reads the wire from now on, unless the predecessor has closed its channel.
    pub(crate) fn begin(
        &mut self,
        wire: &[BorrowedFd<'_>],
        predecessor: Predecessor,
    ) -> io::Result<()> {
        if has_ended(&predecessor) {
            let text = "the old process reads the wire itself again, or has ended";
            return Err(io::Error::new(io::ErrorKind::NotConnected, text));
        }
        let interest = Event::readable(self.first_key + wire.len() + 1);
        let channel = predecessor.channel();
        // SAFETY: `forget_predecessor` deletes the channel from the poller before it is dropped. If the link is dropped,
        // the poller is dropped with it.
        unsafe { (self.poller()?).add_with_mode(channel, interest, PollMode::Level)? };
        self.predecessor = Some(predecessor);
        self.resume(wire)
    }

    fn forget_predecessor(&mut self) {
        if let Some(before) = self.predecessor.take()
            && let Ok(poller) = self.poller()
        {
            // An error means that the poller does not know it, as intended.
            let _ = poller.delete(before.channel());
        }
    }

    /// Closes the channel to the successor.
    pub(crate) fn close(&mut self) {
        if let Some(channel) = self.successor.take()
            && let Ok(poller) = self.poller()
        {
            // An error means that the poller does not know it, as intended.
            let _ = poller.delete(&channel);
        }
    }

    /// The predecessor, unless it is known to have ended.
    pub(crate) fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    /// Whether the predecessor exists. It never sends anything, so that its channel is readable only when it has ended.
    pub(crate) fn has_predecessor(&mut self) -> bool {
        if self.predecessor.as_ref().is_some_and(has_ended) {
            self.forget_predecessor();
        }
        self.predecessor.is_some()
    }

    /// The ends that [`Predecessor::half_open`] has, as long as the predecessor exists.
    pub(crate) fn half_open(&mut self) -> Vec<(Endpoint, Endpoint)> {
        if !self.has_predecessor() {
            return Vec::new();
        }
        let ends = self.predecessor.iter().flat_map(Predecessor::half_open);
        ends.copied().collect()
    }

    /// Receives a message of the successor. Returns its length.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let received = self.successor.as_ref()?.receive(buffer);
        match received {
            Received::Message(len) => Some(len),
            Received::Nothing => None,
            Received::Closed => {
                self.close();
                None
            }
        }
    }

    /// Sends a message to the predecessor. A full buffer, or a lack of the system's memory, drops it, as a queue does, and TCP
    /// repairs the loss.
    pub(crate) fn send(&mut self, parts: &[&[u8]]) {
        let Some(before) = &self.predecessor else {
            return;
        };
        match before.channel().send(parts) {
            Ok(()) => {}
            Err(e) if is_closed(&e) => self.forget_predecessor(),
            Err(_) => self.dropped += 1,
        }
    }

    /// Messages that were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

/// Whether the predecessor has closed its end of the channel.
fn has_ended(predecessor: &Predecessor) -> bool {
    predecessor.channel().receive(&mut [0]) == Received::Closed
}

/// Whether an error of [`Channel::send`] means that the other end is closed.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

/// Adds the descriptors to the poller.
fn read(poller: &Poller, first_key: usize, wire: &[BorrowedFd<'_>]) -> io::Result<()> {
    for (i, source) in wire.iter().enumerate() {
        let interest = Event::readable(first_key + i);
        // SAFETY: a source must be deleted from the poller before it is closed. The descriptors belong to a link, which
        // the data path drops only when it ends, together with the poller.
        match unsafe { poller.add_with_mode(source, interest, PollMode::Level) } {
            // An attempt to leave the wire has failed before it deleted this descriptor.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            added => added?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_cannot_be_sent_is_dropped_and_the_predecessor_is_kept_until_it_has_ended() {
        let (ours, theirs) = Channel::pair().unwrap();
        let mut neighbours = Neighbours::default();
        let poller = Arc::new(Poller::new().unwrap());
        neighbours.register(&poller, 16, &[]).unwrap();
        let before = Predecessor::new(ours, Vec::new());
        neighbours.begin(&[], before).unwrap();
        // No buffer holds it (EMSGSIZE).
        neighbours.send(&[&vec![0; 64 << 20]]);
        assert_eq!(neighbours.take_dropped(), 1);
        assert!(neighbours.predecessor().is_some());
        drop(theirs);
        neighbours.send(&[b"x"]);
        assert_eq!(neighbours.take_dropped(), 0);
        assert!(neighbours.predecessor().is_none());
    }
}
