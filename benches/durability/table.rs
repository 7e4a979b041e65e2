//! The table of figures.

use std::fmt;

/// Name and function of a group of figures.
pub(crate) type Group = (&'static str, fn() -> Vec<Row>);

/// Requirement on a figure.
#[derive(Clone, Copy)]
pub(crate) enum Must {
    Least(f64),
    Most(f64),
    /// No requirement.
    Nothing,
}

/// One figure.
pub(crate) struct Row {
    figure: String,
    must: Must,
    aim: Option<f64>,
    measured: f64,
    unit: &'static str,
    /// Details of the measurement.
    note: String,
}

impl Row {
    pub(crate) fn new(
        figure: impl Into<String>,
        must: Must,
        aim: impl Into<Option<f64>>,
        measured: f64,
    ) -> Row {
        Row { figure: figure.into(), must, aim: aim.into(), measured, unit: "", note: String::new() }
    }

    pub(crate) fn unit(self, unit: &'static str) -> Row {
        Row { unit, ..self }
    }

    pub(crate) fn note(self, note: impl Into<String>) -> Row {
        Row { note: note.into(), ..self }
    }

    fn misses(&self) -> bool {
        match self.must {
            Must::Least(least) => self.measured < least,
            Must::Most(most) => self.measured > most,
            Must::Nothing => false,
        }
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
    println!("| {:<66} | {:>10} | {:>8} | {:>10} | made of |", "figure", "must", "aim", "measured");
    println!("|:{:-<66}-|-{:->10}:|-{:->8}:|-{:->10}:|:--------|", "", "", "", "");
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

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let must = match self.must {
            Must::Least(least) => format!("≥ {}", self.told(least)),
            Must::Most(most) => format!("≤ {}", self.told(most)),
            Must::Nothing => String::new(),
        };
        let aim = self.aim.map(|aim| self.told(aim)).unwrap_or_default();
        let measured = self.told(self.measured);
        write!(f, "| {:<66} | {must:>10} | {aim:>8} | {measured:>10} | {} |", self.figure, self.note)
    }
}

impl Row {
    fn told(&self, number: f64) -> String {
        let digits = if number.abs() < 0.1 {
            4
        } else if number.abs() < 10.0 {
            2
        } else {
            0
        };
        let text = format!("{number:.digits$}");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        if self.unit.is_empty() { text.to_owned() } else { format!("{text} {}", self.unit) }
    }
}

/// The median.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// The range without the extreme tenth.
pub(crate) fn range(numbers: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_unstable_by(f64::total_cmp);
    let cut = numbers.len() / 20;
    (numbers[cut], numbers[numbers.len() - 1 - cut])
}
