//! Parses any bytes as the option part of a TCP header. The first byte sets the flags.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spindle_wire::{Flags, Options};

fuzz_target!(|data: &[u8]| {
    let Some((&flags, bytes)) = data.split_first() else {
        return;
    };
    let flags = Flags(u16::from(flags));
    let Ok(mut options) = Options::parse(bytes, flags) else {
        return;
    };
    let _ = options.fit();
    let mut out = Vec::new();
    // `fit` removes an experimental option of more than 40 bytes, so all other options can be written.
    options
        .encode(&mut out)
        .expect("options that fit can be written");
    assert_eq!(out.len(), options.encoded_len());
    let again = Options::parse(&out, flags);
    let foreign = options
        .rare
        .as_ref()
        .and_then(|r| r.mp_capable)
        .is_some_and(|c| c.version != 1);
    if !foreign {
        assert_eq!(again, Ok(options));
    }
});
