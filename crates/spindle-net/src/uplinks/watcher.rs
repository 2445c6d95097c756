//! The task that follows the kernel's messages and passes the used addresses to the data path.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::allowance::{Meter, Usage};
use super::resume::SuspendDetector;
use super::selection::{Change, Uplink, UplinkState, changes};
use super::socket::{Changes, read, read_counters};
use super::{Shared, Uplinks};
use crate::link::LocalPath;
use crate::socket::Network;

/// How often the clocks are compared.
const TICK: Duration = Duration::from_secs(1);
/// Pause after a failure of netlink.
const REST: Duration = Duration::from_secs(1);

/// A running watcher. It ends when this is dropped.
pub struct Watching {
    task: JoinHandle<()>,
    shared: Arc<Shared>,
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watching").field(&self.task).finish()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.meter().store();
    }
}

impl Uplinks {
    /// Reads the uplinks, passes those that are used to the data path, and follows their changes.
    ///
    /// # Errors
    /// The system's error if there is no netlink, as in some sandboxes. The uplinks are then not followed: the addresses
    /// that were named are used, or those that the system chooses, and allowances have no effect.
    pub async fn start(&self, network: &Network) -> io::Result<Watching> {
        let begun = self.begin(network).await;
        let watcher = begun.inspect_err(|_| {
            let named = self.0.selection.addresses.iter().map(|n| LocalPath {
                addr: n.addr,
                device: n.device.clone(),
                required: n.device.is_some(),
                backup: self.0.selection.backup_addresses.contains(&n.addr),
            });
            network.set_local_addresses(named.collect());
        })?;
        watcher.publish();
        if !self.list().iter().any(Uplink::is_up) && !self.leads_here() {
            tracing::warn!("no uplink at present; it is used once there is one");
        }
        let shared = watcher.shared.clone();
        let task = tokio::spawn(watcher.run());
        Ok(Watching { task, shared })
    }

    async fn begin(&self, network: &Network) -> io::Result<Watcher> {
        let changes = Changes::open()?;
        let mut watcher = Watcher {
            shared: self.0.clone(),
            network: network.clone(),
            changes,
            stale: false,
        };
        watcher.read().await?;
        watcher.meter().await?;
        watcher.shared.lock().followed = true;
        Ok(watcher)
    }
}

struct Watcher {
    shared: Arc<Shared>,
    network: Network,
    changes: Changes,
    /// The table must be read again.
    stale: bool,
}

impl Watcher {
    async fn run(mut self) {
        let mut detector = SuspendDetector::new(self.shared.clocks.as_ref());
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let shared = self.shared.clone();
        loop {
            tokio::select! {
                events = self.changes.next() => self.on_changes(events).await,
                () = shared.refresh.notified() => self.stale = true,
                _ = tick.tick() => {
                    match self.meter().await {
                        Ok(true) => self.publish(),
                        Ok(false) => {}
                        // It is counted by the next tick that succeeds.
                        Err(error) => tracing::debug!(%error, "cannot read the counters of devices"),
                    }
                    if let Some(time) = detector.check(shared.clocks.as_ref()) {
                        tracing::info!(seconds = time.as_secs(), "resumed after a suspend; all paths are probed");
                        self.stale = true;
                        self.refresh().await;
                        self.network.probe_paths();
                    }
                }
            }
            self.refresh().await;
        }
    }

    /// Applies a batch of changes, or recovers from an error.
    async fn on_changes(&mut self, events: io::Result<Vec<super::event::Event>>) {
        let error = match events {
            Ok(events) => {
                let mut state = self.shared.lock();
                for event in events {
                    self.stale |= state.table.apply(event);
                }
                drop(state);
                if !self.stale {
                    self.publish();
                }
                return;
            }
            Err(error) => error,
        };
        self.stale = true;
        if error.raw_os_error() == Some(libc::ENOBUFS) {
            tracing::debug!("the kernel has dropped messages about changes");
            return;
        }
        tracing::warn!(%error, "cannot read changes of the uplinks; opening netlink again");
        sleep(REST).await;
        if let Ok(changes) = Changes::open() {
            self.changes = changes;
        }
    }

    /// Counts what metered devices have carried. Returns whether an allowance is now used up, or renewed.
    async fn meter(&self) -> io::Result<bool> {
        if !self.shared.meter().counts() {
            return Ok(false);
        }
        let shared = self.shared.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let counters = read_counters()?;
            let mut meter = shared.meter();
            let used_up =
                |meter: &Meter| meter.usage().iter().map(Usage::is_up).collect::<Vec<_>>();
            let before = used_up(&meter);
            meter.count(SystemTime::now(), &counters);
            let changed = before != used_up(&meter);
            match changed {
                true => meter.store(),
                false => meter.store_at_times(),
            }
            Ok(changed)
        });
        reading.await.map_err(io::Error::other)?
    }

    /// Reads the table again if it may be out of date.
    async fn refresh(&mut self) {
        while std::mem::take(&mut self.stale) {
            if let Err(error) = self.read().await {
                tracing::warn!(%error, "cannot read the uplinks; trying again");
                self.stale = true;
                sleep(REST).await;
                continue;
            }
            self.publish();
        }
    }

    /// Reads the table. Changes that arrive meanwhile are applied afterwards.
    async fn read(&mut self) -> io::Result<()> {
        let gateways = self.shared.lock().gateways.clone();
        let reading = tokio::task::spawn_blocking(move || read(&gateways));
        let table = reading.await.map_err(io::Error::other)??;
        self.shared.lock().table = table;
        Ok(())
    }

    /// Makes the list from the table. If it has changed, logs the changes and informs the data path.
    fn publish(&self) {
        let mut state = self.shared.lock();
        let used_up = |device: &str| self.shared.meter().is_used_up(device);
        let list = self.shared.selection.uplinks(&state.table, used_up);
        let before = std::mem::replace(&mut state.list, list.clone());
        drop(state);
        for change in changes(&before, &list) {
            log(&change);
        }
        let paths = |list: &[Uplink]| -> Vec<LocalPath> {
            list.iter().filter(|u| u.is_up()).map(path).collect()
        };
        let used = paths(&list);
        if used != paths(&before) {
            self.network.set_local_addresses(used);
        }
        self.shared.made.send_modify(|n| *n += 1);
    }
}

fn path(uplink: &Uplink) -> LocalPath {
    LocalPath {
        addr: uplink.addr,
        device: uplink.bound.then(|| uplink.device.clone()),
        required: uplink.required,
        backup: uplink.state == UplinkState::Backup,
    }
}

fn log(change: &Change) {
    let (uplink, text) = match change {
        Change::New(u) | Change::Changed(_, u) if u.is_up() => (u, "an uplink is used"),
        Change::New(u) => (u, "an uplink is not used"),
        Change::Changed(before, u) if before.is_up() => (u, "an uplink is no longer used"),
        Change::Changed(_, u) => (u, "an uplink is not used"),
        Change::Gone(u) => (u, "an uplink no longer exists"),
    };
    let (device, addr) = (&uplink.device, uplink.addr);
    match uplink.state {
        UplinkState::Down(why) => tracing::info!(device, %addr, %why, "{text}"),
        state => tracing::info!(device, %addr, backup = state == UplinkState::Backup, "{text}"),
    }
}
