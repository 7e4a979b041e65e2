//! Kernel, processors, load and memory.

use ostler_kernel::event::Failure;
use serde_json::{Value, json};

use super::{Proc, bytes};

pub(super) fn kernel(proc: &Proc<'_>) -> Result<Value, Failure> {
    let stat = proc.read("stat")?.0;
    let is_processor = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    let load = proc.line("loadavg")?;
    let load: Vec<f64> = load.split(' ').take(3).filter_map(|number| number.parse().ok()).collect();
    let uptime = proc.line("uptime")?;
    let uptime_s: u64 = uptime.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    Ok(json!({
        "system": proc.line("sys/kernel/ostype")?,
        "release": proc.line("sys/kernel/osrelease")?,
        "version": proc.line("sys/kernel/version")?,
        "architecture": std::env::consts::ARCH,
        "host": proc.line("sys/kernel/hostname")?,
        "processors": stat.lines().filter(is_processor).count(),
        "uptime_s": uptime_s,
        "load": load,
    }))
}

pub(super) fn memory(proc: &Proc<'_>) -> Result<Value, Failure> {
    let text = proc.read("meminfo")?.0;
    let of = |key: &str| bytes(kibibytes(&text, key));
    Ok(json!({
        "total_bytes": of("MemTotal"),
        "available_bytes": of("MemAvailable"),
        "free_bytes": of("MemFree"),
        "swap_total_bytes": of("SwapTotal"),
        "swap_free_bytes": of("SwapFree"),
    }))
}

/// Bytes of a line such as `MemTotal:  16384 kB`; 0 without the line.
pub(super) fn kibibytes(text: &str, key: &str) -> u64 {
    let value = value(text, key).and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    value.unwrap_or(0).saturating_mul(1_024)
}

/// The text behind `key:`.
pub(super) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let behind = |line: &'a str| line.strip_prefix(key)?.strip_prefix(':');
    text.lines().find_map(behind).map(str::trim)
}
