//! A peer's announced addresses (RFC 8684, section 3.4.1).

use spindle_wire::Endpoint;

/// Addresses learnt from a peer are kept up to this many.
const MAX_REMOTE: usize = 8;

/// Announced addresses at which no subflow was established yet are tried this often in the life of a
/// connection (our choice): who announces and withdraws in turn does not make this end send SYNs all over
/// the world.
const ATTEMPTS: u32 = 32;

/// An announced address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remote {
    id: u8,
    end: Endpoint,
    /// A subflow to it was established: the peer itself is there.
    proven: bool,
    /// An attempt failed, and it was not announced again since.
    failed: bool,
}

/// The addresses that a peer has announced.
#[derive(Debug, Default)]
pub(super) struct Remotes {
    list: Vec<Remote>,
    /// How many more may be tried.
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

/// What came of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learnt {
    /// Nothing: it is known and in use, or there is no room for it.
    Nothing,
    /// It may be joined. What stood there before under its identifier, if another, may not.
    New(Option<Endpoint>),
    /// It is known, and the peer asks for another attempt.
    Again,
}

impl Remotes {
    /// Those that may be joined, with their identifiers.
    pub(super) fn usable(&self) -> impl Iterator<Item = (u8, Endpoint)> {
        let usable = self.list.iter().filter(|r| !r.failed);
        usable.map(|r| (r.id, r.end))
    }

    /// Takes an address that the peer has announced.
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

    /// An attempt at `end` failed, or a subflow to it was lost: whether there is to be another attempt.
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
