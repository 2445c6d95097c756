//! Connections of which nothing is left but TIME_WAIT: they do not count as open ones, and there is
//! a bound to them beyond which the oldest go early.

use super::Stack;

impl Stack {
    /// The connection in this slot is over for both applications and rests in TIME_WAIT.
    pub(super) fn rest(&mut self, slot: u32) {
        let Some(handle) = self.table.rest(slot) else {
            return;
        };
        self.time_wait.push_back(handle);
        if let Some(c) = self.table.connection_mut(slot) {
            c.shed();
        }
        let most = self.config.max_time_wait;
        while let Some(&oldest) = self.time_wait.front() {
            let rests = self.table.get(oldest).is_some();
            if rests && self.table.resting() <= most {
                break;
            }
            self.time_wait.pop_front();
            if rests {
                self.forget(oldest.slot);
            }
        }
        // Those that a new SYN replaced may wait behind others.
        if self.time_wait.len() > most.saturating_mul(2) {
            let table = &self.table;
            self.time_wait.retain(|h| table.get(*h).is_some());
        }
    }
}
