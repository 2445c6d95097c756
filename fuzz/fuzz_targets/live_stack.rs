//! Two live stacks with an adversary between them. See [`spindle_fuzz::live`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: spindle_fuzz::live::Script| {
    spindle_fuzz::live::play(&script);
});
