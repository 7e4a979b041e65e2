//! Full disks, and limits on file sizes.

use super::data_folder::{RUN, world};
use super::is_well;
use super::world::{World, until};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// SIGXFSZ must not end a command.
#[test]
fn a_limit_to_the_length_of_files_is_told_as_a_full_disk_is() {
    let world = world();
    let limited = |blocks: u32, line: &str| {
        let limit = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limit]).arg(env!("CARGO_BIN_EXE_ostler")).args(line.split_whitespace());
        command
            .current_dir(world.path())
            .env("OSTLER_DATA", world.data())
            .env("XDG_CONFIG_HOME", world.config())
            .env_remove("OSTLER_CONFIG");
        command
    };
    let ended = limited(64, RUN).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("the disk is full: File too large"), "{said}");
    assert_eq!(ended.status.code(), Some(5), "{said}");
    world.ostler(RUN).exits(0).says("succeeded  short");
    is_well(&world);
    for line in ["ps", "help run", "run --help"] {
        let told = fs::File::create(world.path().join("told")).unwrap();
        let ended = limited(0, line).stdout(told).output().unwrap();
        assert!(ended.status.code().is_some(), "{line}: {}", ended.status);
    }
}

/// A small file system, unmounted on drop.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(place: &Path, size: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(place);
        mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn resize(&self, size: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={size}")]).arg(self.0);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// A chain of effectful nodes with results inside and outside the journal, which exceed the space.
fn chain(world: &World) {
    let mut plan = "id: long\nnodes:\n".to_owned();
    for at in 0..STEPS {
        let after = if at == 0 { String::new() } else { format!(", deps: [n{}]", at - 1) };
        let bytes = if at % 2 == 0 { 3_500 } else { 200_000 };
        let program = format!("echo {at} >> log; yes {at} xxxxxxxxxxxxxxxxxxxxxxx | head -c {bytes}");
        plan += &format!(
            "  - {{id: n{at}, tool: shell.run, params: {{argv: [sh, -c, '{program}']}}{after}, retries: 0}}\n"
        );
    }
    world.file("long.yaml", &plan);
}

/// Enough nodes to exceed the preallocated space of the journal.
const STEPS: usize = 150;

/// Completed nodes, in order.
fn done(world: &World) -> Vec<String> {
    world.work("log").lines().map(str::to_owned).collect()
}

fn all() -> Vec<String> {
    (0..STEPS).map(|at| at.to_string()).collect()
}

const WAITS: &str = "writes wait for space";

/// A running command with its output in one file.
struct Aside {
    child: std::process::Child,
    said_in: std::path::PathBuf,
}

impl Aside {
    fn start(world: &World, line: &str) -> Aside {
        let said_in = world.path().join("said");
        let file = fs::File::create(&said_in).unwrap();
        let child = world.command(line).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Aside { child, said_in }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said_in).unwrap_or_default()
    }

    fn until(&self, text: &str) {
        until(text, || self.said().contains(text));
    }

    fn end(&mut self) -> Option<i32> {
        until("it ends", || {
            fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap().contains(") Z ")
        });
        self.child.wait().unwrap().code()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A world with a data folder of this size; `None` if mounting is impossible.
fn small_world(size: &str) -> Option<World> {
    let world = World::new();
    fs::create_dir(world.data()).unwrap();
    if !SmallDisk::mount(&world.data(), size) {
        eprintln!("skipped: this user may write anywhere, but mount nothing");
        return None;
    }
    chain(&world);
    Some(world)
}

#[test]
fn a_run_waits_while_the_disk_is_full_and_goes_on_when_there_is_room() {
    let Some(world) = small_world("12m") else { return };
    let data = world.data();
    let disk = SmallDisk(&data);
    let mut run = Aside::start(&world, "run long.yaml --workspace work --intent 2");
    run.until(WAITS);
    assert!(done(&world).len() < STEPS);
    world.ostler("ps").exits(0).says("long").complains(WAITS);
    disk.resize("64m");
    assert_eq!(run.end(), Some(0), "{}", run.said());
    assert_eq!(done(&world), all(), "nothing was done twice");
    is_well(&world);
}

#[test]
fn a_run_that_is_ended_while_the_disk_is_full_goes_on_later_and_does_nothing_twice() {
    let Some(world) = small_world("12m") else { return };
    let data = world.data();
    let disk = SmallDisk(&data);
    let mut run = Aside::start(&world, "run long.yaml --workspace work --intent 2");
    run.until("n3 ");
    let mut filler = fs::File::create(data.join("filler")).unwrap();
    while std::io::Write::write_all(&mut filler, &[1; 4096]).is_ok() {}
    run.until(WAITS);
    Command::new("kill").args(["-s", "INT", &run.child.id().to_string()]).status().unwrap();
    assert_eq!(run.end(), Some(130), "{}", run.said());
    disk.resize("64m");
    world.ostler("doctor").exits(0).says("nothing is broken");
    let resumed = world.ostler("resume");
    // A node whose result could not be written before the process was killed is in doubt.
    if resumed.code == Some(3) {
        let (node, line) = (done(&world).len() - 1, "resolve @last");
        world.file("result.json", r#"{"status": 0, "stdout": "", "stderr": ""}"#);
        let resumed = resumed.says("in doubt");
        world.ostler(&format!("{line} n{node} --done result.json")).says("succeeded  long");
        drop(resumed);
    } else {
        resumed.exits(0);
    }
    assert_eq!(done(&world), all(), "nothing was done twice");
    is_well(&world);
}
