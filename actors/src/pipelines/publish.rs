//! Publishing from outside, and back-pressure.

use std::time::Duration;

use ostler_kernel::event::Published;
use ostler_kernel::port::Position;
use tokio::time::Instant;

use super::log::LogState;
use crate::pipelines::error::PublishError;
use crate::pipelines::log::Log;

/// Longest wait of a publisher for stages that are too far behind.
const PATIENCE: Duration = Duration::from_secs(30);

impl Log {
    /// Publishes events of a stage, all or none; appended and visible on return, not durable. Waits up to [`PATIENCE`]
    /// for stages too far behind.
    pub(crate) async fn publish(
        &self,
        stage: usize,
        mut events: Vec<Published>,
    ) -> Result<(u64, Position), PublishError> {
        let mut until = None;
        loop {
            let mut changes = until.is_some().then(|| self.changed.subscribe());
            let refused = match self.try_publish(stage, &mut events) {
                Err(refused @ PublishError::Behind { .. }) => refused,
                published => return published,
            };
            let until = *until.get_or_insert_with(|| Instant::now() + PATIENCE);
            if let Some(changes) = &mut changes
                && tokio::time::timeout_at(until, changes.changed()).await.is_err()
            {
                return Err(refused);
            }
        }
    }

    /// Publishes, unless a stage is too far behind.
    fn try_publish(
        &self,
        stage: usize,
        events: &mut Vec<Published>,
    ) -> Result<(u64, Position), PublishError> {
        let mut state = self.state();
        state.pipeline.check_open(stage)?;
        for hearer in events.iter().filter_map(|event| self.hearers.get(&event.kind)).flatten() {
            if self.is_crowded(&state, *hearer) {
                let behind = self.lag_of(&state, *hearer);
                return Err(PublishError::Behind { stage: self.topology.name(*hearer).clone(), behind });
            }
        }
        let position = self.append(&mut state, std::mem::take(events), Vec::new())?;
        let head = state.pipeline.head();
        drop(state);
        self.tell();
        Ok((head, position))
    }

    /// True if publishers must wait for a stage.
    pub(crate) fn is_crowded(&self, state: &LogState, stage: usize) -> bool {
        let live = &state.live[stage];
        live.is_live() && !state.pipeline.stage(stage).stopped && self.lag_of(state, stage) >= self.behind_max
    }

    pub(crate) fn relieve(&self, state: &mut LogState, stage: usize) {
        if self.is_crowded(state, stage) {
            return;
        }
        for upstream in self.topology.upstreams(stage) {
            if std::mem::take(&mut state.live[*upstream].held) {
                state.wake(*upstream);
            }
        }
    }
}
