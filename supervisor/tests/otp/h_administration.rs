//! H: administration.

use ostler_supervisor::{
    ChildSpec, DeleteChildError, Exit, GetSpecError, Restart, RestartChildError, Shutdown, SpecError,
    StartChildError, Strategy, SupervisorRef, TerminateChildError,
};

use crate::world::*;

/// A supervisor with a window of zero restarts and one permanent child `a`.
async fn start_one(world: &World) -> SupervisorRef {
    world.start(world.spec(Strategy::OneForOne, 0, vec![world.probe("a")])).await
}

#[tokio::test]
async fn h01_the_id_of_a_running_child_gives_that_child() {
    let world = World::new();
    let supervisor = start_one(&world).await;
    let running = supervisor.child::<Probe>("a").unwrap();
    match supervisor.start_child(world.probe("a")).await.unwrap_err() {
        StartChildError::AlreadyStarted { child, .. } => {
            assert_eq!(child.actor::<Probe>().unwrap(), running);
        }
        other => panic!("{other}"),
    }
    assert_eq!(world.starts("a"), 1);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn h01_a_faulty_spec_is_refused_as_such_whatever_its_id() {
    let world = World::new();
    let supervisor = start_one(&world).await;
    let error =
        supervisor.start_child(world.probe("a").shutdown(Shutdown::Timeout(ms(0)))).await.unwrap_err();
    let fault = SpecError::ShutdownZero { id: id("a") };
    assert!(matches!(&error, StartChildError::Invalid(faults) if *faults == [fault]), "{error}");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn h02_the_id_of_a_child_that_is_down_is_taken() {
    let world = World::new();
    let supervisor = start_one(&world).await;
    supervisor.terminate_child("a").await.unwrap();
    let error = supervisor.start_child(world.probe("a")).await.unwrap_err();
    assert!(matches!(error, StartChildError::AlreadyPresent { .. }), "{error}");
    assert_eq!(world.starts("a"), 1);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn h03_a_terminated_child_stays_down() {
    let world = World::new();
    let supervisor = start_one(&world).await;
    supervisor.terminate_child("a").await.unwrap();
    assert!(world.has("a1 stop") && world.has("a1 exit shutdown"));
    assert!(supervisor.child::<Probe>("a").is_none());
    assert_eq!(listing(&supervisor).await, "a1 down");
    supervisor.terminate_child("a").await.unwrap();
    assert_eq!(listing(&supervisor).await, "a1 down");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn h04_a_child_that_is_down_is_restarted_by_hand() {
    let world = World::new();
    let supervisor = start_one(&world).await;
    let old = supervisor.child::<Probe>("a").unwrap();
    supervisor.terminate_child("a").await.unwrap();
    let fresh = supervisor.restart_child("a").await.unwrap().actor::<Probe>().unwrap();
    assert_eq!(listing(&supervisor).await, "a2 up");
    assert_ne!(fresh, old);
    assert_eq!(supervisor.child::<Probe>("a").unwrap(), fresh);
    // A manual restart does not count.
    assert_eq!(supervisor.which_children().await[0].restarts, 0);
    world.end(&supervisor).await;
}

#[tokio::test]
async fn h05_a_running_child_is_neither_restarted_nor_deleted() {
    let world = World::new();
    let supervisor = start_one(&world).await;
    let error = supervisor.restart_child("a").await.unwrap_err();
    assert_eq!(error, RestartChildError::Running { id: id("a") });
    let error = supervisor.delete_child("a").await.unwrap_err();
    assert_eq!(error, DeleteChildError::Running { id: id("a") });
    assert_eq!(listing(&supervisor).await, "a1 up");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn h06_a_deleted_child_is_not_found() {
    let world = World::new();
    let supervisor = start_one(&world).await;
    supervisor.terminate_child("a").await.unwrap();
    supervisor.delete_child("a").await.unwrap();
    let error = supervisor.restart_child("a").await.unwrap_err();
    assert_eq!(error, RestartChildError::NotFound { id: id("a") });
    assert_eq!(supervisor.count_children().await, counts(0, 0, 0, 0));
    world.end(&supervisor).await;
}

#[tokio::test]
async fn h07_an_unknown_id_is_not_found() {
    let world = World::new();
    let supervisor = start_one(&world).await;
    let id = || id("nobody");
    assert_eq!(
        supervisor.terminate_child("nobody").await.unwrap_err(),
        TerminateChildError::NotFound { id: id() }
    );
    assert_eq!(
        supervisor.restart_child("nobody").await.unwrap_err(),
        RestartChildError::NotFound { id: id() }
    );
    assert_eq!(supervisor.delete_child("nobody").await.unwrap_err(), DeleteChildError::NotFound { id: id() });
    assert_eq!(supervisor.get_spec("nobody").await.unwrap_err(), GetSpecError::NotFound { id: id() });
    world.end(&supervisor).await;
    assert_eq!(supervisor.get_spec("a").await.unwrap_err(), GetSpecError::Ended);
    assert_eq!(supervisor.terminate_child("a").await.unwrap_err(), TerminateChildError::Ended);
}

#[tokio::test]
async fn h08_a_failed_restart_by_hand_keeps_the_spec() {
    let world = World::new();
    let supervisor = start_one(&world).await;
    supervisor.terminate_child("a").await.unwrap();
    world.script("a", |script| script.init = Init::Fail);
    let error = supervisor.restart_child("a").await.unwrap_err();
    let exit = Exit::StartFailed("no luck".into());
    assert_eq!(error, RestartChildError::Failed { id: id("a"), exit });
    assert_eq!(listing(&supervisor).await, "a2 down");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn h09_a_terminated_temporary_child_is_forgotten() {
    let world = World::new();
    let probe = world.probe("a").restart(Restart::Temporary);
    let supervisor = world.start(world.spec(Strategy::OneForOne, 0, vec![probe.clone()])).await;
    supervisor.terminate_child("a").await.unwrap();
    assert_eq!(supervisor.count_children().await, counts(0, 0, 0, 0));
    // Events of the old child must not affect the new child of the same name.
    supervisor.start_child(probe).await.unwrap();
    assert_eq!(listing(&supervisor).await, "a1 up");
    world.end(&supervisor).await;
}

#[tokio::test]
async fn h10_typed_counts_ignore_whether_a_child_runs() {
    let world = World::new();
    let mid = |name: &str| ChildSpec::supervisor(name, world.spec(Strategy::OneForOne, 1, vec![]));
    let children = vec![mid("one"), mid("two"), world.probe("a")];
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    supervisor.terminate_child("two").await.unwrap();
    assert_eq!(supervisor.count_children().await, counts(3, 2, 2, 1));
    world.end(&supervisor).await;
}

#[tokio::test]
async fn h11_thousands_of_children_are_counted_exactly() {
    let world = World::new();
    let supervisor = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
    for total in [1000, 2000] {
        for n in total - 1000..total {
            supervisor.start_child(world.probe(&format!("c{n}-"))).await.unwrap();
        }
        for _ in 0..2 {
            assert_eq!(supervisor.count_children().await, counts(total, total, 0, total));
            let listed = supervisor.which_children().await;
            assert_eq!(listed.len(), total as usize);
            assert!(listed.iter().enumerate().all(|(n, child)| child.id == *format!("c{n}-")));
        }
    }
    world.end(&supervisor).await;
}

#[tokio::test]
async fn a_branch_terminated_and_restarted_has_its_listed_children_only() {
    let world = World::new();
    let mid = ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 1, vec![world.probe("leaf")]));
    let root = world.start(world.spec(Strategy::OneForOne, 0, vec![mid])).await;
    let old = root.supervisor("mid").unwrap();
    old.start_child(world.probe("extra")).await.unwrap();
    let mark = world.mark();
    root.terminate_child("mid").await.unwrap();
    assert_eq!(world.since(mark, &["stop"]), "extra1 stop, leaf1 stop");
    assert!(root.supervisor("mid").is_none());
    assert_eq!(root.count_children().await, counts(1, 0, 1, 0));
    assert_eq!(in_time(old.wait_exit()).await, Exit::Shutdown);
    let fresh = root.restart_child("mid").await.unwrap().supervisor().unwrap();
    assert_eq!(listing(&fresh).await, "leaf1 up");
    assert!(listing(&old).await.is_empty());
    root.terminate_child("mid").await.unwrap();
    root.delete_child("mid").await.unwrap();
    assert_eq!(root.count_children().await, counts(0, 0, 0, 0));
    world.end(&root).await;
}

#[tokio::test]
async fn terminating_a_child_that_has_just_crashed_leaves_it_down() {
    let world = World::new();
    world.script("slow", |script| script.init = Init::Gate);
    let supervisor = world.start_probes(Strategy::OneForOne, 0, &["a"]).await;
    // The supervisor is busy, so a call is queued before the event.
    let starting = tokio::spawn({
        let (supervisor, slow) = (supervisor.clone(), world.probe("slow"));
        async move { supervisor.start_child(slow).await.map(|_| ()) }
    });
    world.until("slow1 init").await;
    let terminating = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.terminate_child("a").await }
    });
    drain().await;
    tell(&supervisor, "a", Msg::Panic);
    world.until("a1 dropped").await;
    world.open_gate();
    in_time(starting).await.unwrap().unwrap();
    in_time(terminating).await.unwrap().unwrap();
    assert_eq!(listing(&supervisor).await, "a1 down, slow1 up");
    supervisor.restart_child("a").await.unwrap();
    assert_eq!(listing(&supervisor).await, "a2 up, slow1 up");
    world.end(&supervisor).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_starts_of_one_id_exactly_one_wins() {
    let world = World::new();
    let supervisor = world.start_probes(Strategy::OneForOne, 0, &[]).await;
    let pool = world.start_pool(world.pool_spec(0)).await;
    let starts: Vec<_> = (0..50)
        .map(|_| {
            let (supervisor, pool, a, b) =
                (supervisor.clone(), pool.clone(), world.probe("a"), world.probe("b"));
            tokio::spawn(async move { (supervisor.start_child(a).await, pool.start_child(b).await) })
        })
        .collect();
    let (mut won, mut pool_won) = (0, 0);
    for start in starts {
        let (in_sup, in_pool) = in_time(start).await.unwrap();
        for (answer, count) in [(in_sup, &mut won), (in_pool, &mut pool_won)] {
            match answer {
                Ok(_) => *count += 1,
                Err(StartChildError::AlreadyStarted { child, .. }) => {
                    assert!(child.actor::<Probe>().is_some())
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert_eq!((won, pool_won, world.starts("a"), world.starts("b")), (1, 1, 1, 1));
    in_time(pool.stop()).await;
    world.end(&supervisor).await;
}
