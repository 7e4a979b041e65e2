//! What a call starts ends with it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ostler_drivers::tool::DataFolder;
use ostler_kernel::port::CageRung;

use crate::place::{Place, as_another_user, call, sandbox, works};

/// How programs leave their call, `SLEEP` being what stays.
const WAYS: [(&str, &str); 8] = [
    ("a child in the background", "SLEEP & "),
    ("a session of its own", "setsid SLEEP &"),
    ("a double fork", "(setsid SLEEP &)"),
    ("a double fork without the environment", "(env -i setsid SLEEP &)"),
    ("a chain of sessions", "(setsid sh -c 'setsid sh -c \"env -i setsid SLEEP &\" &' &)"),
    ("deaf to signals", "trap '' HUP INT TERM; (nohup setsid SLEEP >/dev/null 2>&1 &)"),
    ("another name", "(exec -a x true; env -i setsid sh -c 'exec SLEEP' </dev/null >/dev/null 2>&1 &)"),
    (
        "python's way",
        "python3 -c 'import os\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  os.execvpe(\"sleep\",[\"sleep\",\"NUMBER\"],{\"PATH\":\"/usr/bin:/bin\"})'",
    ),
];

fn is_alive(number: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    lines.any(|line| line.split(|byte| *byte == 0).any(|word| word == number.as_bytes()))
}

fn check(rung: CageRung) {
    if !works(rung) {
        return;
    }
    for (at, (name, way)) in WAYS.iter().enumerate() {
        let number = format!("{}.{}{at}", 90_000 + rung as u32, std::process::id());
        let way = way.replace("SLEEP", &format!("sleep {number}")).replace("NUMBER", &number);
        let shown = Place::new(rung).call(&format!("{way}\nsleep 0.2; echo ended"), 1);
        let begun = Instant::now();
        while is_alive(&number) {
            assert!(begun.elapsed() < Duration::from_secs(10), "{rung}: {name} outlived its call: {shown:?}");
            std::thread::yield_now();
        }
        assert!(shown.unwrap()["stdout"].as_str().unwrap().ends_with("ended\n"), "{name}");
    }
}

#[test]
fn nothing_outlives_its_call_under_landlock() {
    check(CageRung::Landlock);
}

#[test]
fn nothing_outlives_its_call_under_bubblewrap() {
    check(CageRung::Bubblewrap);
}

#[test]
fn nothing_outlives_the_call_of_a_user_without_control_groups() {
    as_another_user("survivors::nothing_outlives_its_call_under_landlock");
    as_another_user("survivors::nothing_outlives_its_call_under_bubblewrap");
}

/// Names the workspace, for the process that is killed.
const KILLED: &str = "OSTLER_TEST_KILLED_IN";

/// Word of the command line of what the killed process started.
const NUMBER: &str = "OSTLER_TEST_KILLED_NUMBER";

fn check_killed(rung: CageRung, test: &str) {
    if let (Some(ws), Ok(number)) = (std::env::var_os(KILLED), std::env::var(NUMBER)) {
        let script = format!("(env -i setsid sleep {number} </dev/null >/dev/null 2>&1 &); sleep 1000");
        let ended = call(&PathBuf::from(ws), rung, sandbox(rung), &script, 1);
        panic!("it ended: {ended:?}");
    }
    if !works(rung) {
        return;
    }
    let place = Place::new(rung);
    let number = format!("{}.{}9", 90_000 + rung as u32, std::process::id());
    let mut holder = Command::new(std::env::current_exe().unwrap());
    holder.args(["--exact", test, "--nocapture"]).env(KILLED, place.ws()).env(NUMBER, &number);
    let mut holder = holder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !is_alive(&number) {
        assert!(
            begun.elapsed() < Duration::from_secs(60) && holder.try_wait().unwrap().is_none(),
            "it starts"
        );
        std::thread::yield_now();
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    let killed = Instant::now();
    while is_alive(&number) && killed.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    let outlived = is_alive(&number);
    DataFolder::of(&place.ws().join(".ostler")).unwrap().terminate_orphans().unwrap();
    assert!(!outlived, "{rung}: it outlived the process that held its data folder");
}

#[test]
fn nothing_outlives_a_killed_holder_under_landlock() {
    check_killed(CageRung::Landlock, "survivors::nothing_outlives_a_killed_holder_under_landlock");
}

#[test]
fn nothing_outlives_a_killed_holder_under_bubblewrap() {
    check_killed(CageRung::Bubblewrap, "survivors::nothing_outlives_a_killed_holder_under_bubblewrap");
}

#[test]
fn the_end_by_a_signal_is_told_as_such() {
    if works(CageRung::Landlock) {
        let shown = Place::new(CageRung::Landlock).call("kill -TERM $$", 1);
        assert!(format!("{shown:?}").contains("SIGTERM"), "{shown:?}");
    }
}
