//! `{{ NODE.address }}` in parameters: the callback address of a wait, filled in just before a call.

use serde_json::Value;

use super::{Kind, Node, RENDER_TOOL, TEST_TOOL, model_of_tool};
use crate::id::is_name;

const FIELD: &str = ".address";

/// One mention of an address in a text: its byte range, and the node.
struct Mention<'t> {
    start: usize,
    end: usize,
    node: &'t str,
}

fn mentions(text: &str) -> impl Iterator<Item = Mention<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text[from..].find("{{")?;
            let end = start + 2 + text[start + 2..].find("}}")? + 2;
            // In `{{{ x }}`, the name follows the last pair of braces.
            let start = start + text[start..end].rfind("{{").unwrap_or(0);
            from = end;
            let node = text[start + 2..end - 2].trim().strip_suffix(FIELD).filter(|node| is_name(node));
            if let Some(node) = node {
                return Some(Mention { start, end, node });
            }
        }
    })
}

/// Calls `found` for each node whose address the texts of a value mention.
pub(crate) fn mentioned(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) if text.contains(FIELD) => mentions(text).for_each(|mention| found(mention.node)),
        Value::Array(items) => items.iter().for_each(|item| mentioned(item, found)),
        Value::Object(members) => members.values().for_each(|member| mentioned(member, found)),
        _ => {}
    }
}

/// Replaces each mention for which `address` has one.
pub(crate) fn fill(value: &mut Value, address: &mut dyn FnMut(&str) -> Option<String>) {
    match value {
        Value::String(text) if text.contains(FIELD) => {
            let (mut filled, mut from) = (String::new(), 0);
            for Mention { start, end, node } in mentions(text) {
                let Some(address) = address(node) else { continue };
                filled.push_str(&text[from..start]);
                filled.push_str(&address);
                from = end;
            }
            if from > 0 {
                filled.push_str(&text[from..]);
                *text = filled;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, address)),
        Value::Object(members) => members.values_mut().for_each(|member| fill(member, address)),
        _ => {}
    }
}

/// Why a node cannot send an address out; `None`: it can. What such a node is given, or says, is recorded or shown to others.
pub(crate) fn cannot_send(node: &Node) -> Option<&'static str> {
    match node.tool.as_deref() {
        None => Some("only a node that calls a tool can send an address out"),
        Some(TEST_TOOL) => Some("the command line of a program is shown to others on this machine"),
        Some(RENDER_TOOL) => Some("a rendered text is recorded, and an address is not"),
        Some(tool) if model_of_tool(tool).is_some() => Some("what a model is told is recorded"),
        Some(_) if node.kind != Kind::Tool => Some("what an agent is told is recorded"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mentions_are_replaced_and_everything_else_stays() {
        let check = |text: &str, expected: &str| {
            let mut value = json!({"a": [text, 1]});
            fill(&mut value, &mut |node| (node == "pay").then(|| "http://h/x".to_owned()));
            assert_eq!(value, json!({"a": [expected, 1]}), "{text}");
        };
        check("{{ pay.address }}", "http://h/x");
        check("to {{pay.address}}, and {{ pay.address }}.", "to http://h/x, and http://h/x.");
        check("{{{ pay.address }}}", "{http://h/x}");
        for same in
            ["{{ other.address }}", "{{ pay.address", "pay.address }}", "{{ pay.id }}", "{{ .address }}", ""]
        {
            check(same, same);
        }
        check("{{ x }} ü {{ pay.address }} {{ y }}", "{{ x }} ü http://h/x {{ y }}");
    }
}
