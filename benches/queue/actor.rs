//! The run queue behind the mailbox of an actor: single calls beside batches.
//!
//! The actor owns a queue and has no other work, unlike the scheduler of the system.

use std::time::Instant;

use ostler_scheduler::{AgentHandle, Event, JobHandle, NewJob, RunQueue};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::table::{Row, ratios};
use crate::workload::{Numbers, Size, filled};

const SIZE: Size = Size { jobs: 100_000, clients: 1_000 };
const BATCH: usize = 64;
/// Batches per sample, and samples per side.
const BATCHES: usize = 20;
const SAMPLES: usize = 41;

type Jobs = Vec<(AgentHandle, NewJob, u64)>;

enum Message {
    Enqueue(Jobs, RpcReplyPort<()>),
    /// Settles the granted jobs and dispatches as many.
    Serve(Vec<(JobHandle, u64)>, u32, RpcReplyPort<Vec<JobHandle>>),
}

struct Owner;

impl Actor for Owner {
    type Msg = Message;
    type State = (RunQueue<u64>, Vec<Event>);
    type Arguments = RunQueue<u64>;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        queue: RunQueue<u64>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok((queue, Vec::new()))
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        (queue, events): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Enqueue(jobs, done) => {
                queue.enqueue_batch(jobs, events)?;
                done.send(())?;
            }
            Message::Serve(ended, count, grants) => {
                for (job, actual) in ended {
                    queue.settle(job, actual.into(), events)?;
                }
                queue.dispatch(count, events);
                let granted = events.drain(..).filter_map(|event| match event {
                    Event::Granted(grant) => Some(grant.job),
                    _ => None,
                });
                grants.send(granted.collect())?;
            }
        }
        Ok(())
    }
}

pub(crate) fn rows() -> Vec<Row> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (queue, agents) = filled(SIZE, BATCH as u32, |_, estimate| NewJob::flat(estimate));
        let (owner, _) = Actor::spawn(None, Owner, queue).await.unwrap();
        let mut user = User { owner, agents, numbers: Numbers::new(), granted: Vec::new() };
        let mut pairs = Vec::new();
        for round in 0..=SAMPLES {
            let pair = (user.sample(BATCH, BATCHES).await, user.sample(1, BATCHES * 8).await);
            if round > 0 {
                pairs.push(pair);
            }
        }
        user.owner.stop(None);
        let [ratio, batched, single] = ratios(&pairs);
        let figure = format!("{SIZE}: a job in calls of {BATCH} ÷ one call + one call");
        vec![Row::ratio(figure, 0.15, ratio).note(format!("{batched:.2} µs ÷ {single:.2} µs"))]
    })
}

/// Enqueues jobs and dispatches as many, in two calls.
struct User {
    owner: ActorRef<Message>,
    agents: Vec<AgentHandle>,
    numbers: Numbers,
    granted: Vec<JobHandle>,
}

impl User {
    /// Microseconds per job.
    async fn sample(&mut self, batch: usize, batches: usize) -> f64 {
        let clients = self.agents.len() as u64;
        let start = Instant::now();
        for _ in 0..batches {
            let jobs: Jobs = (0..batch)
                .map(|job| {
                    let agent = self.agents[self.numbers.below(clients) as usize];
                    (agent, NewJob::flat(self.numbers.cost()), job as u64)
                })
                .collect();
            self.owner.call(|reply| Message::Enqueue(jobs, reply), None).await.unwrap().unwrap();
            let ended = std::mem::take(&mut self.granted);
            let ended = ended.into_iter().map(|job| (job, self.numbers.cost())).collect();
            let serve = |reply| Message::Serve(ended, batch as u32, reply);
            self.granted = self.owner.call(serve, None).await.unwrap().unwrap();
        }
        start.elapsed().as_secs_f64() * 1e6 / (batch * batches) as f64
    }
}
