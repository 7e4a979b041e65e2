//! Templates: learning from a run, and the templates that a goal's planner is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::json::{self, Json};
use ostler_kernel::plan::model_tool;
use ostler_kernel::policy::{
    LEARNT_PREFIX, LearnContext, LearnError, Learnt, OfferedTemplate, Template, TemplateRecord,
    best_templates, learn, words,
};
use ostler_kernel::port::{RunRow, RunRowStatus, RunsPage, TemplateStore};
use ostler_kernel::run::{NodeStatus, RunOutcome};

use crate::api::system::System;
use crate::base::error::RunError;

/// Templates whose records are read for one goal: those that share most words with it.
const WEIGHED_MAX: usize = 16;

/// Rows of runs that are looked through for records of templates, the latest first.
const ROWS_READ_MAX: usize = 4_096;

/// Rows read at once.
const ROWS_READ: usize = 256;

/// Runs of a template that its record counts, the latest first.
pub const TEMPLATE_RUNS_MAX: usize = 8;

/// The reason why nothing is learnt.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The run cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Nothing can be learnt from the run.
    #[error(transparent)]
    Learn(#[from] LearnError),
}

impl System {
    /// Shows planners the templates of a store from now on. The first store counts.
    pub fn offer_templates(&self, store: Arc<dyn TemplateStore>) {
        let _ = self.templates.set(store);
    }

    /// Learns a plan of this name from a run.
    ///
    /// # Errors
    ///
    /// See [`TemplateError`].
    pub async fn learn(&self, run: RunId, name: &str) -> Result<Learnt, TemplateError> {
        let view = self.view(run, None).await?;
        let mut results: BTreeMap<NodeId, Json> = BTreeMap::new();
        for (node, instance) in view.run.instances() {
            if let (NodeStatus::Executed, Some(output)) = (&instance.status, &instance.output) {
                let value = self.services.results.load(output).await.map_err(RunError::from)?;
                results.insert(node.id.clone(), json::canonical(&value).unwrap_or_else(|_| Json::null()));
            }
        }
        let toolbox = &self.services.gatekeeper.toolbox;
        let cx = LearnContext {
            name,
            outcome: view.closed,
            tools: &**toolbox,
            has_model: &|model| self.has_tool(&model_tool(model)),
            read: &|node| results.get(node).cloned().unwrap_or_else(Json::null),
        };
        Ok(learn(&view.run, &cx)?)
    }

    /// What became of the latest runs of templates, by name; at most [`TEMPLATE_RUNS_MAX`] of each.
    ///
    /// # Errors
    ///
    /// The table of runs cannot be read. Runs that cannot be read do not count.
    pub async fn template_records(
        &self,
        names: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, TemplateRecord>, RunError> {
        let mut found: BTreeMap<String, Vec<RunRow>> = BTreeMap::new();
        let (mut before, mut read) = (None, 0);
        while read < ROWS_READ_MAX && !names.is_empty() {
            let rows = self.runs_page(RunsPage { open_only: false, before, limit: ROWS_READ })?;
            before = rows.last().map(RunRow::place);
            read += ROWS_READ;
            let is_last = rows.len() < ROWS_READ;
            for row in rows {
                let Some(name) = row.plan.strip_prefix(LEARNT_PREFIX).filter(|name| names.contains(*name))
                else {
                    continue;
                };
                let of_name = found.entry(name.to_owned()).or_default();
                if matches!(row.status, RunRowStatus::Closed(_)) && of_name.len() < TEMPLATE_RUNS_MAX {
                    of_name.push(row);
                }
            }
            if is_last {
                break;
            }
        }
        let mut records = BTreeMap::new();
        for (name, rows) in found {
            let mut record = TemplateRecord::default();
            for row in rows {
                let Ok(view) = self.view(row.run, None).await else { continue };
                record.runs += 1;
                let succeeded =
                    Some(RunOutcome::Succeeded) == view.closed || Some(RunOutcome::Concluded) == view.closed;
                record.succeeded += u64::from(succeeded);
                record.credits = record.credits.saturating_add(view.report.cost);
                let tokens = view.report.models.map_or(0, |usage| usage.tokens());
                record.tokens = record.tokens.saturating_add(tokens);
            }
            records.insert(name, record);
        }
        Ok(records)
    }

    /// The templates that a planner of the goal is shown. None if records cannot be read: they only advise.
    pub async fn templates_for(&self, goal: &str) -> Vec<OfferedTemplate> {
        let Some(store) = self.templates.get() else { return Vec::new() };
        let wanted = words(goal);
        let mut ranked: Vec<(usize, Template)> =
            store.templates().await.into_iter().map(|template| (template.rank(&wanted), template)).collect();
        ranked.retain(|(rank, _)| *rank > 0);
        ranked.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.name.cmp(&other.name)));
        ranked.truncate(WEIGHED_MAX);
        let names = ranked.iter().map(|(_, template)| template.name.clone()).collect();
        let Ok(records) = self.template_records(&names).await else { return Vec::new() };
        let with_record = |(_, template): (usize, Template)| {
            let record = records.get(&template.name).copied().unwrap_or_default();
            (template, record)
        };
        best_templates(goal, ranked.into_iter().map(with_record).collect())
    }
}
