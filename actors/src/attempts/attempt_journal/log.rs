//! Records that the code of an attempt makes: steps, progress, child runs.

use std::collections::btree_map::Entry;
use std::sync::atomic::Ordering;

use ostler_kernel::agent::Telemetry;
use ostler_kernel::event::{
    AttemptRef, EXCHANGE_BYTES_MAX, Event, Failure, ModelExchanged, Outcome, StepIntent, StepKey, StepResult,
};
use ostler_kernel::id::Digest;
use ostler_kernel::json::{self, Json, Object};
use ostler_kernel::lineage;
use ostler_kernel::plan::{Idempotency, NodeDraft, Plan};
use ostler_kernel::port::{
    AnswerForm, AttemptLog, AttemptLogError, BoxFuture, CageRung, CallGrant, ChildRunResult, ChildRunSpec,
    Delta, ModelCall, ModelTurn, ModelTurnEnd, OutputStream, PermittedTool, PricedCall, StepStart,
    TOKEN_BYTES_MAX,
};
use ostler_kernel::run::{FailureCategory, RunOutcome};
use ostler_kernel::step_history::{STEP_RESULT_BYTES_MAX, StepHistory, StepLookup};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::output::AttemptOutput;
use super::steps::Open;
use super::{AROUND, AttemptJournal};
use crate::attempts::gated_call::{Recorder, refused};
use crate::attempts::model_turns::TurnEnded;
use crate::base::lock::lock;
use crate::state::live_text::TextPart;

impl AttemptLog for AttemptJournal {
    fn resume_token(&self) -> Result<Option<Value>, AttemptLogError> {
        if let Some(token) = &lock(&self.progress).unwritten {
            return Ok(Some(token.value()));
        }
        self.ask(|notes| notes.token().map(Json::value))
    }

    fn progress(&self, token: Value) -> Result<(), AttemptLogError> {
        if self.over.load(Ordering::SeqCst) {
            return Err(AttemptLogError::AttemptEnded);
        }
        let token = json::canonical(&token)?;
        let bytes = token.as_str().len();
        if bytes > TOKEN_BYTES_MAX {
            return Err(AttemptLogError::LargeToken { bytes });
        }
        let mut progress = lock(&self.progress);
        (progress.sign, progress.unwritten) = (Instant::now(), Some(token));
        drop(progress);
        self.signs.notify_one();
        Ok(())
    }

    fn heartbeat(&self) {
        self.sign();
    }

    fn heartbeat_ms(&self) -> Option<u64> {
        self.site.heartbeat_ms
    }

    fn output(&self, stream: OutputStream, bytes: &[u8]) {
        let mut output = lock(&self.output);
        if self.over.load(Ordering::SeqCst) {
            return;
        }
        let AttemptRef { node, attempt, .. } = &self.site.of;
        let kept = output.get_or_insert_with(|| Box::new(AttemptOutput::new(node.clone(), *attempt)));
        let chunks = kept.push(stream, bytes, self.executor.journal.now());
        // Under the lock, so that the chunks are kept in the order of their output.
        kept.write(&self.executor.output, self.site.run, chunks);
    }

    fn model_begins(&self, form: AnswerForm) -> u32 {
        lock(&self.model_text).begin(form)
    }

    fn model_delta(&self, call: u32, delta: &Delta) {
        self.sign();
        let mut texts = lock(&self.model_text);
        let Some((part, text)) = texts.shown(call, delta).filter(|_| !self.over.load(Ordering::SeqCst))
        else {
            return;
        };
        let live = texts.live.get_or_insert_with(|| {
            let (executor, AttemptRef { node, attempt, .. }) = (&self.executor, &self.site.of);
            executor.live_texts.begin(self.site.run, node.clone(), *attempt, executor.journal.now())
        });
        live.push(call, part, &text);
        let lines = (part == TextPart::Text).then(|| texts.lines(call, &text)).flatten();
        drop(texts);
        if let Some(lines) = lines {
            self.output(OutputStream::Model, lines.as_bytes());
        }
    }

    fn model_called(&self, number: u32, call: ModelCall) {
        let rest = lock(&self.model_text).end(number);
        if let Some(rest) = rest {
            self.output(OutputStream::Model, rest.as_bytes());
        }
        self.bill().model_called(number, call);
    }

    fn model_exchanged(&self, params: &Map<String, Value>, answer: &Value, call: ModelCall) {
        let canonical = json::canonical_map(params).and_then(|params| Ok((params, json::canonical(answer)?)));
        let Ok((params, answer)) = canonical else { return };
        if params.as_str().len() + answer.as_str().len() > EXCHANGE_BYTES_MAX {
            return;
        }
        let AttemptRef { node, attempt, .. } = &self.site.of;
        let exchanged = ModelExchanged { node: node.clone(), attempt: *attempt, params, answer, call };
        if let Err(error) = self.append(Event::ModelExchanged(Box::new(exchanged))) {
            tracing::debug!(%error, %node, "the question of a program is not recorded: exports leave it out");
        }
    }

    fn caged(&self, rung: CageRung) {
        let mut lowest = lock(&self.rung);
        *lowest = Some(lowest.map_or(rung, |before| before.min(rung)));
    }

    fn reserve_call<'a>(&'a self, call: PricedCall<'a>) -> BoxFuture<'a, Result<CallGrant, Failure>> {
        Box::pin(self.bill().budget.reserve(call, Some(&self.waited)))
    }

    fn settle_call(&self, reservation: u64, call: &ModelCall) {
        self.bill().settle_call(reservation, call);
    }

    fn model_turn<'a>(&'a self, turn: ModelTurn<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(pending) = self.bill().turns.take(turn) {
                self.wait_for_turn(pending).await;
            }
        })
    }

    fn model_turn_ended(&self, end: ModelTurnEnd<'_>) -> bool {
        let TurnEnded { token_charge, calls_again } = self.bill().turns.end(end);
        if token_charge > 0 {
            self.executor.attempts.add_token_charge(&self.key(), token_charge);
        }
        calls_again
    }

    fn permit<'a>(
        &'a self,
        tool: &'a str,
        params: Object,
        key: Digest,
    ) -> BoxFuture<'a, Result<PermittedTool, Failure>> {
        Box::pin(async move {
            let allowed = Recorder::of(self).permit(tool, params, key).await;
            let (tool, permit) = allowed.map_err(|denial| refused(&denial))?;
            // The node has declared what its attempt may do at most.
            let impact = permit.class().impact;
            if impact > self.site.impact {
                let what = format!("{} has impact {impact}, and its node declares less", tool.spec().name);
                return Err(Failure::new(FailureCategory::GateDenied, what));
            }
            Ok((tool, permit))
        })
    }

    fn begin<'a>(
        &'a self,
        step: &'a str,
        key: StepKey,
        acting: Option<Idempotency>,
    ) -> BoxFuture<'a, Result<StepStart, AttemptLogError>> {
        Box::pin(async move {
            let of = &self.site.of;
            if self.over.load(Ordering::SeqCst) {
                return Err(AttemptLogError::AttemptEnded);
            }
            // Taken before the history is asked: a concurrent call of the same step cannot finish in between.
            let around = AROUND.try_get().ok().flatten();
            let open = Open { key: key.clone(), acts: acting.is_some(), waits: false, around };
            match lock(&self.steps).open.entry(step.to_owned()) {
                Entry::Occupied(_) => return Err(AttemptLogError::Busy(step.to_owned())),
                Entry::Vacant(vacant) => drop(vacant.insert(open)),
            }
            let mut opened = Opened { log: self, step: Some(step) };
            self.reclaim().await;
            let recall = |notes: &StepHistory, earlier: &mut dyn Iterator<Item = &StepHistory>| {
                notes.check_room(step)?;
                Ok::<_, AttemptLogError>(notes.lookup(step, &key, of.attempt, earlier)?)
            };
            let recalled = self.step_log().ask_all(of, recall)??;
            match recalled {
                StepLookup::Done(output) => {
                    drop(opened);
                    self.tell(Telemetry::StepReplayed);
                    Ok(StepStart::Done(self.executor.results.load(&output).await?))
                }
                StepLookup::InDoubt | StepLookup::ChangedByPatch(_) => {
                    drop(opened);
                    // If anything else ends the attempt before the record, its outcome is unknown.
                    self.in_doubt.store(true, Ordering::SeqCst);
                    let (of, step) = (of.clone(), step.to_owned());
                    self.append_durably(Event::StepInDoubt { of, step: step.clone() }).await?;
                    Err(match recalled {
                        StepLookup::ChangedByPatch(changed) => AttemptLogError::ChangedByPatch(changed),
                        _ => AttemptLogError::InDoubt(step),
                    })
                }
                StepLookup::Call(before) => {
                    let idempotency_key = before.unwrap_or_else(|| lineage::step_key(self.site.key, step));
                    if let Some(idem) = acting {
                        let (of, step) = (of.clone(), step.to_owned());
                        let intent = StepIntent { of, step, key, idem, idempotency_key };
                        self.append_durably(Event::StepIntent(Box::new(intent))).await?;
                    }
                    opened.step = None;
                    Ok(StepStart::Call(idempotency_key))
                }
            }
        })
    }

    fn step_key(&self, step: &str) -> Result<Option<Digest>, AttemptLogError> {
        let key = |notes: &StepHistory, earlier: &mut dyn Iterator<Item = &StepHistory>| {
            notes.idempotency_key(step, earlier)
        };
        self.step_log().ask_all(&self.site.of, key)
    }

    fn end<'a>(
        &'a self,
        step: &'a str,
        ended: Result<&'a Value, &'a Failure>,
        durable: bool,
    ) -> BoxFuture<'a, Result<(), AttemptLogError>> {
        Box::pin(async move {
            let open = lock(&self.steps).open.get(step).map(|open| (open.key.clone(), open.acts));
            let Some((key, acts)) = open else { return Err(AttemptLogError::AttemptEnded) };
            // The step counts as running until its result is recorded, which may wait for space.
            let _opened = Opened { log: self, step: Some(step) };
            let outcome = match ended {
                Ok(value) => {
                    let most = self.executor.results.bytes_max.min(STEP_RESULT_BYTES_MAX);
                    let kept = self.executor.results.keep_done(value, most, &self.waited).await;
                    let failed = |failure| {
                        self.tell(Telemetry::StepFailed);
                        AttemptLogError::Result { step: step.to_owned(), failure }
                    };
                    Outcome::Ok(kept.map_err(failed)?)
                }
                Err(failure) => {
                    self.tell(Telemetry::StepFailed);
                    // A step that acted and may be done has no known failure.
                    if !acts || failure.category.is_loss() {
                        return Ok(());
                    }
                    Outcome::Failed(failure.clone())
                }
            };
            let is_done = matches!(outcome, Outcome::Ok(_));
            let (of, step) = (self.site.of.clone(), step.to_owned());
            let result = Event::StepResult(Box::new(StepResult { of, step, key, outcome }));
            match acts || durable {
                true => self.append_durably(result).await?,
                false => drop(self.append(result)?),
            }
            if is_done {
                self.tell(Telemetry::StepCompleted);
            }
            Ok(())
        })
    }

    fn abandon(&self, step: &str) {
        let mut steps = lock(&self.steps);
        steps.open.remove(step);
        if steps.waiting > 0 {
            // The step may have run in another task, and the rest may only wait.
            self.signs.notify_one();
        }
        self.lulls.notify_waiters();
    }

    fn spawn<'a>(
        &'a self,
        step: &'a str,
        child: ChildRunSpec,
    ) -> BoxFuture<'a, Result<ChildRunResult, AttemptLogError>> {
        Box::pin(self.open_child(step, child))
    }

    fn ask_person<'a>(
        &'a self,
        step: &'a str,
        text: &'a str,
        within_ms: i64,
    ) -> BoxFuture<'a, Result<bool, AttemptLogError>> {
        let question = Plan::builder("question").node(NodeDraft::question("question", text, within_ms));
        Box::pin(async move {
            let _waits = self.waited.begin();
            let ended = self.open_child(step, ChildRunSpec::plan(question)).await?;
            Ok(ended.outcome == RunOutcome::Succeeded)
        })
    }
}

/// A step without a recorded start or end. Unless it starts, dropping the value removes the step.
struct Opened<'a> {
    log: &'a AttemptJournal,
    step: Option<&'a str>,
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if let Some(step) = self.step {
            self.log.abandon(step);
        }
    }
}
