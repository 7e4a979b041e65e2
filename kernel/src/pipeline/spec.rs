//! The declaration of a pipeline and its validation.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::fault::SpecFault;
use super::topology::Topology;
use crate::id::is_name;

/// Maximum stages of a pipeline.
pub const STAGES_MAX: usize = 64;

/// Maximum types that a stage publishes, and maximum that a stage subscribes to.
pub const TYPES_PER_STAGE_MAX: usize = 64;

/// Maximum for [`Keep::events`].
pub const KEEP_EVENTS_MAX: u64 = 100_000_000;

/// Maximum for [`Keep::bytes`].
pub const KEEP_BYTES_MAX: u64 = 1 << 40;

/// A pipeline as declared. [`PipelineSpec::validate`] turns the declaration into a [`Topology`].
///  
/// ```
/// use ostler_kernel::pipeline::PipelineSpec;
///
/// let spec: PipelineSpec = serde_json::from_str(r#"{
///     "id": "web",
///     "stages": [
///         {"name": "recon", "publishes": ["page"]},
///         {"name": "report", "subscribes": ["page", "score"]}
///     ]
/// }"#).unwrap();
/// let faults = spec.validate().unwrap_err();
/// assert_eq!(faults[0].code(), "invalid_subscription");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineSpec {
    /// Name: 1 to 64 characters of `A-Z a-z 0-9 . _ -`.
    pub id: String,
    /// Stages in order. A stage may subscribe only to types that earlier stages publish.
    pub stages: Vec<StageSpec>,
    /// Retention of the log.
    #[serde(default)]
    pub keep: Keep,
}

/// A stage of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Name, unique within the pipeline.
    pub name: String,
    /// Event types the stage may publish. Disjoint from the subscriptions of this stage and of earlier ones.
    #[serde(default)]
    pub publishes: Vec<String>,
    /// Event types the stage receives. A stage without subscriptions is a source, driven from outside.
    #[serde(default)]
    pub subscribes: Vec<String>,
    /// Behavior after repeated failures at one event.
    #[serde(default, rename = "on_poison")]
    pub on_failure: OnFailure,
}

/// Behavior of a stage that failed [`TRIES_MAX`](super::TRIES_MAX) times at one event. Either way the event becomes a dead
/// letter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Stop until an operator releases the stage.
    #[default]
    Stop,
    /// Continue with the next event.
    #[serde(rename = "park")]
    Continue,
}

/// Retention of a log: the log keeps at least the given number of newest events, or of bytes. A stage that falls
/// further behind gets a gap notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// Newest events to keep.
    pub events: u64,
    /// Bytes of the newest events to keep.
    pub bytes: u64,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep { events: 1_000_000, bytes: 1 << 30 }
    }
}

impl StageSpec {
    /// A stage that publishes nothing and subscribes to nothing.
    pub fn new(name: impl Into<String>) -> StageSpec {
        StageSpec { name: name.into(), ..StageSpec::default() }
    }

    /// Adds types to publish.
    pub fn publishes<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> StageSpec {
        self.publishes.extend(types.into_iter().map(Into::into));
        self
    }

    /// Adds subscriptions.
    pub fn subscribes<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> StageSpec {
        self.subscribes.extend(types.into_iter().map(Into::into));
        self
    }

    /// Sets the behavior after repeated failures.
    pub fn on_failure(self, on_failure: OnFailure) -> StageSpec {
        StageSpec { on_failure, ..self }
    }

    /// Adds the faults of the stage on its own.
    fn faults(&self, faults: &mut Vec<SpecFault>) {
        let stage = || self.name.clone();
        if !is_name(&self.name) {
            faults.push(SpecFault::StageName { stage: stage() });
        }
        for (verb, types) in [("publishes", &self.publishes), ("subscribes", &self.subscribes)] {
            if types.len() > TYPES_PER_STAGE_MAX {
                faults.push(SpecFault::TooManyTypes { stage: stage(), verb, count: types.len() });
            }
            let mut seen = BTreeSet::new();
            for name in types {
                if !is_name(name) {
                    faults.push(SpecFault::TypeName { stage: stage(), name: name.clone() });
                }
                if !seen.insert(name) {
                    faults.push(SpecFault::DuplicateType { stage: stage(), verb, name: name.clone() });
                }
            }
        }
        if self.publishes.is_empty() && self.subscribes.is_empty() {
            faults.push(SpecFault::Idle { stage: stage() });
        }
    }
}

impl PipelineSpec {
    /// A pipeline without stages.
    pub fn new(id: impl Into<String>) -> PipelineSpec {
        PipelineSpec { id: id.into(), stages: Vec::new(), keep: Keep::default() }
    }

    /// Appends a stage.
    pub fn stage(mut self, stage: StageSpec) -> PipelineSpec {
        self.stages.push(stage);
        self
    }

    /// Sets the retention of the log.
    pub fn keep(self, keep: Keep) -> PipelineSpec {
        PipelineSpec { keep, ..self }
    }

    /// Validates names, duplicates, limits and the ordering constraint: `sub(s_i)` is a subset of the union of `pub(s_j)` over
    /// `j < i`, and `pub(s_i)` is disjoint from `sub(s_j)` for every `j <= i`. Events therefore only move forward, and the
    /// subscription graph has no cycle.
    ///  
    /// # Errors
    ///  
    /// Every fault, in the order of the stages.
    pub fn validate(&self) -> Result<Topology, Vec<SpecFault>> {
        self.judged(self.faults())
    }

    /// Validates a declaration read from the journal. Skips [`SpecFault::InvalidPublication`], a rule that older pipelines
    /// predate.
    ///  
    /// # Errors
    ///  
    /// Every other fault.
    pub fn validate_recorded(&self) -> Result<Topology, Vec<SpecFault>> {
        let mut faults = self.faults();
        faults.retain(|fault| !matches!(fault, SpecFault::InvalidPublication { .. }));
        self.judged(faults)
    }

    fn judged(&self, faults: Vec<SpecFault>) -> Result<Topology, Vec<SpecFault>> {
        if faults.is_empty() { Ok(Topology::of(self)) } else { Err(faults) }
    }

    fn faults(&self) -> Vec<SpecFault> {
        let mut faults = Vec::new();
        if !is_name(&self.id) {
            faults.push(SpecFault::Id { id: self.id.clone() });
        }
        if self.stages.is_empty() {
            faults.push(SpecFault::NoStages);
        }
        if self.stages.len() > STAGES_MAX {
            faults.push(SpecFault::TooManyStages { count: self.stages.len() });
        }
        for (what, value, most) in
            [("events", self.keep.events, KEEP_EVENTS_MAX), ("bytes", self.keep.bytes, KEEP_BYTES_MAX)]
        {
            if !(1..=most).contains(&value) {
                faults.push(SpecFault::Keep { what, value, most });
            }
        }
        let (mut names, mut published, mut subscribed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for stage in self.stages.iter().take(STAGES_MAX) {
            stage.faults(&mut faults);
            if !names.insert(&stage.name) {
                faults.push(SpecFault::DuplicateStage { stage: stage.name.clone() });
            }
            let subscribes: BTreeSet<&String> = stage.subscribes.iter().collect();
            let types = among(&stage.subscribes, |name| !published.contains(name));
            if !types.is_empty() {
                faults.push(SpecFault::InvalidSubscription { stage: stage.name.clone(), types });
            }
            let types =
                among(&stage.publishes, |name| subscribed.contains(name) || subscribes.contains(name));
            if !types.is_empty() {
                faults.push(SpecFault::InvalidPublication { stage: stage.name.clone(), types });
            }
            // A subscription to an unpublished type is a fault already, and must not cause a second one in a later stage.
            subscribed.extend(subscribes.intersection(&published).copied());
            published.extend(&stage.publishes);
        }
        faults
    }
}

/// The types that satisfy the predicate, sorted and deduplicated.
fn among(types: &[String], is_so: impl Fn(&&String) -> bool) -> Vec<String> {
    types.iter().filter(is_so).collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &PipelineSpec, codes: &[&str]) {
        let found: Vec<&str> = match spec.validate() {
            Ok(_) => Vec::new(),
            Err(faults) => faults.iter().map(SpecFault::code).collect(),
        };
        assert_eq!(found, codes, "{spec:?}");
    }

    fn pair(publishes: &[&str], subscribes: &[&str]) -> PipelineSpec {
        PipelineSpec::new("p")
            .stage(StageSpec::new("a").publishes(publishes.iter().copied()))
            .stage(StageSpec::new("b").subscribes(subscribes.iter().copied()))
    }

    #[test]
    fn each_fault_is_told_and_all_at_once() {
        check(&pair(&["x", "y"], &["x"]), &[]);
        check(&pair(&["x"], &["x", "y", "z"]), &["invalid_subscription"]);
        check(&pair(&["x", "x"], &["x"]), &["duplicate_type"]);
        check(&pair(&["x y"], &["x y"]), &["type_name", "type_name"]);
        check(&pair(&[], &["x"]), &["idle_stage", "invalid_subscription"]);
        check(&PipelineSpec::new("p"), &["no_stages"]);
        let later = PipelineSpec::new("")
            .stage(StageSpec::new("a").subscribes(["x"]))
            .stage(StageSpec::new("a").publishes(["x"]).subscribes(["x"]))
            .keep(Keep { events: 0, bytes: KEEP_BYTES_MAX + 1 });
        check(
            &later,
            &[
                "pipeline_name",
                "keep_out_of_range",
                "keep_out_of_range",
                "invalid_subscription",
                "duplicate_stage",
                "invalid_subscription",
                "invalid_publication",
            ],
        );
    }

    #[test]
    fn events_only_go_forward_and_what_there_is_is_read_all_the_same() {
        // Per stage `subscribes/publishes`; then the expected `InvalidPublication` faults.
        for (stages, faults) in [
            ("/x x/y y/z", ""),
            ("/x /x x/", ""),
            ("/x x/y /y y/", ""),
            ("/x x/x", "1: x"),
            ("/x x/ /x", "2: x"),
            ("/x,y x,y/y,x,z", "1: x, y"),
            ("/x x/y y/x x/y", "2: x; 3: y"),
        ] {
            let named = |types: &str| -> Vec<String> {
                types.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
            };
            let mut spec = PipelineSpec::new("p");
            for (at, stage) in stages.split(' ').enumerate() {
                let (subscribes, publishes) = stage.split_once('/').unwrap();
                let stage = StageSpec::new(at.to_string()).subscribes(named(subscribes));
                spec = spec.stage(stage.publishes(named(publishes)));
            }
            let found = spec.validate().err().unwrap_or_default();
            let found: Vec<String> = found
                .iter()
                .map(|fault| match fault {
                    SpecFault::InvalidPublication { stage, types } => {
                        format!("{stage}: {}", types.join(", "))
                    }
                    other => panic!("{other}"),
                })
                .collect();
            assert_eq!(found.join("; "), faults, "{stages}");
            assert!(spec.validate_recorded().is_ok(), "{stages}");
        }
        // A stage that comes too early gets one fault; later publishers of the type get none.
        let turned = PipelineSpec::new("p")
            .stage(StageSpec::new("a").subscribes(["x"]))
            .stage(StageSpec::new("b").publishes(["x"]));
        check(&turned, &["invalid_subscription"]);
        assert!(turned.validate_recorded().is_err());
    }

    #[test]
    fn a_fault_of_order_names_the_stage_and_what_nobody_publishes_before_it() {
        let faults = pair(&["x"], &["z", "x", "y"]).validate().unwrap_err();
        assert_eq!(
            faults,
            [SpecFault::InvalidSubscription { stage: "b".into(), types: vec!["y".into(), "z".into()] }]
        );
    }

    #[test]
    fn limits_hold_exactly() {
        let stages = |count: usize| {
            (0..count).fold(PipelineSpec::new("p"), |spec, at| {
                spec.stage(StageSpec::new(format!("s{at}")).publishes([format!("t{at}")]))
            })
        };
        check(&stages(STAGES_MAX), &[]);
        check(&stages(STAGES_MAX + 1), &["too_many_stages"]);
        let types = |count: usize| {
            let types: Vec<String> = (0..count).map(|at| format!("t{at}")).collect();
            PipelineSpec::new("p").stage(StageSpec::new("a").publishes(types))
        };
        check(&types(TYPES_PER_STAGE_MAX), &[]);
        check(&types(TYPES_PER_STAGE_MAX + 1), &["too_many_types"]);
    }
}
