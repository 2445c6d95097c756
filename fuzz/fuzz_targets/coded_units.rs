//! Two stacks that code in units and a network that may lie. See [`spindle_fuzz::units`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: spindle_fuzz::units::Script| {
    spindle_fuzz::units::play(&script);
});
