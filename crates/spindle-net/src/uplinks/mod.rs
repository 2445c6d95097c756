//! Uplinks: the addresses of this host from which connections may lead to a gateway, followed while they come and go.
//!
//! A watcher reads the links, addresses and routes of the host by netlink and receives their changes. What it uses of
//! them is decided by a [`Selection`]. It passes the used addresses to the data path
//! ([`Network::set_local_addresses`](crate::Network::set_local_addresses)), so that open connections join new paths and
//! leave lost ones at once.
//!
//! `event.rs` reads the kernel's messages, `table.rs` holds what is known, `selection.rs` decides, `socket.rs` has the
//! sockets, and `watcher.rs` connects these parts. `resume.rs` detects that the host was suspended. `allowance.rs` counts
//! what metered devices carry.

mod allowance;
mod event;
mod resume;
mod selection;
mod socket;
mod table;
#[cfg(test)]
mod tests;
mod watcher;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

pub use allowance::{Allowance, Period, Usage, state_directory};
pub use resume::{Clocks, SystemClocks};
pub use selection::{DevicePattern, NamedAddress, Selection, Unused, Uplink, UplinkState};
pub use watcher::Watching;

use crate::udp;
use allowance::Meter;
use table::{GATEWAYS, Table};

/// How long a connection waits for an uplink if there is none (our choice): an address change takes less.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct State {
    table: Table,
    gateways: Vec<IpAddr>,
    list: Vec<Uplink>,
    /// The uplinks are followed. If not, the system's choice is used.
    followed: bool,
}

struct Shared {
    selection: Selection,
    clocks: Box<dyn Clocks>,
    state: Mutex<State>,
    meter: Mutex<Meter>,
    /// Counts how often the list was made.
    made: watch::Sender<u64>,
    /// The table must be read again.
    refresh: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The uplinks of this host. All clones share one state.
#[derive(Clone)]
pub struct Uplinks(Arc<Shared>);

impl fmt::Debug for Uplinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Uplinks").field(&self.0.selection).finish()
    }
}

impl Uplinks {
    /// Uplinks that nothing is known about until [`Self::start`]. `gateways` are targets that are known already; as
    /// long as there are none, default routes count.
    pub fn new(selection: Selection, gateways: Vec<IpAddr>) -> Self {
        Self::with_clocks(selection, gateways, SystemClocks)
    }

    /// Like [`Self::new`], with other clocks than those of the system.
    pub fn with_clocks(
        selection: Selection,
        gateways: Vec<IpAddr>,
        clocks: impl Clocks + 'static,
    ) -> Self {
        let state = State {
            gateways,
            ..State::default()
        };
        let meter = Meter::new(
            selection.allowances.clone(),
            selection.allowance_file.clone(),
        );
        Self(Arc::new(Shared {
            selection,
            clocks: Box::new(clocks),
            state: Mutex::new(state),
            meter: Mutex::new(meter),
            made: watch::Sender::new(0),
            refresh: Notify::new(),
        }))
    }

    /// The uplinks now, those that are used first.
    pub fn list(&self) -> Vec<Uplink> {
        self.0.lock().list.clone()
    }

    /// How much of each allowance is used.
    pub fn usage(&self) -> Vec<Usage> {
        self.0.meter().usage()
    }

    /// Pairs of a local address and one of the targets, in the order in which a connection should try them. Routes to the
    /// targets are looked for from now on. If no uplink leads to any of them, it waits for one for up to a second.
    ///
    /// # Errors
    /// [`io::ErrorKind::NetworkUnreachable`], with the reason for each uplink, if there is none for any target.
    pub async fn pairs(&self, targets: &[SocketAddr]) -> io::Result<Vec<(IpAddr, SocketAddr)>> {
        let deadline = Instant::now() + PATIENCE;
        let mut made = self.0.made.subscribe();
        let here: Vec<Option<IpAddr>> = targets.iter().map(|t| self.own_source(*t)).collect();
        let mut new = false;
        for (target, _) in targets.iter().zip(&here).filter(|(_, here)| here.is_none()) {
            new |= self.add_gateway(target.ip());
        }
        if new {
            // An error is a timeout. The present list is then used.
            let _ = timeout_at(deadline, made.changed()).await;
        }
        loop {
            let mut pairs = Vec::new();
            for (target, here) in targets.iter().zip(&here) {
                let sources = match here {
                    Some(source) => vec![*source],
                    None => self.used(target.is_ipv4()),
                };
                pairs.extend(sources.into_iter().map(|source| (source, *target)));
            }
            if !pairs.is_empty() {
                return Ok(pairs);
            }
            // The sender is in `self`, so that an error is a timeout.
            if timeout_at(deadline, made.changed()).await.is_err() {
                let names: Vec<String> = targets.iter().map(SocketAddr::to_string).collect();
                return Err(self.unreachable(&names.join(", ")));
            }
        }
    }

    /// Reads the uplinks again, which takes up to a second. Returns false if they are not followed.
    pub(crate) async fn renew(&self) -> bool {
        let mut made = self.0.made.subscribe();
        if !self.0.lock().followed {
            return false;
        }
        self.0.refresh.notify_one();
        // An error is a timeout. The present list is then used.
        let _ = timeout_at(Instant::now() + PATIENCE, made.changed()).await;
        true
    }

    /// The system's choice for a target on this host, which is reached from its own address, and for all targets if the
    /// uplinks are not followed.
    fn own_source(&self, target: SocketAddr) -> Option<IpAddr> {
        if !self.0.selection.automatic {
            return None;
        }
        let followed = self.0.lock().followed;
        let source = udp::source_for(target).ok()?;
        (source == target.ip() || !followed).then_some(source)
    }

    /// Waits for up to a second until there is an uplink at all, as before a name is looked up.
    ///
    /// # Errors
    /// [`io::ErrorKind::NetworkUnreachable`], with the reason for each uplink.
    pub async fn any(&self, target: &str) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut made = self.0.made.subscribe();
        // Until a target is known, a route is not required.
        let usable = |u: &Uplink| u.is_up() || u.state == UplinkState::Down(Unused::NoRoute);
        while self.0.lock().followed && !self.list().iter().any(usable) {
            if timeout_at(deadline, made.changed()).await.is_err() {
                return Err(self.unreachable(target));
            }
        }
        Ok(())
    }

    /// The used addresses of a family.
    fn used(&self, v4: bool) -> Vec<IpAddr> {
        let state = self.0.lock();
        if !state.followed {
            let named = self.0.selection.addresses.iter().map(|a| a.addr);
            return named.filter(|a| a.is_ipv4() == v4).collect();
        }
        let used = state.list.iter().filter(|u| u.is_up());
        let used = used.map(|u| u.addr).filter(|a| a.is_ipv4() == v4);
        used.collect()
    }

    /// Whether all gateways are known to be on this host, so that no uplink is needed.
    fn leads_here(&self) -> bool {
        let gateways = self.0.lock().gateways.clone();
        let here = |a: &IpAddr| udp::source_for((*a, 9).into()).is_ok_and(|source| source == *a);
        self.0.selection.automatic && !gateways.is_empty() && gateways.iter().all(here)
    }

    /// Looks for routes to another gateway as well. Returns whether it is new.
    fn add_gateway(&self, addr: IpAddr) -> bool {
        let mut state = self.0.lock();
        if !state.followed || state.gateways.contains(&addr) {
            return false;
        }
        if state.gateways.len() == GATEWAYS {
            state.gateways.remove(0);
        }
        state.gateways.push(addr);
        drop(state);
        self.0.refresh.notify_one();
        true
    }

    /// The error for a connection that finds no uplink.
    fn unreachable(&self, target: &str) -> io::Error {
        let list = self.list();
        let each = |u: &Uplink| match u.state {
            UplinkState::Down(why) => format!("{} {}: {why}", u.device, u.addr),
            _ => format!("{} {}: of another address family", u.device, u.addr),
        };
        let mut why: Vec<String> = list.iter().map(each).collect();
        if why.is_empty() {
            why.push("this host has no suitable address".to_owned());
        }
        let text = format!("{target}: no uplink leads to it ({})", why.join("; "));
        io::Error::new(io::ErrorKind::NetworkUnreachable, text)
    }
}
