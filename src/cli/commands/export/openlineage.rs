//! Provenance as OpenLineage events (specification 2-0-2): a start and an end of the run, and of each node that worked.

use ostler_kernel::id::NodeId;
use ostler_kernel::provenance::{AttemptTrace, Moment, NodeTrace, Origin, Provenance};
use ostler_kernel::run::RunOutcome;
use serde_json::{Map, Value, json};

use super::terms::{HOME, node_uuid, part, time};

const EVENT: &str = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent";

const PARENT: &str = "https://openlineage.io/spec/facets/1-0-1/ParentRunFacet.json#/$defs/ParentRunFacet";

const VERSION: &str = "https://openlineage.io/spec/facets/1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet";

/// The events, one on each line, in the order of the records. Equal provenance gives equal bytes.
pub(super) fn events(of: &Provenance) -> String {
    let mut events: Vec<(Moment, Value)> = vec![(of.opened, run_event(of, "START", of.opened))];
    for (id, node) in &of.nodes {
        events.extend(node_events(of, id, node));
    }
    // Stable: a node that starts and ends with one record keeps this order.
    events.sort_by_key(|(at, _)| *at);
    if let Some((at, outcome)) = of.closed {
        let kind = match outcome {
            RunOutcome::Succeeded | RunOutcome::Concluded => "COMPLETE",
            RunOutcome::Failed => "FAIL",
            RunOutcome::Cancelled => "ABORT",
        };
        events.push((at, run_event(of, kind, at)));
    }
    events.into_iter().map(|(_, event)| format!("{event}\n")).collect()
}

fn run_event(of: &Provenance, kind: &str, at: Moment) -> Value {
    let mut facets = Map::new();
    let mut about = facet("RunRunFacet");
    about["agent"] = of.agent.as_str().into();
    about["plan"] = json!({"id": of.plan, "digest": of.plan_digest, "version": of.version});
    if kind != "START"
        && let Some((_, outcome)) = of.closed
    {
        about["outcome"] = outcome.as_str().into();
    }
    facets.insert("ostler_run".to_owned(), about);
    if let Some(parent) = &of.parent {
        let mut opener = facet("OpenerRunFacet");
        opener["run"] = parent.run.to_string().into();
        opener["node"] = parent.of.node.as_str().into();
        opener["attempt"] = parent.of.attempt.into();
        facets.insert("ostler_opener".to_owned(), opener);
    }
    event(kind, at, &of.run.to_string(), Value::Object(facets), job(of, None))
}

/// Start and end of a node; nothing for a node that never worked.
fn node_events(of: &Provenance, id: &NodeId, node: &NodeTrace) -> Vec<(Moment, Value)> {
    let began = node.attempts.first().map(|attempt| attempt.started);
    let began = began.into_iter().chain(node.answers.first().map(|answer| answer.at)).min();
    let ended = node.end.as_ref();
    let Some(began) = began.or(ended.filter(|_| node.result.is_some()).map(|(at, _)| *at)) else {
        return Vec::new();
    };
    let inputs: Vec<Value> = node.used.iter().filter_map(|source| dataset(of, source)).collect();
    let make = |kind: &str, at: Moment, facets: Map<String, Value>| {
        let mut event = event(kind, at, &node_uuid(of.run, id), Value::Object(facets), job(of, Some(id)));
        event["inputs"] = inputs.clone().into();
        (at, event)
    };
    let mut events = vec![make("START", began, node_facets(of))];
    if let Some((at, state)) = ended {
        let kind = match state.as_str() {
            "executed" => "COMPLETE",
            "failed" => "FAIL",
            _ => "ABORT",
        };
        let mut facets = node_facets(of);
        facets.extend(end_facets(node, state));
        let (at, mut event) = make(kind, *at, facets);
        event["outputs"] = dataset(of, id).into_iter().collect();
        events.push((at, event));
    }
    events
}

fn event(kind: &str, at: Moment, run: &str, facets: Value, job: Value) -> Value {
    json!({
        "eventType": kind, "eventTime": time(at.at), "run": {"runId": run, "facets": facets}, "job": job,
        "inputs": [], "outputs": [], "producer": producer(), "schemaURL": EVENT,
    })
}

fn job(of: &Provenance, node: Option<&NodeId>) -> Value {
    let name = node.map_or_else(|| of.plan.clone(), |node| format!("{}.{node}", of.plan));
    json!({"namespace": namespace(of), "name": name, "facets": {}})
}

fn node_facets(of: &Provenance) -> Map<String, Value> {
    let parent = json!({
        "_producer": producer(), "_schemaURL": PARENT, "run": {"runId": of.run},
        "job": {"namespace": namespace(of), "name": of.plan},
    });
    Map::from_iter([("parent".to_owned(), parent)])
}

/// Facets of the event for the end of a node.
fn end_facets(node: &NodeTrace, state: &str) -> Map<String, Value> {
    let mut work = facet("WorkRunFacet");
    work["kind"] = node.kind.as_str().into();
    work["state"] = state.into();
    if let Some(uses) = &node.uses {
        work["uses"] = uses.as_str().into();
    }
    work["attempts"] = node.attempts.iter().map(attempt).collect();
    let mut facets = Map::from_iter([("ostler_work".to_owned(), work)]);
    if let Some(origin) = node.result.as_ref().and_then(|result| reuse(&result.origin)) {
        facets.insert("ostler_reuse".to_owned(), origin);
    }
    if !node.answers.is_empty() {
        let mut people = facet("AnswersRunFacet");
        people["answers"] = node
            .answers
            .iter()
            .map(|answer| {
                let mut told = json!({"by": answer.by, "approved": answer.approve, "shown": answer.shown});
                if let Some(carried) = answer.carried {
                    told["answeredIn"] = carried.from.to_string().into();
                    told["answeredAt"] = time(carried.at).into();
                }
                told
            })
            .collect();
        facets.insert("ostler_answers".to_owned(), people);
    }
    facets
}

fn attempt(attempt: &AttemptTrace) -> Value {
    let models = attempt.calls.iter().map(|call| {
        json!({
            "model": call.model, "provider": call.provider, "end": call.end(),
            "inputTokens": call.input_tokens, "outputTokens": call.output_tokens,
        })
    });
    json!({
        "attempt": attempt.attempt, "started": time(attempt.started.at),
        "ended": attempt.ended.map(|at| time(at.at)), "failure": attempt.failure, "cost": attempt.cost,
        "work": attempt.reuse, "intent": attempt.intent, "cage": attempt.cage, "models": models.collect::<Vec<_>>(),
    })
}

fn reuse(origin: &Origin) -> Option<Value> {
    let mut reuse = facet("ReuseRunFacet");
    match origin {
        Origin::Executed => return None,
        Origin::Reused { from, sampled, basis } => {
            reuse["decision"] = basis.as_str().into();
            reuse["run"] = from.run.to_string().into();
            reuse["record"] = from.seq.into();
            reuse["recordedAnswer"] = (*sampled).into();
        }
        Origin::Kept { from } => {
            reuse["decision"] = "kept".into();
            reuse["run"] = from.to_string().into();
        }
        Origin::Edited { author } => {
            reuse["decision"] = "edited".into();
            reuse["by"] = author.as_str().into();
        }
        Origin::Answered { by } => {
            reuse["decision"] = "answered".into();
            reuse["by"] = by.as_str().into();
        }
    }
    Some(reuse)
}

/// The result of a node; `None` without one.
fn dataset(of: &Provenance, node: &NodeId) -> Option<Value> {
    let result = of.nodes.get(node)?.result.as_ref()?;
    let mut artifact = facet("ArtifactDatasetFacet");
    artifact["digest"] = result.artifact.to_string().into();
    artifact["bytes"] = result.bytes.into();
    let version = json!({
        "_producer": producer(), "_schemaURL": VERSION, "datasetVersion": result.artifact,
    });
    Some(json!({
        "namespace": namespace(of), "name": format!("{}/{node}", of.plan),
        "facets": {"ostler_artifact": artifact, "version": version},
    }))
}

fn namespace(of: &Provenance) -> String {
    format!("ostler://{}", part(of.client.as_str()))
}

fn producer() -> String {
    format!("{HOME}/tree/v{}", env!("CARGO_PKG_VERSION"))
}

/// An empty facet of `docs/openlineage-facets.json`.
fn facet(name: &str) -> Value {
    let schema =
        format!("{HOME}/blob/v{}/docs/openlineage-facets.json#/$defs/{name}", env!("CARGO_PKG_VERSION"));
    json!({"_producer": producer(), "_schemaURL": schema})
}
