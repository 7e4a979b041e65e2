//! Restart decisions: pure functions from a table of children and an event to a list of actions.
//!
//! The rules are those of OTP's `supervisor` (stdlib, `supervisor.erl`: `do_restart`, `restart`, `terminate_children`). A permanent
//! child is restarted after every exit, a transient one after an abnormal exit, a temporary one never. The strategy selects the
//! group that restarts with the child: the child alone (one_for_one), all children (one_for_all), or the child and all that
//! started after it (rest_for_one). A group stops in reverse start order and starts in start order, because later children may depend on
//! earlier ones, and costs one charge of the restart window, however many members it has.
//!
//! No function here knows actors, tasks or time. The supervisor performs the actions in order and stops at the first failure: a
//! refused charge ends the supervisor; a failed start leaves the rest of the group to a later [`on_retry`], which charges again.

use std::collections::BTreeMap;

use crate::{AutoShutdown, Exit, Restart, Strategy};

/// Place in the start order; never used twice.
pub type Place = u64;

/// Presence of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The spec is kept, nothing runs.
    Down,
    /// A restart failed and another try is due.
    Restarting,
    /// Running.
    Up,
}

/// The facts about a child that a decision needs.
pub trait Member {
    /// Restart type.
    fn restart(&self) -> Restart;
    /// True if its end may end the supervisor.
    fn significant(&self) -> bool;
    /// The presence.
    fn presence(&self) -> Presence;
}

/// The rules of one supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Which siblings share a restart.
    pub strategy: Strategy,
    /// True if the end of significant children ends the supervisor.
    pub auto_shutdown: AutoShutdown,
}

/// An action; actions are performed in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Charge one restart; if the window is full, give up.
    Charge,
    /// Stop the child and wait until it is gone; a restarting one is down from then on.
    Stop(Place),
    /// Drop the child's spec.
    Forget(Place),
    /// Start the child and wait until it runs.
    Start(Place),
    /// End the supervisor in order.
    ShutDown,
}

/// True if a child of the type is restarted after `exit`.
pub fn restarts(restart: Restart, exit: &Exit) -> bool {
    match restart {
        Restart::Permanent => true,
        Restart::Transient => exit.is_abnormal(),
        Restart::Temporary => false,
    }
}

/// The actions after the child at `place` ended by itself with `exit`.
///
/// `table` must show that child as down already. An unknown place needs no action.
pub fn on_exit<M: Member>(
    rules: Rules,
    table: &BTreeMap<Place, M>,
    place: Place,
    exit: &Exit,
) -> Vec<Action> {
    let Some(member) = table.get(&place) else { return Vec::new() };
    if restarts(member.restart(), exit) {
        return on_retry(rules, table, place);
    }
    let mut actions = Vec::new();
    if member.restart() == Restart::Temporary {
        actions.push(Action::Forget(place));
    }
    if member.significant() && ends_supervisor(rules.auto_shutdown, table, place) {
        actions.push(Action::ShutDown);
    }
    actions
}

/// The actions that restart the child at `place` with the siblings of its strategy: one charge, stops in reverse order,
/// starts in order. Members that are down start with their group; temporary ones are stopped and forgotten. Stopping a
/// member cancels its due restart: the member starts with the group.
pub fn on_retry<M: Member>(rules: Rules, table: &BTreeMap<Place, M>, place: Place) -> Vec<Action> {
    let first = match rules.strategy {
        Strategy::OneForOne => return vec![Action::Charge, Action::Start(place)],
        Strategy::OneForAll => Place::MIN,
        Strategy::RestForOne => place,
    };
    let group = || table.range(first..);
    let down = |member: &M| member.presence() == Presence::Down;
    let temporary = |member: &M| member.restart() == Restart::Temporary;

    let mut actions = vec![Action::Charge];
    actions.extend(group().rev().filter(|(_, member)| !down(member)).map(|(at, _)| Action::Stop(*at)));
    actions.extend(group().filter(|(_, member)| temporary(member)).map(|(at, _)| Action::Forget(*at)));
    actions.extend(group().filter(|(_, member)| !temporary(member)).map(|(at, _)| Action::Start(*at)));
    actions
}

/// True if the end of the significant child at `place` ends its supervisor.
fn ends_supervisor<M: Member>(rule: AutoShutdown, table: &BTreeMap<Place, M>, place: Place) -> bool {
    match rule {
        AutoShutdown::Never => false,
        AutoShutdown::AnySignificant => true,
        AutoShutdown::AllSignificant => !table
            .iter()
            .any(|(at, member)| *at != place && member.significant() && member.presence() != Presence::Down),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use proptest::strategy::Strategy as Generator;

    use super::*;

    #[derive(Debug, Clone)]
    struct Plain {
        restart: Restart,
        significant: bool,
        presence: Presence,
    }

    impl Member for Plain {
        fn restart(&self) -> Restart {
            self.restart
        }
        fn significant(&self) -> bool {
            self.significant
        }
        fn presence(&self) -> Presence {
            self.presence
        }
    }

    fn any_member() -> impl Generator<Value = Plain> {
        (0..3usize, any::<bool>(), 0..3usize).prop_map(|(restart, significant, presence)| Plain {
            restart: [Restart::Permanent, Restart::Transient, Restart::Temporary][restart],
            significant,
            presence: [Presence::Down, Presence::Restarting, Presence::Up][presence],
        })
    }

    /// The actions for a table written as letters: p, t, m are permanent, transient and temporary members; upper case
    /// runs, lower case is down, R is a permanent one that is restarting. The member at `place` panics.
    fn check(strategy: Strategy, letters: &str, place: Place, expected: Expect) {
        let table = (0..)
            .zip(letters.chars())
            .map(|(at, letter)| {
                let restart = match letter.to_ascii_lowercase() {
                    'p' | 'r' => Restart::Permanent,
                    't' => Restart::Transient,
                    _ => Restart::Temporary,
                };
                let presence = match letter {
                    _ if at == place || letter.is_ascii_lowercase() => Presence::Down,
                    'R' => Presence::Restarting,
                    _ => Presence::Up,
                };
                (at, Plain { restart, significant: false, presence })
            })
            .collect();
        let rules = Rules { strategy, auto_shutdown: AutoShutdown::Never };
        let actions = on_exit(rules, &table, place, &Exit::Panicked("x".into()));
        expected.assert_eq(&actions.iter().map(|a| format!("{a:?}")).collect::<Vec<_>>().join(" "));
    }

    #[test]
    fn one_for_one_touches_the_failed_child_only() {
        check(Strategy::OneForOne, "PPP", 1, expect!["Charge Start(1)"]);
    }

    #[test]
    fn a_failed_temporary_child_is_forgotten_under_every_strategy() {
        for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne] {
            check(strategy, "PMP", 1, expect!["Forget(1)"]);
        }
    }

    #[test]
    fn one_for_all_stops_in_reverse_and_starts_in_order() {
        check(Strategy::OneForAll, "PPP", 1, expect!["Charge Stop(2) Stop(0) Start(0) Start(1) Start(2)"]);
    }

    #[test]
    fn rest_for_one_revives_down_members_and_forgets_temporary_ones() {
        check(Strategy::RestForOne, "PPMp", 1, expect!["Charge Stop(2) Forget(2) Start(1) Start(3)"]);
    }

    #[test]
    fn a_group_restart_takes_over_members_that_are_restarting() {
        check(Strategy::OneForAll, "PR", 0, expect!["Charge Stop(1) Start(0) Start(1)"]);
        check(Strategy::OneForOne, "PR", 0, expect!["Charge Start(0)"]);
    }

    proptest! {
        #[test]
        fn a_restart_charges_once_stops_down_and_starts_up_the_group(
            members in proptest::collection::vec(any_member(), 1..12),
            pick in any::<proptest::sample::Index>(),
            strategy in 0..3usize,
            abnormal in any::<bool>(),
        ) {
            let strategy = [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne][strategy];
            let rules = Rules { strategy, auto_shutdown: AutoShutdown::Never };
            let place = pick.index(members.len()) as Place;
            let mut table: BTreeMap<Place, Plain> = (0..).zip(members).collect();
            table.get_mut(&place).expect("the index is in range").presence = Presence::Down;
            let exit = if abnormal { Exit::Killed } else { Exit::Normal };
            let actions = on_exit(rules, &table, place, &exit);

            let restarted = restarts(table[&place].restart, &exit);
            prop_assert_eq!(actions.first() == Some(&Action::Charge), restarted);
            let charges = actions.iter().filter(|a| **a == Action::Charge).count();
            prop_assert_eq!(charges, usize::from(restarted));

            let pick = |f: fn(&Action) -> Option<Place>| actions.iter().filter_map(f).collect::<Vec<_>>();
            let stops = pick(|a| if let Action::Stop(at) = a { Some(*at) } else { None });
            let starts = pick(|a| if let Action::Start(at) = a { Some(*at) } else { None });
            let forgets = pick(|a| if let Action::Forget(at) = a { Some(*at) } else { None });
            prop_assert!(stops.windows(2).all(|pair| pair[0] > pair[1]));
            prop_assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(starts.contains(&place), restarted);
            prop_assert!(stops.iter().all(|at| table[at].presence != Presence::Down));
            prop_assert!(forgets.iter().all(|at| table[at].restart == Restart::Temporary));
            prop_assert!(starts.iter().all(|at| table[at].restart != Restart::Temporary));
            let touched = stops.iter().chain(&starts).chain(&forgets);
            for at in touched {
                match strategy {
                    Strategy::OneForOne => prop_assert_eq!(*at, place),
                    Strategy::RestForOne => prop_assert!(*at >= place),
                    Strategy::OneForAll => {}
                }
            }
            // Stopped members start again, except temporary ones.
            prop_assert!(stops.iter().all(|at| starts.contains(at) || forgets.contains(at)));
        }

        #[test]
        fn the_last_significant_child_ends_an_all_significant_supervisor(
            members in proptest::collection::vec(any_member(), 1..12),
            pick in any::<proptest::sample::Index>(),
        ) {
            let place = pick.index(members.len()) as Place;
            let mut table: BTreeMap<Place, Plain> = (0..).zip(members).collect();
            table.insert(place, Plain {
                restart: Restart::Transient, significant: true, presence: Presence::Down,
            });
            let others = table.values().filter(|m| m.significant && m.presence != Presence::Down).count();
            let rules = |auto_shutdown| Rules { strategy: Strategy::OneForOne, auto_shutdown };
            for (rule, ends) in [
                (AutoShutdown::Never, false),
                (AutoShutdown::AnySignificant, true),
                (AutoShutdown::AllSignificant, others == 0),
            ] {
                let actions = on_exit(rules(rule), &table, place, &Exit::Normal);
                prop_assert_eq!(actions.contains(&Action::ShutDown), ends);
            }
        }
    }
}
