//! Buffers that grow with the demand of the connection, up to the configured sizes.

use spindle_units::{Duration, Instant};

use super::{Connection, ConnectionEvent};

/// Initial size of the send buffer in bytes. It has the order of magnitude that Linux's `tcp_wmem` results in
/// on a new connection. [`FIRST_RECEIVE`] is the initial size of the receive buffer (`tcp_rmem`).
pub(super) const FIRST_SEND: u64 = 64 << 10;
const FIRST_RECEIVE: u64 = 128 << 10;
/// Segments that a sender is assumed to send in its first round trip (RFC 6928).
const FIRST_SEGMENTS: u64 = 10;
/// Room in addition to two windows, for a sender whose rate is still growing (Linux `tcp_rcv_space_adjust`).
const SPARE_SEGMENTS: u64 = 16;

/// The current buffer sizes.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Bytes the send buffer may hold.
    send: u64,
    receive: Option<ReceiveTuning>,
}

/// Dynamic right-sizing: the window must not hold up a sender if the application reads its bytes at once. So
/// the window is twice the number of bytes read within a round trip (M. Fisk and W. Feng, "Dynamic right-sizing
/// in TCP", 2001). The growth ahead of a window that doubles is that of Linux.
#[derive(Debug, Default)]
struct ReceiveTuning {
    since: Option<Instant>,
    /// Bytes read since the time in `since`.
    read: u64,
    /// Bytes read in the best round trip so far.
    best: u64,
}

impl ReceiveTuning {
    /// The application has read `bytes`. Returns the wanted buffer size if a round trip is over and was the
    /// best so far.
    fn on_read(&mut self, now: Instant, bytes: u64, rtt: Duration, mss: u64) -> Option<u64> {
        let since = *self.since.get_or_insert(now);
        self.read += bytes;
        if now.since(since) < rtt {
            return None;
        }
        self.since = Some(now);
        let read = std::mem::take(&mut self.read);
        let best = self.best.max(FIRST_SEGMENTS * mss).max(1);
        if read <= best {
            return None;
        }
        self.best = read;
        let window = 2 * read + SPARE_SEGMENTS * mss;
        let ahead = u128::from(window) * u128::from(read - best) / u128::from(best);
        let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
        Some(window.saturating_add(ahead.saturating_mul(2)))
    }
}

impl Buffers {
    /// Creates buffers of the configured sizes, or buffers that grow up to these sizes. Also returns the
    /// initial size of the receive buffer.
    pub(super) fn new(config: &crate::tcp_config::TcpConfig) -> (Self, usize) {
        let (send, receive) = (config.send_buffer as u64, config.receive_buffer as u64);
        if !config.autotune {
            let fixed = Self {
                send,
                receive: None,
            };
            return (fixed, config.receive_buffer);
        }
        let growing = Self {
            send: send.min(FIRST_SEND),
            receive: Some(ReceiveTuning::default()),
        };
        (growing, receive.min(FIRST_RECEIVE) as usize)
    }

    /// Bytes the send buffer may hold.
    pub(super) fn send(&self) -> u64 {
        self.send
    }
}

impl Connection {
    /// Called after an acknowledgement. The send buffer must hold twice the bytes that all subflows can send
    /// within the RTT of the slowest one (RFC 6182, section 5.3: 2 * sum of rates * largest RTT).
    #[inline]
    pub(super) fn tune_send_buffer(&mut self) {
        let most = self.config.tcp.send_buffer as u64;
        if self.config.tcp.autotune && self.buffers.send < most {
            self.grow_send_buffer(most);
        }
    }

    #[inline(never)] // only with autotuning
    fn grow_send_buffer(&mut self, most: u64) {
        let slowest = self.subflows.remaining().filter_map(|s| s.tx.srtt()).max();
        let on_the_way = self.subflows.remaining().map(|s| {
            let cwnd = s.tx.cc.cwnd();
            match (s.tx.srtt().filter(|t| !t.is_zero()), slowest) {
                (Some(own), Some(all)) => {
                    let bytes = u128::from(cwnd) * u128::from(all.as_nanos());
                    u64::try_from(bytes / u128::from(own.as_nanos())).unwrap_or(u64::MAX)
                }
                _ => cwnd,
            }
        });
        let sum = on_the_way.fold(0, u64::saturating_add);
        let was_full = self.writable() == 0;
        self.buffers.send = self.buffers.send.max(sum.saturating_mul(2)).min(most);
        if was_full && self.writable() > 0 {
            self.outbox.push_event(ConnectionEvent::Writable);
        }
    }

    /// Called after the application has read `bytes`.
    #[inline]
    pub(super) fn tune_receive_buffer(&mut self, now: Instant, bytes: u64, mss: u64) {
        if self.buffers.receive.is_some() {
            self.grow_receive_buffer(now, bytes, mss);
        }
    }

    #[inline(never)] // only with autotuning
    fn grow_receive_buffer(&mut self, now: Instant, bytes: u64, mss: u64) {
        let most = self.config.tcp.receive_buffer as u64;
        let Some(tuning) = &mut self.buffers.receive else {
            return;
        };
        let times = |s: &crate::subflow::Subflow| s.rx.rtt().or(s.tx.srtt());
        let Some(rtt) = self.subflows.remaining().filter_map(times).max() else {
            return;
        };
        if let Some(wanted) = tuning.on_read(now, bytes, rtt, mss) {
            self.recv.grow_to(wanted.min(most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_buffer_stays_ahead_of_a_sender_that_doubles() {
        let mut t = ReceiveTuning::default();
        let rtt = Duration::from_millis(50);
        let mut now = Instant::from_nanos(1);
        let mss = 1000;
        assert_eq!(t.on_read(now, 5000, rtt, mss), None, "no round trip yet");
        let mut read = 20_000;
        for _ in 0..10 {
            now += rtt;
            let window = t.on_read(now, read, rtt, mss).expect("more than before");
            assert!(window > 2 * read, "{window} for {read}");
            read *= 2;
        }
        now += rtt;
        assert_eq!(t.on_read(now, read / 4, rtt, mss), None, "less than before");
    }
}
