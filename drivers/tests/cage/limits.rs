//! Limits of a call.

use std::time::{Duration, Instant};

use ostler_drivers::cage::CallLimits;
use ostler_kernel::port::CageRung;

use crate::place::{Place, as_another_user, sandbox, works};

fn small() -> CallLimits {
    CallLimits { memory_mib: 64, cpu_s: 1, processes: 20, file_mib: 1 }
}

/// Runs a script under small limits on each rung that works.
fn under_limits(script: &str, judge: impl Fn(&Place, String)) {
    for rung in [CageRung::Landlock, CageRung::Bubblewrap] {
        if !works(rung) {
            continue;
        }
        let place = Place::new(rung);
        let mut config = sandbox(rung);
        config.limits = small();
        let begun = Instant::now();
        let ended = place.call_with(config, script, 1);
        assert!(begun.elapsed() < Duration::from_secs(30), "{rung}: it takes {:?}", begun.elapsed());
        judge(&place, format!("{rung}: {ended:?}"));
    }
}

#[test]
fn memory_ends_at_its_limit() {
    under_limits("tail -n 1 /dev/zero; echo status $?", |_, shown| {
        assert!(!shown.contains("status 0"), "{shown}");
    });
}

#[test]
fn shared_memory_ends_at_its_limit() {
    let script = "/usr/bin/python3 -c 'import mmap\nmmap.mmap(-1, 1 << 20)\nprint(\"small\", flush=True)\nmmap.mmap(-1, 65 << 20)\nprint(\"large\")'; true";
    under_limits(script, |_, shown| {
        assert!(shown.contains("small") && !shown.contains("large"), "{shown}");
        assert!(shown.contains("Cannot allocate memory"), "{shown}");
    });
}

#[test]
fn a_file_ends_at_its_limit() {
    under_limits("head -c 4000000 /dev/zero > big; echo status $?", |place, shown| {
        assert!(!shown.contains("status 0"), "{shown}");
        assert_eq!(std::fs::metadata(place.ws().join("big")).unwrap().len(), 1 << 20, "{shown}");
    });
}

#[test]
fn processor_time_ends_at_its_limit() {
    under_limits("while :; do :; done", |_, shown| {
        assert!(shown.contains("SIGKILL") || shown.contains("SIGXCPU"), "{shown}")
    });
}

#[test]
fn processes_end_at_their_limit() {
    if std::env::home_dir().is_some_and(|home| home == std::path::Path::new("/root"))
        && !std::path::Path::new("/sys/fs/cgroup/pids").exists()
    {
        return println!(
            "skipped: only control groups limit the processes of root, and there is none for processes here"
        );
    }
    let script = "i=0; while [ $i -lt 60 ]; do sleep 1 & i=$((i+1)); done; echo managed";
    under_limits(script, |_, shown| assert!(!shown.contains("managed"), "{shown}"));
}

#[test]
fn processes_of_another_user_end_at_their_limit() {
    as_another_user("limits::processes_end_at_their_limit");
}
