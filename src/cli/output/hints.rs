//! Commands that are printed for the user to run next.
//!
//! Each names the data folder and the configuration as this command line does; else it would act on another folder.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::cli::output::approval::short_digest;
use crate::cli::output::labels::short_id;
use crate::cli::output::terminal::Out;

/// The location options of this command line, appended to every printed command.
static LOCATION: OnceLock<String> = OnceLock::new();

/// The option `--model` of this command line, if it names a file: other commands that continue the run need it too.
static MODEL: OnceLock<String> = OnceLock::new();

/// Commands that take `--model scripted:FILE`.
const WITH_MODEL: [&str; 6] = ["resume", "approve", "reject", "resolve", "interject", "skip"];

/// Models given as files (`scripted:FILE`), by the short id of the run.
static RUN_MODELS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Most runs with a kept model. Commands about further runs are printed without `--model`.
const RUN_MODELS_MAX: usize = 10_000;

/// Stores the model file of a run, so that printed commands which continue the run name the file again.
pub(crate) fn know_model(run: &str, file: Option<&str>) {
    let Some(file) = file else { return };
    let mut models = RUN_MODELS.lock().unwrap_or_else(PoisonError::into_inner);
    if models.len() < RUN_MODELS_MAX {
        models.insert(short_id(run).to_owned(), model_option(file));
    }
}

/// A file below the working directory is named relative to it.
fn model_option(model: &str) -> String {
    let here = std::env::current_dir().ok();
    let near = model.split_once(':').and_then(|(provider, file)| {
        let file = Path::new(file).strip_prefix(here?).ok()?.to_str()?;
        Some(format!("{provider}:{file}"))
    });
    format!(" --model {}", quoted(near.as_deref().unwrap_or(model).as_bytes()))
}

/// Stores the model that this command line names by its file.
pub(crate) fn remember_model(model: &str) {
    let _ = MODEL.set(model_option(model));
}

const LOCATION_OPTIONS: [&str; 2] = ["data", "config"];

/// Stores the location options of this command line. Environment variables apply to the next command
/// anyway.
pub(crate) fn remember_location(matches: &ArgMatches) {
    let given =
        LOCATION_OPTIONS.iter().filter(|name| matches.value_source(name) == Some(ValueSource::CommandLine));
    let options = given.filter_map(|name| {
        let value = matches.try_get_one::<PathBuf>(name).ok().flatten()?;
        Some(format!(" {}", option(name, value)))
    });
    let _ = LOCATION.set(options.collect());
}

/// Returns whether this command line names the data folder with `--data`; else the environment does, or nothing.
pub(crate) fn has_data_option() -> bool {
    // The options are in the order of `LOCATION_OPTIONS`.
    location().starts_with(" --data")
}

fn location() -> &'static str {
    LOCATION.get().map_or("", String::as_str)
}

pub(crate) fn option(name: &str, value: &Path) -> String {
    let bytes = value.as_os_str().as_bytes();
    let between = if bytes.starts_with(b"-") { '=' } else { ' ' };
    format!("--{name}{between}{}", quoted(bytes))
}

fn quoted(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+@%:,".contains(byte);
    match std::str::from_utf8(word) {
        Ok(text) if !word.is_empty() && word.iter().all(is_plain) => text.to_owned(),
        Ok(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let escaped = word.iter().map(|byte| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            });
            format!("$'{}'", escaped.collect::<String>())
        }
    }
}

/// Formats a command. Names that start with a dash follow all options, behind `--`.
pub(crate) fn command(words: &str, names: &[&str], options: &str) -> String {
    let model = if WITH_MODEL.contains(&words) { model_of(names) } else { String::new() };
    command_at(words, names, options, &format!("{model}{}", location()))
}

/// The model of this command line, else the stored model of the run.
fn model_of(names: &[&str]) -> String {
    if let Some(model) = MODEL.get() {
        return model.clone();
    }
    let models = RUN_MODELS.lock().unwrap_or_else(PoisonError::into_inner);
    names.first().and_then(|run| models.get(short_id(run))).cloned().unwrap_or_default()
}

fn command_at(words: &str, names: &[&str], options: &str, place: &str) -> String {
    let options = if options.is_empty() { String::new() } else { format!(" {options}") };
    let names: String = names.iter().map(|name| format!(" {name}")).collect();
    if names.contains(" -") {
        format!("ostler {words}{options}{place} --{names}")
    } else {
        format!("ostler {words}{names}{options}{place}")
    }
}

pub(crate) fn resume(run: &str) -> String {
    command("resume", &[run], "")
}

/// Returns the command for a run suspended for this reason, and its effect.
pub(crate) fn suspended(run: &str, reason: &str) -> (String, &'static str) {
    if is_unreadable(reason) {
        (command("doctor", &[], ""), "reports what is wrong")
    } else {
        (resume(run), "resumes it")
    }
}

/// Returns whether the run was suspended because its records cannot be read. Resuming would fail again.
fn is_unreadable(reason: &str) -> bool {
    reason.starts_with("it cannot be read")
}

pub(crate) fn deposit(client: &str, credits: i64) -> String {
    command("credit", &[client, &format!("+{credits}")], "")
}

pub(crate) fn show(run: &str) -> String {
    command("show", &[run], "")
}

/// Appends the location options to every command in backticks.
pub(crate) fn with_location(text: &str) -> String {
    insert_location(text, location())
}

fn insert_location(text: &str, place: &str) -> String {
    let mut parts = text.split('`');
    let mut result = parts.next().unwrap_or_default().to_owned();
    let mut is_quoted = true;
    for part in parts {
        result.push('`');
        result.push_str(part);
        let is_command =
            is_quoted && part.strip_prefix("ostler ").is_some_and(|rest| !rest.starts_with("help "));
        if is_command && !part.contains(place) {
            result.push_str(place);
        }
        is_quoted = !is_quoted;
    }
    result
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum DigestSource<'a> {
    /// With this digest; `ostler approvals` shows the content.
    Shown(&'a str),
    /// `ostler approve` shows the content at the terminal.
    AtTerminal,
    /// The content has to be listed first.
    Unseen,
}

impl DigestSource<'_> {
    pub(crate) fn on<'d>(out: &Out, digest: Option<&'d str>) -> DigestSource<'d> {
        match digest {
            _ if out.is_terminal() => DigestSource::AtTerminal,
            Some(digest) => DigestSource::Shown(digest),
            None => DigestSource::Unseen,
        }
    }
}

/// Returns the commands that answer a waiting node, the most likely one first.
pub(crate) fn answer_commands(run: &str, node: &str, ask: &str, seen: DigestSource<'_>) -> Vec<String> {
    let run = short_id(run);
    if ask == "in_doubt" {
        return ["--done FILE", "--redo", "--fail"].map(|how| command("resolve", &[run, node], how)).into();
    }
    let yes = match seen {
        DigestSource::Shown(digest) => {
            command("approve", &[run, node], &format!("--digest {}", short_digest(digest)))
        }
        DigestSource::AtTerminal => command("approve", &[run, node], ""),
        DigestSource::Unseen => command("approvals", &[], ""),
    };
    vec![yes, command("reject", &[run, node], "--note WHY")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_quoted_for_a_shell() {
        for (path, expected) in [
            ("broken", "--data broken"),
            ("../a b", "--data '../a b'"),
            ("it's", r"--data 'it'\''s'"),
            ("~x", "--data '~x'"),
            ("-x", "--data=-x"),
            ("a\nb'", r"--data $'a\x0ab\''"),
        ] {
            assert_eq!(option("data", Path::new(path)), expected);
        }
    }

    #[test]
    fn a_name_that_begins_like_an_option_stands_behind_all_options() {
        for (node, expected) in [
            ("b", "ostler resolve 12 b --redo --data d"),
            ("-b", "ostler resolve --redo --data d -- 12 -b"),
            ("b-c", "ostler resolve 12 b-c --redo --data d"),
        ] {
            assert_eq!(command_at("resolve", &["12", node], "--redo", " --data d"), expected);
        }
        assert_eq!(command_at("ps", &[], "", ""), "ostler ps");
    }

    #[test]
    fn a_run_that_cannot_be_read_is_not_resumed() {
        for (reason, expected) in
            [("it was checkpointed", "ostler resume 12"), ("it cannot be read: record 3", "ostler doctor")]
        {
            assert_eq!(suspended("12", reason).0, expected);
        }
    }

    #[test]
    fn commands_in_a_text_are_made_ones_to_be_pasted() {
        for (text, expected) in [
            ("`ostler doctor --repair` mends it", "`ostler doctor --repair --data d` mends it"),
            ("see `keep` and `ostler ps --data d`", "see `keep` and `ostler ps --data d`"),
            ("`ostler help run` tells; `ostler ps`", "`ostler help run` tells; `ostler ps --data d`"),
            ("a ` alone", "a ` alone"),
            ("", ""),
        ] {
            assert_eq!(insert_location(text, " --data d"), expected);
        }
        assert_eq!(insert_location("`ostler ps`", ""), "`ostler ps`");
    }
}
