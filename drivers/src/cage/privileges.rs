//! Limits and privileges of the process.

use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use super::config::CallLimits;

const MIB: u64 = 1 << 20;

/// Sets the limits of this process and of all that it starts. Lower ones stay. `is_own_user`: the process has a user namespace, where
/// no other process of the user counts.
pub(super) fn limit(limits: &CallLimits, is_own_user: bool) -> Result<(), String> {
    let CallLimits { memory_mib, cpu_s, processes, file_mib } = *limits;
    let processes = is_own_user.then_some((Resource::Nproc, processes));
    let limits = [
        // Not address space: programs reserve much more of that than they use.
        (Resource::Data, memory_mib * MIB),
        (Resource::Cpu, cpu_s),
        (Resource::Fsize, file_mib * MIB),
        (Resource::Core, 0),
    ];
    for (resource, most) in limits.into_iter().chain(processes) {
        let most = getrlimit(resource).maximum.map_or(most, |now| now.min(most));
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| format!("the limit {resource:?}: {error}"))?;
    }
    Ok(())
}

/// Gives up every capability, for the programs that this process becomes too.
pub(super) fn drop_all() -> Result<(), String> {
    let failed = |error| format!("capabilities: {error}");
    for capability in CapabilitySet::all().iter() {
        // A kernel does not know the newest; without the right to drop, the others grant nothing under no_new_privs.
        if capability_is_in_bounding_set(capability).unwrap_or(false) {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(failed)?;
    set_no_new_privs(true).map_err(|error| format!("no_new_privs: {error}"))
}

/// The process gets killed when the thread that started it ends.
pub(super) fn end_with(parent: u32) -> Result<(), String> {
    end_with_one(parent, || getppid().map(|pid| pid.as_raw_pid().unsigned_abs()))
}

/// The same, where `find` tells the present parent.
pub(super) fn end_with_one(parent: u32, find: impl FnOnce() -> Option<u32>) -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| format!("death signal: {error}"))?;
    // In between the parent may have ended.
    if find() == Some(parent) { Ok(()) } else { Err("the process that started it has ended".to_owned()) }
}
