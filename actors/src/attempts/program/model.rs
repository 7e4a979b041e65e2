//! Calls of language models by a program.

use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::plan::{MODEL_TIMEOUT_MS, model_tool};
use ostler_kernel::port::{CallContext, CallOrigin};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::call_log::CallLog;
use super::context::ProgramContext;
use super::step::{Step, StepError};
use crate::base::attempt_end::structural;

/// A request to a model, from messages or from a single text.
#[derive(Debug, Clone, PartialEq)]
pub struct Chat {
    params: Map<String, Value>,
}

impl Chat {
    /// A conversation of one message of the user.
    pub fn user(text: impl Into<String>) -> Chat {
        let messages = json!([{"role": "user", "content": text.into()}]);
        Chat { params: Map::from_iter([("messages".to_owned(), messages)]) }
    }

    /// Adds a text of the user.
    pub fn and_user(self, text: impl Into<String>) -> Chat {
        self.message(json!({"role": "user", "content": text.into()}))
    }

    /// Adds an answer that [`ProgramModel::chat`] returned, with its calls and the opaque data of its provider: some
    /// providers refuse the next turn of a conversation without them.
    pub fn answer(self, answer: &Value) -> Chat {
        let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
        let content = answer["text"].as_str().unwrap_or_default();
        message.insert("content".to_owned(), content.into());
        for name in ["calls", "provider_data"] {
            message.extend(answer.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        self.message(Value::Object(message))
    }

    /// Adds the result of `call`, one of the `calls` of the answer before.
    pub fn result(self, call: &Value, result: impl Into<String>) -> Chat {
        let mut message = json!({"role": "tool", "tool": call["tool"], "content": result.into()});
        if let Some(id) = call.get("id") {
            message["call"] = id.clone();
        }
        self.message(message)
    }

    fn message(mut self, message: Value) -> Chat {
        if let Some(Value::Array(messages)) = self.params.get_mut("messages") {
            messages.push(message);
        }
        self
    }

    /// Sets the instructions.
    pub fn system(self, text: impl Into<String>) -> Chat {
        self.with("system", json!(text.into()))
    }

    /// Asks for a value of this JSON Schema instead of a text.
    pub fn schema(self, schema: Value) -> Chat {
        self.with("schema", schema)
    }

    /// Sets a parameter of the tool `model.NAME`, such as `temperature`.
    pub fn with(mut self, name: &str, value: Value) -> Chat {
        self.params.insert(name.to_owned(), value);
        self
    }
}

impl From<&str> for Chat {
    fn from(text: &str) -> Chat {
        Chat::user(text)
    }
}

impl From<String> for Chat {
    fn from(text: String) -> Chat {
        Chat::user(text)
    }
}

/// A configured model, as a program calls it. Every call passes the gate: the scope of the run decides which models it may call.
#[derive(Clone)]
pub struct ProgramModel {
    context: ProgramContext,
    tool: String,
}

impl ProgramModel {
    pub(super) fn new(context: ProgramContext, model: &str) -> ProgramModel {
        ProgramModel { context, tool: model_tool(model) }
    }

    /// Calls the model as a step, and returns the text of its answer. A later attempt gets the recorded answer. Dropping the future
    /// ends the call; the next attempt makes it again.
    ///
    /// # Errors
    ///
    /// See [`ProgramContext::step`].
    pub async fn text(&self, step: &str, chat: impl Into<Chat>) -> Result<String, StepError> {
        let answer: Value = self.chat(step, chat).await?;
        Ok(answer["text"].as_str().unwrap_or_default().to_owned())
    }

    /// Calls the model as a step, and returns its answer: `{text}`, or with [`Chat::schema`] a value of the schema. A later
    /// attempt gets the recorded answer. Dropping the future ends the call; the next attempt makes it again.
    ///
    /// # Errors
    ///
    /// See [`ProgramContext::step`].
    pub async fn chat<T>(&self, step: &str, chat: impl Into<Chat>) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
    {
        let params = chat.into().params;
        let input = json!({"tool": self.tool, "params": params});
        let (context, tool, id) = (self.context.clone(), self.tool.clone(), step.to_owned());
        let call = || async move {
            let answer = context.call(&tool, &id, params).await?;
            serde_json::from_value(answer)
                .map_err(|error| structural(format!("the answer of the model: {error}")))
        };
        self.context.step(Step::new(step).input(&input), call).await
    }
}

impl ProgramContext {
    /// A configured model.
    pub fn model(&self, name: &str) -> ProgramModel {
        ProgramModel::new(self.clone(), name)
    }

    async fn call(&self, tool: &str, step: &str, params: Map<String, Value>) -> Result<Value, Failure> {
        let key = self.idempotency_key(step);
        let (called, permit) = self.log().permit(tool, params.clone().into(), key).await?;
        let log = Arc::new(CallLog::new(self.log()));
        let context = CallContext {
            workspace: Arc::from(self.workspace()),
            timeout_ms: MODEL_TIMEOUT_MS.unsigned_abs(),
            repeatable: true,
            origin: CallOrigin { role: "executor".to_owned(), node: None, ordinal: 1, refusals: 0 },
            attempt: Arc::<CallLog>::clone(&log),
            recorded: None,
            turn: None,
        };
        let answer = called.call(permit, context).await?;
        log.answered(&params, &answer);
        Ok(answer)
    }
}
