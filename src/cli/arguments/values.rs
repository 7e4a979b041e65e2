//! Parsers for numbers, durations and names on the command line.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;

use ostler_kernel::plan::{DURATION_RULE, HumanDuration};
use ostler_server::RUN_PART_CHARS_MIN;

/// Parses an integer ≥ 1.
pub(crate) fn positive_integer(text: &str) -> Result<NonZeroU64, String> {
    let number = integer_in(text, 1..=u64::MAX)?;
    Ok(NonZeroU64::new(number).expect("it is 1 or more"))
}

/// Parses an integer ≥ 0.
pub(crate) fn unsigned_integer(text: &str) -> Result<u64, String> {
    integer_in(text, 0..=u64::MAX)
}

pub(crate) fn integer_in(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let (least, most) = (*range.start(), *range.end());
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ if most < u64::MAX => Err(format!("give a whole number from {least} to {most}")),
        Err(_) if is_number => Err(format!("give at most {most}")),
        _ => Err(format!("give a whole number, {least} or more")),
    }
}

pub(crate) fn duration(text: &str) -> Result<HumanDuration, String> {
    HumanDuration::with_unit(text).ok_or_else(|| format!("give {DURATION_RULE}"))
}

/// Parses a duration above 0, in milliseconds.
pub(crate) fn positive_time(text: &str) -> Result<NonZeroU64, String> {
    let ms = u64::try_from(duration(text)?.ticks(1_000)).ok().and_then(NonZeroU64::new);
    ms.ok_or_else(|| "must be above 0; give a time such as 10m".to_owned())
}

/// Accepts any text that can name a run. The API resolves the name.
pub(crate) fn run_name(text: &str) -> Result<String, String> {
    let refused = || {
        format!(
            "not the name of a run; give its id, at least {RUN_PART_CHARS_MIN} characters of it, or @last"
        )
    };
    (!text.is_empty()).then(|| text.to_owned()).ok_or_else(refused)
}

pub(crate) fn node_name(text: &str) -> Result<String, String> {
    let refused = || "not the name of a node; give an id, as `ostler show RUN` lists it".to_owned();
    (!text.is_empty()).then(|| text.to_owned()).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_of_the_range_is_told_the_range() {
        let all = 0..=u64::MAX;
        for (text, range, expected) in [
            ("0", all.clone(), Ok(0)),
            ("18446744073709551615", all.clone(), Ok(u64::MAX)),
            ("18446744073709551616", all.clone(), Err("give at most 18446744073709551615")),
            ("-1", all.clone(), Err("give a whole number, 0 or more")),
            ("1e3", all.clone(), Err("give a whole number, 0 or more")),
            ("", all, Err("give a whole number, 0 or more")),
            ("0", 1..=u64::MAX, Err("give a whole number, 1 or more")),
            ("0", 1..=9, Err("give a whole number from 1 to 9")),
            ("10", 1..=9, Err("give a whole number from 1 to 9")),
            ("9", 1..=9, Ok(9)),
        ] {
            assert_eq!(
                integer_in(text, range.clone()),
                expected.map_err(str::to_owned),
                "{text:?} {range:?}"
            );
        }
    }

    #[test]
    fn what_is_no_span_is_told_the_units() {
        assert_eq!(duration("30d"), Ok(HumanDuration::Millis(30 * 86_400_000)));
        for wrong in ["abc", "7w", "", "30"] {
            let error = duration(wrong).unwrap_err();
            assert_eq!(error, "give a number with a unit, such as 500ms, 30s, 10m, 12h or 30d", "{wrong}");
        }
    }
}
