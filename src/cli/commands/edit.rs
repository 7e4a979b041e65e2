//! `ostler edit`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ostler_drivers::regular_file::read_text;
use ostler_server::wire::{EditRequest, StaleEdit};
use serde_json::{Value, json};

use super::earlier_edits::EarlierEdits;
use super::rerun::{open_and_watch, print_invoice};
use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{node_name, run_name};
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::exit::Failure;
use crate::cli::session::api_client::path_segment;

/// Longest new content in bytes.
const CONTENT_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The node
    #[arg(value_parser = node_name)]
    node: String,
    /// File with the new result, as JSON; with --text, a text that becomes the field of this name
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// The file is a text: the new result is {FIELD: text}
    #[arg(long, value_name = "FIELD", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    text: Option<String>,
    /// Refuse the edit if the digest of the result no longer begins so
    #[arg(long, value_name = "DIGEST")]
    if_digest: Option<String>,
    /// Fate of the edit in later runs, after a change of the inputs of the node
    #[arg(long, value_name = "POLICY", default_value = "ask")]
    stale: Stale,
    #[command(flatten)]
    earlier: EarlierEdits,
    /// Print what would be executed, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    metrics: MetricsOption,
}

impl EditArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.dry_run
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stale {
    /// The run that may change them asks first
    Ask,
    /// The edit stays, and is reported as stale
    Keep,
    /// The edit is dropped, and the node executed
    Recompute,
}

impl From<Stale> for StaleEdit {
    fn from(stale: Stale) -> StaleEdit {
        match stale {
            Stale::Ask => StaleEdit::Ask,
            Stale::Keep => StaleEdit::Keep,
            Stale::Recompute => StaleEdit::Recompute,
        }
    }
}

pub(crate) async fn edit(globals: &Globals, args: EditArgs) -> Result<u8, Failure> {
    let globals = &args.model.add_to(globals)?;
    let value = content(&args.file, args.text.as_deref())?;
    let node = format!("/v1/runs/{}/nodes/{}", path_segment(&args.run), path_segment(&args.node));
    let (stale, earlier_edits) = (args.stale.into(), args.earlier.into());
    let request = EditRequest { value, if_digest: args.if_digest, stale, earlier_edits };
    if args.dry_run {
        return print_invoice(globals, &format!("{node}/invoice"), &request).await;
    }
    open_and_watch(globals, &format!("{node}/edit"), request, args.watch, args.metrics).await
}

fn content(file: &Path, field: Option<&str>) -> Result<Value, Failure> {
    let text = read_text(file, CONTENT_BYTES_MAX)
        .map_err(|error| Failure::invalid(format!("{}: {error}", file.display())))?;
    if let Some(field) = field {
        return Ok(json!({ field: text.strip_suffix('\n').unwrap_or(&text) }));
    }
    ostler_kernel::json::parse_value(&text).map_err(|error| {
        Failure::invalid(format!("{}: {error}; with --text the file may be any text", file.display()))
    })
}
