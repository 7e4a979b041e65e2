//! Publishing for a stage from outside.

use ostler_kernel::event::Published;
use ostler_kernel::json::{Json, to_canonical};
use ostler_kernel::port::Position;
use serde::Serialize;

use crate::api::pipeline_handle::PipelineHandle;
use crate::pipelines::error::{PipelineError, PublishError};

/// Publishes for a stage from outside. A clone publishes for the same stage.
#[derive(Clone, Debug)]
pub struct Publisher {
    pipeline: PipelineHandle,
    stage: usize,
}

impl Publisher {
    /// Publishes an event and returns its number. Durable on return; stages of the process receive it before.
    /// Dropping the future may or may not have taken effect.
    ///
    /// # Errors
    ///
    /// [`PublishError`]: the type is not declared, or subscribers stayed too far behind.
    pub async fn publish<T: Serialize + ?Sized>(&self, kind: &str, data: &T) -> Result<u64, PublishError> {
        let (seq, position) = self.put(kind, data).await?;
        self.pipeline.settled(position).await?;
        Ok(seq)
    }

    /// Publishes an event without waiting for durability; [`PipelineHandle::durable`] waits for all.
    ///
    /// # Errors
    ///
    /// The errors of [`Publisher::publish`].
    pub async fn publish_soon<T: Serialize + ?Sized>(
        &self,
        kind: &str,
        data: &T,
    ) -> Result<u64, PublishError> {
        Ok(self.put(kind, data).await?.0)
    }

    /// Publishes events all or none, and returns the number of the last. Durable on return.
    ///
    /// # Errors
    ///
    /// The errors of [`Publisher::publish`], or the events are too many.
    pub async fn publish_all(&self, events: Vec<(String, Json)>) -> Result<u64, PublishError> {
        let events = self.pipeline.checked(self.stage, events)?;
        let (seq, position) = self.pipeline.log.publish(self.stage, events).await?;
        self.pipeline.settled(position).await?;
        Ok(seq)
    }

    /// Ends the stage. Durable on return.
    ///
    /// # Errors
    ///
    /// The errors of [`PipelineHandle::end`].
    pub async fn end(&self) -> Result<(), PipelineError> {
        let position = self.pipeline.log.end(self.stage)?;
        Ok(self.pipeline.settled(position).await?)
    }

    async fn put<T: Serialize + ?Sized>(
        &self,
        kind: &str,
        data: &T,
    ) -> Result<(u64, Position), PublishError> {
        let data = to_canonical(data)?;
        let topology = self.pipeline.log.topology();
        let kind = topology.check_publish(self.stage, kind, &data)?;
        let event = Published { stage: topology.name(self.stage).clone(), kind, data };
        self.pipeline.log.publish(self.stage, vec![event]).await
    }
}

impl PipelineHandle {
    /// A publisher for a stage.
    ///
    /// # Errors
    ///
    /// The stage is unknown.
    pub fn publisher(&self, stage: &str) -> Result<Publisher, PipelineError> {
        Ok(Publisher { stage: self.log.stage(stage)?, pipeline: self.clone() })
    }
}
