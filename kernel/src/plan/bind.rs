//! What a plan is bound to by who has it run: its agent, the run that opens it, the contract that it fulfils.

use super::{Policy, PolicyDraft};
use crate::agent::Oversight;

impl Policy {
    /// By its agent: people watch at least so closely, and it is about `domain` unless it says otherwise.
    pub fn bind(&mut self, oversight: Option<Oversight>, domain: Option<&str>) {
        self.oversight = self.oversight.max(oversight);
        if self.domain.is_none() {
            self.domain = domain.map(str::to_owned);
        }
    }

    /// By the run that opens it: whoever watches that watches what it opens, and failures are met at least as strongly.
    pub fn inherit(&mut self, of: &Policy) {
        self.bind(of.oversight, of.domain.as_deref());
        for (category, strategy) in &of.recovery {
            let own = self.recovery.entry(*category).or_insert(*strategy);
            *own = own.or_stronger(*strategy);
        }
    }
}

impl PolicyDraft {
    /// By the contract that it fulfils: people watch at least so closely, and it is about what the job is about, if that says so.
    pub fn bind(&mut self, oversight: Oversight, domain: Option<&str>) {
        self.oversight = self.oversight.max(Some(oversight));
        if let Some(domain) = domain {
            self.domain = Some(domain.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Category, Strategy};

    const OVERSIGHT: [Option<Oversight>; 3] = [None, Some(Oversight::SpotCheck), Some(Oversight::Supervised)];

    #[test]
    fn what_is_opened_is_watched_and_helped_no_less_than_what_opens_it() {
        let policy = |oversight, domain: Option<&str>, recovery: &[(Category, Strategy)]| Policy {
            oversight,
            domain: domain.map(str::to_owned),
            recovery: recovery.iter().copied().collect(),
            ..Policy::SIMULATION
        };
        let (weak, strong) = (Strategy::Patch, Strategy::HumanEscalation);
        let (crash, timeout) = (Category::Crash, Category::Timeout);
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
        let mut opened = policy(None, Some("security"), &[(crash, strong)]);
        opened.inherit(&policy(None, Some("legal"), &[(crash, weak)]));
        assert_eq!(opened, policy(None, Some("security"), &[(crash, strong)]));
    }

    #[test]
    fn what_a_contract_says_counts_more_than_the_plan() {
        for (own, domain, expected) in
            [(None, None, None), (Some("a"), None, Some("a")), (Some("a"), Some("b"), Some("b"))]
        {
            let own = own.map(str::to_owned);
            let mut draft = PolicyDraft { domain: own, ..PolicyDraft::default() };
            draft.bind(Oversight::SpotCheck, domain);
            assert_eq!((draft.oversight, draft.domain.as_deref()), (Some(Oversight::SpotCheck), expected));
        }
    }
}
