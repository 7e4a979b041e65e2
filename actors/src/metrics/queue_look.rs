//! The run queue in an answer.

use metrics::Recorder;
use ostler_kernel::id::ClientId;
use ostler_scheduler::{ClientView, Tier};

use super::metric::{self, tier_name};
use super::tally::{OTHER, Tally};

pub(crate) struct QueueLook {
    /// By tier: waiting jobs, and the spread of virtual times.
    pub(super) tiers: [(u64, f64); 2],
    pub(super) lags: Vec<(ClientId, f64)>,
    pub(super) jain: f64,
    pub(super) owed: f64,
    pub(super) parked: u32,
    pub(super) taken: u32,
    pub(super) free: u32,
}

#[derive(Default)]
pub(super) struct TierLook {
    pub(super) queued: u64,
    /// Smallest and largest virtual time of clients with work.
    pub(super) ends: Option<(i64, i64)>,
    /// Charges since the last answer divided by weight, of clients with work then and now.
    pub(super) shares: Vec<f64>,
}

impl TierLook {
    /// Adds a client of the tier; `charged`: its charges at the last answer, if the client had work then.
    pub(super) fn take_in(&mut self, view: &ClientView, charged: Option<i128>) {
        self.queued += view.queued;
        if !view.runnable {
            return;
        }
        let (least, most) = self.ends.unwrap_or((view.vruntime, view.vruntime));
        self.ends = Some((view.vruntime.min(least), view.vruntime.max(most)));
        if let Some(before) = charged {
            self.shares.push((view.charged - before).max(0) as f64 / f64::from(view.weight));
        }
    }

    pub(super) fn spread(&self) -> f64 {
        self.ends.map_or(0.0, |(least, most)| (i128::from(most) - i128::from(least)) as f64)
    }
}

impl QueueLook {
    pub(super) fn tell(&self, into: &dyn Recorder, tally: &Tally) {
        for (tier, (queued, spread)) in Tier::ALL.map(tier_name).into_iter().zip(self.tiers) {
            metric::QUEUED_JOBS.gauge(into, [tier.into()]).set(queued as f64);
            metric::VRUNTIME_SPREAD.gauge(into, [tier.into()]).set(spread);
        }
        // A client without work has lag 0.
        for client in tally.named() {
            metric::LAG.gauge(into, [client.to_string().into()]).set(0.0);
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
