//! Spindle on a real network.
//!
//! A [`Link`] carries segments to and from a wire of some kind; the data path drives the sans-IO
//! core over one of them on a thread of its own, and async sockets talk to that thread.

mod link;

pub use link::{Arrival, FIRST_KEY, Link, LinkCounters, PathMtu};
