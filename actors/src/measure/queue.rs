//! The run queue as metrics show it.

use std::collections::BTreeMap;

use metrics::Recorder;
use ostler_kernel::id::ClientId;
use ostler_scheduler::{ClientHandle, ClientView, RunQueue, Tier, jain};

use super::tally::{OTHER, Tally};
use super::{Measures, metric, tier_name};

/// What the owner of the queue keeps for whoever looks; nothing if nobody does.
pub(crate) struct QueueMeasures {
    pub(crate) measures: Measures,
    /// Settled since the last look.
    served: BTreeMap<ClientHandle, u64>,
    /// What clients that had work at the last look were charged by then.
    charged: BTreeMap<ClientHandle, i128>,
}

/// How the queue stands.
pub(crate) struct QueueLook {
    /// Credits that ended since the last look.
    pub(super) served: Vec<(ClientId, u64)>,
    tiers: [TierLook; 2],
    lags: Vec<(ClientId, f64)>,
    jain: f64,
    owed: f64,
    parked: u32,
    taken: u32,
    free: u32,
}

#[derive(Default)]
struct TierLook {
    queued: u64,
    spread: f64,
}

impl QueueMeasures {
    pub(crate) fn new(measures: Measures) -> QueueMeasures {
        QueueMeasures { measures, served: BTreeMap::new(), charged: BTreeMap::new() }
    }

    /// A job ended.
    pub(crate) fn settled(&mut self, client: ClientHandle, cost: u64) {
        if self.measures.is_on() {
            *self.served.entry(client).or_default() += cost;
        }
    }

    /// Looks at every client; what is compared with the last look is compared with this one the next time.
    pub(crate) fn look<P>(
        &mut self,
        queue: &RunQueue<P>,
        clients: &BTreeMap<ClientId, ClientHandle>,
    ) -> QueueLook {
        let views: BTreeMap<ClientHandle, ClientView> =
            queue.clients().into_iter().map(|view| (view.client, view)).collect();
        let served = std::mem::take(&mut self.served);
        let named = |handle: &ClientHandle| views.get(handle);
        let lags =
            clients.iter().filter_map(|(name, handle)| Some((name.clone(), lag(queue, named(handle)?))));
        let lags = lags.collect();
        let served = clients.iter().filter_map(|(name, at)| Some((name.clone(), *served.get(at)?))).collect();
        let runnable = || views.values().filter(|view| view.runnable);
        let jain =
            Tier::ALL.into_iter().filter_map(|tier| self.evenness(runnable(), tier)).fold(1.0, f64::min);
        self.charged = runnable().map(|view| (view.client, view.charged)).collect();
        let taken = queue.running();
        QueueLook {
            served,
            tiers: Tier::ALL.map(|tier| tier_look(queue, views.values(), tier)),
            lags,
            jain,
            // The queue counts it in thousandths.
            owed: queue.owed() as f64 / 1_000.0,
            parked: views.values().filter(|view| view.parked).count() as u32,
            taken,
            free: queue.config().slots.saturating_sub(taken),
        }
    }

    /// Jain's index of a tier since the last look.
    fn evenness<'a>(&self, runnable: impl Iterator<Item = &'a ClientView>, tier: Tier) -> Option<f64> {
        let shares = runnable.filter(|view| view.tier == tier).filter_map(|view| {
            let charged = view.charged - self.charged.get(&view.client)?;
            Some(charged.max(0) as f64 / f64::from(view.weight))
        });
        jain(&shares.collect::<Vec<_>>())
    }
}

/// Credits that a client is behind its share.
fn lag<P>(queue: &RunQueue<P>, view: &ClientView) -> f64 {
    if !view.runnable {
        return 0.0;
    }
    let behind = i128::from(queue.tier(view.tier).vruntime) - i128::from(view.vruntime);
    behind as f64 * f64::from(view.weight) / queue.config().scale as f64
}

fn tier_look<'a, P>(
    queue: &RunQueue<P>,
    views: impl Iterator<Item = &'a ClientView>,
    tier: Tier,
) -> TierLook {
    let (mut queued, mut ends) = (0, None);
    for view in views.filter(|view| view.tier == tier) {
        queued += view.queued;
        if view.runnable {
            let (least, most) = ends.unwrap_or((view.vruntime, view.vruntime));
            ends = Some((view.vruntime.min(least), view.vruntime.max(most)));
        }
    }
    let spread = ends.map_or(0, |(least, most)| i128::from(most) - i128::from(least));
    TierLook { queued, spread: spread as f64 / queue.config().scale as f64 }
}

impl QueueLook {
    pub(super) fn tell(&self, into: &dyn Recorder, tally: &Tally) {
        for (tier, look) in Tier::ALL.into_iter().zip(&self.tiers) {
            metric::QUEUED_JOBS.gauge(into, [tier_name(tier).into()]).set(look.queued as f64);
            metric::VRUNTIME_SPREAD.gauge(into, [tier_name(tier).into()]).set(look.spread);
        }
        let mut farthest = 0.0_f64;
        for (client, lag) in &self.lags {
            if tally.names(client) {
                metric::LAG.gauge(into, [client.to_string().into()]).set(*lag);
            } else if lag.abs() > farthest.abs() {
                farthest = *lag;
            }
        }
        metric::LAG.gauge(into, [OTHER.into()]).set(farthest);
        metric::FAIRNESS_JAIN.gauge(into, []).set(self.jain);
        metric::MARKETPLACE_OWED.gauge(into, []).set(self.owed);
        metric::PARKED_CLIENTS.gauge(into, []).set(self.parked);
        metric::SLOTS.gauge(into, ["taken".into()]).set(self.taken);
        metric::SLOTS.gauge(into, ["free".into()]).set(self.free);
    }
}
