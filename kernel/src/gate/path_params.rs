//! Finds the parameters that hold paths or URLs in a tool's schema.
//!  
//! The search over-approximates: a parameter counts if any subschema that may apply to the parameter has the format. A
//! missed parameter would bypass the path and egress checks, whereas a needless check only denies odd values.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::contract::{SchemaError, Subschema, compile_schema, schema_graph};

/// Formats with a check of their own in the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Path,
    Uri,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Path => "path",
            Format::Uri => "uri",
        }
    }
}

/// The subschemas of a tool's parameters as a graph: node 0 is the whole schema, edges are keywords and references.
pub(super) struct SchemaGraph(Vec<SchemaNode>);

struct SchemaNode {
    paths: bool,
    uris: bool,
    leads: Vec<(AppliesTo, usize)>,
}

/// Place that a subschema describes, relative to the schema with the edge.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AppliesTo {
    /// The same value.
    Same,
    /// The named member.
    Named(String),
    /// Members with a name matching the pattern.
    Fitting(String),
    /// Members that no sibling keyword covers.
    Others,
    /// The names of members.
    Names,
    /// Another place within the value.
    Within,
}

impl SchemaNode {
    fn of(subschema: &Subschema<'_>) -> SchemaNode {
        let about = |keyword: &str, name: Option<&str>| match (keyword, name) {
            ("properties", Some(name)) => AppliesTo::Named(name.to_owned()),
            ("patternProperties", Some(pattern)) => AppliesTo::Fitting(pattern.to_owned()),
            ("additionalProperties" | "unevaluatedProperties", _) => AppliesTo::Others,
            ("propertyNames", _) => AppliesTo::Names,
            _ => AppliesTo::Within,
        };
        let leads = subschema.edges.iter().map(|lead| {
            let about =
                if lead.is_of_same_value() { AppliesTo::Same } else { about(lead.keyword, lead.name) };
            (about, lead.to)
        });
        let says = |format: Format| says(subschema.schema, format.name());
        SchemaNode { paths: says(Format::Path), uris: says(Format::Uri), leads: leads.collect() }
    }

    fn says(&self, format: Format) -> bool {
        match format {
            Format::Path => self.paths,
            Format::Uri => self.uris,
        }
    }
}

impl SchemaGraph {
    /// Builds the graph of a schema.
    ///  
    /// # Errors
    ///  
    /// A reference cannot be resolved.
    pub(super) fn of(schema: &Value) -> Result<SchemaGraph, SchemaError> {
        Ok(SchemaGraph(schema_graph(schema, SchemaNode::of)?))
    }

    /// Parameters with a possible value of the format.
    ///  
    /// First marks every node with the format, and every node leading to a marked one. Then takes the nodes for the parameter
    /// object itself and collects their members that lead to a marked node.
    ///  
    /// # Errors
    ///  
    /// The format applies to parameter names, which the gate does not check.
    pub(super) fn params_with(&self, format: Format) -> Result<FormatParams, SchemaError> {
        let says = self.marked(format);
        let mut params = Vec::new();
        for at in self.root_nodes() {
            let members = MemberFormats::of(&self.0[at].leads, &says, format)?;
            params.extend(Some(members).filter(MemberFormats::any));
        }
        Ok(FormatParams(params))
    }

    /// Marks the nodes with the format and all nodes leading there, by a search along reversed edges.
    fn marked(&self, format: Format) -> Vec<bool> {
        let mut from = vec![Vec::new(); self.0.len()];
        for (at, part) in self.0.iter().enumerate() {
            part.leads.iter().for_each(|(_, to)| from[*to].push(at));
        }
        let mut says = vec![false; self.0.len()];
        let mut open: Vec<usize> = (0..self.0.len()).filter(|&at| self.0[at].says(format)).collect();
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut says[at], true) {
                open.extend(&from[at]);
            }
        }
        says
    }

    fn root_nodes(&self) -> BTreeSet<usize> {
        let (mut found, mut open) = (BTreeSet::new(), vec![0]);
        while let Some(at) = open.pop() {
            if found.insert(at) {
                let leads = self.0[at].leads.iter();
                open.extend(leads.filter(|(about, _)| *about == AppliesTo::Same).map(|(_, to)| *to));
            }
        }
        found
    }
}

pub(super) struct FormatParams(Vec<MemberFormats>);

impl FormatParams {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|members| members.contains(name))
    }
}

#[derive(Default)]
struct MemberFormats {
    named: BTreeMap<String, bool>,
    fitting: Vec<(Validator, bool)>,
    others: bool,
}

impl MemberFormats {
    fn of(leads: &[(AppliesTo, usize)], says: &[bool], format: Format) -> Result<MemberFormats, SchemaError> {
        let mut members = MemberFormats::default();
        for (about, to) in leads {
            let says = says[*to];
            match about {
                AppliesTo::Named(name) => drop(members.named.insert(name.clone(), says)),
                AppliesTo::Fitting(pattern) => {
                    let fits = compile_schema(&json!({ "pattern": pattern }))?.validator;
                    members.fitting.push((fits, says));
                }
                AppliesTo::Others => members.others |= says,
                AppliesTo::Names if says => return Err(SchemaError::JudgedNames { format: format.name() }),
                AppliesTo::Names | AppliesTo::Same | AppliesTo::Within => {}
            }
        }
        Ok(members)
    }

    fn any(&self) -> bool {
        self.others || self.named.values().any(|says| *says) || self.fitting.iter().any(|(_, says)| *says)
    }

    fn contains(&self, name: &str) -> bool {
        let named = self.named.get(name).copied();
        if self.fitting.is_empty() {
            return named.unwrap_or(self.others);
        }
        let text = Value::from(name);
        let mut fitting = self.fitting.iter().filter(|(fits, _)| fits.is_valid(&text)).peekable();
        let others = self.others && named.is_none() && fitting.peek().is_none();
        named == Some(true) || others || fitting.any(|(_, says)| *says)
    }
}

/// True if the format occurs anywhere within a schema.
fn says(schema: &Value, format: &str) -> bool {
    match schema {
        Value::Object(members) => {
            members.get("format").and_then(Value::as_str) == Some(format)
                || members.values().any(|inner| says(inner, format))
        }
        Value::Array(items) => items.iter().any(|inner| says(inner, format)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
