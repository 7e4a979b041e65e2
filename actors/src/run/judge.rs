//! Evaluates a run before it is closed, from its records and a judge's opinion.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use ostler_kernel::evaluation::{Appraised, BEST_PM, Dimension, Judgement, Standard, Target, check_pm};
use ostler_kernel::event::{Evaluated, Event, Output};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{Judge, JudgedRun, ModelCall, Opinion, RUN_JUDGE};
use ostler_kernel::text::beginning;
use serde_json::Map;
use tokio::task::AbortHandle;

use super::driver::RunDriver;
use super::judge_state::JudgeState;
use crate::attempts::call_bill::{CallBill, JUDGED};
use crate::messages::agent::AgentMessage;
use crate::messages::answer::{BY_BYTES_MAX, NOTE_BYTES_MAX};
use crate::run::services::RunServices;

impl RunDriver {
    /// True if the finished run waits for its judge. Asks the judge on the first call; a run without scores (cancelled, or without
    /// attempts) is not judged.
    pub(super) fn awaits_judge(&mut self) -> bool {
        let Some(judge) = self.services.evaluation.judge.clone() else { return false };
        let standard = self.standard();
        if self.run.scores(&standard.target).is_none() {
            return false;
        }
        match self.judges.run {
            JudgeState::Unasked => {
                self.judges.run = JudgeState::Asked(self.ask_judge(judge));
                true
            }
            JudgeState::Asked(_) => true,
            JudgeState::Said(..) => false,
        }
    }

    /// The standard of the evaluation: contract, the agent's offer, and the domain of the plan if it has weights. Without a price,
    /// half of the run's own budget is its cost target, as half of a timeout is the target of an attempt.
    fn standard(&self) -> Standard {
        let standard = self.services.evaluation.standard(&self.arguments.owner.agent, self.opened.run);
        let domain = self.run.plan().policy.domain.as_ref();
        let known = domain.filter(|domain| self.services.evaluation.domains.get(domain).is_some());
        let budget = self.run.terms().budget.map(|budget| budget.div_ceil(2));
        let target = Target { credits: standard.target.credits.or(budget), ..standard.target };
        Standard { domain: known.cloned().or(standard.domain), target }
    }

    fn ask_judge(&self, judge: Arc<dyn Judge>) -> AbortHandle {
        let (services, me, run) = (Arc::clone(&self.services), self.me.clone(), self.opened.run);
        let plan = self.run.plan();
        let work = JudgedRun {
            run,
            agent: self.opened.agent.clone(),
            plan: plan.id.clone(),
            title: plan.title.clone(),
            contract: plan.contract.clone(),
            outcome: self.run.outcome(),
            outputs: Map::new(),
        };
        let outputs = self.run.outputs().map(|(id, output)| (id.clone(), output.clone()));
        let outputs: Vec<(NodeId, Output)> = outputs.collect();
        let bill = CallBill::new(&services.executor, &self.arguments.owner, run, self.payer(), None);
        let bill = Arc::new(bill);
        let task = tokio::spawn(async move {
            let within = Duration::from_millis(services.limits.judge_ms);
            let opinion = opinion(&services, &*judge, work, outputs, Arc::clone(&bill));
            let opinion = AssertUnwindSafe(opinion).catch_unwind();
            let opinion = match tokio::time::timeout(within, opinion).await {
                Ok(Ok(opinion)) => opinion,
                Ok(Err(_)) => Err("the judge panicked".to_owned()),
                Err(_) => Err(format!("the judge took more than {} ms", within.as_millis())),
            };
            // The name comes from the judge's own code, which may panic too.
            let name = std::panic::catch_unwind(AssertUnwindSafe(|| judge.name().to_owned()));
            let name =
                name.unwrap_or_else(|_| "a judge that panics when it is asked for its name".to_owned());
            let (judgement, adherence) = judgement(&name, opinion);
            if judgement.quality.is_none() {
                tracing::warn!(%run, judge = judgement.by, why = judgement.note, "the run is not judged");
            }
            let _ = me.cast(AgentMessage::Judged { run, judgement, adherence, calls: bill.take().ended });
        });
        task.abort_handle()
    }

    pub(super) fn judged(
        &mut self,
        run: RunId,
        (judgement, adherence): (Judgement, Option<u16>),
        calls: Vec<ModelCall>,
    ) {
        if run == self.opened.run {
            self.judges.run = JudgeState::Said(judgement, adherence);
            let now = self.services.journal.now();
            let called = self.run.record_calls(now, &RUN_JUDGE.into(), JUDGED, calls.into());
            self.apply_effects(called);
        }
    }

    /// Records the evaluation, just before the run is closed.
    pub(super) fn evaluate(&mut self) -> Option<Evaluated> {
        let standard = self.standard();
        let scores = self.run.scores(&standard.target)?;
        let (judgement, adherence) = match std::mem::take(&mut self.judges.run) {
            JudgeState::Said(judgement, adherence) => (Some(judgement), adherence),
            JudgeState::Unasked | JudgeState::Asked(_) => (None, None),
        };
        let appraised = Appraised::by(&standard, &self.services.evaluation.domains, judgement);
        let evaluated = appraised.evaluate(scores, adherence);
        if appraised.differs_from_default() {
            self.writer.pending.push(Event::Appraised(Box::new(appraised)));
        }
        self.writer.pending.extend(evaluated.map(Event::Evaluated));
        evaluated
    }
}

async fn opinion(
    services: &RunServices,
    judge: &dyn Judge,
    mut work: JudgedRun,
    outputs: Vec<(NodeId, Output)>,
    bill: Arc<CallBill>,
) -> Result<Opinion, String> {
    for (node, output) in outputs {
        let value = services.results.load(&output).await;
        let value = value.map_err(|error| format!("the result of {node} cannot be read: {error}"))?;
        work.outputs.insert(node.to_string(), value);
    }
    judge.judge_in_turn(work, bill).await
}

/// The record of an opinion, or of the reason why there is none; and the adherence of the opinion.
fn judgement(by: &str, opinion: Result<Opinion, String>) -> (Judgement, Option<u16>) {
    let opinion = opinion.and_then(|Opinion { quality_pm, adherence_pm, note }| {
        let check = |dimension, score| {
            let checked = check_pm(dimension, score);
            checked.map_err(|error| format!("{error} (in thousandths, up to {BEST_PM})"))
        };
        let quality = check(Dimension::Quality, quality_pm)?;
        let adherence = adherence_pm.map(|score| check(Dimension::Adherence, score)).transpose()?;
        Ok((quality, adherence, note))
    });
    let (quality, adherence, mut note) = match opinion {
        Ok((quality, adherence, note)) => (Some(quality), adherence, note),
        Err(why) => (None, None, why),
    };
    note.truncate(beginning(&note, NOTE_BYTES_MAX).len());
    (Judgement { by: by.chars().take(BY_BYTES_MAX).collect(), quality, note }, adherence)
}
