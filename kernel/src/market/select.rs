//! Selection of the winning bid.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Job, Offer};
use crate::evaluation::BEST_PM;
use crate::id::{AgentId, Ticks};

/// Reputation assumed for an agent without evaluations, in thousandths: the middle of the scale.
pub const REPUTATION_UNKNOWN_PM: u16 = 500;

/// Maximum bids recorded per job.
pub const PROPOSALS_MAX: usize = 100;

/// Weight of the reputation in a bid's score, in tenths; the price has the rest.
const REPUTATION_TENTHS: u64 = 6;

/// An agent's bid for a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The bidder.
    pub agent: AgentId,
    /// Price in credits.
    pub price: u64,
    /// Duration of the work; `None` if undeclared.
    pub time_ms: Option<u64>,
    /// Capabilities of the bidder.
    pub capabilities: BTreeSet<String>,
    /// Evaluation domain of the bidder.
    pub domain: Option<String>,
    /// The bidder's reputation at bid time, in thousandths; `None` without evaluations.
    pub reputation_pm: Option<u16>,
}

/// Reasons to reject a bid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// The deadline has passed.
    #[error("agent {agent} proposes {late_ms} ms after the deadline")]
    TooLate {
        /// The bidder.
        agent: AgentId,
        /// Milliseconds since the deadline.
        late_ms: Ticks,
    },
    /// The work would end after the deadline.
    #[error("agent {agent} takes {time_ms} ms, and {left_ms} ms are left")]
    TooSlow {
        /// The bidder.
        agent: AgentId,
        /// Declared duration.
        time_ms: u64,
        /// Milliseconds until the deadline.
        left_ms: Ticks,
    },
    /// The bidder lacks a capability.
    #[error("agent {agent} cannot do {}", missing.join(", "))]
    Incapable {
        /// The bidder.
        agent: AgentId,
        /// Missing capabilities.
        missing: Vec<String>,
    },
    /// The price exceeds the job's budget.
    #[error("agent {agent} asks for {price} credits, the budget is {budget}")]
    OverBudget {
        /// The bidder.
        agent: AgentId,
        /// Price of the bid.
        price: u64,
        /// Budget of the job.
        budget: u64,
    },
}

/// Reasons for a job without a contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    /// No agent bid.
    #[error("no agent of the client offers anything, or none takes what the plan is given")]
    NoProposal,
    /// Every bid was rejected; one reason per bid.
    #[error("no proposal will do: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NoneFits(Vec<ProposalError>),
    /// The client's credits do not cover the budget.
    #[error(transparent)]
    Credits(#[from] crate::ledger::CreditError),
}

impl Proposal {
    /// The bid that follows from an agent's offer.
    pub fn of(agent: AgentId, offer: &Offer, job: &Job, reputation_pm: Option<u16>) -> Proposal {
        Proposal {
            agent,
            price: offer.price.unwrap_or(job.budget),
            time_ms: offer.time_ms,
            capabilities: offer.capabilities.clone(),
            domain: offer.domain.clone(),
            reputation_pm,
        }
    }

    /// Checks the bid against the job at time `now`.
    ///  
    /// # Errors
    ///  
    /// The first violation.
    pub fn check(&self, job: &Job, now: Ticks) -> Result<(), ProposalError> {
        let agent = || self.agent.clone();
        if let Some(deadline) = job.deadline {
            let left_ms = deadline.saturating_sub(now);
            if left_ms <= 0 {
                return Err(ProposalError::TooLate { agent: agent(), late_ms: left_ms.saturating_neg() });
            }
            if let Some(time_ms) = self.time_ms.filter(|time_ms| *time_ms > left_ms.unsigned_abs()) {
                return Err(ProposalError::TooSlow { agent: agent(), time_ms, left_ms });
            }
        }
        let missing: Vec<String> = job.capabilities.difference(&self.capabilities).cloned().collect();
        if !missing.is_empty() {
            return Err(ProposalError::Incapable { agent: agent(), missing });
        }
        if self.price > job.budget {
            return Err(ProposalError::OverBudget { agent: agent(), price: self.price, budget: job.budget });
        }
        Ok(())
    }
}

/// Score of a bid from 0 to 10,000, higher is better: `6 * reputation + 4 * (1,000 - 1,000 * price / budget)`, rounded down.
/// Reputation and the unspent share of the budget are in thousandths. [`REPUTATION_UNKNOWN_PM`] replaces a missing
/// reputation, so that a newcomer can win on price.
pub fn score(proposal: &Proposal, budget: u64) -> u64 {
    let best = u64::from(BEST_PM);
    let reputation = u64::from(proposal.reputation_pm.unwrap_or(REPUTATION_UNKNOWN_PM)).min(best);
    let price = u128::from(best) * u128::from(proposal.price) / u128::from(budget.max(1));
    let left = best.saturating_sub(u64::try_from(price).unwrap_or(u64::MAX));
    REPUTATION_TENTHS * reputation + (10 - REPUTATION_TENTHS) * left
}

/// The winning bid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selected<'a> {
    /// The bid.
    pub proposal: &'a Proposal,
    /// Score of the bid.
    pub score: u64,
}

/// The best acceptable bid. Ties go to the lower price, then the shorter duration (undeclared last), then the agent's name,
/// so the result does not depend on the order of the bids.
///  
/// # Errors
///  
/// No bid, or no acceptable one.
pub fn select<'a>(job: &Job, proposals: &'a [Proposal], now: Ticks) -> Result<Selected<'a>, ContractError> {
    if proposals.is_empty() {
        return Err(ContractError::NoProposal);
    }
    let (mut fit, mut unfit) = (Vec::new(), Vec::new());
    for proposal in proposals {
        match proposal.check(job, now) {
            Ok(()) => fit.push(proposal),
            Err(error) => unfit.push(error),
        }
    }
    let best = fit.into_iter().min_by_key(|proposal| rank(proposal, job.budget));
    let best = best.ok_or(ContractError::NoneFits(unfit))?;
    Ok(Selected { proposal: best, score: score(best, job.budget) })
}

/// Sort key; the best bid is the smallest.
fn rank(proposal: &Proposal, budget: u64) -> (Reverse<u64>, u64, u64, &AgentId) {
    let Proposal { price, time_ms, agent, .. } = proposal;
    (Reverse(score(proposal, budget)), *price, time_ms.unwrap_or(u64::MAX), agent)
}

/// The bids to record: acceptable ones first, best first, at most [`PROPOSALS_MAX`].
pub fn shortlist(job: &Job, mut proposals: Vec<Proposal>, now: Ticks) -> Vec<Proposal> {
    proposals.sort_by(|one, other| {
        let key = |proposal: &Proposal| proposal.check(job, now).is_err();
        key(one).cmp(&key(other)).then_with(|| rank(one, job.budget).cmp(&rank(other, job.budget)))
    });
    proposals.truncate(PROPOSALS_MAX);
    proposals
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::stage::tests::job;
    use super::*;

    fn proposal(agent: &str, price: u64, reputation_pm: Option<u16>) -> Proposal {
        let capabilities = BTreeSet::from(["contracts".to_owned()]);
        Proposal { agent: agent.into(), price, time_ms: None, capabilities, domain: None, reputation_pm }
    }

    #[test]
    fn reputation_counts_for_six_tenths_and_price_for_four() {
        let check = |price: u64, reputation_pm: Option<u16>, expected: u64| {
            assert_eq!(
                score(&proposal("a", price, reputation_pm), 1_000),
                expected,
                "{price} {reputation_pm:?}"
            );
        };
        check(1_000, Some(1_000), 6_000);
        check(0, Some(0), 4_000);
        check(0, Some(1_000), 10_000);
        check(500, None, 5_000);
        check(750, Some(900), 6_400);
        check(u64::MAX, Some(900), 5_400);
        assert_eq!(score(&proposal("a", 0, None), 0), 7_000);
    }

    #[test]
    fn the_best_proposal_that_will_do_gets_the_contract() {
        let winner = |proposals: &[Proposal]| {
            select(&job(1_000, Some(100)), proposals, 50).map(|selected| selected.proposal.agent.to_string())
        };
        let (dear, cheap) = (proposal("dear", 900, Some(950)), proposal("cheap", 100, Some(600)));
        assert_eq!(winner(&[dear.clone(), cheap.clone()]).as_deref(), Ok("cheap"));
        let poor = proposal("poor", 100, Some(200));
        assert_eq!(winner(&[dear.clone(), poor]).as_deref(), Ok("dear"));
        let slow = Proposal { time_ms: Some(51), ..proposal("slow", 1, Some(1_000)) };
        let beyond = proposal("beyond", 1_001, Some(1_000));
        let incapable = Proposal { capabilities: BTreeSet::new(), ..proposal("other", 1, Some(1_000)) };
        let all = [slow, beyond, incapable, dear];
        assert_eq!(winner(&all).as_deref(), Ok("dear"));
        let told = winner(&all[..3]).unwrap_err().to_string();
        assert_eq!(
            told,
            "no proposal will do: agent slow takes 51 ms, and 50 ms are left; agent beyond asks for 1001 credits, the budget is \
             1000; agent other cannot do contracts"
        );
        assert_eq!(winner(&[]), Err(ContractError::NoProposal));
    }

    #[test]
    fn who_proposes_after_the_deadline_is_too_late() {
        let late = proposal("a", 1, None).check(&job(10, Some(100)), 130);
        assert_eq!(late, Err(ProposalError::TooLate { agent: "a".into(), late_ms: 30 }));
        assert!(proposal("a", 1, None).check(&job(10, Some(100)), 100).is_err());
        assert_eq!(proposal("a", 1, None).check(&job(10, Some(100)), 99), Ok(()));
        assert_eq!(proposal("a", 1, None).check(&job(10, None), Ticks::MAX), Ok(()));
    }

    #[test]
    fn among_equals_the_price_the_time_and_the_name_decide() {
        let timed =
            |agent: &str, time_ms: Option<u64>| Proposal { time_ms, ..proposal(agent, 10, Some(500)) };
        let winner = |proposals: &[Proposal]| {
            select(&job(1_000, None), proposals, 0).unwrap().proposal.agent.to_string()
        };
        assert_eq!(winner(&[timed("c", None), timed("b", Some(9)), timed("a", Some(9))]), "a");
        assert_eq!(winner(&[timed("a", None), timed("b", Some(9))]), "b");
    }

    #[test]
    fn of_many_proposals_the_best_are_written_down() {
        let many: Vec<Proposal> =
            (0..2 * PROPOSALS_MAX as u64).map(|at| proposal(&format!("a{at}"), at * 20, None)).collect();
        let job = job(1_000, None);
        let kept = shortlist(&job, many.clone(), 0);
        assert_eq!(kept.len(), PROPOSALS_MAX);
        assert_eq!(kept[0], many[0]);
        assert!(kept[..51].iter().all(|it| it.check(&job, 0).is_ok()) && kept[51].check(&job, 0).is_err());
        assert_eq!(select(&job, &kept, 0), select(&job, &many, 0));
    }

    proptest! {
        #[test]
        fn the_order_of_proposals_does_not_matter(
            mut proposals in proptest::collection::vec((0u8..20, 0u64..1_500, proptest::option::of(0u16..=1_000)), 1..8),
        ) {
            proposals.sort_by_key(|(agent, ..)| *agent);
            proposals.dedup_by_key(|(agent, ..)| *agent);
            let proposals: Vec<Proposal> =
                proposals.into_iter().map(|(agent, price, reputation)| proposal(&format!("a{agent}"), price, reputation)).collect();
            let backwards: Vec<Proposal> = proposals.iter().rev().cloned().collect();
            let job = job(1_000, None);
            let winner = |proposals: &[Proposal]| select(&job, proposals, 0).map(|it| it.proposal.agent.clone()).ok();
            prop_assert_eq!(winner(&proposals), winner(&backwards));
        }
    }
}
