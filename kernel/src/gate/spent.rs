//! What the allowed calls of a run add up to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// The allowed calls of a run: how many of each tool, and the numbers in their parameters. All count, whether a budget names
/// them or not, so a budget that is added later knows the past.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spent {
    tools: BTreeMap<String, ToolSpent>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct ToolSpent {
    calls: BTreeSet<u64>,
    /// Numbers by parameter, in the order of the calls.
    amounts: BTreeMap<String, Vec<(u64, f64)>>,
}

impl Spent {
    /// A run without calls.
    pub const NOTHING: &'static Spent = &Spent { tools: BTreeMap::new() };

    /// Calls of the tool.
    pub fn calls(&self, tool: &str) -> u64 {
        self.tools.get(tool).map_or(0, |spent| spent.calls.len() as u64)
    }

    /// Sum of a parameter over the calls of the tool, added in the order of the calls.
    pub fn sum(&self, tool: &str, param: &str) -> f64 {
        let amounts = self.tools.get(tool).and_then(|spent| spent.amounts.get(param));
        amounts.map_or(0.0, |amounts| amounts.iter().fold(0.0, |sum, (_, amount)| sum + amount))
    }

    /// Charges a call. `number` identifies the call within the run.
    pub fn charge(&mut self, number: u64, tool: &str, params: &Map<String, Value>) {
        self.charge_amounts(number, tool, &amounts(params));
    }

    /// Charges a call with its numeric parameters. A second charge under the same `number` replaces the first, because the
    /// first call was lost before reaching its tool.
    pub fn charge_amounts(&mut self, number: u64, tool: &str, amounts: &[(String, f64)]) {
        self.refund(number, tool);
        let spent = self.tools.entry(tool.to_owned()).or_default();
        spent.calls.insert(number);
        for (name, amount) in amounts {
            spent.amounts.entry(name.clone()).or_default().push((number, *amount));
        }
    }

    /// Adds the calls of another run. `salt` makes their numbers differ from those of this run.
    pub fn add(&mut self, other: &Spent, salt: u64) {
        for (tool, added) in &other.tools {
            let spent = self.tools.entry(tool.clone()).or_default();
            spent.calls.extend(added.calls.iter().map(|number| number ^ salt));
            for (name, amounts) in &added.amounts {
                let amounts = amounts.iter().map(|(number, amount)| (number ^ salt, *amount));
                spent.amounts.entry(name.clone()).or_default().extend(amounts);
            }
        }
    }

    /// Takes the charge of a call out again: it never reached its tool.
    pub fn refund(&mut self, number: u64, tool: &str) {
        let Some(spent) = self.tools.get_mut(tool) else { return };
        if spent.calls.remove(&number) {
            for amounts in spent.amounts.values_mut() {
                amounts.retain(|(of, _)| *of != number);
            }
        }
    }
}

/// The numbers among parameters.
pub fn amounts(params: &Map<String, Value>) -> Vec<(String, f64)> {
    params.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_add_up_in_their_order_and_a_refund_takes_one_out() {
        let mut spent = Spent::default();
        for (number, amount) in [(1, json!(0.1)), (2, json!(7)), (3, json!(0.2)), (4, json!("7"))] {
            spent.charge(number, "pay", json!({"amount": amount}).as_object().unwrap());
        }
        assert_eq!((spent.calls("pay"), spent.calls("get")), (4, 0));
        spent.refund(2, "pay");
        assert_eq!((spent.calls("pay"), spent.sum("pay", "amount")), (3, 0.1 + 0.2));
        spent.charge(4, "pay", json!({}).as_object().unwrap());
        assert_eq!(spent.calls("pay"), 3, "a repetition is the same call");
        spent.refund(2, "get");
        let mut tree = spent.clone();
        tree.add(&spent, 1 << 40);
        assert_eq!((tree.calls("pay"), tree.sum("pay", "amount")), (6, 0.1 + 0.2 + 0.1 + 0.2));
        assert_eq!(Spent::NOTHING.sum("pay", "amount"), 0.0);
    }

    #[test]
    fn calls_of_another_run_keep_numbers_of_their_own() {
        let mut spent = Spent::default();
        spent.charge(3, "pay", json!({"amount": 5}).as_object().unwrap());
        spent.add(&spent.clone(), 1);
        assert_eq!((spent.calls("pay"), spent.sum("pay", "amount")), (2, 10.0));
        spent.refund(2, "pay");
        assert_eq!((spent.calls("pay"), spent.sum("pay", "amount")), (1, 5.0));
        spent.refund(2, "pay");
        assert_eq!(spent.calls("pay"), 1, "a refund of no call takes nothing out");
    }
}
