//! Which parameters hold paths or URLs, by the schema of their tool: whatever could be held against a value counts.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::contract::{SchemaError, Subschema, compile_schema, schema_graph};

/// The formats that the gate judges values by.
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

/// The subschemas of a tool's parameters, each with what it leads to.
pub(super) struct SchemaGraph(Vec<SchemaNode>);

/// One of them.
struct SchemaNode {
    paths: bool,
    uris: bool,
    leads: Vec<(AppliesTo, usize)>,
}

/// What a subschema is about, as seen from the one that leads to it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AppliesTo {
    /// The same value.
    Same,
    /// The member of this name.
    Named(String),
    /// MemberFormats whose names fit this pattern.
    Fitting(String),
    /// MemberFormats that nothing beside it is about.
    Others,
    /// The names of members.
    Names,
    /// Something else within the value.
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
    /// Reads the schema of a tool's parameters.
    ///
    /// # Errors
    ///
    /// It leads somewhere that is not known.
    pub(super) fn of(schema: &Value) -> Result<SchemaGraph, SchemaError> {
        Ok(SchemaGraph(schema_graph(schema, SchemaNode::of)?))
    }

    /// Which parameters hold something of this format.
    ///
    /// # Errors
    ///
    /// It cannot be told from the values.
    pub(super) fn params_with(&self, format: Format) -> Result<FormatParams, SchemaError> {
        let says = self.saying(format);
        let mut places = Vec::new();
        for at in self.of_all_parameters() {
            let members = MemberFormats::of(&self.0[at].leads, &says, format)?;
            places.extend(Some(members).filter(MemberFormats::hold_any));
        }
        Ok(FormatParams(places))
    }

    /// Which subschemas say so, or lead to one that does.
    fn saying(&self, format: Format) -> Vec<bool> {
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

    /// The subschemas that all parameters together may be held against.
    fn of_all_parameters(&self) -> BTreeSet<usize> {
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

/// The parameters that hold something of one format.
pub(super) struct FormatParams(Vec<MemberFormats>);

impl FormatParams {
    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a parameter is one of them.
    pub(super) fn have(&self, name: &str) -> bool {
        self.0.iter().any(|members| members.hold(name))
    }
}

/// What one subschema says of the members of a map.
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

    fn hold_any(&self) -> bool {
        self.others || self.named.values().any(|says| *says) || self.fitting.iter().any(|(_, says)| *says)
    }

    fn hold(&self, name: &str) -> bool {
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

/// Whether a format stands anywhere within a schema.
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
