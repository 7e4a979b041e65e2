//! The cost of supervision, as ratios to bare ractor in the same run.
//!
//! `cargo bench -p ostler-supervisor` prints one line for each figure, and with `-- spawns` only the ones of that part:
//! restarts, calls, spawns or scale. Both sides are measured in turns, in many short samples, and the median of the
//! ratios counts: other load on the machine then slows both sides.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures and prints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler_supervisor::{
    ChildEvent, ChildSpec, Event, Intensity, Pool, PoolSpec, Restart, StableRef, Strategy, Supervisor,
    SupervisorRef, SupervisorSpec,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent, call};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const SIBLINGS: usize = 20_000;
const TOGETHER: usize = 200;
const RESTARTS: usize = 1_000;
const SPAWNS: usize = 2_000;
const CALLS: usize = 10_000;
const ROUNDS: usize = 11;

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

/// Bare ractor: a parent that spawns a new leaf whenever one fails.
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

type Fresh = UnboundedReceiver<ActorRef<Msg>>;

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Prints the median of the ratios of pairs, beside the required and the desired value.
fn tell(figure: &str, (must, aim): (f64, f64), pairs: &[(f64, f64)], unit: &str) {
    let ratio = median(pairs.iter().map(|(ours, theirs)| ours / theirs).collect());
    let ours = median(pairs.iter().map(|pair| pair.0).collect());
    let theirs = median(pairs.iter().map(|pair| pair.1).collect());
    println!("| {figure:<68} | {must:>5} | {aim:>5} | {ratio:>6.2} | {ours:.1} ÷ {theirs:.1} {unit} |");
}

/// A leaf with repeated crashes, and the channel of successors.
struct Crashing {
    leaf: ActorRef<Msg>,
    up: Fresh,
}

impl Crashing {
    /// Median and 99th percentile of the microseconds from a crash until the next leaf runs.
    async fn restarts(&mut self) -> (f64, f64) {
        let mut times = Vec::with_capacity(RESTARTS);
        for _ in 0..RESTARTS {
            let start = Instant::now();
            self.leaf.send_message(Msg::Crash).unwrap();
            self.leaf = self.up.recv().await.unwrap();
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let at = |q: usize| times[times.len() * q / 100].as_secs_f64() * 1e6;
        (at(50), at(99))
    }
}

/// Crashes all `leaves` at once and waits until as many run again: microseconds.
async fn together(leaves: &mut Vec<ActorRef<Msg>>, up: &mut Fresh) -> f64 {
    let start = Instant::now();
    for leaf in leaves.drain(..) {
        leaf.send_message(Msg::Crash).unwrap();
    }
    for _ in 0..TOGETHER {
        leaves.push(up.recv().await.unwrap());
    }
    start.elapsed().as_secs_f64() * 1e6
}

/// Calls per millisecond.
async fn call_rate(leaf: &ActorRef<Msg>) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        call!(leaf, Msg::Ping).unwrap();
    }
    CALLS as f64 / (start.elapsed().as_secs_f64() * 1e3)
}

/// Calls per millisecond through a stable reference.
async fn stable_call_rate(leaf: &StableRef<Msg>) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        leaf.call(Msg::Ping).await.unwrap();
    }
    CALLS as f64 / (start.elapsed().as_secs_f64() * 1e3)
}

fn leaf_spec(n: usize) -> ChildSpec {
    ChildSpec::actor(format!("leaf-{n}"), || Leaf, || ())
}

fn restarted_to(up: UnboundedSender<ActorRef<Msg>>) -> Arc<impl Fn(&Event<'_>) + Send + Sync> {
    Arc::new(move |event: &Event<'_>| {
        if let ChildEvent::Restarted { child } = event.kind {
            up.send(child.actor::<Leaf>().unwrap()).unwrap();
        }
    })
}

/// A supervisor of `count` children, the first of which crashes.
async fn tree_of(count: usize) -> (SupervisorRef, Crashing) {
    let (to, up) = unbounded_channel();
    let spec = SupervisorSpec {
        intensity: Intensity::UNLIMITED,
        ..SupervisorSpec::new(Strategy::OneForOne, (0..count).map(leaf_spec).collect())
    };
    let root = Supervisor::start_observed(spec, restarted_to(to)).await.unwrap();
    let leaf = root.child::<Leaf>("leaf-0").unwrap();
    (root, Crashing { leaf, up })
}

/// A pool of `count` children, the first of which crashes.
async fn pool_of(count: usize) -> (Pool, Crashing) {
    let (to, up) = unbounded_channel();
    let pool = empty_pool(Some(to)).await;
    for n in 0..count {
        pool.start_child(leaf_spec(n)).await.unwrap();
    }
    let leaf = pool.child::<Leaf>("leaf-0").unwrap();
    (pool, Crashing { leaf, up })
}

async fn empty_pool(to: Option<UnboundedSender<ActorRef<Msg>>>) -> Pool {
    let spec = PoolSpec { intensity: Intensity::UNLIMITED, ..PoolSpec::default() };
    match to {
        Some(to) => Pool::start_observed(spec, restarted_to(to)).await.unwrap(),
        None => Pool::start(spec).await.unwrap(),
    }
}

/// Bare ractor: a parent, its leaves, and the channel of new ones.
async fn bare_of(count: usize) -> (ActorRef<()>, Vec<ActorRef<Msg>>, Fresh) {
    let (to, up) = unbounded_channel();
    let (parent, _) = Parent::spawn(None, Parent, to).await.unwrap();
    let mut leaves = Vec::new();
    for _ in 0..count {
        leaves.push(Leaf::spawn_linked(None, Leaf, (), parent.get_cell()).await.unwrap().0);
    }
    (parent, leaves, up)
}

/// Spawns per millisecond with `width` concurrent callers.
async fn pool_spawns(width: usize) -> f64 {
    let pool = empty_pool(None).await;
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
    let rate = SPAWNS as f64 / (start.elapsed().as_secs_f64() * 1e3);
    pool.kill().await;
    rate
}

async fn bare_spawns(width: usize) -> f64 {
    let (parent, _, _up) = bare_of(0).await;
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
    let rate = SPAWNS as f64 / (start.elapsed().as_secs_f64() * 1e3);
    parent.kill();
    // Bare children outlive their parent briefly and would disturb the next measurement.
    tokio::time::sleep(Duration::from_millis(60)).await;
    rate
}

/// Milliseconds to terminate `count` children of a pool one by one, and to start them and stop the pool.
async fn goings(count: usize) -> (f64, f64) {
    let pool = empty_pool(None).await;
    let ms = |since: Instant| since.elapsed().as_secs_f64() * 1e3;
    let fill = async |pool: &Pool| {
        for n in 0..count {
            pool.start_child(leaf_spec(n).restart(Restart::Temporary)).await.unwrap();
        }
    };
    fill(&pool).await;
    let begun = Instant::now();
    for n in 0..count {
        pool.terminate_child(format!("leaf-{n}")).await.unwrap();
    }
    let terminated = ms(begun);
    let begun = Instant::now();
    fill(&pool).await;
    pool.stop().await;
    (terminated, ms(begun))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    println!("| {:<68} | must | aim | ratio | made of |", "figure");
    let parts: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let wanted = move |part: &str| parts.is_empty() || parts.iter().any(|named| named == part);
    tokio::spawn(async move {
        if wanted("restarts") {
            restarts().await;
        }
        if wanted("calls") {
            calls().await;
        }
        if wanted("spawns") {
            spawns().await;
        }
        if wanted("scale") {
            scale().await;
        }
    })
    .await
    .unwrap();
}

async fn restarts() {
    let (parent, mut leaves, up) = bare_of(1).await;
    let mut bare = Crashing { leaf: leaves.remove(0), up };
    let (_tree, mut alone) = tree_of(1).await;
    let (_crowd, mut crowded) = tree_of(SIBLINGS).await;
    let (_pool, mut pooled) = pool_of(1).await;
    let (big, mut pool_crowded) = pool_of(SIBLINGS).await;
    let [mut p50, mut p99, mut pool50, mut pool99, mut crowd, mut pool_crowd] = [const { Vec::new() }; 6];
    for _ in 0..ROUNDS {
        let (bare50, bare99) = bare.restarts().await;
        let (one50, one99) = alone.restarts().await;
        let (many50, _) = crowded.restarts().await;
        p50.push((one50, bare50));
        p99.push((one99, bare99));
        crowd.push((many50, one50));
        let (one50, one99) = pooled.restarts().await;
        let (many50, _) = pool_crowded.restarts().await;
        pool50.push((one50, bare50));
        pool99.push((one99, bare99));
        pool_crowd.push((many50, one50));
    }
    tell("restart under a supervisor ÷ bare respawn, median", (2.0, 1.4), &p50, "us");
    tell("restart under a supervisor ÷ bare respawn, 99th hundredth", (3.0, 2.0), &p99, "us");
    tell("restart in a pool ÷ bare respawn, median", (2.0, 1.4), &pool50, "us");
    tell("restart in a pool ÷ bare respawn, 99th hundredth", (3.0, 2.0), &pool99, "us");
    tell("restart with 20,000 siblings ÷ with 1, supervisor", (1.5, 1.1), &crowd, "us");
    tell("restart with 20,000 siblings ÷ with 1, pool", (1.5, 1.1), &pool_crowd, "us");

    let (parent_of_many, mut bare_leaves, mut bare_up) = bare_of(TOGETHER).await;
    let mut leaves: Vec<_> =
        (0..TOGETHER).map(|n| big.child::<Leaf>(format!("leaf-{}", n * 7 + 1)).unwrap()).collect();
    let mut storms = Vec::new();
    for _ in 0..5 * ROUNDS {
        let theirs = together(&mut bare_leaves, &mut bare_up).await;
        storms.push((together(&mut leaves, &mut pool_crowded.up).await, theirs));
    }
    tell("200 of 20,000 crash together, all up ÷ 200 bare respawns", (5.0, 2.0), &storms, "us");
    parent.kill();
    parent_of_many.kill();
    futures::future::join(_tree.kill(), _crowd.kill()).await;
    futures::future::join(_pool.kill(), big.kill()).await;
}

async fn calls() {
    let (parent, bare, _up) = bare_of(1).await;
    let stable = StableRef::new();
    let spec = SupervisorSpec::new(Strategy::OneForOne, vec![leaf_spec(0).stable_ref(&stable)]);
    let root = Supervisor::start(spec).await.unwrap();
    let present = stable.get().unwrap();
    let (mut supervised, mut through) = (Vec::new(), Vec::new());
    for _ in 0..3 * ROUNDS {
        let raw = call_rate(&bare[0]).await;
        supervised.push((call_rate(&present).await, raw));
        through.push((stable_call_rate(&stable).await, raw));
    }
    tell("rate of calls to a supervised actor ÷ raw (higher is better)", (0.9, 0.97), &supervised, "per ms");
    tell(
        "rate of calls through a stable reference ÷ raw (higher is better)",
        (0.9, 0.97),
        &through,
        "per ms",
    );
    parent.kill();
    root.kill().await;
}

async fn spawns() {
    for width in [1, 64] {
        let mut pairs = Vec::new();
        for _ in 0..5 * ROUNDS {
            let theirs = bare_spawns(width).await;
            pairs.push((pool_spawns(width).await, theirs));
        }
        let figure = format!("rate of spawns through the pool, {width} at a time ÷ raw (higher is better)");
        tell(&figure, (0.8, 0.95), &pairs, "per ms");
    }
}

async fn scale() {
    let ((few, few_whole), (many, many_whole)) = (goings(10_000).await, goings(100_000).await);
    tell("100,000 children terminated one by one ÷ 10,000 (I06)", (50.0, 12.0), &[(many, few)], "ms");
    let (_, least) = goings(1_000).await;
    tell(
        "100,000 children started, and stopped ÷ 1,000 (I07)",
        (1_000.0, 120.0),
        &[(many_whole, least)],
        "ms",
    );
    tell("100,000 children started, and stopped ÷ 10,000", (50.0, 12.0), &[(many_whole, few_whole)], "ms");
}
