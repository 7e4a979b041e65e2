//! The rate limits that providers tell in headers of their responses.
//!
//! OpenAI and the servers like it send `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests`, and the same of `tokens`, with a
//! duration such as `1s`, `6m0s` or `20ms`, or seconds. Anthropic sends `anthropic-ratelimit-requests-remaining` and
//! `anthropic-ratelimit-requests-reset`, and the same of `tokens`, `input-tokens` and `output-tokens`, with a time (RFC 3339).

use std::time::{Duration, SystemTime};

/// Longest wait that is believed, in seconds: a day. Limits by headers are those of a minute or a day.
const NEXT_CALL_S_MAX: f64 = 86_400.0;

const OPENAI: &str = "x-ratelimit-";
const ANTHROPIC: &str = "anthropic-ratelimit-";

/// Seconds until the provider admits another call, if a limit has nothing left: the longest of these limits. `None` if something is
/// left of every limit, or none is told. A time is relative to the header `date`.
pub(super) fn next_call_s<'a>(headers: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Option<f64> {
    let lower = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim()));
    let find = |wanted: &str| lower.clone().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let now = || httpdate::parse_http_date(find("date")?).ok();
    let mut longest: Option<f64> = None;
    for (name, value) in lower.clone() {
        let Some(reset) = reset_of(&name).filter(|_| is_nothing(value)) else { continue };
        let Some(reset) = find(&reset) else { continue };
        let Some(wait) = duration_s(reset).or_else(|| seconds_until(reset, now()?)) else { continue };
        longest = Some(longest.unwrap_or(0.0).max(wait.min(NEXT_CALL_S_MAX)));
    }
    longest
}

/// The header that tells when a limit starts anew, of the header that tells what is left of it.
fn reset_of(remaining: &str) -> Option<String> {
    if let Some(limit) = remaining.strip_prefix(OPENAI).and_then(|rest| rest.strip_prefix("remaining-")) {
        return Some(format!("{OPENAI}reset-{limit}"));
    }
    let limit = remaining.strip_prefix(ANTHROPIC)?.strip_suffix("-remaining")?;
    Some(format!("{ANTHROPIC}{limit}-reset"))
}

fn is_nothing(value: &str) -> bool {
    value.parse::<f64>().is_ok_and(|left| left <= 0.0)
}

/// Seconds of a duration such as `1h2m3.5s`, `20ms` or `7`.
fn duration_s(text: &str) -> Option<f64> {
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let amount: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        sum += amount
            * match &rest[..unit] {
                "" | "s" => 1.0,
                "ms" => 0.001,
                "m" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = &rest[unit..];
    }
    (!text.is_empty()).then_some(sum)
}

/// Seconds from `now` to a time of RFC 3339, at least 0.
fn seconds_until(text: &str, now: SystemTime) -> Option<f64> {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(rfc3339_s(text)?);
    Some(at.duration_since(now).map_or(0.0, |wait| wait.as_secs_f64()))
}

/// Seconds since 1970 of a time such as `2026-01-27T12:00:30Z`; a fraction is rounded up.
fn rfc3339_s(text: &str) -> Option<u64> {
    let digits = |from: usize, to: usize| -> Option<u64> {
        text.get(from..to).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks
        .iter()
        .any(|(at, mark)| text.as_bytes().get(*at).is_none_or(|byte| !byte.eq_ignore_ascii_case(mark)))
    {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    let zone = text.get(19..)?;
    let (fraction, zone) = match zone.strip_prefix('.') {
        Some(rest) => (1, rest.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => (0, zone),
    };
    let east_s = match zone.as_bytes() {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let from = text.len() - 5;
            let offset = digits(from, from + 2)? * 3_600 + digits(from + 3, from + 5)? * 60;
            if *sign == b'+' { offset.cast_signed() } else { -offset.cast_signed() }
        }
        _ => return None,
    };
    if !(1_970..=9_999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days of the civil calendar, counted from March (Howard Hinnant, days_from_civil).
    let (shifted, from_march) = (if month > 2 { year } else { year - 1 }, (month + 9) % 12);
    let days =
        365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * from_march + 2) / 5 + day - 1;
    let seconds = days.checked_sub(719_468)? * 86_400 + hour * 3_600 + minute * 60 + second + fraction;
    seconds.checked_add_signed(-east_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&str, &str)], expected: Option<f64>) {
        assert_eq!(next_call_s(headers.iter().copied()), expected, "{headers:?}");
    }

    #[test]
    fn a_limit_with_nothing_left_tells_the_wait() {
        let left = ("x-ratelimit-remaining-requests", "12");
        let none = ("X-RateLimit-Remaining-Requests", "0");
        check(&[left, ("x-ratelimit-reset-requests", "1s")], None);
        check(&[none], None);
        check(&[none, ("x-ratelimit-reset-requests", "6m0s")], Some(360.0));
        check(&[none, ("x-ratelimit-reset-requests", "20ms")], Some(0.02));
        check(&[none, ("x-ratelimit-reset-requests", "1h2m3.5s")], Some(3_723.5));
        check(&[none, ("x-ratelimit-reset-requests", "7.66")], Some(7.66));
        check(&[none, ("x-ratelimit-reset-requests", "99999999")], Some(NEXT_CALL_S_MAX));
        for nonsense in ["", "soon", "1x", "s", "..s", "-5"] {
            check(&[none, ("x-ratelimit-reset-requests", nonsense)], None);
        }
    }

    #[test]
    fn the_longest_of_several_limits_counts() {
        check(
            &[
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-reset-tokens", "4s"),
            ],
            Some(4.0),
        );
    }

    #[test]
    fn times_are_relative_to_the_date_of_the_response() {
        let none = ("anthropic-ratelimit-input-tokens-remaining", "0");
        let date = ("date", "Tue, 27 Jan 2026 12:00:00 GMT");
        let at = |time| ("anthropic-ratelimit-input-tokens-reset", time);
        check(&[none, date, at("2026-01-27T12:00:30Z")], Some(30.0));
        check(&[none, date, at("2026-01-27T12:00:30.2Z")], Some(31.0));
        check(&[none, date, at("2026-01-27T14:00:30+02:00")], Some(30.0));
        check(&[none, date, at("2026-01-27T11:00:00Z")], Some(0.0));
        check(&[none, at("2026-01-27T12:00:30Z")], None);
        check(&[none, date, at("2026-02-30")], None);
        check(&[("anthropic-ratelimit-requests-remaining", "3"), date, at("2026-01-27T12:00:30Z")], None);
        assert_eq!(rfc3339_s("2024-02-29T00:00:00Z"), Some(1_709_164_800));
        assert_eq!(rfc3339_s("1970-01-01T00:00:00+01:00"), None);
    }
}
