//! New versions of the plan: deltas, patches, replans.

use super::Run;
use super::decision::Decision;
use super::node_status::NodeStatus;
use super::planner::Patch;
use crate::event::{ChangeCause, Event, PlanRefusal, PlanVersion};
use crate::id::NodeId;
use crate::json::{self, Json};
use crate::plan::{
    self, Change, Delta, Diagnostic, DiagnosticCode, MergedPlan, NodeProgress, Plan, Settings,
};
use crate::run::{FailureCategory, NodeState, TransitionReason};

/// Limits of versions, nodes and path lengths that a change has to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limits {
    /// What is left besides the reserve of a goal run.
    Reserved,
    /// All that is left: for the change that adds the answer of a goal run.
    Whole,
}

/// Progress of each node of the present version.
type Progress<'a> = &'a dyn Fn(&NodeId) -> NodeProgress;

impl Run {
    /// Validates a change. Returns the journaled revision and the cancelled nodes.
    pub(super) fn judge(
        &self,
        change: &Change,
        settings: &Settings<'_>,
        limits: Limits,
    ) -> Result<(Json, Vec<NodeId>), Vec<Diagnostic>> {
        self.judge_with(settings, limits, |plan, progress, closed, settings| {
            plan::merge(plan, change, progress, closed, settings)
        })
    }

    /// Same for a change that `merge` makes.
    pub(super) fn judge_with(
        &self,
        settings: &Settings<'_>,
        limits: Limits,
        merge: impl FnOnce(&Plan, Progress<'_>, bool, &Settings<'_>) -> Result<MergedPlan, Vec<Diagnostic>>,
    ) -> Result<(Json, Vec<NodeId>), Vec<Diagnostic>> {
        let status = |node: &NodeId| match self.instance(node).map(|instance| instance.state()) {
            Some(NodeState::Pending | NodeState::Blocked) | None => NodeProgress::NotStarted,
            Some(state) if state.is_terminal() => NodeProgress::Terminal,
            Some(_) => NodeProgress::Started,
        };
        let closed = self.cancelled || self.concluded || self.undo.rounds > 0;
        let narrowed = (limits == Limits::Reserved && self.reserve() > 0).then(|| self.plan_within_reserve());
        let plan = narrowed.as_ref().unwrap_or(&self.plan);
        let merged = merge(plan, &status, closed, settings)?;
        let revision =
            serde_json::to_value(&merged.revision).expect("a revision has only names and JSON in it");
        let revision = json::canonical(&revision).map_err(|error| {
            let help = "keep numbers within 2^53";
            vec![Diagnostic::new(DiagnosticCode::V14, Diagnostic::PLAN, error.to_string(), help)]
        })?;
        Ok((revision, merged.cancel))
    }

    fn plan_within_reserve(&self) -> Plan {
        let (mut plan, reserve) = (Plan::clone(&self.plan), self.reserve());
        let limits = &mut plan.policy;
        for limit in [&mut limits.max_versions, &mut limits.max_nodes, &mut limits.max_depth] {
            *limit = limit.saturating_sub(reserve);
        }
        plan
    }

    /// Versions that patches and changes may make.
    pub(super) fn versions_max(&self) -> u32 {
        self.plan.policy.max_versions.saturating_sub(self.reserve())
    }
}

impl Decision<'_, '_, '_> {
    /// Validates a change; an accepted one becomes the next plan version, and its cancels are carried out.
    pub(super) fn change(&mut self, cause: ChangeCause, change: Change) {
        self.change_within(cause, change, Limits::Reserved);
    }

    pub(super) fn change_within(&mut self, cause: ChangeCause, change: Change, limits: Limits) {
        match self.run.judge(&change, self.cx.settings, limits) {
            Ok((revision, cancel)) => {
                self.accept(cause, revision);
                for node in cancel {
                    if let Some(at) = self.run.position(&node) {
                        self.stop(at, NodeState::Cancelled, &TransitionReason::Delta);
                    }
                }
            }
            Err(faults) => self.refuse(cause, &faults),
        }
    }

    pub(super) fn accept(&mut self, cause: ChangeCause, revision: Json) {
        let version = self.run.plan.version + 1;
        self.emit(Event::PlanVersion(PlanVersion { version, cause, revision }));
    }

    pub(super) fn refuse(&mut self, cause: ChangeCause, faults: &[Diagnostic]) {
        let mut codes: Vec<String> = faults.iter().map(|fault| fault.code.to_string()).collect();
        codes.sort();
        codes.dedup();
        let version = self.run.plan.version;
        self.emit(Event::PlanRefused { version, step: PlanRefusal::Delta { cause, codes } });
    }

    /// Applies the delta in a node's result. Unreadable JSON is refused with the code D00.
    pub(super) fn delta_of_node(&mut self, at: usize, delta: &Json) {
        let cause = ChangeCause::Node(self.id(at));
        match serde_json::from_str::<Delta>(delta.as_str()) {
            Ok(delta) => self.change(cause, Change::Delta(delta)),
            Err(_) => {
                let version = self.run.plan.version;
                let codes = vec!["D00".to_owned()];
                self.emit(Event::PlanRefused { version, step: PlanRefusal::Delta { cause, codes } });
            }
        }
    }

    /// Applies the planner's answer. A cancelled or concluded run has dropped its request.
    pub(super) fn replanned(&mut self, delta: Option<Box<Delta>>) {
        if !self.run.replan.is_pending {
            return;
        }
        match delta {
            Some(delta) => self.change(ChangeCause::Replan, Change::Delta(*delta)),
            None => {
                let version = self.run.plan.version;
                self.emit(Event::PlanRefused { version, step: PlanRefusal::Replan });
            }
        }
    }

    pub(super) fn patched(&mut self, node: &NodeId, patch: Option<Patch>) {
        let Some(at) = self.run.position(node) else { return };
        if let NodeStatus::FailedRetryable { category, retry_at: None } = self.run.instances[at].status {
            self.patch(at, category, patch);
        }
    }

    /// Applies a patch; fails the node without a patch or with an invalid one.
    pub(super) fn patch(&mut self, at: usize, category: FailureCategory, patch: Option<Patch>) {
        let Some(Patch { set }) = patch else {
            self.exhausted(at, 2, "no patch");
            self.fail(at, TransitionReason::Category(category));
            return;
        };
        let node = self.id(at);
        let cause = ChangeCause::Patch(node.clone());
        match self.run.judge(&Change::Patch { node, set }, self.cx.settings, Limits::Reserved) {
            Ok((revision, _)) => {
                if self.run.instances[at].state() != NodeState::FailedRetryable {
                    self.transit(at, NodeState::FailedRetryable, TransitionReason::Category(category));
                }
                self.accept(cause, revision);
                self.transit(at, NodeState::Pending, TransitionReason::Patched);
            }
            Err(faults) => {
                self.refuse(cause, &faults);
                self.exhausted(at, 2, "the patch is invalid");
                self.fail(at, TransitionReason::Category(category));
            }
        }
    }
}
