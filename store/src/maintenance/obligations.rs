//! Facts that decide whether a closed run may be removed, and which running work damage may have touched.

use std::collections::{BTreeMap, HashMap, HashSet};

use ostler_kernel::event::{Event, Outcome};
use ostler_kernel::id::{NodeId, RunId, Ticks};
use ostler_kernel::json::Json;
use ostler_kernel::market::MarketStep;
use ostler_kernel::port::StreamId;

use crate::format::frame_body::Section;
use crate::format::lsn::Lsn;
use crate::format::stream::run_of;

#[derive(Default)]
pub(super) struct Obligations {
    /// Per run, the nodes started and without a successful result, with the address of the first start.
    pub(super) unfinished: HashMap<RunId, BTreeMap<NodeId, Lsn>>,
    pub(super) parents: HashMap<RunId, RunId>,
    /// Jobs still open. A job has its run's id.
    pub(super) open_jobs: HashSet<RunId>,
    /// Ended jobs with plans still in the records: the client's stream and the time of ending.
    pub(super) ended_jobs: HashMap<RunId, (StreamId, Ticks)>,
    planned_jobs: HashSet<RunId>,
}

impl Obligations {
    pub(super) fn add(&mut self, lsn: Lsn, section: &Section<'_>, events: &[Event]) {
        if let Some(run) = run_of(&section.stream) {
            events.iter().for_each(|event| self.add_run_event(run, event, lsn));
        }
        events.iter().for_each(|event| self.add_job_event(section, event));
    }

    fn add_run_event(&mut self, run: RunId, event: &Event, lsn: Lsn) {
        match event {
            Event::AttemptIntent(intent) => {
                self.unfinished.entry(run).or_default().entry(intent.node.clone()).or_insert(lsn);
            }
            Event::AttemptResult(result) if matches!(result.outcome, Outcome::Ok(_)) => {
                self.unfinished.entry(run).or_default().remove(&result.node);
            }
            Event::RunClosed { .. } => drop(self.unfinished.remove(&run)),
            Event::RunTerms(terms) => {
                self.parents.extend(terms.parent.as_ref().map(|parent| (run, parent.run)));
            }
            _ => {}
        }
    }

    fn add_job_event(&mut self, section: &Section<'_>, event: &Event) {
        let Event::Market { job, step } = event else { return };
        match &**step {
            MarketStep::Posted(posted) => {
                self.open_jobs.insert(*job);
                self.planned_jobs.extend((posted.plan != Json::null()).then_some(*job));
            }
            step if step.stage().is_over() => {
                self.open_jobs.remove(job);
                if self.planned_jobs.remove(job) {
                    self.ended_jobs.insert(*job, (section.stream, section.at_ms));
                }
            }
            _ => {}
        }
    }
}
