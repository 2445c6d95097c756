//! How long the data path's turns take.

use spindle_units::DurationHistogram;

/// A histogram of the time from the data path's wake-up until it has done the work of its turn. During a turn,
/// no connection is served. The bounds are from 20 us to 5.2 s, each four times the one before.
pub type TurnTimes = DurationHistogram<20, 4, 10>;
