//! What evaluates runs: weights of domains, the judge, and the standards of agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::evaluation::{DOMAIN_DEFAULT, Domains, Reputation, Standard, Verdict};
use ostler_kernel::event::Event;
use ostler_kernel::id::{AgentId, RunId, Ticks};
use ostler_kernel::port::{Journal, JournalError, Judge, RunRow, RunRowStatus, StreamId};

use crate::state::ledger::Ledger;
use crate::state::market::Market;
use crate::state::profiles::Profiles;
use crate::storage::run_reader;

/// Closed runs in the order of their closing.
pub(crate) fn in_order(mut rows: Vec<RunRow>) -> Vec<RunRow> {
    rows.retain(|row| matches!(row.status, RunRowStatus::Closed(_)));
    rows.sort_by_key(|row| (row.closed_ms, row.run));
    rows
}

/// The verdicts on a run with their times, oldest first.
pub(crate) fn verdicts(journal: &dyn Journal, row: &RunRow) -> Result<Vec<(Ticks, Verdict)>, JournalError> {
    let mut verdicts = Vec::new();
    run_reader::each(journal, StreamId::client(&row.client), None, |record| -> Result<(), JournalError> {
        if let Event::Verdict(verdict) = &record.event
            && verdict.run == row.run
        {
            verdicts.push((record.at_ms, (**verdict).clone()));
        }
        Ok(())
    })?;
    Ok(verdicts)
}

/// Configuration of the evaluation.
#[derive(Debug, Clone, Default)]
pub struct Evaluating {
    /// Weights of the dimensions, by domain.
    pub domains: Domains,
    /// Judges the quality of results; `None`: only people do.
    pub judge: Option<Arc<dyn Judge>>,
    /// Name of the model that judges results by contract rules which name none; `None`: `default`.
    pub judge_model: Option<String>,
}

pub(crate) struct Evaluation {
    pub(crate) domains: Arc<Domains>,
    /// Judges the quality of results; `None`: quality is not judged.
    pub(crate) judge: Option<Arc<dyn Judge>>,
    pub(crate) profiles: Arc<Profiles>,
    pub(crate) market: Arc<Market>,
    pub(crate) ledger: Arc<Ledger>,
}

impl Evaluation {
    /// The domain of an agent, from its offer or its profile.
    pub(crate) fn domain_of(&self, agent: &AgentId) -> Option<String> {
        let offered = self.market.offer(agent).and_then(|offer| offer.domain.clone());
        offered.or_else(|| self.profiles.of(agent).domain.clone())
    }

    /// Mean reputation of agents by domain, in thousandths; domains without agents are left out.
    pub(crate) fn reputations(&self) -> Vec<(String, u16)> {
        let mut domains: BTreeMap<String, Vec<Reputation>> = BTreeMap::new();
        self.ledger.each_reputation(|agent, reputation| {
            let domain = agent.and_then(|agent| self.domain_of(agent));
            domains.entry(domain.unwrap_or_else(|| DOMAIN_DEFAULT.to_owned())).or_default().push(reputation);
        });
        let means = domains.into_iter();
        means.filter_map(|(domain, all)| Some((domain, Reputation::mean_pm(all)?))).collect()
    }

    /// The standard of a run: its contract if it is a market job, else the agent's offer or profile.
    pub(crate) fn standard(&self, agent: &AgentId, run: RunId) -> Standard {
        let standard = self.market.standard_for(run).unwrap_or_else(|| self.market.standard_of(agent));
        Standard { domain: standard.domain.or_else(|| self.domain_of(agent)), ..standard }
    }
}
