//! Attempts of programs to get out of their cage, with real processes on each rung that works here. Every attempt is first made
//! without a cage, where it has to succeed: one that fails there proves nothing, and is said to be skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod attempts;
mod limits;
mod place;
mod sockets;
mod survivors;
mod traps;

use ostler_kernel::port::CageRung;

use crate::attempts::{Attempt, attempts};
use crate::place::{Place, as_another_user, works};

fn check(rung: CageRung) {
    if !works(rung) {
        return;
    }
    let mut escaped = Vec::new();
    for attempt in attempts() {
        let Attempt { name, .. } = attempt;
        let free = Place::new(CageRung::None).make(attempt);
        if !free.got_out {
            eprintln!("skipped: {name}: does not work here without a cage either: {}", free.shown);
            continue;
        }
        let caged = Place::new(rung).make(attempt);
        if caged.got_out {
            escaped.push(format!("{name}: {}", caged.shown));
        }
    }
    assert!(escaped.is_empty(), "{rung}:\n{}", escaped.join("\n"));
}

#[test]
fn nothing_gets_out_of_landlock_and_a_filter() {
    check(CageRung::Landlock);
}

#[test]
fn nothing_gets_out_of_bubblewrap() {
    check(CageRung::Bubblewrap);
}

#[test]
fn nothing_of_another_user_gets_out_of_landlock_and_a_filter() {
    as_another_user("nothing_gets_out_of_landlock_and_a_filter");
}

#[test]
fn nothing_of_another_user_gets_out_of_bubblewrap() {
    as_another_user("nothing_gets_out_of_bubblewrap");
}

#[test]
fn there_are_at_least_forty_attempts() {
    assert!(attempts().count() >= 40, "{}", attempts().count());
}
