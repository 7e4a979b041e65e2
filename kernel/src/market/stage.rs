//! The stages of a job as values, and the transitions between them.

use serde::{Deserialize, Serialize};

use super::{Job, JobOutcome, MarketStep, Proposal};
use crate::agent::Oversight;
use crate::id::{AgentId, RunId, Ticks};
use crate::json::Json;

/// Names of the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Posted.
    Job,
    /// Agents have bid.
    Proposal,
    /// The contract is signed.
    Contract,
    /// The plan is ready.
    Decomposition,
    /// The run is open.
    Execution,
    /// The run is over.
    Evaluation,
    /// The job failed at an earlier stage.
    Failed,
}

impl Stage {
    /// All stages in order.
    pub const ALL: [Stage; 7] = [
        Stage::Job,
        Stage::Proposal,
        Stage::Contract,
        Stage::Decomposition,
        Stage::Execution,
        Stage::Evaluation,
        Stage::Failed,
    ];

    /// Name in records and API.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Job => "job",
            Stage::Proposal => "proposal",
            Stage::Contract => "contract",
            Stage::Decomposition => "decomposition",
            Stage::Execution => "execution",
            Stage::Evaluation => "evaluation",
            Stage::Failed => "failed",
        }
    }

    /// True for the absorbing stages.
    pub fn is_over(self) -> bool {
        matches!(self, Stage::Evaluation | Stage::Failed)
    }
}

/// A job with its bids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    /// The job.
    pub job: Job,
    /// Recorded bids.
    pub proposals: Vec<Proposal>,
}

/// A signed contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// The job.
    pub job: Job,
    /// The agent that runs the job.
    pub winner: AgentId,
    /// Price in credits.
    pub price: u64,
    /// Maximum cost in credits.
    pub budget: u64,
    /// Latest end.
    pub deadline: Option<Ticks>,
    /// Level of human oversight.
    pub oversight: Oversight,
    /// True if the budget is reserved.
    pub reserved: bool,
    /// The winner's bid.
    pub proposal: Proposal,
}

/// A contract with the plan to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decomposition {
    /// The contract.
    pub contract: Contract,
    /// The plan to run.
    pub plan: Json,
    /// Number of nodes.
    pub nodes: u32,
}

/// A running job; the run has the job's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The contract.
    pub contract: Contract,
}

/// A finished job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// The contract.
    pub contract: Contract,
    /// Result of the job.
    pub closing: JobOutcome,
}

/// A failed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedJob {
    /// The job.
    pub job: Job,
    /// The contract, if one was signed.
    pub contract: Option<Box<Contract>>,
    /// Stage that the job could not reach.
    pub at: Stage,
    /// Reason for people.
    pub reason: String,
    /// Credits spent.
    pub spent: u64,
}

impl Job {
    /// Adds the bids.
    pub fn propose(self, proposals: Vec<Proposal>) -> Proposed {
        Proposed { job: self, proposals }
    }
}

impl Contract {
    /// Adds the plan to run.
    pub fn decompose(self, plan: Json, nodes: u32) -> Decomposition {
        Decomposition { contract: self, plan, nodes }
    }
}

impl Decomposition {
    /// Marks the run as open.
    pub fn execute(self) -> Execution {
        Execution { contract: self.contract }
    }
}

impl Execution {
    /// Adds the result of the run.
    pub fn evaluate(self, closing: JobOutcome) -> Evaluation {
        Evaluation { contract: self.contract, closing }
    }
}

/// State of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// Posted.
    Job(Job),
    /// Agents have bid.
    Proposed(Proposed),
    /// The contract is signed.
    Contract(Contract),
    /// The plan is ready.
    Decomposition(Decomposition),
    /// The run is open.
    Execution(Execution),
    /// The run is over.
    Evaluation(Evaluation),
    /// The job failed.
    Failed(FailedJob),
}

/// A transition that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// No such job.
    #[error("there is no job {0}")]
    Unknown(RunId),
    /// The job's stage has no such transition.
    #[error("job {job} is at {}, and does not come to {} from there", from.as_str(), to.as_str())]
    NoArrow {
        /// The job.
        job: RunId,
        /// Current stage.
        from: Stage,
        /// Requested stage.
        to: Stage,
    },
    /// The contract went to an agent without a bid.
    #[error("job {0} went to an agent that did not propose")]
    NotProposed(RunId),
}

impl MarketStep {
    /// Stage that the step leads to.
    pub fn stage(&self) -> Stage {
        match self {
            MarketStep::Posted(_) => Stage::Job,
            MarketStep::Proposed { .. } => Stage::Proposal,
            MarketStep::Signed { .. } => Stage::Contract,
            MarketStep::Decomposed { .. } => Stage::Decomposition,
            MarketStep::Started => Stage::Execution,
            MarketStep::Evaluated(_) => Stage::Evaluation,
            MarketStep::Failed { .. } => Stage::Failed,
        }
    }
}

impl JobState {
    /// Current stage.
    pub fn stage(&self) -> Stage {
        match self {
            JobState::Job(_) => Stage::Job,
            JobState::Proposed(_) => Stage::Proposal,
            JobState::Contract(_) => Stage::Contract,
            JobState::Decomposition(_) => Stage::Decomposition,
            JobState::Execution(_) => Stage::Execution,
            JobState::Evaluation(_) => Stage::Evaluation,
            JobState::Failed(_) => Stage::Failed,
        }
    }

    /// The job.
    pub fn job(&self) -> &Job {
        match self {
            JobState::Job(job) => job,
            JobState::Proposed(proposed) => &proposed.job,
            JobState::Failed(abandoned) => &abandoned.job,
            JobState::Contract(contract)
            | JobState::Decomposition(Decomposition { contract, .. })
            | JobState::Execution(Execution { contract })
            | JobState::Evaluation(Evaluation { contract, .. }) => &contract.job,
        }
    }

    /// The contract, if one was signed.
    pub fn contract(&self) -> Option<&Contract> {
        match self {
            JobState::Job(_) | JobState::Proposed(_) => None,
            JobState::Failed(abandoned) => abandoned.contract.as_deref(),
            JobState::Contract(contract)
            | JobState::Decomposition(Decomposition { contract, .. })
            | JobState::Execution(Execution { contract })
            | JobState::Evaluation(Evaluation { contract, .. }) => Some(contract),
        }
    }

    /// Checks a step without taking it, on a copy.
    ///  
    /// # Errors
    ///  
    /// Same as [`JobState::apply`].
    pub fn check(&self, step: &MarketStep) -> Result<(), StageError> {
        self.clone().apply(step.clone()).map(drop)
    }

    /// Takes a step.
    ///  
    /// # Errors
    ///  
    /// The job's stage has no such transition.
    pub fn apply(self, step: MarketStep) -> Result<JobState, StageError> {
        use {JobState as S, MarketStep as M};
        let (job, from, to) = (self.job().id, self.stage(), step.stage());
        let no_arrow = StageError::NoArrow { job, from, to };
        Ok(match (self, step) {
            (S::Job(job), M::Proposed { proposals }) => S::Proposed(job.propose(proposals)),
            (
                S::Proposed(Proposed { job, proposals }),
                M::Signed { winner, price, budget, deadline, oversight, reserved },
            ) => {
                let proposal = proposals.into_iter().find(|proposal| proposal.agent == winner);
                let proposal = proposal.ok_or(StageError::NotProposed(job.id))?;
                S::Contract(Contract { job, winner, price, budget, deadline, oversight, reserved, proposal })
            }
            (S::Contract(contract), M::Decomposed { plan, nodes }) => {
                S::Decomposition(contract.decompose(plan, nodes))
            }
            (S::Decomposition(decomposition), M::Started) => S::Execution(decomposition.execute()),
            (S::Execution(execution), M::Evaluated(closing)) => S::Evaluation(execution.evaluate(closing)),
            (S::Evaluation(_) | S::Failed(_), _) => return Err(no_arrow), // absorbing
            (state, M::Failed { at, reason, spent }) => {
                let (contract, job) = (state.contract().cloned().map(Box::new), state.job().clone());
                S::Failed(FailedJob { job, contract, at, reason, spent })
            }
            (S::Job(_) | S::Proposed(_) | S::Contract(_) | S::Decomposition(_) | S::Execution(_), _) => {
                return Err(no_arrow);
            }
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::market::{JobFault, Offer};
    use crate::run::RunOutcome;

    pub(crate) fn job(budget: u64, deadline: Option<Ticks>) -> Job {
        Job {
            id: RunId(uuid::Uuid::from_u128(7)),
            client: "acme".into(),
            title: "read the contract".into(),
            capabilities: BTreeSet::from(["contracts".to_owned()]),
            domain: None,
            budget,
            deadline,
            oversight: Oversight::AutonomousEscalation,
            plan: Json::null(),
            intent: 1,
            scope: "default".into(),
            workspace: "/".into(),
        }
    }

    fn steps() -> Vec<MarketStep> {
        let offer = Offer { price: Some(40), ..Offer::default() };
        let proposal = Proposal::of("a".into(), &offer, &job(100, None), None);
        let signed = |winner: &str| MarketStep::Signed {
            winner: winner.into(),
            price: 40,
            budget: 100,
            deadline: None,
            oversight: Oversight::Supervised,
            reserved: true,
        };
        vec![
            MarketStep::Proposed { proposals: vec![proposal] },
            signed("a"),
            MarketStep::Decomposed { plan: Json::null(), nodes: 3 },
            MarketStep::Started,
            MarketStep::Evaluated(JobOutcome {
                outcome: RunOutcome::Succeeded,
                spent: 30,
                composite: Some(900),
            }),
        ]
    }

    #[test]
    fn a_job_walks_through_its_stages_and_through_no_other_way() {
        let failed = MarketStep::Failed { at: Stage::Contract, reason: "no".into(), spent: 0 };
        let mut state = JobState::Job(job(100, None));
        for (at, step) in steps().into_iter().enumerate() {
            for (other, wrong) in steps().into_iter().enumerate().filter(|(other, _)| *other != at) {
                let refused =
                    StageError::NoArrow { job: job(1, None).id, from: state.stage(), to: wrong.stage() };
                assert_eq!(state.clone().apply(wrong), Err(refused), "{at} {other}");
            }
            assert_eq!(state.clone().apply(failed.clone()).unwrap().stage(), Stage::Failed, "{at}");
            state = state.apply(step).unwrap();
            assert_eq!(state.stage(), Stage::ALL[at + 1]);
        }
        assert!(state.stage().is_over());
        assert_eq!(state.contract().map(|contract| contract.price), Some(40));
        for step in steps().into_iter().chain([failed]) {
            assert!(state.clone().apply(step).is_err(), "nothing follows");
        }
    }

    #[test]
    fn nobody_gets_a_contract_who_did_not_propose() {
        let [proposed, signed] = <[_; 2]>::try_from(steps()[..2].to_vec()).unwrap();
        let MarketStep::Signed { price, budget, deadline, oversight, reserved, .. } = signed else {
            panic!()
        };
        let other = MarketStep::Signed { winner: "b".into(), price, budget, deadline, oversight, reserved };
        let state = JobState::Job(job(100, None)).apply(proposed).unwrap();
        assert_eq!(state.apply(other), Err(StageError::NotProposed(job(1, None).id)));
    }

    #[test]
    fn every_fault_of_a_job_is_told() {
        let check = |job: Job, expected: &[JobFault]| {
            assert_eq!(job.check(100).err().map(|error| error.0).unwrap_or_default(), expected);
        };
        check(job(1, None), &[]);
        check(job(1, Some(101)), &[]);
        check(job(0, Some(100)), &[JobFault::Budget(0), JobFault::Deadline { ago_ms: 0 }]);
        let long = "x".repeat(201);
        check(
            Job { title: long, ..job(u64::MAX, None) },
            &[JobFault::Title(201), JobFault::Budget(u64::MAX)],
        );
        for (title, sign) in
            [("read\nit", '\n'), ("read it\n", '\n'), ("a\u{1b}[1m", '\u{1b}'), ("a\u{2028}b", '\u{2028}')]
        {
            check(Job { title: title.into(), ..job(1, None) }, &[JobFault::ControlCharacter(sign)]);
        }
        check(Job { title: "Läs det 🦀".into(), ..job(1, None) }, &[]);
        let capabilities = BTreeSet::from(["a b".to_owned()]);
        let named = Job { capabilities, domain: Some(String::new()), ..job(1, None) };
        check(named, &[JobFault::Capability("a b".into()), JobFault::Domain(String::new())]);
        let many: BTreeSet<String> = (0..65).map(|at| format!("c{at}")).collect();
        check(Job { capabilities: many, ..job(1, None) }, &[JobFault::TooMany(65)]);
    }
}
