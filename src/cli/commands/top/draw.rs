//! The queue as a frame, for a terminal of any size.

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, LineGauge, Row, Table, Widget};

use crate::cli::commands::top::model::QueueModel;
use crate::cli::commands::top::table::{Column, columns};
use crate::cli::output::cells::{fit, fit_name, width};
use crate::cli::output::table::GAP;

const ROWS_OF_ALL: u16 = 8;

const CARE: Style = Style::new().fg(Color::Yellow);

const DIM: Style = Style::new().add_modifier(Modifier::DIM);

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

pub(crate) fn lines(model: &mut QueueModel, size: (usize, usize), colour: bool) -> Vec<String> {
    // The caller decides about colours; the backend would check NO_COLOR again.
    ratatui::crossterm::style::force_color_output(true);
    let side = |cells: usize| u16::try_from(cells).unwrap_or(u16::MAX);
    let area = Rect::new(0, 0, side(size.0), side(size.1));
    let mut frame = Buffer::empty(area);
    draw(model, area, &mut frame);
    if !colour {
        frame.content.iter_mut().for_each(|cell| {
            cell.set_style(Style::reset());
        });
    }
    // The difference to an empty buffer omits empty cells, and the second cell of wide characters.
    let empty = Buffer::empty(area);
    let drawn = empty.diff(&frame);
    let row = |row: u16| {
        let mut bytes = Vec::new();
        let cells = drawn.iter().filter(|(_, y, _)| *y == row).map(|(x, y, cell)| (*x, *y, *cell));
        let _ = CrosstermBackend::new(&mut bytes).draw(cells); // a vector accepts all writes
        String::from_utf8_lossy(&bytes).into_owned()
    };
    (0..area.height).map(row).collect()
}

/// Draws the frame, and stores in the model what fitted.
pub(crate) fn draw(model: &mut QueueModel, area: Rect, frame: &mut Buffer) {
    let mut rows = area.rows();
    let mut next = || rows.next().unwrap_or_default();
    let large = area.height >= ROWS_OF_ALL;
    if large {
        title(model, next()).render_in(frame);
    }
    gauge(model, next(), frame);
    let words = next();
    match &model.stale {
        Some(stale) => Text(words, Line::styled(fit(stale, words.width.into()), CARE)).render_in(frame),
        None => Text(words, Line::raw(fit(&model.totals.text(), words.width.into()))).render_in(frame),
    }
    if large {
        next();
    }
    let from = next();
    let end = area.bottom().saturating_sub(u16::from(large));
    let place = Rect { height: end.saturating_sub(from.y), ..from };
    table(model, place, frame);
    if large {
        footer(model, Rect { y: end, height: 1, ..area }).render_in(frame);
    }
}

struct Text<'a>(Rect, Line<'a>);

impl Text<'_> {
    fn render_in(self, frame: &mut Buffer) {
        self.1.render(self.0, frame);
    }
}

fn title(model: &QueueModel, place: Rect) -> Text<'static> {
    let room = usize::from(place.width).saturating_sub(12);
    let folder = Span::styled(fit_name(&model.place, room), DIM);
    Text(place, Line::from(vec![Span::styled("ostler top  ", BOLD), folder]))
}

fn gauge(model: &QueueModel, place: Rect, frame: &mut Buffer) {
    let (running, slots) = (model.totals.running, model.totals.slots);
    let used = if slots == 0 { 0.0 } else { (f64::from(running) / f64::from(slots)).min(1.0) };
    let full = slots > 0 && running >= slots;
    LineGauge::default()
        .ratio(used)
        .label(format!("{running} of {slots} slots"))
        .filled_symbol("█")
        .unfilled_symbol("░")
        .filled_style(if full { CARE } else { Style::new().fg(Color::Green) })
        .unfilled_style(DIM)
        .render(place, frame);
}

fn table(model: &mut QueueModel, place: Rect, frame: &mut Buffer) {
    let found = columns(&model.shares, place.width.into());
    model.shown = found.iter().map(|(column, _)| *column).collect();
    model.page = usize::from(place.height.saturating_sub(1)).max(1);
    model.fit();
    if model.shares.is_empty() {
        if model.stale.is_none() {
            let nobody = fit("no client yet", place.width.into());
            Text(Rect { height: place.height.min(1), ..place }, Line::styled(nobody, DIM)).render_in(frame);
        }
        return;
    }
    let cell = |column: Column, text: String| {
        let line = Line::raw(text);
        Cell::from(if column.is_number() { line.right_aligned() } else { line })
    };
    let head = found.iter().map(|&(column, _)| {
        let sign =
            if column == model.sorted { if column == Column::Client { "▲" } else { "▼" } } else { "" };
        cell(column, format!("{}{sign}", column.head()))
    });
    let shown = model.shares.iter().skip(model.top).take(model.page);
    let rows = shown.map(|share| {
        let cells = found.iter().map(|&(column, wide)| match column {
            Column::Client => cell(column, fit_name(share.line.client.as_str(), wide)),
            _ => cell(column, column.cell(share)),
        });
        let line = &share.line;
        let style = match (line.parked, line.running, line.queued) {
            (true, ..) => CARE,
            (false, 0, 0) => DIM,
            (false, 0, _) => Style::new(),
            (false, ..) => BOLD,
        };
        Row::new(cells.collect::<Vec<_>>()).style(style)
    });
    let side = |cells: usize| u16::try_from(cells).unwrap_or(u16::MAX);
    let table = Table::new(
        rows.collect::<Vec<_>>(),
        found.iter().map(|&(_, wide)| Constraint::Length(side(wide))).collect::<Vec<_>>(),
    );
    let table = table.header(Row::new(head.collect::<Vec<_>>()).style(DIM)).column_spacing(GAP as u16);
    Widget::render(table, place, frame);
}

fn footer(model: &QueueModel, place: Rect) -> Text<'static> {
    let all = model.shares.len();
    let last = (model.top + model.page).min(all);
    let shown =
        if last - model.top < all { format!("{}-{last} of {all}", model.top + 1) } else { String::new() };
    let room = usize::from(place.width);
    let keys =
        if shown.is_empty() { "q quits  s sorts" } else { "q quits  s sorts  ↑↓ PgUp PgDn scroll" };
    let gap = room.saturating_sub(width(keys) + width(&shown)).max(2);
    Text(place, Line::styled(fit(&format!("{keys}{}{shown}", " ".repeat(gap)), room), DIM))
}
