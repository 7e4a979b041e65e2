//! Provenance as PROV-JSON (W3C member submission of 24 April 2013), with the classes of PROV-AGENT.

use std::collections::BTreeMap;

use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::ModelCall;
use ostler_kernel::provenance::{AnswerTrace, AttemptTrace, NodeTrace, Origin, Provenance, ResultTrace};
use serde_json::{Map, Value, json};

use super::terms::{HOME, part, time};

/// PROV-AGENT (arXiv 2508.02866) publishes no namespace.
const PROV_AGENT: &str = "https://arxiv.org/abs/2508.02866#";

/// The document as text. Equal provenance gives equal bytes.
pub(super) fn document(of: &Provenance) -> String {
    let mut document = Document::default();
    let names = Names { run: of.run };
    document.run(of, &names);
    for (id, node) in &of.nodes {
        document.node(of, &names, id, node);
    }
    let mut text = serde_json::to_string_pretty(&document.end()).expect("JSON values are printable");
    text.push('\n');
    text
}

/// Qualified names. They contain the id of the run, so documents of several runs can be merged.
struct Names {
    run: RunId,
}

impl Names {
    fn run(&self) -> String {
        format!("run:{}", self.run)
    }

    fn attempt(&self, node: &NodeId, attempt: &AttemptTrace) -> String {
        let lost = if attempt.lost == 0 { String::new() } else { format!(".{}", attempt.lost) };
        format!("attempt:{}/{}/{}{lost}", self.run, part(node.as_str()), attempt.attempt)
    }

    fn result(&self, node: &NodeId) -> String {
        format!("result:{}/{}", self.run, part(node.as_str()))
    }

    fn answer(&self, node: &NodeId, at: usize) -> String {
        format!("answer:{}/{}/{}", self.run, part(node.as_str()), at + 1)
    }
}

#[derive(Default)]
struct Document {
    sections: BTreeMap<&'static str, Map<String, Value>>,
}

impl Document {
    fn add(&mut self, section: &'static str, id: impl Into<String>, value: Value) {
        self.sections.entry(section).or_default().insert(id.into(), value);
    }

    /// Adds a relation under the next blank name.
    fn relate(&mut self, section: &'static str, value: Value) {
        let relations = self.sections.entry(section).or_default();
        relations.insert(format!("_:{section}{}", relations.len() + 1), value);
    }

    fn run(&mut self, of: &Provenance, names: &Names) {
        let mut run = json!({
            "prov:type": class("provagent:Workflow"), "prov:startTime": time(of.opened.at),
            "ostler:client": of.client.as_str(), "ostler:planVersion": of.version,
        });
        if let Some((at, outcome)) = of.closed {
            run["prov:endTime"] = time(at.at).into();
            run["ostler:outcome"] = outcome.as_str().into();
        }
        self.add("activity", names.run(), run);
        let agent = json!({"prov:type": [class("prov:SoftwareAgent"), class("provagent:AIAgent")]});
        self.add("agent", agent_name(of), agent);
        let plan = json!({
            "prov:type": class("prov:Plan"), "ostler:name": of.plan, "ostler:digest": of.plan_digest.to_string(),
        });
        self.add("entity", plan_name(of), plan);
        self.relate(
            "wasAssociatedWith",
            json!({"prov:activity": names.run(), "prov:agent": agent_name(of), "prov:plan": plan_name(of)}),
        );
        if let Some(parent) = &of.parent {
            let opener =
                format!("attempt:{}/{}/{}", parent.run, part(parent.of.node.as_str()), parent.of.attempt);
            self.add("activity", opener.clone(), json!({}));
            self.relate("wasInformedBy", json!({"prov:informed": names.run(), "prov:informant": opener}));
        }
    }

    fn node(&mut self, of: &Provenance, names: &Names, id: &NodeId, node: &NodeTrace) {
        let mut before: Option<String> = None;
        for attempt in &node.attempts {
            let name = names.attempt(id, attempt);
            self.add("activity", name.clone(), activity(id, node, attempt));
            self.relate("wasAssociatedWith", json!({"prov:activity": name, "prov:agent": agent_name(of)}));
            self.relate("wasStartedBy", json!({"prov:activity": name, "prov:starter": names.run()}));
            for source in used(of, node) {
                self.relate("used", json!({"prov:activity": name, "prov:entity": names.result(source)}));
            }
            let earlier = before.take().into_iter();
            let informants = earlier.chain(node.after.iter().filter_map(|dep| last_activity(of, names, dep)));
            for informant in informants {
                self.relate("wasInformedBy", json!({"prov:informed": name, "prov:informant": informant}));
            }
            for (at, call) in attempt.calls.iter().enumerate() {
                self.call(of, &name, at, call);
            }
            before = Some(name);
        }
        for (at, answer) in node.answers.iter().enumerate() {
            self.answer(names, id, node, at, answer);
        }
        if let Some(result) = &node.result {
            self.result(of, names, id, node, result);
        }
    }

    /// A call of a model within an attempt.
    fn call(&mut self, of: &Provenance, attempt: &str, at: usize, call: &ModelCall) {
        let (name, model) = (format!("call:{}/{}", &attempt["attempt:".len()..], at + 1), model_name(call));
        let mut activity = json!({
            "prov:type": class("provagent:AIModelInvocation"),
            "prov:startTime": time(call.ended_at.saturating_sub(i64::try_from(call.took_ms).unwrap_or(i64::MAX))),
            "prov:endTime": time(call.ended_at), "ostler:end": call.end(),
            "ostler:inputTokens": call.input_tokens, "ostler:outputTokens": call.output_tokens,
        });
        if let Some(nano_usd) = call.nano_usd {
            activity["ostler:nanoUsd"] = nano_usd.into();
        }
        self.add("activity", name.clone(), activity);
        let mut about = json!({
            "prov:type": class("provagent:AIModel"), "ostler:name": call.model, "ostler:provider": call.provider,
        });
        if let Some(requested) = &call.requested {
            about["ostler:requested"] = requested.as_str().into();
        }
        self.add("entity", model.clone(), about);
        self.relate("used", json!({"prov:activity": name, "prov:entity": model}));
        self.relate("wasInformedBy", json!({"prov:informed": name, "prov:informant": attempt}));
        self.relate("wasAssociatedWith", json!({"prov:activity": name, "prov:agent": agent_name(of)}));
    }

    fn answer(&mut self, names: &Names, id: &NodeId, node: &NodeTrace, at: usize, answer: &AnswerTrace) {
        let name = names.answer(id, at);
        let mut activity = json!({
            "prov:type": class("ostler:Answer"), "prov:endTime": time(answer.at.at),
            "ostler:node": id.as_str(), "ostler:approved": answer.approve,
        });
        if let Some(shown) = answer.shown {
            activity["ostler:shown"] = shown.to_string().into();
        }
        if let Some(carried) = answer.carried {
            activity["ostler:answeredIn"] = carried.from.to_string().into();
            activity["ostler:answeredAt"] = time(carried.at).into();
        }
        self.add("activity", name.clone(), activity);
        if !answer.by.is_empty() {
            self.add("agent", person(&answer.by), json!({"prov:type": class("prov:Person")}));
            let associated = json!({"prov:activity": name, "prov:agent": person(&answer.by)});
            self.relate("wasAssociatedWith", associated);
        }
        let next = node.attempts.iter().find(|attempt| attempt.started.seq > answer.at.seq);
        if let Some(next) = next {
            let informed = names.attempt(id, next);
            self.relate("wasInformedBy", json!({"prov:informed": informed, "prov:informant": name}));
        }
    }

    fn result(
        &mut self,
        of: &Provenance,
        names: &Names,
        id: &NodeId,
        node: &NodeTrace,
        result: &ResultTrace,
    ) {
        let name = names.result(id);
        let kind = if calls_model(node) { "provagent:ResponseData" } else { "provagent:DomainData" };
        let mut entity = json!({
            "prov:type": class(kind), "ostler:node": id.as_str(),
            "ostler:digest": result.artifact.to_string(), "ostler:bytes": result.bytes,
        });
        match &result.origin {
            Origin::Reused { from, sampled, basis } => {
                let record = record_name(from.run, from.seq);
                entity["ostler:reuse"] = basis.as_str().into();
                entity["ostler:recordedAnswer"] = (*sampled).into();
                self.add("entity", record.clone(), json!({"prov:type": class("ostler:Record")}));
                self.derive(&name, &record);
            }
            Origin::Kept { from } => {
                entity["ostler:reuse"] = "kept".into();
                entity["ostler:run"] = from.to_string().into();
            }
            Origin::Edited { author } => {
                self.add("agent", person(author), json!({"prov:type": class("prov:Person")}));
                self.relate("wasAttributedTo", json!({"prov:entity": name, "prov:agent": person(author)}));
            }
            Origin::Executed | Origin::Answered { .. } => {
                if let Some(activity) = last_activity(of, names, id) {
                    let mut generation = json!({"prov:entity": name, "prov:activity": activity});
                    if let Some((at, _)) = &node.end {
                        generation["prov:time"] = time(at.at).into();
                    }
                    self.relate("wasGeneratedBy", generation);
                }
                for source in used(of, node) {
                    self.derive(&name, &names.result(source));
                }
                self.relate("wasAttributedTo", json!({"prov:entity": name, "prov:agent": agent_name(of)}));
            }
        }
        if let Some(seq) = result.recorded {
            let record = record_name(of.run, seq);
            self.add("entity", record.clone(), json!({"prov:type": class("ostler:Record")}));
            self.relate("alternateOf", json!({"prov:alternate1": name, "prov:alternate2": record}));
        }
        self.add("entity", name, entity);
    }

    fn derive(&mut self, generated: &str, used: &str) {
        self.relate("wasDerivedFrom", json!({"prov:generatedEntity": generated, "prov:usedEntity": used}));
    }

    fn end(self) -> Value {
        let mut prefixes = Map::new();
        prefixes.insert("ostler".to_owned(), format!("{HOME}#").into());
        prefixes.insert("provagent".to_owned(), PROV_AGENT.into());
        for kind in
            ["agent", "answer", "attempt", "call", "model", "person", "plan", "record", "result", "run"]
        {
            prefixes.insert(kind.to_owned(), format!("urn:ostler:{kind}:").into());
        }
        let mut whole = Map::new();
        whole.insert("prefix".to_owned(), Value::Object(prefixes));
        whole.extend(
            self.sections.into_iter().map(|(name, section)| (name.to_owned(), Value::Object(section))),
        );
        Value::Object(whole)
    }
}

/// A class as a value of `prov:type`.
fn class(name: &str) -> Value {
    json!({"$": name, "type": "prov:QUALIFIED_NAME"})
}

fn activity(id: &NodeId, node: &NodeTrace, attempt: &AttemptTrace) -> Value {
    let kind = match node.kind.as_str() {
        _ if calls_model(node) => "provagent:AIModelInvocation",
        "tool" => "provagent:AgentTool",
        _ => "provagent:Task",
    };
    let mut activity = json!({
        "prov:type": class(kind), "prov:startTime": time(attempt.started.at), "ostler:node": id.as_str(),
        "ostler:attempt": attempt.attempt, "ostler:work": attempt.reuse.to_string(),
        "ostler:cost": attempt.cost, "ostler:intent": attempt.intent, "ostler:policyEpoch": attempt.policy_epoch,
    });
    if let Some(uses) = &node.uses {
        activity["ostler:uses"] = uses.as_str().into();
    }
    match &attempt.ended {
        Some(at) => activity["prov:endTime"] = time(at.at).into(),
        None => activity["ostler:end"] = "unknown".into(),
    }
    if let Some(failure) = &attempt.failure {
        activity["ostler:failure"] = failure.as_str().into();
    }
    if attempt.is_late {
        activity["ostler:late"] = true.into();
    }
    if let Some(cage) = attempt.cage {
        activity["ostler:cage"] = cage.to_string().into();
    }
    activity
}

fn calls_model(node: &NodeTrace) -> bool {
    node.kind == "model" || node.uses.as_deref().is_some_and(|uses| uses.starts_with("model."))
}

/// The sources that have a result.
fn used<'a>(of: &'a Provenance, node: &'a NodeTrace) -> impl Iterator<Item = &'a NodeId> {
    node.used.iter().filter(|source| of.nodes.get(*source).is_some_and(|source| source.result.is_some()))
}

/// The activity from which the end of a node followed; `None` for a node that ended without one.
fn last_activity(of: &Provenance, names: &Names, id: &NodeId) -> Option<String> {
    let node = of.nodes.get(id)?;
    let attempt = node.attempts.last();
    match (attempt, node.answers.len()) {
        (Some(attempt), _) => Some(names.attempt(id, attempt)),
        (None, 0) => None,
        (None, answers) => Some(names.answer(id, answers - 1)),
    }
}

fn agent_name(of: &Provenance) -> String {
    format!("agent:{}/{}", part(of.client.as_str()), part(of.agent.as_str()))
}

fn plan_name(of: &Provenance) -> String {
    format!("plan:{}", of.plan_digest)
}

fn person(name: &str) -> String {
    format!("person:{}", part(name))
}

fn model_name(call: &ModelCall) -> String {
    let name = call.answered_by.as_ref().or(call.requested.as_ref()).unwrap_or(&call.model);
    format!("model:{}/{}", part(&call.provider), part(name))
}

fn record_name(run: RunId, seq: u64) -> String {
    format!("record:{run}/{seq}")
}
