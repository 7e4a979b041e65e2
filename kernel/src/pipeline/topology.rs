//! The subscription graph of a valid pipeline.

use std::collections::BTreeSet;

use super::spec::{Keep, OnFailure, PipelineSpec};
use super::state::{EVENT_BYTES_MAX, PublishRefusal};
use crate::id::{EventType, PipelineId, StageId};
use crate::json::Json;

/// A validated pipeline; only [`PipelineSpec::validate`] constructs one. Methods identify stages by index, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    id: PipelineId,
    spec: PipelineSpec,
    stages: Vec<Stage>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stage {
    name: StageId,
    publishes: BTreeSet<EventType>,
    subscribes: BTreeSet<EventType>,
    upstreams: Vec<usize>,
    /// Later stages with a subscription to a published type.
    downstreams: Vec<usize>,
}

impl Topology {
    pub(super) fn of(spec: &PipelineSpec) -> Topology {
        let named = |types: &[String]| types.iter().map(|name| EventType::from(name.as_str())).collect();
        let mut stages: Vec<Stage> = Vec::with_capacity(spec.stages.len());
        for (at, stage) in spec.stages.iter().enumerate() {
            let subscribes: BTreeSet<EventType> = named(&stage.subscribes);
            let mut upstreams = Vec::new();
            for (before, earlier) in stages.iter_mut().enumerate() {
                if !earlier.publishes.is_disjoint(&subscribes) {
                    upstreams.push(before);
                    earlier.downstreams.push(at);
                }
            }
            stages.push(Stage {
                name: StageId::from(stage.name.as_str()),
                publishes: named(&stage.publishes),
                subscribes,
                upstreams,
                downstreams: Vec::new(),
            });
        }
        Topology { id: PipelineId::from(spec.id.as_str()), spec: spec.clone(), stages }
    }

    /// Name of the pipeline.
    pub fn id(&self) -> &PipelineId {
        &self.id
    }

    /// The declaration.
    pub fn spec(&self) -> &PipelineSpec {
        &self.spec
    }

    /// Retention of the log.
    pub fn keep(&self) -> Keep {
        self.spec.keep
    }

    /// Number of stages, at least 1.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// Always false.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Index of the named stage.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.stages.iter().position(|stage| stage.name.as_str() == name)
    }

    /// Name of a stage.
    pub fn name(&self, stage: usize) -> &StageId {
        &self.stages[stage].name
    }

    /// Behavior of a stage after repeated failures at one event.
    pub fn on_failure(&self, stage: usize) -> OnFailure {
        self.spec.stages[stage].on_failure
    }

    /// Event types that a stage may publish.
    pub fn publishes(&self, stage: usize) -> &BTreeSet<EventType> {
        &self.stages[stage].publishes
    }

    /// Event types that a stage receives.
    pub fn subscribes(&self, stage: usize) -> &BTreeSet<EventType> {
        &self.stages[stage].subscribes
    }

    /// True if a stage receives events of this type.
    pub fn subscribes_to(&self, stage: usize, kind: &EventType) -> bool {
        self.stages[stage].subscribes.contains(kind)
    }

    /// True if a stage has no subscriptions and is driven from outside.
    pub fn is_source(&self, stage: usize) -> bool {
        self.stages[stage].subscribes.is_empty()
    }

    /// Checks type and size of an event before publication.
    ///  
    /// # Errors
    ///  
    /// [`PublishRefusal::UnauthorizedPublish`] or [`PublishRefusal::TooLarge`].
    pub fn check_publish(&self, stage: usize, kind: &str, data: &Json) -> Result<EventType, PublishRefusal> {
        let declared = self.publishes(stage);
        let Some(kind) = declared.get(kind) else {
            return Err(PublishRefusal::UnauthorizedPublish {
                stage: self.name(stage).clone(),
                kind: kind.chars().take(80).collect(),
                declared: declared.iter().map(ToString::to_string).collect(),
            });
        };
        let bytes = data.as_str().len();
        if bytes > EVENT_BYTES_MAX {
            return Err(PublishRefusal::TooLarge { bytes });
        }
        Ok(kind.clone())
    }

    /// Stages publishing to the given one, all earlier.
    pub fn upstreams(&self, stage: usize) -> &[usize] {
        &self.stages[stage].upstreams
    }

    /// Stages receiving from the given one, all later.
    pub fn downstreams(&self, stage: usize) -> &[usize] {
        &self.stages[stage].downstreams
    }
}
