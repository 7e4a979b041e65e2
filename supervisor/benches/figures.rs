//! What supervision costs, as ratios to bare ractor in the same run.
//!
//! `cargo bench -p ostler-supervisor` prints one line per figure.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures and prints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler_supervisor::{
    ChildSpec, Event, Intensity, Pool, PoolSpec, Strategy, Supervisor, SupervisorSpec, What,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent, call};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const SIBLINGS: usize = 20_000;
const RESTARTS: usize = 2_000;
const SPAWNS: usize = 20_000;
const CALLS: usize = 200_000;
const TOGETHER: usize = 200;

struct Leaf;

enum Msg {
    Crash,
    Ping(RpcReplyPort<u64>),
}

impl Actor for Leaf {
    type Msg = Msg;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Msg>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(&self, _: ActorRef<Msg>, msg: Msg, n: &mut u64) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Crash => return Err("crash".into()),
            Msg::Ping(reply) => {
                *n += 1;
                reply.send(*n)?;
            }
        }
        Ok(())
    }
}

/// Bare ractor: a parent that spawns a fresh leaf whenever one fails.
struct Parent;

impl Actor for Parent {
    type Msg = ();
    type State = UnboundedSender<ActorRef<Msg>>;
    type Arguments = UnboundedSender<ActorRef<Msg>>;

    async fn pre_start(
        &self,
        _: ActorRef<()>,
        up: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(up)
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<()>,
        event: SupervisionEvent,
        up: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(..) = event {
            let (leaf, _) = Leaf::spawn_linked(None, Leaf, (), myself.get_cell()).await?;
            up.send(leaf)?;
        }
        Ok(())
    }
}

/// The middle and the 99th hundredth of `times`.
fn quantiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at = |q: usize| times[times.len() * q / 100].as_secs_f64() * 1e6;
    (at(50), at(99))
}

/// Crashes `leaf` and its successors, one after the other.
async fn restarts(mut leaf: ActorRef<Msg>, up: &mut UnboundedReceiver<ActorRef<Msg>>) -> (f64, f64) {
    let mut times = Vec::with_capacity(RESTARTS);
    for _ in 0..RESTARTS {
        let start = Instant::now();
        leaf.send_message(Msg::Crash).unwrap();
        leaf = up.recv().await.unwrap();
        times.push(start.elapsed());
    }
    quantiles(times)
}

/// Crashes all `leaves` at once and waits until as many are up again.
async fn together(leaves: &[ActorRef<Msg>], up: &mut UnboundedReceiver<ActorRef<Msg>>) -> f64 {
    let start = Instant::now();
    for leaf in leaves {
        leaf.send_message(Msg::Crash).unwrap();
    }
    for _ in leaves {
        up.recv().await.unwrap();
    }
    start.elapsed().as_secs_f64() * 1e6
}

/// Microseconds per call, the best of a few rounds.
async fn calls(leaf: &ActorRef<Msg>) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..10 {
        let start = Instant::now();
        for _ in 0..CALLS / 10 {
            call!(leaf, Msg::Ping).unwrap();
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / (CALLS / 10) as f64);
    }
    best
}

fn leaf_spec(n: usize) -> ChildSpec {
    ChildSpec::actor(format!("leaf-{n}"), || Leaf, || ())
}

fn restarted_to(up: UnboundedSender<ActorRef<Msg>>) -> Arc<impl Fn(&Event<'_>) + Send + Sync> {
    Arc::new(move |event: &Event<'_>| {
        if let What::Restarted { child } = event.what {
            up.send(child.actor::<Leaf>().unwrap()).unwrap();
        }
    })
}

async fn tree_of(count: usize) -> ((f64, f64), f64) {
    let (to, mut up) = unbounded_channel();
    let spec = SupervisorSpec {
        intensity: Intensity::UNLIMITED,
        ..SupervisorSpec::new(Strategy::OneForOne, (0..count).map(leaf_spec).collect())
    };
    let root = Supervisor::start_observed(spec, restarted_to(to)).await.unwrap();
    let result = restarts(root.child::<Leaf>("leaf-0").unwrap(), &mut up).await;
    let call = calls(&root.child::<Leaf>("leaf-0").unwrap()).await;
    root.kill().await;
    (result, call)
}

async fn pool_of(count: usize) -> (Pool, UnboundedReceiver<ActorRef<Msg>>) {
    let (to, up) = unbounded_channel();
    let spec = PoolSpec { intensity: Intensity::UNLIMITED, ..PoolSpec::default() };
    let pool = Pool::start_observed(spec, restarted_to(to)).await.unwrap();
    for n in 0..count {
        pool.start_child(leaf_spec(n)).await.unwrap();
    }
    (pool, up)
}

/// Microseconds per start with `width` callers at a time.
async fn pool_spawns(width: usize) -> f64 {
    let (pool, _up) = pool_of(0).await;
    let start = Instant::now();
    let callers = (0..width).map(|caller| {
        let pool = pool.clone();
        tokio::spawn(async move {
            for n in (caller..SPAWNS).step_by(width) {
                pool.start_child(leaf_spec(n)).await.unwrap();
            }
        })
    });
    futures::future::join_all(callers).await;
    let each = start.elapsed().as_secs_f64() * 1e6 / SPAWNS as f64;
    pool.kill().await;
    each
}

async fn bare_spawns(width: usize) -> f64 {
    let (to, _up) = unbounded_channel();
    let (parent, task) = Parent::spawn(None, Parent, to).await.unwrap();
    let start = Instant::now();
    let callers = (0..width).map(|caller| {
        let parent = parent.get_cell();
        tokio::spawn(async move {
            for _ in (caller..SPAWNS).step_by(width) {
                Leaf::spawn_linked(None, Leaf, (), parent.clone()).await.unwrap();
            }
        })
    });
    futures::future::join_all(callers).await;
    let each = start.elapsed().as_secs_f64() * 1e6 / SPAWNS as f64;
    parent.kill();
    task.await.unwrap();
    // Bare children outlive their parent for a while and would disturb the next measurement.
    tokio::time::sleep(Duration::from_millis(500)).await;
    each
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    tokio::spawn(measure()).await.unwrap();
}

async fn measure() {
    let (to, mut up) = unbounded_channel();
    let (parent, task) = Parent::spawn(None, Parent, to).await.unwrap();
    let mut bare_leaves = Vec::new();
    for _ in 0..TOGETHER {
        bare_leaves.push(Leaf::spawn_linked(None, Leaf, (), parent.get_cell()).await.unwrap().0);
    }
    let bare_call = calls(&bare_leaves[0]).await;
    let bare = restarts(bare_leaves.swap_remove(0), &mut up).await;
    bare_leaves.push(Leaf::spawn_linked(None, Leaf, (), parent.get_cell()).await.unwrap().0);
    let bare_together = together(&bare_leaves, &mut up).await;
    parent.kill();
    task.await.unwrap();
    println!("bare restart us: p50 {:.1} p99 {:.1}; call {bare_call:.2} us", bare.0, bare.1);

    let (alone, call) = tree_of(1).await;
    println!("supervisor restart / bare: p50 {:.2} p99 {:.2}", alone.0 / bare.0, alone.1 / bare.1);
    println!("supervised call rate / raw: {:.2}", bare_call / call);
    let (crowded, _) = tree_of(SIBLINGS).await;
    println!("supervisor restart, {SIBLINGS} siblings / 1: {:.2}", crowded.0 / alone.0);

    let (pool, mut up) = pool_of(1).await;
    let alone = restarts(pool.child::<Leaf>("leaf-0").unwrap(), &mut up).await;
    pool.kill().await;
    println!("pool restart / bare: p50 {:.2} p99 {:.2}", alone.0 / bare.0, alone.1 / bare.1);
    let (pool, mut up) = pool_of(SIBLINGS).await;
    let crowded = restarts(pool.child::<Leaf>("leaf-0").unwrap(), &mut up).await;
    println!("pool restart, {SIBLINGS} siblings / 1: {:.2}", crowded.0 / alone.0);
    let leaves: Vec<_> =
        (0..TOGETHER).map(|n| pool.child::<Leaf>(format!("leaf-{}", n * 7 + 1)).unwrap()).collect();
    let all = together(&leaves, &mut up).await;
    println!("{TOGETHER} of {SIBLINGS} crash together / {TOGETHER} bare: {:.2}", all / bare_together);
    let start = Instant::now();
    pool.stop().await;
    println!("stop of {SIBLINGS}: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);

    for width in [1, 64] {
        let (mut bare, mut pool) = (f64::MAX, f64::MAX);
        for _ in 0..5 {
            bare = bare.min(bare_spawns(width).await);
            pool = pool.min(pool_spawns(width).await);
        }
        println!("pool spawns, {width} callers / raw: {:.2} ({bare:.1} us raw)", bare / pool);
    }
}
