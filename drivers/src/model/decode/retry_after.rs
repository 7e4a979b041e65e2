//! The provider's wait before the next try.

/// Longest wait that is believed, in seconds: longer ones are cut.
const RETRY_AFTER_S_MAX: f64 = 1e9;

/// Seconds until the next try, from `retry-after-ms`, or `retry-after` as a number or as an HTTP date relative to `date`
/// (RFC 9110, section 10.2.3); `None` if no header says so.
pub(super) fn seconds<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Option<f64> {
    let (mut ms, mut after, mut date) = (None, None, None);
    for (name, value) in headers {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "retry-after-ms" => ms = Some(value),
            "retry-after" => after = Some(value),
            "date" => date = Some(value),
            _ => {}
        }
    }
    if let Some(ms) = ms.and_then(decimal) {
        return Some(ms / 1_000.0);
    }
    let after = after?;
    decimal(after).or_else(|| {
        let at = httpdate::parse_http_date(after).ok()?;
        let now = httpdate::parse_http_date(date?).ok()?;
        Some(at.duration_since(now).map_or(0.0, |wait| wait.as_secs_f64()))
    })
}

/// Digits with an optional fraction, and nothing else.
fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = (are_digits(whole) && are_digits(fraction)).then(|| text.parse::<f64>().ok()).flatten()?;
    Some(seconds.min(RETRY_AFTER_S_MAX))
}
