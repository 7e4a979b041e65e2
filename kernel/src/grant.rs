//! Grants: calls that an operator allows for a limited time without individual approval.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{ClientId, Ticks};

/// Maximum number of grants in force.
pub const GRANTS_MAX: usize = 256;

/// Maximum number of words of a pattern.
pub const GRANT_WORDS_MAX: usize = 64;

/// Maximum number of bytes of a pattern.
pub const GRANT_BYTES_MAX: usize = 1_024;

/// Longest validity in milliseconds: a day. Permanent permissions belong in `[tools.shell] allow`.
pub const GRANT_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// An operator's standing approval of calls of one tool by runs of one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Name, unique among all grants.
    pub id: String,
    /// Client whose runs the grant covers.
    pub client: ClientId,
    /// Tool whose parameter `argv` the pattern matches.
    pub tool: String,
    /// Words of the argument list, in order. A final `*` matches any number of further words.
    pub argv: Vec<String>,
    /// End of the validity, in milliseconds since the Unix epoch.
    pub until: Ticks,
    /// Operator who granted the calls.
    pub by: String,
}

/// Reason why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The first word is missing or `*`: such a pattern would cover every program.
    #[error("a pattern begins with the name of a program, such as \"git push *\"")]
    NoProgram,
    /// A `*` is not the last word, or only part of a word.
    #[error("{0:?}: a `*` can only be the last word of a pattern, and stands for any further words")]
    Star(String),
    /// The pattern is too long.
    #[error("a pattern has at most {GRANT_WORDS_MAX} words and {GRANT_BYTES_MAX} bytes")]
    TooLong,
}

/// Parses a pattern such as `git push *`. Spaces separate words; quotes and expansions do not exist, and words are compared
/// literally.
///
/// # Errors
///
/// See [`PatternError`].
pub fn pattern(text: &str) -> Result<Vec<String>, PatternError> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if words.len() > GRANT_WORDS_MAX || text.len() > GRANT_BYTES_MAX {
        return Err(PatternError::TooLong);
    }
    let Some((last, fixed)) = words.split_last() else { return Err(PatternError::NoProgram) };
    if words[0].contains('*') {
        return Err(PatternError::NoProgram);
    }
    let partial = Some(last).filter(|last| last.as_str() != "*");
    match fixed.iter().chain(partial).find(|word| word.contains('*')) {
        Some(word) => Err(PatternError::Star(word.clone())),
        None => Ok(words),
    }
}

impl Grant {
    /// True if the grant covers a call of a tool with these parameters, by a run of a client, at `now`.
    ///
    /// ```
    /// # use ostler_kernel::grant::{Grant, pattern};
    /// let argv = pattern("git push *").unwrap();
    /// let (id, by, tool) = ("1".into(), "ann".into(), "shell.run".to_owned());
    /// let grant = Grant { id, client: "acme".into(), tool, argv, until: 1_000, by };
    /// let params = |argv| serde_json::json!({"argv": argv}).as_object().unwrap().clone();
    /// let push = params(["git", "push", "origin"]);
    /// assert!(grant.covers(&"acme".into(), "shell.run", &push, 999));
    /// assert!(!grant.covers(&"acme".into(), "shell.run", &push, 1_000));
    /// assert!(!grant.covers(&"acme".into(), "shell.run", &params(["git", "-C", "push"]), 0));
    /// ```
    pub fn covers(&self, client: &ClientId, tool: &str, params: &Map<String, Value>, now: Ticks) -> bool {
        now < self.until && *client == self.client && tool == self.tool && self.fits(params)
    }

    /// True if the pattern matches the argument list of a call. A grant covers the words only: a call with non-empty
    /// standard input or in another folder than the workspace never matches.
    pub fn fits(&self, params: &Map<String, Value>) -> bool {
        let Some(argv) = params.get("argv").and_then(Value::as_array) else { return false };
        if params.get("stdin").is_some_and(|stdin| stdin.as_str() != Some("")) {
            return false;
        }
        if params.get("cwd").is_some_and(|cwd| !matches!(cwd.as_str(), Some("." | "./"))) {
            return false;
        }
        let same = |wanted: &[String]| {
            wanted.iter().zip(argv).all(|(wanted, word)| Some(wanted.as_str()) == word.as_str())
        };
        match self.argv.split_last() {
            Some((star, fixed)) if star == "*" => argv.len() >= fixed.len() && same(fixed),
            _ => argv.len() == self.argv.len() && same(&self.argv),
        }
    }

    /// Name of the approver in the journal, in place of the operator.
    pub fn answers_as(&self) -> String {
        format!("{AUTHOR}{} of {}", self.id, self.by)
    }
}

/// Beginning of the name of an approver that is a grant.
const AUTHOR: &str = "grant ";

/// True if an approver in the journal is a grant; see [`Grant::answers_as`].
pub fn is_author(by: &str) -> bool {
    by.starts_with(AUTHOR)
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.argv.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pattern_is_words_of_which_the_last_may_be_a_star() {
        for (text, words) in [
            ("git push *", Some(3)),
            ("make", Some(1)),
            ("sh -c a|b", Some(3)),
            ("", None),
            ("*", None),
            ("* push", None),
            ("git * push", None),
            ("git pu*", None),
            ("g*", None),
        ] {
            assert_eq!(pattern(text).ok().map(|words| words.len()), words, "{text:?}");
        }
        assert_eq!(pattern(&"x ".repeat(GRANT_WORDS_MAX + 1)), Err(PatternError::TooLong));
        assert_eq!(pattern(&"x".repeat(GRANT_BYTES_MAX + 1)), Err(PatternError::TooLong));
        assert!(pattern(&"x ".repeat(GRANT_WORDS_MAX)).is_ok());
    }

    #[test]
    fn a_grant_covers_the_words_it_names_of_one_client_and_tool_for_a_while() {
        let grant = |text: &str| Grant {
            id: "1".to_owned(),
            client: "acme".into(),
            tool: "shell.run".to_owned(),
            argv: pattern(text).expect("a pattern"),
            until: 10,
            by: "ann".to_owned(),
        };
        let covers = |text: &str, client: &str, tool: &str, params: Value, now| {
            grant(text).covers(&client.into(), tool, params.as_object().expect("an object"), now)
        };
        let push = json!({"argv": ["git", "push", "-f"]});
        assert!(covers("git push *", "acme", "shell.run", push.clone(), 9));
        assert!(covers("git push *", "acme", "shell.run", json!({"argv": ["git", "push"]}), 9));
        assert!(covers("git push -f", "acme", "shell.run", push.clone(), 9));
        for (text, client, tool, params, now) in [
            ("git push *", "acme", "shell.run", push.clone(), 10),
            ("git push *", "other", "shell.run", push.clone(), 9),
            ("git push *", "acme", "mcp.x.run", push.clone(), 9),
            ("git push", "acme", "shell.run", push.clone(), 9),
            ("git pull *", "acme", "shell.run", push, 9),
            ("git push *", "acme", "shell.run", json!({"argv": ["git"]}), 9),
            ("git push *", "acme", "shell.run", json!({"argv": ["git", "push"], "stdin": "x"}), 9),
            ("git push *", "acme", "shell.run", json!({"argv": ["git", "push"], "cwd": "evil"}), 9),
            ("git push *", "acme", "shell.run", json!({"argv": ["git", 1]}), 9),
            ("git push *", "acme", "shell.run", json!({}), 9),
        ] {
            assert!(
                !covers(text, client, tool, params.clone(), now),
                "{text} {client} {tool} {params} {now}"
            );
        }
    }
}
