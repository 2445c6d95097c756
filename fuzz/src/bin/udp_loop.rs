//! The harness of `udp_server` fed by a seeded generator; see [`spindle_fuzz::seeded`].

use spindle_fuzz::{seeded, udp};

fn main() {
    let runs = seeded::run(udp::play);
    println!("{runs} scripts, none failed");
}
