//! A decoder of parities and a peer that may lie. See [`spindle_fuzz::parities`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: spindle_fuzz::parities::Script| {
    spindle_fuzz::parities::play(&script);
});
