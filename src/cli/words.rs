//! The words of records, as people read them. Machines get the words of the records.

/// A state of a node.
pub(crate) fn state(state: &str) -> &str {
    match state {
        "waiting_human" => "waiting",
        "failed_retryable" => "retrying",
        other => other,
    }
}

/// What a person is asked.
pub(crate) fn asked(ask: &str) -> &'static str {
    match ask {
        "before" => "may it start?",
        "after" => "may its result be published?",
        _ => "it asks",
    }
}

/// Why a node came to its state; nothing where the state says it all.
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
        "interjection_failed" => "what an operator put in failed",
        "delta" => "a change of the plan took it out",
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

#[cfg(test)]
mod tests {
    use super::*;

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
