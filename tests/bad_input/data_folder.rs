//! Unusual data folders, and concurrent access to one.

use super::is_well;
use super::world::World;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const SHORT: &str = "id: short\nnodes:\n  - {id: a, tool: fs.list, params: {path: .}}\n";

pub(super) const RUN: &str = "run short.yaml --workspace work";

pub(super) fn world() -> World {
    let world = World::new();
    world.file("short.yaml", SHORT);
    world
}

#[test]
fn processes_that_want_one_data_folder_share_it() {
    let world = world();
    let all: Vec<_> = (0..4).map(|_| world.start(RUN)).collect();
    for run in all {
        run.end().exits(0).says("succeeded  short");
    }
    assert_eq!(world.ostler("ps --json").exits(0).lines().len(), 4);
    is_well(&world);
}

#[test]
fn a_holder_that_is_suspended_is_named_and_nothing_is_lost() {
    let world = world();
    world.file("long.yaml", "id: long\nnodes:\n  - {id: nap, tool: time.sleep, params: {ms: 600000}}\n");
    let mut holder = world.start("run long.yaml --workspace work");
    holder.until("opened: long");
    holder.signal("STOP");
    world.ostler(RUN).exits(4).complains("is held by process").complains("nothing is lost");
    world.ostler("doctor").exits(4).says("which does not answer").says("wait for it, or end it");
    holder.signal("CONT");
    world.ostler(RUN).exits(0);
    world.ostler("cancel @last").exits(2);
    holder.signal("TERM");
    holder.end().exits(143);
    is_well(&world);
}

#[test]
fn a_newer_format_and_a_foreign_folder_are_refused_and_kept() {
    let world = world();
    world.ostler(RUN).exits(0);
    let format = world.data().join("format");
    let ours = fs::read_to_string(&format).unwrap();
    for (text, says) in [
        (
            "ostler-store 99\n",
            "has format 99, this program knows up to 17: a newer one wrote it; use that version; if no other version has ever",
        ),
        ("something else\n", "has a damaged format file, which says \"something else\\n\""),
        ("", "has a damaged format file, which says \"\""),
    ] {
        fs::write(&format, text).unwrap();
        for line in [RUN, "ps", "show @last", "resume"] {
            world.ostler(line).exits(4).complains(says);
        }
        world.ostler("doctor").exits(4).says(says.split_once("; ").map_or(says, |(what, _)| what));
        assert_eq!(fs::read_to_string(&format).unwrap(), text);
    }
    fs::write(&format, ours).unwrap();
    is_well(&world);
    assert_eq!(world.ostler("ps --json").exits(0).lines().len(), 1);
}

#[test]
fn a_folder_of_something_else_is_not_filled() {
    let world = world();
    fs::create_dir(world.path().join("home")).unwrap();
    fs::write(world.path().join("home/letter"), "dear").unwrap();
    let says = "is not a data folder: letter is in it; --data names another folder";
    for line in [RUN, "ps", "show @last", "gc"] {
        world.ostler(&format!("{line} --data home")).exits(4).complains(says);
        world
            .ostler(&format!("{line} --data home/letter"))
            .exits(4)
            .complains("is not a folder; --data names");
    }
    world
        .ostler("doctor --data home")
        .exits(4)
        .says("✘ data folder    home is not a data folder: letter is in");
    world.ostler("doctor --data home/letter").exits(4).says("✘ data folder    home/letter is not a folder");
    assert_eq!(fs::read_dir(world.path().join("home")).unwrap().count(), 1);
    // A half-created data folder is completed.
    fs::create_dir_all(world.path().join("begun/journal")).unwrap();
    fs::write(world.path().join("begun/format.new"), "ost").unwrap();
    world.ostler(&format!("{RUN} --data begun")).exits(0);
}

#[test]
fn a_file_in_the_place_of_a_folder_of_ours_is_told_in_the_same_words_everywhere() {
    let world = world();
    for part in ["journal", "artifacts"] {
        world.ostler(&format!("{RUN} --data {part}")).exits(0);
        let place = world.path().join(part).join(part);
        fs::remove_dir_all(&place).unwrap();
        fs::write(&place, "dear").unwrap();
        let says = format!("{part}/{part} is not a folder");
        for line in [RUN, "ps", "show @last", "gc", "gc --apply", "market ls"] {
            let told = world.ostler(&format!("{line} --data {part}"));
            told.exits(4).complains(&format!("error: {says}; --data names another folder"));
        }
        for line in ["doctor", "doctor --repair"] {
            let told = world.ostler(&format!("{line} --data {part}"));
            told.exits(4).says(&format!("✘ journal        {says}"));
        }
        assert_eq!(fs::read_to_string(&place).unwrap(), "dear");
    }
    fs::create_dir(world.path().join("new")).unwrap();
    fs::write(world.path().join("new/journal"), "dear").unwrap();
    world.ostler(&format!("{RUN} --data new")).exits(4).complains("new/journal is not a folder");
    assert_eq!(fs::read_dir(world.path().join("new")).unwrap().count(), 1, "something was made");
}

#[test]
fn where_only_the_index_is_left_everybody_says_that_the_records_are_gone() {
    let world = world();
    let (data, left) = (world.data(), world.path().join("left"));
    // The index may lag behind the journal at exit; the next process catches up.
    let knows = (0..20).any(|_| {
        world.ostler(RUN).exits(0);
        fs::create_dir_all(&left).unwrap();
        fs::copy(data.join("index.redb"), left.join("index.redb")).unwrap();
        world.ostler("ps --data left").exits(0).out.contains("succeeded")
    });
    assert!(knows);
    // The first run may leave anything behind.
    for _ in 0..2 {
        world.ostler("doctor --data left").exits(4).says("the end is missing");
        world.ostler("ps --data left").exits(0).says("succeeded").complains("the end is missing");
        world.ostler(&format!("{RUN} --data left")).exits(4).complains("the end is missing");
    }
    world.ostler("doctor --repair --data left").exits(0);
    world.ostler(&format!("{RUN} --data left")).exits(0);
}

/// Changes the modes of a folder and of everything below it.
fn chmod(path: &Path, folder: u32, file: u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_dir() {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        fs::read_dir(path).unwrap().for_each(|entry| chmod(&entry.unwrap().path(), folder, file));
        fs::set_permissions(path, Permissions::from_mode(folder)).unwrap();
    } else if metadata.is_file() {
        fs::set_permissions(path, Permissions::from_mode(file)).unwrap();
    }
}

/// Runs the command as a user without write access; `None`, with the reason printed, if that is impossible.
fn as_nobody(world: &World, line: &str) -> Option<Command> {
    let own = world.command(line);
    let probe = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(own.get_program())
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !probe.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this user may write anywhere, and cannot become one that may not");
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    Some(behind(command, world, line))
}

/// Runs the command on a read-only mount; `None`, with the reason printed, if that is impossible.
fn where_mounted_read_only(world: &World, line: &str) -> Option<Command> {
    let mounted = || {
        let mut command = Command::new("unshare");
        let script = "mount --bind data data && mount -o remount,bind,ro data && exec \"$0\" \"$@\"";
        command.args(["--map-root-user", "--mount", "sh", "-c", script]);
        command
    };
    let mut probe = mounted();
    probe.arg("true").current_dir(world.path()).stdout(Stdio::null()).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: this user cannot mount a folder so that it may only be read");
        return None;
    }
    Some(behind(mounted(), world, line))
}

/// Starts the command through another one.
fn behind(mut command: Command, world: &World, line: &str) -> Command {
    let own = world.command(line);
    command.arg(own.get_program()).args(own.get_args()).current_dir(world.path()).stdin(Stdio::null());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn a_data_folder_that_may_only_be_read_is_named_and_left_alone() {
    let world = world();
    world.ostler(RUN).exits(0);
    chmod(world.path(), 0o555, 0o444);
    for line in [RUN, "ps", "resume"] {
        let Some(mut command) = as_nobody(&world, line) else {
            chmod(world.path(), 0o755, 0o644);
            return;
        };
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{line}: {said}");
        assert!(said.contains("data may only be read"), "{line}: {said}");
    }
    for (line, says, last) in [
        ("doctor", "is read-only: its runs were not checked", "1 check failed"),
        ("doctor --json", "is read-only: its runs were not checked", "\"name\":\"runs\""),
        ("doctor --repair", "nothing was repaired", "checks failed"),
    ] {
        let output = as_nobody(&world, line).unwrap().output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains(says) && told.lines().last().unwrap().contains(last), "{line}: {told}");
        assert!(told.contains("copy it to a writable place") && !told.contains("restore a backup"), "{told}");
        assert_eq!(
            (output.status.code(), &*String::from_utf8_lossy(&output.stderr)),
            (Some(4), ""),
            "{line}"
        );
    }
    chmod(world.path(), 0o755, 0o644);
    is_well(&world);
}

#[test]
fn a_data_folder_that_is_mounted_to_be_read_only_is_verified() {
    let world = world();
    world.ostler(RUN).exits(0);
    let Some(mut command) = where_mounted_read_only(&world, "doctor") else { return };
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    for says in ["all checksums are correct", "is read-only: its runs were not checked"] {
        assert!(told.contains(says), "{told}");
    }
    is_well(&world);
}

#[test]
fn records_without_a_format_file_are_told_of_by_whoever_comes_first() {
    let world = world();
    world.ostler(RUN).exits(0);
    let format = world.data().join("format");
    for line in ["ps", "show @last", RUN] {
        fs::remove_file(&format).unwrap();
        world.ostler(line).exits(0).complains("the format file was missing, and was written again");
        assert!(format.exists());
        world.ostler("ps").exits(0);
    }
    fs::remove_file(&format).unwrap();
    world.ostler("doctor").exits(0).says("! format         the format file is missing").says("✔ runs");
    is_well(&world);
}

/// Bytes of the first segment, without trailing zeros.
fn used(world: &World) -> u64 {
    let bytes = fs::read(world.data().join("journal/0000000001.seg")).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1
}

#[test]
fn who_looks_at_a_journal_whose_end_is_gone_is_shown_what_is_whole() {
    let world = world();
    (0..3).for_each(|_| drop(world.ostler(RUN).exits(0)));
    let runs = world.ostler("ps --json").exits(0).lines();
    let first = runs.iter().map(|line| line["run"].as_str().unwrap()).min().unwrap().to_owned();
    let segment = world.data().join("journal/0000000001.seg");
    let cut = |len: u64| fs::File::options().write(true).open(&segment).unwrap().set_len(len).unwrap();
    for (len, is_whole) in [(used(&world) - 46, true), (0, false)] {
        cut(len);
        let before = fs::read(&segment).unwrap();
        for line in [RUN, "resume", "client add acme", "gc --apply --older-than 1ms"] {
            world.ostler(line).exits(4).complains("the end is missing").complains("nothing was written");
        }
        for line in ["ps", "ps --clients", "ps --agents", "agents", "approvals", "market ls"] {
            world
                .ostler(line)
                .exits(0)
                .complains("the end is missing")
                .complains("`ostler doctor` reports what");
        }
        assert_eq!(world.ostler("ps --json").exits(0).lines().len(), 3);
        for line in [format!("show {first}"), format!("events {first}"), format!("artifact {first}/a")] {
            let ended = world.ostler(&line);
            let ended = if is_whole { ended.exits(0) } else { ended.exits(4) };
            ended.complains("the end is missing");
        }
        world.ostler("show @last").exits(4).complains("the journal is damaged at segment 1, offset");
        let told = world.ostler("doctor").exits(4).says("the end is missing");
        assert!(!told.out.contains("the next run drops"), "{}", told.out);
        assert!(fs::read(&segment).unwrap() == before, "it was written to");
    }
    let told = world.ostler("doctor --repair").exits(0).says("the end is missing");
    assert!(!told.out.contains("the next run drops"), "{}", told.out);
    is_well(&world);
}

#[test]
fn a_data_folder_that_cannot_be_made_is_not_told_to_be_one_that_may_only_be_read() {
    let world = world();
    chmod(world.path(), 0o555, 0o444);
    let made = as_nobody(&world, RUN).map(|mut command| command.output().unwrap());
    chmod(world.path(), 0o755, 0o644);
    let Some(output) = made else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("cannot be created") && said.contains("name another with --data"), "{said}");
}

/// Commands that read or use a data folder.
const LOOKS: [&str; 8] = [RUN, "ps", "approvals", "top", "gc", "resume", "doctor", "market ls"];

#[test]
fn a_data_folder_that_may_not_be_entered_is_not_taken_for_none() {
    let world = world();
    world.ostler(RUN).exits(0);
    chmod(world.path(), 0o755, 0o644);
    fs::set_permissions(world.data(), Permissions::from_mode(0o700)).unwrap();
    for line in LOOKS {
        let Some(mut command) = as_nobody(&world, line) else { return };
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{line}: {said}");
        assert!(said.contains("data: cannot be read: Permission denied"), "{said}");
        assert!(said.contains("run as its owner, or name another with --data"), "{line}: {said}");
    }
}

#[test]
fn a_data_folder_that_leads_nowhere_else_than_to_itself_is_not_taken_for_none() {
    let world = world();
    std::os::unix::fs::symlink("data", world.data()).unwrap();
    for line in LOOKS {
        world.ostler(line).exits(4).complains("cannot be read");
    }
}

#[test]
fn a_data_folder_that_is_a_link_to_nothing_is_told_as_that() {
    let world = world();
    std::os::unix::fs::symlink("gone", world.path().join("link")).unwrap();
    let says = "link is a link that leads nowhere: gone is not there; create that folder, or name another with --data";
    for line in LOOKS.into_iter().filter(|line| *line != "doctor") {
        for place in ["link", "link/", "link/below"] {
            world.ostler(&format!("{line} --data {place}")).exits(4).complains(says);
        }
    }
    let told = world.ostler("doctor --data link").exits(4);
    told.says("✘ data folder    link is a link that leads nowhere: gone is not there")
        .says("→ create that folder");
    assert!(!world.path().join("gone").exists(), "it was made");
    fs::create_dir(world.path().join("gone")).unwrap();
    world.ostler(&format!("{RUN} --data link")).exits(0);
}

#[test]
fn where_there_is_no_data_folder_lists_are_empty_and_names_unknown() {
    let world = world();
    for line in [
        "ps",
        "approvals",
        "top",
        "agents",
        "market ls",
        "pipeline ps",
        "gc",
        "gc --apply",
        "resume",
        "ps --agents",
    ] {
        world.ostler(line).exits(0).complains("yet: no data folder at");
        assert_eq!(world.ostler(&format!("{line} --json")).exits(0).err, "", "{line}");
    }
    let gone = &world.ostler("gc --json").exits(0).lines()[0];
    assert_eq!((&gone["type"], &gone["runs"]), (&"gc".into(), &serde_json::json!([])));
    for line in [
        "resume @last",
        "show @last",
        "pipeline ps p",
        "agents --like a",
        "credit acme",
        "market offer jurist --price 5",
    ] {
        world.ostler(line).exits(2).complains("yet: no data folder at");
    }
    assert!(!world.data().exists(), "nothing was made");
}
