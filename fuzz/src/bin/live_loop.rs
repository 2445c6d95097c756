//! The harness of `live_stack` fed by a seeded generator; see [`spindle_fuzz::seeded`].

use spindle_fuzz::{live, seeded};

fn main() {
    let runs = seeded::run(live::play);
    println!("{runs} scripts, none failed");
}
