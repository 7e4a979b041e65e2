//! The first rung: bubblewrap.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::pipe;

use super::mounts::Separated;
use super::paths::{DEVICES, SYSTEM_READ};
use super::place::Place;
use super::spec::{CageSpec, Role};
use super::{filter, mounts};

/// Always given: namespaces, no capabilities, no terminal, an end with the parent.
const ALWAYS: [&str; 8] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--new-session",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
];

/// Settings of the kernel, which are not those of a namespace.
const SETTINGS: [&str; 7] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/mtrr", "/proc/fs", "/proc/acpi"];

/// Names of open files, which shells and their programs use.
const OPEN_FILES: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// The command that starts the program, for this process to become.
///
/// What is hidden and frozen comes with the folders that are bound, where this process has made a namespace for it: bubblewrap finds
/// its places by paths, into which another program may put a link meanwhile. Some machines give a namespace to bubblewrap alone.
pub(super) fn command(
    spec: &CageSpec,
    separated: &Separated,
    file: &Path,
    argv: &[OsString],
) -> Result<Command, String> {
    let mut command = Command::new(&spec.bubblewrap);
    command.args(ALWAYS);
    if !spec.network {
        command.arg("--unshare-net");
    }
    command.args(["--proc", "/proc"]);
    add_devices(&mut command, spec)?;
    // The root of a user namespace of root's may write these.
    for path in SETTINGS {
        command.args(["--ro-bind-try", path, path]);
    }
    // Outer folders first: a mount covers what was mounted beneath its place before.
    let is_written = |path: &&PathBuf| spec.write.iter().any(|folder| path.starts_with(folder));
    let read = spec.read.iter().filter(|path| !is_written(path));
    let mut shown: Vec<(&PathBuf, bool)> = read.map(|path| (path, false)).collect();
    // A folder beneath another one is there with it, and its path is for programs to change.
    let is_outer =
        |path: &&PathBuf| !spec.write.iter().any(|outer| outer != *path && path.starts_with(outer));
    shown.extend(spec.write.iter().filter(is_outer).map(|path| (path, true)));
    shown.sort();
    let mut places = Vec::new();
    for (path, writes) in shown {
        let is_hidden = spec.hide.iter().any(|hidden| path.starts_with(hidden));
        if !is_system(path) && !is_hidden {
            // A path that leads nowhere is left out: a folder that came there later would be shown.
            let Ok(place) = Place::without_links(path) else { continue };
            places.push(place);
        }
        show(&mut command, path, writes);
    }
    // Programs know the folders by these names too. A link within a shown folder is there with it.
    let is_shown = |path: &Path| spec.read.iter().chain(&spec.write).any(|shown| path.starts_with(shown));
    for (path, target) in spec.links.iter().filter(|(path, _)| !is_shown(path)) {
        command.arg("--symlink").arg(target).arg(path);
    }
    if matches!(separated, Separated::Impossible(_)) {
        keep(&mut command, spec);
    }
    let folder = std::env::current_dir().map_err(|error| format!("its folder: {error}"))?;
    if places.iter().any(|place| place.holds(&folder)) {
        places.push(Place::found(Path::new("."))?);
    }
    command.args(["--remount-ro", "/"]).arg("--chdir").arg(folder);
    for filter in filter::bytes(spec)? {
        let number = inherited(&filter).map_err(|error| format!("seccomp: {error}"))?;
        command.arg("--add-seccomp-fd").arg(number.to_string());
    }
    // The limit of processes is set from within: outside, all processes of the user count.
    let helper = open("/proc/self/exe", OFlags::PATH, Mode::empty()).and_then(handed_on);
    let helper = helper.map_err(|error| format!("the helper: {error}"))?;
    let within = spec.within(places).command_by(Path::new(&format!("/proc/self/fd/{helper}")), file, argv)?;
    command.arg("--").arg(within.get_program()).args(within.get_args());
    Ok(command)
}

/// Hides and freezes what lies beneath the folders that are bound.
fn keep(command: &mut Command, spec: &CageSpec) {
    for path in &spec.pin {
        command.args([OsStr::new("--bind"), path.as_os_str(), path.as_os_str()]);
    }
    for path in &spec.freeze {
        command.args([OsStr::new("--ro-bind"), path.as_os_str(), path.as_os_str()]);
    }
    for path in &spec.hide {
        command.args([OsStr::new("--tmpfs"), path.as_os_str(), OsStr::new("--remount-ro"), path.as_os_str()]);
    }
}

impl CageSpec {
    /// For the helper in the namespaces of bubblewrap. Their first process shows its arguments to the program, so they hold neither the
    /// nonce nor the paths of what is hidden.
    fn within(&self, places: Vec<Place>) -> CageSpec {
        let nothing = Path::new("");
        let trial = CageSpec::trial(self.rung, Role::Within(places), nothing, nothing);
        CageSpec { nonce: String::new(), read: Vec::new(), limits: self.limits, ..trial }
    }
}

/// The devices that only compute, and nothing to write in beside them: bubblewrap's own folder of devices is memory without a limit,
/// and makes terminals. Memory that programs share by name is in the temporary folder of the call.
fn add_devices(command: &mut Command, spec: &CageSpec) -> Result<(), String> {
    let devices = DEVICES.iter().map(Path::new).filter(|device| device.exists());
    mounts::keep_devices(devices.clone())?;
    command.args(["--tmpfs", "/dev"]);
    for device in devices {
        command.arg("--dev-bind").arg(device).arg(device);
    }
    for (target, name) in OPEN_FILES {
        command.args(["--symlink", target, name]);
    }
    let temporary = std::env::var_os("TMPDIR").and_then(|folder| Path::new(&folder).canonicalize().ok());
    if let Some(folder) = temporary.filter(|folder| spec.write.contains(folder)) {
        command.arg("--bind").arg(folder).arg("/dev/shm");
    }
    command.args(["--remount-ro", "/dev"]);
    Ok(())
}

fn is_system(path: &Path) -> bool {
    SYSTEM_READ.iter().any(|system| path == Path::new(system))
}

fn show(command: &mut Command, path: &Path, writes: bool) {
    match std::fs::read_link(path) {
        // `/bin` is a link to `usr/bin`: programs see it as such.
        Ok(target) if path.parent() == Some(Path::new("/")) => {
            command.arg("--symlink").arg(target).arg(path);
        }
        _ => {
            let how = if writes { "--bind-try" } else { "--ro-bind-try" };
            command.arg(how).arg(path).arg(path);
        }
    }
}

/// A pipe with these bytes, which the next program of this process inherits; its number.
fn inherited(bytes: &[u8]) -> std::io::Result<i32> {
    let (read, write) = pipe()?;
    // A filter is smaller than the buffer of a pipe.
    File::from(write).write_all(bytes)?;
    Ok(handed_on(read)?)
}

/// The number of a descriptor, which the next program of this process inherits.
fn handed_on(opened: OwnedFd) -> rustix::io::Result<i32> {
    fcntl_setfd(&opened, FdFlags::empty())?;
    Ok(opened.into_raw_fd())
}
