//! A peer's announced addresses (RFC 8684, section 3.4.1).

use spindle_wire::Endpoint;

/// Maximum number of addresses learnt from a peer that are kept.
const MAX_REMOTE: usize = 8;

/// How often announced addresses at which no subflow was established yet are tried during the life of a
/// connection (our choice). So a peer that announces and withdraws addresses in turn cannot make this end send
/// SYNs to arbitrary hosts without limit.
const ATTEMPTS: u32 = 32;

/// An announced address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remote {
    id: u8,
    end: Endpoint,
    /// A subflow to it was established, so the address is the peer's.
    proven: bool,
    /// An attempt failed, and the address was not announced again since then.
    failed: bool,
}

/// The addresses that a peer has announced.
#[derive(Debug, Default)]
pub(super) struct Remotes {
    list: Vec<Remote>,
    /// How many more attempts are allowed.
    attempts: Attempts,
}

#[derive(Debug)]
struct Attempts(u32);

impl Default for Attempts {
    fn default() -> Self {
        Self(ATTEMPTS)
    }
}

impl Attempts {
    fn take(&mut self) -> bool {
        let left = self.0 > 0;
        self.0 -= u32::from(left);
        left
    }
}

/// The result of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learnt {
    /// Nothing changes: the address is known and in use, or there is no room for it.
    Nothing,
    /// The address may be joined. The contained endpoint must be forgotten first: it had this identifier
    /// before, or it is this address after a failed attempt.
    New(Option<Endpoint>),
    /// The address is known, and the peer requests another attempt.
    Again,
}

impl Remotes {
    /// The addresses that may be joined, with their identifiers.
    pub(super) fn usable(&self) -> impl Iterator<Item = (u8, Endpoint)> {
        let usable = self.list.iter().filter(|r| !r.failed);
        usable.map(|r| (r.id, r.end))
    }

    /// Processes an address that the peer has announced.
    pub(super) fn learn(&mut self, id: u8, end: Endpoint) -> Learnt {
        let Some(k) = self.list.iter().position(|r| r.id == id) else {
            if self.list.len() >= MAX_REMOTE || !self.attempts.take() {
                return Learnt::Nothing;
            }
            self.list.push(Remote::new(id, end));
            return Learnt::New(None);
        };
        let known = self.list[k];
        if known.end != end {
            if !self.attempts.take() {
                return Learnt::Nothing;
            }
            self.list[k] = Remote::new(id, end);
            return Learnt::New(Some(known.end));
        }
        if known.failed && self.attempts.take() {
            self.list[k].failed = false;
            return Learnt::New(Some(end));
        }
        match known.proven {
            true => Learnt::Again,
            false => Learnt::Nothing,
        }
    }

    /// The peer has withdrawn the address with this identifier.
    pub(super) fn remove(&mut self, id: u8) -> Option<Endpoint> {
        let at = self.list.iter().position(|r| r.id == id)?;
        Some(self.list.swap_remove(at).end)
    }

    /// A subflow to `end` is established.
    pub(super) fn prove(&mut self, end: Endpoint) {
        for r in self.list.iter_mut().filter(|r| r.end == end) {
            (r.proven, r.failed) = (true, false);
        }
    }

    /// An attempt at `end` failed, or a subflow to it was lost. Returns whether another attempt should be made.
    pub(super) fn is_worth_another_try(&mut self, end: Endpoint) -> bool {
        let Some(r) = self.list.iter_mut().find(|r| r.end == end) else {
            return true;
        };
        r.failed = !r.proven;
        r.proven
    }
}

impl Remote {
    const fn new(id: u8, end: Endpoint) -> Self {
        Self {
            id,
            end,
            proven: false,
            failed: false,
        }
    }
}
