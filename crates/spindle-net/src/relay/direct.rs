//! Joins two connections of the system.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::Interest;
use tokio::net::TcpStream as KernelStream;

use super::pump::{self, Failure, OutsideSink, OutsideSource};
use super::{Directions, End, Ended, GRACE, RelayOptions, Report, in_order, reset};
use crate::datapath::held::{RELAY_COST, Share};
use crate::service::Lifecycle;

/// Relays between a target and a program until both directions are closed, one side fails, no bytes have passed for the idle
/// time, or the service aborts. If one side fails, the other is reset. `share` makes shares in the account of memory.
pub(crate) async fn direct(
    target: &KernelStream,
    program: &KernelStream,
    options: RelayOptions,
    share: impl Fn() -> Share,
    lifecycle: &Lifecycle,
) -> Report {
    let mut cost = share();
    cost.set(RELAY_COST);
    let (outward, inward) = (AtomicU64::new(0), AtomicU64::new(0));
    let sides = Sides {
        target,
        program,
        moved: [&outward, &inward],
    };
    let end = sides.both(&options, &share, lifecycle).await;
    let close = match end.0 {
        Ended::Finished => in_order,
        _ => reset,
    };
    close(target);
    close(program);
    if let Some(m) = &options.metrics {
        m.ended(end.0.counted());
    }
    Report {
        outward: outward.into_inner(),
        inward: inward.into_inner(),
        ended: end.0,
        error: end.1,
    }
}

/// Both connections, and the bytes that have passed to the program and from it.
struct Sides<'a> {
    target: &'a KernelStream,
    program: &'a KernelStream,
    moved: [&'a AtomicU64; 2],
}

impl Sides<'_> {
    /// Runs both directions.
    async fn both(
        &self,
        options: &RelayOptions,
        share: &impl Fn() -> Share,
        lifecycle: &Lifecycle,
    ) -> End {
        let [outward, inward] = self.moved;
        let directions = Directions {
            outward: one_way(self.target, self.program, outward, share()),
            inward: one_way(self.program, self.target, inward, share()),
            peer_reads_on: true,
        };
        let expired = |idle| super::expired(idle, || self.total());
        let limits = (options.idle, options.half_closed);
        directions
            .run(self.failed(), expired, limits, lifecycle)
            .await
    }

    /// Waits until either side is lost while it is not being read. The directions get some time to notice this by
    /// themselves, with the data that were received before.
    async fn failed(&self) -> End {
        // Reading a socket's error would take it from the direction that must get it.
        let reset = || Some(io::ErrorKind::ConnectionReset.into());
        let end = tokio::select! {
            _ = self.target.ready(Interest::ERROR) => (Ended::PeerFailed, reset()),
            _ = self.program.ready(Interest::ERROR) => (Ended::OutsideFailed, reset()),
        };
        tokio::time::sleep(GRACE).await;
        end
    }

    fn total(&self) -> u64 {
        let moved = self.moved.map(|n| n.load(Ordering::Relaxed));
        moved.iter().sum()
    }
}

/// Moves all data of one direction, with the end of the stream.
async fn one_way(
    from: &KernelStream,
    to: &KernelStream,
    moved: &AtomicU64,
    held: Share,
) -> Result<(), Failure> {
    let (mut source, mut sink) = (OutsideSource::new(from), OutsideSink::new(to));
    let count = |n| {
        moved.fetch_add(n, Ordering::Relaxed);
    };
    pump::pump(&mut source, &mut sink, count, held).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::relay::Asking;

    /// Both ends of a connection of the system.
    async fn pair() -> (KernelStream, KernelStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let (far, near) = tokio::join!(KernelStream::connect(to), listener.accept());
        (far.unwrap(), near.unwrap().0)
    }

    /// A target and a program, and the relay between them.
    async fn relayed(
        idle: Option<Duration>,
        lifecycle: &Lifecycle,
    ) -> (KernelStream, KernelStream, JoinHandle<Report>) {
        let ((target, near), (program, here)) = (pair().await, pair().await);
        let options = RelayOptions {
            asking: Asking::Outside,
            idle,
            half_closed: None,
            metrics: None,
        };
        let lifecycle = lifecycle.clone();
        let relay = tokio::spawn(async move {
            let share = || Share::new(Default::default());
            direct(&near, &here, options, share, &lifecycle).await
        });
        (target, program, relay)
    }

    #[tokio::test]
    async fn bytes_and_the_end_of_each_direction_are_passed_on() {
        let (mut target, mut program, relay) = relayed(None, &Lifecycle::default()).await;
        program.write_all(b"question").await.unwrap();
        program.shutdown().await.unwrap();
        let mut got = Vec::new();
        target.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"question");
        let answer = vec![7; 1 << 20];
        let writing = async {
            target.write_all(&answer).await.unwrap();
            target.shutdown().await.unwrap();
        };
        let mut got = Vec::new();
        let ((), read) = tokio::join!(writing, program.read_to_end(&mut got));
        read.unwrap();
        assert!(got == answer);
        let report = relay.await.unwrap();
        assert_eq!(report.ended, Ended::Finished);
        assert_eq!((report.outward, report.inward), (1 << 20, 8));
    }

    #[tokio::test]
    async fn a_reset_of_either_side_is_passed_on() {
        for target_resets in [true, false] {
            let (target, program, relay) = relayed(None, &Lifecycle::default()).await;
            let (gone, mut left, want) = match target_resets {
                true => (target, program, Ended::PeerFailed),
                false => (program, target, Ended::OutsideFailed),
            };
            reset(&gone);
            drop(gone);
            let error = left.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            assert_eq!(relay.await.unwrap().ended, want);
        }
    }

    #[tokio::test]
    async fn an_idle_connection_and_one_of_a_service_that_aborts_are_reset() {
        let idle = Some(Duration::from_millis(80));
        for (idle, want) in [(idle, Ended::Idle), (None, Ended::Aborted)] {
            let lifecycle = Lifecycle::default();
            let (mut target, _program, relay) = relayed(idle, &lifecycle).await;
            if idle.is_none() {
                lifecycle.abort();
            }
            let error = target.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            assert_eq!(relay.await.unwrap().ended, want);
        }
    }
}
