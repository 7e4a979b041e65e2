//! Line plots as SVG. Colours are classes of the page's style sheet, so that they follow its light and dark scheme.

use std::fmt::Write;

/// A line of a plot.
pub(super) struct Series {
    pub(super) name: String,
    /// Number of its colour and marker.
    pub(super) style: usize,
    pub(super) points: Vec<(f64, f64)>,
}

/// A plot.
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    /// What the horizontal axis counts, such as `tools`.
    pub(super) x: &'a str,
    pub(super) unit: &'a str,
    pub(super) series: Vec<Series>,
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// Most steps of an axis.
const STEPS_MAX: f64 = 6.0;

impl Plot<'_> {
    /// The plot as a figure of a page. Texts must be free of markup.
    pub(super) fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let x_most = all().map(|point| point.0).fold(1.0, f64::max);
        let step = nice_step(all().map(|point| point.1).fold(0.0, f64::max));
        let y_most = step * (all().map(|point| point.1).fold(0.0, f64::max) / step).ceil().max(1.0);
        let x = |value: f64| LEFT + value / x_most * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - value / y_most * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            self.title, self.title
        );
        for at in 0..=(y_most / step).round() as u32 {
            let value = f64::from(at) * step;
            let line = y(value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{line:.1}\" y2=\"{line:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                line + 4.0,
                short(value)
            );
        }
        for value in (0..=x_most as u32).step_by(if x_most > 10.0 { 2 } else { 1 }) {
            let (at, below) = (x(f64::from(value)), HEIGHT - BOTTOM + 18.0);
            let _ = write!(
                svg,
                "<text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{below}\">{value}</text>"
            );
        }
        let _ = write!(
            svg,
            "<text class=\"axis\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>\
             <text class=\"axis\" text-anchor=\"middle\" transform=\"translate(14 {}) rotate(-90)\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            HEIGHT - 8.0,
            self.x,
            f64::midpoint(TOP, HEIGHT - BOTTOM),
            self.unit
        );
        for series in &self.series {
            draw(&mut svg, series, (&x, &y), (self.x, self.unit));
        }
        svg + "</svg></figure>"
    }
}

/// Places of a value in the plot.
type Axes<'a> = (&'a dyn Fn(f64) -> f64, &'a dyn Fn(f64) -> f64);

fn draw(svg: &mut String, series: &Series, (x, y): Axes<'_>, (counted, unit): (&str, &str)) {
    let Series { name, style, points } = series;
    let path: Vec<String> =
        points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
    let _ = write!(svg, "<g class=\"s{style}\"><polyline points=\"{}\"/>", path.join(" "));
    for point in points {
        let (at, value) = (marker(*style, x(point.0), y(point.1)), short(point.1));
        let _ = write!(svg, "<g>{at}<title>{name}, {} {counted}: {value} {unit}</title></g>", point.0);
    }
    svg.push_str("</g>");
}

/// Colours and markers of the style sheet.
const STYLES: usize = 7;

/// Rules of the style sheet that colour lines and markers by their number.
pub(super) fn styles() -> String {
    let mut style = String::new();
    for number in 0..STYLES {
        let _ = writeln!(
            style,
            ".s{number} polyline {{ stroke: var(--s{number}); }} .s{number} circle, .s{number} polygon {{ fill: var(--s{number}); }}"
        );
    }
    style
}

/// The line of a legend.
pub(super) fn legend(style: usize, name: &str) -> String {
    format!(
        "<span class=\"key s{style}\"><svg viewBox=\"0 0 30 12\" width=\"30\" height=\"12\"><polyline points=\"1,6 29,6\"/>{}</svg>{name}</span>",
        marker(style, 15.0, 6.0)
    )
}

/// Markers differ in form, as colours alone do not tell lines apart for everybody.
fn marker(style: usize, x: f64, y: f64) -> String {
    let corners = |corners: &[(f64, f64)]| {
        let points: Vec<String> =
            corners.iter().map(|corner| format!("{:.1},{:.1}", x + corner.0, y + corner.1)).collect();
        format!("<polygon points=\"{}\"/>", points.join(" "))
    };
    match style % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>"),
        1 => corners(&[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)]),
        2 => corners(&[(0.0, -4.2), (4.0, 3.0), (-4.0, 3.0)]),
        _ => corners(&[(0.0, -4.4), (4.4, 0.0), (0.0, 4.4), (-4.4, 0.0)]),
    }
}

/// A step of 1, 2 or 5 times a power of ten.
fn nice_step(most: f64) -> f64 {
    let rough = (most / STEPS_MAX).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power).find(|step| *step >= rough).unwrap_or(rough)
}

/// A number with at most four digits and a suffix.
fn short(value: f64) -> String {
    let (scaled, suffix) = if value >= 10_000.0 { (value / 1_000.0, "k") } else { (value, "") };
    let text = format!("{scaled:.1}");
    format!("{}{suffix}", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_steps_and_at_most_seven_of_them() {
        for (most, step) in [(6.0, 1.0), (7.0, 2.0), (100.0, 20.0), (243_000.0, 50_000.0)] {
            assert!((nice_step(most) - step).abs() < 1e-9, "{most}: {}", nice_step(most));
        }
        assert!(nice_step(0.0) > 0.0);
    }

    #[test]
    fn long_numbers_are_shortened() {
        assert_eq!([0.0, 9_500.0, 12_500.0, 200_000.0].map(short), ["0", "9500", "12.5k", "200k"]);
    }
}
