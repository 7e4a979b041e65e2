//! A tool as its server describes it, within bounds, and the digest that pins the description.

use std::fmt;
use std::sync::Arc;

use ostler_kernel::contract::check_schema;
use ostler_kernel::id::Digest;
use ostler_kernel::json;
use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::class::Annotations;

/// Longest name of a tool, in bytes.
pub const MCP_TOOL_NAME_BYTES_MAX: usize = 128;
/// Longest description of a tool, in bytes.
pub const MCP_DESCRIPTION_BYTES_MAX: usize = 16 << 10;
/// Deepest nesting of a schema.
pub const MCP_SCHEMA_DEPTH_MAX: usize = 32;

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Name of the tool at the server.
    pub name: String,
    /// The description for models.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the parameters.
    pub input: Arc<Map<String, Value>>,
    /// JSON Schema of the structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Map<String, Value>>>,
    /// Claims of the server about the tool.
    #[serde(default)]
    pub annotations: Annotations,
}

impl Definition {
    /// Converts a listed tool, and checks the bounds.
    ///
    /// # Errors
    ///
    /// The bound that the tool exceeds, as a sentence without a full stop.
    pub(super) fn of(tool: Tool) -> Result<Definition, String> {
        let Tool { name, description, input_schema: input, output_schema: output, annotations, .. } = tool;
        let description = description.unwrap_or_default().into_owned();
        let annotations = annotations.map_or(Annotations::default(), |said| Annotations {
            read_only_hint: said.read_only_hint,
            destructive_hint: said.destructive_hint,
            idempotent_hint: said.idempotent_hint,
            open_world_hint: said.open_world_hint,
        });
        let definition = Definition { name: name.into_owned(), description, input, output, annotations };
        definition.check()?;
        Ok(definition)
    }

    /// Checks the bounds.
    ///
    /// # Errors
    ///
    /// The bound that the tool exceeds, as a sentence without a full stop.
    pub(super) fn check(&self) -> Result<(), String> {
        if !is_tool_name(&self.name) {
            return Err(format!(
                "a name has 1 to {MCP_TOOL_NAME_BYTES_MAX} letters, digits and characters of _-./"
            ));
        }
        if self.description.len() > MCP_DESCRIPTION_BYTES_MAX {
            return Err(format!("its description has more than {MCP_DESCRIPTION_BYTES_MAX} bytes"));
        }
        check_bounds("input schema", &self.input)?;
        self.output.as_ref().map_or(Ok(()), |output| check_bounds("output schema", output))?;
        match self.input.get("type") {
            Some(kind) if kind != "object" => Err("its input schema describes no object".to_owned()),
            Some(_) | None => Ok(()),
        }
    }

    /// Digest over name, description, schemas and annotations.
    pub fn digest(&self) -> Digest {
        let document = json!({
            "name": self.name, "description": self.description, "input": *self.input, "output": self.output,
            "annotations": self.annotations,
        });
        // Every definition passed `check_bounds`, or was written by this program.
        let text =
            json::canonical(&document).map_or_else(|_| document.to_string(), |text| text.as_str().to_owned());
        Digest(*blake3::hash(text.as_bytes()).as_bytes())
    }
}

fn check_bounds(what: &str, schema: &Arc<Map<String, Value>>) -> Result<(), String> {
    let schema = Value::Object((**schema).clone());
    if json::depth(&schema) > MCP_SCHEMA_DEPTH_MAX {
        return Err(format!("its {what} is nested deeper than {MCP_SCHEMA_DEPTH_MAX}"));
    }
    check_schema(&schema).map(drop).map_err(|error| format!("its {what} cannot be used: {error}"))
}

fn is_tool_name(name: &str) -> bool {
    (1..=MCP_TOOL_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte))
}

/// Difference between the accepted and the present definition of a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// A tool of the server that is not accepted.
    Added(Definition),
    /// An accepted tool with another definition now.
    Changed {
        /// The accepted definition.
        accepted: Definition,
        /// The present definition.
        now: Definition,
    },
    /// An accepted tool that the server no longer lists.
    Removed(Definition),
}

impl Difference {
    /// Differences of two lists, by tool, in the order of the names.
    pub fn between(accepted: &[Definition], now: &[Definition]) -> Vec<Difference> {
        let find = |among: &[Definition], name: &str| among.iter().find(|tool| tool.name == name).cloned();
        let mut found: Vec<Difference> = now
            .iter()
            .filter_map(|tool| match find(accepted, &tool.name) {
                None => Some(Difference::Added(tool.clone())),
                Some(known) if known.digest() == tool.digest() => None,
                Some(known) => Some(Difference::Changed { accepted: known, now: tool.clone() }),
            })
            .collect();
        let gone = accepted.iter().filter(|tool| find(now, &tool.name).is_none());
        found.extend(gone.cloned().map(Difference::Removed));
        found.sort_by(|one, other| one.tool().cmp(other.tool()));
        found
    }

    /// Name of the tool.
    pub fn tool(&self) -> &str {
        match self {
            Difference::Added(tool) | Difference::Removed(tool) => &tool.name,
            Difference::Changed { accepted, .. } => &accepted.name,
        }
    }
}

impl fmt::Display for Difference {
    /// Writes each part that differs: the accepted text after `-`, the present text after `+`. Lines of a text stand behind a bar, so
    /// that none reads as a part of the difference; control characters are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after, word) = match self {
            Difference::Added(tool) => (None, Some(tool), "added"),
            Difference::Removed(tool) => (Some(tool), None, "removed"),
            Difference::Changed { accepted, now } => (Some(accepted), Some(now), "changed"),
        };
        write!(f, "{} ({word})", self.tool())?;
        let (before, after) = (before.map(parts).unwrap_or_default(), after.map(parts).unwrap_or_default());
        for (at, name) in PARTS.iter().enumerate() {
            let (old, new) = (before.get(at), after.get(at));
            if old == new {
                continue;
            }
            for (sign, part) in [('-', old), ('+', new)] {
                if let Some(part) = part.filter(|part| !part.is_empty()) {
                    write_part(f, sign, name, part)?;
                }
            }
        }
        Ok(())
    }
}

/// A text as one line: control characters other than a tab are replaced, line breaks among them.
pub(super) fn harmless(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

fn write_part(f: &mut fmt::Formatter<'_>, sign: char, name: &str, part: &str) -> fmt::Result {
    if !part.contains('\n') {
        return write!(f, "\n  {sign} {name}: {}", harmless(part));
    }
    write!(f, "\n  {sign} {name}:")?;
    part.split('\n').try_for_each(|line| write!(f, "\n    │ {}", harmless(line)))
}

const PARTS: [&str; 4] = ["description", "input", "output", "annotations"];

fn parts(tool: &Definition) -> [String; 4] {
    let shown = |value: Value| value.to_string();
    [
        tool.description.clone(),
        shown(Value::Object((*tool.input).clone())),
        tool.output.as_ref().map(|output| shown(Value::Object((**output).clone()))).unwrap_or_default(),
        serde_json::to_value(tool.annotations).map(shown).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn tool(name: &str, more: Value) -> Tool {
        let mut tool = json!({"name": name, "inputSchema": {"type": "object"}});
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(tool).unwrap()
    }

    fn definition(name: &str, more: Value) -> Definition {
        Definition::of(tool(name, more)).unwrap()
    }

    #[test]
    fn a_tool_beyond_the_bounds_is_refused_with_its_reason() {
        let mut deep = json!({"type": "object"});
        for _ in 0..MCP_SCHEMA_DEPTH_MAX {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        let cases = [
            tool("no spaces", json!({})),
            tool(&"x".repeat(MCP_TOOL_NAME_BYTES_MAX + 1), json!({})),
            tool("wordy", json!({"description": "x".repeat(MCP_DESCRIPTION_BYTES_MAX + 1)})),
            tool("deep", json!({"inputSchema": deep})),
            tool("list", json!({"inputSchema": {"type": "array"}})),
            tool("far", json!({"inputSchema": {"$ref": "https://example.com/schema.json"}})),
            tool("lies", json!({"outputSchema": {"type": "no type"}})),
        ];
        let refused: Vec<String> = cases
            .into_iter()
            .map(|tool| Definition::of(tool).unwrap_err().chars().take(90).collect())
            .collect();
        expect![[r#"
            a name has 1 to 128 letters, digits and characters of _-./
            a name has 1 to 128 letters, digits and characters of _-./
            its description has more than 16384 bytes
            its input schema is nested deeper than 32
            its input schema describes no object
            its input schema cannot be used: schema at "": Resource 'https://example.com/schema.json' 
            its output schema cannot be used: schema at "/type": "no type" is not valid under any of t"#]]
        .assert_eq(&refused.join("\n"));
        let most = "x".repeat(MCP_TOOL_NAME_BYTES_MAX);
        assert!(
            Definition::of(tool(&most, json!({"description": "x".repeat(MCP_DESCRIPTION_BYTES_MAX)})))
                .is_ok()
        );
    }

    #[test]
    fn every_part_counts_in_the_digest() {
        let plain = definition("a", json!({}));
        for more in [
            json!({"description": "d"}),
            json!({"inputSchema": {"type": "object", "required": ["x"]}}),
            json!({"outputSchema": {"type": "object"}}),
            json!({"annotations": {"readOnlyHint": true}}),
            json!({"name": "b"}),
        ] {
            assert_ne!(definition("a", more.clone()).digest(), plain.digest(), "{more}");
        }
        assert_eq!(definition("a", json!({"title": "A", "_meta": {"x": 1}})).digest(), plain.digest());
    }

    #[test]
    fn differences_name_what_changed() {
        let accepted =
            [definition("same", json!({})), definition("old", json!({})), definition("was", json!({}))];
        let now = [
            definition("same", json!({})),
            definition(
                "was",
                json!({"description": "and now sends mail", "annotations": {"readOnlyHint": true}}),
            ),
            definition("new", json!({"description": "hello"})),
        ];
        let found = Difference::between(&accepted, &now);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        expect![[r#"
            new (added)
              + description: hello
              + input: {"type":"object"}
              + annotations: {}
            old (removed)
              - input: {"type":"object"}
              - annotations: {}
            was (changed)
              + description: and now sends mail
              - annotations: {}
              + annotations: {"readOnlyHint":true}"#]]
        .assert_eq(&shown.join("\n"));
        assert!(Difference::between(&now, &now).is_empty());
    }

    #[test]
    fn a_description_forges_no_line_of_a_difference() {
        let forged = "Adds.\n  + annotations: {\"readOnlyHint\":true}\r\nt2 (added)\u{1b}[2J";
        let now = [definition("t", json!({"description": forged}))];
        let shown = Difference::between(&[definition("t", json!({}))], &now)[0].to_string();
        expect![[r#"
            t (changed)
              + description:
                │ Adds.
                │   + annotations: {"readOnlyHint":true}�
                │ t2 (added)�[2J"#]]
        .assert_eq(&shown);
    }
}
