//! The table of runs.

use ostler_kernel::id::NodeId;
use ostler_kernel::run::RunStatus;
use ostler_server::wire::{ClientList, ClientRow, RunLine, RunList, Waiting};

use crate::cli::arguments::Globals;
use crate::cli::exit::Failure;
use crate::cli::output::approval::{budget_answers, deadline_text, dependents, is_expired, opened_by};
use crate::cli::output::cells::fit;
use crate::cli::output::hints::{DigestSource, answer_commands};
use crate::cli::output::labels::short_id;
use crate::cli::output::summary::waiting::{below_lines, blocked_by_text, rate_wait_lines};
use crate::cli::output::table::{Cell, Column, Table};
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::output::units::{ago, duration, now_ms, plural};
use crate::cli::output::{credits, hints};
use crate::cli::session::Session;

const PAGE: usize = 1_000;

const WAITING_SHOWN_MAX: usize = 3;

const NAME_MIN: usize = 8;

/// Minimum width of the age of a run, without its duration.
const OPENED_MIN: usize = 9;

pub(crate) async fn runs(
    session: &mut Session,
    globals: &Globals,
    only: Option<RunStatus>,
    most: usize,
    out: &mut Out,
) -> Result<(), Failure> {
    let status = only.map(|only| format!("&status={only}")).unwrap_or_default();
    let mut left = most;
    let mut lines = Vec::new();
    let mut after = String::new();
    let more = loop {
        let limit = left.min(PAGE);
        let list: RunList = session.get(&format!("/v1/runs?limit={limit}{status}{after}")).await?;
        left = left.saturating_sub(list.runs.len());
        list.runs.iter().for_each(|line| hints::know_model(&line.run, line.model_file.as_deref()));
        if globals.json {
            list.runs.iter().for_each(|line| out.json(&tagged("run", line)));
        } else {
            lines.extend(list.runs);
        }
        match list.next {
            Some(next) if left > 0 && !out.is_closed() => after = format!("&after={next}"),
            next => break next.is_some(),
        }
    };
    if globals.json {
        return Ok(());
    }
    if lines.is_empty() {
        match only {
            Some(only) => status_line(format!("no run is {only}")),
            None => status_line("no run yet"),
        }
        return Ok(());
    }
    let parked = match lines.iter().any(|line| line.out_of_credit) {
        true => session.get::<ClientList>("/v1/clients").await?.clients,
        false => Vec::new(),
    };
    format_runs(&lines, &parked, out).iter().for_each(|line| out.line(line));
    if lines.iter().any(RunLine::is_idle) {
        out.line(format!(
            "no process executes queued runs; {} resumes them",
            hints::command("resume", &[], "")
        ));
    }
    if more && out.is_terminal() {
        let all = hints::command("ps", &[], "--all");
        out.line(format!("… the newest {}; {all} lists all", plural(most, "run")));
    }
    Ok(())
}

/// PLAN and CLIENT are narrowed first, then the duration in OPENED.
const COLUMNS: [Column; 6] = [
    Column::run("RUN"),
    Column::name("PLAN").narrow_rank(1, NAME_MIN).hide_rank(4),
    Column::name("CLIENT").narrow_rank(2, NAME_MIN).hide_rank(1),
    Column::text("STATE").hide_rank(5),
    Column::number("NODES").hide_rank(3),
    Column::text("OPENED").narrow_rank(3, OPENED_MIN).hide_rank(2),
];

fn row(line: &RunLine) -> [Cell; 6] {
    let ago = ago(now_ms().saturating_sub(line.opened_ms).max(0));
    // The clock may have been set back while the run was open.
    let took = line.closed_ms.filter(|closed| *closed >= line.opened_ms);
    let took = took.map(|closed| format!(", took {}", duration(closed - line.opened_ms)));
    let nodes = match (line.nodes_over, line.nodes, line.failed) {
        (Some(over), Some(all), 0) => format!("{over}/{all}"),
        (Some(over), Some(all), failed) => format!("{over}/{all}, {failed} failed"),
        _ => String::new(),
    };
    [
        line.run.as_str().into(),
        line.plan.as_str().into(),
        line.client.as_str().into(),
        Cell::state(line.status.as_str()),
        nodes.into(),
        format!("{ago}{}", took.unwrap_or_default()).into(),
    ]
}

/// Formats the table, each run with what it waits for. Commands are not cut.
pub(crate) fn format_runs(runs: &[RunLine], parked: &[ClientRow], out: &Out) -> Vec<String> {
    let columns = out.columns();
    let rows: Vec<[Cell; 6]> = runs.iter().map(row).collect();
    let table = Table::new(COLUMNS, &rows, columns);
    let mut lines = vec![table.head()];
    for (row, line) in rows.iter().zip(runs) {
        lines.push(table.row(row, out));
        lines.extend(line.parent.as_ref().map(|parent| fit(&format!("  {}", opened_by(parent)), columns)));
        lines.extend(suspended_lines(line, columns));
        let short = |client: &&ClientRow| client.client.as_str() == line.client && credits::is_short(client);
        if let Some(short) = parked.iter().find(short).filter(|_| line.out_of_credit) {
            lines.push(format!("  {}", credits::waits(short)));
        }
        lines.extend(undo_line(line, columns));
        if !line.absent.is_empty() {
            lines.push(fit(&format!("  absent: {} (ruled out by a guard)", line.absent.join(", ")), columns));
        }
        lines.extend(rate_wait_lines(&line.rate_waits, columns));
        lines.extend(line.blocked_by.as_deref().map(blocked_by_text));
        let waiting = line.waiting.iter().take(WAITING_SHOWN_MAX);
        // A suspended run takes no answer before it is resumed.
        let takes_answers = line.status != RunStatus::Suspended;
        lines.extend(waiting.flat_map(|waiting| waiting_lines(&line.run, waiting, takes_answers, out)));
        lines.extend(below_lines(&line.waiting_below, out));
    }
    lines
}

/// Formats the state of the undo, and nodes whose effect nobody knows.
fn undo_line(line: &RunLine, columns: usize) -> Option<String> {
    let undo = line.undo.as_ref()?;
    let names = |nodes: &[NodeId]| nodes.iter().map(NodeId::as_str).collect::<Vec<_>>().join(", ");
    let mut text = format!("  undo: {}", undo.state.as_str());
    for (what, nodes) in [("without undo", &undo.without), ("unsure", &undo.unsure)] {
        if !nodes.is_empty() {
            text += &format!("; {what}: {}", names(nodes));
        }
    }
    Some(fit(&text, columns))
}

/// Formats why a run is suspended, and the command that resumes it.
fn suspended_lines(line: &RunLine, columns: usize) -> Vec<String> {
    let Some(reason) = &line.reason else { return Vec::new() };
    let is_damaged = line.status == RunStatus::Quarantined;
    let text = match is_damaged {
        true => format!("  damaged: {reason}"),
        false if line.unreadable => format!("  {reason}"),
        false => format!("  suspended: {reason}"),
    };
    let mut lines = vec![fit(&text, columns)];
    if !is_damaged {
        lines.push(format!("    {}", hints::suspended(short_id(&line.run), reason).0));
    }
    lines
}

/// Formats a waiting node, and the commands that answer it.
fn waiting_lines(run: &str, waiting: &Waiting, takes_answers: bool, out: &Out) -> Vec<String> {
    let (columns, seen) = (out.columns(), DigestSource::on(out, waiting.digest.as_deref()));
    let node = &waiting.node;
    let waits = if waiting.id.is_none() { "is in doubt" } else { "waits for a person" };
    let silence = waiting.deadline_ms.map(deadline_text).unwrap_or_default();
    let text = format!("  {node} {waits}{silence}{}", dependents(&waiting.blocks));
    let answers = match !takes_answers || is_expired(waiting.deadline_ms) {
        true => Vec::new(),
        false => match &waiting.over_budget {
            Some(short) => budget_answers(run, node, short).into(),
            None => answer_commands(run, node, &waiting.ask, seen),
        },
    };
    let most = if waiting.id.is_none() { usize::MAX } else { 1 };
    let answer = answers.into_iter().take(most);
    std::iter::once(fit(&text, columns)).chain(answer.map(|answer| format!("    {answer}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::table::tests::no_line_is_longer;

    fn row(plan: &str, client: &str, state: &str) -> [Cell; 6] {
        [
            "01a20110-76b1-71da-8f72-8ae5e4ba5c62".into(),
            plan.into(),
            client.into(),
            Cell::state(state),
            "12/12".into(),
            "3 h 05 m ago, took 1.24 s".into(),
        ]
    }

    fn table_lines(rows: &[[Cell; 6]], columns: usize) -> Vec<String> {
        let table = Table::new(COLUMNS, rows, columns);
        let text = rows.iter().map(|row| table.row(row, &Out::new()));
        std::iter::once(table.head()).chain(text).collect()
    }

    #[test]
    fn a_table_is_as_wide_as_the_terminal_or_whole() {
        let long = "a-plan-with-a-name-that-does-not-come-to-an-end-soon";
        for (plan, columns, expected) in [
            (
                "look",
                120,
                "01a20110-76b1-71da-8f72-8ae5e4ba5c62  look  local   succeeded  12/12  3 h 05 m ago, took 1.24 s",
            ),
            ("look", 80, "8ae5e4ba5c62  look  local   succeeded  12/12  3 h 05 m ago, took 1.24 s"),
            (long, 80, "8ae5e4ba5c62  a-plan…d-soon  local   succeeded  12/12  3 h 05 m ago, took 1.24 s"),
            (long, 60, "8ae5e4ba5c62  a-pl…oon  local   succeeded  12/12  3 h 05 m …"),
            (long, 58, "8ae5e4ba5c62  a-pl…oon  succeeded  12/12  3 h 05 m ago, t…"),
            (long, 40, "8ae5e4ba5c62  a-pl…oon  succeeded  12/12"),
            ("look", 40, "8ae5e4ba5c62  look  succeeded  12/12"),
            (long, 36, "8ae5e4ba5c62  a-pla…-soon  succeeded"),
            (long, 30, "8ae5e4ba5c62  succeeded  12/12"),
            (long, 29, "8ae5e4ba5c62  succeeded"),
            (long, 8, "8ae5…c62"),
            (
                long,
                usize::MAX,
                "01a20110-76b1-71da-8f72-8ae5e4ba5c62  a-plan-with-a-name-that-does-not-come-to-an-end-soon  local   succeeded  12/12  3 h 05 m ago, took 1.24 s",
            ),
        ] {
            assert_eq!(table_lines(&[row(plan, "local", "succeeded")], columns)[1], expected, "{columns}");
        }
    }

    #[test]
    fn no_row_is_longer_than_the_terminal_however_narrow_it_is() {
        for (plan, client, state) in [
            ("look", "local", "succeeded"),
            ("a-plan-with-a-long-name", "a-client-with-a-long-name", "quarantined"),
            ("日本語日本語日本語", "local", "queued"),
        ] {
            let rows = [row(plan, client, state), row("p", "c", "succeeded")];
            no_line_is_longer(|columns| table_lines(&rows, columns));
        }
    }
}
