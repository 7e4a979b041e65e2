//! The table of agents.

use ostler_kernel::agent::Profile;
use ostler_kernel::market::Offer;
use ostler_server::wire::{AgentList, AgentRow};

use crate::cli::arguments::Globals;
use crate::cli::commands::market::offer;
use crate::cli::exit::Failure;
use crate::cli::output::cells::fit;
use crate::cli::output::hints;
use crate::cli::output::table::{CLIENT_NAME_MAX, Cell, Column, Table};
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::session::Session;

fn profile_text(profile: &Profile) -> Option<String> {
    let Profile { capabilities, domain, input: _, output: _, oversight, price } = profile;
    let can = (!capabilities.is_empty()).then(|| format!("can {}", capabilities.join(", ")));
    let parts = [
        domain.clone(),
        can,
        oversight.map(|mode| mode.to_string()),
        price.map(|price| format!("asks {price} credits")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("  {}", parts.join("; ")))
}

fn offer_text(line: &AgentRow) -> Option<String> {
    let first = Offer::of(&line.profile);
    let offer = line.offer.as_deref().filter(|offer| first.as_ref() != Some(*offer))?;
    Some(format!("  offers {}", offer::terms(offer)))
}

pub(crate) async fn list(session: &mut Session, globals: &Globals, out: &mut Out) -> Result<(), Failure> {
    let list: AgentList = session.get("/v1/agents").await?;
    if globals.json {
        list.agents.iter().for_each(|line| out.json(&tagged("agent", line)));
        return Ok(());
    }
    if list.agents.is_empty() {
        status_line("no agent: a run without a named agent has a temporary one");
        return Ok(());
    }
    let columns = out.columns();
    format_agents(&list.agents, columns, out).iter().for_each(|line| out.line(line));
    Ok(())
}

/// CLIENT is narrowed and hidden first, then WEIGHT, RUNS and STATE.
const COLUMNS: [Column; 5] = [
    Column::name("AGENT").at_least(36).narrow_rank(2, 8),
    Column::name("CLIENT").at_least(12).at_most(CLIENT_NAME_MAX).narrow_rank(1, 12).hide_rank(1),
    Column::number("WEIGHT").at_least(7).hide_rank(2),
    Column::text("STATE").at_least(11).hide_rank(4),
    Column::text("RUNS").hide_rank(3),
];

pub(crate) fn row(line: &AgentRow) -> [Cell; 5] {
    [
        line.agent.as_str().into(),
        line.client.as_str().into(),
        line.weight.to_string().into(),
        Cell::state(&line.state),
        line.runs_open.to_string().into(),
    ]
}

fn format_agents(agents: &[AgentRow], columns: usize, out: &Out) -> Vec<String> {
    let rows: Vec<[Cell; 5]> = agents.iter().map(row).collect();
    let table = Table::new(COLUMNS, &rows, columns);
    let mut lines = vec![table.head()];
    for (row, line) in rows.iter().zip(agents) {
        lines.push(table.row(row, out));
        lines.extend(profile_text(&line.profile).map(|says| fit(&says, columns)));
        lines.extend(offer_text(line).map(|offers| fit(&offers, columns)));
        if let Some(reason) = &line.reason {
            lines.push(fit(&format!("  quarantined: {reason}"), columns));
            lines.push(format!("    {}", hints::command("release", &[line.agent.as_str()], "")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostler_server::wire::TreeRow;
    use serde_json::{Value, json};

    use crate::cli::commands::ps::tree::{add_rows, format_tree};
    use crate::cli::output::table::tests::no_line_is_longer;

    fn agent(name: &str, client: &str) -> AgentRow {
        let line = json!({
            "agent": name, "client": client, "weight": 100, "state": "quarantined", "runs_open": 1,
            "profile": {"capabilities": ["contracts", "letters", "law of the sea"], "domain": "legal"},
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn agents_are_told_in_the_columns_that_there_are() {
        let agents = [agent("auditor", "acme")];
        let long = [agent("auditor", "a-client-with-a-name-that-is-quite-long")];
        for (columns, row) in [
            (usize::MAX, "auditor                               acme              100  quarantined  1"),
            (80, "auditor                               acme              100  quarantined  1"),
            (50, "auditor   acme              100  quarantined  1"),
            (40, "auditor           100  quarantined  1"),
            (30, "auditor      quarantined  1"),
            (20, "auditor         1"),
            (13, "auditor"),
            (5, "audi…"),
        ] {
            assert_eq!(format_agents(&agents, columns, &Out::new())[1], row, "{columns}");
        }
        for (columns, row) in [
            (
                usize::MAX,
                "auditor                               a-client-with-a-name-that-is-quite-long      100  quarantined  1",
            ),
            (
                200,
                "auditor                               a-client-with-a-…t-is-quite-long      100  quarantined  1",
            ),
            (80, "auditor                               a-clien…e-long      100  quarantined  1"),
            (60, "auditor             a-clie…-long      100  quarantined  1"),
        ] {
            assert_eq!(format_agents(&long, columns, &Out::new())[1], row, "{columns}");
        }
    }

    #[test]
    fn no_line_about_agents_and_of_the_tree_is_longer_than_the_terminal() {
        let agents = [agent("auditor", "acme"), agent(&"a-very-long-name".repeat(4), &"a-client".repeat(8))];
        let child = |name: &str, children: Vec<Value>| {
            json!({"name": name, "kind": "worker", "state": "running", "generation": 1, "restarts": 0,
                   "last_exit": "it was killed, and nobody knows why", "children": children, "width": 5})
        };
        let leaf = child("a-very-long-name", Vec::new());
        let tree: TreeRow = serde_json::from_value(child("pool", vec![child("agent", vec![leaf])])).unwrap();
        let mut lines = Vec::new();
        add_rows(std::slice::from_ref(&tree), "/", "", &mut lines);
        no_line_is_longer(|columns| {
            [format_agents(&agents, columns, &Out::new()), format_tree(&lines, columns, &Out::new())].concat()
        });
        let whole = format_tree(&lines, usize::MAX, &Out::new());
        assert!(whole[1].ends_with("it was killed, and nobody knows why"), "{whole:?}");
    }
}
