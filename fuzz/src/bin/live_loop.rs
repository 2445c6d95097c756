//! The harness of `live_stack` with input from a seeded generator. See [`spindle_fuzz::seeded`].

use spindle_fuzz::{live, seeded};

fn main() {
    let runs = seeded::run(live::play);
    println!("{runs} scripts, none failed");
}
