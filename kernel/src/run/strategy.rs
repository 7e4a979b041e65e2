//! Recovery strategies: how a run reacts to a failure, by the failure's category and the domain of the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::run::FailureCategory;

/// Reaction to a failure (section 7.5 of the Agent Scheduler paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryStrategy {
    /// Run the node again, after a backoff.
    RetryWithBackoff,
    /// Restart the crashed executor and run the node again.
    Restart,
    /// Run the node again with a person's feedback: a patch.
    RetryWithFeedback,
    /// Change the node.
    Patch,
    /// Give the node to another agent: a patch.
    FallbackAgent,
    /// Ask a person for the outcome.
    HumanEscalation,
}

impl RecoveryStrategy {
    /// Every strategy.
    pub const ALL: [RecoveryStrategy; 6] = [
        RecoveryStrategy::RetryWithBackoff,
        RecoveryStrategy::Restart,
        RecoveryStrategy::RetryWithFeedback,
        RecoveryStrategy::Patch,
        RecoveryStrategy::FallbackAgent,
        RecoveryStrategy::HumanEscalation,
    ];

    /// The recovery level: 1 retry, 2 patch, 4 a person. (Level 3, replan, concerns the whole run: no single failure asks for a
    /// replan.)
    pub fn level(self) -> u8 {
        match self {
            RecoveryStrategy::RetryWithBackoff | RecoveryStrategy::Restart => 1,
            RecoveryStrategy::RetryWithFeedback
            | RecoveryStrategy::Patch
            | RecoveryStrategy::FallbackAgent => 2,
            RecoveryStrategy::HumanEscalation => 4,
        }
    }

    /// The default strategy of a category.
    pub fn of(category: FailureCategory) -> RecoveryStrategy {
        match category {
            FailureCategory::Crash => RecoveryStrategy::Restart,
            FailureCategory::Timeout
            | FailureCategory::Transient
            | FailureCategory::RateLimit
            | FailureCategory::InvalidOutput => RecoveryStrategy::RetryWithBackoff,
            FailureCategory::ResourceExhaustion => RecoveryStrategy::FallbackAgent,
            FailureCategory::HumanRejection => RecoveryStrategy::RetryWithFeedback,
            FailureCategory::Structural
            | FailureCategory::ParamMissing
            | FailureCategory::GateDenied
            | FailureCategory::GuardError
            | FailureCategory::ExpandError
            | FailureCategory::Deadline => RecoveryStrategy::Patch,
            FailureCategory::InDoubt => RecoveryStrategy::HumanEscalation,
        }
    }

    /// The strategy that a domain prescribes for a category; `None` leaves the default. The paper names one domain, `legal`.
    pub fn of_domain(domain: &str, category: FailureCategory) -> Option<RecoveryStrategy> {
        match (domain, category) {
            ("legal", FailureCategory::Timeout) => Some(RecoveryStrategy::FallbackAgent),
            ("legal", FailureCategory::Crash) => Some(RecoveryStrategy::HumanEscalation),
            _ => None,
        }
    }

    /// The strategy for a failure in a run of this domain with these overrides: the strongest of default, domain and override.
    /// An override never lowers the level.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use ostler_kernel::run::{FailureCategory, RecoveryStrategy};
    /// let lower = BTreeMap::from([(FailureCategory::Crash, RecoveryStrategy::RetryWithBackoff)]);
    /// assert_eq!(RecoveryStrategy::decide(FailureCategory::Crash, Some("legal"), &lower), RecoveryStrategy::HumanEscalation);
    /// ```
    pub fn decide(
        category: FailureCategory,
        domain: Option<&str>,
        overrides: &BTreeMap<FailureCategory, RecoveryStrategy>,
    ) -> RecoveryStrategy {
        let of_domain = domain.and_then(|domain| RecoveryStrategy::of_domain(domain, category));
        let raised = [of_domain, overrides.get(&category).copied()];
        raised.into_iter().flatten().fold(RecoveryStrategy::of(category), RecoveryStrategy::or_stronger)
    }

    /// The strategy with the higher level; `self` if the levels are equal.
    #[must_use]
    pub fn or_stronger(self, other: RecoveryStrategy) -> RecoveryStrategy {
        if other.level() > self.level() { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{RecoveryStrategy, *};

    #[test]
    fn kinds_of_failure_are_met_as_the_paper_says() {
        let check = |category, domain: Option<&str>, expected: RecoveryStrategy| {
            assert_eq!(
                RecoveryStrategy::decide(category, domain, &BTreeMap::new()),
                expected,
                "{category} {domain:?}"
            );
        };
        for domain in [None, Some("legal"), Some("testing")] {
            check(FailureCategory::InvalidOutput, domain, RecoveryStrategy::RetryWithBackoff);
            check(FailureCategory::HumanRejection, domain, RecoveryStrategy::RetryWithFeedback);
            check(FailureCategory::ResourceExhaustion, domain, RecoveryStrategy::FallbackAgent);
        }
        check(FailureCategory::Timeout, None, RecoveryStrategy::RetryWithBackoff);
        check(FailureCategory::Timeout, Some("legal"), RecoveryStrategy::FallbackAgent);
        check(FailureCategory::Crash, None, RecoveryStrategy::Restart);
        check(FailureCategory::Crash, Some("legal"), RecoveryStrategy::HumanEscalation);
    }

    proptest! {
        #[test]
        fn no_override_and_no_nesting_lowers_a_level(
            failures in prop::collection::vec(
                (
                    prop::sample::select(FailureCategory::ALL.as_slice()),
                    prop::option::of(prop::sample::select(["legal", "security", "testing"].as_slice())),
                    prop::collection::btree_map(
                        prop::sample::select(FailureCategory::ALL.as_slice()),
                        prop::sample::select(RecoveryStrategy::ALL.as_slice()),
                        0..10,
                    ),
                ),
                1..6,
            ),
        ) {
            let decided: Vec<RecoveryStrategy> =
                failures.iter().map(|(category, domain, own)| RecoveryStrategy::decide(*category, *domain, own)).collect();
            for ((category, domain, own), decided) in failures.iter().zip(&decided) {
                prop_assert!(decided.level() >= RecoveryStrategy::of(*category).level());
                let of_domain = domain.and_then(|domain| RecoveryStrategy::of_domain(domain, *category));
                prop_assert!(of_domain.is_none_or(|strategy| decided.level() >= strategy.level()));
                prop_assert!(own.get(category).is_none_or(|strategy| decided.level() >= strategy.level()));
            }
            let whole = decided.iter().copied().reduce(RecoveryStrategy::or_stronger);
            prop_assert_eq!(whole.map(RecoveryStrategy::level), decided.iter().map(|one| one.level()).max());
        }
    }
}
