//! Processes, and the users that run them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ostler_kernel::event::Failure;
use serde_json::{Value, json};

use super::kernel::{kibibytes, value};
use super::{FACTS_PROCESSES_MAX, Proc, bytes, list};
use crate::tool::tool_spec::structural;

#[derive(Debug)]
pub(super) struct Process {
    id: u32,
    parent: u32,
    uid: u32,
    name: String,
    state: String,
    threads: u32,
    memory_bytes: u64,
}

/// The processes, and whether there are more than [`FACTS_PROCESSES_MAX`]. A process that ends meanwhile is left out.
pub(super) fn walk(proc: &Proc<'_>) -> Result<(Vec<Process>, bool), Failure> {
    let unreadable = |error: std::io::Error| structural(format!("{}: {error}", proc.root.display()));
    let mut processes = Vec::new();
    for entry in std::fs::read_dir(&proc.root).map_err(unreadable)? {
        proc.cancel.check()?;
        let Some(id) = entry.map_err(unreadable)?.file_name().to_str().and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if processes.len() == FACTS_PROCESSES_MAX {
            return Ok((processes, true));
        }
        if let Some(process) =
            proc.read(&format!("{id}/status")).ok().and_then(|(text, _)| process(id, &text))
        {
            processes.push(process);
        }
    }
    Ok((processes, false))
}

fn process(id: u32, status: &str) -> Option<Process> {
    let number = |key: &str| value(status, key)?.split_whitespace().next()?.parse().ok();
    // Such as `S (sleeping)`.
    let state = value(status, "State")?.split_once(' ').map_or("", |(_, word)| word);
    Some(Process {
        id,
        parent: number("PPid")?,
        uid: number("Uid")?,
        name: value(status, "Name")?.to_owned(),
        state: state.trim_matches(['(', ')']).to_owned(),
        threads: number("Threads").unwrap_or(1),
        memory_bytes: kibibytes(status, "VmRSS"),
    })
}

/// The processes with the most memory first.
pub(super) fn by_memory(mut processes: Vec<Process>, is_cut: bool) -> Value {
    processes.sort_by_key(|process| (Reverse(process.memory_bytes), process.id));
    let shown = |process: &Process| {
        json!({
            "id": process.id,
            "parent": process.parent,
            "uid": process.uid,
            "name": process.name,
            "state": process.state,
            "threads": process.threads,
            "memory_bytes": bytes(process.memory_bytes),
        })
    };
    list(processes.iter().map(shown).collect(), is_cut)
}

/// The user ids that run processes, the smallest first.
pub(super) fn users(processes: &[Process], is_cut: bool) -> Value {
    let mut users: BTreeMap<u32, u64> = BTreeMap::new();
    for process in processes {
        *users.entry(process.uid).or_default() += 1;
    }
    list(users.into_iter().map(|(uid, count)| json!({"uid": uid, "processes": count})).collect(), is_cut)
}
