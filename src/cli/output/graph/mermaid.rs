//! The graph of a run as a flowchart of mermaid.

use ostler_server::wire::GraphView;

use super::{CRITICAL, Drawing};

/// The graph as a flowchart. Outputs have two outlines; the critical path is thick.
pub(crate) fn mermaid(graph: &GraphView) -> String {
    let drawing = Drawing::of(graph);
    let mut text = "flowchart TD\n".to_owned();
    for (at, shape) in drawing.shapes.iter().enumerate() {
        let lines: Vec<String> = shape.lines.iter().map(|line| escaped(line)).collect();
        let (open, close) = if shape.is_output { ("[[", "]]") } else { ("[", "]") };
        let path =
            if shape.is_critical { format!(",stroke:{CRITICAL},stroke-width:3px") } else { String::new() };
        text += &format!("  n{at}{open}\"{}\"{close}\n", lines.join("<br/>"));
        text += &format!("  style n{at} fill:{}{path}\n", shape.fill);
    }
    for arrow in &drawing.arrows {
        let line = if arrow.on_terminal { "-.->" } else { "-->" };
        text += &format!("  n{} {line} n{}\n", arrow.from, arrow.to);
    }
    for (at, _) in drawing.arrows.iter().enumerate().filter(|(_, arrow)| arrow.is_critical) {
        text += &format!("  linkStyle {at} stroke:{CRITICAL},stroke-width:3px\n");
    }
    text
}

/// All but letters, digits and harmless marks become entities of mermaid: their decimal numbers.
fn escaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            letter if letter.is_control() => text.push(' '),
            letter if letter.is_alphanumeric() || " _.,/:-()*".contains(letter) => text.push(letter),
            letter => text += &format!("#{};", u32::from(letter)),
        }
    }
    text
}
