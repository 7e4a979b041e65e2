//! Durations, times, sizes, counts and scores as text.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ostler_kernel::ledger::usd_text;
use ostler_kernel::plan::HumanDuration;

pub(crate) fn duration(ms: i64) -> String {
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{:02} s", ms / 1_000, ms % 1_000 / 10),
        60_000..3_600_000 => format!("{} m {:02} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {:02} m", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// Formats a duration exactly, in the largest unit without remainder.
pub(crate) fn duration_exact(span: HumanDuration) -> String {
    let ms = span.ticks(1_000);
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    match units.into_iter().find(|(_, unit)| ms != 0 && ms % unit == 0) {
        Some((name, unit)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

/// Formats a measured duration; below one millisecond as `<1 ms`.
pub(crate) fn elapsed(ms: i64) -> String {
    if ms < 1 { "<1 ms".to_owned() } else { duration(ms) }
}

pub(crate) fn ago(ms: i64) -> String {
    match ms / 1_000 {
        ..60 => format!("{} s ago", ms / 1_000),
        60..3_600 => format!("{} m ago", ms / 60_000),
        3_600..86_400 => format!("{} h ago", ms / 3_600_000),
        _ => format!("{} d ago", ms / 86_400_000),
    }
}

/// A price in US dollars, with at least two digits that count.
pub(crate) fn dollars(nano_usd: u64) -> String {
    let usd = nano_usd as f64 / 1e9;
    match nano_usd {
        0 => "$0".to_owned(),
        1..10_000_000 => format!("${usd:.6}"),
        10_000_000..1_000_000_000 => format!("${usd:.4}"),
        _ => format!("${usd:.2}"),
    }
}

/// An exact amount of US dollars that may be negative.
pub(crate) fn signed_usd(nano_usd: i64) -> String {
    let sign = if nano_usd < 0 { "-" } else { "" };
    format!("{sign}{}", usd_text(nano_usd.unsigned_abs()))
}

pub(crate) fn plural(many: usize, noun: &str) -> String {
    if many == 1 { format!("1 {noun}") } else { format!("{many} {noun}s") }
}

pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        ..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

pub(crate) fn clock_time(at_ms: i64) -> String {
    moment(at_ms, "%H:%M:%S")
}

pub(crate) fn date(at_ms: i64) -> String {
    moment(at_ms, "%Y-%m-%d %H:%M:%S")
}

fn moment(at_ms: i64, format: &str) -> String {
    match Timestamp::from_millisecond(at_ms) {
        Ok(at) => at.to_zoned(TimeZone::system()).strftime(format).to_string(),
        Err(_) => format!("{at_ms} ms"),
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    let ms = |since: Result<u128, u128>| match since {
        Ok(after) => i64::try_from(after).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before).map_or(i64::MIN, |before| -before),
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    ms(since.map(|after| after.as_millis()).map_err(|before| before.duration().as_millis()))
}

/// Refuses a clock beyond the year 9999, for which dates of HTTP answers have no form. `None`: the clock is accepted.
pub(crate) fn refused_time(now_ms: i64) -> Option<String> {
    let last = Timestamp::MAX.as_millisecond();
    (now_ms > last).then(|| {
        format!("the system clock is {now_ms} ms after 1970, beyond the year 9999; set the clock, and repeat the command")
    })
}

/// Formats thousandths as a score from 0 to 1.
pub(crate) fn score_text(pm: u16) -> String {
    format!("{:.3}", f64::from(pm) / 1_000.0)
}

/// Formats millionths as a score from 0 to 1.
pub(crate) fn score_text_fine(micro: u32) -> String {
    format!("{:.4}", f64::from(micro) / 1_000_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_any_year_are_shown_or_refused() {
        let times = [i64::MIN, i64::MIN + 1, -1, 0, 253_402_207_200_000, 253_402_300_800_000, i64::MAX];
        for at_ms in times {
            for text in [clock_time(at_ms), date(at_ms), duration(at_ms), elapsed(at_ms), ago(at_ms)] {
                assert!(!text.is_empty(), "{at_ms}");
            }
        }
        assert_eq!(date(i64::MAX), "9223372036854775807 ms");
        assert_eq!(refused_time(now_ms()), None);
        let refused = [253_402_300_800_000, i64::MAX].map(|ms| refused_time(ms).is_some());
        assert_eq!((refused, refused_time(i64::MIN)), ([true; 2], None));
        assert_eq!(bytes(u64::MAX), "18446744073709.5 MB");
    }

    #[test]
    fn spans_and_sizes_read_well() {
        let spans = [0, 999, 1_000, 1_240, 59_999, 60_000, 125_000, 3_600_000];
        assert_eq!(
            spans.map(duration),
            ["0 ms", "999 ms", "1.00 s", "1.24 s", "59.99 s", "1 m 00 s", "2 m 05 s", "1 h 00 m"]
        );
        let written = [0, 1, 1_500, 30_000, 90_000, 5_400_000, 43_200_000, 2_592_000_000];
        let written = written.map(|ms| duration_exact(HumanDuration::Millis(ms)));
        assert_eq!(written, ["0ms", "1ms", "1500ms", "30s", "90s", "90m", "12h", "30d"]);
        assert_eq!([0, 1, 1_240].map(elapsed), ["<1 ms", "1 ms", "1.24 s"]);
        let agos = [0, 59_999, 60_000, 3_600_000, 86_399_999, 86_400_000].map(ago);
        assert_eq!(agos, ["0 s ago", "59 s ago", "1 m ago", "1 h ago", "23 h ago", "1 d ago"]);
        assert_eq!([0, 1, 2].map(|many| plural(many, "node")), ["0 nodes", "1 node", "2 nodes"]);
        assert_eq!([999, 4_200, 7_654_321].map(bytes), ["999 B", "4.2 kB", "7.6 MB"]);
    }
}
