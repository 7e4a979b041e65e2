//! Journal segments of arbitrary bytes.
#![no_main]

use ostler_kernel::id::ClientId;
use ostler_kernel::port::StreamId;
use ostler_store::Options;

#[path = "../entry/journal.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let client = StreamId::client(&ClientId::from("acme"));
    entry::journal(bytes, Options::default(), &[client]);
});
