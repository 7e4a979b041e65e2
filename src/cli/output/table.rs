//! Tables: column widths, and the columns that fit a terminal.

use crate::cli::output::cells::{fit, fit_name, padded, width};
use crate::cli::output::labels::short_id;
use crate::cli::output::terminal::{Out, Style, style_of};

/// Cells between two columns.
pub(crate) const GAP: usize = 2;

/// How wide a column is, and how it gives way where there is not enough room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Cells that it takes; one that takes none is not shown.
    pub(crate) whole: usize,
    /// Cells that it keeps as long as it is shown, of those.
    pub(crate) least: usize,
    /// When it is narrowed to that: 0 first.
    pub(crate) narrows: usize,
    /// When it is left out: 0 first; `None`: never.
    pub(crate) goes: Option<usize>,
}

/// How wide each column is in so much room; `None`: it is not shown. Only columns that stay although each is as narrow as it gets
/// may take more.
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
    // It is all that is shown where there is less room than it takes.
    if let Some(Some(first)) = widths.first_mut() {
        *first = (*first).min(room);
    }
    widths
}

/// Cells that columns of these widths take beside each other.
fn across(widths: impl Iterator<Item = usize>) -> usize {
    let (cells, many) = widths.fold((0_usize, 0_usize), |(cells, many), wide| (cells + wide, many + 1));
    cells + GAP * many.saturating_sub(1)
}

/// Which columns there is room for: they go in their order until the others have room, each as narrow as it gets.
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
    // A wide one that had to go may have made room for one that went before it.
    for at in gone.into_iter().rev() {
        shown[at] = true;
        shown[at] = has_room(&shown);
    }
    shown
}

/// What stands in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A run, told by the end of its id where there is no room for the whole table.
    Run,
    /// A name, which keeps both ends.
    Name,
    /// A text, which keeps its beginning.
    Text,
    /// A number, which stands at the right side.
    Number,
}

/// A column of a table: what stands above it and in it, how wide it is, and when it gives way. Where there is not enough room, columns
/// are first narrowed and then left out; those that say neither stay as they are.
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
    /// A column of runs.
    pub(crate) const fn run(head: &'static str) -> Column {
        Column::of(head, Kind::Run)
    }

    /// A column of names.
    pub(crate) const fn name(head: &'static str) -> Column {
        Column::of(head, Kind::Name)
    }

    /// A column of texts.
    pub(crate) const fn text(head: &'static str) -> Column {
        Column::of(head, Kind::Text)
    }

    /// A column of numbers.
    pub(crate) const fn number(head: &'static str) -> Column {
        Column::of(head, Kind::Number)
    }

    const fn of(head: &'static str, kind: Kind) -> Column {
        Column { head, kind, least: 0, most: usize::MAX, narrows: None, goes: None, may_lack: false }
    }

    /// It takes so many cells, even if nothing in it does.
    pub(crate) const fn at_least(mut self, cells: usize) -> Column {
        self.least = cells;
        self
    }

    /// It takes no more cells, however much room there is.
    pub(crate) const fn at_most(mut self, cells: usize) -> Column {
        self.most = cells;
        self
    }

    /// It is narrowed where there is not enough room, those with the lowest rank first, and keeps so many cells.
    pub(crate) const fn narrows(mut self, rank: usize, kept: usize) -> Column {
        self.narrows = Some((rank, kept));
        self
    }

    /// It is left out where narrower columns are still too much, those with the lowest rank first.
    pub(crate) const fn goes(mut self, rank: usize) -> Column {
        self.goes = Some(rank);
        self
    }

    /// It is shown only if any row has something in it.
    pub(crate) const fn may_lack(mut self) -> Column {
        self.may_lack = true;
        self
    }

    /// What is told of a cell in so many columns.
    fn told(self, text: &str, is_short: bool, columns: usize) -> String {
        match self.kind {
            Kind::Run if is_short => fit_name(short_id(text), columns),
            Kind::Run | Kind::Name => fit_name(text, columns),
            Kind::Text => fit(text, columns),
            Kind::Number => text.to_owned(),
        }
    }

    /// The same, as wide as the column.
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

/// What stands in a column of a row.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A text in a colour.
    pub(crate) fn styled(style: Style, text: &str) -> Cell {
        Cell { text: text.to_owned(), style }
    }

    /// What may not be known: a dash then.
    pub(crate) fn known(text: Option<impl ToString>) -> Cell {
        Cell::from(text.map_or_else(|| "-".to_owned(), |text| text.to_string()))
    }

    /// A word of state.
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

/// How wide the columns of a table are, and which are shown.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [Column; N],
    /// `None`: it is not shown.
    widths: Vec<Option<usize>>,
    /// Runs are told by the ends of their ids.
    is_short: bool,
}

impl<const N: usize> Table<N> {
    /// A table that has room for these rows, or as much of them as so many columns of a terminal hold.
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

    /// The line above the rows.
    pub(crate) fn head(&self) -> String {
        let heads =
            self.shown().map(|(at, wide)| self.columns[at].filled(self.columns[at].head, false, wide));
        joined(heads)
    }

    /// A row.
    pub(crate) fn row(&self, cells: &[Cell; N], out: &Out) -> String {
        let told = self.shown().map(|(at, wide)| {
            let Cell { text, style } = &cells[at];
            out.styled(*style, &self.columns[at].filled(text, self.is_short, wide))
        });
        joined(told)
    }

    /// The columns that are shown, and how wide each is.
    fn shown(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.widths.iter().enumerate().filter_map(|(at, wide)| Some((at, (*wide)?)))
    }
}

/// Cells beside each other.
fn joined(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    cells.join(&" ".repeat(GAP)).trim_end().to_owned()
}

/// Columns of a client's name.
pub(crate) const CLIENT_NAME_MAX: usize = 32;

/// Columns of a client's name that other columns leave to it.
pub(crate) const CLIENT_NAME_KEPT: usize = 12;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::output::cells::visible;

    /// Panics if any of these lines is longer than a terminal of any width.
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
            // What went first comes back where what went after it has left enough room.
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
