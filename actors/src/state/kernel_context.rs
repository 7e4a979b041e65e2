//! What the kernel needs for a decision: the plan settings of the system, and the time.

use std::sync::Arc;

use ostler_kernel::evaluation::Domains;
use ostler_kernel::id::RunId;
use ostler_kernel::plan::{Kind, Settings};
use ostler_kernel::run::{DecisionContext, Diagnoser, Planner, RuleDiagnoser, Run, StaticPlanner};

use crate::base::clock::Clock;
use crate::state::gatekeeper::Gatekeeper;
use crate::state::toolbox::Toolbox;

pub(crate) struct KernelContext {
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) domains: Arc<Domains>,
    /// Slots of a run without a limit in its plan.
    pub(crate) run_slots: u32,
    /// Holds the policy, whose `deny_budget` a reload may change.
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    pub(crate) clock: Clock,
    pub(crate) planner: Arc<dyn Planner>,
    pub(crate) diagnoser: Arc<dyn Diagnoser>,
}

impl KernelContext {
    pub(crate) fn settings(&self) -> Settings<'_> {
        let (domains, denials_max) = (Some(&*self.domains), self.gatekeeper.policy().deny_budget);
        let callbacks = self.gatekeeper.callbacks.is_served();
        let gate_policy = Some(self.gatekeeper.policy_digest());
        let usual = Settings::real(self.run_slots, &*self.toolbox);
        Settings { domains, denials_max, gate_policy, callbacks, ..usual }
    }

    /// Settings of decisions about a run. The mode of a goal run adds kinds of nodes that no plan file may have.
    pub(crate) fn settings_of(&self, run: &Run) -> Settings<'_> {
        let settings = self.settings();
        if run.goal().is_none() {
            return settings;
        }
        KernelContext::of_goal(settings)
    }

    /// Settings for plans of goal runs.
    pub(crate) fn of_goal(settings: Settings<'_>) -> Settings<'_> {
        Settings { executes: |kind| kind != Kind::MicroPlanner, ..settings }
    }

    pub(crate) fn within<T>(
        &self,
        id: RunId,
        run: &mut Run,
        act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> T,
    ) -> T {
        let (mut settings, now) = (self.settings_of(run), self.clock.now());
        let totals = &self.gatekeeper.totals;
        settings.denials_around = totals.denied_elsewhere(id);
        let denials = run.denials();
        let acted = act(
            run,
            &mut DecisionContext {
                run_id: id,
                now,
                settings: &settings,
                planner: &*self.planner,
                diagnoser: &*self.diagnoser,
            },
        );
        if run.denials() > denials {
            totals.note_denials(id, run);
        }
        acted
    }

    /// For a run without a driver: the program's planner may take long or fail, and must not do so in the registry.
    pub(crate) fn without_planner<T>(
        &self,
        id: RunId,
        run: &mut Run,
        act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> T,
    ) -> T {
        let (settings, now) = (self.settings_of(run), self.clock.now());
        act(
            run,
            &mut DecisionContext {
                run_id: id,
                now,
                settings: &settings,
                planner: &StaticPlanner,
                diagnoser: &RuleDiagnoser,
            },
        )
    }

    /// True if only an answer moves the run. An expired request needs none, and a value may still come by itself to a process
    /// that `hears_callbacks`.
    pub(crate) fn needs_answer(&self, run: &Run, hears_callbacks: bool) -> bool {
        let needs = if hears_callbacks { run.waits_for_person() } else { run.needs_answer() };
        needs && !run.human_timeout_due(self.clock.now())
    }
}
