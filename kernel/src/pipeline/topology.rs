//! Who hears whom: a pipeline that was judged.

use std::collections::BTreeSet;

use super::spec::{Keep, OnFailure, PipelineSpec};
use super::state::{EVENT_BYTES_MAX, PublishRefusal};
use crate::id::{EventType, PipelineId, StageId};
use crate::json::Json;

/// A pipeline that was judged: only [`PipelineSpec::validate`] makes one. Stages are told by their place, from 0.
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
    /// Stages that publish something it hears; they all stand before it.
    upstreams: Vec<usize>,
    /// Stages that hear something it publishes; they all stand behind it.
    downstreams: Vec<usize>,
}

impl Topology {
    /// Of a spec without faults.
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

    /// Its name.
    pub fn id(&self) -> &PipelineId {
        &self.id
    }

    /// What it was made of.
    pub fn spec(&self) -> &PipelineSpec {
        &self.spec
    }

    /// How much of the log is kept.
    pub fn keep(&self) -> Keep {
        self.spec.keep
    }

    /// How many stages there are.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// Whether there is no stage, which is never so.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// The place of a stage.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.stages.iter().position(|stage| stage.name.as_str() == name)
    }

    /// The name of a stage.
    pub fn name(&self, stage: usize) -> &StageId {
        &self.stages[stage].name
    }

    /// What becomes of a stage that an event is too much for.
    pub fn on_failure(&self, stage: usize) -> OnFailure {
        self.spec.stages[stage].on_failure
    }

    /// Types that a stage may publish.
    pub fn publishes(&self, stage: usize) -> &BTreeSet<EventType> {
        &self.stages[stage].publishes
    }

    /// Types that a stage hears.
    pub fn subscribes(&self, stage: usize) -> &BTreeSet<EventType> {
        &self.stages[stage].subscribes
    }

    /// Whether a stage hears events of a type.
    pub fn subscribes_to(&self, stage: usize, kind: &EventType) -> bool {
        self.stages[stage].subscribes.contains(kind)
    }

    /// Whether a stage hears nothing: it is driven from outside.
    pub fn is_source(&self, stage: usize) -> bool {
        self.stages[stage].subscribes.is_empty()
    }

    /// Whether a stage may publish this at all.
    ///
    /// # Errors
    ///
    /// The stage does not declare the type, or the data is too large.
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

    /// Stages that publish something this one hears.
    pub fn upstreams(&self, stage: usize) -> &[usize] {
        &self.stages[stage].upstreams
    }

    /// Stages that hear something this one publishes.
    pub fn downstreams(&self, stage: usize) -> &[usize] {
        &self.stages[stage].downstreams
    }
}
