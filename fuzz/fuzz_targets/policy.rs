//! Configurations of arbitrary bytes.
#![no_main]

#[path = "../entry/policy.rs"]
#[allow(dead_code)] // another target uses the rest
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    entry::policy(bytes);
});
