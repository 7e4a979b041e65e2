//! Reliability of a run's result, from the precision of contracts.

use serde::Serialize;

use crate::plan::{Method, Rule};

/// Bounds on the probability that everything accepted is correct.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reliability {
    /// Product of the precisions; valid if the nodes fail independently.
    pub independent: f64,
    /// `max(0, 1 - sum(1 - p))`; always valid (union bound).
    pub always: f64,
}

/// Precision P(correct | accepted) of one contract: the smallest `p` of its rules, because the dependence
/// between rules is unknown. A missing `p` is 1 for `schema` and unknown otherwise. An unknown rule or an
/// empty contract gives `None`.
pub fn precision(rules: &[Rule]) -> Option<f64> {
    rules.iter().map(|rule| rule.p.or((rule.method == Method::Schema).then_some(1.0))).reduce(
        |left, right| {
            let (left, right) = (left?, right?);
            Some(left.min(right))
        },
    )?
}

/// Bounds over the precisions of all nodes; `None` if any precision is unknown.
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
