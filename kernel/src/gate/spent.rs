//! What the allowed calls of a run add up to.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The allowed calls of a run: how many of each tool, and the numbers in their parameters. All count, whether a budget names
/// them or not, so a budget that is added later knows the past.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spent {
    tools: BTreeMap<String, ToolSpent>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct ToolSpent {
    calls: u64,
    /// Numbers by parameter, in the order of the calls.
    amounts: BTreeMap<String, Vec<(u64, f64)>>,
}

impl Spent {
    /// A run without calls.
    pub const NOTHING: &'static Spent = &Spent { tools: BTreeMap::new() };

    /// Calls of the tool.
    pub fn calls(&self, tool: &str) -> u64 {
        self.tools.get(tool).map_or(0, |spent| spent.calls)
    }

    /// Sum of a parameter over the calls of the tool, added in the order of the calls.
    pub fn sum(&self, tool: &str, param: &str) -> f64 {
        let amounts = self.tools.get(tool).and_then(|spent| spent.amounts.get(param));
        amounts.map_or(0.0, |amounts| amounts.iter().fold(0.0, |sum, (_, amount)| sum + amount))
    }

    /// Charges a call. `number` identifies the call within the run.
    pub fn charge(&mut self, number: u64, tool: &str, params: &Map<String, Value>) {
        let spent = self.tools.entry(tool.to_owned()).or_default();
        spent.calls += 1;
        for (name, value) in params {
            if let Some(amount) = value.as_f64() {
                spent.amounts.entry(name.clone()).or_default().push((number, amount));
            }
        }
    }

    /// Takes the charge of a call out again: it never reached its tool.
    pub fn refund(&mut self, number: u64, tool: &str) {
        let Some(spent) = self.tools.get_mut(tool) else { return };
        spent.calls = spent.calls.saturating_sub(1);
        for amounts in spent.amounts.values_mut() {
            amounts.retain(|(of, _)| *of != number);
        }
    }
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
        spent.refund(2, "get");
        assert_eq!(Spent::NOTHING.sum("pay", "amount"), 0.0);
    }
}
