//! The text of a configuration as findings may show it: without what could be a key of a provider.

/// Parts of names whose values could be a key.
const SECRET: [&str; 8] = ["key", "token", "secret", "password", "auth", "header", "url", "cookie"];

/// The same text, with `*` for each character of a value that could be a key. All places stay the same.
///
/// A configuration names only environment variables, but some write the key itself, and a finding shows the line.
pub(super) fn masked(text: &str) -> String {
    let mut hides = false;
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let value = match line.find('=') {
            Some(at) => {
                let name = line[..at].to_lowercase();
                hides = SECRET.iter().any(|part| name.contains(part));
                at + 1
            }
            // A value may go on for lines; a table ends it.
            None => {
                hides &= !start.starts_with('[') || start.trim_end().ends_with(',');
                0
            }
        };
        let (name, value) = line.split_at(value);
        shown.push_str(name);
        let has_letters = value.chars().any(char::is_alphabetic);
        if hides && has_letters && !start.starts_with('#') {
            shown.extend(value.chars().map(hidden));
        } else {
            shown.push_str(value);
        }
    }
    shown
}

/// Bytes stay as many: places count them.
fn hidden(character: char) -> String {
    match character {
        ' ' | '\t' | '\n' | '\r' | '"' | '\'' | '{' | '}' | '[' | ']' | ',' | '=' => character.to_string(),
        other => "*".repeat(other.len_utf8()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(masked(text), expected);
        assert_eq!(masked(text).len(), text.len());
    }

    #[test]
    fn what_could_be_a_key_is_hidden_and_nothing_else() {
        check("api_key_env = \"sk-1\"\nprovider = \"opnai\"", "api_key_env = \"****\"\nprovider = \"opnai\"");
        check("key = sk-1", "key = ****");
        check("headers = {authorization = \"Bearer ä\"}", "headers = {************* = \"****** **\"}");
        check("base_url = 'https://u:K@h/v1'", "base_url = '****************'");
        check(
            "secret = \"\"\"\nsk-1\n\"\"\"\n[models.a]\nfile = \"x\"",
            "secret = \"\"\"\n****\n\"\"\"\n[models.a]\nfile = \"x\"",
        );
        check("keys = [\n  \"sk-1\",\n]\nname = \"n\"", "keys = [\n  \"****\",\n]\nname = \"n\"");
        check("max_output_tokens = 512\n# key: none", "max_output_tokens = 512\n# key: none");
    }
}
