//! A single value of the wrong type in a valid plan produces no fault but its own.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;
use std::path::Path;

use ostler::plan_file::{Finding, Format, PlanFile};
use ostler_actors::Toolbox;
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::plan::Settings;
use serde_json::{Value, json};

/// JSON pointers of a value and of all values below it.
fn pointers(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| pointers(item, format!("{at}/{index}"), all));
        }
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| pointers(member, format!("{at}/{key}"), all));
        }
        _ => {}
    }
    all.push(at);
}

fn found(toolbox: &Toolbox, text: &str) -> Vec<Finding> {
    let file = PlanFile::parse("p.json", Format::Json, text, &BTreeMap::new());
    file.validate(&Settings::real(4, toolbox)).err().unwrap_or_default()
}

#[test]
fn a_value_of_the_wrong_type_is_the_only_fault_of_a_plan_that_is_sound_otherwise() {
    let toolbox = Toolbox::new(builtin(&ToolConfig::default(), None)).unwrap();
    let wrong = [json!(5), json!("many words"), json!(true), json!([1]), json!({}), json!(1.5)];
    for name in ["bugfix", "audit", "release"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/plans/{name}.yaml"));
        let plan: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(found(&toolbox, &plan.to_string()), [], "{name}");
        let mut all = Vec::new();
        pointers(&plan, String::new(), &mut all);
        let mut tried = 0;
        // A renamed node is missed by others.
        let is_named = |pointer: &&String| !pointer.is_empty() && !pointer.ends_with("/id");
        for pointer in all.iter().filter(is_named) {
            for wrong in &wrong {
                let mut plan = plan.clone();
                *plan.pointer_mut(pointer).unwrap() = wrong.clone();
                let findings = found(&toolbox, &plan.to_string());
                let of_shape = findings.iter().filter(|finding| finding.code == "shape").count();
                if of_shape > 0 {
                    tried += 1;
                    let made_up = findings.iter().filter(|finding| finding.code != "shape");
                    let made_up: Vec<String> =
                        made_up.map(|finding| format!("{} {}", finding.code, finding.detail)).collect();
                    assert!(made_up.is_empty(), "{name} with {wrong} at {pointer}: {made_up:?}");
                }
            }
        }
        assert!(tried > 100, "{name}: {tried}");
    }
}
