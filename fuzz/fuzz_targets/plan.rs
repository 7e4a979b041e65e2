//! Plan files of arbitrary bytes.
#![no_main]

#[path = "../entry/plan.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    entry::plan(bytes);
});
