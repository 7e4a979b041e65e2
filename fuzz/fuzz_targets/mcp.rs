//! Frames of an MCP server, of arbitrary bytes.
#![no_main]

#[path = "../entry/mcp.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    entry::mcp(bytes);
});
