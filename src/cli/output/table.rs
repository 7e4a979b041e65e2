//! Tables: column widths, and the columns that fit a terminal.

use crate::cli::output::cells::{fit, fit_name, padded, width};
use crate::cli::output::labels::short_id;
use crate::cli::output::terminal::{Out, Style, style_of};

pub(crate) const GAP: usize = 2;

/// Width of a column, and its priority when room is short.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Preferred width; 0 hides the column.
    pub(crate) preferred: usize,
    pub(crate) min_width: usize,
    /// Rank for narrowing to `least`: 0 first.
    pub(crate) narrow_rank: usize,
    /// Rank for hiding: 0 first; `None`: never.
    pub(crate) hide_rank: Option<usize>,
}

/// Returns the width of each column; `None`: hidden. Columns are hidden, by rank, only if the minimum
/// widths do not fit; then the rest are narrowed, by rank.
pub(crate) fn layout(extents: &[Extent], room: usize) -> Vec<Option<usize>> {
    let shown = extents.iter().zip(shown(extents, room));
    let mut widths: Vec<Option<usize>> =
        shown.map(|(extent, shown)| shown.then_some(extent.preferred)).collect();
    let mut order: Vec<usize> = (0..extents.len()).collect();
    order.sort_by_key(|&at| extents[at].narrow_rank);
    for at in order {
        let over = across(widths.iter().flatten().copied()).saturating_sub(room);
        if let Some(wide) = &mut widths[at] {
            *wide -= over.min(wide.saturating_sub(extents[at].min_width));
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
        across(kept.map(|(extent, _)| extent.min_width)) <= room
    };
    let mut shown: Vec<bool> = extents.iter().map(|extent| extent.preferred > 0).collect();
    let mut order: Vec<usize> =
        (0..extents.len()).filter(|&at| shown[at] && extents[at].hide_rank.is_some()).collect();
    order.sort_by_key(|&at| extents[at].hide_rank);
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
    min_width: usize,
    max_width: usize,
    narrow_rank: Option<(usize, usize)>,
    hide_rank: Option<usize>,
    hidden_if_empty: bool,
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
        Column {
            head,
            kind,
            min_width: 0,
            max_width: usize::MAX,
            narrow_rank: None,
            hide_rank: None,
            hidden_if_empty: false,
        }
    }

    pub(crate) const fn at_least(mut self, cells: usize) -> Column {
        self.min_width = cells;
        self
    }

    /// Cuts longer cells, except in a pipe.
    pub(crate) const fn at_most(mut self, cells: usize) -> Column {
        self.max_width = cells;
        self
    }

    /// Allows narrowing to `kept` cells, lowest rank first.
    pub(crate) const fn narrow_rank(mut self, rank: usize, kept: usize) -> Column {
        self.narrow_rank = Some((rank, kept));
        self
    }

    pub(crate) const fn hide_rank(mut self, rank: usize) -> Column {
        self.hide_rank = Some(rank);
        self
    }

    /// Hides the column if all its cells are empty.
    pub(crate) const fn hidden_if_empty(mut self) -> Column {
        self.hidden_if_empty = true;
        self
    }

    fn cut(self, text: &str, short_ids: bool, columns: usize) -> String {
        match self.kind {
            Kind::Run if short_ids => fit_name(short_id(text), columns),
            Kind::Run | Kind::Name => fit_name(text, columns),
            Kind::Text => fit(text, columns),
            Kind::Number => text.to_owned(),
        }
    }

    fn padded_cell(self, text: &str, short_ids: bool, columns: usize) -> String {
        let text = self.cut(text, short_ids, columns);
        match self.kind {
            Kind::Number => format!("{text:>columns$}"),
            Kind::Run | Kind::Name | Kind::Text => padded(&text, columns),
        }
    }

    fn extent<'a>(self, cells: impl Iterator<Item = &'a Cell>, short_ids: bool) -> Extent {
        let widest = cells.map(|cell| width(&self.cut(&cell.text, short_ids, usize::MAX))).max().unwrap_or(0);
        let preferred = match self.hidden_if_empty && widest == 0 {
            true => 0,
            false => widest.max(width(self.head)).max(self.min_width).min(self.max_width),
        };
        let (narrow_rank, kept) = self.narrow_rank.unwrap_or((0, preferred));
        Extent { preferred, min_width: kept.min(preferred), narrow_rank, hide_rank: self.hide_rank }
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

    pub(crate) fn optional(text: Option<impl ToString>) -> Cell {
        Cell::from(text.map_or_else(|| "-".to_owned(), |text| text.to_string()))
    }

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

#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [Column; N],
    /// `None`: hidden.
    widths: Vec<Option<usize>>,
    short_ids: bool,
}

impl<const N: usize> Table<N> {
    /// Computes the layout for these rows in `room` cells; `usize::MAX`: a pipe, whose reader needs whole names.
    pub(crate) fn new(mut columns: [Column; N], rows: &[[Cell; N]], room: usize) -> Table<N> {
        if room == usize::MAX {
            columns.iter_mut().for_each(|column| column.max_width = usize::MAX);
        }
        let extents = |short_ids: bool| -> Vec<Extent> {
            let cells = |at: usize| rows.iter().map(move |row| &row[at]);
            columns.iter().enumerate().map(|(at, column)| column.extent(cells(at), short_ids)).collect()
        };
        let preferred = extents(false);
        let short_ids =
            across(preferred.iter().map(|extent| extent.preferred).filter(|wide| *wide > 0)) > room;
        let extents = if short_ids { extents(true) } else { preferred };
        Table { columns, widths: layout(&extents, room), short_ids }
    }

    pub(crate) fn head(&self) -> String {
        let heads =
            self.shown().map(|(at, wide)| self.columns[at].padded_cell(self.columns[at].head, false, wide));
        joined(heads)
    }

    pub(crate) fn row(&self, cells: &[Cell; N], out: &Out) -> String {
        let cells = self.shown().map(|(at, wide)| {
            let Cell { text, style } = &cells[at];
            out.styled(*style, &self.columns[at].padded_cell(text, self.short_ids, wide))
        });
        joined(cells)
    }

    fn shown(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.widths.iter().enumerate().filter_map(|(at, wide)| Some((at, (*wide)?)))
    }
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    cells.join(&" ".repeat(GAP)).trim_end().to_owned()
}

pub(crate) const CLIENT_NAME_MAX: usize = 32;

pub(crate) const CLIENT_NAME_KEPT: usize = 12;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::output::cells::visible;

    /// Asserts that no line exceeds the terminal width, for many widths.
    pub(crate) fn no_line_is_longer(lines: impl Fn(usize) -> Vec<String>) {
        for columns in 0..150 {
            let lines = lines(columns);
            lines.iter().for_each(|lines| assert!(visible(lines) <= columns, "{columns}: {lines:?}"));
        }
    }

    #[test]
    fn columns_go_in_their_order_until_the_others_have_room() {
        let fixed = |wide, hide_rank| Extent { preferred: wide, min_width: wide, narrow_rank: 0, hide_rank };
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
            Extent { preferred: 10, min_width: 4, narrow_rank: 2, hide_rank: None },
            Extent { preferred: 10, min_width: 6, narrow_rank: 1, hide_rank: Some(0) },
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
            Column::text("SAYS").at_least(5).narrow_rank(1, 4),
            Column::number("MANY").hide_rank(1),
            Column::number("NEAR").hidden_if_empty(),
        ];
        let rows = [["01a20110-8ae5", "render-chapter-0017", "so", "7", ""].map(Cell::from)];
        let lines = |room| {
            let table = Table::new(columns, &rows, room);
            [table.head(), table.row(&rows[0], &Out::new())]
        };
        for (room, expected) in [
            (
                usize::MAX,
                [
                    "RUN            NAME                 SAYS   MANY",
                    "01a20110-8ae5  render-chapter-0017  so        7",
                ],
            ),
            (40, ["RUN            NAME          SAYS   MANY", "01a20110-8ae5  render…-0017  so        7"]),
            (39, ["RUN   NAME          SAYS   MANY", "8ae5  render…-0017  so        7"]),
            (30, ["RUN   NAME          SAYS  MANY", "8ae5  render…-0017  so       7"]),
            (29, ["RUN   NAME          SAYS", "8ae5  render…-0017  so"]),
        ] {
            assert_eq!(lines(room), expected, "{room}");
        }
    }
}
