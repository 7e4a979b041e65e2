//! The run queue: orders ready jobs of many clients by credit-weighted fairness, and accounts for their cost.
//!
//! [`RunQueue`] is a plain struct that its owner calls with `&mut self`. The queue has no clock, no randomness and no IO, and
//! knows nothing about the content of a job. All numbers are integers, so the same calls give the same grants on every machine.
//! A refused call changes nothing.
//!
//! # Algorithm
//!
//! The queue is weighted fair queueing over **clients**, not over jobs. The paper's Algorithm 1 fixes a job's key at enqueue,
//! so a client that enqueues a thousand jobs before another one arrives starves the second. Here a runnable client stands in the tree
//! once, however many jobs wait, under the key (tier, vruntime − warp, `seq`). Below a client stand its **agents**, by (vruntime,
//! `seq`); below an agent its jobs, by priority, deadline, rank and arrival. A dispatch takes the first of each.
//!
//! - **Virtual time.** A client's *vruntime* is the charge so far divided by its weight, as in Linux CFS and start-time fair
//!   queueing: serving the least vruntime gives every busy client service in proportion to its weight. The division keeps
//!   its remainder, so no rounding is lost. The tier's virtual time `V` is the greatest key served so far.
//! - **Placement.** A client that becomes runnable continues at `max(v, V)`. Time spent idle earns no credit over busy
//!   clients, and debt is kept: a client cannot shed debt by going idle.
//! - **Ties.** Waking and each dispatch draw a number `seq`. Clients of equal vruntime take turns in that order, and the order
//!   is the same in every replay.
//! - **Estimate, charge, settle.** [`RunQueue::dispatch`] charges a job's estimate, so that several slots do not all go to the
//!   same client; [`RunQueue::settle`] corrects vruntime, balance, bucket and tier account to the true cost. A client that
//!   understates costs gains nothing.
//! - **Tiers and the guaranteed share.** The contracted tier goes first. While both tiers wait, each unit of contracted charge
//!   adds `g` to the account `owed` and each unit of marketplace charge takes `1 − g` off. The marketplace goes first as soon as
//!   `owed` covers the charge of its next job, so its long-run share is at least `g`.
//! - **Weight and balance.** The weight is the entitlement; the balance is a gate. While the balance does not cover the credits
//!   of the first job, the client is *parked*: only its jobs without credits run until a deposit arrives.
//! - **Warp.** A latency class lowers the key of a client by a constant (borrowed virtual time, Duda and Cheriton, 1999): an
//!   interactive client starts sooner after it wakes and receives the same share.
//! - **Token buckets.** A job of a rate-limited model is admitted while the buckets of that model, and of its client, hold its
//!   tokens, and the model is not parked.
//!
//! # Guarantees
//!
//! Costs are counted in units of charge (those of an [`estimate`](NewJob::estimate)), credits of a balance and tokens of a bucket.
//! Virtual time is charge times [`scale`](Config::scale) divided by a weight. For one client or tier, `S` is the
//! scale, `w` the weight, `D` the number of slots (or the client's cap, if less), `L` the largest estimate, and `u` and `o`
//! the greatest underestimate and overestimate so far. `M` is the largest estimate of the marketplace, with its own
//! `u`, and `g` the guaranteed share as a fraction.
//!
//! - **T1, bounded lag.** While weights are constant, the key of a runnable client is at most `S(L + Du)/w + 1` above its
//!   tier's virtual time and at most `SDo/w + warp + 1` below.
//! - **T2, no tier starves.** While the marketplace waits, the contracted tier is charged at most
//!   `(1 − g)/g · (M + Du)` and, of the contracted tier, `D(o + u) + L`.
//! - **T3, limits hold.** Slots and caps are never exceeded, no job with credits is dispatched beyond the balance, and a
//!   balance is below zero by at most the sum of underestimates.
//! - **T4, shares converge.** T1 bounds the spread `G` of shares around their mean `x`; their Jain index is then at least
//!   `1/(1 + (G/2x)²)`.
//!
//! `tests/theorems.rs` asserts all four after each of a million random operations, and that the bounds are reached.
//!
//! # Example
//!
//! ```
//! use ostler_scheduler::{Config, Event, NewClient, NewJob, RunQueue};
//!
//! let mut queue = RunQueue::new(Config { slots: 2, ..Config::default() })?;
//! let mut events = Vec::new();
//! let client = queue.add_client(NewClient::default())?;
//! let agent = queue.add_agent(client, 100)?;
//! queue.enqueue(agent, NewJob::flat(500), "summarize", &mut events)?;
//! queue.dispatch(1, &mut events);
//! let [Event::Granted(grant)] = events[..] else { panic!("one job is granted") };
//! assert_eq!(queue.job(grant.job), Some(&"summarize"));
//! let settled = queue.settle(grant.job, 420.into(), &mut events)?;
//! assert_eq!(settled.payload, "summarize");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod account;
mod agent;
mod agent_order;
mod arena;
mod backlog;
mod bucket;
mod client;
mod clients;
mod config;
mod cost;
mod dispatch;
mod error;
mod event;
mod fairness;
mod job;
mod rates;
mod ready_clients;
mod rebase;
mod refresh;
mod restore;
mod run_queue;
mod settle;
mod tier;
mod view;

pub use agent::AgentHandle;
pub use bucket::{BucketLevels, PARK_MS_MAX};
pub use client::{ClientHandle, Latency, NewClient};
pub use config::{
    AGENT_WEIGHT, BALANCE_MAX, BUCKET_MAX, BucketConfig, CAPACITY_MAX, COST_MAX, Config, ModelLimits,
    PLACES_MAX, PRODUCT_MAX, REBASE_MAX, SCALE_MAX, SLOTS_MAX, UNIT_MAX, WARP_MAX, WEIGHT_MAX, Warp,
};
pub use cost::{AMOUNT_MAX, CREDITS, Price, Pricing, TOKENS};
pub use error::{
    AddAgentError, AddClientError, CancelError, ConfigError, CostOutOfRange, CreditError, EnqueueError,
    RemoveClientError, ReputationError, RestoreError, SettleError, UnknownClient, WeightError,
};
pub use event::{Accounts, Event, Grant, Settled};
pub use fairness::jain;
pub use job::{JobHandle, ModelHandle, NewJob};
pub use run_queue::RunQueue;
pub use tier::Tier;
pub use view::{AgentView, ClientView, TierView};
