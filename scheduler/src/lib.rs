//! The run queue: who goes next, and what it costs them.
//!
//! [`RunQueue`] orders ready jobs of many clients by credit-weighted fairness. It is a plain struct that its owner calls
//! with `&mut self`: no clock, no randomness, no IO, and no knowledge of what a job is. The same calls give the same
//! grants on every machine, because every number in it is an integer.
//!
//! - A **client** contains a weight, a balance and a tier; below it stand its **agents**, below each its jobs.
//! - [`RunQueue::dispatch`] charges a job's estimate, [`RunQueue::settle`] corrects the charge to what it really cost.
//! - Whoever has been charged least for its weight goes next; the contracted tier goes first, but the marketplace is owed
//!   a guaranteed share.
//! - What a call changes besides its answer (a client parked for lack of credit, say) is appended to a list of [`Event`]s.
//! - A refused call changes nothing.
//!
//! # What is promised
//!
//! Costs are counted in units of charge (what an [`estimate`](NewJob::estimate) is given in), credits of a balance and tokens of a
//! bucket; virtual time is charge times [`scale`](Config::scale) divided by a weight. For one client or tier let `S` be the
//! scale, `w` the weight, `D` the slots (or the client's cap, if that is less), `L` the largest estimate, and `u` and `o`
//! the most by which an estimate was too low and too high so far; `M` is the largest estimate of the marketplace, with its own
//! `u`, and `g` its guarantee as a fraction.
//!
//! - **T1, nobody runs ahead or falls behind.** While weights stay, a runnable client's virtual time less its head start is at
//!   most `S(L + Du)/w + 1` above its tier's, and at most `SDo/w + warp + 1` below. [`RunQueue::dispatch`] serves the least,
//!   [`RunQueue::settle`] corrects to the unit, and a client that wakes starts at its tier's virtual time: it keeps its debt, and
//!   idleness earns nothing.
//! - **T2, no tier starves.** What the contracted tier is charged while the marketplace waits is at most
//!   `(1 - g)/g * (M + Du)` and, of the contracted tier, `D(o + u) + L`.
//! - **T3, limits hold.** Slots and caps are never exceeded, nothing that costs credits is dispatched that the balance does not pay
//!   for, and a balance is below zero by no more than settlements exceeded their estimates.
//! - **T4, shares converge.** T1 bounds how far shares spread, and shares `G` apart around a mean `x` have a Jain index of at least `1/(1 + (G/2x)²)`.
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
mod backlog;
mod bucket;
mod client;
mod config;
mod cost;
mod dispatch;
mod error;
mod event;
mod fairness;
mod job;
mod rebase;
mod refresh;
mod restore;
mod run_queue;
mod settle;
mod ready_clients;
mod arena;
mod clients;
mod tier;
mod view;

pub use agent::AgentHandle;
pub use client::{ClientHandle, Latency, NewClient};
pub use config::{
    AGENT_WEIGHT, BALANCE_MAX, BUCKET_MAX, BucketConfig, CAPACITY_MAX, COST_MAX, Config, PLACES_MAX,
    PRODUCT_MAX, REBASE_MAX, SCALE_MAX, SLOTS_MAX, UNIT_MAX, WARP_MAX, WEIGHT_MAX, Warp,
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
