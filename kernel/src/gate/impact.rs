//! Impact by parameters: tables of rules, and what a tool server says of its own tools.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value};

/// Most comparisons of one evaluation. A table beyond that has failed, and the call counts as impact 2.
pub const IMPACT_STEPS_MAX: usize = 4_096;

/// An impact level of a table: 0 observe, 1 operate, 2 control. Any other number stands for a table that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level(Option<u8>);

impl Level {
    /// The level; `None` if the number is none.
    pub fn get(self) -> Option<u8> {
        self.0
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Number(number) => {
                let level = number.as_u64().and_then(|level| u8::try_from(level).ok());
                Ok(Level(level.filter(|level| *level <= 2)))
            }
            other => Err(D::Error::custom(format!("expected an impact, 0 to 2, found {other}"))),
        }
    }
}

/// Rules in order; the first that matches gives the impact.
///
/// ```
/// use ostler_kernel::gate::ImpactTable;
/// let table: ImpactTable = serde_json::from_str(
///     r#"{"rules": [{"when": {"param": "op", "in": ["get", "list"]}, "impact": 0}], "else": 1}"#,
/// ).unwrap();
/// let params = |op: &str| serde_json::Map::from_iter([("op".to_owned(), op.into())]);
/// assert_eq!(table.level(&params("get")), Some(0));
/// assert_eq!(table.level(&params("drop")), Some(1));
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImpactTable {
    rules: Vec<Rule>,
    #[serde(default = "control", rename = "else")]
    otherwise: Level,
}

fn control() -> Level {
    Level(Some(2))
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    when: When,
    impact: Level,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "WhenFields")]
enum When {
    Equals(String, Value),
    In(String, Vec<Value>),
    Absent(String, bool),
    All(Vec<When>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhenFields {
    param: Option<String>,
    /// An explicit null is a value to compare with.
    #[serde(default, deserialize_with = "given")]
    equals: Option<Value>,
    #[serde(rename = "in")]
    within: Option<Vec<Value>>,
    absent: Option<bool>,
    all: Option<Vec<When>>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl TryFrom<WhenFields> for When {
    type Error = &'static str;

    fn try_from(fields: WhenFields) -> Result<When, &'static str> {
        match fields {
            WhenFields { param: Some(param), equals: Some(value), within: None, absent: None, all: None } => {
                Ok(When::Equals(param, value))
            }
            WhenFields {
                param: Some(param),
                equals: None,
                within: Some(values),
                absent: None,
                all: None,
            } => Ok(When::In(param, values)),
            WhenFields {
                param: Some(param),
                equals: None,
                within: None,
                absent: Some(absent),
                all: None,
            } => Ok(When::Absent(param, absent)),
            WhenFields { param: None, equals: None, within: None, absent: None, all: Some(all) } => {
                Ok(When::All(all))
            }
            _ => Err("expected `param` with one of `equals`, `in` and `absent`, or `all`"),
        }
    }
}

impl ImpactTable {
    /// The impact of a call; `None` if the table fails: its level is no impact, or it takes more than [`IMPACT_STEPS_MAX`]
    /// comparisons.
    pub fn level(&self, params: &Map<String, Value>) -> Option<u8> {
        let mut left = IMPACT_STEPS_MAX;
        for rule in &self.rules {
            if rule.when.matches(params, &mut left)? {
                return rule.impact.get();
            }
        }
        self.otherwise.get()
    }

    /// Parameters that the rules look at, in order.
    pub(super) fn params(&self) -> Vec<&str> {
        let mut params = Vec::new();
        self.rules.iter().for_each(|rule| rule.when.add_params(&mut params));
        params
    }

    /// True if every level is an impact.
    pub fn is_sound(&self) -> bool {
        self.otherwise.get().is_some() && self.rules.iter().all(|rule| rule.impact.get().is_some())
    }
}

impl When {
    fn add_params<'a>(&'a self, params: &mut Vec<&'a str>) {
        match self {
            When::Equals(param, _) | When::In(param, _) | When::Absent(param, _) => params.push(param),
            When::All(all) => all.iter().for_each(|when| when.add_params(params)),
        }
    }

    fn matches(&self, params: &Map<String, Value>, left: &mut usize) -> Option<bool> {
        let steps = if let When::In(_, values) = self { values.len().max(1) } else { 1 };
        *left = left.checked_sub(steps)?;
        Some(match self {
            When::Equals(param, value) => params.get(param) == Some(value),
            When::In(param, values) => params.get(param).is_some_and(|found| values.contains(found)),
            When::Absent(param, absent) => params.contains_key(param) != *absent,
            When::All(all) => {
                for when in all {
                    if !when.matches(params, left)? {
                        return Some(false);
                    }
                }
                true
            }
        })
    }
}

/// What a tool server says of a tool. It may raise the impact, never lower it; silence says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hints {
    /// The tool may destroy something.
    pub destructive: Option<bool>,
    /// The tool changes nothing.
    pub read_only: Option<bool>,
}

impl Hints {
    /// Lower bound on the impact.
    pub fn floor(self) -> u8 {
        match self {
            Hints { destructive: Some(true), .. } => 2,
            Hints { read_only: Some(false), .. } => 1,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn level(table: &Value, params: &Value) -> Option<u8> {
        let table: ImpactTable = serde_json::from_value(table.clone()).unwrap();
        table.level(params.as_object().unwrap())
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let table = json!({"rules": [
            {"when": {"param": "force", "equals": null}, "impact": 0},
            {"when": {"all": [{"param": "op", "in": ["a", 1]}, {"param": "force", "absent": true}]}, "impact": 1},
        ]});
        for (params, expected) in [
            (json!({"force": null}), 0),
            (json!({"op": "a"}), 1),
            (json!({"op": 1}), 1),
            (json!({"op": 1.0}), 2),
            (json!({"op": "a", "force": false}), 2),
            (json!({}), 2),
        ] {
            assert_eq!(level(&table, &params), Some(expected), "{params}");
        }
    }

    #[test]
    fn a_table_that_fails_has_no_level() {
        for bad in [json!(-1), json!(3), json!(1.5), json!(1e300)] {
            assert_eq!(level(&json!({"rules": [], "else": bad}), &json!({})), None, "{bad}");
        }
        let long = |count: usize| json!({"rules": [{"when": {"param": "a", "in": vec![0; count]}, "impact": 0}], "else": 1});
        assert_eq!(level(&long(IMPACT_STEPS_MAX), &json!({"a": 1})), Some(1));
        assert_eq!(level(&long(IMPACT_STEPS_MAX + 1), &json!({"a": 1})), None);
        for when in [json!({"param": "a", "equals": 0}), json!({"param": "a", "in": []})] {
            let many =
                |count: usize| json!({"rules": vec![json!({"when": when, "impact": 0}); count], "else": 1});
            assert_eq!(level(&many(IMPACT_STEPS_MAX), &json!({"a": 1})), Some(1), "{when}");
            assert_eq!(level(&many(IMPACT_STEPS_MAX + 1), &json!({"a": 1})), None, "{when}");
        }
    }

    #[test]
    fn every_level_of_a_sound_table_is_an_impact() {
        for (level, otherwise, sound) in
            [(0, 2, true), (2, 0, true), (3, 2, false), (2, 3, false), (3, 3, false)]
        {
            let rule = json!({"when": {"all": []}, "impact": level});
            let table = json!({"rules": [{"when": {"all": []}, "impact": 1}, rule], "else": otherwise});
            let table: ImpactTable = serde_json::from_value(table).unwrap();
            assert_eq!(table.is_sound(), sound, "{level} {otherwise}");
        }
    }

    #[test]
    fn a_condition_has_one_form() {
        for bad in [
            json!({"param": "a"}),
            json!({"param": "a", "equals": 1, "in": []}),
            json!({"all": [], "param": "a"}),
            json!({"param": "a", "is": 1}),
        ] {
            let table = json!({"rules": [{"when": bad, "impact": 0}]});
            assert!(serde_json::from_value::<ImpactTable>(table).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_hint_only_raises() {
        let floor = |destructive, read_only| Hints { destructive, read_only }.floor();
        assert_eq!(floor(Some(true), Some(true)), 2);
        assert_eq!(floor(Some(false), Some(false)), 1);
        assert_eq!(floor(Some(false), Some(true)), 0);
        assert_eq!(Hints::default().floor(), 0);
    }
}
