//! The control group of a call: whatever its program starts is in it, and ends with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::config::CallLimits;

/// Begins the name of every group.
const PREFIX: &str = "ostler-";

/// Passes of removing a group whose processes were killed and take a moment to end.
const ROUNDS_MAX: usize = 500;

const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Groups of one call: in the unified hierarchy, which kills, and in those of old that limit where the unified one does not.
#[derive(Debug)]
pub(crate) struct CallGroup {
    folders: Vec<PathBuf>,
    /// A group of these limits the memory of the whole call.
    limits_memory: bool,
}

/// Whether the memory of a whole call has a limit on this machine: calls get a control group for it.
pub fn limits_memory_of_calls() -> bool {
    CallGroup::make("", CallLimits::default()).is_some_and(|group| {
        group.remove();
        group.limits_memory
    })
}

/// Where this process may make groups.
#[derive(Debug, Clone, Default)]
struct Hierarchies {
    unified: Option<PathBuf>,
    pids: Option<PathBuf>,
    memory: Option<PathBuf>,
}

impl CallGroup {
    /// A new group; `None` where none can be had. `owner` names the data folder.
    pub(crate) fn make(owner: &str, limits: CallLimits) -> Option<CallGroup> {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{}-{call}", owned_prefix(owner), std::process::id());
        let Hierarchies { unified, pids, memory } = hierarchies();
        let folder = unified.as_ref()?.join(&name);
        fs::create_dir(&folder).ok()?;
        let mut group = CallGroup { folders: vec![folder.clone()], limits_memory: false };
        if !folder.join("cgroup.kill").exists() {
            group.remove();
            return None;
        }
        let bytes = limits.memory_mib << 20;
        let limit =
            |folder: &Path, file: &str, most: u64| fs::write(folder.join(file), most.to_string()).is_ok();
        if limit(&folder, "memory.max", bytes) {
            limit(&folder, "memory.swap.max", 0);
            group.limits_memory = true;
        } else if let Some(folder) = memory.as_ref().map(|memory| memory.join(&name)) {
            group.limits_memory =
                group.add_limiting(folder, |folder| limit(folder, "memory.limit_in_bytes", bytes));
        }
        if !limit(&folder, "pids.max", limits.processes)
            && let Some(folder) = pids.as_ref().map(|pids| pids.join(&name))
        {
            group.add_limiting(folder, |folder| limit(folder, "pids.max", limits.processes));
        }
        Some(group)
    }

    /// Returns whether it limits now.
    fn add_limiting(&mut self, folder: PathBuf, limit: impl FnOnce(&Path) -> bool) -> bool {
        if fs::create_dir(&folder).is_err() {
            return false;
        }
        let limits = limit(&folder);
        if limits {
            self.folders.push(folder);
        } else {
            let _ = fs::remove_dir(&folder);
        }
        limits
    }

    /// Files through which a process enters.
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// Kills all that is in it.
    pub(crate) fn kill(&self) {
        // Fails only if the group is gone.
        let _ = fs::write(self.folders[0].join("cgroup.kill"), "1");
    }

    /// Kills all that is in it, and removes it once that has ended.
    pub(crate) fn end(self) {
        self.kill();
        self.remove();
    }

    fn remove(&self) {
        for folder in &self.folders {
            for _ in 0..ROUNDS_MAX {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(POLL_INTERVAL)
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Kills what is left in the groups of a data folder, and removes those that are empty. Returns the ids of the processes that were
/// in them.
pub(crate) fn end_groups_of(owner: &str) -> Vec<i32> {
    let Hierarchies { unified, pids, memory } = hierarchies();
    let prefix = owned_prefix(owner);
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for hierarchy in [unified, pids, memory].into_iter().flatten() {
        for entry in fs::read_dir(hierarchy).into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().starts_with(&prefix) {
                continue;
            }
            let group = entry.path();
            let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            found.extend(members.lines().filter_map(|line| line.parse::<i32>().ok()));
            // Whoever came of such a program ends nothing, and is refused by its caller.
            if !members.lines().any(|line| line == own) {
                let _ = fs::write(group.join("cgroup.kill"), "1");
                let _ = fs::remove_dir(&group);
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Begins the names of what calls of a data folder make outside of it.
pub(crate) fn owned_prefix(owner: &str) -> String {
    let digest = blake3::hash(owner.as_bytes()).to_hex();
    format!("{PREFIX}{}-", &digest[..16])
}

fn hierarchies() -> &'static Hierarchies {
    static FOUND: OnceLock<Hierarchies> = OnceLock::new();
    FOUND.get_or_init(|| {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        found(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    })
}

/// The folders of the process's own groups, from `/proc/self/mountinfo` and `/proc/self/cgroup`.
fn found(mounts: &str, groups: &str) -> Hierarchies {
    let mut found = Hierarchies::default();
    for mount in mounts.lines() {
        let Some((left, right)) = mount.split_once(" - ") else { continue };
        let mut left = left.split(' ').skip(3);
        let (Some(root), Some(place)) = (left.next(), left.next()) else { continue };
        let mut right = right.split(' ');
        let (kind, options) = (right.next().unwrap_or_default(), right.nth(1).unwrap_or_default());
        let own = |controller: &str| {
            let group = groups.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers.split(',').any(|it| it == controller).then_some(path)
            })?;
            let beneath = Path::new(group).strip_prefix(root).ok()?;
            Some(Path::new(place).join(beneath))
        };
        let limits = |controller: &str| kind == "cgroup" && options.split(',').any(|it| it == controller);
        if kind == "cgroup2" {
            found.unified = own("");
        } else if limits("pids") {
            found.pids = own("pids");
        } else if limits("memory") {
            found.memory = own("memory");
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_in_both_kinds_of_hierarchy() {
        let mounts = "30 1 0:1 / /sys/fs/cgroup rw - tmpfs cgroup rw
31 30 0:2 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
32 30 0:3 /outer /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
        let found = found(mounts, "8:pids:/\n4:memory:/outer/inner\n0::/user.slice\n");
        assert_eq!(found.unified, Some("/sys/fs/cgroup/unified/user.slice".into()));
        assert_eq!(found.pids, Some("/sys/fs/cgroup/pids".into()));
        assert_eq!(found.memory, Some("/sys/fs/cgroup/memory/inner".into()));
    }
}
