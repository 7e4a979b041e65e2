//! The supervision tree.

use ostler_server::wire::{TreeLine, TreeView};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::exit::Failure;
use crate::cli::output::table::{Cell, Column, Table};
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::session::Session;

/// Prints the supervision tree of another process. A process that only runs this command has none worth
/// showing.
pub(crate) async fn tree(session: &mut Session, globals: &Globals, out: &mut Out) -> Result<(), Failure> {
    if !session.client.is_remote() {
        if !globals.json {
            status_line("no supervision tree: no process holds the data folder");
        }
        return Ok(());
    }
    let view: TreeView = session.get("/v1/tree").await?;
    let mut lines = Vec::new();
    grow(&view.children, "/", "", &mut lines);
    if globals.json {
        lines.iter().filter_map(Line::told).for_each(|line| out.json(&line));
        return Ok(());
    }
    let columns = out.columns();
    drawn(&lines, columns, out).iter().for_each(|line| out.line(line));
    Ok(())
}

/// GENERATION is hidden first, then LAST END, RESTARTS and STATE.
const CHILD_COLUMNS: [Column; 5] = [
    Column::text("CHILD").narrows(2, 24),
    Column::text("STATE").at_least(10).goes(4),
    Column::number("GENERATION").goes(1),
    Column::number("RESTARTS").goes(3),
    Column::text("LAST END").narrows(1, 4).goes(2),
];

fn child_row(Line { name, child, .. }: &Line<'_>) -> [Cell; 5] {
    let Some(child) = child else { return [name.as_str(), "", "", "", ""].map(Cell::from) };
    [
        name.as_str().into(),
        Cell::state(&child.state),
        child.generation.to_string().into(),
        child.restarts.to_string().into(),
        Cell::known(child.last_exit.as_deref()),
    ]
}

pub(crate) fn drawn(lines: &[Line<'_>], columns: usize, out: &Out) -> Vec<String> {
    let rows: Vec<[Cell; 5]> = lines.iter().map(child_row).collect();
    let table = Table::new(CHILD_COLUMNS, &rows, columns);
    let told = rows.iter().map(|row| table.row(row, out));
    std::iter::once(table.head()).chain(told).collect()
}

/// A row of the tree.
pub(crate) struct Line<'a> {
    /// Branch symbols and name.
    name: String,
    path: String,
    /// `None`: the row states how many children are omitted.
    child: Option<&'a TreeLine>,
}

impl Line<'_> {
    /// The row as JSON.
    fn told(&self) -> Option<serde_json::Value> {
        let mut told = tagged("child", self.child?);
        if let Some(members) = told.as_object_mut() {
            members.remove("children");
            members.insert("path".to_owned(), json!(self.path));
        }
        Some(told)
    }
}

pub(crate) fn grow<'a>(children: &'a [TreeLine], path: &str, trunk: &str, lines: &mut Vec<Line<'a>>) {
    for (at, child) in children.iter().enumerate() {
        let is_last = at + 1 == children.len();
        // The roots have no branch symbols.
        let (branch, below) = match (path, is_last) {
            ("/", _) => ("", ""),
            (_, true) => ("└─ ", "   "),
            (_, false) => ("├─ ", "│  "),
        };
        let own = format!("{path}{}", child.name);
        let name = format!("{trunk}{branch}{}", child.name);
        lines.push(Line { name, path: own.clone(), child: Some(child) });
        let trunk = format!("{trunk}{below}");
        grow(&child.children, &format!("{own}/"), &trunk, lines);
        let more = child.width.saturating_sub(child.children.len());
        if more > 0 {
            lines.push(Line { name: format!("{trunk}… and {more} more"), path: own, child: None });
        }
    }
}
