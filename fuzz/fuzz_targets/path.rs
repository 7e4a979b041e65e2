//! Paths of arbitrary bytes.
#![no_main]

#[path = "../entry/place.rs"]
#[allow(dead_code)] // another target uses the rest
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    entry::path(bytes);
});
