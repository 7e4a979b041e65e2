//! `ostler events`.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Instant;

use clap::Args;
use ostler_kernel::run::{RunStatus, WaitReason};
use ostler_server::wire::{EventLine, Summary, TextRow};
use serde_json::Value;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::{positive_integer, run_name};
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{fit, fit_name, padded};
use crate::cli::output::hints::with_location;
use crate::cli::output::live::{Pace, View, Writing};
use crate::cli::output::terminal::{Out, reader_gone, status_line};
use crate::cli::output::units::clock_time;
use crate::cli::output::{credits, hints, screen};
use crate::cli::session::api_client::path_segment;
use crate::cli::session::follow::{
    Display, FollowMode, JsonLines, connection_lost, follow_until, stream_events,
};
use crate::cli::session::signals::begin;
use crate::cli::session::text_reader::TextReader;
use crate::cli::session::{AccessMode, Session, report};

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Continue until the run is closed
    #[arg(short, long)]
    follow: bool,
    /// First record to print
    #[arg(long, value_name = "SEQ", default_value = "1", allow_negative_numbers = true, value_parser = positive_integer)]
    from: NonZeroU64,
}

#[derive(Default)]
struct Table {
    /// Tool or kind of each node, from the plan records shown so far.
    executors: BTreeMap<String, String>,
    text: Option<TextBelow>,
}

/// What models write, on a terminal below the last record.
#[derive(Default)]
struct TextBelow {
    writing: Writing,
    pace: Pace,
}

/// Lines of [`TextBelow`].
const TEXT_ROWS: usize = 8;

impl TextBelow {
    fn new() -> TextBelow {
        begin();
        TextBelow::default()
    }

    /// Makes room for a record.
    fn clear(&mut self) {
        screen::close();
        screen::open();
    }

    fn draw(&mut self, out: &Out) {
        self.pace.drawn();
        let size = out.size();
        // Below half of the window nothing uses the other screen, where records would be lost.
        let lines = self.writing.lines(size.0, TEXT_ROWS.min(size.1 / 2), out.has_colour());
        match lines.len() {
            0 => self.clear(),
            rows => screen::show(lines, rows, size),
        }
    }
}

impl Drop for TextBelow {
    fn drop(&mut self) {
        screen::close();
    }
}

impl Table {
    /// Adds the nodes of a plan, or those that a new version changes.
    fn add_nodes(&mut self, nodes: &Value) {
        for node in nodes.as_array().into_iter().flatten() {
            let executors = node["tool"].as_str().or(node["kind"].as_str());
            if let (Some(id), Some(executors)) = (node["id"].as_str(), executors) {
                self.executors.insert(id.to_owned(), executors.to_owned());
            }
        }
    }
}

/// Cells of the column of nodes.
const NODE_COLUMNS: usize = 20;

impl View for Table {
    fn record(&mut self, line: &EventLine, out: &mut Out) {
        self.add_nodes(&line.body["plan"]["nodes"]);
        self.add_nodes(&line.body["revision"]["nodes"]);
        let node = line.body["node"].as_str().unwrap_or_default();
        let detail = match line.kind.as_str() {
            "node_transition" => {
                let word = |key: &str| line.body[key].as_str().unwrap_or_default().to_owned();
                format!("{} -> {}  {}", word("from"), word("to"), word("reason"))
            }
            // The identity and its inputs are only of use to programs.
            "attempt_intent" => {
                let executors = self.executors.get(node).map(|executors| format!(", {executors}"));
                format!("attempt {}{}", line.body["attempt"], executors.unwrap_or_default())
            }
            "gate_verdict" => {
                let word = |key: &str| line.body[key].as_str().unwrap_or_default();
                format!("{} {}, {}", word("answer"), word("code"), word("tool"))
            }
            "attempt_result" | "late_result" => {
                let outcome = &line.body["outcome"];
                match outcome["failed"]["message"].as_str() {
                    Some(message) => format!("failed: {message}"),
                    None => format!("ok, {} bytes", outcome["ok"]["bytes"]),
                }
            }
            "reuse_terms" => match &line.body["fresh"] {
                Value::String(all) if all == "Everything" => "no recorded result is reused".to_owned(),
                Value::String(_) => "recorded results are reused".to_owned(),
                fresh => {
                    let nodes = fresh["Nodes"].as_array().into_iter().flatten().filter_map(Value::as_str);
                    format!("recorded results are reused, but of {}", nodes.collect::<Vec<_>>().join(", "))
                }
            },
            "run_opened" => format!("{} for {}", line.body["plan"]["id"], line.body["client"]),
            _ => {
                let mut body = line.body.clone();
                if let Some(members) = body.as_object_mut() {
                    members.remove("node");
                }
                if body.as_object().is_some_and(serde_json::Map::is_empty) {
                    String::new()
                } else {
                    body.to_string()
                }
            }
        };
        let text = format!(
            "{:>6}  {}  {:<24}  {}  {}",
            line.seq,
            clock_time(line.at_ms),
            line.kind,
            padded(&fit_name(node, out.name_width(NODE_COLUMNS)), NODE_COLUMNS),
            fit(&detail, 200)
        );
        if let Some(text) = &mut self.text {
            text.clear();
        }
        out.line(text.trim_end());
        if let Some(text) = &mut self.text {
            text.draw(out);
        }
    }

    fn writes(&mut self, row: &TextRow, out: &mut Out) {
        let Some(text) = &mut self.text else { return };
        text.writing.take(row);
        if text.pace.changed() {
            text.draw(out);
        }
    }

    fn draws_at(&self) -> Option<Instant> {
        self.text.as_ref()?.pace.due()
    }

    fn draw(&mut self, out: &mut Out) {
        if let Some(text) = &mut self.text {
            text.draw(out);
        }
    }

    fn shows_text(&self) -> bool {
        self.text.is_some()
    }

    fn has_shown_nodes(&self) -> bool {
        true
    }
}

pub(crate) async fn events(globals: &Globals, args: EventsArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let ended = tokio::select! {
        ended = print_events(&mut session, globals, &args, &mut out) => ended,
        () = reader_gone(), if args.follow => Ok(()),
    };
    session.stop().await;
    ended.map(|()| code::SUCCEEDED)
}

async fn print_events(
    session: &mut Session,
    globals: &Globals,
    args: &EventsArgs,
    out: &mut Out,
) -> Result<(), Failure> {
    let path = format!("/v1/runs/{}", path_segment(&args.run));
    let summary: Summary = session.get(&path).await?;
    let path = format!("/v1/runs/{}", summary.run);
    let follows = args.follow && session.client.is_remote();
    if args.from.get() > summary.seq && (summary.status.is_over() || !follows) {
        return Err(Failure::invalid(format!(
            "run {}: has {} records, no record {}; use a smaller --from",
            summary.run, summary.seq, args.from
        )));
    }
    let below = (follows && out.is_screen() && !globals.json).then(TextBelow::new);
    let mut view: Box<dyn View + Send> = match globals.json {
        true => Box::new(JsonLines::default()),
        false => Box::new(Table { text: below, ..Table::default() }),
    };
    let mut after = args.from.get() - 1;
    let mut text = view.shows_text().then(|| TextReader::of(&summary.run));
    let mut display = Display { view: &mut *view, prompt: None, output: None, text: text.as_mut(), out };
    let followed = if follows {
        follow_until(session, &summary.run, &mut after, "closed", FollowMode::Observe, &mut display).await
    } else {
        stream_events(&session.client, &path, &mut after, "now", &mut display).await
    };
    drop(view);
    followed.map_err(|refused| connection_lost(refused, &summary.run))?;
    if !args.follow {
        return Ok(());
    }
    // The process that executed the run may have ended.
    let now = if follows { session.summary(&summary.run).await? } else { summary };
    if !now.status.is_over() && now.status != RunStatus::Quarantined {
        let short = report::short(&session.client, &now).await;
        let how = match (short, now.waits_for) {
            (Some(short), _) => {
                format!("{}; then `{}` continues it", credits::waits(&short), hints::resume(&now.run))
            }
            (None, Some(WaitReason::Person)) => {
                with_location("it waits for a person: `ostler approvals` lists the requests")
            }
            (None, Some(WaitReason::Answer)) => {
                format!("it waits for an answer: `{}` says for which", hints::show(&now.run))
            }
            (None, _) => format!("`{}` continues it", hints::resume(&now.run)),
        };
        status_line(format!("this run is not executing, so no more records follow: {how}"));
    }
    Ok(())
}
