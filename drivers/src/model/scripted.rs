//! A model that answers from a script.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_kernel::plan::HumanDuration;
use ostler_kernel::port::{
    BoxFuture, Completion, Delta, Finish, Model, ModelError, ModelErrorClass, ModelRequest, ToolCall, Usage,
};
use ostler_kernel::template::{RenderError, render};
use ostler_kernel::text::{TOKEN_BYTES, beginning};
use serde_json::Value;

use super::script::{Answer, Script, template_values};
use super::tokens::{completion_bytes, estimate_tokens, request_bytes};

/// Maximum pieces of a text; a longer text comes in larger pieces.
const PIECES_MAX: usize = 64;

/// Answers from a script: by rule, else by role and ordinal. The same request gets the same answer each time.
#[derive(Debug)]
pub(super) struct ScriptedModel {
    file: PathBuf,
    script: Script,
}

impl ScriptedModel {
    /// The model, and the bytes of its script.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no script.
    pub(super) fn open(file: &Path) -> Result<(ScriptedModel, Vec<u8>), String> {
        let (script, bytes) = Script::read(file)?;
        Ok((ScriptedModel { file: file.to_owned(), script }, bytes))
    }

    async fn answer(
        &self,
        request: ModelRequest,
        delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Completion, ModelError> {
        if let Some(failures) = self.script.fails(&request.origin) {
            wait(self.script.latency).await;
            return Err(failed(failures.fail.0, "a random failure of the script".to_owned(), None));
        }
        let answer = self.script.answer(&request).map_err(|problem| {
            let message = format!("script {}: {problem}", self.file.display());
            failed(ModelErrorClass::InvalidRequest, message, None)
        })?;
        let latency = answer.latency.or(self.script.latency);
        if let Some(class) = &answer.fail {
            wait(latency).await;
            return Err(failed(class.0, answer.message.clone().unwrap_or_default(), answer.retry_after));
        }
        let completion = completion(answer, &request).map_err(|error| {
            let message = format!("script {}: {error}", self.file.display());
            failed(ModelErrorClass::InvalidRequest, message, None)
        })?;
        show(&completion, latency, delta).await;
        Ok(completion)
    }
}

impl Model for ScriptedModel {
    fn call<'a>(
        &'a self,
        request: ModelRequest,
        delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(self.answer(request, delta))
    }
}

fn failed(class: ModelErrorClass, message: String, retry_after_s: Option<f64>) -> ModelError {
    ModelError { class, status: None, message, retry_after_s, is_unsent: false }
}

fn completion(answer: &Answer, request: &ModelRequest) -> Result<Completion, RenderError> {
    let text = match (&answer.text, &answer.answer, &answer.template) {
        (Some(text), ..) => text.clone(),
        (None, Some(value), _) => value.to_string(),
        (None, None, Some(template)) => render(template, &template_values(request))?,
        (None, None, None) => String::new(),
    };
    let tool_calls = answer.calls.iter().enumerate().map(|(at, call)| ToolCall {
        id: Some(format!("call_{at}")),
        name: call.tool.clone(),
        arguments: Ok(call.params.clone()),
    });
    let usual = if answer.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    let mut completion = Completion {
        next_call_s: None,
        text,
        reasoning: answer.reasoning.clone().unwrap_or_default(),
        tool_calls: tool_calls.collect(),
        finish: answer.finish.as_ref().map_or(usual, |finish| finish.0),
        refusal: None,
        usage: Usage::default(),
        model: Some("scripted".to_owned()),
        response_id: None,
        provider_data: None,
    };
    let told = answer.tokens;
    completion.usage = Usage {
        input: told.and_then(|told| told.input).or(Some(estimate_tokens(request_bytes(request)))),
        output: told.and_then(|told| told.output).or(Some(estimate_tokens(completion_bytes(&completion)))),
        cache_read: told.and_then(|told| told.cache_read),
        ..Usage::default()
    };
    cut(&mut completion, request.sampling.max_output_tokens);
    Ok(completion)
}

/// Ends the answer where the request does, as a provider would.
fn cut(completion: &mut Completion, max_output_tokens: Option<u32>) {
    let Some(most) = max_output_tokens.map(u64::from) else { return };
    if completion.usage.output.is_some_and(|tokens| tokens > most) {
        let bytes = usize::try_from(most.saturating_mul(TOKEN_BYTES)).unwrap_or(usize::MAX);
        completion.text.truncate(beginning(&completion.text, bytes).len());
        completion.finish = Finish::Length;
        completion.usage.output = Some(most);
    }
}

/// Shows the answer in pieces, the latency spread over them.
async fn show(
    completion: &Completion,
    latency: Option<HumanDuration>,
    delta: &mut (dyn FnMut(Delta) + Send),
) {
    if !completion.reasoning.is_empty() {
        delta(Delta::Reasoning(completion.reasoning.clone()));
    }
    let pieces = pieces(&completion.text);
    let each = duration(latency) / u32::try_from(pieces.len().max(1)).unwrap_or(u32::MAX);
    // Each timer ends a little late; counted from the beginning, that does not add up.
    let mut due = tokio::time::Instant::now() + each;
    if pieces.is_empty() {
        tokio::time::sleep_until(due).await;
    }
    for piece in pieces {
        tokio::time::sleep_until(due).await;
        delta(Delta::Text(piece));
        due += each;
    }
    for (at, call) in completion.tool_calls.iter().enumerate() {
        delta(Delta::Call { at, name: call.name.clone() });
        if let Ok(arguments) = &call.arguments {
            delta(Delta::Arguments { at, text: Value::Object(arguments.clone()).to_string() });
        }
    }
}

/// The words of a text with the space behind them, several in a piece if the text is long.
fn pieces(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(char::is_whitespace).collect();
    words.chunks(words.len().div_ceil(PIECES_MAX).max(1)).map(<[&str]>::concat).collect()
}

async fn wait(latency: Option<HumanDuration>) {
    tokio::time::sleep(duration(latency)).await;
}

fn duration(latency: Option<HumanDuration>) -> Duration {
    let ms = latency.map_or(0, |latency| latency.ticks(1_000));
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
