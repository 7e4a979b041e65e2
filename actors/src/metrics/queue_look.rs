//! The run queue as metrics show it.

use metrics::Recorder;
use ostler_kernel::id::ClientId;
use ostler_scheduler::{ClientView, Tier};

use super::metric::{self, tier_name};
use super::tally::{OTHER, Tally};

/// How the queue stands.
pub(crate) struct QueueLook {
    /// By tier: jobs that wait, and the spread of virtual times.
    pub(super) tiers: [(u64, f64); 2],
    /// Of clients with work.
    pub(super) lags: Vec<(ClientId, f64)>,
    pub(super) jain: f64,
    pub(super) owed: f64,
    pub(super) parked: u32,
    pub(super) taken: u32,
    pub(super) free: u32,
}

/// A tier, while its clients are looked at.
#[derive(Default)]
pub(super) struct TierLook {
    pub(super) queued: u64,
    /// The least and the greatest virtual time of those with work.
    pub(super) ends: Option<(i64, i64)>,
    /// What those that had work at the last look, and have now, were charged for their weight since.
    pub(super) shares: Vec<f64>,
}

impl TierLook {
    /// A client of the tier, and what it had been charged by the last look, if it had work then.
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
        // One that wants nothing stands at 0.
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
