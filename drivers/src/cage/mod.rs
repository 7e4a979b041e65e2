//! The cage around programs: what a program of a step may read, write and reach, and what ends with its call.
//!
//! A ladder of rungs, tried by what works: bubblewrap (namespaces of its own), Landlock with a filter of system calls, none. A
//! program is started through a helper: this binary (or one that calls [`enter`]) again, which confines itself and then becomes the
//! program. Nothing runs between fork and exec.

#[cfg(target_os = "linux")]
mod bubblewrap;
mod call_group;
mod config;
mod file_writes;
#[cfg(target_os = "linux")]
mod filter;
mod helper;
mod hidden;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod mounts;
mod notes;
mod paths;
mod place;
mod presence;
#[cfg(target_os = "linux")]
mod privileges;
mod resolver;
#[cfg(target_os = "linux")]
mod rules;
mod rungs;
mod shown;
mod spec;
mod workspaces;

pub use call_group::limits_memory_of_calls;
pub use config::{CallLimits, SandboxConfig};
pub use helper::{HELPER_COMMAND, enter};
pub use paths::{SYSTEM_READ, writable};
pub use rungs::{Reached, reached};
pub use workspaces::{Origin, Workspaces};

pub(crate) use call_group::{CallGroup, end_groups_of, owned_prefix};
pub(crate) use file_writes::FileWrites;
pub(crate) use helper::Report;
pub(crate) use presence::Presence;
pub(crate) use spec::{CageSpec, CagedCall, Cages, random_word};
