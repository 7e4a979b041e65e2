//! Suggestions for a mistyped command.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use ostler_kernel::plan::nearest;

use crate::cli::command_line::root_command;

/// Limit on pairs of letters compared to find the intended command.
const LETTERS_COMPARED_MAX: usize = 100_000;

/// Mistaken subcommands of `client`, and the commands for these tasks.
const CLIENT_LIST_WORDS: [&str; 4] = ["ls", "list", "ps", "show"];

const CLIENT_LIST_COMMANDS: &str = "`ostler ps --clients` lists clients, `ostler credit CLIENT` shows one";

/// Adds the likely intended command to the error. Clap counts two swapped letters as two errors, too many
/// in a short word.
pub(crate) fn with_suggestion(mut error: clap::Error) -> clap::Error {
    let name = match (error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::SuggestedSubcommand))
    {
        (Some(ContextValue::String(name)), None) => name.clone(),
        _ => return error,
    };
    let root = root_command();
    // Only siblings of the mistyped command are candidates.
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let at = words.iter().position(|word| *word == name).unwrap_or(0);
    let mut before = words[..at].iter().skip(1).filter_map(|word| root.find_subcommand(word));
    let among = before.find(|before| before.has_subcommands()).unwrap_or(&root);
    let known = among.get_subcommands().filter(|known| !known.is_hide_set());
    let candidate = nearest(&name, known.map(clap::Command::get_name), &mut LETTERS_COMPARED_MAX.clone());
    if among.get_name() == "client" && CLIENT_LIST_WORDS.contains(&name.as_str()) {
        let suggestions = ContextValue::StyledStrs(vec![StyledStr::from(CLIENT_LIST_COMMANDS)]);
        error.insert(ContextKind::Suggested, suggestions);
    } else if let Some(candidate) = candidate {
        let candidate = ContextValue::Strings(vec![candidate.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, candidate);
    }
    error
}
