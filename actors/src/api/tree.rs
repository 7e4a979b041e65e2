//! The tree: a rest-for-one root over registry, evaluator, scheduler, pipelines and a one-for-one pool of agents and
//! stages. The order is the order of dependency: a crash restarts that child and all after it.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::id::AgentId;
use ostler_supervisor::{
    ChildEvent, ChildSpec, Event, Intensity, PoolSpec, StartError, Strategy, Supervisor, SupervisorRef,
    SupervisorSpec,
};

use crate::base::keys::BETWEEN;
use crate::base::limits::LIVE_AGENTS_MAX;
use crate::evaluator::{Evaluator, EvaluatorArguments};
use crate::messages::registry::RegistryMessage;
use crate::pipelines::actor::{Pipelines, PipelinesArguments};
use crate::pipelines::message::PipelinesMessage;
use crate::pipelines::pipeline_map::PipelineMap;
use crate::registry::Registry;
use crate::run::services::RunServices;
use crate::scheduler::{Scheduler, SchedulerArguments};

/// Restarts of the root's children within [`ROOT_PERIOD`].
const ROOT_RESTARTS: u32 = 10;
const ROOT_PERIOD: Duration = Duration::from_secs(60);

/// Restarts of one agent or stage within [`AGENT_PERIOD`]; then it is quarantined.
const AGENT_RESTARTS: u32 = 5;
const AGENT_PERIOD: Duration = Duration::from_secs(60);

/// Restarts of all agents together within [`ROOT_PERIOD`].
const POOL_RESTARTS: u32 = LIVE_AGENTS_MAX;

pub(crate) async fn start(
    services: &Arc<RunServices>,
    map: &Arc<PipelineMap>,
    slots: u32,
) -> Result<SupervisorRef, StartError> {
    let mut spec = SupervisorSpec::new(
        Strategy::RestForOne,
        vec![
            registry(services),
            evaluator(services),
            scheduler(services, slots),
            pipelines(services, map),
            pool(services, map),
        ],
    );
    spec.intensity = Intensity::new(ROOT_RESTARTS, ROOT_PERIOD);
    let (observed, stages) = (Arc::clone(services), Arc::clone(map));
    Supervisor::start_observed(spec, Arc::new(move |event: &Event<'_>| observe(&observed, &stages, event)))
        .await
}

fn registry(services: &Arc<RunServices>) -> ChildSpec {
    let given = Arc::clone(services);
    ChildSpec::actor("registry", || Registry, move || Arc::clone(&given))
        .stable_ref(&services.mailboxes.registry)
}

fn evaluator(services: &Arc<RunServices>) -> ChildSpec {
    let given = evaluator_arguments(services);
    ChildSpec::actor("evaluator", || Evaluator, move || given.clone())
        .stable_ref(&services.mailboxes.evaluator)
}

pub(crate) fn evaluator_arguments(services: &RunServices) -> EvaluatorArguments {
    EvaluatorArguments {
        journal: Arc::clone(&services.journal),
        ledger: Arc::clone(&services.ledger),
        evaluation: Arc::clone(&services.evaluation),
        scheduler: Arc::clone(&services.scheduler),
        measures: services.measures.clone(),
        histories_max: services.limits.histories,
    }
}

fn scheduler(services: &Arc<RunServices>, slots: u32) -> ChildSpec {
    let given = Arc::clone(&services.scheduler);
    let arguments = move || SchedulerArguments { slots, scheduler: Arc::clone(&given) };
    ChildSpec::actor("scheduler", || Scheduler, arguments).stable_ref(&services.mailboxes.scheduler)
}

fn pipelines(services: &Arc<RunServices>, map: &Arc<PipelineMap>) -> ChildSpec {
    let given = PipelinesArguments {
        map: Arc::clone(map),
        mailboxes: Arc::clone(&services.mailboxes),
        status: Arc::clone(&services.journal.status),
        disk: Arc::clone(&services.journal.disk),
    };
    ChildSpec::actor("pipelines", || Pipelines, move || given.clone()).stable_ref(&map.actor)
}

fn pool(services: &Arc<RunServices>, map: &Arc<PipelineMap>) -> ChildSpec {
    let (linked, map) = (Arc::clone(&services.mailboxes), Arc::clone(map));
    let spec = PoolSpec {
        max_children: services.limits.live_agents,
        intensity: Intensity::new(POOL_RESTARTS, ROOT_PERIOD),
        child_intensity: Some(Intensity::new(AGENT_RESTARTS, AGENT_PERIOD)),
        ..PoolSpec::default()
    };
    ChildSpec::pool("pool", spec).on_start(move |child| {
        linked.set_pool(child.pool());
        linked.tell_registry(RegistryMessage::PoolUp);
        map.tell(PipelinesMessage::PoolUp);
    })
}

/// Counts supervision events, and reports the ends of agents and stages.
fn observe(services: &RunServices, map: &PipelineMap, event: &Event<'_>) {
    services.measures.observe(event);
    if event.tree != "/pool/" {
        return;
    }
    if event.id.as_str().contains(BETWEEN) {
        if let ChildEvent::GivenUp { exit } = event.kind {
            let reason = format!("it failed too often: {exit}");
            let child = event.id.to_string();
            map.tell(PipelinesMessage::Down { child, reason });
        }
        return;
    }
    let agent = AgentId::from(event.id.as_str());
    match event.kind {
        ChildEvent::Exited { exit, asked } => {
            let again = !asked && exit.is_abnormal();
            services.mailboxes.tell_registry(RegistryMessage::Gone { agent, again });
        }
        ChildEvent::GivenUp { exit } => {
            let reason = format!("it failed too often: {exit}");
            services.mailboxes.tell_registry(RegistryMessage::GivenUp { agent, reason });
        }
        _ => {}
    }
}
