//! Proportional rate reduction (RFC 6937) with the slow-start reduction bound.

/// The counters of one recovery episode, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prr {
    ssthresh: u64,
    recover_flight: u64,
    delivered: u64,
    out: u64,
}

impl Prr {
    /// Recovery begins with `flight` bytes outstanding. `ssthresh` is the target.
    pub(crate) fn new(flight: u64, ssthresh: u64) -> Self {
        Self {
            ssthresh,
            recover_flight: flight.max(1),
            delivered: 0,
            out: 0,
        }
    }

    /// The window in which the recovery ends.
    pub(crate) fn target(&self) -> u64 {
        self.ssthresh
    }

    /// `bytes` were sent during recovery.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// An acknowledgement delivered `delivered` bytes. Returns the cwnd that permits as many bytes as RFC 6937
    /// section 3 allows.
    pub(crate) fn on_ack(&mut self, delivered: u64, pipe: u64, mss: u64) -> u64 {
        self.delivered += delivered;
        let count = if pipe > self.ssthresh {
            let share = (u128::from(self.delivered) * u128::from(self.ssthresh))
                .div_ceil(u128::from(self.recover_flight)) as u64;
            share.saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + mss;
            (self.ssthresh - pipe).min(limit)
        };
        pipe + count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prr_sends_half_a_window_while_a_window_is_delivered() {
        let mss = 1000;
        let mut prr = Prr::new(20 * mss, 10 * mss);
        let mut pipe = 19 * mss;
        let mut sent = 0;
        for _ in 0..19 {
            pipe -= mss;
            let cwnd = prr.on_ack(mss, pipe, mss);
            while pipe + mss <= cwnd {
                pipe += mss;
                sent += 1;
                prr.on_sent(mss);
            }
        }
        assert!((9..=10).contains(&sent), "{sent} segments left");
        assert!(
            (9 * mss..=10 * mss).contains(&pipe),
            "{pipe} in flight at the end"
        );
    }
}
