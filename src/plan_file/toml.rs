//! TOML reader.

use serde_json::Number;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::data::{Data, Entry, Located, SyntaxError, SyntaxErrorKind};

/// The parser's message for a recursion deeper than any valid file.
const TOO_DEEP: &str = "cannot recurse further; max recursion depth met";

pub(super) fn read(text: &str) -> Result<Located, SyntaxError> {
    let table = DeTable::parse(text).map_err(|error| {
        let kind = match error.message().lines().next() {
            Some(TOO_DEEP) => SyntaxErrorKind::TooDeep,
            told => SyntaxErrorKind::other(told.unwrap_or("not TOML")),
        };
        SyntaxError { at: error.span().map(|span| span.start), kind }
    })?;
    Ok(Located { at: table.span().start, plain: false, data: map(table.get_ref())? })
}

fn map(table: &DeTable<'_>) -> Result<Data, SyntaxError> {
    let mut entries = table
        .iter()
        .map(|(key, value)| {
            Ok(Entry { key: key.get_ref().to_string(), key_at: key.span().start, located: located(value)? })
        })
        .collect::<Result<Vec<Entry>, SyntaxError>>()?;
    entries.sort_by_key(|entry| entry.key_at);
    Ok(Data::Map(entries))
}

fn located(value: &Spanned<DeValue<'_>>) -> Result<Located, SyntaxError> {
    let at = value.span().start;
    let refuse = |kind: SyntaxErrorKind| SyntaxError { at: Some(at), kind };
    let data = match value.get_ref() {
        DeValue::String(text) => Data::Text(text.to_string()),
        DeValue::Boolean(flag) => Data::Bool(*flag),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| refuse(SyntaxErrorKind::TooBig))?;
            Data::number(number.into()).map_err(refuse)?
        }
        DeValue::Float(number) => {
            let number = number.as_str().parse().ok().and_then(Number::from_f64);
            let number =
                number.ok_or_else(|| refuse(SyntaxErrorKind::other("a number that is not finite")))?;
            Data::number(number).map_err(refuse)?
        }
        DeValue::Datetime(_) => {
            return Err(refuse(SyntaxErrorKind::other("dates are not supported: write the date in quotes")));
        }
        DeValue::Array(items) => Data::List(items.iter().map(located).collect::<Result<_, _>>()?),
        DeValue::Table(table) => map(table)?,
    };
    Ok(Located { at, plain: false, data })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_and_places_come_from_the_text() {
        let text = "id = 'p'\n[policy]\nslots = 0x4\n[[nodes]]\nid = \"a\"\nparams.x = [1.5, true]\n";
        let located = read(text).unwrap();
        assert_eq!(
            located.value(),
            json!({"id": "p", "policy": {"slots": 4}, "nodes": [{"id": "a", "params": {"x": [1.5, true]}}]})
        );
        let id = located.get("nodes").unwrap().located.items()[0].get("id").unwrap();
        assert_eq!((&text[id.key_at..][..2], &text[id.located.at..][..3]), ("id", "\"a\""));
    }

    #[test]
    fn what_plans_do_not_have_is_refused_with_its_place() {
        for (text, at) in [
            ("a = 1\na = 2\n", 6),
            ("a = inf\n", 4),
            ("a = 2024-01-01\n", 4),
            ("a = [\n", 5),
            ("a = 9007199254740993\n", 4),
        ] {
            assert_eq!(read(text).expect_err(text).at, Some(at), "{text}");
        }
        assert!(read(&format!("a = {}", "[".repeat(100_000))).is_err());
    }
}
