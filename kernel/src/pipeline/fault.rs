//! Faults that validation finds in a pipeline's declaration.

use super::spec::{STAGES_MAX, TYPES_PER_STAGE_MAX};
use crate::id::NAME_RULE;

/// A fault of a [`PipelineSpec`](super::PipelineSpec).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecFault {
    /// The pipeline's name is not a valid name.
    #[error("pipeline name {id:?} is not {NAME_RULE}")]
    Id {
        /// Name as declared.
        id: String,
    },
    /// The list of stages is empty.
    #[error("the pipeline has no stages: name at least one")]
    NoStages,
    /// More than [`STAGES_MAX`] stages.
    #[error("{count} stages, expected at most {STAGES_MAX}")]
    TooManyStages {
        /// Declared stages.
        count: usize,
    },
    /// The log's retention is out of range.
    #[error("keep.{what} is {value}, expected 1 to {most}")]
    Keep {
        /// `events` or `bytes`.
        what: &'static str,
        /// Value as declared.
        value: u64,
        /// Maximum.
        most: u64,
    },
    /// A stage's name is not a valid name.
    #[error("stage name {stage:?} is not {NAME_RULE}")]
    StageName {
        /// Name as declared.
        stage: String,
    },
    /// Two stages have the same name.
    #[error("there are two stages {stage}: name one of them otherwise")]
    DuplicateStage {
        /// Name of both.
        stage: String,
    },
    /// An event type is not a valid name.
    #[error("stage {stage}: event type {name:?} is not {NAME_RULE}")]
    TypeName {
        /// Declaring stage.
        stage: String,
        /// Type as declared.
        name: String,
    },
    /// A list names a type twice.
    #[error("stage {stage} {verb} {name} twice: name it once")]
    DuplicateType {
        /// Declaring stage.
        stage: String,
        /// `publishes` or `subscribes`.
        verb: &'static str,
        /// Repeated type.
        name: String,
    },
    /// A list has more than [`TYPES_PER_STAGE_MAX`] types.
    #[error("stage {stage} {verb} {count} types, expected at most {TYPES_PER_STAGE_MAX}")]
    TooManyTypes {
        /// Declaring stage.
        stage: String,
        /// `publishes` or `subscribes`.
        verb: &'static str,
        /// Declared types.
        count: usize,
    },
    /// A stage neither publishes nor subscribes.
    #[error("stage {stage} neither publishes nor subscribes to anything: leave it out")]
    Idle {
        /// The stage.
        stage: String,
    },
    /// A stage subscribes to types that no earlier stage publishes.
    #[error(
        "stage {stage} subscribes to {}, which no stage before it publishes: move it behind the one that does, or leave that out",
        types.join(", ")
    )]
    InvalidSubscription {
        /// The stage.
        stage: String,
        /// The types, sorted.
        types: Vec<String>,
    },
    /// A stage publishes types to which the stage itself or an earlier one subscribes.
    #[error(
        "stage {stage} publishes {}, to which it or a stage before it subscribes: events only go forward, so name what it publishes otherwise, or leave that out",
        types.join(", ")
    )]
    InvalidPublication {
        /// The stage.
        stage: String,
        /// The types, sorted.
        types: Vec<String>,
    },
}

impl SpecFault {
    /// All values of [`SpecFault::code`].
    pub const CODES: [&'static str; 12] = [
        "pipeline_name",
        "no_stages",
        "too_many_stages",
        "keep_out_of_range",
        "stage_name",
        "duplicate_stage",
        "type_name",
        "duplicate_type",
        "too_many_types",
        "idle_stage",
        "invalid_subscription",
        "invalid_publication",
    ];

    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            SpecFault::Id { .. } => "pipeline_name",
            SpecFault::NoStages => "no_stages",
            SpecFault::TooManyStages { .. } => "too_many_stages",
            SpecFault::Keep { .. } => "keep_out_of_range",
            SpecFault::StageName { .. } => "stage_name",
            SpecFault::DuplicateStage { .. } => "duplicate_stage",
            SpecFault::TypeName { .. } => "type_name",
            SpecFault::DuplicateType { .. } => "duplicate_type",
            SpecFault::TooManyTypes { .. } => "too_many_types",
            SpecFault::Idle { .. } => "idle_stage",
            SpecFault::InvalidSubscription { .. } => "invalid_subscription",
            SpecFault::InvalidPublication { .. } => "invalid_publication",
        }
    }

    /// The faulty stage; `None` for a fault of the whole pipeline.
    pub fn stage(&self) -> Option<&str> {
        match self {
            SpecFault::Id { .. }
            | SpecFault::NoStages
            | SpecFault::TooManyStages { .. }
            | SpecFault::Keep { .. } => None,
            SpecFault::StageName { stage }
            | SpecFault::DuplicateStage { stage }
            | SpecFault::TypeName { stage, .. }
            | SpecFault::DuplicateType { stage, .. }
            | SpecFault::TooManyTypes { stage, .. }
            | SpecFault::Idle { stage }
            | SpecFault::InvalidSubscription { stage, .. }
            | SpecFault::InvalidPublication { stage, .. } => Some(stage),
        }
    }

    /// JSON pointer of the faulty part, relative to the stage if [`SpecFault::stage`] names one.
    pub fn part(&self) -> &'static str {
        match self {
            SpecFault::Id { .. } => "/id",
            SpecFault::NoStages | SpecFault::TooManyStages { .. } => "/stages",
            SpecFault::Keep { what: "bytes", .. } => "/keep/bytes",
            SpecFault::Keep { .. } => "/keep/events",
            SpecFault::StageName { .. } | SpecFault::DuplicateStage { .. } | SpecFault::Idle { .. } => {
                "/name"
            }
            SpecFault::TypeName { .. } => "",
            SpecFault::DuplicateType { verb, .. } | SpecFault::TooManyTypes { verb, .. } => match *verb {
                "publishes" => "/publishes",
                _ => "/subscribes",
            },
            SpecFault::InvalidSubscription { .. } => "/subscribes",
            SpecFault::InvalidPublication { .. } => "/publishes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_code_of_the_list_and_every_code_a_fault() {
        let (stage, verb) = (String::new, "publishes");
        let all = [
            SpecFault::Id { id: String::new() },
            SpecFault::NoStages,
            SpecFault::TooManyStages { count: 0 },
            SpecFault::Keep { what: "bytes", value: 0, most: 0 },
            SpecFault::StageName { stage: stage() },
            SpecFault::DuplicateStage { stage: stage() },
            SpecFault::TypeName { stage: stage(), name: String::new() },
            SpecFault::DuplicateType { stage: stage(), verb, name: String::new() },
            SpecFault::TooManyTypes { stage: stage(), verb, count: 0 },
            SpecFault::Idle { stage: stage() },
            SpecFault::InvalidSubscription { stage: stage(), types: Vec::new() },
            SpecFault::InvalidPublication { stage: stage(), types: Vec::new() },
        ];
        assert_eq!(all.map(|fault| fault.code()), SpecFault::CODES);
    }
}
