//! Texts for the identifiers that records and the API use. `--json` output keeps the identifiers.

use ostler_kernel::gate::DenialCode;
use ostler_kernel::lineage::span;
use ostler_server::wire::ClientTier;
use serde_json::Value;

pub(crate) fn state(state: &str) -> &str {
    match state {
        "waiting_human" => "waiting",
        "failed_retryable" => "retrying",
        other => other,
    }
}

pub(crate) fn request(ask: &str) -> &'static str {
    match ask {
        "before" => "approval to start",
        "after" => "approval of its result",
        "budget" => "an answer about its budget",
        _ => "approval",
    }
}

/// Label of the reason for a state change; empty if the state implies the reason.
pub(crate) fn reason(reason: &str) -> String {
    let (word, of) = reason.split_once(':').unwrap_or((reason, ""));
    let text = match word {
        "entry" | "all_of" | "attempt" | "ok" | "approved" | "retry" | "patched" | "unblocked" => "",
        "any_of" => return format!("{of} finished first"),
        "upstream" => return format!("needs {of}"),
        "approve_before" => request("before"),
        "approve_after" => request("after"),
        "human_node" => request("node"),
        "in_doubt" => "outcome unknown",
        "over_budget" => request("budget"),
        "hold" => "held by an operator",
        "hold_released" => "released by an operator",
        "join_exhausted" => "no alternative succeeded",
        "sibling_won" => "an alternative finished first",
        "guard_false" => "ruled out by a guard",
        "guard_error" => "a guard cannot be judged",
        "expand_error" => "the list cannot be expanded",
        "collector_ended" => "its list is not needed any more",
        "wait" => "",
        "answered" => "",
        "concluded" => "run concluded early",
        "operator" => "by an operator",
        "human_rejected" | "human_rejection" => "rejected by a person",
        "human_timeout" => "no answer before the deadline",
        "plan_cancelled" => "run cancelled",
        "interjection_failed" => "interjection not approved",
        "delta" => "removed by a new plan version",
        "denials" => "too many calls denied by the gate",
        "deadline" => "job deadline passed",
        "unwanted" => "not needed by its parent run",
        "reused" => "its result was reused",
        "edited" => "a person edited its result",
        "drained_unapproved" => "ended without approval of its result",
        "crash" => "crashed",
        "timeout" => "timed out",
        "transient" => "transient failure",
        "rate_limit" => "rate limited",
        "resource_exhaustion" => "resource exhausted",
        "invalid_output" => "invalid output",
        "structural" => "structural failure",
        "param_missing" => "missing parameter",
        "gate_denied" => "denied by the gate",
        other => return other.replace('_', " "),
    };
    text.to_owned()
}

/// Word for an executed node by its decision about reuse.
pub(crate) fn origin(decision: &str) -> &str {
    match decision {
        "cut_off" => "cut off",
        "reused" | "revalidated" | "edited" | "kept" | "withdrawn" => decision,
        _ => "executed",
    }
}

/// The person behind an approval of the repeated run. `carried` is a record of the kind `approval_carried`.
pub(crate) fn carried(carried: &Value) -> String {
    let text = |key: &str| carried[key].as_str().unwrap_or_default();
    format!("approved by {} in run {}", text("by"), short_id(text("from")))
}

/// Origin of a reused result, or the reason of an execution; empty if the node has no record to compare with. `decided` is a
/// record of the kind `reuse_decided`.
pub(crate) fn reuse(decided: &Value) -> String {
    let run = short_id(decided["from"]["run"].as_str().unwrap_or_default());
    let origin = match decided["sampled"].as_bool() {
        Some(true) => format!("recorded answer from run {run}"),
        _ => format!("from run {run}"),
    };
    match decided["decision"].as_str().unwrap_or_default() {
        "reused" => match (decided["age_ms"].as_i64(), decided["age_max_ms"].as_i64()) {
            (Some(age), Some(most)) => format!("{origin}; read {} ago, fresh for {}", span(age), span(most)),
            (Some(age), None) => format!("{origin}; read {} ago", span(age)),
            (None, _) => origin,
        },
        "kept" => format!("{origin}, which the change does not reach"),
        "edited" => {
            let stale = if decided["stale"] == true { "; its inputs have changed since" } else { "" };
            format!("by {}{stale}", decided["author"].as_str().unwrap_or_default())
        }
        "revalidated" => format!("{origin}; the contract changed, and holds"),
        "cut_off" => {
            let above = decided["recomputed"].as_array().map(Vec::as_slice).unwrap_or_default();
            let above: Vec<&str> = above.iter().filter_map(Value::as_str).collect();
            format!("{origin}; cut off: {} changed nothing that is read here", above.join(", "))
        }
        _ => match decided["why"].as_str().unwrap_or_default() {
            "" | "no_record" | "not_reusable" => String::new(),
            "not_modified" => decided["words"].as_str().unwrap_or_default().to_owned(),
            _ => format!("recomputed: {}", decided["words"].as_str().unwrap_or_default()),
        },
    }
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
pub(crate) fn fix(failure: &str) -> Option<&'static str> {
    // Output of programs may contain any text, so only the tool's own prefix counts.
    let said = failure.split_once(": ").map_or(failure, |(said, _)| said);
    if said.starts_with("cannot open the workspace ") {
        let fix =
            "a run needs its workspace until it is closed: create the folder again, and run the plan again";
        return failure.ends_with(NOT_FOUND).then_some(fix);
    }
    let is_met = |sign: &str| said.contains(sign) || sign == NOT_FOUND && failure.ends_with(sign);
    FIXES.iter().find(|(sign, _)| is_met(sign)).map(|(_, fix)| *fix)
}

const FIXES: [(&str, &str); 8] = [
    (
        " in a cage (",
        "if it needs that file, name its folder in read of [sandbox]; to change it, in write of [tools.shell]",
    ),
    (" ended with status ", "if this status is no failure, list it in allow_status of the node"),
    (
        " of the budget are left",
        "repeat the command with a larger --budget, of several times what one call needs",
    ),
    ("not done within the ", "to allow more, give the run a larger budget"),
    ("not done within ", "to allow more, give the node a longer timeout, or retries"),
    ("no sign of life for ", "report progress more often, or give the node a longer heartbeat_timeout"),
    ("there is no program ", "install it, or correct PATH in the environment of ostler"),
    (NOT_FOUND, "create it first, or correct the path, which is relative to the workspace"),
];

/// True for the failure of a program that ran, whose output is kept.
pub(crate) fn is_of_program(failure: &str) -> bool {
    let said = failure.split_once(": ").map_or(failure, |(said, _)| said);
    [" ended with status ", " was ended ("].iter().any(|sign| said.contains(sign))
}

/// Message of the operating system for a missing file.
const NOT_FOUND: &str = "No such file or directory (os error 2)";

/// Returns the last group of an id. Ids begin with the time, so their ends differ in fewer characters.
pub(crate) fn short_id(run: &str) -> &str {
    run.rsplit('-').next().unwrap_or(run)
}

pub(crate) fn tier(tier: ClientTier) -> &'static str {
    match tier {
        ClientTier::Contracted => "contracted",
        ClientTier::Marketplace => "marketplace",
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
        for (failure, text) in [
            ("false ended with status 1", Some("allow_status")),
            ("make ended with status 2: there is no program cc", Some("allow_status")),
            (
                "touch ended with status 1 in a cage (landlock) that may keep it from a file: no",
                Some("[sandbox]"),
            ),
            ("touch ended with status 1: in a cage (", Some("allow_status")),
            ("not done within 500 ms", Some("longer timeout")),
            ("there is no program cargoo (it, or what interprets it, is not found)", Some("PATH")),
            ("notes.md in /w: No such file or directory (os error 2)", Some("relative to the workspace")),
            (
                "cannot open the workspace /w: No such file or directory (os error 2)",
                Some("create the folder again"),
            ),
            ("cannot open the workspace /w: Too many open files (os error 24)", None),
            ("sh was ended (signal: 9): not done within 5 ms", None),
            ("", None),
        ] {
            let fix = fix(failure);
            assert_eq!(fix.is_some(), text.is_some(), "{failure}: {fix:?}");
            assert!(fix.unwrap_or_default().contains(text.unwrap_or_default()), "{failure}: {fix:?}");
        }
    }

    #[test]
    fn no_word_of_a_record_is_left() {
        for (record, text) in [
            ("entry", ""),
            ("attempt:2", ""),
            ("any_of:fast", "fast finished first"),
            ("upstream:read_it", "needs read_it"),
            ("approve_before", "approval to start"),
            ("sibling_won", "an alternative finished first"),
            ("human_timeout", "no answer before the deadline"),
            ("something_new", "something new"),
        ] {
            assert_eq!(reason(record), text, "{record}");
        }
        assert_eq!(
            (state("waiting_human"), state("failed_retryable"), state("executed")),
            ("waiting", "retrying", "executed")
        );
    }
}
