//! A tree that has more nodes than the screen has rows: a line for each wave, or for several, and beneath it
//! the nodes that matter now.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::board::{Board, Node, State};
use super::draw::{Line, Look, NARROW, WAVE_BAR, WORDS, name_columns, put_bar, put_node, signed};
use crate::cli::cells::{padded, width};
use crate::cli::term::Paint;

/// Failed nodes that are shown: the rest is counted.
const FAILED_MAX: usize = 8;

/// How many nodes stand where, by state.
type Counts = BTreeMap<State, usize>;

/// Puts the nodes into so many lines.
pub(super) fn folded(board: &Board, look: &Look, rows: usize, lines: &mut Vec<String>) {
    let waves = waves(board);
    let matter = board.nodes().iter().filter(|node| node.state.matters()).count();
    let most = if rows < 3 { 0 } else { rows - matter.min(rows / 2) };
    let groups = groups(&waves, most);
    let nodes = chosen(board, rows - groups.len());
    if groups.is_empty() {
        return put_nodes(&nodes, look, 0, lines);
    }
    let label = groups.iter().map(|group| label(group, look).len()).max().unwrap_or(0);
    for group in groups {
        let counts = sum(&waves[group.clone()]);
        lines.push(wave(&padded(&self::label(&group, look), label), &counts, look));
        let within: Vec<&Node> = nodes.iter().copied().filter(|node| group.contains(&node.level)).collect();
        put_nodes(&within, look, 2, lines);
    }
}

fn put_nodes(nodes: &[&Node], look: &Look, indent: usize, lines: &mut Vec<String>) {
    let name = name_columns(nodes, look);
    for node in nodes {
        let mut line = Line::new(look);
        line.space(indent);
        put_node(&mut line, node, name, look);
        lines.push(line.end());
    }
}

/// The counts of each level.
fn waves(board: &Board) -> Vec<Counts> {
    let mut waves: Vec<Counts> = Vec::new();
    for node in board.nodes() {
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

/// How much a wave deserves a line of its own. 0: nothing of it goes on, or went wrong.
fn weight(wave: &Counts) -> u8 {
    let has = |states: &[State]| states.iter().any(|state| wave.contains_key(state));
    if has(&[State::Waiting]) {
        4
    } else if has(&[State::Running, State::Draining, State::Retrying]) {
        3
    } else if has(&[State::Failed]) {
        2
    } else {
        u8::from(wave.keys().any(|state| state.is_over()) && wave.keys().any(|state| !state.is_over()))
    }
}

/// Whether it is all over, in progress, or to come: what differs in this is not folded into one line.
fn phase(wave: &Counts) -> u8 {
    match (wave.keys().any(|state| state.is_over()), wave.keys().any(|state| !state.is_over())) {
        (true, false) => 0,
        (true, true) => 1,
        (false, _) => 2,
    }
}

/// Waves that share a line, in no more than `most` lines.
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

/// The waves in `alone`, ascending, each for itself, and those between them by phase.
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

/// The nodes that are shown: of each kind that matters in turn the one that stands longest in its state.
fn chosen(board: &Board, most: usize) -> Vec<&Node> {
    const KINDS: [&[State]; 5] = [
        &[State::Waiting],
        &[State::Draining, State::Running],
        &[State::Failed],
        &[State::Retrying],
        &[State::Held],
    ];
    let mut kinds: Vec<Vec<&Node>> = KINDS
        .iter()
        .map(|states| {
            let mut nodes: Vec<&Node> =
                board.nodes().iter().filter(|node| states.contains(&node.state)).collect();
            nodes.sort_by(|a, b| (a.since_ms, &a.name).cmp(&(b.since_ms, &b.name)));
            if states.contains(&State::Failed) {
                nodes.truncate(FAILED_MAX);
            }
            // They are taken from the end.
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

fn label(group: &RangeInclusive<usize>, look: &Look) -> String {
    let (from, to) = (group.start() + 1, group.end() + 1);
    let numbers = if from == to { format!("{from}") } else { format!("{from}-{to}") };
    match (look.columns < NARROW, from == to) {
        (true, _) => numbers,
        (false, true) => format!("wave {numbers}"),
        (false, false) => format!("waves {numbers}"),
    }
}

/// The line of one or more waves.
fn wave(label: &str, counts: &Counts, look: &Look) -> String {
    let of = |state| counts.get(&state).copied().unwrap_or(0);
    let all: usize = counts.values().sum();
    let over: usize = counts.iter().filter(|(state, _)| state.is_over()).map(|(_, count)| count).sum();
    let mut line = Line::new(look);
    line.put(Paint::Plain, label).space(2);
    if look.columns >= NARROW {
        put_bar(&mut line, WAVE_BAR, of(State::Executed) + of(State::Skipped), over, all);
        line.space(2);
    }
    let in_words = look.columns >= WORDS;
    let executed = if in_words { " executed" } else { "" };
    line.put(Paint::Plain, &format!("{}/{all}{executed}", of(State::Executed)));
    for state in State::ALL {
        if matches!(state, State::Executed | State::Ready | State::Pending) || of(state) == 0 {
            continue;
        }
        let (paint, sign) = signed(state, look.beat);
        let text =
            if in_words { format!("{} {}", of(state), state.word()) } else { format!("{sign}{}", of(state)) };
        let between = if in_words { ", " } else { " " };
        if width(between) + width(&text) > line.room() {
            break;
        }
        line.put(Paint::Plain, between).put(paint, &text);
    }
    line.end()
}
