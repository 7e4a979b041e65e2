//! The lines of a trace: operations, fields and types.
//!
//! Every shape error is `bad_op`. Ranges that depend on the state of the queue are checked by the operation.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ostler_scheduler::{Latency, Tier};
use serde_json::{Map, Value};

const NODES_MAX: usize = 10_000;
/// Longest name, in bytes.
const NAME_MAX: usize = 64;

pub(super) enum Stated {
    Flat(i64),
    Amounts(BTreeMap<String, i64>),
}

pub(super) struct Node {
    pub(super) id: String,
    pub(super) estimate: Stated,
    pub(super) dependencies: Vec<String>,
}

/// One operation. Integers are unchecked: the queue validates their ranges.
pub(super) enum Record {
    Config(ConfigChange),
    Client {
        id: String,
        weight: Option<i64>,
        tier: Tier,
        in_flight_max: Option<u32>,
        balance: Option<i64>,
        latency: Latency,
    },
    RemoveClient {
        client: String,
    },
    Agent {
        client: String,
        id: String,
        weight: Option<i64>,
    },
    Enqueue {
        id: String,
        client: String,
        estimate: Stated,
        agent: String,
        priority: i32,
        deadline: Option<u64>,
        rank: u64,
        model: Option<String>,
    },
    Plan {
        client: String,
        agent: String,
        nodes: Vec<Node>,
    },
    Dispatch {
        n: u32,
    },
    Settle {
        id: String,
        actual: Stated,
    },
    Step {
        id: String,
        used: Stated,
    },
    Cancel {
        id: String,
    },
    Credit {
        client: String,
        amount: i64,
    },
    Weight {
        client: String,
        weight: i64,
    },
    Reputation {
        client: String,
        reputation: u16,
    },
    Tier {
        client: String,
        tier: Tier,
    },
    Advance {
        ms: u64,
    },
    Stat,
}

/// Settings of a `config` line; absent settings keep their value.
pub(super) struct ConfigChange {
    /// In the order of [`SETTINGS`].
    pub(super) settings: [Option<i64>; SETTINGS.len()],
    pub(super) capacities: Option<BTreeMap<String, i64>>,
    pub(super) models: Option<BTreeMap<String, (i64, i64)>>,
    pub(super) warp: Option<[i64; 3]>,
}

pub(super) const SETTINGS: [&str; 8] =
    ["slots", "guarantee_pm", "scale", "unit", "cost_max", "beta_pm", "rep_cap_pm", "rebase_at"];
const LATENCIES: [&str; 3] = ["interactive", "normal", "batch"];

/// Operations with their fields; `!` marks required fields.
const OPERATIONS: [(&str, &[&str]); 15] = [
    (
        "config",
        &[
            "slots",
            "guarantee_pm",
            "scale",
            "unit",
            "cost_max",
            "beta_pm",
            "rep_cap_pm",
            "rebase_at",
            "caps",
            "models",
            "warp",
        ],
    ),
    ("client", &["!id", "weight", "tier", "max_inflight", "balance", "latency"]),
    ("remove_client", &["!client"]),
    ("agent", &["!client", "!id", "weight"]),
    ("enqueue", &["!id", "!client", "!est", "agent", "prio", "deadline", "rank", "model"]),
    ("dag", &["!client", "agent", "!nodes"]),
    ("dispatch", &["n"]),
    ("settle", &["!id", "!actual"]),
    ("step", &["!id", "!used"]),
    ("cancel", &["!id"]),
    ("credit", &["!client", "!amount"]),
    ("weight", &["!client", "!weight"]),
    ("rep", &["!client", "!rep"]),
    ("tier", &["!client", "!tier"]),
    ("advance", &["!ms"]),
];
const STAT: (&str, &[&str]) = ("stat", &[]);

/// A malformed line, with the operation's name if it is known.
pub(super) struct BadShape(pub(super) Option<&'static str>);

/// A missing, unknown or mistyped field.
struct BadField;

pub(super) fn read(line: &str) -> Result<(&'static str, Record), BadShape> {
    let value: Value = serde_json::from_str(&tame_numbers(line)).map_err(|_| BadShape(None))?;
    let Value::Object(object) = value else { return Err(BadShape(None)) };
    let name = object.get("op").and_then(Value::as_str).unwrap_or_default();
    let known = OPERATIONS.iter().chain([&STAT]).find(|(operation, _)| *operation == name);
    let &(operation, fields) = known.ok_or(BadShape(None))?;
    let record = Fields::of(&object, fields, true).and_then(|fields| record(operation, &fields));
    Ok((operation, record.map_err(|BadField| BadShape(Some(operation)))?))
}

fn record(operation: &str, fields: &Fields<'_>) -> Result<Record, BadField> {
    Ok(match operation {
        "config" => Record::Config(config(fields)?),
        "client" => Record::Client {
            id: fields.name("id")?,
            weight: fields.integer("weight")?,
            tier: fields.one_of("tier", TIERS)?.unwrap_or(Tier::Marketplace),
            in_flight_max: fields.span("max_inflight", 1, 1_000_000)?.map(|cap| cap as u32),
            balance: fields.integer("balance")?,
            latency: fields
                .one_of(
                    "latency",
                    [
                        ("interactive", Latency::Interactive),
                        ("normal", Latency::Normal),
                        ("batch", Latency::Batch),
                    ],
                )?
                .unwrap_or_default(),
        },
        "remove_client" => Record::RemoveClient { client: fields.name("client")? },
        "agent" => Record::Agent {
            client: fields.name("client")?,
            id: fields.name("id")?,
            weight: fields.integer("weight")?,
        },
        "enqueue" => Record::Enqueue {
            id: fields.name("id")?,
            client: fields.name("client")?,
            estimate: fields.cost("est")?,
            agent: fields.optional_name("agent")?.unwrap_or_else(|| "-".into()),
            priority: fields.span("prio", i32::MIN.into(), i32::MAX.into())?.unwrap_or(0) as i32,
            deadline: fields.span("deadline", 0, 1 << 53)?.map(|deadline| deadline as u64),
            rank: fields.span("rank", 0, 1 << 53)?.unwrap_or(0) as u64,
            model: fields.optional_name("model")?,
        },
        "dag" => Record::Plan {
            client: fields.name("client")?,
            agent: fields.optional_name("agent")?.unwrap_or_else(|| "-".into()),
            nodes: nodes(fields.get("nodes"))?,
        },
        "dispatch" => Record::Dispatch { n: fields.span("n", 1, 1_000_000)?.unwrap_or(1) as u32 },
        "settle" => Record::Settle { id: fields.name("id")?, actual: fields.cost("actual")? },
        "step" => Record::Step { id: fields.name("id")?, used: fields.cost("used")? },
        "cancel" => Record::Cancel { id: fields.name("id")? },
        "credit" => Record::Credit {
            client: fields.name("client")?,
            amount: fields.integer("amount")?.ok_or(BadField)?,
        },
        "weight" => Record::Weight {
            client: fields.name("client")?,
            weight: fields.integer("weight")?.ok_or(BadField)?,
        },
        "rep" => Record::Reputation {
            client: fields.name("client")?,
            reputation: fields.span("rep", 0, 1000)?.ok_or(BadField)? as u16,
        },
        "tier" => Record::Tier {
            client: fields.name("client")?,
            tier: fields.one_of("tier", TIERS)?.ok_or(BadField)?,
        },
        "advance" => Record::Advance { ms: fields.span("ms", 0, 1_000_000_000)?.ok_or(BadField)? as u64 },
        _ => Record::Stat,
    })
}

const TIERS: [(&str, Tier); 2] = [("contracted", Tier::Contracted), ("marketplace", Tier::Marketplace)];

fn config(fields: &Fields<'_>) -> Result<ConfigChange, BadField> {
    let mut settings = [None; SETTINGS.len()];
    for (setting, name) in settings.iter_mut().zip(SETTINGS) {
        *setting = fields.integer(name)?;
    }
    let models = fields.map("models", |value| {
        let bucket = Fields::of(value.as_object().ok_or(BadField)?, &["!rate", "!burst"], false)?;
        Ok((bucket.integer("rate")?.ok_or(BadField)?, bucket.integer("burst")?.ok_or(BadField)?))
    })?;
    let warp = match fields.get("warp") {
        None => None,
        Some(value) => {
            let classes = Fields::of(value.as_object().ok_or(BadField)?, &LATENCIES, false)?;
            let mut warp = [0; LATENCIES.len()];
            for (class, name) in warp.iter_mut().zip(LATENCIES) {
                *class = classes.integer(name)?.unwrap_or(0);
            }
            Some(warp)
        }
    };
    Ok(ConfigChange { settings, capacities: fields.map("caps", integer)?, models, warp })
}

fn nodes(value: Option<&Value>) -> Result<Vec<Node>, BadField> {
    let list = value.and_then(Value::as_array).ok_or(BadField)?;
    if list.is_empty() || list.len() > NODES_MAX {
        return Err(BadField);
    }
    list.iter().map(node).collect()
}

fn node(value: &Value) -> Result<Node, BadField> {
    let fields = Fields::of(value.as_object().ok_or(BadField)?, &["!id", "!est", "deps"], false)?;
    let dependencies = match fields.get("deps") {
        None => Vec::new(),
        Some(value) => value.as_array().ok_or(BadField)?.iter().map(name).collect::<Result<_, _>>()?,
    };
    Ok(Node { id: fields.name("id")?, estimate: fields.cost("est")?, dependencies })
}

/// An object with known fields, all required ones present. `null` counts as absent.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn of(object: &'a Map<String, Value>, fields: &[&str], operation: bool) -> Result<Self, BadField> {
        let known = |key: &str| {
            (operation && key == "op") || fields.iter().any(|field| field.trim_start_matches('!') == key)
        };
        let found = Self(object);
        let complete =
            fields.iter().filter_map(|field| field.strip_prefix('!')).all(|field| found.get(field).is_some());
        if complete && object.keys().all(|key| known(key)) { Ok(found) } else { Err(BadField) }
    }

    fn get(&self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    fn integer(&self, field: &str) -> Result<Option<i64>, BadField> {
        self.get(field).map(integer).transpose()
    }

    fn span(&self, field: &str, min: i64, max: i64) -> Result<Option<i64>, BadField> {
        match self.integer(field)? {
            Some(found) if !(min..=max).contains(&found) => Err(BadField),
            found => Ok(found),
        }
    }

    fn optional_name(&self, field: &str) -> Result<Option<String>, BadField> {
        self.get(field).map(name).transpose()
    }

    fn name(&self, field: &str) -> Result<String, BadField> {
        self.optional_name(field)?.ok_or(BadField)
    }

    fn one_of<T: Copy, const N: usize>(
        &self,
        field: &str,
        names: [(&str, T); N],
    ) -> Result<Option<T>, BadField> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let found = names.iter().find(|(name, _)| value.as_str() == Some(name)).ok_or(BadField)?;
        Ok(Some(found.1))
    }

    fn map<T>(
        &self,
        field: &str,
        read: impl Fn(&Value) -> Result<T, BadField>,
    ) -> Result<Option<BTreeMap<String, T>>, BadField> {
        self.get(field).map(|value| map(value, read)).transpose()
    }

    fn cost(&self, field: &str) -> Result<Stated, BadField> {
        match self.get(field).ok_or(BadField)? {
            value @ Value::Object(_) => map(value, integer).map(Stated::Amounts),
            value => integer(value).map(Stated::Flat),
        }
    }
}

fn map<T>(
    value: &Value,
    read: impl Fn(&Value) -> Result<T, BadField>,
) -> Result<BTreeMap<String, T>, BadField> {
    let object = value.as_object().ok_or(BadField)?;
    object
        .iter()
        .map(|(key, value)| if is_name(key) { Ok((key.clone(), read(value)?)) } else { Err(BadField) })
        .collect()
}

fn integer(value: &Value) -> Result<i64, BadField> {
    value.as_i64().ok_or(BadField)
}

fn name(value: &Value) -> Result<String, BadField> {
    value.as_str().filter(|text| is_name(text)).map(str::to_owned).ok_or(BadField)
}

fn is_name(text: &str) -> bool {
    (1..=NAME_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/@+-".contains(&byte))
}

/// Replaces numbers without an integer value by 0.5. Otherwise the JSON parser would reject the whole line for a number
/// beyond its range.
fn tame_numbers(line: &str) -> Cow<'_, str> {
    let bytes = line.as_bytes();
    let (mut tamed, mut copied, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let length = bytes[at..].iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
                let number = &line[at..at + length];
                let integer =
                    number.strip_prefix('-').unwrap_or(number).bytes().all(|byte| byte.is_ascii_digit());
                if is_number(number) && (!integer || length > 20) {
                    tamed.push_str(&line[copied..at]);
                    tamed.push_str("0.5");
                    copied = at + length;
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(line);
    }
    tamed.push_str(&line[copied..]);
    Cow::Owned(tamed)
}

/// Index after the closing quote of the string at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    let exponent = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let found = match read(line) {
            Ok((name, _)) => name.to_owned(),
            Err(BadShape(name)) => format!("bad {}", name.unwrap_or("line")),
        };
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn numbers_that_are_no_integers_are_the_fields_fault_not_the_lines() {
        for number in ["-0", "1.0", "1e2", "1e400", "-1E+999", "9223372036854775808", &"9".repeat(400)] {
            check(&format!(r#"{{"op":"advance","ms":{number}}}"#), "bad advance");
        }
        for number in ["01", "1.", ".5", "+1", "1e", "NaN", "--1", &format!("0{}", "1".repeat(30))] {
            check(&format!(r#"{{"op":"advance","ms":{number}}}"#), "bad line");
        }
        check(r#"{"op":"advance","ms":0}"#, "advance");
    }

    #[test]
    fn a_line_that_is_no_record_is_no_operation() {
        for line in ["", "7", "null", "[]", "{", r#"{"op":7}"#, r#"{"op":"nope"}"#, r#"{"op":"stat"} x"#] {
            check(line, "bad line");
        }
        check(r#"{"op":"enqueue","id":"\ud800","client":"c","est":1}"#, "bad line");
        check(r#"{"op":"enqueue","id":"1e9\"1e999","client":"c","est":1}"#, "bad enqueue");
    }
}
