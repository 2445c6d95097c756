//! Maps a stack's handles to the application's connections.

use std::collections::HashMap;

use spindle_mptcp::Handle;
use spindle_units::prefetch;

use crate::driver::ids::ConnId;

/// Numbers of connections by host and handle. Every event of every stack uses this map. Handles' indices are
/// small, so it is a table.
#[derive(Debug, Default)]
pub(super) struct Handles {
    hosts: Vec<Vec<Option<(Handle, ConnId)>>>,
    /// Connections whose index was reused for another handle before their end was reported.
    displaced: HashMap<(u32, Handle), ConnId>,
}

impl Handles {
    /// The connection of a host's handle, if it is known.
    #[inline]
    pub(super) fn get(&self, host: u32, handle: Handle) -> Option<ConnId> {
        match self.hosts.get(host as usize)?.get(handle.index())? {
            Some((known, conn)) if *known == handle => Some(*conn),
            _ => self.displaced.get(&(host, handle)).copied(),
        }
    }

    /// Prefetches the memory that [`Self::get`] will read.
    #[inline]
    pub(super) fn prefetch(&self, host: u32, handle: Handle) {
        let row = self.hosts.get(host as usize);
        let place = row.and_then(|row| row.get(handle.index()));
        place.into_iter().for_each(prefetch);
    }

    /// Adds a connection.
    pub(super) fn insert(&mut self, host: u32, handle: Handle, conn: ConnId) {
        let (row, at) = (host as usize, handle.index());
        if self.hosts.len() <= row {
            self.hosts.resize(row + 1, Vec::new());
        }
        let table = &mut self.hosts[row];
        if table.len() <= at {
            table.resize(at + 1, None);
        }
        let before = table[at].replace((handle, conn));
        if let Some((other, conn)) = before.filter(|(other, _)| *other != handle) {
            self.displaced.insert((host, other), conn);
        }
    }

    /// Removes a connection. Returns it if it was known.
    pub(super) fn remove(&mut self, host: u32, handle: Handle) -> Option<ConnId> {
        let place = self.hosts.get_mut(host as usize)?.get_mut(handle.index())?;
        match place.take_if(|(known, _)| *known == handle) {
            Some((_, conn)) => Some(conn),
            None => self.displaced.remove(&(host, handle)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spindle_mptcp::{Config, Stack, StackConfig};
    use spindle_units::Instant;

    use super::*;
    use spindle_experiment::hosts::endpoint;

    fn connect(stack: &mut Stack, port: u16) -> Handle {
        let (from, to) = (endpoint(0, port), endpoint(1, 80));
        let config = Arc::new(Config::default());
        stack.connect(Instant::ZERO, from, to, config).unwrap()
    }

    #[test]
    fn handle_maps_to_its_connection_until_removed() {
        let mut stack = Stack::deterministic(StackConfig::default(), 0);
        let (one, two) = (connect(&mut stack, 1000), connect(&mut stack, 1001));
        let mut handles = Handles::default();
        assert_eq!(handles.get(0, one), None);
        handles.insert(2, two, ConnId(5));
        handles.insert(2, one, ConnId(4));
        assert_eq!(
            (handles.get(2, one), handles.get(2, two)),
            (Some(ConnId(4)), Some(ConnId(5)))
        );
        assert_eq!((handles.get(1, one), handles.get(3, one)), (None, None));
        assert_eq!(
            (handles.remove(2, two), handles.remove(2, two)),
            (Some(ConnId(5)), None)
        );
        assert_eq!(
            (handles.get(2, one), handles.get(2, two)),
            (Some(ConnId(4)), None)
        );
    }

    #[test]
    fn handle_stays_known_after_its_index_is_reused() {
        let mut stack = Stack::deterministic(StackConfig::default(), 0);
        let old = connect(&mut stack, 1000);
        stack.close(Instant::ZERO, old);
        let new = connect(&mut stack, 1001);
        assert!(old != new && old.index() == new.index());
        let mut handles = Handles::default();
        handles.insert(0, old, ConnId(1));
        handles.insert(0, new, ConnId(2));
        assert_eq!(
            (handles.get(0, old), handles.get(0, new)),
            (Some(ConnId(1)), Some(ConnId(2)))
        );
        assert_eq!(
            (handles.remove(0, new), handles.get(0, old)),
            (Some(ConnId(2)), Some(ConnId(1)))
        );
        handles.insert(0, new, ConnId(2));
        assert_eq!(
            (handles.remove(0, old), handles.remove(0, new)),
            (Some(ConnId(1)), Some(ConnId(2)))
        );
        assert_eq!((handles.get(0, old), handles.get(0, new)), (None, None));
    }
}
