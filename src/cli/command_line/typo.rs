//! Suggestions for a mistyped command, and for a word of another tool.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use ostler_kernel::plan::nearest;

use crate::cli::command_line::root_command;

/// Limit on pairs of letters compared to find the intended command.
const LETTERS_COMPARED_MAX: usize = 100_000;

/// Words of other tools, with the command that does the same here. The first text is the command before the word; empty: the
/// word follows `ostler` itself.
const MEANINGS: [(&str, &[&str], &str); 24] = [
    ("", &["list", "ls", "status", "jobs", "runs"], "`ostler ps` lists runs, `ostler show RUN` shows one"),
    (
        "",
        &["log", "output", "tail"],
        "`ostler logs RUN [NODE]` prints what programs printed, `ostler events RUN` the records",
    ),
    (
        "",
        &["validate", "lint", "verify", "plan", "dry-run", "test"],
        "`ostler check PLAN` judges a plan without running it",
    ),
    ("", &["start", "exec", "execute", "submit", "apply", "up"], "`ostler run PLAN` runs a plan"),
    (
        "",
        &["stop", "kill", "abort", "rm", "down"],
        "`ostler cancel RUN` ends a run, `ostler checkpoint RUN` suspends it",
    ),
    ("", &["pause", "suspend"], "`ostler checkpoint RUN` suspends a run until `ostler resume RUN`"),
    ("", &["continue", "restart", "retry", "recover"], "`ostler resume RUN` continues a run"),
    (
        "",
        &["delete", "clean", "prune", "purge"],
        "`ostler gc` lists runs past their retention, `ostler gc --apply` removes them",
    ),
    (
        "",
        &["inspect", "describe", "get", "info"],
        "`ostler show RUN` shows a run, `ostler artifact RUN/NODE` a result",
    ),
    (
        "",
        &["serve", "server", "daemon", "worker"],
        "none is needed: `ostler run PLAN` executes the plan itself",
    ),
    ("", &["init", "new"], "none is needed: `ostler run PLAN` makes its data folder"),
    (
        "",
        &["repair", "fsck", "diagnose"],
        "`ostler doctor` checks the data folder, `ostler doctor --repair` mends it",
    ),
    (
        "client",
        &["ls", "list", "ps", "show"],
        "`ostler ps --clients` lists clients, `ostler credit CLIENT` shows one",
    ),
    (
        "client",
        &["delete", "rm", "drop", "reset"],
        "`ostler client remove CLIENT` removes a client's weight, tier and credits",
    ),
    (
        "pipeline",
        &["delete", "rm", "drop", "destroy"],
        "`ostler pipeline remove PIPELINE` removes a pipeline that is not in use",
    ),
    (
        "run",
        &["--dry-run", "--check", "--plan-only", "-n"],
        "`ostler check PLAN` judges a plan without running it",
    ),
    (
        "ask",
        &["--dry-run", "--check", "-n"],
        "`ostler ask GOAL --plan-only` prints the plan and runs nothing of it",
    ),
    ("check", &["--dry-run", "-n"], "none is needed: `ostler check PLAN` runs nothing"),
    ("gc", &["--dry-run", "-n"], "none is needed: without `--apply`, `ostler gc` removes nothing"),
    ("resume", &["--dry-run", "-n"], "`ostler show RUN` shows what is left to do"),
    (
        "undo",
        &["--dry-run", "-n"],
        "`ostler show RUN` shows the plan with its undos, `ostler check PLAN` their impact",
    ),
    ("approve", &["--yes", "-y"], "`ostler approve` is the yes, `ostler reject` the no"),
    ("reject", &["--no", "-n", "--yes", "-y"], "`ostler reject` is the no, `ostler approve` the yes"),
    (
        "run",
        &["--detach", "-d", "--background"],
        "a shell runs it in the background: `ostler run PLAN &`; a second terminal follows it",
    ),
];

/// Adds the likely intended command to the error. Clap counts two swapped letters as two errors, too many in a short word, and
/// knows no meanings.
pub(crate) fn with_suggestion(error: clap::Error) -> clap::Error {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    suggest(error, &words)
}

fn suggest(mut error: clap::Error, words: &[String]) -> clap::Error {
    let unknown = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg].into_iter().find_map(|kind| {
        let Some(ContextValue::String(name)) = error.get(kind) else { return None };
        Some((kind, name.clone()))
    });
    let Some((kind, name)) = unknown else { return error };
    let root = root_command();
    // Only siblings of the mistyped command are candidates.
    let at = words.iter().position(|word| *word == name).unwrap_or(words.len());
    let mut before = words[..at].iter().skip(1).filter_map(|word| root.find_subcommand(word));
    let among = before.find(|before| kind == ContextKind::InvalidArg || before.has_subcommands());
    let place = among.map_or("", clap::Command::get_name);
    if let Some(meaning) = value_with_dash(words, at, among).filter(|_| kind == ContextKind::InvalidArg) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(meaning)]));
        return error;
    }
    if let Some(quoted) = unquoted(words, at, place).filter(|_| kind == ContextKind::InvalidArg) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(quoted)]));
        return error;
    }
    let meant = MEANINGS.iter().find(|(of, words, _)| *of == place && words.contains(&name.as_str()));
    if let Some((.., meaning)) = meant {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(*meaning)]));
    } else if kind == ContextKind::InvalidSubcommand {
        let known = among.unwrap_or(&root).get_subcommands().filter(|known| !known.is_hide_set());
        let names = known.map(clap::Command::get_name);
        error.remove(ContextKind::SuggestedSubcommand);
        if let Some(candidate) = nearest(&name, names, &mut LETTERS_COMPARED_MAX.clone()) {
            let candidate = ContextValue::Strings(vec![candidate.to_owned()]);
            error.insert(ContextKind::SuggestedSubcommand, candidate);
        }
    }
    error
}

/// Advice for a goal of several words without quotes, and for a goal given to a chat.
fn unquoted(words: &[String], at: usize, command: &str) -> Option<String> {
    let from = words.iter().position(|word| word == command)? + 1;
    let first = words.get(at).filter(|word| !word.starts_with('-') && from <= at)?;
    // Words around the unexpected word, up to the nearest option on each side.
    let start =
        words[from..at].iter().rposition(|word| word.starts_with('-')).map_or(from, |dash| from + dash + 1);
    let goal = words[start..].iter().take_while(|word| !word.starts_with('-'));
    let goal: Vec<&str> = goal.map(String::as_str).collect();
    match command {
        "ask" => Some(format!("put the goal in quotes: `ostler ask '{}'`", goal.join(" "))),
        "chat" => Some(format!("`ostler chat` asks for each turn; `ostler ask '{first}'` asks once")),
        _ => None,
    }
}

/// Advice for a word that begins with a dash after an option that takes a value: clap advises `--`, which gives the
/// word to an argument instead.
fn value_with_dash(words: &[String], at: usize, command: Option<&clap::Command>) -> Option<String> {
    let (word, option) = (words.get(at)?, words.get(at.checked_sub(1)?)?);
    let name = option.strip_prefix("--")?;
    let is_it = |argument: &&clap::Arg| argument.get_long() == Some(name);
    let takes_value = command?.get_arguments().find(is_it)?.get_action().takes_values();
    takes_value.then(|| format!("to pass '{word}' as the value of '{option}', use '{option}={word}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a command line, without its usage.
    fn said(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = root_command().try_get_matches_from(&words).unwrap_err();
        let text = suggest(error, &words).to_string();
        text.split("\nUsage").next().unwrap_or_default().to_owned()
    }

    #[test]
    fn an_unknown_word_suggests_what_does_the_same() {
        for (line, suggested) in [
            ("ostler list", "ostler ps"),
            ("ostler status", "ostler ps"),
            ("ostler log", "ostler logs RUN"),
            ("ostler validate p.yaml", "ostler check PLAN"),
            ("ostler start what", "ostler run PLAN"),
            ("ostler stop", "ostler cancel RUN"),
            ("ostler run --dry-run p.yaml", "ostler check PLAN"),
            ("ostler ask --dry-run goal", "ostler ask GOAL --plan-only"),
            ("ostler check p.yaml --dry-run", "runs nothing"),
            ("ostler gc --dry-run", "without `--apply`"),
            ("ostler resume --dry-run", "ostler show RUN"),
            ("ostler client ls", "ostler ps --clients"),
            ("ostler chekc", "'check'"),
            ("ostler artifcat", "'artifact'"),
            ("ostler run --intnet 2 p.yaml", "'--intent'"),
            ("ostler check p.yaml --param -1", "use '--param=-1'"),
            ("ostler check -1", "use '-- -1'"),
        ] {
            let said = said(line);
            assert!(said.contains(suggested), "{line}: {said}");
            assert!(!said.contains("skip"), "{line}: {said}");
        }
    }

    #[test]
    fn nothing_far_and_nothing_hidden_is_suggested() {
        for line in ["ostler xyz", "ostler frobnicate", "ostler q"] {
            assert!(!said(line).contains("tip:"), "{line}: {}", said(line));
        }
        assert!(!said("ostler complet").contains("'complete'"), "{}", said("ostler complet"));
    }

    #[test]
    fn no_meaning_is_given_to_a_command_and_each_names_commands_that_exist() {
        let root = root_command();
        for (place, words, meaning) in MEANINGS {
            let among = if place.is_empty() { &root } else { root.find_subcommand(place).unwrap() };
            assert!(words.iter().all(|word| among.find_subcommand(word).is_none()), "{words:?}");
            let named = meaning.split("`ostler ").skip(1).map(|rest| rest.split([' ', '`']).next().unwrap());
            for command in named {
                assert!(root.find_subcommand(command).is_some(), "{meaning}: {command}");
            }
        }
    }
}
