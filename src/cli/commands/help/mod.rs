//! `ostler help`, and the texts that help and manual pages share.

mod error_pages;
mod topics;

use std::fmt::Write;

use clap::builder::Styles;
use clap::{Args, Command};

use crate::cli::arguments::Globals;
use crate::cli::commands::help::topics::TOPICS;
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::{Out, record_write_result};

pub(crate) const EXIT_CODES: [(&str, &str); 9] = [
    ("0", "success: the run succeeded, or concluded early"),
    ("1", "the run failed or was cancelled; or a test or audit found a fault"),
    ("2", "the command line, the plan or another file is invalid; nothing was started"),
    ("3", "a run waits for a person or for `ostler answer`, or was suspended until `ostler resume RUN`"),
    ("4", "the data folder is damaged, cannot be used, or is held by a process that must end first"),
    ("5", "another error, or a run that made no progress; state is kept: `ostler resume`"),
    ("6", "only an operator may decide this, and the command has no operator key that is accepted here"),
    ("130", "interrupted (^C); state is kept, `ostler resume` continues"),
    ("143", "terminated; state is kept, `ostler resume` continues"),
];

pub(crate) const ENVIRONMENT: [(&str, &str); 9] = [
    ("OSTLER_DATA", "the data folder, if --data is not given; default .ostler"),
    ("OSTLER_CONFIG", "the configuration, if --config is not given"),
    ("OSTLER_LOG", "log level on stderr: error (default), warn, info, debug, trace or off"),
    ("XDG_CONFIG_HOME", "the folder of ostler/ostler-operator.key; default ~/.config"),
    ("NO_COLOR", "any value: no colours"),
    ("CLICOLOR", "0: no colours"),
    ("CLICOLOR_FORCE", "any value but 0: colours in a pipe too"),
    ("TERM", "dumb: no colours and no redrawn tree"),
    ("TZ", "time zone of the times shown"),
];

pub(crate) const RUNS: &str = "\
A run is named by its id, by the first or the last characters of it (four or more, if
they match one run only), or by @last, the newest run. `ostler ps` lists all runs.
A node is named as the plan names it. A result is named RUN/NODE, such as @last/report.
";

const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Run plans",
        &[
            "ask",
            "chat",
            "check",
            "run",
            "plans",
            "rerun",
            "edit",
            "fork",
            "resume",
            "checkpoint",
            "interject",
            "cancel",
            "undo",
        ],
    ),
    (
        "Inspect",
        &["ps", "show", "explain", "lineage", "diff", "logs", "events", "audit", "artifact", "export"],
    ),
    ("Decide", &["approvals", "approve", "reject", "answer", "skip", "resolve", "retract", "operator"]),
    ("Stream events", &["pipeline"]),
    ("Evaluate", &["evaluate", "agents"]),
    ("Share resources", &["client", "credit", "top", "market"]),
    (
        "Administer",
        &[
            "spawn",
            "release",
            "models",
            "mcp",
            "policy",
            "lockdown",
            "doctor",
            "gc",
            "simulate",
            "experiment",
            "completions",
            "man",
            "help",
        ],
    ),
];

const OTHERS: &str = "More";

#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// A command, a code of a fault, advice or denied call such as V04, or one of the topics exit-codes,
    /// environment, runs, states, tools, reliability and oversight
    #[arg(value_name = "COMMAND|CODE|TOPIC")]
    asked: Vec<String>,
}

pub(crate) fn help(globals: &Globals, args: &HelpArgs, mut root: Command) -> Result<u8, Failure> {
    globals.text_only("help")?;
    root.build();
    if let [topic] = args.asked.as_slice()
        && let Some((_, text)) = TOPICS.iter().find(|(name, ..)| name == topic)
    {
        Out::new().raw(text().as_bytes());
        return Ok(code::SUCCEEDED);
    }
    if let [asked] = args.asked.as_slice()
        && root.find_subcommand(asked).is_none()
        && let Some(page) = error_pages::page(asked)
    {
        Out::new().raw(page.as_bytes());
        return Ok(code::SUCCEEDED);
    }
    let mut asked = &mut root;
    for name in &args.asked {
        let above = asked.get_bin_name().unwrap_or_default().to_owned();
        if asked.find_subcommand(name).is_none() && above.contains(' ') {
            return Err(Failure::invalid(format!(
                "`{above}` has no command {name:?}; `{above} --help` shows its page"
            )));
        }
        asked = asked.find_subcommand_mut(name).ok_or_else(|| {
            let topics: Vec<&str> = TOPICS.iter().map(|(name, ..)| *name).collect();
            Failure::invalid(format!(
                "{name:?}: no such command, code or topic; `ostler help` lists the commands, the topics are {}; codes are those \
                 of `ostler check` and of denied calls, such as V04 or PATH_ESCAPE",
                topics.join(", ")
            ))
        })?;
    }
    record_write_result(asked.print_long_help());
    // The page `answer` is about answers of models, not of this command; `ostler help F01` shows it.
    if let [name] = args.asked.as_slice()
        && name != "answer"
        && let Some(page) = error_pages::page(name)
    {
        Out::new().raw(format!("\n{page}").as_bytes());
    }
    Ok(code::SUCCEEDED)
}

pub(crate) fn explained() -> impl Iterator<Item = &'static str> {
    let commands = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
    commands.chain(TOPICS.iter().map(|(name, ..)| *name)).chain(error_pages::codes())
}

fn listing(lines: &[(&str, &str)]) -> String {
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.iter().fold(String::new(), |mut text, (name, what)| {
        let _ = writeln!(text, "  {name:<width$}  {what}");
        text
    })
}

/// End of the help of `ostler`.
pub(crate) fn after_all() -> String {
    let header = Styles::styled().get_header().to_owned();
    let mut text = String::new();
    for (heading, lines) in [("Environment", &ENVIRONMENT[..]), ("Exit codes", &EXIT_CODES[..])] {
        let _ = write!(text, "{header}{heading}:{header:#}\n{}\n", listing(lines));
    }
    let _ = write!(
        text,
        "{header}Examples:{header:#}\n  ostler check plan.yaml\n  ostler run plan.yaml\n  ostler ps\n"
    );
    text
}

/// Help template of `ostler`, with commands in groups.
pub(crate) fn template(root: &Command) -> String {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let visible: Vec<&Command> = root.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let width = visible.iter().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    let mut tell = |heading: &str, commands: &[&Command]| {
        if commands.is_empty() {
            return;
        }
        let _ = writeln!(text, "{header}{heading}:{header:#}");
        for command in commands {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{:<width$}{literal:#}  {about}", command.get_name());
        }
        text.push('\n');
    };
    for (heading, names) in GROUPS {
        let found =
            names.iter().filter_map(|name| visible.iter().find(|command| command.get_name() == *name));
        tell(heading, &found.copied().collect::<Vec<_>>());
    }
    let grouped = |command: &&&Command| GROUPS.iter().any(|(_, names)| names.contains(&command.get_name()));
    let others: Vec<&Command> = visible.iter().filter(|command| !grouped(command)).copied().collect();
    tell(OTHERS, &others);
    let _ = write!(text, "{header}Options:{header:#}\n{{options}}{{after-help}}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    use crate::cli::command_line::{Cli, TEXT_ONLY, root_command};

    fn below(command: &Command, called: &str, found: &mut Vec<(String, Command)>) {
        for below_it in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let called = format!("{called} {}", below_it.get_name());
            below(below_it, &called, found);
            found.push((called, below_it.clone()));
        }
    }

    fn commands() -> Vec<(String, Command)> {
        let mut found = Vec::new();
        below(&root_command(), "ostler", &mut found);
        assert!(found.len() > 10, "{found:?}");
        found
    }

    /// Examples in a help text: indented lines that start with the command.
    fn examples(text: &str) -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix("  ostler")).collect()
    }

    /// Words of the first command of a line, split as a shell does.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, ';' | '|' | '>') => break,
                (None, ' ') => words.push(String::new()),
                (_, c) => words.last_mut().expect("there is always a word").push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[track_caller]
    fn parses(example: &str) {
        if let Err(error) = Cli::try_parse_from(words(&format!("ostler{example}"))) {
            panic!("ostler{example}\n{error}");
        }
    }

    #[test]
    fn every_command_has_an_example_and_every_example_is_one() {
        for (called, command) in commands() {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let found = examples(&text);
            assert!(!found.is_empty(), "{called} has no example");
            for example in found {
                let whole = format!("ostler{example}");
                assert!(whole.starts_with(&called), "an example of {called} calls another: {whole}");
                parses(example);
            }
        }
        examples(&after_all()).into_iter().for_each(parses);
    }

    #[test]
    fn every_command_and_every_argument_says_what_it_is() {
        for (called, command) in commands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && !about.ends_with('.') && about.len() <= 72, "{called}: {about:?}");
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty(), "{called}: {} says nothing", argument.get_id());
                assert!(!help.ends_with('.'), "{called}: {}: {help}", argument.get_id());
            }
        }
    }

    #[test]
    fn the_same_argument_has_the_same_words_everywhere() {
        let begin = [
            ("run", "The run: its id, a part of it, or @last"),
            ("plan", "The plan: .yaml, .yml, .json or .toml"),
        ];
        for (called, command) in commands() {
            for (id, words) in begin {
                let argument = command.get_positionals().find(|argument| argument.get_id() == id);
                let help = argument.and_then(|argument| argument.get_help()).map(ToString::to_string);
                let Some(help) = help else { continue };
                assert!(help.starts_with(words), "{called}: {help}");
            }
        }
    }

    #[test]
    fn no_command_offers_json_that_prints_text_only() {
        let mut root = root_command();
        root.build();
        for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
            let json = command.get_arguments().find(|argument| argument.get_id() == "json");
            let is_offered = json.is_some_and(|json| !json.is_hide_set());
            assert_eq!(is_offered, !TEXT_ONLY.contains(&command.get_name()), "{}", command.get_name());
        }
    }

    #[test]
    fn every_command_stands_in_a_group() {
        let root = root_command();
        for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            assert!(GROUPS.iter().any(|(_, names)| names.contains(&name)), "no group names {name}");
        }
    }

    #[test]
    fn the_help_of_help_names_every_topic() {
        let root = root_command();
        let help = root.find_subcommand("help").unwrap();
        let argument = help.get_positionals().next().unwrap().get_help().unwrap().to_string();
        for (topic, _) in TOPICS {
            assert!(argument.contains(topic), "{topic}: {argument}");
        }
    }
}
