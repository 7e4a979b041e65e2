//! Rules of Landlock.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

use super::paths::{DEVICES, MACHINE_READ, SYSTEM_READ};
use super::spec::CageSpec;

/// The version whose rights are all asked for: the first that scopes signals and abstract sockets.
const ASKED: ABI = ABI::V6;

/// Restricts this process to what the cage shows. Fails if the kernel does not enforce all of it.
pub(super) fn restrict(spec: &CageSpec) -> Result<(), String> {
    let status = ruleset(spec).map_err(|error| format!("Landlock: {error}"))?;
    if status == RulesetStatus::FullyEnforced {
        return Ok(());
    }
    Err("Landlock: this kernel lacks it, or a part of it (Linux 6.12 has all that is asked for)".to_owned())
}

fn ruleset(spec: &CageSpec) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(ASKED);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)?
        .scope(Scope::from_all(ASKED))?;
    if !spec.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(ASKED))?;
    }
    let read = AccessFs::from_read(ASKED);
    let shown = spec.read.iter().map(|path| path.as_path());
    let mut rules = ruleset.create()?;
    for path in shown {
        rules = allow(rules, open(path), read)?;
    }
    for path in MACHINE_READ.iter().map(Path::new).chain([Path::new("/proc/self")]) {
        rules = allow(rules, of_system(path), read)?;
    }
    for path in &spec.write {
        rules = allow(rules, open(path), all & !AccessFs::IoctlDev)?;
    }
    for device in DEVICES {
        rules = allow(
            rules,
            of_system(Path::new(device)),
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev,
        )?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Opens what a cage shows. Outside of the system's folders its paths have no links: one that is there now was put there meanwhile.
fn open(path: &Path) -> Option<OwnedFd> {
    if SYSTEM_READ.iter().any(|system| path == Path::new(system)) {
        return of_system(path);
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()
}

fn of_system(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Allows access beneath a path. What is not there is left out.
fn allow(
    rules: RulesetCreated,
    opened: Option<OwnedFd>,
    access: landlock::BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Some(opened) = opened else { return Ok(rules) };
    let is_folder =
        fstat(&opened).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory);
    let access = if is_folder { access } else { access & AccessFs::from_file(ASKED) };
    rules.add_rule(PathBeneath::new(opened, access))
}
