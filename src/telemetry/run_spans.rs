//! Spans of a run, from its records.
//!
//! | span | from | parent |
//! |---|---|---|
//! | `invoke_agent` | the opening to the end of the run | none; a link to the attempt that opened a child run |
//! | `plan` | an attempt of a planner's node | `invoke_agent` |
//! | `execute_tool` | an attempt of another node with a tool, programs too | `invoke_agent` |
//! | `chat` | a call of a model | the `plan` or `execute_tool` that made it, else `invoke_agent` |

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::event::{AttemptResult, Event, Outcome, RunOpened};
use ostler_kernel::id::{NodeId, RunId, Ticks};
use ostler_kernel::plan::{Node, model_of_tool};
use ostler_kernel::policy::{Role, View};
use ostler_kernel::port::{ModelCall, Recorded};
use ostler_kernel::run::{Run, RunFold, RunFoldError, RunOutcome};
use ostler_kernel::text::beginning;
use serde_json::json;

use super::names;
use super::span::{Place, Span, Value};

/// Longest content of an attribute in bytes; the beginning of a longer one is sent.
const CONTENT_BYTES_MAX: usize = 16 << 10;

/// Error of an attempt whose process died, or whose run ended before it.
const LOST: &str = "lost";

/// The state of a run that decides about its spans.
pub(super) struct RunSpans {
    run: RunId,
    fold: RunFold,
    has_contents: bool,
    open: BTreeMap<(NodeId, u32), OpenAttempt>,
    chats: u64,
    recoveries: u64,
}

struct OpenAttempt {
    start: Ticks,
    chats: Vec<ModelCall>,
}

impl RunSpans {
    /// Before the first record. `has_contents`: spans get texts of models, parameters and results.
    pub(super) fn new(run: RunId, has_contents: bool) -> RunSpans {
        let (open, fold) = (BTreeMap::new(), RunFold::of(run));
        RunSpans { run, fold, has_contents, open, chats: 0, recoveries: 0 }
    }

    /// The spans that end with a record.
    ///
    /// # Errors
    ///
    /// The record does not follow from those before it, for instance because the journal rolled them back.
    pub(super) fn record(&mut self, record: &Recorded) -> Result<Vec<Span>, RunFoldError> {
        self.fold.record(record, &|text| Ok(Arc::new(serde_json::from_str(text.as_str())?)))?;
        Ok(match &record.event {
            Event::RunRecovered { .. } => {
                self.recoveries += 1;
                Vec::new()
            }
            Event::AttemptIntent(intent) => {
                let key = (intent.node.clone(), intent.attempt);
                let open = OpenAttempt { start: record.at_ms, chats: Vec::new() };
                // An attempt that is repeated was lost with its process.
                match self.open.insert(key.clone(), open) {
                    Some(lost) => self.lost(key, lost, record.at_ms),
                    None => Vec::new(),
                }
            }
            Event::ModelCalled { node, attempt, call } => {
                let key = (node.clone(), *attempt);
                match self.open.get_mut(&key) {
                    Some(open) => {
                        open.chats.push(ModelCall::clone(call));
                        Vec::new()
                    }
                    None => vec![self.chat(&key, call, None, None)],
                }
            }
            Event::AttemptResult(result) | Event::LateResult(result) => self.end(result, record.at_ms),
            Event::RunClosed { outcome } => self.close(*outcome, record.at_ms),
            _ => Vec::new(),
        })
    }

    fn end(&mut self, result: &AttemptResult, at: Ticks) -> Vec<Span> {
        let key = (result.node.clone(), result.attempt);
        let Some(open) = self.open.remove(&key) else { return Vec::new() };
        let (error, output) = match &result.outcome {
            Outcome::Ok(output) => (None, output.inline.as_ref().map(|output| output.as_str().to_owned())),
            Outcome::Failed(failure) => (Some(failure.category.as_str().to_owned()), None),
        };
        self.attempt(key, open, at, error, output.filter(|_| self.has_contents))
    }

    fn lost(&mut self, key: (NodeId, u32), open: OpenAttempt, at: Ticks) -> Vec<Span> {
        let mut spans = self.attempt(key, open, at, Some(LOST.to_owned()), None);
        // The attempt that repeats it has the id of the attempt.
        for span in &mut spans {
            span.place = Place::named(self.run, &[b"lost", &span.place.span, &at.to_be_bytes()]);
        }
        spans
    }

    /// The span of an attempt, if it has one, and those of its calls of models.
    fn attempt(
        &mut self,
        key: (NodeId, u32),
        open: OpenAttempt,
        end: Ticks,
        error: Option<String>,
        output: Option<String>,
    ) -> Vec<Span> {
        let own = self.node(&key.0).and_then(|node| self.operation(node, key.1));
        let parent = own.as_ref().map(|_| Place::of_attempt(self.run, key.0.as_str(), key.1));
        let last = open.chats.len().saturating_sub(1);
        let mut spans: Vec<Span> = Vec::new();
        for (at, call) in open.chats.iter().enumerate() {
            // The last call of a node that asks a model gave its result; a program's result is its own.
            let said = output.as_deref().filter(|_| at == last && parent.is_none());
            spans.push(self.chat(&key, call, parent, said));
        }
        if let (Some((name, mut attributes)), Some(place)) = (own, parent) {
            attributes.extend(self.of_node(&key));
            attributes.extend(output.map(|output| (names::TOOL_RESULT, bounded(output).into())));
            attributes.extend(error.clone().map(|error| (names::ERROR_TYPE, error.into())));
            let parent = Some(Place::of_run(self.run).span);
            let start = open.start;
            spans.push(Span {
                place,
                parent,
                link: None,
                name,
                is_client: false,
                start,
                end,
                attributes,
                error,
            });
        }
        spans
    }

    /// Name and attributes of the span of a node's attempts; `None` where the calls of models are all there is.
    fn operation(&self, node: &Node, attempt: u32) -> Option<(String, Vec<(&'static str, Value)>)> {
        let head = |operation: &str| {
            vec![(names::OPERATION, Value::from(operation)), (names::PROVIDER, names::OSTLER.into())]
        };
        match (self.role(&node.id), node.tool.as_deref()) {
            (Some(Role::Planner), _) => Some((format!("{} {}", names::PLAN, node.id), head(names::PLAN))),
            (Some(_), _) | (None, None) => None,
            (None, Some(tool)) if model_of_tool(tool).is_some() => None,
            (None, Some(tool)) => {
                let mut attributes = head(names::EXECUTE_TOOL);
                attributes.push((names::TOOL_NAME, tool.into()));
                attributes.push((names::TOOL_CALL, format!("{}/{attempt}", node.id).into()));
                if self.has_contents {
                    let params = serde_json::Value::Object(node.params.clone().into_map()).to_string();
                    attributes.push((names::TOOL_ARGUMENTS, bounded(params).into()));
                }
                Some((format!("{} {tool}", names::EXECUTE_TOOL), attributes))
            }
        }
    }

    fn chat(
        &mut self,
        key: &(NodeId, u32),
        call: &ModelCall,
        parent: Option<Place>,
        said: Option<&str>,
    ) -> Span {
        self.chats += 1;
        let model = call.requested.as_deref().unwrap_or(&call.model);
        let mut attributes = vec![
            (names::OPERATION, names::CHAT.into()),
            (names::PROVIDER, call.provider.as_str().into()),
            (names::REQUEST_MODEL, model.into()),
            (names::MODEL, call.model.as_str().into()),
            (names::INPUT_TOKENS, call.input_tokens.into()),
            (names::OUTPUT_TOKENS, call.output_tokens.into()),
            (names::CACHED_TOKENS, call.cached_tokens.into()),
        ];
        let texts = [(names::RESPONSE_MODEL, &call.answered_by), (names::RESPONSE_ID, &call.response_id)];
        attributes.extend(texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?.into()))));
        let counts = [(names::NANO_USD, call.nano_usd), (names::FIRST_PIECE_MS, call.first_piece_ms)];
        attributes.extend(counts.into_iter().filter_map(|(name, count)| Some((name, count?.into()))));
        attributes.extend(self.of_node(key));
        attributes.extend(said.map(|said| (names::OUTPUT_MESSAGES, message("assistant", said))));
        let error = (!call.is_answered()).then(|| call.finish.clone());
        let finish = error.is_none().then(|| Value::Texts(vec![call.finish.clone()]));
        attributes.extend(finish.map(|finish| (names::FINISH_REASONS, finish)));
        attributes.extend(error.clone().map(|error| (names::ERROR_TYPE, error.into())));
        let end = call.ended_at;
        Span {
            place: Place::named(self.run, &[b"chat", &self.chats.to_be_bytes()]),
            parent: Some(parent.unwrap_or(Place::of_run(self.run)).span),
            link: None,
            name: format!("{} {model}", names::CHAT),
            is_client: true,
            start: end.saturating_sub_unsigned(call.took_ms),
            end,
            attributes,
            error,
        }
    }

    fn close(&mut self, outcome: RunOutcome, at: Ticks) -> Vec<Span> {
        let mut spans = Vec::new();
        for (key, open) in std::mem::take(&mut self.open) {
            spans.extend(self.attempt(key, open, at, Some(LOST.to_owned()), None));
        }
        let Some(folded) = self.fold.so_far() else { return spans };
        let (opened, run) = (&folded.opened, &folded.run);
        let mut attributes = self.of_run(opened, run);
        attributes.push((names::OUTCOME, outcome.as_str().into()));
        if self.has_contents {
            attributes.extend(contents(run));
        }
        let is_success = matches!(outcome, RunOutcome::Succeeded | RunOutcome::Concluded);
        let error = (!is_success).then(|| outcome.as_str().to_owned());
        attributes.extend(error.clone().map(|error| (names::ERROR_TYPE, error.into())));
        let of_parent = |parent: &ostler_kernel::event::Parent| {
            Place::of_attempt(parent.run, parent.of.node.as_str(), parent.of.attempt)
        };
        spans.push(Span {
            place: Place::of_run(self.run),
            parent: None,
            link: run.terms().parent.as_ref().map(of_parent),
            name: agent_span(opened),
            is_client: false,
            start: folded.opened_at,
            end: at,
            attributes,
            error,
        });
        spans
    }

    fn of_run(&self, opened: &RunOpened, run: &Run) -> Vec<(&'static str, Value)> {
        let usage = run.model_usage();
        vec![
            (names::OPERATION, names::INVOKE_AGENT.into()),
            (names::PROVIDER, names::OSTLER.into()),
            (names::AGENT_NAME, opened.agent.as_str().into()),
            (names::CONVERSATION, self.run.to_string().into()),
            (names::RUN, self.run.to_string().into()),
            (names::PLAN_ID, run.plan().id.as_str().into()),
            (names::CLIENT, opened.client.as_str().into()),
            (names::RECOVERIES, self.recoveries.into()),
            (names::INPUT_TOKENS, usage.input_tokens.into()),
            (names::OUTPUT_TOKENS, usage.output_tokens.into()),
            (names::NANO_USD, usage.nano_usd.into()),
        ]
    }

    /// Attributes of the node of an attempt.
    fn of_node(&self, (node, attempt): &(NodeId, u32)) -> Vec<(&'static str, Value)> {
        let mut attributes = vec![
            (names::RUN, self.run.to_string().into()),
            (names::NODE, node.as_str().into()),
            (names::ATTEMPT, u64::from(*attempt).into()),
        ];
        attributes.extend(self.role(node).map(|role| (names::ROLE, role.as_str().into())));
        attributes
    }

    fn node(&self, node: &NodeId) -> Option<&Node> {
        self.fold.so_far()?.run.node(node)
    }

    fn role(&self, node: &NodeId) -> Option<Role> {
        self.fold.so_far()?.run.goal()?.role(node)
    }
}

/// A run without a named agent has one of its own id, which would be a name for each run.
fn agent_span(opened: &RunOpened) -> String {
    if opened.agent.as_str() == opened.run.to_string() {
        return names::INVOKE_AGENT.to_owned();
    }
    format!("{} {}", names::INVOKE_AGENT, opened.agent)
}

/// Goal and answer of a goal run.
fn contents(run: &Run) -> Vec<(&'static str, Value)> {
    let Some(view) = View::of(run, 0) else { return Vec::new() };
    let goal = run.goal().map(|goal| (names::INPUT_MESSAGES, message("user", &goal.terms().goal)));
    let answer =
        view.final_answer().map(|answer| (names::OUTPUT_MESSAGES, message("assistant", &answer.answer)));
    goal.into_iter().chain(answer).collect()
}

/// A message in the form of the conventions.
fn message(role: &str, text: &str) -> Value {
    let text = bounded(text.to_owned());
    json!([{"role": role, "parts": [{"type": "text", "content": text}]}]).to_string().into()
}

fn bounded(mut text: String) -> String {
    text.truncate(beginning(&text, CONTENT_BYTES_MAX).len());
    text
}
