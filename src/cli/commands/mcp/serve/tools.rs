//! The tools of the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::ETAG;
use ostler::plan_file::{Format, PlanFile};
use ostler_actors::new_run_id;
use ostler_kernel::id::CLIENT_DEFAULT;
use ostler_kernel::run::NodeState;
use ostler_server::wire::{
    AnswerRequest, ApprovalList, Decision, RunList, RunRef, SubmitRequest, Summary, Waiting,
};
use rmcp::model::Tool;
use serde::de::DeserializeOwned;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{Served, TEXT_BYTES_MAX};
use crate::cli::arguments::plan;
use crate::cli::exit::Failure;
use crate::cli::output::hints;
use crate::cli::session::api_client::{ApiError, Client, path_segment, read_body};

pub(super) const INSTRUCTIONS: &str = "Runs plans: graphs of work that are gated, journaled, and survive a crash. Submit a plan with \
     submit_plan, wait for it with wait_for_run, and read results with read_artifact.";

/// Longest wait of one call, in seconds.
const WAIT_S_MAX: u64 = 300;

const POLL: Duration = Duration::from_millis(200);

/// A call of a tool with its arguments.
pub(super) enum Call {
    Submit(Submit),
    Runs,
    Run(Named),
    Wait(Wait),
    Cancel(Named),
    Approvals,
    Answer(AnswerArguments),
    Artifact(Artifact),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submit {
    plan: Value,
    #[serde(default)]
    intent: Option<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    run: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    run: String,
    #[serde(default)]
    seconds: Option<u64>,
    /// Receiver of the progress, if the client asked for progress.
    #[serde(skip)]
    told: Option<watch::Sender<Progress>>,
}

/// Progress of a run: number of ended nodes, and of all nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Progress {
    pub(super) ended: usize,
    pub(super) nodes: usize,
}

impl Progress {
    fn of(summary: &Summary) -> Progress {
        let has_ended = |state: &&String| {
            NodeState::deserialize(StrDeserializer::<Error>::new(state)).is_ok_and(NodeState::is_terminal)
        };
        Progress { ended: summary.nodes.values().filter(has_ended).count(), nodes: summary.nodes.len() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerArguments {
    approval: String,
    digest: String,
    decision: Decision,
    #[serde(default)]
    note: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Artifact {
    run: String,
    node: String,
    #[serde(default)]
    offset: usize,
}

impl Call {
    /// Returns the call with a channel for its progress, which only `Wait` uses.
    pub(super) fn telling(mut self, told: watch::Sender<Progress>) -> Call {
        if let Call::Wait(wait) = &mut self {
            wait.told = Some(told);
        }
        self
    }

    /// Reads the arguments; `None` for an unknown tool.
    pub(super) fn of(tool: &str, arguments: Value, approvals: bool) -> Option<Result<Call, String>> {
        fn read<T: for<'de> Deserialize<'de>>(
            arguments: Value,
            call: impl FnOnce(T) -> Call,
        ) -> Result<Call, String> {
            serde_json::from_value(arguments).map(call).map_err(|error| format!("arguments: {error}"))
        }
        Some(match tool {
            "submit_plan" => read(arguments, Call::Submit),
            "list_runs" => read(arguments, |_: NoArguments| Call::Runs),
            "show_run" => read(arguments, Call::Run),
            "wait_for_run" => read(arguments, Call::Wait),
            "cancel_run" => read(arguments, Call::Cancel),
            "list_approvals" => read(arguments, |_: NoArguments| Call::Approvals),
            "answer_approval" if approvals => read(arguments, Call::Answer),
            "read_artifact" => read(arguments, Call::Artifact),
            _ => return None,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// Definitions of the tools, for `tools/list`.
pub(super) fn listed(approvals: bool) -> Vec<Tool> {
    let run = || json!({"type": "string", "description": "Id of the run, a part of it, or @last"});
    let mut tools = vec![
        tool(
            "submit_plan",
            "Start a run of a plan. Returns the id of the run at once.",
            &["plan"],
            json!({
                "plan": {"type": ["object", "string"], "additionalProperties": true, "description": "The plan: an object with `id` and `nodes`, or its YAML"},
                "intent": {"type": "integer", "minimum": 0, "maximum": 2, "description": "Highest impact of its calls: 0 observe, 1 operate, 2 control; at most what the server allows"},
            }),
            Hint::Acts,
        ),
        tool("list_runs", "List the runs, newest first.", &[], json!({}), Hint::Reads),
        tool(
            "show_run",
            "Show the state of a run and of its nodes.",
            &["run"],
            json!({"run": run()}),
            Hint::Reads,
        ),
        tool(
            "wait_for_run",
            "Wait until a run ends or waits for a person, at most some seconds, and show it.",
            &["run"],
            json!({"run": run(), "seconds": {"type": "integer", "minimum": 0, "maximum": WAIT_S_MAX}}),
            Hint::Reads,
        ),
        tool("cancel_run", "Cancel a run.", &["run"], json!({"run": run()}), Hint::Destroys),
        tool("list_approvals", "List the questions that wait for a person.", &[], json!({}), Hint::Reads),
        tool(
            "read_artifact",
            "Read the result of a node as text, from an offset in bytes.",
            &["run", "node"],
            json!({"run": run(), "node": {"type": "string"}, "offset": {"type": "integer", "minimum": 0}}),
            Hint::Reads,
        ),
    ];
    if approvals {
        tools.push(tool(
            "answer_approval",
            "Answer a question of list_approvals for the content that its digest names.",
            &["approval", "digest", "decision"],
            json!({
                "approval": {"type": "string"}, "digest": {"type": "string"},
                "decision": {"enum": ["approve", "reject"]}, "note": {"type": "string"},
            }),
            Hint::Destroys,
        ));
    }
    tools
}

enum Hint {
    Reads,
    Acts,
    Destroys,
}

fn tool(name: &str, description: &str, required: &[&str], properties: Value, hint: Hint) -> Tool {
    let annotations = match hint {
        Hint::Reads => json!({"readOnlyHint": true, "openWorldHint": false}),
        Hint::Acts => json!({"readOnlyHint": false, "destructiveHint": false}),
        Hint::Destroys => json!({"readOnlyHint": false, "destructiveHint": true}),
    };
    let schema = json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false});
    let tool =
        json!({"name": name, "description": description, "inputSchema": schema, "annotations": annotations});
    serde_json::from_value(tool).expect("it has the form of a tool")
}

impl Served {
    pub(super) async fn answer(&self, call: Call) -> Result<Value, Failure> {
        match call {
            Call::Submit(submit) => self.submit(submit).await,
            Call::Runs => {
                let list: RunList = self.get("/v1/runs").await?;
                Ok(json!(list))
            }
            Call::Run(Named { run }) => Ok(json!(self.summary(&run).await?)),
            Call::Wait(wait) => self.wait(wait).await,
            Call::Cancel(Named { run }) => {
                let path = format!("/v1/runs/{}/cancel", path_segment(&run));
                let cancelled: RunRef = self.post(true, &path, &Map::new()).await?;
                Ok(json!(cancelled))
            }
            Call::Approvals => {
                let list: ApprovalList = self.get("/v1/approvals").await?;
                Ok(json!(list))
            }
            Call::Answer(AnswerArguments { approval, digest, decision, note }) => {
                let path = format!("/v1/approvals/{}", path_segment(&approval));
                let request = AnswerRequest { decision, digest, note, raise: None, also: None };
                let answered: RunRef = self.post(false, &path, &request).await?;
                Ok(json!(answered))
            }
            Call::Artifact(artifact) => self.artifact(artifact).await,
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.session.with_retry(true, async |client| client.get(path).await).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        idempotent: bool,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.session.with_retry(idempotent, async |client| client.post(path, body).await).await
    }

    async fn summary(&self, run: &str) -> Result<Summary, ApiError> {
        let summary: Summary = self.get(&format!("/v1/runs/{}", path_segment(run))).await?;
        hints::know_model(&summary.run, summary.model_file.as_deref());
        Ok(summary)
    }

    async fn submit(&self, Submit { plan, intent }: Submit) -> Result<Value, Failure> {
        let text = match plan {
            Value::String(text) => text,
            plan => plan.to_string(),
        };
        let file = PlanFile::parse("plan", Format::Yaml, &text, &Default::default());
        let (plan, _) = plan::judge(&file, &self.config).map_err(|findings| {
            let shown: Vec<String> = findings
                .iter()
                .map(|finding| {
                    let help = Some(&finding.help).filter(|help| !help.is_empty());
                    let help = help.map(|help| format!("; {help}")).unwrap_or_default();
                    format!("{}: {}{help}", finding.code, finding.detail)
                })
                .collect();
            Failure::invalid(shown.join("\n"))
        })?;
        let draft = file.draft().expect("a valid plan was read as a whole");
        let intent = intent.unwrap_or(self.intent);
        if intent > self.intent {
            let most = self.intent;
            return Err(Failure::invalid(format!(
                "intent {intent} is above {most}, the most that this server allows"
            )));
        }
        let request = SubmitRequest {
            plan: Arc::new(plan),
            client: CLIENT_DEFAULT.to_owned(),
            agent: None,
            budget: None,
            usd: None,
            tokens: None,
            over_budget: Default::default(),
            intent: Some(intent),
            scope: self.scope.clone(),
            workspace: self.workspace.clone(),
            run: Some(new_run_id().to_string()),
            // A calling agent expects the present answers of the tools, not recorded ones.
            reuse: false,
            fresh: Vec::new(),
        };
        // Its id makes the request idempotent.
        let submitted = self.session.with_retry(true, async |client| client.submit(&request, draft).await);
        Ok(json!(submitted.await?))
    }

    async fn wait(&self, Wait { run, seconds, told }: Wait) -> Result<Value, Failure> {
        let (since, most) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(60).min(WAIT_S_MAX)));
        loop {
            let summary = self.summary(&run).await?;
            let asks = summary.waiting.iter().any(|waiting: &Waiting| waiting.id.is_some());
            if let Some(told) = &told {
                let now = Progress::of(&summary);
                told.send_if_modified(|last| std::mem::replace(last, now) != now);
            }
            if summary.status.is_over() || asks || since.elapsed() >= most {
                return Ok(json!(summary));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn artifact(&self, Artifact { run, node, offset }: Artifact) -> Result<Value, Failure> {
        let place = format!("/v1/runs/{}/nodes/{}/artifact", path_segment(&run), path_segment(&node));
        let read = async |client: &Client| {
            let (head, body) = client.request(Method::GET, &place, "*/*", None).await?.into_parts();
            Ok((head.headers, read_body(body).await?))
        };
        let (headers, content) = self.session.with_retry(true, read).await?;
        let digest = headers.get(ETAG).and_then(|digest| digest.to_str().ok()).unwrap_or_default();
        let rest = content.get(offset..).unwrap_or_default();
        let mut part = &rest[..rest.len().min(TEXT_BYTES_MAX)];
        // A character that the limit cuts belongs to the next part.
        if part.len() < rest.len()
            && let Err(error) = std::str::from_utf8(part)
            && error.error_len().is_none()
        {
            part = &part[..error.valid_up_to()];
        }
        let next = (part.len() < rest.len()).then_some(offset + part.len());
        Ok(json!({
            "text": String::from_utf8_lossy(part), "digest": digest.trim_matches('"'), "bytes": content.len(),
            "next_offset": next,
        }))
    }
}
