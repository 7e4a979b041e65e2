//! `ostler ps`: the runs of a data folder, newest first, or its agents or clients, or what supervises them.

use std::num::NonZeroU64;
use std::path::Path;

use clap::Args;
use ostler_server::wire::{ClientLine, ClientList, RunLine, RunList, Standing, Waiting};
use serde_json::{Value, json};

use super::advice;
use super::approve::waited_for;
use super::cells::{fit, fit_name, padded, width};
use super::exit::{Failure, code};
use super::live::painted;
use super::number::from_one;
use super::session::{Session, Want, is_empty};
use super::summary::{Seen, answers, behind, ending, is_over, silence};
use super::term::{Out, ago, count, now_ms, say, span};
use super::{Globals, agents, clients};

/// Runs that are listed on a terminal, where nobody says how many.
const RUNS_SHOWN: usize = 20;

/// Runs that are asked for at once.
const PAGE: usize = 1_000;

/// Questions that are shown of one run.
const WAITING_SHOWN_MAX: usize = 3;

/// Columns that the name of a plan or of a client keeps, however narrow the terminal.
const NAME_MIN: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// List agents instead of runs
    #[arg(long, conflicts_with_all = ["limit", "all", "clients", "tree"])]
    agents: bool,
    /// List clients instead of runs: their weights, what runs and waits of them, and their credits
    #[arg(long, conflicts_with_all = ["limit", "all", "tree"])]
    clients: bool,
    /// Show what supervises what in the process that holds the data folder: how often each actor was started, and started again
    #[arg(long, conflicts_with_all = ["limit", "all"])]
    tree: bool,
    /// List at most so many runs, the newest [default: 20 on a terminal, else all]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = from_one)]
    limit: Option<NonZeroU64>,
    /// List all runs
    #[arg(short, long, conflicts_with = "limit")]
    all: bool,
    /// List only runs that stand so
    #[arg(long, value_name = "STATE", value_parser = STATES, conflicts_with_all = ["agents", "clients", "tree"])]
    state: Option<String>,
}

/// How runs stand, as the column STATE tells it.
const STATES: [&str; 9] = [
    "open",
    "running",
    "waiting",
    "checkpointed",
    "quarantined",
    "succeeded",
    "concluded",
    "failed",
    "cancelled",
];

/// How a run stands, in a word: how it ended, if it has.
fn state(line: &RunLine) -> &str {
    line.outcome.as_deref().unwrap_or(line.standing.as_str())
}

pub(crate) async fn ps(globals: &Globals, args: PsArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    if is_empty("run", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = Session::open(globals, Path::new("."), Want::Look).await?;
    let listed = if args.agents {
        agents::list(&mut session, globals, &mut out).await
    } else if args.tree {
        agents::tree(&mut session, globals, &mut out).await
    } else if args.clients {
        clients::list(&mut session, globals, &mut out).await
    } else {
        let most = match args.limit {
            Some(limit) => usize::try_from(limit.get()).unwrap_or(usize::MAX),
            None if args.all || globals.json || !out.is_terminal() => usize::MAX,
            None => RUNS_SHOWN,
        };
        runs(&mut session, globals, args.state.as_deref(), most, &mut out).await
    };
    session.stop().await;
    listed.map(|()| code::SUCCEEDED)
}

async fn runs(
    session: &mut Session,
    globals: &Globals,
    only: Option<&str>,
    most: usize,
    out: &mut Out,
) -> Result<(), Failure> {
    let mut left = most;
    let mut lines = Vec::new();
    let mut after = String::new();
    let more = loop {
        let asked = if only.is_some() { PAGE } else { left.min(PAGE) };
        let mut list: RunList = session.get(&format!("/v1/runs?limit={asked}{after}")).await?;
        if let Some(only) = only {
            list.runs.retain(|line| state(line) == only);
            list.next = list.next.or_else(|| (list.runs.len() > left).then(String::new));
            list.runs.truncate(left);
        }
        left = left.saturating_sub(list.runs.len());
        if globals.json {
            list.runs.iter().for_each(|line| out.json(&tagged("run", line)));
        } else {
            lines.extend(list.runs);
        }
        match list.next {
            Some(next) if left > 0 && !out.is_gone() => after = format!("&after={next}"),
            next => break next.is_some(),
        }
    };
    if globals.json {
        return Ok(());
    }
    if lines.is_empty() {
        match only {
            Some(only) => say(format!("no run is {only}")),
            None => say("there is no run yet"),
        }
        return Ok(());
    }
    let parked = match lines.iter().any(|line| line.out_of_credit) {
        true => session.get::<ClientList>("/v1/clients").await?.clients,
        false => Vec::new(),
    };
    let columns = out.is_terminal().then(|| out.size().0);
    let rows: Vec<Row<'_>> = lines.iter().map(Row::of).collect();
    let table = Table::for_rows(&rows, columns);
    out.line(table.head());
    for (row, line) in rows.iter().zip(&lines) {
        out.line(table.row(row, out));
        if let Some(reason) = &line.reason {
            let is_damaged = line.standing == Standing::Quarantined;
            let word = if is_damaged { "damaged" } else { "set aside" };
            out.line(fit(&format!("  {word}: {reason}"), columns.unwrap_or(usize::MAX)));
            if !is_damaged {
                out.line(format!("    {}", advice::set_aside(ending(&line.run), reason).0));
            }
        }
        let short = |client: &&ClientLine| client.client == line.client && clients::is_short(client);
        if let Some(short) = parked.iter().find(short).filter(|_| line.out_of_credit) {
            out.line(format!("  {}", clients::waits(short)));
        }
        if let Some(first) = &line.behind {
            out.line(behind(first));
        }
        let waiting = line.waiting.iter().take(WAITING_SHOWN_MAX);
        waiting
            .flat_map(|waiting| waiting_lines(&line.run, waiting, columns))
            .for_each(|line| out.line(line));
    }
    if lines.iter().any(|line| line.standing == Standing::Open) {
        out.line(format!(
            "nobody drives what is open: {} goes on with it",
            advice::command("resume", &[], "")
        ));
    }
    if more && out.is_terminal() {
        let all = advice::command("ps", &[], "--all");
        out.line(format!("… the newest {}; {all} lists all of them", count(most, "run")));
    }
    Ok(())
}

/// A run in words.
struct Row<'a> {
    run: &'a str,
    plan: &'a str,
    client: &'a str,
    state: &'a str,
    nodes: String,
    opened: String,
}

impl<'a> Row<'a> {
    fn of(line: &'a RunLine) -> Row<'a> {
        let ago = ago((now_ms() - line.opened_ms).max(0));
        let took = line.closed_ms.map(|closed| format!(", took {}", span(closed - line.opened_ms)));
        Row {
            run: &line.run,
            plan: &line.plan,
            client: &line.client,
            state: state(line),
            nodes: match (line.nodes_over, line.nodes) {
                (Some(over), Some(all)) => format!("{over}/{all}"),
                _ => String::new(),
            },
            opened: format!("{ago}{}", took.unwrap_or_default()),
        }
    }
}

/// How wide the columns are; two spaces stand between them.
struct Table {
    /// Runs are named by their ends.
    short: bool,
    run: usize,
    plan: usize,
    client: usize,
    state: usize,
    nodes: usize,
    opened: usize,
}

impl Table {
    /// Columns that hold everything; where that is more than there is, what can be told in fewer cells is.
    fn for_rows(rows: &[Row<'_>], columns: Option<usize>) -> Table {
        let widest = |head: &str, cell: &dyn Fn(&Row<'_>) -> usize| {
            rows.iter().map(cell).max().unwrap_or(0).max(width(head))
        };
        let mut table = Table {
            short: false,
            run: widest("RUN", &|row| width(row.run)),
            plan: widest("PLAN", &|row| width(row.plan)),
            client: widest("CLIENT", &|row| width(row.client)),
            state: widest("STATE", &|row| width(row.state)),
            nodes: widest("NODES", &|row| width(&row.nodes)),
            opened: widest("OPENED", &|row| width(&row.opened)),
        };
        let Some(columns) = columns else { return table };
        if table.width() > columns {
            (table.short, table.run) = (true, widest("RUN", &|row| width(ending(row.run))));
        }
        let over = |table: &Table| table.width().saturating_sub(columns);
        table.plan -= over(&table).min(table.plan.saturating_sub(NAME_MIN));
        table.client -= over(&table).min(table.client.saturating_sub(NAME_MIN));
        table.opened -= over(&table).min(table.opened);
        table
    }

    fn width(&self) -> usize {
        self.run + self.plan + self.client + self.state + self.nodes + self.opened + 5 * 2
    }

    fn head(&self) -> String {
        let state = padded("STATE", self.state);
        self.cells("RUN", "PLAN", "CLIENT", &state, "NODES", "OPENED")
    }

    fn row(&self, row: &Row<'_>, out: &Out) -> String {
        let run = if self.short { ending(row.run) } else { row.run };
        let state = painted(out, row.state, self.state);
        self.cells(run, row.plan, row.client, &state, &row.nodes, &row.opened)
    }

    fn cells(&self, run: &str, plan: &str, client: &str, state: &str, nodes: &str, opened: &str) -> String {
        let cells = format!(
            "{}  {}  {}  {state}  {nodes:>nodes_wide$}  {}",
            padded(run, self.run),
            padded(&fit_name(plan, self.plan), self.plan),
            padded(&fit_name(client, self.client), self.client),
            fit(opened, self.opened),
            nodes_wide = self.nodes,
        );
        cells.trim_end().to_owned()
    }
}

/// Who waits for whom, and how to answer.
fn waiting_lines(run: &str, waiting: &Waiting, columns: Option<usize>) -> Vec<String> {
    let node = &waiting.node;
    let waits = if waiting.id.is_none() { "is in doubt" } else { "waits for a person" };
    let silence = waiting.deadline_ms.map(silence).unwrap_or_default();
    let told = format!("  {node} {waits}{silence}{}", waited_for(&waiting.holds_up));
    let answers = match is_over(waiting.deadline_ms) {
        true => Vec::new(),
        false => {
            answers(run, node, &waiting.ask, if columns.is_some() { Seen::AtTerminal } else { Seen::NotYet })
        }
    };
    let most = if waiting.id.is_none() { usize::MAX } else { 1 };
    let answer = answers.into_iter().take(most);
    std::iter::once(fit(&told, columns.unwrap_or(usize::MAX)))
        .chain(answer.map(|answer| format!("    {answer}")))
        .collect()
}

pub(crate) fn tagged(kind: &str, line: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(line).expect("a line is names and numbers");
    value["type"] = json!(kind);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(plan: &'a str, client: &'a str) -> Row<'a> {
        Row {
            run: "01a20110-76b1-71da-8f72-8ae5e4ba5c62",
            plan,
            client,
            state: "succeeded",
            nodes: "12/12".to_owned(),
            opened: "3 h 05 m ago, took 1.24 s".to_owned(),
        }
    }

    #[test]
    fn a_table_is_as_wide_as_the_terminal_or_whole() {
        let long = "a-plan-with-a-name-that-does-not-come-to-an-end-soon";
        for (plan, columns, expected) in [
            (
                "look",
                Some(120),
                "01a20110-76b1-71da-8f72-8ae5e4ba5c62  look  local   succeeded  12/12  3 h 05 m ago, took 1.24 s",
            ),
            ("look", Some(80), "8ae5e4ba5c62  look  local   succeeded  12/12  3 h 05 m ago, took 1.24 s"),
            (
                long,
                Some(80),
                "8ae5e4ba5c62  a-plan…d-soon  local   succeeded  12/12  3 h 05 m ago, took 1.24 s",
            ),
            (long, Some(60), "8ae5e4ba5c62  a-pl…oon  local   succeeded  12/12  3 h 05 m …"),
            (
                long,
                None,
                "01a20110-76b1-71da-8f72-8ae5e4ba5c62  a-plan-with-a-name-that-does-not-come-to-an-end-soon  local   succeeded  12/12  3 h 05 m ago, took 1.24 s",
            ),
        ] {
            let rows = [row(plan, "local")];
            let table = Table::for_rows(&rows, columns);
            let told = table.row(&rows[0], &Out::new());
            assert_eq!(told, expected, "{columns:?}");
            assert!(columns.is_none_or(|columns| width(&told) <= columns && width(&table.head()) <= columns));
        }
    }
}
