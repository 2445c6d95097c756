//! Time, size and rate as types.
//!
//! Every crate of Spindle speaks of time in [`Instant`] and [`Duration`] (whole nanoseconds), of
//! sizes in [`Bytes`], of rates in [`BitRate`] and of chance in [`Probability`], so that a
//! microsecond is never taken for a nanosecond nor a bit for a byte. The text forms ("280us",
//! "1Gbps", "128KB", "2%") are those of experiment files and of the command line: KB = 1000 B,
//! KiB = 1024 B. What [`Display`](std::fmt::Display) writes, [`FromStr`](std::str::FromStr) reads
//! back as the same value.

mod error;
mod near;
mod probability;
mod quantity;
mod size;
mod time;

pub use error::UnitError;
pub use near::prefetch;
pub use probability::Probability;
pub use size::{BitRate, Bytes};
pub use time::{Duration, Instant};
