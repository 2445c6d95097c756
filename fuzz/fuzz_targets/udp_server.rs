//! A server over UDP and hosts that send it arbitrary datagrams. See [`spindle_fuzz::udp`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: spindle_fuzz::udp::Script| {
    spindle_fuzz::udp::play(&script);
});
