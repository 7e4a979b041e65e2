//! K: beyond OTP. The cases about inboxes and agents are in `actors`.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler_supervisor::{ChildSpec, Exit, StableRef, StartChildError, Strategy, SupervisorSpec, Unreachable};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::world::*;

/// The start after `old`, once there is one.
async fn successor(stable: &StableRef<Msg>, old: &ActorRef<Msg>) -> ActorRef<Msg> {
    loop {
        let now = in_time(stable.up()).await.unwrap();
        if now.get_id() != old.get_id() {
            return now;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn k01_a_name_leads_to_who_lives_through_a_thousand_crashes() {
    let world = World::new();
    let stable = StableRef::<Msg>::new();
    let child = world.probe("a").stable_ref(&stable);
    let root = world.start(world.spec(Strategy::OneForOne, u32::MAX, vec![child])).await;
    let mut worker = stable.get().unwrap();
    for crash in 1..=1000 {
        worker.send_message(Msg::Panic).unwrap();
        worker = in_time(successor(&stable, &worker)).await;
        assert_eq!(world.starts("a"), crash + 1);
        assert_eq!(root.child::<Probe>("a").unwrap(), worker);
        let listed = &root.which_children().await[0];
        assert_eq!((listed.generation, listed.restarts), (crash + 1, crash));
        assert_eq!(listed.last_exit, Some(Exit::Panicked("ouch".into())));
    }
    world.end(&root).await;
}

#[tokio::test]
async fn k03_a_stable_reference_outlives_the_restart() {
    let world = World::new();
    let stable = StableRef::<Msg>::new();
    assert_eq!(stable.get().unwrap_err(), Unreachable::Restarting);
    let child = world.probe("a").stable_ref(&stable);
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![child])).await;
    let first = stable.get().unwrap();
    world.script("a", |script| script.init = Init::Gate);
    stable.send(Msg::Panic).unwrap();
    world.until("a2 init").await;

    // In the gap, senders get an error, and waiters wait.
    assert_eq!(stable.get().unwrap_err(), Unreachable::Restarting);
    assert_eq!(stable.send(Msg::StopSelf), Err(Unreachable::Restarting));
    let waiting = tokio::spawn({
        let stable = stable.clone();
        async move { stable.up().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    world.open_gate();
    let second = in_time(waiting).await.unwrap().unwrap();
    assert_ne!(second, first);
    assert_eq!(stable.get().unwrap(), second);

    world.end(&root).await;
    assert_eq!(stable.get().unwrap_err(), Unreachable::Ended);
    assert_eq!(in_time(stable.up()).await.unwrap_err(), Unreachable::Ended);
}

#[tokio::test]
async fn k03_a_call_that_dies_with_the_worker_is_told_from_one_that_was_never_sent() {
    struct Dies;
    impl Actor for Dies {
        type Msg = ractor::RpcReplyPort<()>;
        type State = ();
        type Arguments = ();
        async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
        async fn handle(
            &self,
            _: ActorRef<Self::Msg>,
            _: Self::Msg,
            (): &mut (),
        ) -> Result<(), ActorProcessingErr> {
            panic!("no answer");
        }
    }
    let world = World::new();
    let stable = StableRef::<ractor::RpcReplyPort<()>>::new();
    let child = ChildSpec::actor("a", || Dies, || ()).stable_ref(&stable);
    let root = world.start(world.spec(Strategy::OneForOne, 0, vec![child])).await;
    assert_eq!(in_time(stable.call(|reply| reply)).await, Err(Unreachable::Unanswered));
    in_time(root.wait_exit()).await;
    assert_eq!(in_time(stable.call(|reply| reply)).await, Err(Unreachable::Ended));
}

#[tokio::test]
async fn k03_a_child_that_its_supervisor_forgets_is_gone_for_good() {
    let world = World::new();
    let stable = StableRef::<Msg>::new();
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
    root.start_child(world.probe("a").stable_ref(&stable)).await.unwrap();
    root.terminate_child("a").await.unwrap();
    // A manual restart is possible.
    assert_eq!(stable.get().unwrap_err(), Unreachable::Restarting);
    root.delete_child("a").await.unwrap();
    assert_eq!(stable.get().unwrap_err(), Unreachable::Ended);
    world.end(&root).await;
}

#[tokio::test]
async fn k03_a_second_start_that_is_refused_does_not_lead_the_reference_away() {
    let world = World::new();
    let stable = StableRef::<Msg>::new();
    let spec = || world.probe("a").stable_ref(&stable);
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
    root.start_child(spec()).await.unwrap();
    let worker = stable.get().unwrap();
    let refused = root.start_child(spec()).await.unwrap_err();
    assert!(matches!(refused, StartChildError::AlreadyStarted { .. }), "{refused}");
    assert_eq!(stable.get().unwrap(), worker);
    stable.send(Msg::Panic).unwrap();
    assert_ne!(in_time(successor(&stable, &worker)).await, worker);
    world.end(&root).await;
    assert_eq!(stable.get().unwrap_err(), Unreachable::Ended);

    // The name may then lead to another worker.
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![spec()])).await;
    stable.get().unwrap();
    world.end(&root).await;
    assert_eq!(stable.get().unwrap_err(), Unreachable::Ended);
}

type Log = Arc<Mutex<Vec<String>>>;

/// A state that is dropped on permission.
struct Heavy {
    start: u32,
    log: Log,
    let_go: Arc<Mutex<Receiver<()>>>,
}

impl Drop for Heavy {
    fn drop(&mut self) {
        self.log.lock().unwrap().push(format!("dropping {}", self.start));
        // Longer than any step here, shorter than a hanging test.
        let _ = self.let_go.lock().unwrap().recv_timeout(Duration::from_secs(60));
        self.log.lock().unwrap().push(format!("dropped {}", self.start));
    }
}

struct Holder;

impl Actor for Holder {
    type Msg = ();
    type State = Heavy;
    type Arguments = (Log, Arc<Mutex<Receiver<()>>>);

    async fn pre_start(
        &self,
        _: ActorRef<()>,
        (log, let_go): Self::Arguments,
    ) -> Result<Heavy, ActorProcessingErr> {
        let start = {
            let mut lines = log.lock().unwrap();
            let start = 1 + lines.iter().filter(|line| line.starts_with("init")).count() as u32;
            lines.push(format!("init {start}"));
            start
        };
        Ok(Heavy { start, log, let_go })
    }

    async fn handle(&self, _: ActorRef<()>, (): (), _: &mut Heavy) -> Result<(), ActorProcessingErr> {
        panic!("ouch");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn k04_nothing_starts_before_the_old_state_is_dropped() {
    let (log, (go, let_go)) = (Log::default(), channel());
    let let_go = Arc::new(Mutex::new(let_go));
    let given = (log.clone(), let_go);
    let child = ChildSpec::actor("a", || Holder, move || given.clone());
    let root = ostler_supervisor::Supervisor::start(SupervisorSpec::new(Strategy::OneForOne, vec![child]));
    let root = root.await.unwrap();
    let until = async |line: &str| {
        while !log.lock().unwrap().iter().any(|known| known == line) {
            tokio::task::yield_now().await;
        }
    };
    root.child::<Holder>("a").unwrap().send_message(()).unwrap();
    in_time(until("dropping 1")).await;
    for _ in 0..20 {
        // The supervisor is idle, answers calls about other children, and has time for a wrong action.
        root.get_spec("b").await.unwrap_err();
        assert!(root.child_ref("a").is_none());
    }
    go.send(()).unwrap();
    in_time(until("init 2")).await;
    go.send(()).unwrap();
    in_time(root.stop()).await;
    assert_eq!(
        *log.lock().unwrap(),
        ["init 1", "dropping 1", "dropped 1", "init 2", "dropping 2", "dropped 2"]
    );
}

#[tokio::test]
async fn a_stable_reference_outlives_the_branch_of_its_worker() {
    for made_at_every_start in [false, true] {
        let world = World::new();
        let stable = StableRef::<Msg>::new();
        let spec = {
            let (world, stable) = (world.clone(), stable.clone());
            move || world.spec(Strategy::OneForOne, 0, vec![world.probe("leaf").stable_ref(&stable)])
        };
        let mid = if made_at_every_start {
            ChildSpec::supervisor_with("mid", move || Some(spec()))
        } else {
            ChildSpec::supervisor("mid", spec())
        };
        let root = world.start(world.spec(Strategy::OneForAll, 1, vec![world.probe("first"), mid])).await;
        stable.get().unwrap();
        world.script("first", |script| script.init = Init::Gate);
        tell(&root.supervisor("mid").unwrap(), "leaf", Msg::Panic);
        world.until("first2 init").await;
        assert_eq!(stable.get().unwrap_err(), Unreachable::Restarting);
        let up = tokio::spawn({
            let stable = stable.clone();
            async move { stable.up().await.map(drop) }
        });
        world.open_gate();
        in_time(up).await.unwrap().unwrap();
        root.terminate_child("mid").await.unwrap();
        assert_eq!(stable.get().unwrap_err(), Unreachable::Restarting);
        root.delete_child("mid").await.unwrap();
        assert_eq!(stable.get().unwrap_err(), Unreachable::Ended);
        world.end(&root).await;
    }
}

/// Keeps every supervision event it gets.
struct Collector;

impl Actor for Collector {
    type Msg = ();
    type State = Vec<SupervisionEvent>;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<Self::State, ActorProcessingErr> {
        Ok(Vec::new())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        kept: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        kept.push(event);
        Ok(())
    }
}

#[tokio::test]
async fn k12_a_linked_actor_that_keeps_the_event_of_an_end_delays_no_restart() {
    let world = World::new();
    let stable = StableRef::<Msg>::new();
    let child = world.probe("a").stable_ref(&stable);
    let root = world.start(world.spec(Strategy::OneForOne, u32::MAX, vec![child])).await;
    let (collector, ended) = Actor::spawn(None, Collector, ()).await.unwrap();
    let mut worker = stable.get().unwrap();
    for start in 2..=5 {
        worker.get_cell().link(collector.get_cell());
        worker.send_message(Msg::StopSelf).unwrap();
        worker = in_time(successor(&stable, &worker)).await;
        assert_eq!(world.starts("a"), start);
    }
    world.end(&root).await;
    collector.stop(None);
    in_time(ended).await.unwrap();
}

#[tokio::test]
async fn k13_restarts_that_fail_let_every_other_future_run_in_between() {
    for in_pool in [false, true] {
        let world = World::new();
        let child = world.probe("a");
        let (root, pool) = if in_pool {
            let pool = world.start_pool(world.pool_spec(u32::MAX)).await;
            pool.start_child(child).await.unwrap();
            (None, Some(pool))
        } else {
            (Some(world.start(world.spec(Strategy::OneForOne, u32::MAX, vec![child])).await), None)
        };
        world.script("a", |script| script.init = Init::Fail);
        root.iter().for_each(|root| tell(root, "a", Msg::Panic));
        pool.iter().for_each(|pool| tell_pool(pool, "a", Msg::Panic));
        let turns = 200;
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let starts = world.starts("a");
        assert!((10..=turns + 1).contains(&starts), "{starts} starts in {turns} turns, in a pool: {in_pool}");
        world.script("a", |script| script.init = Init::Up);
        if let Some(root) = root {
            world.end(&root).await;
        }
        if let Some(pool) = pool {
            world.end_pool(&pool).await;
        }
    }
}
