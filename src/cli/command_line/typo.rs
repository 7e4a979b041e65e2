//! Suggestions for a mistyped command.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use ostler_kernel::plan::nearest;

use crate::cli::command_line::command;

/// Limit on pairs of letters compared to find the intended command.
const LETTERS_COMPARED_MAX: usize = 100_000;

/// Mistaken subcommands of `client`, and the commands for these tasks.
const CLIENTS_TOLD: [&str; 4] = ["ls", "list", "ps", "show"];

const CLIENTS_TOLD_BY: &str = "`ostler ps --clients` lists clients, `ostler credit CLIENT` shows one";

/// Adds the likely intended command to the error. Clap counts two swapped letters as two errors, too many
/// in a short word.
pub(crate) fn with_meant(mut error: clap::Error) -> clap::Error {
    let name = match (error.get(ContextKind::InvalidSubcommand), error.get(ContextKind::SuggestedSubcommand))
    {
        (Some(ContextValue::String(name)), None) => name.clone(),
        _ => return error,
    };
    let root = command();
    // Only siblings of the mistyped command are candidates.
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let at = words.iter().position(|word| *word == name).unwrap_or(0);
    let mut before = words[..at].iter().skip(1).filter_map(|word| root.find_subcommand(word));
    let among = before.find(|before| before.has_subcommands()).unwrap_or(&root);
    let known = among.get_subcommands().filter(|known| !known.is_hide_set());
    let meant = nearest(&name, known.map(clap::Command::get_name), &mut LETTERS_COMPARED_MAX.clone());
    if among.get_name() == "client" && CLIENTS_TOLD.contains(&name.as_str()) {
        let told = ContextValue::StyledStrs(vec![StyledStr::from(CLIENTS_TOLD_BY)]);
        error.insert(ContextKind::Suggested, told);
    } else if let Some(meant) = meant {
        let meant = ContextValue::Strings(vec![meant.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, meant);
    }
    error
}
