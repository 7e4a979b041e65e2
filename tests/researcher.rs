//! The example of an agent that calls a model.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "../examples/researcher.rs"]
#[allow(dead_code, reason = "its own main")]
mod example;

use std::path::Path;
use std::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_asks_a_model_and_every_call_is_billed_once() {
    let data = tempfile::tempdir().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let said = example::research(data.path(), folder, "Ostler").await.unwrap();
    assert_eq!(said, "A free tool for people who run agents.");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    let shown =
        command.args(["show", "@last", "--format", "json", "--data"]).arg(data.path()).output().unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(summary["models"]["calls"], 4, "{summary}");
}
