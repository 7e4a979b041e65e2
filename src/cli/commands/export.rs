//! `ostler export`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ostler_drivers::model::{AnsweredCall, cassette};
use ostler_kernel::port::Usage;
use ostler_server::wire::{ModelExchange, ModelExchanges};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::run_name;
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::units::plural;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Calls of models with their answers
    Cassette,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Output format
    #[arg(long, value_enum, default_value = "cassette")]
    format: Format,
    /// Write to this new file, instead of standard output
    #[arg(long, value_name = "FILE")]
    cassette: Option<PathBuf>,
}

pub(crate) async fn export(globals: &Globals, args: ExportArgs) -> Result<u8, Failure> {
    let Format::Cassette = args.format;
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let path = format!("/v1/runs/{}/model-exchanges", path_segment(&args.run));
    let found = session.get(&path).await;
    session.stop().await;
    let ModelExchanges { exchanges, left_out } = found?;
    if exchanges.is_empty() {
        left_out.iter().for_each(|what| status_line(format!("not exported: {what}")));
        let why = if left_out.is_empty() { "it called no model" } else { "no call of it can be exported" };
        return Err(Failure::invalid(format!("run {}: {why}, so there is no cassette to write", args.run)));
    }
    let lines = lines(&exchanges)?;
    let mut out = Out::new();
    let text = lines.join("\n") + "\n";
    match &args.cassette {
        Some(file) => write(file, &text)?,
        None => out.raw(text.as_bytes()),
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

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let what = match error.kind() {
            ErrorKind::AlreadyExists => "exists; remove it, or name another file".to_owned(),
            _ => error.to_string(),
        };
        Failure::invalid(format!("--cassette {}: {what}", file.display()))
    };
    let mut opened = OpenOptions::new().write(true).create_new(true).open(file).map_err(failed)?;
    opened.write_all(text.as_bytes()).map_err(failed)
}
