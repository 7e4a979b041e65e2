//! The supervision tree.

use ostler_server::wire::{TreeRow, TreeView};
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
    add_rows(&view.children, "/", "", &mut lines);
    if globals.json {
        lines.iter().filter_map(Row::json).for_each(|line| out.json(&line));
        return Ok(());
    }
    let columns = out.columns();
    format_tree(&lines, columns, out).iter().for_each(|line| out.line(line));
    Ok(())
}

/// GENERATION is hidden first, then LAST END, RESTARTS and STATE.
const CHILD_COLUMNS: [Column; 5] = [
    Column::text("CHILD").narrow_rank(2, 24),
    Column::text("STATE").at_least(10).hide_rank(4),
    Column::number("GENERATION").hide_rank(1),
    Column::number("RESTARTS").hide_rank(3),
    Column::text("LAST END").narrow_rank(1, 4).hide_rank(2),
];

fn child_row(Row { name, child, .. }: &Row<'_>) -> [Cell; 5] {
    let Some(child) = child else { return [name.as_str(), "", "", "", ""].map(Cell::from) };
    [
        name.as_str().into(),
        Cell::state(&child.state),
        child.generation.to_string().into(),
        child.restarts.to_string().into(),
        Cell::optional(child.last_exit.as_deref()),
    ]
}

pub(crate) fn format_tree(lines: &[Row<'_>], columns: usize, out: &Out) -> Vec<String> {
    let rows: Vec<[Cell; 5]> = lines.iter().map(child_row).collect();
    let table = Table::new(CHILD_COLUMNS, &rows, columns);
    let lines = rows.iter().map(|row| table.row(row, out));
    std::iter::once(table.head()).chain(lines).collect()
}

pub(crate) struct Row<'a> {
    name: String,
    path: String,
    /// `None`: the row states how many children are omitted.
    child: Option<&'a TreeRow>,
}

impl Row<'_> {
    fn json(&self) -> Option<serde_json::Value> {
        let mut lines = tagged("child", self.child?);
        if let Some(members) = lines.as_object_mut() {
            members.remove("children");
            members.insert("path".to_owned(), json!(self.path));
        }
        Some(lines)
    }
}

pub(crate) fn add_rows<'a>(children: &'a [TreeRow], path: &str, trunk: &str, lines: &mut Vec<Row<'a>>) {
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
        lines.push(Row { name, path: own.clone(), child: Some(child) });
        let trunk = format!("{trunk}{below}");
        add_rows(&child.children, &format!("{own}/"), &trunk, lines);
        let more = child.width.saturating_sub(child.children.len());
        if more > 0 {
            lines.push(Row { name: format!("{trunk}… and {more} more"), path: own, child: None });
        }
    }
}
