//! The table of clients.

use ostler_server::wire::{ClientList, ClientRow};

use crate::cli::arguments::Globals;
use crate::cli::exit::Failure;
use crate::cli::output::labels::tier;
use crate::cli::output::table::{CLIENT_NAME_KEPT, CLIENT_NAME_MAX, Cell, Column, Table};
use crate::cli::output::terminal::{Out, Style, status_line, tagged};
use crate::cli::output::units::signed_usd;
use crate::cli::session::Session;

pub(crate) async fn list(session: &mut Session, globals: &Globals, out: &mut Out) -> Result<(), Failure> {
    let list: ClientList = session.get("/v1/clients").await?;
    if globals.json {
        list.clients.iter().for_each(|line| out.json(&tagged("client", line)));
        return Ok(());
    }
    if list.clients.is_empty() {
        status_line("no client yet: runs without --client belong to client local");
        return Ok(());
    }
    let columns = out.columns();
    format_clients(&list.clients, columns, out).iter().for_each(|line| out.line(line));
    Ok(())
}

/// USD and TOKENS appear if a client is metered in them. They are hidden first, then SPENT, then WEIGHT and TIER; the mark of
/// parked clients last.
const COLUMNS: [Column; 10] = [
    Column::name("CLIENT").at_most(CLIENT_NAME_MAX).narrow_rank(1, CLIENT_NAME_KEPT),
    Column::text("TIER").at_least(11).hide_rank(3),
    Column::number("WEIGHT").at_least(7).hide_rank(2),
    Column::number("RUNNING").hide_rank(5),
    Column::number("QUEUED").hide_rank(4),
    Column::number("SPENT").at_least(12).hide_rank(1),
    Column::number("LEFT").at_least(12).hide_rank(6),
    Column::number("USD").hide_rank(0).hidden_if_empty(),
    Column::number("TOKENS").hide_rank(0).hidden_if_empty(),
    Column::text("").hide_rank(7),
];

fn row(line: &ClientRow) -> [Cell; 10] {
    [
        line.client.as_str().into(),
        tier(line.tier).into(),
        line.weight.to_string().into(),
        line.running.to_string().into(),
        line.queued.to_string().into(),
        line.spent.to_string().into(),
        Cell::optional(line.left),
        line.nano_usd.map(|usd| signed_usd(usd.left)).unwrap_or_default().into(),
        line.tokens.map(|tokens| tokens.left.to_string()).unwrap_or_default().into(),
        if line.parked { Cell::styled(Style::Warning, "parked") } else { "".into() },
    ]
}

fn format_clients(clients: &[ClientRow], columns: usize, out: &Out) -> Vec<String> {
    let rows: Vec<[Cell; 10]> = clients.iter().map(row).collect();
    let table = Table::new(COLUMNS, &rows, columns);
    std::iter::once(table.head()).chain(rows.iter().map(|row| table.row(row, out))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::credits::tests::line;
    use crate::cli::output::table::tests::no_line_is_longer;

    #[test]
    fn clients_are_told_in_the_columns_that_there_are() {
        let clients = [line(-209, true)];
        for (columns, row) in [
            (usize::MAX, "acme    marketplace       10        0       0             0          -209  parked"),
            (80, "acme    marketplace       10        0       0          -209  parked"),
            (60, "acme    marketplace        0       0          -209  parked"),
            (40, "acme          0          -209  parked"),
            (10, "acme"),
            (3, "ac…"),
        ] {
            assert_eq!(format_clients(&clients, columns, &Out::new())[1], row, "{columns}");
        }
        no_line_is_longer(|columns| format_clients(&clients, columns, &Out::new()));
    }
}
