//! A tree with more nodes than rows: one line per wave or range of waves, followed by nodes in progress or
//! failed.
//!
//! A wave is a level of the graph. Waves with activity get a line of their own, most important first; the
//! waves between them share lines, as long as they are in the same phase. The rest of the rows goes to
//! single nodes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::cli::output::cells::{padded, width};
use crate::cli::output::live::draw::{
    LineBuilder, NARROW, Viewport, WAVE_BAR, WORDS, name_columns, put_bar, put_node, symbol,
};
use crate::cli::output::live::model::{DisplayState, NodeModel, RunModel};
use crate::cli::output::terminal::Style;

/// Failed nodes shown; the rest is counted.
const FAILED_MAX: usize = 8;

type Counts = BTreeMap<DisplayState, usize>;

/// Fills `rows` lines with waves and nodes.
pub(crate) fn wave_lines(model: &RunModel, viewport: &Viewport, rows: usize, lines: &mut Vec<String>) {
    let waves = waves(model);
    let matter = model.nodes().iter().filter(|node| node.state.is_notable()).count();
    let most = if rows < 3 { 0 } else { rows - matter.min(rows / 2) };
    let groups = groups(&waves, most);
    let nodes = chosen(model, rows - groups.len());
    if groups.is_empty() {
        return put_nodes(&nodes, viewport, 0, lines);
    }
    let label = groups.iter().map(|group| label(group, viewport).len()).max().unwrap_or(0);
    for group in groups {
        let counts = sum(&waves[group.clone()]);
        lines.push(wave(&padded(&self::label(&group, viewport), label), &counts, viewport));
        let within: Vec<&NodeModel> =
            nodes.iter().copied().filter(|node| group.contains(&node.level)).collect();
        put_nodes(&within, viewport, 2, lines);
    }
}

fn put_nodes(nodes: &[&NodeModel], viewport: &Viewport, indent: usize, lines: &mut Vec<String>) {
    let name = name_columns(nodes, viewport);
    for node in nodes {
        let mut line = LineBuilder::new(viewport);
        line.space(indent);
        put_node(&mut line, node, name, viewport);
        lines.push(line.end());
    }
}

fn waves(model: &RunModel) -> Vec<Counts> {
    let mut waves: Vec<Counts> = Vec::new();
    for node in model.nodes() {
        if waves.len() <= node.level {
            waves.resize_with(node.level + 1, Counts::new);
        }
        *waves[node.level].entry(node.state).or_default() += 1;
    }
    waves
}

fn sum(waves: &[Counts]) -> Counts {
    let mut sum = Counts::new();
    for (&state, &count) in waves.iter().flatten() {
        *sum.entry(state).or_default() += count;
    }
    sum
}

/// Priority of a wave for a line of its own; 0: none.
fn weight(wave: &Counts) -> u8 {
    let has = |states: &[DisplayState]| states.iter().any(|state| wave.contains_key(state));
    if has(&[DisplayState::Waiting]) {
        4
    } else if has(&[DisplayState::Running, DisplayState::Draining, DisplayState::Retrying]) {
        3
    } else if has(&[DisplayState::Failed]) {
        2
    } else {
        u8::from(wave.keys().any(|state| state.is_over()) && wave.keys().any(|state| !state.is_over()))
    }
}

/// Ended, in progress, or pending. Waves of different phases do not share a line.
fn phase(wave: &Counts) -> u8 {
    match (wave.keys().any(|state| state.is_over()), wave.keys().any(|state| !state.is_over())) {
        (true, false) => 0,
        (true, true) => 1,
        (false, _) => 2,
    }
}

/// Partitions the waves into at most `most` lines.
fn groups(waves: &[Counts], most: usize) -> Vec<RangeInclusive<usize>> {
    if most == 0 || waves.is_empty() {
        return Vec::new();
    }
    if waves.len() <= most {
        return (0..waves.len()).map(|at| at..=at).collect();
    }
    let mut heavy: Vec<usize> = (0..waves.len()).filter(|&at| weight(&waves[at]) > 0).collect();
    heavy.sort_by_key(|&at| (std::cmp::Reverse(weight(&waves[at])), at));
    heavy.truncate(most);
    loop {
        let mut alone = heavy.clone();
        alone.sort_unstable();
        let groups = apart(waves, &alone);
        if groups.len() <= most {
            return groups;
        }
        if heavy.pop().is_none() {
            return vec![0..=waves.len() - 1];
        }
    }
}

/// The waves in `alone`, ascending, get a line each; those between them share lines by phase.
fn apart(waves: &[Counts], alone: &[usize]) -> Vec<RangeInclusive<usize>> {
    let mut groups: Vec<RangeInclusive<usize>> = Vec::new();
    let mut last = None;
    for (at, wave) in waves.iter().enumerate() {
        let kind = if alone.binary_search(&at).is_ok() { None } else { Some(phase(wave)) };
        match groups.last_mut() {
            Some(group) if kind.is_some() && kind == last => *group = *group.start()..=at,
            _ => groups.push(at..=at),
        }
        last = kind;
    }
    groups
}

/// Selects nodes to show: in turn from each kind, the one longest in its state.
fn chosen(model: &RunModel, most: usize) -> Vec<&NodeModel> {
    const KINDS: [&[DisplayState]; 5] = [
        &[DisplayState::Waiting],
        &[DisplayState::Draining, DisplayState::Running],
        &[DisplayState::Failed],
        &[DisplayState::Retrying],
        &[DisplayState::Held],
    ];
    let mut kinds: Vec<Vec<&NodeModel>> = KINDS
        .iter()
        .map(|states| {
            let mut nodes: Vec<&NodeModel> =
                model.nodes().iter().filter(|node| states.contains(&node.state)).collect();
            nodes.sort_by(|a, b| (a.since_ms, &a.name).cmp(&(b.since_ms, &b.name)));
            if states.contains(&DisplayState::Failed) {
                nodes.truncate(FAILED_MAX);
            }
            // Nodes are popped from the end.
            nodes.reverse();
            nodes
        })
        .collect();
    let mut chosen = Vec::new();
    while chosen.len() < most && kinds.iter().any(|kind| !kind.is_empty()) {
        for kind in &mut kinds {
            if chosen.len() < most {
                chosen.extend(kind.pop());
            }
        }
    }
    chosen.sort_by(|a, b| (a.level, &a.name).cmp(&(b.level, &b.name)));
    chosen
}

fn label(group: &RangeInclusive<usize>, viewport: &Viewport) -> String {
    let (from, to) = (group.start() + 1, group.end() + 1);
    let numbers = if from == to { format!("{from}") } else { format!("{from}-{to}") };
    match (viewport.columns < NARROW, from == to) {
        (true, _) => numbers,
        (false, true) => format!("wave {numbers}"),
        (false, false) => format!("waves {numbers}"),
    }
}

fn wave(label: &str, counts: &Counts, viewport: &Viewport) -> String {
    let of = |state| counts.get(&state).copied().unwrap_or(0);
    let all: usize = counts.values().sum();
    let over: usize = counts.iter().filter(|(state, _)| state.is_over()).map(|(_, count)| count).sum();
    let mut line = LineBuilder::new(viewport);
    line.put(Style::Plain, label).space(2);
    if viewport.columns >= NARROW {
        put_bar(&mut line, WAVE_BAR, of(DisplayState::Executed) + of(DisplayState::Skipped), over, all);
        line.space(2);
    }
    let in_words = viewport.columns >= WORDS;
    let executed = if in_words { " executed" } else { "" };
    line.put(Style::Plain, &format!("{}/{all}{executed}", of(DisplayState::Executed)));
    for state in DisplayState::ALL {
        if matches!(state, DisplayState::Executed | DisplayState::Ready | DisplayState::Pending)
            || of(state) == 0
        {
            continue;
        }
        let (style, sign) = symbol(state, viewport.frame);
        let text = if in_words {
            format!("{} {}", of(state), state.as_str())
        } else {
            format!("{sign}{}", of(state))
        };
        let between = if in_words { ", " } else { " " };
        if width(between) + width(&text) > line.room() {
            break;
        }
        line.put(Style::Plain, between).put(style, &text);
    }
    line.end()
}
