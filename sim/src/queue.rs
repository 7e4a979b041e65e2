//! Replays a trace of run queue operations: JSON lines in, JSON lines out, the same bytes every time.
//!
//! A trace names clients, agents, models and jobs by text. This module maps those names to handles, keeps the plans of
//! the
//! trace, and leaves every decision to [`RunQueue`].
//!
//! ```
//! let printed = ostler_sim::queue::run_trace(r#"
//!     {"op":"client","id":"ada"}
//!     {"op":"enqueue","id":"job","client":"ada","est":5}
//!     {"op":"dispatch"}
//!     {"op":"settle","id":"nobody","actual":5}
//! "#);
//! assert_eq!(printed, "{\"d\":\"job\",\"c\":\"ada\",\"t\":1,\"v\":0}
//! {\"error\":\"unknown_job\",\"op\":\"settle\"}
//! ");
//! ```

mod plan;
mod record;

use std::collections::BTreeMap;

use ostler_scheduler::{
    AGENT_WEIGHT, AgentHandle, BucketConfig, CancelError, ClientHandle, Config, ConfigError, CreditError,
    Event, JobHandle, Latency, NewClient, NewJob, Price, RunQueue, SettleError, Tier, WEIGHT_MAX, Warp,
};

use self::plan::{Plan, Ready, Shape};
use self::record::{BadShape, ConfigChange, Node, Record, Stated};

/// Output lines of a whole trace.
pub fn run_trace(input: &str) -> String {
    let (mut trace, mut printed) = (Trace::new(), String::new());
    input.split('\n').for_each(|line| trace.line(line, &mut printed));
    printed
}

/// State of a trace between two lines.
pub struct Trace {
    config: Config,
    queue: RunQueue<Job>,
    /// True after the first client was added: the settings are then fixed.
    started: bool,
    clients: BTreeMap<String, Tenant>,
    names: BTreeMap<ClientHandle, String>,
    jobs: BTreeMap<String, InUse>,
    plans: BTreeMap<u64, Plan>,
    plans_made: u64,
    events: Vec<Event>,
}

struct Tenant {
    handle: ClientHandle,
    agents: BTreeMap<String, AgentHandle>,
    waiting: usize,
}

struct Job {
    id: String,
    node: Option<NodeOf>,
}

#[derive(Clone, Copy)]
struct NodeOf {
    plan: u64,
    number: usize,
}

enum InUse {
    Waiting(NodeOf),
    Placed(JobHandle),
}

/// Error code of a refused operation, as printed.
type Code = &'static str;

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

impl Trace {
    /// A trace before its first line.
    pub fn new() -> Self {
        let config = Config::default();
        Self {
            queue: RunQueue::new(config.clone()).expect("the default settings are in range"),
            config,
            started: false,
            clients: BTreeMap::new(),
            names: BTreeMap::new(),
            jobs: BTreeMap::new(),
            plans: BTreeMap::new(),
            plans_made: 0,
            events: Vec::new(),
        }
    }

    /// Applies one line (without its line feed) and appends its output. Skips blank lines.
    pub fn line(&mut self, line: &str, printed: &mut String) {
        let line = line.trim_matches([' ', '\t', '\r']);
        if line.is_empty() {
            return;
        }
        match record::read(line) {
            Err(BadShape(operation)) => refuse("bad_op", operation, printed),
            Ok((operation, record)) => {
                if let Err(code) = self.apply(record, printed) {
                    refuse(code, Some(operation), printed);
                }
            }
        }
        self.print_events(printed);
    }

    fn apply(&mut self, record: Record, printed: &mut String) -> Result<(), Code> {
        match record {
            Record::Config(change) => self.configure(change),
            Record::Client { id, weight, tier, in_flight_max, balance, latency } => {
                self.add_client(id, weight, tier, in_flight_max, balance, latency)
            }
            Record::RemoveClient { client } => self.remove_client(&client),
            Record::Agent { client, id, weight } => self.add_agent(&client, id, weight),
            Record::Enqueue { id, client, estimate, agent, priority, deadline, rank, model } => {
                let job = NewJob { priority, deadline, rank, ..NewJob::flat(0) };
                self.enqueue(id, &client, agent, &estimate, job, model)
            }
            Record::Plan { client, agent, nodes } => self.add_plan(client, agent, nodes),
            Record::Dispatch { n } => self.dispatch(n),
            Record::Settle { id, actual } => self.settle(&id, &actual),
            Record::Step { id, used } => self.step(&id, &used),
            Record::Cancel { id } => self.cancel(&id, printed),
            Record::Credit { client, amount } => {
                let client = self.tenant(&client)?.handle;
                let credited = self.queue.credit(client, amount, &mut self.events);
                credited.map(drop).map_err(|error| match error {
                    CreditError::Unknown(_) => "unknown_client",
                    CreditError::Unmetered => "unmetered",
                    CreditError::Overflow { .. } => "credit_overflow",
                })
            }
            Record::Weight { client, weight } => {
                let client = self.tenant(&client)?.handle;
                let weight = checked_weight(Some(weight))?;
                self.queue.set_weight(client, weight).map(drop).map_err(|_| "bad_weight")
            }
            Record::Reputation { client, reputation } => {
                let client = self.tenant(&client)?.handle;
                self.queue.set_reputation(client, reputation).map(drop).map_err(|_| "bad_op")
            }
            Record::Tier { client, tier } => {
                let client = self.tenant(&client)?.handle;
                self.queue.set_tier(client, tier).map_err(|_| "unknown_client")
            }
            Record::Advance { ms } => {
                self.queue.advance(ms, &mut self.events);
                Ok(())
            }
            Record::Stat => {
                self.print_stat(printed);
                Ok(())
            }
        }
    }

    fn configure(&mut self, change: ConfigChange) -> Result<(), Code> {
        if self.started {
            return Err("config_late");
        }
        let config = changed(&self.config, change);
        self.queue = RunQueue::new(config.clone()).map_err(|error| match error {
            ConfigError::Bucket { .. } => "bad_bucket",
            _ => "bad_config",
        })?;
        self.config = config;
        Ok(())
    }

    // -- clients and agents ----------------------------------------------------------------------------------------

    fn tenant(&self, client: &str) -> Result<&Tenant, Code> {
        self.clients.get(client).ok_or("unknown_client")
    }

    fn tenant_mut(&mut self, client: &str) -> &mut Tenant {
        self.clients.get_mut(client).expect("the operation began by finding the client")
    }

    fn add_client(
        &mut self,
        id: String,
        weight: Option<i64>,
        tier: Tier,
        in_flight_max: Option<u32>,
        balance: Option<i64>,
        latency: Latency,
    ) -> Result<(), Code> {
        if self.clients.contains_key(&id) {
            return Err("duplicate_client");
        }
        let weight = checked_weight(weight)?;
        let new = NewClient { weight, tier, in_flight_max, balance, latency, tokens: None };
        let handle = self.queue.add_client(new).map_err(|_| "credit_overflow")?;
        self.started = true;
        self.names.insert(handle, id.clone());
        self.clients.insert(id, Tenant { handle, agents: BTreeMap::new(), waiting: 0 });
        Ok(())
    }

    fn remove_client(&mut self, client: &str) -> Result<(), Code> {
        let tenant = self.tenant(client)?;
        let handle = tenant.handle;
        if tenant.waiting > 0 {
            return Err("client_busy");
        }
        self.queue.remove_client(handle).map_err(|_| "client_busy")?;
        self.clients.remove(client);
        self.names.remove(&handle);
        Ok(())
    }

    fn add_agent(&mut self, client: &str, id: String, weight: Option<i64>) -> Result<(), Code> {
        let tenant = self.tenant(client)?;
        if tenant.agents.contains_key(&id) {
            return Err("duplicate_agent");
        }
        let agent = self.queue.add_agent(tenant.handle, checked_weight(weight)?).map_err(|_| "bad_weight")?;
        self.tenant_mut(client).agents.insert(id, agent);
        Ok(())
    }

    /// Returns the agent of this name; registers a new one if needed.
    fn agent(&mut self, client: &str, id: String) -> AgentHandle {
        let tenant = self.clients.get_mut(client).expect("the operation began by finding the client");
        *tenant.agents.entry(id).or_insert_with(|| {
            self.queue
                .add_agent(tenant.handle, AGENT_WEIGHT)
                .expect("a trace has fewer agents than the limit")
        })
    }

    // -- jobs ------------------------------------------------------------------------------------------------------

    fn enqueue(
        &mut self,
        id: String,
        client: &str,
        agent: String,
        estimate: &Stated,
        job: NewJob,
        model: Option<String>,
    ) -> Result<(), Code> {
        self.tenant(client)?;
        if self.jobs.contains_key(&id) {
            return Err("duplicate_job");
        }
        let estimate = self.price(estimate)?;
        let agent = self.agent(client, agent);
        let model = model.and_then(|model| self.queue.model(&model));
        let payload = Job { id: id.clone(), node: None };
        let queued = self.queue.enqueue(agent, NewJob { estimate, model, ..job }, payload, &mut self.events);
        self.jobs.insert(id, InUse::Placed(queued.map_err(|_| "cost_out_of_range")?));
        Ok(())
    }

    fn add_plan(&mut self, client: String, agent: String, nodes: Vec<Node>) -> Result<(), Code> {
        self.tenant(&client)?;
        let mut ids: Vec<&str> = nodes.iter().map(|node| node.id.as_str()).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) || ids.iter().any(|id| self.jobs.contains_key(*id)) {
            return Err("duplicate_job");
        }
        let shape = Shape::of(&nodes)?;
        let prices = nodes.iter().map(|node| self.price(&node.estimate)).collect::<Result<Vec<_>, _>>()?;
        let agent = self.agent(&client, agent);
        let number = self.plans_made;
        self.plans_made += 1;
        self.tenant_mut(&client).waiting += nodes.len();
        for (place, node) in nodes.iter().enumerate() {
            self.jobs.insert(node.id.clone(), InUse::Waiting(NodeOf { plan: number, number: place }));
        }
        let plan = Plan::new(client, agent, nodes, &prices, shape);
        let roots = plan.roots();
        self.plans.insert(number, plan);
        let jobs = new_jobs(agent, number, &roots);
        let handles = self.queue.enqueue_batch(jobs, &mut self.events).map_err(|_| "cost_out_of_range")?;
        self.place(number, &roots, &handles);
        Ok(())
    }

    fn place(&mut self, plan: u64, ready: &[Ready], handles: &[JobHandle]) {
        for (node, handle) in ready.iter().zip(handles) {
            self.jobs.insert(node.id.clone(), InUse::Placed(*handle));
            self.plans.get_mut(&plan).expect("a plan with waiting nodes is kept").queued(node.number);
        }
        self.end_wait(plan, ready.len());
    }

    /// Subtracts `nodes` from the waiting nodes of a plan and drops the plan at zero.
    fn end_wait(&mut self, plan: u64, nodes: usize) {
        let found = &self.plans[&plan];
        let (client, over) = (found.client.clone(), found.is_over());
        self.tenant_mut(&client).waiting -= nodes;
        if over {
            self.plans.remove(&plan);
        }
    }

    fn dispatch(&mut self, n: u32) -> Result<(), Code> {
        self.queue.dispatch(n, &mut self.events);
        Ok(())
    }

    fn settle(&mut self, id: &str, actual: &Stated) -> Result<(), Code> {
        let job = self.placed(id)?;
        let actual = self.price(actual).unwrap_or(REFUSED);
        let node =
            self.queue.job(job).and_then(|job| job.node).filter(|node| self.plans.contains_key(&node.plan));
        let ready = node.map_or_else(Vec::new, |node| self.plans[&node.plan].ready_after(node.number));
        let following =
            node.map_or_else(Vec::new, |node| new_jobs(self.plans[&node.plan].agent, node.plan, &ready));
        let settled =
            self.queue.settle_and_enqueue(job, actual, following, &mut self.events).map_err(settle_code)?;
        self.jobs.remove(id);
        if let Some(node) = node {
            self.plans.get_mut(&node.plan).expect("it was there a moment ago").settled(node.number);
            self.place(node.plan, &ready, &settled.following);
        }
        Ok(())
    }

    fn step(&mut self, id: &str, used: &Stated) -> Result<(), Code> {
        let job = self.placed(id)?;
        let used = self.price(used).unwrap_or(REFUSED);
        self.queue.step(job, used, &mut self.events).map(drop).map_err(settle_code)
    }

    fn cancel(&mut self, id: &str, printed: &mut String) -> Result<(), Code> {
        let (node, waited) = match *self.jobs.get(id).ok_or("unknown_job")? {
            InUse::Waiting(node) => (Some(node), 1),
            InUse::Placed(job) => {
                let cancelled = self.queue.cancel(job, &mut self.events);
                let cancelled = cancelled.map_err(|error| match error {
                    CancelError::UnknownJob => "unknown_job",
                    CancelError::Running => "running",
                })?;
                (cancelled.node, 0)
            }
        };
        self.jobs.remove(id);
        let Some(node) = node else { return Ok(()) };
        let Some(plan) = self.plans.get_mut(&node.plan) else { return Ok(()) };
        let below = plan.cancel(node.number);
        for gone in &below {
            self.jobs.remove(gone);
            printed.push_str(&format!("{{\"ev\":\"cancel\",\"id\":\"{gone}\",\"by\":\"{id}\"}}\n"));
        }
        self.end_wait(node.plan, waited + below.len());
        Ok(())
    }

    fn placed(&self, id: &str) -> Result<JobHandle, Code> {
        match self.jobs.get(id) {
            None => Err("unknown_job"),
            Some(InUse::Waiting(_)) => Err("not_running"),
            Some(InUse::Placed(job)) => Ok(*job),
        }
    }

    fn price(&self, stated: &Stated) -> Result<Price, Code> {
        let price = match stated {
            Stated::Flat(amount) => u64::try_from(*amount).ok().map(Price::flat),
            Stated::Amounts(amounts) => self
                .queue
                .pricing()
                .price(amounts.iter().map(|(name, &amount)| (name.as_str(), unsigned(amount)))),
        };
        price.filter(|price| (1..=self.config.cost_max).contains(&price.charge)).ok_or("cost_out_of_range")
    }

    // -- printing --------------------------------------------------------------------------------------------------

    fn print_events(&mut self, printed: &mut String) {
        for event in self.events.drain(..) {
            match event {
                Event::Granted(grant) => {
                    let job = &self.queue.job(grant.job).expect("a granted job runs").id;
                    let (client, tier) = (&self.names[&grant.client], grant.tier as u8);
                    printed.push_str(&format!(
                        "{{\"d\":\"{job}\",\"c\":\"{client}\",\"t\":{tier},\"v\":{}}}\n",
                        grant.key
                    ));
                }
                Event::Stepped { job, yielded } => {
                    let job = &self.queue.job(job).expect("a job outlives its step").id;
                    printed.push_str(&format!("{{\"step\":\"{job}\",\"y\":{yielded}}}\n"));
                }
                Event::Parked(client) => {
                    printed.push_str(&format!("{{\"ev\":\"park\",\"c\":\"{}\"}}\n", self.names[&client]));
                }
                Event::Unparked(client) => {
                    printed.push_str(&format!("{{\"ev\":\"unpark\",\"c\":\"{}\"}}\n", self.names[&client]));
                }
                Event::Rebased { .. } | Event::AgentsRebased { .. } => {}
            }
        }
    }

    fn print_stat(&self, printed: &mut String) {
        let rows: Vec<String> = self
            .queue
            .clients()
            .iter()
            .map(|client| {
                format!(
                    "[\"{}\",{},{},{},{},{}]",
                    self.names[&client.client],
                    client.vruntime,
                    client.in_flight,
                    client.queued,
                    client.charged,
                    client.balance.map_or_else(|| "null".into(), |balance| balance.to_string()),
                )
            })
            .collect();
        let [contracted, marketplace] = Tier::ALL.map(|tier| self.queue.tier(tier).vruntime);
        printed.push_str(&format!(
            "{{\"stat\":[{}],\"V\":[{contracted},{marketplace}],\"owed\":{}}}\n",
            rows.join(","),
            self.queue.owed()
        ));
    }
}

const REFUSED: Price = Price::flat(0);

fn refuse(code: Code, operation: Option<&str>, printed: &mut String) {
    let operation = operation.map_or_else(|| "null".into(), |operation| format!("\"{operation}\""));
    printed.push_str(&format!("{{\"error\":\"{code}\",\"op\":{operation}}}\n"));
}

fn settle_code(error: SettleError) -> Code {
    match error {
        SettleError::UnknownJob => "unknown_job",
        SettleError::NotRunning => "not_running",
        SettleError::Cost(_) | SettleError::Following(_) => "cost_out_of_range",
    }
}

fn new_jobs(agent: AgentHandle, plan: u64, ready: &[Ready]) -> Vec<(AgentHandle, NewJob, Job)> {
    ready
        .iter()
        .map(|node| {
            let payload = Job { id: node.id.clone(), node: Some(NodeOf { plan, number: node.number }) };
            (agent, NewJob { rank: node.rank, ..NewJob::of(node.price) }, payload)
        })
        .collect()
}

fn checked_weight(weight: Option<i64>) -> Result<u32, Code> {
    let weight = u32::try_from(weight.unwrap_or(AGENT_WEIGHT.into())).map_err(|_| "bad_weight")?;
    if (1..=WEIGHT_MAX).contains(&weight) { Ok(weight) } else { Err("bad_weight") }
}

/// Maps negative integers above every valid range; the operation then refuses them.
fn unsigned(stated: i64) -> u64 {
    u64::try_from(stated).unwrap_or(u64::MAX)
}

fn changed(old: &Config, change: ConfigChange) -> Config {
    let [slots, guarantee_pm, scale, unit, cost_max, beta_pm, rep_cap_pm, rebase_at] =
        change.settings.map(|setting| setting.map(unsigned));
    let narrow =
        |stated: Option<u64>, old: u16| stated.map_or(old, |value| u16::try_from(value).unwrap_or(u16::MAX));
    let mut config = Config {
        slots: slots.map_or(old.slots, |slots| u32::try_from(slots).unwrap_or(u32::MAX)),
        guarantee_pm: narrow(guarantee_pm, old.guarantee_pm),
        scale: scale.unwrap_or(old.scale),
        cost_max: cost_max.unwrap_or(old.cost_max),
        beta_pm: narrow(beta_pm, old.beta_pm),
        reputation_pm_max: narrow(rep_cap_pm, old.reputation_pm_max),
        rebase_at: rebase_at.unwrap_or(old.rebase_at),
        ..old.clone()
    };
    config.pricing.unit = unit.unwrap_or(old.pricing.unit);
    if let Some(capacities) = change.capacities {
        config.pricing.capacities =
            capacities.into_iter().map(|(name, amount)| (name, unsigned(amount))).collect();
    }
    if let Some(models) = change.models {
        let bucket = |(rate, burst)| BucketConfig::per_second(unsigned(rate), unsigned(burst)).into();
        config.models = models.into_iter().map(|(name, stated)| (name, bucket(stated))).collect();
    }
    if let Some([interactive, normal, batch]) = change.warp.map(|warp| warp.map(unsigned)) {
        config.warp = Warp { interactive, normal, batch };
    }
    config
}
