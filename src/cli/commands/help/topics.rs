//! The topics of `ostler help` that are not commands.

use std::fmt::Write;

use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::agent::{CONFIDENCE_MIN, Oversight, SPOT_CHECKS_PERCENT};
use ostler_kernel::port::ToolSpec;
use ostler_kernel::run::RunStatus;
use serde_json::Value;

use super::{ENVIRONMENT, EXIT_CODES, RUNS, listing};
use crate::cli::output::cells::wrapped;
use crate::cli::output::live::DisplayState;

type Topic = (&'static str, fn() -> String);

pub(super) const TOPICS: [Topic; 7] = [
    ("exit-codes", || listing(&EXIT_CODES)),
    ("environment", || listing(&ENVIRONMENT)),
    ("runs", || RUNS.to_owned()),
    ("states", states),
    ("tools", tools),
    ("reliability", || RELIABILITY.to_owned()),
    ("oversight", oversight),
];

const RELIABILITY: &str = "\
The reliability of a result is the probability that everything accepted on the way to it is
right. It comes from the contracts of the nodes alone: the precision `p` of a rule is the
probability that a result which the rule accepts is right.

  at least X                     holds always: 1 minus the sum of all (1 - p)
  X if nodes err independently   the product of all p

A contract is as precise as its least precise rule. A rule `schema` without `p` counts as 1, and so
does a node without rules of its own: its result has the schema of its tool, or was not checked.
Any other rule without `p` is unknown. One unknown node leaves the run without a reliability:
`ostler check PLAN` names these nodes.

A reliability of 1 says only that nothing beyond schemas was checked. A summary shows the
reliability if it is below 1, or with --verbose; `ostler show`, --json and `ostler check --verbose`
always do.
";

/// Columns of a topic's lines.
const COLUMNS: usize = 98;

/// Column at which descriptions of tools begin.
const INDENT: usize = 4;

fn run_status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Queued => "no attempt has begun, or no process executes it: `ostler resume`",
        RunStatus::Running => "attempts run, or run as soon as a slot is free",
        RunStatus::Waiting => {
            "waits for a person, an answer from outside, credits, a timer or the rate of a model"
        }
        RunStatus::Suspended => "only `ostler resume RUN` continues it",
        RunStatus::Succeeded => "closed: every output is there",
        RunStatus::Concluded => "closed: a reflection ended it early with what it had",
        RunStatus::Failed => "closed: an output cannot be produced, also after a rejection or silence",
        RunStatus::Cancelled => "closed: `ostler cancel`, an interjection, a deadline or the gate ended it",
        RunStatus::Quarantined => "damaged: `ostler doctor --repair` set it apart; it never continues",
    }
}

fn node_state(state: DisplayState) -> &'static str {
    match state {
        DisplayState::Pending => "waits for its dependencies",
        DisplayState::Ready => "may start, and waits for a slot",
        DisplayState::Blocked => "a dependency is lost, and a new plan version may help",
        DisplayState::Held => "an interjection holds the run",
        DisplayState::Running => "an attempt runs",
        DisplayState::Draining => "was stopped while it changes the world; the attempt runs to its end",
        DisplayState::Waiting => {
            "a person (`ostler approvals`) or `ostler answer` has to answer (records: waiting_human)"
        }
        DisplayState::Retrying => "failed; a retry or a patch follows (in records: failed_retryable)",
        DisplayState::Executed => "final: its result passed its contract",
        DisplayState::Failed => "final: its attempts are exhausted",
        DisplayState::Cancelled => "final: stopped by a person or the plan, or a dependency is lost",
        DisplayState::Skipped => "final: not needed",
    }
}

fn states() -> String {
    let runs = RunStatus::ALL.map(|status| (status.as_str(), run_status(status)));
    let nodes = DisplayState::ALL.map(|state| (state.as_str(), node_state(state)));
    format!(
        "A run has one of these states (`ostler ps --state STATE` selects by it):\n\n{}\nA node has one of these:\n\n{}",
        listing(&runs),
        listing(&nodes)
    )
}

fn tools() -> String {
    let mut text = "The built-in tools with their parameters; [those in brackets] are optional.\n".to_owned();
    for tool in builtin(&ToolConfig::complete(), None) {
        let spec = tool.spec();
        let _ = writeln!(text, "\n  {} {}", spec.name, parameters(spec));
        let room = COLUMNS - INDENT;
        for line in wrapped(&spec.description, room, room, usize::MAX) {
            let _ = writeln!(text, "{:INDENT$}{line}", "");
        }
    }
    text + "\n`ostler doctor` lists the tools that a configuration leaves. A program that embeds Ostler can\nadd its own.\n"
}

/// Names of the parameters, the required ones first.
fn parameters(spec: &ToolSpec) -> String {
    let required: Vec<&str> =
        spec.params["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = spec.params["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let optional = all.filter(|name| !required.contains(name)).map(|name| format!("[{name}]"));
    required.iter().map(|name| (*name).to_owned()).chain(optional).collect::<Vec<_>>().join(" ")
}

fn oversight_mode(mode: Oversight) -> String {
    match mode {
        Oversight::AutonomousEscalation => {
            format!("before a node of impact 2, and about a result with `confidence` below {CONFIDENCE_MIN}")
        }
        Oversight::SpotCheck => {
            format!("also about {SPOT_CHECKS_PERCENT} % of the results, selected by a hash of run and node")
        }
        Oversight::Supervised => {
            "also about every other result of a tool, before anything uses it".to_owned()
        }
    }
}

fn oversight() -> String {
    let modes = Oversight::ALL.map(|mode| (mode, oversight_mode(mode)));
    let modes: Vec<(&str, &str)> = modes.iter().map(|(mode, text)| (mode.as_str(), text.as_str())).collect();
    format!(
        "The oversight of a plan (`policy.oversight`) or of an agent (`ostler spawn --oversight`) says when a\n\
         person is asked. The stricter of the two holds, and each mode includes the one above it:\n\n{}\n\
         Without oversight, a person is asked only by `approval`, by a `human_approval` node, and about\n\
         attempts in doubt. `ostler approvals` lists what waits.\n",
        listing(&modes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_topic_is_too_long() {
        for (name, text) in TOPICS {
            let text = text();
            assert!(text.ends_with('\n'));
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{name}: {text}");
        }
    }

    #[test]
    fn the_topics_tell_what_the_code_knows() {
        let names = |text: String| -> Vec<String> {
            let entries = text.lines().filter_map(|line| line.strip_prefix("  "));
            entries
                .filter_map(|line| line.split(' ').next())
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let statuses = RunStatus::ALL.iter().map(|status| status.as_str());
        let known: Vec<&str> = statuses.chain(DisplayState::ALL.iter().map(|state| state.as_str())).collect();
        assert_eq!(names(states()), known);
        let known: Vec<String> =
            builtin(&ToolConfig::complete(), None).iter().map(|tool| tool.spec().name.clone()).collect();
        assert_eq!(names(tools()), known);
        assert_eq!(names(oversight()), Oversight::ALL.map(Oversight::as_str));
    }

    #[test]
    fn a_tool_is_shown_with_its_parameters() {
        let text = tools();
        let from = text.find("  fs.read ").unwrap();
        let entry: Vec<&str> = text[from..].lines().take(2).collect();
        let description = "    Read a file of UTF-8 text. Longer files than max_bytes are a failure.";
        assert_eq!(entry, ["  fs.read path [max_bytes]", description]);
    }
}
