//! Salvaging: collecting the remaining records of affected runs and pipelines during a rewrite.

use std::collections::{BTreeMap, HashMap};
use std::io;

use ostler_kernel::event::{Event, Outcome};
use ostler_kernel::id::{ClientId, Digest, RunId};
use ostler_kernel::market::MarketStep;
use ostler_kernel::port::StreamId;

use super::affected_runs::AffectedRuns;
use super::artifact_refs::artifacts;
use super::pipeline_damage::{SalvagedPipelines, is_pipeline};
use super::quarantine::MovedRecord;
use crate::format::frame_body::Section;
use crate::format::stream::run_of;

/// Describes the damage of an artifact; `None` for an intact or unreadable one.
pub(super) type ArtifactFault<'a> = &'a dyn Fn(Digest) -> Option<String>;

pub(super) struct Salvage<'a> {
    affected: &'a AffectedRuns,
    artifact_fault: ArtifactFault<'a>,
    pub(super) runs: BTreeMap<RunId, SalvagedRun>,
    /// Runs naming a damaged or missing artifact, with the reason.
    pub(super) faulty_artifacts: AffectedRuns,
    pub(super) client_names: HashMap<StreamId, ClientId>,
    pub(super) pipelines: SalvagedPipelines,
}

#[derive(Default, Clone)]
pub(super) struct SalvagedRun {
    pub(super) count: u64,
    pub(super) artifacts: Vec<Digest>,
    pub(super) text: Vec<u8>,
}

impl<'a> Salvage<'a> {
    pub(super) fn new(affected: &'a AffectedRuns, artifact_fault: ArtifactFault<'a>) -> Salvage<'a> {
        Salvage {
            affected,
            artifact_fault,
            runs: BTreeMap::new(),
            faulty_artifacts: BTreeMap::new(),
            client_names: HashMap::new(),
            pipelines: SalvagedPipelines::default(),
        }
    }

    /// Adds a section; `dropped`: the section leaves the journal.
    pub(super) fn add(&mut self, section: &Section<'_>, dropped: bool) -> io::Result<()> {
        let events = section.events().map_err(io::Error::other)?;
        if is_pipeline(&section.stream) {
            return if dropped { self.pipelines.add(section, events) } else { Ok(()) };
        }
        let Some(run) = run_of(&section.stream) else {
            let name = events.iter().find_map(client_of);
            self.client_names.extend(name.map(|client| (section.stream, client)));
            return Ok(());
        };
        if !dropped {
            if let Some(why) = events.iter().find_map(|event| self.artifact_fault_in(event)) {
                self.faulty_artifacts.entry(run).or_insert(why);
            }
            return Ok(());
        }
        debug_assert!(self.affected.contains_key(&run), "only affected runs leave the journal");
        let salvaged = self.runs.entry(run).or_default();
        salvaged.artifacts.extend(artifacts(&events));
        for (event, seq) in events.into_iter().zip(section.first..) {
            serde_json::to_writer(&mut salvaged.text, &MovedRecord { seq, at_ms: section.at_ms, event })?;
            salvaged.text.push(b'\n');
            salvaged.count += 1;
        }
        Ok(())
    }

    fn artifact_fault_in(&self, event: &Event) -> Option<String> {
        let (outcome, whose) = match event {
            Event::AttemptResult(result) => (&result.outcome, format!("node {}", result.node)),
            Event::StepResult(result) => {
                (&result.outcome, format!("step {:?} of node {}", result.step, result.of.node))
            }
            _ => return None,
        };
        let Outcome::Ok(output) = outcome else { return None };
        let what = (self.artifact_fault)(output.artifact).filter(|_| output.inline.is_none())?;
        Some(format!("the result of {whose}: {what}"))
    }
}

fn client_of(event: &Event) -> Option<ClientId> {
    match event {
        Event::AgentRegistered { client, .. }
        | Event::ClientSet { client, .. }
        | Event::CreditDeposited { client, .. }
        | Event::ClientRemoved { client }
        | Event::GrantRevoked { client, .. }
        | Event::RetractionCarriedOut { client, .. }
        | Event::RetractionLifted { client, .. }
        | Event::AgentProfiled { client, .. }
        | Event::AgentOffered { client, .. } => Some(client.clone()),
        Event::Granted(terms) => Some(terms.client.clone()),
        Event::GrantedIn(grant) => Some(grant.terms.client.clone()),
        Event::Retracted(retraction) => Some(retraction.client.clone()),
        Event::Market { step, .. } => match &**step {
            MarketStep::Posted(job) => Some(job.client.clone()),
            _ => None,
        },
        _ => None,
    }
}
