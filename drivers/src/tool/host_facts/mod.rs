//! `host.facts`: describes the machine, from `/proc` and `statvfs` alone.

mod disks;
mod kernel;
mod ports;
mod processes;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::port::{CallContext, Tool, ToolResult, WorkspaceUse};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::blocking_tool::{BlockingTool, CancelFlag};
use super::tool_spec::{READ, object, spec, structural};

/// Maximum entries of a list.
pub const FACTS_ITEMS_MAX: usize = 200;
/// Maximum processes that are read.
pub const FACTS_PROCESSES_MAX: usize = 8_192;
/// Maximum bytes of a file in `/proc`; the rest is left out.
pub const FACTS_FILE_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    topics: Option<BTreeSet<Topic>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Topic {
    Kernel,
    Memory,
    Disks,
    Ports,
    Processes,
    Users,
}

impl Topic {
    const ALL: [Topic; 6] =
        [Topic::Kernel, Topic::Memory, Topic::Disks, Topic::Ports, Topic::Processes, Topic::Users];
}

/// Reads facts of the machine without starting a program. Command lines and environments of processes are not read: they may
/// hold secrets. Users are the ids that processes run as; their names stand outside of `/proc`.
pub(super) fn tool() -> Arc<dyn Tool> {
    let description = "Describe the machine: kernel, memory, disks, listening ports, processes by memory, and the user ids \
                       that run them. Linux only. Starts no program. Lists have at most 200 items; `total` counts all.";
    let list = object(
        &["items", "total", "truncated"],
        json!({
            "items": {"type": "array", "items": {"type": "object"}},
            "total": {"type": "integer", "minimum": 0},
            "truncated": {"type": "boolean"},
        }),
    );
    Arc::new(BlockingTool::<Params> {
        spec: spec(
            "host.facts",
            description,
            object(
                &[],
                json!({
                    "topics": {
                        "type": "array",
                        "items": {"enum": ["kernel", "memory", "disks", "ports", "processes", "users"]},
                        "minItems": 1,
                        "uniqueItems": true,
                    },
                }),
            ),
            object(
                &[],
                json!({
                    "kernel": {"type": "object"},
                    "memory": {"type": "object"},
                    "disks": list,
                    "ports": list,
                    "processes": list,
                    "users": list,
                }),
            ),
        ),
        class: |_| READ,
        workspace_use: WorkspaceUse::NONE,
        check: |_| Vec::new(),
        work: Arc::new(|params: &Params, _: &CallContext, cancel: &CancelFlag| {
            supported(std::env::consts::OS)?;
            let topics = params.topics.clone().unwrap_or_else(|| Topic::ALL.into());
            facts(&topics, &Proc { root: "/proc".into(), cancel })
        }),
    })
}

fn supported(system: &str) -> Result<(), Failure> {
    if system == "linux" {
        return Ok(());
    }
    Err(structural(format!(
        "host.facts reads /proc of Linux, and this system is {system}: ask a program with shell.run instead"
    )))
}

fn facts(topics: &BTreeSet<Topic>, proc: &Proc<'_>) -> ToolResult {
    let mut facts = Map::new();
    let mut add = |name: &str, value: Value| facts.insert(name.to_owned(), value);
    for topic in topics {
        match topic {
            Topic::Kernel => add("kernel", kernel::kernel(proc)?),
            Topic::Memory => add("memory", kernel::memory(proc)?),
            Topic::Disks => add("disks", disks::disks(proc)?),
            Topic::Ports => add("ports", ports::ports(proc)?),
            Topic::Processes | Topic::Users => continue,
        };
    }
    // Processes and users are two views of one walk.
    if topics.contains(&Topic::Processes) || topics.contains(&Topic::Users) {
        let (found, is_cut) = processes::walk(proc)?;
        if topics.contains(&Topic::Users) {
            add("users", processes::users(&found, is_cut));
        }
        if topics.contains(&Topic::Processes) {
            add("processes", processes::by_memory(found, is_cut));
        }
    }
    Ok(Value::Object(facts))
}

/// The folder `/proc`.
struct Proc<'a> {
    root: PathBuf,
    cancel: &'a CancelFlag,
}

impl Proc<'_> {
    /// Text of a file, and whether it is cut at [`FACTS_FILE_BYTES_MAX`], after a whole line.
    fn read(&self, name: &str) -> Result<(String, bool), Failure> {
        self.cancel.check()?;
        let path = self.root.join(name);
        let mut bytes = Vec::new();
        let limit = FACTS_FILE_BYTES_MAX as u64 + 1;
        let read = File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        read.map_err(|error| {
            let path = path.display();
            structural(format!("{path}: {error}; give `topics` without the one that needs the file"))
        })?;
        let is_cut = bytes.len() > FACTS_FILE_BYTES_MAX;
        if is_cut {
            bytes.truncate(memchr::memrchr(b'\n', &bytes).unwrap_or(0));
        }
        Ok((String::from_utf8_lossy(&bytes).into_owned(), is_cut))
    }

    /// Text of a file of one line.
    fn line(&self, name: &str) -> Result<String, Failure> {
        Ok(self.read(name)?.0.trim().to_owned())
    }
}

/// The first items of a list.
fn list(mut items: Vec<Value>, is_cut: bool) -> Value {
    let total = items.len();
    items.truncate(FACTS_ITEMS_MAX);
    json!({"items": items, "total": total, "truncated": is_cut || total > FACTS_ITEMS_MAX})
}

/// A number of bytes that JSON can carry: virtual file systems claim impossible sizes.
fn bytes(number: u64) -> Value {
    const JSON_INTEGER_MAX: u64 = (1 << 53) - 1;
    number.min(JSON_INTEGER_MAX).into()
}

#[cfg(test)]
mod tests;
