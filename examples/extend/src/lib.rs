//! A custom congestion controller and a custom scheduler for Spindle. The pages
//! `docs/howto/extend/congestion-controller.md` and `docs/howto/extend/scheduler.md` explain them.

mod controller;
mod scheduler;

use spindle::Registry;

pub use controller::Scalable;
pub use scheduler::MostRoom;

/// Spindle's names, and those of this crate.
pub fn registry() -> Registry {
    Registry::standard()
        .congestion_controller(Scalable::default())
        .scheduler(MostRoom)
}
