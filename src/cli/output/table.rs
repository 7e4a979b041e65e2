//! Tables: column widths, and the columns that fit a terminal.

use crate::cli::output::cells::{fit, fit_name, padded, width};
use crate::cli::output::labels::short_id;
use crate::cli::output::terminal::{Out, Style, style_of};

/// Cells between columns.
pub(crate) const GAP: usize = 2;

/// Width of a column, and its priority when room is short.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Preferred width; 0 hides the column.
    pub(crate) whole: usize,
    /// Minimum width.
    pub(crate) least: usize,
    /// Rank for narrowing to `least`: 0 first.
    pub(crate) narrows: usize,
    /// Rank for hiding: 0 first; `None`: never.
    pub(crate) goes: Option<usize>,
}

/// Returns the width of each column; `None`: hidden. Columns are hidden, by rank, only if the minimum
/// widths do not fit; then the rest are narrowed, by rank.
pub(crate) fn layout(extents: &[Extent], room: usize) -> Vec<Option<usize>> {
    let shown = extents.iter().zip(shown(extents, room));
    let mut widths: Vec<Option<usize>> = shown.map(|(extent, shown)| shown.then_some(extent.whole)).collect();
    let mut order: Vec<usize> = (0..extents.len()).collect();
    order.sort_by_key(|&at| extents[at].narrows);
    for at in order {
        let over = across(widths.iter().flatten().copied()).saturating_sub(room);
        if let Some(wide) = &mut widths[at] {
            *wide -= over.min(wide.saturating_sub(extents[at].least));
        }
    }
    // The first column may be the only one, and wider than the room.
    if let Some(Some(first)) = widths.first_mut() {
        *first = (*first).min(room);
    }
    widths
}

fn across(widths: impl Iterator<Item = usize>) -> usize {
    let (cells, many) = widths.fold((0_usize, 0_usize), |(cells, many), wide| (cells + wide, many + 1));
    cells + GAP * many.saturating_sub(1)
}

/// Selects the visible columns: they are hidden by rank until the minimum widths of the rest fit.
fn shown(extents: &[Extent], room: usize) -> Vec<bool> {
    let has_room = |shown: &[bool]| {
        let kept = extents.iter().zip(shown).filter(|(_, shown)| **shown);
        across(kept.map(|(extent, _)| extent.least)) <= room
    };
    let mut shown: Vec<bool> = extents.iter().map(|extent| extent.whole > 0).collect();
    let mut order: Vec<usize> =
        (0..extents.len()).filter(|&at| shown[at] && extents[at].goes.is_some()).collect();
    order.sort_by_key(|&at| extents[at].goes);
    let mut gone = Vec::new();
    for at in order {
        if has_room(&shown) {
            break;
        }
        shown[at] = false;
        gone.push(at);
    }
    // A wide column that was hidden may have made room for one hidden before it.
    for at in gone.into_iter().rev() {
        shown[at] = true;
        shown[at] = has_room(&shown);
    }
    shown
}

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A run id, shortened to its last group if the whole table does not fit.
    Run,
    /// A name, cut in the middle.
    Name,
    /// A text, cut at the end.
    Text,
    /// A right-aligned number.
    Number,
}

/// A column of a table. When room is short, columns are narrowed, then hidden; a column without ranks
/// stays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    head: &'static str,
    kind: Kind,
    least: usize,
    most: usize,
    narrows: Option<(usize, usize)>,
    goes: Option<usize>,
    may_lack: bool,
}

impl Column {
    pub(crate) const fn run(head: &'static str) -> Column {
        Column::of(head, Kind::Run)
    }

    pub(crate) const fn name(head: &'static str) -> Column {
        Column::of(head, Kind::Name)
    }

    pub(crate) const fn text(head: &'static str) -> Column {
        Column::of(head, Kind::Text)
    }

    pub(crate) const fn number(head: &'static str) -> Column {
        Column::of(head, Kind::Number)
    }

    const fn of(head: &'static str, kind: Kind) -> Column {
        Column { head, kind, least: 0, most: usize::MAX, narrows: None, goes: None, may_lack: false }
    }

    /// Sets the minimum of the preferred width.
    pub(crate) const fn at_least(mut self, cells: usize) -> Column {
        self.least = cells;
        self
    }

    /// Sets the maximum width.
    pub(crate) const fn at_most(mut self, cells: usize) -> Column {
        self.most = cells;
        self
    }

    /// Allows narrowing to `kept` cells, lowest rank first.
    pub(crate) const fn narrows(mut self, rank: usize, kept: usize) -> Column {
        self.narrows = Some((rank, kept));
        self
    }

    /// Allows hiding, lowest rank first.
    pub(crate) const fn goes(mut self, rank: usize) -> Column {
        self.goes = Some(rank);
        self
    }

    /// Hides the column if all its cells are empty.
    pub(crate) const fn may_lack(mut self) -> Column {
        self.may_lack = true;
        self
    }

    fn told(self, text: &str, is_short: bool, columns: usize) -> String {
        match self.kind {
            Kind::Run if is_short => fit_name(short_id(text), columns),
            Kind::Run | Kind::Name => fit_name(text, columns),
            Kind::Text => fit(text, columns),
            Kind::Number => text.to_owned(),
        }
    }

    fn filled(self, text: &str, is_short: bool, columns: usize) -> String {
        let told = self.told(text, is_short, columns);
        match self.kind {
            Kind::Number => format!("{told:>columns$}"),
            Kind::Run | Kind::Name | Kind::Text => padded(&told, columns),
        }
    }

    fn extent<'a>(self, cells: impl Iterator<Item = &'a Cell>, is_short: bool) -> Extent {
        let told = cells.map(|cell| width(&self.told(&cell.text, is_short, usize::MAX))).max().unwrap_or(0);
        let whole = match self.may_lack && told == 0 {
            true => 0,
            false => told.max(width(self.head)).max(self.least).min(self.most),
        };
        let (narrows, kept) = self.narrows.unwrap_or((0, whole));
        Extent { whole, least: kept.min(whole), narrows, goes: self.goes }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn styled(style: Style, text: &str) -> Cell {
        Cell { text: text.to_owned(), style }
    }

    /// A value, or a dash if unknown.
    pub(crate) fn known(text: Option<impl ToString>) -> Cell {
        Cell::from(text.map_or_else(|| "-".to_owned(), |text| text.to_string()))
    }

    /// A state, in its colour.
    pub(crate) fn state(state: &str) -> Cell {
        match style_of(state) {
            Style::Dim => Cell::from(state),
            style => Cell::styled(style, state),
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), style: Style::Plain }
    }
}

/// A table with computed column widths.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [Column; N],
    /// `None`: hidden.
    widths: Vec<Option<usize>>,
    /// Run ids are shortened.
    is_short: bool,
}

impl<const N: usize> Table<N> {
    /// Computes the layout for these rows in `room` cells.
    pub(crate) fn new(columns: [Column; N], rows: &[[Cell; N]], room: usize) -> Table<N> {
        let extents = |is_short: bool| -> Vec<Extent> {
            let cells = |at: usize| rows.iter().map(move |row| &row[at]);
            columns.iter().enumerate().map(|(at, column)| column.extent(cells(at), is_short)).collect()
        };
        let whole = extents(false);
        let is_short = across(whole.iter().map(|extent| extent.whole).filter(|wide| *wide > 0)) > room;
        let extents = if is_short { extents(true) } else { whole };
        Table { columns, widths: layout(&extents, room), is_short }
    }

    pub(crate) fn head(&self) -> String {
        let heads =
            self.shown().map(|(at, wide)| self.columns[at].filled(self.columns[at].head, false, wide));
        joined(heads)
    }

    pub(crate) fn row(&self, cells: &[Cell; N], out: &Out) -> String {
        let told = self.shown().map(|(at, wide)| {
            let Cell { text, style } = &cells[at];
            out.styled(*style, &self.columns[at].filled(text, self.is_short, wide))
        });
        joined(told)
    }

    /// Visible columns and their widths.
    fn shown(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.widths.iter().enumerate().filter_map(|(at, wide)| Some((at, (*wide)?)))
    }
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    cells.join(&" ".repeat(GAP)).trim_end().to_owned()
}

/// Maximum width of a client's name.
pub(crate) const CLIENT_NAME_MAX: usize = 32;

/// Minimum width of a client's name.
pub(crate) const CLIENT_NAME_KEPT: usize = 12;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::output::cells::visible;

    /// Asserts that no line exceeds the terminal width, for many widths.
    pub(crate) fn no_line_is_longer(lines: impl Fn(usize) -> Vec<String>) {
        for columns in 0..150 {
            let told = lines(columns);
            told.iter().for_each(|told| assert!(visible(told) <= columns, "{columns}: {told:?}"));
        }
    }

    #[test]
    fn columns_go_in_their_order_until_the_others_have_room() {
        let fixed = |wide, goes| Extent { whole: wide, least: wide, narrows: 0, goes };
        let extents = [fixed(5, None), fixed(4, Some(0)), fixed(0, None), fixed(6, Some(1))];
        for (room, expected) in [
            (usize::MAX, &[0, 1, 3][..]),
            (19, &[0, 1, 3]),
            (18, &[0, 3]),
            (13, &[0, 3]),
            // A column hidden first is shown again if a later one freed enough room.
            (12, &[0, 1]),
            (11, &[0, 1]),
            (10, &[0]),
            (0, &[0]),
        ] {
            let widths = layout(&extents, room);
            let shown: Vec<usize> = (0..4).filter(|&at| widths[at].is_some()).collect();
            assert_eq!(shown, expected, "{room}");
            assert_eq!(widths[0], Some(room.min(5)), "{room}");
        }
    }

    #[test]
    fn columns_are_narrowed_before_any_goes() {
        let extents = [
            Extent { whole: 10, least: 4, narrows: 2, goes: None },
            Extent { whole: 10, least: 6, narrows: 1, goes: Some(0) },
        ];
        for (room, expected) in [
            (22, [Some(10), Some(10)]),
            (20, [Some(10), Some(8)]),
            (17, [Some(9), Some(6)]),
            (12, [Some(4), Some(6)]),
            (11, [Some(10), None]),
            (7, [Some(7), None]),
            (3, [Some(3), None]),
        ] {
            assert_eq!(layout(&extents, room), expected, "{room}");
        }
    }

    #[test]
    fn a_table_tells_as_much_of_a_run_as_there_is_room_for() {
        let columns = [
            Column::run("RUN"),
            Column::name("NAME").at_most(12),
            Column::text("SAYS").at_least(5).narrows(1, 4),
            Column::number("MANY").goes(1),
            Column::number("NEAR").may_lack(),
        ];
        let rows = [["01a20110-8ae5", "render-chapter-0017", "so", "7", ""].map(Cell::from)];
        let told = |room| {
            let table = Table::new(columns, &rows, room);
            [table.head(), table.row(&rows[0], &Out::new())]
        };
        for (room, expected) in [
            (40, ["RUN            NAME          SAYS   MANY", "01a20110-8ae5  render…-0017  so        7"]),
            (39, ["RUN   NAME          SAYS   MANY", "8ae5  render…-0017  so        7"]),
            (30, ["RUN   NAME          SAYS  MANY", "8ae5  render…-0017  so       7"]),
            (29, ["RUN   NAME          SAYS", "8ae5  render…-0017  so"]),
        ] {
            assert_eq!(told(room), expected, "{room}");
        }
    }
}
