//! An agent that thinks: a program that asks a model for questions, answers them one by one, and sums up. Every answer of the
//! model is a step, so a killed process asks nothing twice.
//!
//! ```console
//! $ cargo run --example researcher
//! A free tool for people who run agents.
//! ```
//!
//! The model is a script, so no key is needed: `[models.default]` in the configuration below names it. `ostler show @last`
//! shows the run, its calls and their tokens.
#![allow(clippy::print_stdout, reason = "a program that shows what happens")]

use std::error::Error;
use std::path::Path;

use ostler::config::Config;
use ostler::kernel::event::Failure;
use ostler::{Chat, Ostler, Program, ProgramContext, Submission};
use serde::{Deserialize, Serialize};
use serde_json::json;

const CONFIG: &str = r#"
[models.default]
provider = "scripted"
file = "examples/models/researcher.yaml"
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", research(Path::new(".ostler"), Path::new("."), "Ostler").await?);
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Topic {
    topic: String,
}

#[derive(Serialize, Deserialize)]
struct Questions {
    questions: Vec<String>,
}

/// The agent.
async fn researcher(agent: ProgramContext, Topic { topic }: Topic) -> Result<String, Failure> {
    let model = agent.model("default");
    let schema = json!({"type": "object", "required": ["questions"], "additionalProperties": false, "properties": {
        "questions": {"type": "array", "items": {"type": "string"}, "maxItems": 2}}});
    let ask = format!("Which two questions about {topic} matter most?");
    let Questions { questions } = model.chat("questions", Chat::user(ask).schema(schema)).await?;
    let mut notes = String::new();
    for (number, question) in questions.iter().enumerate() {
        notes += &model.text(&format!("answer {number}"), question.as_str()).await?;
        notes.push('\n');
    }
    Ok(model.text("summary", format!("Write one sentence from these notes:\n{notes}")).await?)
}

/// Starts a system, runs the agent, and returns its result.
pub(crate) async fn research(data: &Path, folder: &Path, topic: &str) -> Result<String, Box<dyn Error>> {
    let config = Config { folder: folder.to_owned(), ..Config::parse("researcher.toml", CONFIG)? };
    let program = Program::new("researcher", "1", researcher)
        .input(json!({"type": "object", "properties": {"topic": {"type": "string"}}}))
        .output(json!({"type": "string"}));
    let os = Ostler::builder().data_dir(data).config(config).program(program).start().await?;
    let call = os.call("researcher", json!({"topic": topic}))?;
    let run = os.submit(Submission { workspace: folder.to_owned(), ..call }).await?;
    run.outcome().await?;
    let text = run.output::<String>("call").await?;
    os.shutdown().await;
    Ok(text)
}
