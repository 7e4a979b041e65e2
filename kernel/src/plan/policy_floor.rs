//! Lower bounds on the policy of a plan, from the agent, the enclosing run and the job.
//!
//! Oversight and recovery strategies only ever get stricter. If several parties name different domains, one
//! domain is in effect, and the strategies of the others become explicit lower bounds.

use std::collections::BTreeMap;

use super::{Policy, PolicyDraft};
use crate::agent::Oversight;
use crate::run::{FailureCategory, RecoveryStrategy};

impl Policy {
    /// Applies the agent's bounds: at least the agent's oversight, the agent's `domain` if the plan names
    /// none, and recovery at least as strong as that domain asks for.
    pub fn restrict_by_agent(&mut self, oversight: Option<Oversight>, domain: Option<&str>) {
        self.oversight = self.oversight.max(oversight);
        keep_domain_floor(&mut self.recovery, self.domain.as_deref(), domain);
        if self.domain.is_none() {
            self.domain = domain.map(str::to_owned);
        }
    }

    /// Applies the bounds of the run that opens this plan: at least the oversight and the recovery of that
    /// run.
    pub fn inherit(&mut self, of: &Policy) {
        self.restrict_by_agent(of.oversight, of.domain.as_deref());
        raise_to(&mut self.recovery, &of.recovery);
    }
}

impl PolicyDraft {
    /// Applies the job's bounds: at least the job's oversight, and the job's domain if given. Recovery stays
    /// at least as strong as the plan's own domain asks for.
    pub fn restrict_by_job(&mut self, oversight: Oversight, domain: Option<&str>) {
        self.oversight = self.oversight.max(Some(oversight));
        if let Some(domain) = domain {
            keep_domain_floor(self.recovery.get_or_insert_default(), Some(domain), self.domain.as_deref());
            self.domain = Some(domain.to_owned());
        }
    }
}

/// Raises `recovery` to the strategies of `other`, a domain that is not in effect.
pub(super) fn keep_domain_floor(
    recovery: &mut BTreeMap<FailureCategory, RecoveryStrategy>,
    counts: Option<&str>,
    other: Option<&str>,
) {
    let Some(other) = other.filter(|other| counts.is_some_and(|counts| counts != *other)) else { return };
    let asked = FailureCategory::ALL.into_iter();
    raise_to(recovery, &asked.filter_map(|it| Some((it, RecoveryStrategy::of_domain(other, it)?))).collect());
}

/// Raises each strategy to at least the one in `least`.
pub(super) fn raise_to(
    recovery: &mut BTreeMap<FailureCategory, RecoveryStrategy>,
    least: &BTreeMap<FailureCategory, RecoveryStrategy>,
) {
    for (category, strategy) in least {
        let own = recovery.entry(*category).or_insert(*strategy);
        *own = own.or_stronger(*strategy);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OVERSIGHT: [Option<Oversight>; 3] = [None, Some(Oversight::SpotCheck), Some(Oversight::Supervised)];

    #[test]
    fn what_is_opened_is_watched_and_helped_no_less_than_what_opens_it() {
        let policy =
            |oversight, domain: Option<&str>, recovery: &[(FailureCategory, RecoveryStrategy)]| Policy {
                oversight,
                domain: domain.map(str::to_owned),
                recovery: recovery.iter().copied().collect(),
                ..Policy::SIMULATION
            };
        let (weak, strong) = (RecoveryStrategy::Patch, RecoveryStrategy::HumanEscalation);
        let (crash, timeout) = (FailureCategory::Crash, FailureCategory::Timeout);
        for (lower, oversight) in OVERSIGHT.into_iter().enumerate() {
            for other in &OVERSIGHT[..=lower] {
                for (own, of) in [(oversight, *other), (*other, oversight)] {
                    let mut opened = policy(own, None, &[(crash, weak)]);
                    opened.inherit(&policy(of, Some("legal"), &[(crash, strong), (timeout, weak)]));
                    let recovery = [(crash, strong), (timeout, weak)];
                    assert_eq!(opened, policy(oversight, Some("legal"), &recovery), "{own:?} {of:?}");
                }
            }
        }
        let mut opened = policy(None, Some("security"), &[(crash, weak)]);
        opened.inherit(&policy(None, Some("legal"), &[(crash, weak)]));
        let recovery = [(crash, strong), (timeout, RecoveryStrategy::FallbackAgent)];
        assert_eq!(opened, policy(None, Some("security"), &recovery));
    }

    fn domain() -> impl Strategy<Value = Option<String>> {
        prop::option::of(
            prop::sample::select(["legal", "security", "testing"].as_slice()).prop_map(str::to_owned),
        )
    }

    fn policy() -> impl Strategy<Value = PolicyDraft> {
        let strategies = prop::sample::select(RecoveryStrategy::ALL.as_slice());
        let recovery = prop::collection::btree_map(
            prop::sample::select(FailureCategory::ALL.as_slice()),
            strategies,
            0..4,
        );
        (domain(), prop::option::of(recovery)).prop_map(|(domain, recovery)| PolicyDraft {
            domain,
            recovery,
            ..PolicyDraft::default()
        })
    }

    proptest! {
        /// No party weakens a strategy of another: configuration, plan, job, agent, and enclosing runs with
        /// agents of their own.
        #[test]
        fn nobody_lowers_a_level_that_another_asked_for(
            configured in policy(),
            plans in prop::collection::vec((policy(), domain(), domain()), 1..4),
        ) {
            let settings = crate::plan::Settings::simulation(PolicyDraft::default(), None);
            let mut asked: Vec<PolicyDraft> = Vec::new();
            let mut around: Option<Policy> = None;
            for (mut plan, job, agent) in plans {
                let of = |domain: &Option<String>| PolicyDraft { domain: domain.clone(), ..PolicyDraft::default() };
                asked.extend([configured.clone(), plan.clone(), of(&job), of(&agent)]);
                plan.restrict_by_job(Oversight::AutonomousEscalation, job.as_deref());
                let mut policy = Policy::SIMULATION;
                configured.overlay(&mut policy, &settings);
                plan.overlay(&mut policy, &settings);
                policy.restrict_by_agent(None, agent.as_deref());
                around.iter().for_each(|around| policy.inherit(around));
                for (category, one) in FailureCategory::ALL.iter().flat_map(|it| asked.iter().map(move |one| (*it, one))) {
                    let decide = |domain: &Option<String>, own: &BTreeMap<FailureCategory, RecoveryStrategy>| {
                        RecoveryStrategy::decide(category, domain.as_deref(), own).level()
                    };
                    let least = decide(&one.domain, one.recovery.as_ref().unwrap_or(&BTreeMap::new()));
                    prop_assert!(decide(&policy.domain, &policy.recovery) >= least, "{category} {one:?} {policy:?}");
                }
                around = Some(policy);
            }
        }
    }

    #[test]
    fn what_a_contract_says_counts_more_than_the_plan() {
        for (own, domain, expected) in
            [(None, None, None), (Some("a"), None, Some("a")), (Some("a"), Some("b"), Some("b"))]
        {
            let own = own.map(str::to_owned);
            let mut draft = PolicyDraft { domain: own, ..PolicyDraft::default() };
            draft.restrict_by_job(Oversight::SpotCheck, domain);
            assert_eq!((draft.oversight, draft.domain.as_deref()), (Some(Oversight::SpotCheck), expected));
        }
    }
}
