//! Grants: calls that an operator allows for a limited time without individual approval.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{ClientId, Digest, Ticks};
use crate::port::NamedFile;

/// Maximum number of grants in force.
pub const GRANTS_MAX: usize = 256;

/// Maximum number of words of a pattern.
pub const GRANT_WORDS_MAX: usize = 64;

/// Maximum number of bytes of a pattern.
pub const GRANT_BYTES_MAX: usize = 1_024;

/// Longest validity in milliseconds: a day. Permanent permissions belong in `[tools.shell] allow`.
pub const GRANT_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// An operator's standing approval of calls of one tool in one workspace by runs of one client.
///
/// ```
/// # use ostler_kernel::{grant::{Grant, GrantTerms, GrantedCall, pattern}, id::Digest, port::NamedFile};
/// let (id, by, tool) = ("1".into(), "ann".into(), "shell.run".to_owned());
/// let terms = GrantTerms { id, client: "acme".into(), tool, argv: pattern("sh a.sh *").unwrap(), until: 1_000, by };
/// let files = [("a.sh".to_owned(), Digest([1; 32]))].into();
/// let grant = Grant { terms, workspace: "/srv/site".to_owned(), files };
/// let params = serde_json::json!({"argv": ["sh", "a.sh", "b.txt"]});
/// let client = "acme".into();
/// let call = GrantedCall { client: &client, workspace: "/srv/site", tool: "shell.run", params: params.as_object().unwrap() };
/// let file = |path: &str, byte| NamedFile {
///     path: path.to_owned(), digest: Digest([byte; 32]), bytes: 1, text: None, unbound: None, by_word: true,
/// };
/// let covers = |script| grant.covers(&call, &[file("a.sh", script), file("b.txt", 7)], 999);
/// assert!(covers(1));
/// assert!(!covers(2));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The covered words, with client, tool, operator and end.
    pub terms: GrantTerms,
    /// Folder of the runs.
    pub workspace: String,
    /// Files that the approved call named or executed, by path below the workspace, with the digest of the content that was shown.
    pub files: BTreeMap<String, Digest>,
}

/// A call that a grant may cover.
#[derive(Debug, Clone, Copy)]
pub struct GrantedCall<'a> {
    /// Client of the run.
    pub client: &'a ClientId,
    /// Workspace of the run.
    pub workspace: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The resolved parameters.
    pub params: &'a Map<String, Value>,
}

/// The covered words, with client, tool, operator and end of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantTerms {
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
    /// True if the grant covers a call at `now`. `files` are those that the call names or executes, as they are. A file that was shown
    /// must be unchanged, also where a word behind the pattern repeats its name: `sh a.sh a.sh` runs the script too. The file may be
    /// gone only where a final `*` may have stood for its name. Another file must be there for a word that the final `*` stands for,
    /// and for no other reason, because it can take the place of a file that was shown, as `GNUmakefile` does that of `Makefile`, or
    /// be run by the way, as the hook of `git commit -m hooks/pre-commit` is.
    pub fn covers(&self, call: &GrantedCall<'_>, files: &[NamedFile], now: Ticks) -> bool {
        let GrantTerms { client, tool, until, .. } = &self.terms;
        let is_meant = (client, tool.as_str(), self.workspace.as_str())
            == (call.client, call.tool, call.workspace)
            && now < *until
            && self.terms.fits(call.params);
        let mut present = BTreeSet::new();
        is_meant
            && files.iter().all(|NamedFile { path, digest, by_word, .. }| {
                present.insert(path.as_str());
                let free = || *by_word && self.terms.leaves_free(path, call.params);
                self.files.get(path).map_or_else(free, |shown| shown == digest)
            })
            && self.files.keys().all(|path| present.contains(path.as_str()) || !self.terms.fixes(path))
    }
}

impl GrantTerms {
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

    /// True if a path is one of the words that the final `*` stands for, and no other word holds it.
    fn leaves_free(&self, path: &str, params: &Map<String, Value>) -> bool {
        let Some((_, fixed)) = self.argv.split_last().filter(|(last, _)| *last == "*") else { return false };
        let words = params.get("argv").and_then(Value::as_array).into_iter().flatten().skip(fixed.len());
        let path_of = |word: &str| word.trim_start_matches("./") == path;
        !self.fixes(path) && words.filter_map(Value::as_str).any(path_of)
    }

    /// True if the words of the pattern fix a file that was shown: one of them holds its path, or no `*` could stand for it.
    fn fixes(&self, path: &str) -> bool {
        self.argv.last().is_none_or(|last| last != "*") || self.argv.iter().any(|word| word.contains(path))
    }

    /// Name of the approver in the journal, in place of the operator.
    pub fn answers_as(&self) -> String {
        format!("{AUTHOR}{} of {}", self.id, self.by)
    }
}

/// Beginning of the name of an approver that is a grant.
const AUTHOR: &str = "grant ";

/// True if an approver in the journal is a grant; see [`GrantTerms::answers_as`].
pub fn is_author(by: &str) -> bool {
    by.starts_with(AUTHOR)
}

impl fmt::Display for GrantTerms {
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

    #[derive(Clone)]
    struct Case {
        pattern: &'static str,
        client: &'static str,
        workspace: &'static str,
        tool: &'static str,
        params: Value,
        files: Vec<NamedFile>,
        now: Ticks,
    }

    fn covers(case: &Case) -> bool {
        let grant = Grant {
            terms: GrantTerms {
                id: "1".to_owned(),
                client: "acme".into(),
                tool: "shell.run".to_owned(),
                argv: pattern(case.pattern).expect("a pattern"),
                until: 10,
                by: "ann".to_owned(),
            },
            workspace: "/srv".to_owned(),
            files: [("a.sh".to_owned(), Digest([1; 32]))].into(),
        };
        let (client, params) = (case.client.into(), case.params.as_object().expect("an object"));
        let call = GrantedCall { client: &client, workspace: case.workspace, tool: case.tool, params };
        grant.covers(&call, &case.files, case.now)
    }

    fn file((path, byte): (&str, u8), by_word: bool) -> NamedFile {
        let digest = Digest([byte; 32]);
        NamedFile { path: path.to_owned(), digest, bytes: 1, text: None, unbound: None, by_word }
    }

    fn push() -> Case {
        let params = json!({"argv": ["git", "push", "-f"]});
        let (client, workspace, tool) = ("acme", "/srv", "shell.run");
        let files = vec![file(("a.sh", 1), true)];
        Case { pattern: "git push *", client, workspace, tool, params, files, now: 9 }
    }

    #[test]
    fn a_grant_covers_the_words_it_names_of_one_client_workspace_and_tool_for_a_while() {
        let argv = |argv: Value| json!({"argv": argv});
        assert!(covers(&push()));
        assert!(covers(&Case { params: argv(json!(["git", "push"])), ..push() }));
        assert!(covers(&Case { pattern: "git push -f", ..push() }));
        for case in [
            Case { now: 10, ..push() },
            Case { client: "other", ..push() },
            Case { workspace: "/srv/other", ..push() },
            Case { tool: "mcp.x.run", ..push() },
            Case { pattern: "git push", ..push() },
            Case { pattern: "git pull *", ..push() },
            Case { params: argv(json!(["git"])), ..push() },
            Case { params: json!({"argv": ["git", "push"], "stdin": "x"}), ..push() },
            Case { params: json!({"argv": ["git", "push"], "cwd": "evil"}), ..push() },
            Case { params: argv(json!(["git", 1])), ..push() },
            Case { params: json!({}), ..push() },
        ] {
            let Case { pattern, client, workspace, tool, params, now, .. } = &case;
            assert!(!covers(&case), "{pattern} {client} {workspace} {tool} {params} {now}");
        }
    }

    #[test]
    fn shown_files_are_unchanged_and_others_are_words_that_the_star_stands_for() {
        let runs = |pattern, words: &[&str], files: &[(&str, u8)]| {
            let files = files.iter().map(|named| file(*named, true)).collect();
            covers(&Case { pattern, params: json!({"argv": words}), files, ..push() })
        };
        assert!(runs("sh a.sh", &["sh", "a.sh"], &[("a.sh", 1)]));
        assert!(!runs("sh a.sh", &["sh", "a.sh"], &[("a.sh", 2)]));
        assert!(!runs("sh a.sh *", &["sh", "a.sh", "x"], &[("a.sh", 2)]));
        assert!(runs("sh a.sh *", &["sh", "a.sh", "./b.txt"], &[("a.sh", 1), ("b.txt", 9)]));
        assert!(
            !runs("sh a.sh *", &["sh", "a.sh", "a.sh"], &[("a.sh", 2)]),
            "an argument repeats the script"
        );
        assert!(runs("sh *", &["sh", "b.sh"], &[("b.sh", 2)]));
        assert!(!runs("sh *", &["sh", "a.sh"], &[("a.sh", 2)]));
        // Files that no word names, such as those that a program reads by convention.
        assert!(!runs("make *", &["make", "all"], &[("GNUmakefile", 9)]));
        assert!(!runs("make", &["make"], &[("GNUmakefile", 9), ("a.sh", 1)]));
        // A file that was shown, and is gone.
        assert!(!runs("sh a.sh", &["sh", "a.sh"], &[]));
        assert!(!runs("sh a.sh *", &["sh", "a.sh", "x"], &[]));
        assert!(!runs("sh -c ./a.sh *", &["sh", "-c", "./a.sh"], &[]));
        assert!(!runs("make", &["make"], &[]));
        assert!(runs("make *", &["make", "all"], &[]));
        // A file that was not there yet, and that a fixed word names too.
        assert!(!runs("sh b.sh *", &["sh", "b.sh", "b.sh"], &[("a.sh", 1), ("b.sh", 2)]));
        assert!(!runs("make --file=b.mk *", &["make", "--file=b.mk", "b.mk"], &[("b.mk", 2)]));
    }

    #[test]
    fn a_file_that_is_there_for_more_than_its_word_is_never_free() {
        for (pattern, words, path) in [
            ("git commit *", &["git", "commit", "-m", "hk/pre-commit"][..], "hk/pre-commit"),
            ("cargo test *", &["cargo", "test", ".cargo/config.toml"], ".cargo/config.toml"),
            ("npm test *", &["npm", "test", ".npmrc"], ".npmrc"),
            ("make *", &["make", "GNUmakefile"], "GNUmakefile"),
            ("pytest *", &["pytest", "--deselect", "./conftest.py"], "conftest.py"),
        ] {
            for by_word in [true, false] {
                let files = vec![file((path, 9), by_word)];
                let case = Case { pattern, params: json!({"argv": words}), files, ..push() };
                assert_eq!(covers(&case), by_word, "{words:?}");
            }
        }
    }
}
