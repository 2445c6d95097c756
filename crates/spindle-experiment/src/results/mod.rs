//! The results of an experiment: its runs, the data that becomes JSON, and tables for people.

mod comparison;
mod lines;
mod lock;
mod parallel;
mod registration;
mod runs;
mod table;

pub use comparison::{
    ColumnSummary, Comparison, EngineSummary, FctIntervals, FctSummary, METRICS, MeanOnly, Ordered,
    PointSummary, TransportSummary, Verdicts, comparison, ends, interval, peak_rss_bytes, pools,
    value, verdicts,
};
pub use lines::{Lines, StoreError};
pub use lock::{Difference, Lock, LockError, Locked, LockedClaim};
pub use parallel::in_parallel;
pub use registration::{RULES, Registration};
pub use runs::{RunKey, SweepResult, TransportRuns, all_well, keys};
pub use table::{table, verdict_table};
