//! Guarantees for the embedding program beyond the list, and misbehaving hooks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use futures::FutureExt;
use ostler_supervisor::{
    Branch, ChildEvent, ChildRef, ChildSpec, Event, Exit, Ignore, Pool, PoolSpec, Restart, Strategy,
    Supervisor, SupervisorSpec,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::watch;

use crate::world::*;

#[tokio::test]
async fn those_who_are_told_of_a_start_find_the_child() {
    let world = World::new();
    let pool = world.start_pool(world.pool_spec(1)).await;
    let supervisor = world.start_probes(Strategy::OneForOne, 1, &[]).await;
    let (found, seen) = std::sync::mpsc::channel();
    let a = world.probe("a").on_start({
        let (pool, found) = (pool.clone(), found.clone());
        move |child| {
            found.send((pool.child_ref("a").unwrap().actor::<Probe>(), child.actor::<Probe>())).unwrap()
        }
    });
    let b = world.probe("b").on_start({
        let supervisor = supervisor.clone();
        move |child| {
            found
                .send((supervisor.child_ref("b").unwrap().actor::<Probe>(), child.actor::<Probe>()))
                .unwrap();
        }
    });
    pool.start_child(a).await.unwrap();
    supervisor.start_child(b).await.unwrap();
    tell_pool(&pool, "a", Msg::Panic);
    tell(&supervisor, "b", Msg::Panic);
    world.until("a2 up").await;
    world.until("b2 up").await;
    in_time(pool.stop()).await;
    world.end(&supervisor).await;
    let seen: Vec<_> = seen.try_iter().collect();
    assert_eq!(seen.len(), 4);
    for (found, given) in seen {
        assert_eq!(found, given);
    }
}

#[tokio::test]
async fn fresh_references_are_handed_out_before_a_later_sibling_starts() {
    let world = World::new();
    let (publish, latest) = watch::channel(None::<ActorRef<Msg>>);
    let registry =
        world.probe("registry").on_start(move |child| drop(publish.send_replace(child.actor::<Probe>())));
    // The dependant's start hook sees the registry of its own generation.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let dependant = world.probe("dependant").on_start({
        let (seen, latest) = (seen.clone(), latest.clone());
        move |_| seen.lock().unwrap().push(latest.borrow().as_ref().map(|actor| actor.get_id()))
    });
    let root = world.start(world.spec(Strategy::RestForOne, 10, vec![registry, dependant])).await;
    tell(&root, "registry", Msg::Panic);
    world.until("dependant2 up").await;
    listing(&root).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 2);
    assert_ne!(seen[0], seen[1]);
    assert_eq!(seen[1], Some(root.child::<Probe>("registry").unwrap().get_id()));
    world.end(&root).await;
}

#[tokio::test]
async fn a_reference_has_the_type_of_its_actor_or_is_none() {
    struct Other;
    impl Actor for Other {
        type Msg = u8;
        type State = ();
        type Arguments = ();
        async fn pre_start(&self, _: ActorRef<u8>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }
    let world = World::new();
    let children = vec![world.probe("a"), ChildSpec::pool("pool", world.pool_spec(1))];
    let root = world.start(world.spec(Strategy::OneForOne, 1, children)).await;
    assert!(root.child::<Probe>("a").is_some() && root.child::<Other>("a").is_none());
    assert!(root.child::<Probe>("pool").is_none() && root.pool("a").is_none());
    assert!(root.supervisor("pool").is_none() && root.child_ref("nobody").is_none());
    world.end(&root).await;
    assert!(root.child_ref("a").is_none());
}

#[tokio::test]
async fn a_dead_child_is_not_handed_out_even_before_its_end_is_noticed() {
    let world = World::new();
    world.script("slow", |script| script.init = Init::Gate);
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a")])).await;
    let starting = tokio::spawn({
        let (root, slow) = (root.clone(), world.probe("slow"));
        async move { root.start_child(slow).await.map(|_| ()) }
    });
    world.until("slow1 init").await;
    tell(&root, "a", Msg::Panic);
    world.until("a1 dropped").await;
    assert!(!world.has("a1 exit panicked: ouch"));
    assert!(root.child::<Probe>("a").is_none());
    world.open_gate();
    in_time(starting).await.unwrap().unwrap();
    world.until("a2 up").await;
    world.end(&root).await;
}

#[tokio::test]
async fn panicking_factories_and_hooks_do_not_take_the_tree_down() {
    let world = World::new();
    let broken = ChildSpec::actor("broken", || -> Probe { panic!("no actor") }, || 1u64);
    let hooked = world.probe("hooked").on_start(|_| panic!("no hook"));
    let spec = world.spec(Strategy::OneForOne, 1, vec![hooked]);
    let observer = |_: &Event<'_>| panic!("no observer");
    let root = Supervisor::start_observed(spec, Arc::new(observer)).await.unwrap();
    let error = root.start_child(broken).await.unwrap_err().to_string();
    assert_eq!(error, "child broken did not start: panicked: no actor");
    assert_eq!(listing(&root).await, "hooked1 up");
    world.end(&root).await;
}

/// Comes up, except for the one brittle start: that one does `init` and panics in its drop.
struct Brittle {
    is: bool,
    init: Init,
}

impl Brittle {
    fn child(at: u64, init: Init) -> ChildSpec {
        let starts = AtomicU64::new(0);
        let made =
            move || Brittle { is: 1 + starts.fetch_add(1, Ordering::Relaxed) == at, init: init.clone() };
        ChildSpec::actor("brittle", made, || ())
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        assert!(!self.is, "no end");
    }
}

impl Actor for Brittle {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        match self.init {
            _ if !self.is => Ok(()),
            Init::Ignore => Err(Ignore.into()),
            Init::Gate => std::future::pending().await,
            _ => Err("no luck".into()),
        }
    }

    async fn handle(&self, _: ActorRef<()>, (): (), (): &mut ()) -> Result<(), ActorProcessingErr> {
        panic!("ouch");
    }
}

#[tokio::test]
async fn what_panics_as_its_start_fails_does_not_take_its_supervisor_down() {
    let world = World::new();
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a")])).await;
    let pool = world.start_pool(world.pool_spec(1)).await;
    for init in [Init::Fail, Init::Ignore] {
        for error in [
            root.start_child(Brittle::child(1, init.clone())).await.unwrap_err(),
            pool.start_child(Brittle::child(1, init)).await.unwrap_err(),
        ] {
            assert_eq!(error.to_string(), "child brittle did not start: panicked: no end");
        }
    }
    assert_eq!(listing(&root).await, "a1 up");
    assert_eq!(pool.count_children().await, counts(0, 0, 0, 0));
    assert_eq!(in_time(pool.stop()).await, Exit::Shutdown);
    world.end(&root).await;
}

#[tokio::test]
async fn what_panics_as_its_restart_fails_is_restarted_again() {
    let world = World::new();
    let spec = world.spec(Strategy::OneForOne, 2, vec![Brittle::child(2, Init::Fail)]);
    let root = world.start(spec).await;
    let pool = world.start_pool(world.pool_spec(2)).await;
    pool.start_child(Brittle::child(2, Init::Fail)).await.unwrap();
    root.child::<Brittle>("brittle").unwrap().send_message(()).unwrap();
    pool.child::<Brittle>("brittle").unwrap().send_message(()).unwrap();
    let up = async {
        while listing(&root).await != "brittle3 up"
            || pool.which_children().await[0].generation != 3
            || pool.child_ref("brittle").is_none()
        {
            tokio::task::yield_now().await;
        }
    };
    in_time(up).await;
    world.end_pool(&pool).await;
    world.end(&root).await;
}

#[tokio::test]
async fn what_panics_as_its_start_is_broken_off_does_not_disturb_the_others() {
    let world = World::new();
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![world.probe("a")])).await;
    let starting = tokio::spawn({
        let root = root.clone();
        async move { root.start_child(Brittle::child(1, Init::Gate)).await.map(|_| ()) }
    });
    tokio::task::yield_now().await;
    let stopping = tokio::spawn({
        let root = root.clone();
        async move { root.stop().await }
    });
    in_time(world.clock.sleeping(1)).await;
    world.clock.advance(ms(5000));
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    in_time(starting).await.unwrap().unwrap_err();
    assert!(world.has("a1 stop"));
    world.settle();
}

#[tokio::test]
async fn a_panic_as_the_state_is_dropped_is_the_end_only_of_a_child_that_was_killed() {
    struct Sore;
    impl Drop for Sore {
        fn drop(&mut self) {
            panic!("no drop");
        }
    }
    struct Holder;
    impl Actor for Holder {
        type Msg = ();
        type State = Sore;
        type Arguments = ();
        async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<Sore, ActorProcessingErr> {
            Ok(Sore)
        }
    }
    let world = World::new();
    let child = |name: &str| ChildSpec::actor(name, || Holder, || ()).restart(Restart::Temporary);
    let children = vec![child("killed"), child("stopped")];
    let root = world.start(world.spec(Strategy::OneForOne, 0, children)).await;
    root.child::<Holder>("killed").unwrap().kill();
    world.until("killed1 exit panicked: no drop").await;
    root.terminate_child("stopped").await.unwrap();
    assert!(world.has("stopped1 exit shutdown"));
    world.end(&root).await;
}

#[tokio::test]
async fn the_observer_hears_of_every_start_and_end_in_order() {
    let world = World::new();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let heard = heard.clone();
        move |event: &Event<'_>| {
            let what = match event.kind {
                ChildEvent::Started { child: ChildRef::Actor(_) } => "started".to_string(),
                ChildEvent::Restarted { child: ChildRef::Actor(_) } => "restarted".to_string(),
                ChildEvent::Exited { exit, asked } => format!("{exit} asked={asked}"),
                _ => "other".to_string(),
            };
            heard.lock().unwrap().push(format!("{}{}{} {what}", event.tree, event.id, event.generation));
        }
    };
    let spec = world.spec(Strategy::OneForOne, 1, vec![world.probe("a")]);
    let root = Supervisor::start_observed(spec, Arc::new(observer)).await.unwrap();
    tell(&root, "a", Msg::Panic);
    world.until("a2 up").await;
    world.end(&root).await;
    assert_eq!(
        *heard.lock().unwrap(),
        ["/a1 started", "/a1 panicked: ouch asked=false", "/a2 restarted", "/a2 shutdown asked=true"]
    );
}

/// A start that waits for the place is reported after the end of the old child; observers would otherwise see two at
/// once.
#[tokio::test]
async fn a_place_in_a_pool_is_free_once_the_end_is_told() {
    for terminated in [true, false] {
        let pool: Arc<OnceLock<Pool>> = Arc::default();
        let (heard, told) = (Arc::new(Mutex::new(Vec::new())), pool.clone());
        let observer = {
            let heard = heard.clone();
            move |event: &Event<'_>| {
                let what = match event.kind {
                    ChildEvent::Started { .. } => "started",
                    ChildEvent::Exited { .. } => "exited",
                    _ => "other",
                };
                if what == "exited" && heard.lock().unwrap().len() == 1 {
                    let again = told.get().unwrap().start_child(ChildSpec::pool("a", PoolSpec::default()));
                    if again.now_or_never().is_some() {
                        heard.lock().unwrap().push("taken");
                    }
                }
                heard.lock().unwrap().push(what);
            }
        };
        let started = Pool::start_observed(PoolSpec::default(), Arc::new(observer)).await.unwrap();
        let pool = pool.get_or_init(|| started);
        let spec = || ChildSpec::pool("a", PoolSpec::default()).restart(Restart::Temporary);
        let child = pool.start_child(spec()).await.unwrap();
        if terminated {
            pool.terminate_child("a").await.unwrap();
        } else {
            child.pool().unwrap().stop().await;
        }
        pool.start_child(spec()).await.unwrap();
        pool.stop().await;
        assert_eq!(*heard.lock().unwrap(), ["started", "exited", "started", "exited"], "{terminated}");
    }
}

#[tokio::test]
async fn dropping_the_start_kills_what_was_started() {
    let world = World::new();
    world.script("slow", |script| script.init = Init::Gate);
    let inner = world.spec(Strategy::OneForOne, 1, vec![world.probe("a"), world.probe("slow")]);
    let spec = world.spec(Strategy::OneForOne, 1, vec![ChildSpec::supervisor("mid", inner)]);
    let starting = tokio::spawn({
        let world = world.clone();
        async move { world.try_start(spec).await.map(|_| ()) }
    });
    world.until("slow1 init").await;
    starting.abort();
    world.until("a1 dropped").await;
    world.until("slow1 dropped").await;
    world.settle();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_start_hook_beyond_its_limit() {
    let world = World::new();
    world.script("slow", |script| script.init = Init::Gate);
    let root = world.start(world.spec(Strategy::OneForOne, 1, vec![])).await;
    let starting = tokio::spawn({
        let (root, slow) = (root.clone(), world.probe("slow"));
        async move { root.start_child(slow).await.map(|_| ()) }
    });
    world.until("slow1 init").await;
    let stopping = tokio::spawn({
        let root = root.clone();
        async move { root.stop().await }
    });
    in_time(world.clock.sleeping(1)).await;
    world.clock.advance(ms(5000));
    assert_eq!(in_time(stopping).await.unwrap(), Exit::Shutdown);
    in_time(starting).await.unwrap().unwrap_err();
    world.settle();
}

#[tokio::test]
async fn a_tree_ends_with_its_runtime() {
    let world = World::new();
    let inner = world.clone();
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let root = runtime.block_on(async {
            let children = vec![inner.probe("a"), ChildSpec::supervisor("mid", SupervisorSpec::default())];
            inner.start(inner.spec(Strategy::OneForOne, 1, children)).await
        });
        drop(runtime);
        let waiter = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        assert_eq!(waiter.block_on(in_time(root.wait_exit())), Exit::Cancelled);
    })
    .await
    .unwrap();
    world.settle();
}

#[tokio::test]
async fn the_tree_tells_generations_restarts_and_last_ends_of_all_below() {
    let world = World::new();
    let mid = ChildSpec::supervisor("mid", world.spec(Strategy::OneForOne, 5, vec![world.probe("leaf")]));
    let pool = ChildSpec::pool("pool", world.pool_spec(5));
    let root = world.start(world.spec(Strategy::RestForOne, 5, vec![world.probe("a"), mid, pool])).await;
    let pool = root.pool("pool").unwrap();
    for name in ["x", "y", "z"] {
        pool.start_child(world.probe(name)).await.unwrap();
    }
    tell_pool(&pool, "y", Msg::Fail);
    world.until("y2 up").await;
    let mid = root.supervisor("mid").unwrap();
    for start in 2..=3 {
        tell(&mid, "leaf", Msg::Panic);
        world.until(&format!("leaf{start} up")).await;
        listing(&mid).await;
    }
    fn told(branches: &[Branch]) -> String {
        let told = branches.iter().map(|Branch { child, width, branches }| {
            let last = child.last_exit.as_ref().map(|exit| format!(" {exit}")).unwrap_or_default();
            let more = width - branches.len();
            let below = if *width == 0 { String::new() } else { format!("[{} +{more}]", told(branches)) };
            format!("{}{}/{}{last}{below}", child.id, child.generation, child.restarts)
        });
        told.collect::<Vec<_>>().join(", ")
    }
    // A restart in a pool is up a moment before it is listed.
    let shown = "a1/0, mid1/0[leaf3/2 panicked: ouch +0], pool1/0[x1/0, y2/1 failed: broken, z1/0 +0]";
    let settled = async {
        while told(&root.tree(3).await) != shown {
            tokio::task::yield_now().await;
        }
    };
    in_time(settled).await;
    assert_eq!(told(&root.tree(1).await), "a1/0");
    world.end(&root).await;
    assert!(root.tree(1).await.is_empty());
}

/// Keeps the log lines of this thread.
struct Lines(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!(" {field}={value:?}");
            }
        }
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn a_restart_is_logged_with_whose_end_led_to_it() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let _kept = tracing::subscriber::set_default(Lines(lines.clone()));
    // With one subscriber only, tracing caches the disinterest of other threads' callsites.
    let _second = tracing::Dispatch::new(Lines(Arc::default()));
    let world = World::new();
    let spec = world.spec(Strategy::RestForOne, 1, vec![world.probe("a"), world.probe("b")]);
    let root = world.start(spec).await;
    tell(&root, "a", Msg::Panic);
    world.until("b2 up").await;
    listing(&root).await;
    let told: Vec<String> =
        lines.lock().unwrap().iter().filter(|line| line.contains("child restarted")).cloned().collect();
    assert_eq!(
        told,
        [
            "INFO message=child restarted tree=\"/\" id=a generation=2 because_of=a exit=panicked: ouch",
            "INFO message=child restarted tree=\"/\" id=b generation=2 because_of=a exit=panicked: ouch",
        ]
    );
    world.end(&root).await;
}
