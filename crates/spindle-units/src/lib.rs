//! Time, size and rate as types.
//!
//! Every crate of Spindle speaks of time in [`Instant`] and [`Duration`] (whole nanoseconds), of
//! sizes in [`Bytes`] and of rates in [`BitRate`], so that a microsecond is never taken for a
//! nanosecond nor a bit for a byte. The text forms ("280us", "1Gbps", "128KB", "2%") are those of
//! experiment files and of the command line: KB = 1000 B, KiB = 1024 B.

mod time;
mod size;

pub use size::{BitRate, Bytes};
pub use time::{Duration, Instant};
