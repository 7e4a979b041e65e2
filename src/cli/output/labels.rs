//! Texts for the identifiers that records and the API use. `--json` output keeps the identifiers.

use ostler_kernel::gate::DenialCode;
use ostler_server::wire::Tier;

/// Label of a node state.
pub(crate) fn state(state: &str) -> &str {
    match state {
        "waiting_human" => "waiting",
        "failed_retryable" => "retrying",
        other => other,
    }
}

pub(crate) fn asked(ask: &str) -> &'static str {
    match ask {
        "before" => "may it start?",
        "after" => "may its result be published?",
        _ => "it asks",
    }
}

/// Label of the reason for a state change; empty if the state implies the reason.
pub(crate) fn reason(reason: &str) -> String {
    let (word, of) = reason.split_once(':').unwrap_or((reason, ""));
    let told = match word {
        "entry" | "all_of" | "attempt" | "ok" | "approved" | "retry" | "patched" | "unblocked" => "",
        "any_of" => return format!("{of} came first"),
        "upstream" => return format!("it needs {of}"),
        "approve_before" => asked("before"),
        "approve_after" => asked("after"),
        "human_node" => asked("node"),
        "in_doubt" => "what became of it is not known",
        "hold" => "an operator holds it",
        "hold_released" => "an operator lets it go on",
        "join_exhausted" => "none that it could take came through",
        "sibling_won" => "another came first",
        "concluded" => "the run concluded early",
        "operator" => "an operator said so",
        "human_rejected" | "human_rejection" => "a person said no",
        "human_timeout" => "nobody answered in time",
        "plan_cancelled" => "the run was cancelled",
        "interjection_failed" => "what an operator put in was not agreed to",
        "delta" => "a change of the plan took it out",
        "denials" => "the gate had refused as many calls as a run may make",
        "deadline" => "its job was not over by its deadline",
        "unwanted" => "what opened the run has no use for it any more",
        "drained_unapproved" => "it ended, and nobody is asked about its result any more",
        "crash" => "it crashed",
        "timeout" => "it took too long",
        "transient" => "it failed in passing",
        "rate_limit" => "it was asked for too often",
        "resource_exhaustion" => "something it needs is used up",
        "invalid_output" => "its result is not what was asked for",
        "structural" => "it cannot be done like this",
        "param_missing" => "a parameter is missing",
        "gate_denied" => "the gate refused it",
        other => return other.replace('_', " "),
    };
    told.to_owned()
}

/// Reason for a lost node: the failure message, else the label. A rejection is shown with its note.
pub(crate) fn loss(why: &str, met: Option<&str>) -> String {
    let met = met.filter(|met| !met.is_empty());
    match (why, met) {
        ("human_rejected" | "human_rejection", Some(said)) => format!("{}: {said:?}", reason(why)),
        (_, Some(met)) => met.to_owned(),
        (_, None) => reason(why),
    }
}

/// Fix for a failure message of a tool, if there is only one.
pub(crate) fn mend(failure: &str) -> Option<&'static str> {
    // Output of programs may contain any text, so only the tool's own prefix counts.
    let said = failure.split_once(": ").map_or(failure, |(said, _)| said);
    if said.starts_with("cannot open the workspace ") {
        let mend = "a run needs its workspace to its end: make the folder again, and run the plan anew";
        return failure.ends_with(GONE).then_some(mend);
    }
    MENDS.iter().find(|(sign, _)| said.contains(sign) || failure.ends_with(sign)).map(|(_, mend)| *mend)
}

/// Parts of failure messages, and the fixes.
const MENDS: [(&str, &str); 6] = [
    (" ended with status ", "if that is no failure, list the status in allow_status of its params"),
    ("not done within the ", "if it is worth more, give the run a larger budget"),
    ("not done within ", "if it needs longer, give the node a longer timeout, or retries"),
    ("no sign of life for ", "have it tell how far it is, or give the node a longer heartbeat_timeout"),
    ("there is no program ", "install it, or mend the PATH that ostler is started with"),
    (GONE, "make it before, or mend the path: it begins in the workspace"),
];

/// Message of the operating system for a missing file.
const GONE: &str = "No such file or directory (os error 2)";

/// Returns the last group of an id. Ids begin with the time, so their ends differ in fewer characters.
pub(crate) fn short_id(run: &str) -> &str {
    run.rsplit('-').next().unwrap_or(run)
}

pub(crate) fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Contracted => "contracted",
        Tier::Marketplace => "marketplace",
    }
}

pub(crate) fn is_of_gate(code: &str) -> bool {
    DenialCode::ALL.iter().any(|known| known.as_str() == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mends_a_failure_is_told_by_what_the_tool_says_and_not_by_what_a_program_prints() {
        for (failure, told) in [
            ("false ended with status 1", Some("allow_status")),
            ("make ended with status 2: there is no program cc", Some("allow_status")),
            ("not done within 500 ms", Some("longer timeout")),
            ("there is no program cargoo (it, or what interprets it, is not found)", Some("PATH")),
            ("notes.md in /w: No such file or directory (os error 2)", Some("it begins in the workspace")),
            (
                "cannot open the workspace /w: No such file or directory (os error 2)",
                Some("make the folder again"),
            ),
            ("cannot open the workspace /w: Too many open files (os error 24)", None),
            ("sh was ended (signal: 9): not done within 5 ms", None),
            ("", None),
        ] {
            let mend = mend(failure);
            assert_eq!(mend.is_some(), told.is_some(), "{failure}: {mend:?}");
            assert!(mend.unwrap_or_default().contains(told.unwrap_or_default()), "{failure}: {mend:?}");
        }
    }

    #[test]
    fn no_word_of_a_record_is_left() {
        for (record, told) in [
            ("entry", ""),
            ("attempt:2", ""),
            ("any_of:fast", "fast came first"),
            ("upstream:read_it", "it needs read_it"),
            ("approve_before", "may it start?"),
            ("sibling_won", "another came first"),
            ("human_timeout", "nobody answered in time"),
            ("something_new", "something new"),
        ] {
            assert_eq!(reason(record), told, "{record}");
        }
        assert_eq!(
            (state("waiting_human"), state("failed_retryable"), state("executed")),
            ("waiting", "retrying", "executed")
        );
    }
}
