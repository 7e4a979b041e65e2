//! Why a cassette has no answer: the differences to the nearest recorded request.

use serde_json::Value;

use super::cassette::{Exchange, Request};

/// Maximum differences that are shown.
const SHOWN_MAX: usize = 3;
/// Maximum differences that are counted in a request.
const COUNTED_MAX: usize = 200;
/// Maximum characters of a value that is shown.
const CHARS_MAX: usize = 120;

/// One sentence for people.
pub(super) fn explain(exchanges: &[Exchange], request: &Request) -> String {
    let nearest = exchanges
        .iter()
        .enumerate()
        .map(|(at, exchange)| (differences(&exchange.request, request), at))
        .min_by_key(|(found, at)| (found.len(), *at));
    let Some((found, at)) = nearest else {
        return "no exchange is recorded: the file is empty; record anew with `ostler ask GOAL --cassette FILE`, or mode = \"record\"".to_owned();
    };
    let shown: Vec<&str> = found.iter().take(SHOWN_MAX).map(String::as_str).collect();
    let more = found.len().saturating_sub(SHOWN_MAX);
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    format!(
        "no recorded request equals this one; the nearest, exchange {}, differs in {}{more}; repeat the recorded goal with its options over the same files, or record this one: --cassette with a new file, or mode = \"record\"",
        at + 1,
        shown.join(", ")
    )
}

fn differences(recorded: &Request, now: &Request) -> Vec<String> {
    let mut found = Vec::new();
    if recorded.path != now.path {
        found.push(format!("path: recorded {:?}, now {:?}", recorded.path, now.path));
    }
    compare("body", &recorded.body, &now.body, &mut found);
    found
}

fn compare(place: &str, recorded: &Value, now: &Value, found: &mut Vec<String>) {
    if found.len() >= COUNTED_MAX || recorded == now {
        return;
    }
    match (recorded, now) {
        (Value::Object(before), Value::Object(after)) => {
            let added = after.iter().filter(|(name, _)| !before.contains_key(*name));
            for (name, value) in before {
                let place = format!("{place}.{name}");
                match after.get(name) {
                    Some(now) => compare(&place, value, now, found),
                    None => found.push(format!("{place}: recorded {}, now absent", excerpt(value))),
                }
            }
            found.extend(
                added.map(|(name, value)| format!("{place}.{name}: not recorded, now {}", excerpt(value))),
            );
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (at, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{place}[{at}]"), before, after, found);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            found.push(format!("{place}: {} items recorded, now {}", before.len(), after.len()));
        }
        (Value::String(before), Value::String(after)) => {
            let same =
                before.chars().zip(after.chars()).take_while(|(before, after)| before == after).count();
            let part =
                |text: &str| excerpt(&Value::String(text.chars().skip(same.saturating_sub(20)).collect()));
            found.push(format!(
                "{place} from character {}: recorded {}, now {}",
                same + 1,
                part(before),
                part(after)
            ));
        }
        _ => found.push(format!("{place}: recorded {}, now {}", excerpt(recorded), excerpt(now))),
    }
}

fn excerpt(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= CHARS_MAX {
        return text;
    }
    text.chars().take(CHARS_MAX).chain(['…']).collect()
}
