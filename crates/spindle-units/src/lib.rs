//! Time, size, rate and probability as types.
//!
//! Spindle's crates state time as [`Instant`] and [`Duration`], sizes as [`Bytes`], rates as [`BitRate`] and
//! probabilities as [`Probability`]. A microsecond can therefore not be mistaken for a nanosecond, nor a bit
//! for a byte. The types also define the text forms that experiment files and the command line use.
//!
//! ```
//! use spindle_units::{BitRate, Bytes, Duration, Instant, Probability, UnitError};
//!
//! let rate: BitRate = "1Gbps".parse()?;
//! assert_eq!(rate.time_to_send(1500), Duration::from_micros(12));
//! assert_eq!("128KB".parse(), Ok(Bytes(128_000)));
//! assert_eq!("2%".parse::<Probability>()?.get(), 0.02);
//! assert_eq!((Instant::ZERO + Duration::from_millis(5)).to_string(), "5ms");
//! assert!(matches!("5".parse::<Duration>(), Err(UnitError::MissingUnit { .. })));
//! # Ok::<(), UnitError>(())
//! ```
//!
//! # Modules
//!
//! The modules are private; the crate root exports their items. Read them in this order:
//!
//! - `time`: [`Instant`] and [`Duration`].
//! - `size`: [`Bytes`] and [`BitRate`].
//! - `probability`: [`Probability`].
//! - `quantity`: the parser and the writer that the text forms share.
//! - `error`: [`UnitError`].
//! - `histogram`: [`DurationHistogram`].
//! - `near`: [`prefetch`], a hint to the processor's caches. It is here because the core and the fabric both
//!   need it.
//!
//! # Conventions
//!
//! - **Base units.** Times are whole nanoseconds, sizes are bytes and rates are bits per second, each in 64
//!   unsigned bits. A probability is an `f64` from 0 to 1, both included.
//! - **Arithmetic saturates.** Sums, differences and products stop at 0 and at the largest value instead of
//!   wrapping. Division of a [`Duration`] by zero panics.
//! - **Text forms.** KB is 1000 bytes and KiB is 1024 bytes; rates use powers of 1000. Units are
//!   case-sensitive. A size may omit its unit ("1460"); a duration or a rate may not.
//! - **Rounding.** Durations, instants and rates are rounded to the nearest base unit when they are read. A
//!   size that is not a whole number of bytes is an error.
//! - **Round trips.** [`FromStr`](std::str::FromStr) reads what [`Display`](std::fmt::Display) writes as the
//!   same value.
//! - **Errors.** Reading a text returns a [`UnitError`], which contains the text and usually the accepted
//!   forms. No text causes a panic.

mod error;
mod histogram;
mod near;
mod probability;
mod quantity;
mod size;
mod time;

pub use error::UnitError;
pub use histogram::DurationHistogram;
pub use near::prefetch;
pub use probability::Probability;
pub use size::{BitRate, Bytes};
pub use time::{Duration, Instant};
