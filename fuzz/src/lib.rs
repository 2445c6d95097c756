//! Code that the fuzz targets share.

#[path = "../../crates/spindle-mptcp/tests/budget/mod.rs"]
mod budget;
pub mod live;
pub mod parities;
pub mod seeded;
mod steps;
pub mod udp;
pub mod units;
