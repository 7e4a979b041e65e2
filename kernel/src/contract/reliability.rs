//! What contracts let a run say about its result.

use serde::Serialize;

use crate::plan::{Method, Rule};

/// How likely everything that was accepted is correct, as far as the precision of the contracts tells.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reliability {
    /// Product of the precisions: valid if the nodes fail independently.
    pub independent: f64,
    /// `max(0, 1 - sum(1 - p))`: valid always.
    pub always: f64,
}

/// Precision of one node's contract, P(correct | accepted): that of its weakest rule, since nothing is known of
/// how its rules depend on each other. A missing `p` is 1 for a schema and unknown otherwise; one unknown rule
/// makes it unknown, and so does an empty contract.
pub fn precision(rules: &[Rule]) -> Option<f64> {
    rules.iter().map(|rule| rule.p.or((rule.method == Method::Schema).then_some(1.0))).reduce(
        |left, right| {
            let (left, right) = (left?, right?);
            Some(left.min(right))
        },
    )?
}

/// The bounds over the precisions of all nodes, or `None` if one of them is unknown.
///
/// ```
/// use ostler_kernel::contract::reliability;
/// let bounds = reliability([Some(0.9), Some(0.5)]).unwrap();
/// assert!((bounds.independent - 0.45).abs() < 1e-12 && (bounds.always - 0.4).abs() < 1e-12);
/// assert_eq!(reliability([Some(0.9), None]), None);
/// ```
pub fn reliability(precisions: impl IntoIterator<Item = Option<f64>>) -> Option<Reliability> {
    let (mut product, mut doubt) = (1.0, 0.0);
    for precision in precisions {
        let precision = precision?;
        product *= precision;
        doubt += 1.0 - precision;
    }
    Some(Reliability { independent: product, always: f64::max(0.0, 1.0 - doubt) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(method: Method, p: Option<f64>) -> Rule {
        Rule { method, p, spec: None }
    }

    #[test]
    fn a_contract_is_as_precise_as_its_weakest_rule() {
        for (rules, expected) in [
            (vec![], None),
            (vec![rule(Method::Schema, None)], Some(1.0)),
            (vec![rule(Method::Code, None)], None),
            (vec![rule(Method::Schema, None), rule(Method::Model, Some(0.8))], Some(0.8)),
            (vec![rule(Method::Human, Some(0.9)), rule(Method::Test, None)], None),
        ] {
            assert_eq!(precision(&rules), expected, "{rules:?}");
        }
    }

    #[test]
    fn doubts_add_up_to_no_less_than_nothing() {
        let many = reliability(vec![Some(0.9); 20]).unwrap();
        assert_eq!(many.always, 0.0);
        assert!(many.independent > 0.12 && many.independent < 0.13);
        assert_eq!(reliability([]), Some(Reliability { independent: 1.0, always: 1.0 }));
    }
}
