//! Algorithm 1 of the paper *Agent Scheduler*: the key of a job is fixed at enqueue, and its declared cost is final.

use std::collections::BTreeMap;

/// State of a client.
#[derive(Clone, Copy)]
pub(crate) struct PaperClient {
    pub(crate) contracted: bool,
    pub(crate) credits: f64,
    vruntime: f64,
}

/// The queue with `f64` virtual times, as in the paper; `P` is the payload.
pub(crate) struct PaperQueue<P> {
    /// By tier, virtual time and number of arrival. The bits of a nonnegative `f64` have the order of its values.
    tree: BTreeMap<(u8, u64, u64), (u32, u64, P)>,
    pub(crate) clients: Vec<PaperClient>,
    arrivals: u64,
}

const REFERENCE_CREDITS: f64 = 1_000.0;
const WEIGHT_CONTRACTED: f64 = 4.0;

impl<P> PaperQueue<P> {
    pub(crate) fn new() -> Self {
        Self { tree: BTreeMap::new(), clients: Vec::new(), arrivals: 0 }
    }

    pub(crate) fn add_client(&mut self, contracted: bool, credits: f64) {
        self.clients.push(PaperClient { contracted, credits, vruntime: 0.0 });
    }

    pub(crate) fn enqueue(&mut self, client: u32, cost: u64, job: P) {
        let PaperClient { contracted, vruntime, .. } = self.clients[client as usize];
        self.arrivals += 1;
        self.tree.insert((u8::from(!contracted), vruntime.to_bits(), self.arrivals), (client, cost, job));
    }

    /// Removes the first job; returns the job and its client.
    pub(crate) fn dequeue(&mut self) -> Option<(u32, P)> {
        let (_, (index, cost, job)) = self.tree.pop_first()?;
        let client = &mut self.clients[index as usize];
        let weight = if client.contracted { WEIGHT_CONTRACTED } else { 1.0 };
        client.vruntime += cost as f64 * REFERENCE_CREDITS / (client.credits * weight);
        Some((index, job))
    }
}
