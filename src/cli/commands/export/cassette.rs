//! Calls of models with their answers, as another run can replay them.

use std::path::Path;

use ostler_drivers::model::{AnsweredCall, cassette};
use ostler_kernel::port::Usage;
use ostler_server::wire::{ModelExchange, ModelExchanges};
use serde_json::json;

use super::{ExportArgs, write};
use crate::cli::arguments::Globals;
use crate::cli::exit::{Failure, code};
use crate::cli::output::hints;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::units::plural;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::{AccessMode, Session};

pub(super) async fn export(globals: &Globals, args: ExportArgs) -> Result<u8, Failure> {
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let path = format!("/v1/runs/{}/model-exchanges", path_segment(&args.run));
    let found = session.get(&path).await;
    session.stop().await;
    let ModelExchanges { exchanges, left_out } = found?;
    if exchanges.is_empty() {
        left_out.iter().for_each(|what| status_line(format!("not exported: {what}")));
        let why = if left_out.is_empty() { "it called no model" } else { "no call of it can be exported" };
        let what = format!("run {}: {why}, so there is no cassette to write", args.run);
        let other = hints::command("export", &[&args.run], "--format prov-json");
        return Err(Failure::invalid(format!("{what}; `{other}` exports what led to its results")));
    }
    let lines = lines(&exchanges)?;
    let mut out = Out::new();
    let text = lines.join("\n") + "\n";
    match &args.cassette {
        Some(file) => write("--cassette", file, &text)?,
        None => out.json_text(&text),
    }
    left_out.iter().for_each(|what| status_line(format!("not exported: {what}")));
    let calls = exchanges.len();
    match args.cassette {
        Some(file) if globals.json => {
            out.json(&json!({"type": "export", "file": file, "calls": calls, "left_out": left_out}));
        }
        Some(file) => out.line(format!("{} of models written to {}", plural(calls, "call"), file.display())),
        None => {}
    }
    Ok(code::SUCCEEDED)
}

fn lines(exchanges: &[ModelExchange]) -> Result<Vec<String>, Failure> {
    let answered = exchanges.iter().map(|exchange| {
        let call = &exchange.call;
        AnsweredCall {
            params: exchange.params.clone(),
            result: exchange.result.clone(),
            finish: call.finish.clone(),
            model: call.answered_by.clone(),
            response_id: call.response_id.clone(),
            usage: Usage {
                input: Some(call.input_tokens),
                output: Some(call.output_tokens),
                cache_read: Some(call.cached_tokens),
                ..Usage::default()
            },
        }
    });
    cassette(&answered.collect::<Vec<_>>()).map_err(|(at, problem)| {
        let ModelExchange { node, attempt, .. } = &exchanges[at];
        Failure::internal(format!("{node}, attempt {attempt}: {problem}"))
    })
}
