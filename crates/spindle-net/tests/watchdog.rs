//! The watchdog of the data path.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use polling::Poller;
use spindle_net::service::watch;
use spindle_net::{Arrival, Link, LinkCounters, Network, NetworkConfig};
use spindle_units::Instant;
use spindle_wire::Packet;

/// A link that blocks its thread for as long as the gate is locked.
struct Gated {
    gate: Arc<Mutex<()>>,
    blocked: Arc<AtomicBool>,
}

impl Link for Gated {
    fn register(&mut self, _: &Arc<Poller>) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, _: Instant, _: usize, _: &mut dyn FnMut(Arrival)) -> io::Result<bool> {
        Ok(false)
    }

    fn send(&mut self, _: Instant, _: Packet) {}

    fn flush(&mut self, _: Instant) -> io::Result<()> {
        if self.gate.try_lock().is_err() {
            self.blocked.store(true, Ordering::SeqCst);
            drop(self.gate.lock().expect("the gate"));
        }
        Ok(())
    }

    fn mss(&self) -> u32 {
        1460
    }

    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}

async fn until(done: impl Fn() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    waited.expect("it takes too long");
}

#[tokio::test]
#[expect(
    clippy::await_holding_lock,
    reason = "the lock is what holds the data path"
)]
async fn a_data_path_that_hangs_is_not_reported_alive_until_it_turns_again() {
    const EVERY: Duration = Duration::from_millis(2);
    let (gate, blocked) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
    let link = Gated {
        gate: gate.clone(),
        blocked: blocked.clone(),
    };
    let network = Network::start(NetworkConfig::default(), Box::new(link)).expect("a data path");
    let alive = Arc::new(AtomicUsize::new(0));
    let (watched, told) = (network.clone(), alive.clone());
    let watching = tokio::spawn(async move {
        watch(&watched, EVERY, || {
            told.fetch_add(1, Ordering::SeqCst);
        })
        .await
    });
    let count = || alive.load(Ordering::SeqCst);
    until(|| count() >= 3).await;
    let held = gate.lock().expect("the gate");
    until(|| blocked.load(Ordering::SeqCst)).await;
    // The answer of the turn that hangs now may still be in transit.
    let before = count() + 1;
    tokio::time::sleep(EVERY * 50).await;
    assert!(count() <= before, "told {} times", count() - before);
    drop(held);
    until(|| count() > before).await;
    let turns = network.counters().await.expect("counters").turn_times;
    let longest = turns.buckets().filter(|(_, n)| *n > 0).last();
    let bound = longest.and_then(|(bound, _)| bound);
    assert!(bound.is_none_or(|b| b >= (EVERY * 50).into()), "{turns:?}");
    watching.abort();
    network.shutdown().await;
}

#[tokio::test]
async fn the_first_report_comes_at_once() {
    let (link, _other) = spindle_net::memory::pair(64);
    let network = Network::start(NetworkConfig::default(), Box::new(link)).expect("a data path");
    let alive = AtomicUsize::new(0);
    let hour = Duration::from_secs(3600);
    tokio::select! {
        never = watch(&network, hour, || { alive.fetch_add(1, Ordering::SeqCst); }) => match never {},
        () = until(|| alive.load(Ordering::SeqCst) == 1) => {}
    }
    network.shutdown().await;
}
