//! One passage of a call through the gate, with the functions that the dispatcher of real runs calls.

use std::sync::Arc;

use ostler_kernel::gate::{
    Asker, Call, ClearanceRoute, Cleared, Denial, DenialCode, Judged, REFUSAL, Reply, Scopes, judge,
};
use ostler_kernel::id::{Digest, Ticks};
use ostler_kernel::json::Object;
use serde_json::{Value, json};

use super::case::{At, CallScript, ClearanceScript, EventScript, StepScript};
use super::outcome::Outcome;
use super::policy::CasePolicy;
use super::resolve::resolve;
use super::step::{Pending, Taken};
use super::world::{Told, World};
use crate::graph::CaseError;

pub(super) struct Passage<'w> {
    world: &'w mut World,
    call: Arc<CallScript>,
    step: &'w StepScript,
    number: u64,
    /// The hold that an answer resumes.
    waiting: Option<Pending>,
    outcome: Outcome,
    crashed: bool,
}

/// Where a passage ends without a denial.
enum End {
    Allowed,
    Held(Pending),
}

/// A faulty case, or a verdict.
type Step<T> = Result<Result<T, Denial>, CaseError>;

impl<'w> Passage<'w> {
    pub(super) fn new(
        world: &'w mut World,
        call: Arc<CallScript>,
        step: &'w StepScript,
        number: u64,
        waiting: Option<Pending>,
    ) -> Passage<'w> {
        Passage { world, call, step, number, waiting, outcome: Outcome::default(), crashed: false }
    }

    pub(super) fn run(mut self) -> Result<Taken, CaseError> {
        self.happen(At::Before)?;
        let (mut held, mut charge) = (None, None);
        match self.pass()? {
            Ok(End::Allowed) => charge = Some(self.number),
            Ok(End::Held(pending)) => held = Some(pending),
            Err(denial) => self.denied(&denial),
        }
        Ok(Taken { call: self.call, outcome: self.outcome, held, charge })
    }

    fn happen(&mut self, at: At) -> Result<(), CaseError> {
        for EventScript { event, .. } in self.step.events.iter().filter(|event| event.at == at) {
            match self.world.happen(event)? {
                Told::Nothing => {}
                Told::PolicyInvalid => drop(self.outcome.info.insert("POLICY_INVALID")),
                Told::InterjectNoAuthority => drop(self.outcome.info.insert("INTERJECT_NO_AUTHORITY")),
                Told::Crash => self.crashed = true,
            }
        }
        Ok(())
    }

    fn denied(&mut self, denial: &Denial) {
        if denial.code.counts_as_denial() {
            self.world.run(&self.call).denials += 1;
        }
        let model_sees = match denial.code {
            DenialCode::IntentAboveToken => "nothing",
            _ if denial.for_model() == REFUSAL => "NF",
            _ => "schema_error",
        };
        if denial.unregistered {
            self.outcome.info.insert("UNREGISTERED");
        }
        self.outcome.held = denial.held.map(DenialCode::as_str);
        self.outcome.measured = denial.measured;
        self.end("deny", denial.code.as_str(), model_sees);
    }

    fn end(&mut self, verdict: &'static str, code: &str, model_sees: &'static str) {
        if let Some(measured) = self.outcome.measured {
            if self.world.policy.intent.is_none() {
                self.outcome.info.insert("INTENT_DEFAULTED");
            }
            if measured.failed {
                self.outcome.info.insert("IMPACT_FN_FAILED");
            }
        }
        self.outcome.ended(verdict, code, model_sees, self.world.audit_records());
    }

    fn pass(&mut self) -> Step<End> {
        let (script, policy) = (Arc::clone(&self.call), Arc::clone(&self.world.policy));
        let tool = self.world.tool(&script.tool);
        let spent = self.world.run(&script).spent.clone();
        let resolved = self.admit(&policy).and_then(|intent| {
            let (params, literal) = resolve(self.world, &script, &policy.gate)?;
            Ok((intent, params, self.world.provenance(&script, &literal)))
        });
        let (intent, params, provenance) = match resolved {
            Ok(resolved) => resolved,
            Err(denial) => return Ok(Err(denial)),
        };
        let call = Call {
            tool: tool.as_deref(),
            name: &script.tool,
            params,
            floor: 0,
            intent,
            scope: Scopes::Held(policy.users.get(&script.user).map_or(&[][..], Vec::as_slice)),
            workspace: None,
            provenance: &provenance,
            spent: &spent,
        };
        let mut dns = std::mem::take(&mut self.world.dns);
        dns.first.clear();
        let judged = judge(call, &policy.gate, self.world.standing(true), &mut dns);
        self.world.dns = dns;
        match judged {
            Ok(judged) => self.clear(judged, &policy),
            Err(denial) => Ok(Err(denial)),
        }
    }

    /// The intent of the call, if the run may make one.
    fn admit(&mut self, policy: &CasePolicy) -> Result<u8, Denial> {
        let intent = policy.gate.admit(policy.intent)?;
        policy.gate.check_denials(self.world.run(&self.call).denials)?;
        Ok(intent)
    }

    /// Holds the call until there is an answer, and goes on with a yes.
    fn clear(&mut self, judged: Judged<'_>, policy: &CasePolicy) -> Step<End> {
        self.outcome.measured = Some(judged.measured);
        if judged.hold.is_some() && judged.route().is_none() {
            let code = judged.hold.as_ref().map_or(DenialCode::TaintAuthor, |hold| hold.code);
            return Ok(Err(judged.denial(code, "no route")));
        }
        self.outcome.held = judged.hold.as_ref().map(|hold| hold.code.as_str());
        let seal = match judged.seal() {
            Ok(seal) => seal,
            Err(denial) => return Ok(Err(denial)),
        };
        if let Some(waiting) = &self.waiting
            && let Err(code) = waiting.seal.check(Some(&seal))
        {
            return Ok(Err(judged.denial(code, "the held call was another one")));
        }
        if let Some(route) = judged.route() {
            match self.ask(&judged, route)? {
                Err(denial) => return Ok(Err(denial)),
                Ok(None) => {}
                Ok(Some(asked_at)) => return Ok(self.hold(&judged, policy, Pending { seal, asked_at })),
            }
        }
        let cleared = Cleared::new(seal);
        self.start(judged, cleared)
    }

    /// Asks for clearance. `Some`: there is no answer yet to the request of that time.
    fn ask(&mut self, judged: &Judged<'_>, route: &ClearanceRoute) -> Step<Option<Ticks>> {
        let now = self.world.now;
        let script = self.step.clearance.as_ref();
        if let Some(waiting) = &self.waiting {
            let waited = now.saturating_sub(waiting.asked_at).unsigned_abs();
            let is_pending = script.is_some_and(|script| script.pending);
            if is_pending && waited < route.deadline_ms {
                return Ok(Ok(Some(waiting.asked_at)));
            }
            return Ok(answer(judged, script, waited, route).map(|()| None));
        }
        let asker = Asker { tenant: &self.call.tenant, user: &self.call.user };
        let key = match judged.cache_key(asker) {
            Ok(key) => key,
            Err(denial) => return Ok(Err(denial)),
        };
        if key.is_some_and(|key| self.world.cache.covers(key, now)) {
            return Ok(Ok(None));
        }
        self.outcome.clearance_called = true;
        self.outcome.clearance_request = Some(judged.request(asker).to_json());
        if script.is_some_and(|script| script.pending) {
            return Ok(Ok(Some(now)));
        }
        self.happen(At::Clearance)?;
        let answered = answer(judged, script, script.map_or(0, |script| script.delay_ms), route);
        if let (Ok(()), Some(key)) = (&answered, key) {
            self.world.cache.store(key, route, now);
        }
        Ok(answered.map(|()| None))
    }

    fn hold(&mut self, judged: &Judged<'_>, policy: &CasePolicy, pending: Pending) -> Result<End, Denial> {
        let recorded = self.world.standing(false).check_audit(Some(judged.measured.impact), &policy.gate);
        recorded.map_err(|denial| judged.denial(denial.code, denial.operator))?;
        let code = judged.hold.as_ref().map_or("CLEARANCE_PENDING", |hold| hold.code.as_str());
        self.end("hold", code, "nothing");
        Ok(End::Held(pending))
    }

    /// Checks the seal, records the verdict, charges the call and starts it.
    fn start(&mut self, judged: Judged<'_>, cleared: Cleared) -> Step<End> {
        self.happen(At::Seal)?;
        let current = Arc::clone(&self.world.policy);
        let impact = Some(judged.measured.impact);
        let after = |denial: Denial| judged.denial(denial.code, denial.operator);
        let standing = self.world.standing(false);
        let (tool, again) = (self.world.tool(&self.call.tool), self.resolve_again(&judged));
        let checked = standing
            .check_lockdown(impact, &current.gate)
            .map_err(after)
            .and_then(|()| judged.check_seal(tool.as_deref(), again, current.gate.epoch))
            .and_then(|()| standing.check_audit(impact, &current.gate).map_err(after));
        if let Err(denial) = checked {
            return Ok(Err(denial));
        }
        let connect = std::mem::take(&mut self.world.dns.first).into_iter();
        let connect = addresses(&judged, connect);
        let permit = match judged.permit(Digest([0; 32]), Some(cleared)) {
            Ok(permit) => permit,
            Err(denial) => return Ok(Err(denial)),
        };
        self.world.run(&self.call).spent.charge(self.number, &self.call.tool, permit.params());
        self.outcome.connect = connect;
        self.outcome.args = Some(permit.into_params());
        self.end("allow", "OK", "result");
        self.happen(At::Recorded)?;
        if self.crashed {
            self.end("allow", "OK", "nothing");
        }
        Ok(Ok(End::Allowed))
    }

    /// The parameters as they are resolved at the seal; `None`: they cannot be.
    fn resolve_again(&self, judged: &Judged<'_>) -> Option<Object> {
        if self.call.param_refs.is_empty() {
            return Some(judged.given.clone());
        }
        resolve(self.world, &self.call, &self.world.policy.gate).ok().map(|(params, _)| params)
    }
}

/// The verdict on an answer that came after `waited` milliseconds.
fn answer(
    judged: &Judged<'_>,
    script: Option<&ClearanceScript>,
    waited: u64,
    route: &ClearanceRoute,
) -> Result<(), Denial> {
    let body = script.map(ClearanceScript::body).unwrap_or_default();
    let reply = match script {
        None => Reply::Unreachable,
        Some(script) if script.unreachable => Reply::Unreachable,
        Some(script) if script.pending || waited >= route.deadline_ms => {
            debug_assert!(waited >= route.deadline_ms || script.pending);
            Reply::Late
        }
        Some(script) => Reply::Answer { status: script.status(), body: &body },
    };
    reply.judge().map_err(|code| judged.denial(code, "clearance"))
}

/// The addresses to connect to: those that were looked up as the answer spells them.
fn addresses(judged: &Judged<'_>, mut looked_up: impl Iterator<Item = String>) -> Option<Value> {
    let spelled = judged.connect.iter().map(|pinned| match pinned.looked_up {
        true => looked_up.next().unwrap_or_default(),
        false => pinned.address.to_string(),
    });
    let mut all: Vec<String> = spelled.collect();
    match all.len() {
        0 => None,
        1 => all.pop().map(Value::from),
        _ => Some(json!(all)),
    }
}
