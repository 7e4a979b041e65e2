//! The table of figures.

use std::fmt;

/// Name and function of a group of figures.
pub(crate) type Group = (&'static str, fn() -> Vec<Row>);

/// One figure.
pub(crate) struct Row {
    /// Name of the figure.
    pub(crate) figure: String,
    /// Maximum; `None` without a requirement.
    pub(crate) must: Option<f64>,
    /// Measured value.
    pub(crate) measured: f64,
    /// Unit; empty for a ratio.
    pub(crate) unit: &'static str,
    /// Details of the measurement.
    pub(crate) note: String,
}

impl Row {
    /// A ratio.
    pub(crate) fn ratio(figure: impl Into<String>, must: impl Into<Option<f64>>, measured: f64) -> Row {
        Row { figure: figure.into(), must: must.into(), measured, unit: "", note: String::new() }
    }

    /// Sets the unit.
    pub(crate) fn unit(self, unit: &'static str) -> Row {
        Row { unit, ..self }
    }

    /// Sets the note.
    pub(crate) fn note(self, note: impl Into<String>) -> Row {
        Row { note: note.into(), ..self }
    }

    fn misses(&self) -> bool {
        self.must.is_some_and(|must| self.measured > must)
    }
}

/// Measures the `wanted` groups, all if empty, and prints each figure immediately.
pub(crate) fn print(groups: &[Group], wanted: &[String]) {
    if let Some(unknown) = wanted.iter().find(|wanted| groups.iter().all(|(name, _)| name != wanted)) {
        let known: Vec<&str> = groups.iter().map(|(name, _)| *name).collect();
        eprintln!("no group {unknown:?}: there is {}", known.join(", "));
        std::process::exit(2);
    }
    let wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    head();
    let mut missed = Vec::new();
    for (_, rows) in groups.iter().filter(|(name, _)| wanted(name)) {
        for row in rows() {
            println!("{row}");
            if row.misses() {
                missed.push(row.figure);
            }
        }
    }
    if !missed.is_empty() {
        println!("\nmissed: {}", missed.join("; "));
    }
}

/// Prints the header.
fn head() {
    println!("| {:<62} | {:>8} | {:>10} | made of |", "figure", "must", "measured");
    println!("|:{:-<62}-|-{:->8}:|-{:->10}:|:--------|", "", "", "");
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let must = self.must.map_or_else(String::new, |must| with_unit(must, self.unit));
        let measured = with_unit(self.measured, self.unit);
        write!(f, "| {:<62} | {must:>8} | {measured:>10} | {} |", self.figure, self.note)
    }
}

/// Three significant digits, more for ratios near one.
fn with_unit(number: f64, unit: &str) -> String {
    let digits = if number.abs() < 2.0 {
        3
    } else if number.abs() < 100.0 {
        2
    } else {
        0
    };
    let text = format!("{number:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if unit.is_empty() { text.to_owned() } else { format!("{text} {unit}") }
}

/// The median.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Median of the ratios of pairs, and of each side.
pub(crate) fn ratios(pairs: &[(f64, f64)]) -> [f64; 3] {
    [
        median(pairs.iter().map(|(ours, theirs)| ours / theirs)),
        median(pairs.iter().map(|pair| pair.0)),
        median(pairs.iter().map(|pair| pair.1)),
    ]
}
