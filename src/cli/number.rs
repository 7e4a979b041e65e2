//! Numbers as the command line takes them.

use std::num::NonZeroU64;

/// A whole number, 1 or more.
pub(crate) fn from_one(text: &str) -> Result<NonZeroU64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().map_err(|_| match is_number && text.contains(|digit| digit != '0') {
        true => format!("give at most {}", u64::MAX),
        false => "give a whole number, 1 or more".to_owned(),
    })
}
