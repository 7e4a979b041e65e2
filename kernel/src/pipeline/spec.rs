//! What a pipeline is to be.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::fault::SpecFault;
use super::topology::Topology;
use crate::id::is_name;

/// Stages of a pipeline, at most.
pub const STAGES_MAX: usize = 64;

/// Types that a stage publishes, at most, and that it subscribes to.
pub const TYPES_PER_STAGE_MAX: usize = 64;

/// Events that a pipeline can be told to keep, at most.
pub const KEEP_EVENTS_MAX: u64 = 100_000_000;

/// Bytes of events that a pipeline can be told to keep, at most.
pub const KEEP_BYTES_MAX: u64 = 1 << 40;

/// What a pipeline is to be, as it is written: [`PipelineSpec::validate`] makes a [`Topology`] of it, or tells every fault.
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
    /// Its name: 1 to 64 of `A-Z a-z 0-9 . _ -`.
    pub id: String,
    /// Its stages: each hears only what stages before it publish.
    pub stages: Vec<StageSpec>,
    /// How much of its log is kept.
    #[serde(default)]
    pub keep: Keep,
}

/// A stage of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Its name within the pipeline.
    pub name: String,
    /// Types of events that it may publish: none that it or a stage before it hears.
    #[serde(default)]
    pub publishes: Vec<String>,
    /// Types of events that it hears; none: it is driven from outside.
    #[serde(default)]
    pub subscribes: Vec<String>,
    /// What becomes of it when an event is too much for it.
    #[serde(default, rename = "on_poison")]
    pub on_failure: OnFailure,
}

/// What becomes of a stage that an event is too much for, again and again. The event is parked either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It stops there until somebody releases it.
    #[default]
    Stop,
    /// It goes on with the next event.
    #[serde(rename = "park")]
    Continue,
}

/// How much of a log is kept, whether or not everybody has read it: who is farther behind is told what it missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// The newest events, at least so many.
    pub events: u64,
    /// Bytes of the newest events, at least so many.
    pub bytes: u64,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep { events: 1_000_000, bytes: 1 << 30 }
    }
}

impl StageSpec {
    /// A stage that publishes and hears nothing yet.
    pub fn new(name: impl Into<String>) -> StageSpec {
        StageSpec { name: name.into(), ..StageSpec::default() }
    }

    /// It may publish these types as well.
    pub fn publishes<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> StageSpec {
        self.publishes.extend(types.into_iter().map(Into::into));
        self
    }

    /// It hears these types as well.
    pub fn subscribes<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> StageSpec {
        self.subscribes.extend(types.into_iter().map(Into::into));
        self
    }

    /// What becomes of it when an event is too much for it.
    pub fn on_failure(self, on_failure: OnFailure) -> StageSpec {
        StageSpec { on_failure, ..self }
    }

    /// Faults that show in the stage alone.
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
    /// A pipeline without stages yet.
    pub fn new(id: impl Into<String>) -> PipelineSpec {
        PipelineSpec { id: id.into(), stages: Vec::new(), keep: Keep::default() }
    }

    /// With one stage more, behind the others.
    pub fn stage(mut self, stage: StageSpec) -> PipelineSpec {
        self.stages.push(stage);
        self
    }

    /// With this much of its log kept.
    pub fn keep(self, keep: Keep) -> PipelineSpec {
        PipelineSpec { keep, ..self }
    }

    /// Who hears whom, or everything that is wrong: the ordering constraint, sub(s_i) within the union of pub(s_j) for j < i, and
    /// pub(s_i) outside that of sub(s_j) for j <= i, names, duplicates and limits.
    ///
    /// # Errors
    ///
    /// Every fault, in the order of the stages.
    pub fn validate(&self) -> Result<Topology, Vec<SpecFault>> {
        self.judged(self.faults())
    }

    /// Who hears whom in a pipeline that there is. What was made before its stages could not publish what they hear is still
    /// read.
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
        let (mut names, mut published, mut heard) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
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
            let types = among(&stage.publishes, |name| heard.contains(name) || subscribes.contains(name));
            if !types.is_empty() {
                faults.push(SpecFault::InvalidPublication { stage: stage.name.clone(), types });
            }
            // What nobody before it publishes it does not hear: that it stands too early is said already.
            heard.extend(subscribes.intersection(&published).copied());
            published.extend(&stage.publishes);
        }
        faults
    }
}

/// Those of the types that are so, sorted, each once.
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
        // Of each stage what it hears and what it publishes; then which stages publish what goes back.
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
        // Who only stands too early is told that, and not that others publish what it hears.
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
