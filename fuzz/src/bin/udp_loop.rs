//! The harness of `udp_server` with input from a seeded generator. See [`spindle_fuzz::seeded`].

use spindle_fuzz::{seeded, udp};

fn main() {
    let runs = seeded::run(udp::play);
    println!("{runs} scripts, none failed");
}
