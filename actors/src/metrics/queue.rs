//! Metrics of the run queue.

use std::collections::BTreeMap;
use std::time::Instant;

use ostler_kernel::id::ClientId;
use ostler_scheduler::{ClientHandle, RunQueue, Tier, jain};

use super::measures::Measures;
use super::queue_look::{QueueLook, TierLook};

/// Sums for metrics that the owner of the queue keeps; empty without metrics.
pub(crate) struct QueueMeasures {
    measures: Measures,
    served: BTreeMap<ClientHandle, u64>,
    /// Charges of clients with work at the last answer.
    charged: BTreeMap<ClientHandle, i128>,
}

impl QueueMeasures {
    pub(crate) fn new(measures: Measures) -> QueueMeasures {
        QueueMeasures { measures, served: BTreeMap::new(), charged: BTreeMap::new() }
    }

    /// See [`Measures::now`].
    pub(crate) fn now(&self) -> Option<Instant> {
        self.measures.now()
    }

    /// See [`Measures::dispatched`].
    pub(crate) fn dispatched(&self, tier: Tier, since: Option<Instant>) {
        self.measures.dispatched(tier, since);
    }

    pub(crate) fn settled(&mut self, client: ClientHandle, cost: u64) {
        if self.measures.is_on() {
            *self.served.entry(client).or_default() += cost;
        }
    }

    /// Visits every client once, and compares with the last answer.
    pub(crate) fn look<'a, P>(
        &mut self,
        queue: &RunQueue<P>,
        clients: impl Iterator<Item = (&'a ClientId, ClientHandle)>,
    ) -> QueueLook {
        let settled = std::mem::take(&mut self.served);
        let before = std::mem::take(&mut self.charged);
        let (mut served, mut lags) = (Vec::new(), Vec::new());
        let (mut tiers, mut parked): ([TierLook; 2], u32) = Default::default();
        for (name, client) in clients {
            let Ok(view) = queue.client(client) else { continue };
            if let Some(credits) = settled.get(&client) {
                served.push((name.clone(), *credits));
            }
            if view.runnable {
                lags.push((name.clone(), queue.lag(&view) as f64));
                self.charged.insert(client, view.charged);
            }
            parked += u32::from(view.parked);
            tiers[view.tier as usize].take_in(&view, before.get(&client).copied());
        }
        // Counted apart from the answer: a reader may leave, and no count may be lost.
        self.measures.served(&served);
        let taken = queue.running();
        QueueLook {
            lags,
            jain: tiers.iter().filter_map(|tier| jain(&tier.shares)).fold(1.0, f64::min),
            tiers: tiers.map(|tier| (tier.queued, tier.spread() / queue.config().scale as f64)),
            // The queue counts in thousandths.
            owed: queue.owed() as f64 / 1_000.0,
            parked,
            taken,
            free: queue.config().slots.saturating_sub(taken),
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler_scheduler::{Config, Event, NewClient, NewJob};

    use super::*;
    use crate::metrics::seen::Seen;

    /// Two clients with work at weights 3 to 1, and one slot.
    #[test]
    fn a_look_tells_how_clients_with_work_stand() {
        let mut queue = RunQueue::new(Config { slots: 1, ..Config::default() }).unwrap();
        let mut events = Vec::new();
        let mut clients = BTreeMap::new();
        for (name, weight) in [("acme", 300), ("globex", 100), ("idle", 100)] {
            let client = queue.add_client(NewClient { weight, ..NewClient::default() }).unwrap();
            clients.insert(ClientId::from(name), client);
            let agent = queue.add_agent(client, 100).unwrap();
            for _ in 0..if name == "idle" { 0 } else { 100 } {
                queue.enqueue(agent, NewJob::flat(100), (), &mut events).unwrap();
            }
        }
        let recorder = Seen::default();
        let recording = Measures::recording(std::sync::Arc::new(recorder));
        let mut measures = QueueMeasures::new(recording.clone());
        let clients = || clients.iter().map(|(name, client)| (name, *client));
        measures.look(&queue, clients());
        for _ in 0..40 {
            queue.dispatch(1, &mut events);
            let Some(Event::Granted(grant)) = events.pop() else { panic!("there is work") };
            let settled = queue.settle(grant.job, 100.into(), &mut events).unwrap();
            measures.settled(settled.client, 100);
        }
        queue.dispatch(1, &mut events);
        let look = measures.look(&queue, clients());
        let seen = Seen::default();
        recording.look(&seen, Some(look), &[], &[]);
        let value = |name: &str| seen.value(&format!("ostler_scheduler_{name}"));
        assert_eq!(
            (value("service_total acme"), value("service_total globex")),
            (Some(3_000.0), Some(1_000.0))
        );
        assert_eq!(value("queued_jobs marketplace"), Some(159.0));
        assert_eq!((value("slots taken"), value("slots free")), (Some(1.0), Some(0.0)));
        assert!(value("fairness_jain").unwrap() > 0.99, "{:?}", value("fairness_jain"));
        // No lag exceeds the size of a job.
        assert!(value("lag acme").unwrap().abs() <= 100.0 && value("lag globex").unwrap().abs() <= 100.0);
        assert!(value("vruntime_spread marketplace").unwrap() <= 1.0);
        assert_eq!((value("lag idle"), value("lag (other)")), (None, Some(0.0)), "it has no name yet");
    }

    #[test]
    fn one_that_gets_all_of_two_is_half_of_fair() {
        let mut queue = RunQueue::new(Config { slots: 1, ..Config::default() }).unwrap();
        let (mut events, mut clients) = (Vec::new(), BTreeMap::new());
        for name in ["acme", "globex"] {
            let client = queue.add_client(NewClient::default()).unwrap();
            clients.insert(ClientId::from(name), client);
            let agent = queue.add_agent(client, 100).unwrap();
            for _ in 0..3 {
                queue.enqueue(agent, NewJob::flat(100), (), &mut events).unwrap();
            }
        }
        let clients = || clients.iter().map(|(name, client)| (name, *client));
        let mut measures = QueueMeasures::new(Measures::default());
        assert_eq!(measures.look(&queue, clients()).jain, 1.0, "nothing to compare with");
        queue.dispatch(1, &mut events);
        assert_eq!(measures.look(&queue, clients()).jain, 0.5);
        assert_eq!(measures.look(&queue, clients()).jain, 1.0, "nobody got anything since");
    }

    #[test]
    fn what_nobody_looks_at_is_not_kept() {
        let mut queue = RunQueue::<()>::new(Config::default()).unwrap();
        let client = queue.add_client(NewClient::default()).unwrap();
        let mut measures = QueueMeasures::new(Measures::default());
        measures.settled(client, 5);
        assert!(measures.served.is_empty());
    }
}
