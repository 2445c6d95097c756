//! A custom scheduler that never uses a subflow much slower than the fastest one. `mptcp+patient` is then a
//! transport in experiment files and on the command line.

use std::process::ExitCode;

use spindle::Registry;
use spindle_mptcp::scheduler::{Decision, Scheduler, SchedulerFactory, View};

/// Like the minimum-RTT scheduler, but the data wait instead of using a subflow whose smoothed RTT is more than
/// `most` times that of the fastest subflow.
#[derive(Clone, Copy, Debug)]
struct Patient {
    /// The largest ratio of two smoothed RTTs, 1 or more.
    most: u64,
}

impl SchedulerFactory for Patient {
    fn name(&self) -> &str {
        "patient"
    }

    fn summary(&self) -> &str {
        "the lowest smoothed RTT, but never much more than the lowest of all subflows"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(*self)
    }
}

impl Scheduler for Patient {
    fn sees_all(&self) -> bool {
        true
    }

    fn pick(&mut self, view: &View<'_>) -> Decision {
        let Some(best) = view.fastest_with_room().filter(|_| view.unsent > 0) else {
            return Decision::Wait;
        };
        let (Some(fast), Some(rtt)) = (view.faster_than(best), best.srtt) else {
            return Decision::new_data(best.id);
        };
        match fast.srtt {
            Some(fastest) if rtt > fastest * self.most => Decision::Wait,
            _ => Decision::new_data(best.id),
        }
    }
}

fn main() -> ExitCode {
    let registry = Registry::standard().scheduler(Patient { most: 2 });
    spindle::cli(registry)
}
