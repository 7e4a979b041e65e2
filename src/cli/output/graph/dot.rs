//! The graph of a run for graphviz.

use ostler::finding::harmless;
use ostler_server::wire::GraphView;

use super::{CRITICAL, Drawing};

/// The graph in the dot language. Outputs have two outlines; the critical path is thick.
pub(crate) fn dot(graph: &GraphView) -> String {
    let drawing = Drawing::of(graph);
    let mut text = format!("digraph {} {{\n  node [shape=box, style=filled]\n", quoted(&[drawing.title]));
    for (at, shape) in drawing.shapes.iter().enumerate() {
        let output = if shape.is_output { ", peripheries=2" } else { "" };
        let path =
            if shape.is_critical { format!(", color=\"{CRITICAL}\", penwidth=3") } else { String::new() };
        let (label, fill) = (quoted(&shape.lines), shape.fill);
        text += &format!("  n{at} [label={label}, fillcolor=\"{fill}\"{output}{path}]\n");
    }
    for arrow in &drawing.arrows {
        let mut style = Vec::new();
        if arrow.on_terminal {
            style.push("style=dashed".to_owned());
        }
        if arrow.is_critical {
            style.push(format!("color=\"{CRITICAL}\", penwidth=3"));
        }
        let style = if style.is_empty() { String::new() } else { format!(" [{}]", style.join(", ")) };
        text += &format!("  n{} -> n{}{style}\n", arrow.from, arrow.to);
    }
    text + "}\n"
}

/// A quoted text of dot. Backslashes are doubled, because labels read them as escapes.
fn quoted(lines: &[String]) -> String {
    let mut text = "\"".to_owned();
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            text.push_str("\\n");
        }
        for letter in line.chars() {
            match letter {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                // Labels read entities.
                '&' => text.push_str("&amp;"),
                letter if letter.is_control() => text.push(' '),
                letter => text.push(harmless(letter)),
            }
        }
    }
    text.push('"');
    text
}
