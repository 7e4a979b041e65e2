//! What is done about a failure, by its kind and by what the run is about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::run::Category;

/// What is done about a failure (section 7.5 of the Agent Scheduler paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The step is done again as it is.
    RetryWithBackoff,
    /// What crashed is started again, and does the step once more.
    Restart,
    /// The step is done again with what a person said: a patch.
    RetryWithFeedback,
    /// The step is changed.
    Patch,
    /// Somebody else does the step: a patch.
    FallbackAgent,
    /// A person says what became of it.
    HumanEscalation,
}

impl Strategy {
    /// Every one.
    pub const ALL: [Strategy; 6] = [
        Strategy::RetryWithBackoff,
        Strategy::Restart,
        Strategy::RetryWithFeedback,
        Strategy::Patch,
        Strategy::FallbackAgent,
        Strategy::HumanEscalation,
    ];

    /// The recovery level: 1 retry, 2 patch, 4 a person. (3, a new plan, is for the whole run: no failure asks for it.)
    pub fn level(self) -> u8 {
        match self {
            Strategy::RetryWithBackoff | Strategy::Restart => 1,
            Strategy::RetryWithFeedback | Strategy::Patch | Strategy::FallbackAgent => 2,
            Strategy::HumanEscalation => 4,
        }
    }

    /// What is done about a failure of this kind where nobody says otherwise.
    pub fn of(category: Category) -> Strategy {
        match category {
            Category::Crash => Strategy::Restart,
            Category::Timeout | Category::Transient | Category::RateLimit | Category::InvalidOutput => {
                Strategy::RetryWithBackoff
            }
            Category::ResourceExhaustion => Strategy::FallbackAgent,
            Category::HumanRejection => Strategy::RetryWithFeedback,
            Category::Structural | Category::ParamMissing | Category::GateDenied => Strategy::Patch,
            Category::InDoubt => Strategy::HumanEscalation,
        }
    }

    /// What a domain asks for instead; `None`: nothing in particular. The paper names one, `legal`.
    pub fn of_domain(domain: &str, category: Category) -> Option<Strategy> {
        match (domain, category) {
            ("legal", Category::Timeout) => Some(Strategy::FallbackAgent),
            ("legal", Category::Crash) => Some(Strategy::HumanEscalation),
            _ => None,
        }
    }

    /// What is done about a failure in a run of this domain, with these overrides of its own. An override only ever raises
    /// the level.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use ostler_kernel::run::{Category, Strategy};
    /// let lower = BTreeMap::from([(Category::Crash, Strategy::RetryWithBackoff)]);
    /// assert_eq!(Strategy::decide(Category::Crash, Some("legal"), &lower), Strategy::HumanEscalation);
    /// ```
    pub fn decide(
        category: Category,
        domain: Option<&str>,
        overrides: &BTreeMap<Category, Strategy>,
    ) -> Strategy {
        let of_domain = domain.and_then(|domain| Strategy::of_domain(domain, category));
        let raised = [of_domain, overrides.get(&category).copied()];
        raised.into_iter().flatten().fold(Strategy::of(category), Strategy::or_stronger)
    }

    /// The stronger of two: what is done about a failure that is made of two. The first, if they are of one level.
    #[must_use]
    pub fn or_stronger(self, other: Strategy) -> Strategy {
        if other.level() > self.level() { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Strategy, *};

    #[test]
    fn kinds_of_failure_are_met_as_the_paper_says() {
        let check = |category, domain: Option<&str>, expected: Strategy| {
            assert_eq!(
                Strategy::decide(category, domain, &BTreeMap::new()),
                expected,
                "{category} {domain:?}"
            );
        };
        for domain in [None, Some("legal"), Some("testing")] {
            check(Category::InvalidOutput, domain, Strategy::RetryWithBackoff);
            check(Category::HumanRejection, domain, Strategy::RetryWithFeedback);
            check(Category::ResourceExhaustion, domain, Strategy::FallbackAgent);
        }
        check(Category::Timeout, None, Strategy::RetryWithBackoff);
        check(Category::Timeout, Some("legal"), Strategy::FallbackAgent);
        check(Category::Crash, None, Strategy::Restart);
        check(Category::Crash, Some("legal"), Strategy::HumanEscalation);
    }

    proptest! {
        /// Overrides within overrides, in any order and of any depth, as parts of one failure.
        #[test]
        fn no_override_and_no_nesting_lowers_a_level(
            failures in prop::collection::vec(
                (
                    prop::sample::select(Category::ALL.as_slice()),
                    prop::option::of(prop::sample::select(["legal", "security", "testing"].as_slice())),
                    prop::collection::btree_map(
                        prop::sample::select(Category::ALL.as_slice()),
                        prop::sample::select(Strategy::ALL.as_slice()),
                        0..10,
                    ),
                ),
                1..6,
            ),
        ) {
            let decided: Vec<Strategy> =
                failures.iter().map(|(category, domain, own)| Strategy::decide(*category, *domain, own)).collect();
            for ((category, domain, own), decided) in failures.iter().zip(&decided) {
                prop_assert!(decided.level() >= Strategy::of(*category).level());
                let of_domain = domain.and_then(|domain| Strategy::of_domain(domain, *category));
                prop_assert!(of_domain.is_none_or(|strategy| decided.level() >= strategy.level()));
                prop_assert!(own.get(category).is_none_or(|strategy| decided.level() >= strategy.level()));
            }
            let whole = decided.iter().copied().reduce(Strategy::or_stronger);
            prop_assert_eq!(whole.map(Strategy::level), decided.iter().map(|one| one.level()).max());
        }
    }
}
