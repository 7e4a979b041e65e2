//! The tree: a rest-for-one root over registry, evaluator, scheduler, pipelines and a one-for-one pool of agents and stages. The order is the order of
//! dependency: a crash restarts that child and all after it.

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::id::AgentId;
use ostler_supervisor::{
    ChildSpec, Event, Intensity, PoolSpec, StartError, Strategy, Supervisor, SupervisorRef, SupervisorSpec,
    What,
};

use crate::base::limits::LIVE_AGENTS_MAX;
use crate::evaluator::Evaluator;
use crate::pipelines::actor::{BETWEEN, Pipelines, PipelinesMessage};
use crate::registry::{Registry, RegistryMessage};
use crate::scheduler::{Scheduler, SchedulerArguments};
use crate::services::Services;

/// Restarts of the root's children, at most, in [`ROOT_PERIOD`].
const ROOT_RESTARTS: u32 = 10;
const ROOT_PERIOD: Duration = Duration::from_secs(60);

/// Restarts of one agent or stage, at most, in [`AGENT_PERIOD`]; then it is taken out of service.
const AGENT_RESTARTS: u32 = 5;
const AGENT_PERIOD: Duration = Duration::from_secs(60);

/// Restarts of all agents together, at most, in [`ROOT_PERIOD`].
const POOL_RESTARTS: u32 = LIVE_AGENTS_MAX;

pub(crate) async fn start(services: &Arc<Services>, slots: u32) -> Result<SupervisorRef, StartError> {
    let mut spec = SupervisorSpec::new(
        Strategy::RestForOne,
        vec![
            registry(services),
            evaluator(services),
            scheduler(services, slots),
            pipelines(services),
            pool(services),
        ],
    );
    spec.intensity = Intensity::new(ROOT_RESTARTS, ROOT_PERIOD);
    let observed = Arc::clone(services);
    Supervisor::start_observed(spec, Arc::new(move |event: &Event<'_>| observe(&observed, event))).await
}

fn registry(services: &Arc<Services>) -> ChildSpec {
    let given = Arc::clone(services);
    ChildSpec::actor("registry", || Registry, move || Arc::clone(&given)).stable_ref(&services.links.registry)
}

fn evaluator(services: &Arc<Services>) -> ChildSpec {
    let given = Arc::clone(services);
    ChildSpec::actor("evaluator", || Evaluator, move || Arc::clone(&given))
        .stable_ref(&services.links.evaluator)
}

fn scheduler(services: &Arc<Services>, slots: u32) -> ChildSpec {
    let given = Arc::clone(services);
    let arguments = move || SchedulerArguments { slots, services: Arc::clone(&given) };
    ChildSpec::actor("scheduler", || Scheduler, arguments).stable_ref(&services.links.scheduler)
}

fn pipelines(services: &Arc<Services>) -> ChildSpec {
    let given = Arc::clone(services);
    ChildSpec::actor("pipelines", || Pipelines, move || Arc::clone(&given))
        .stable_ref(&services.links.pipelines)
}

fn pool(services: &Arc<Services>) -> ChildSpec {
    let linked = Arc::clone(services);
    let spec = PoolSpec {
        max_children: services.limits.live_agents,
        intensity: Intensity::new(POOL_RESTARTS, ROOT_PERIOD),
        child_intensity: Some(Intensity::new(AGENT_RESTARTS, AGENT_PERIOD)),
        ..PoolSpec::default()
    };
    ChildSpec::pool("pool", spec).on_start(move |child| {
        linked.links.set_pool(child.pool());
        linked.links.tell_registry(RegistryMessage::PoolUp);
        linked.links.tell_pipelines(PipelinesMessage::PoolUp);
    })
}

/// Counts what happens, and tells who brought them up what becomes of agents and stages.
fn observe(services: &Services, event: &Event<'_>) {
    services.measures.observe(event);
    if event.tree != "/pool/" {
        return;
    }
    if event.id.as_str().contains(BETWEEN) {
        if let What::GivenUp { exit } = event.what {
            let reason = format!("it failed too often: {exit}");
            let child = event.id.to_string();
            services.links.tell_pipelines(PipelinesMessage::Down { child, reason });
        }
        return;
    }
    let agent = AgentId::from(event.id.as_str());
    match event.what {
        What::Exited { exit, asked } => {
            let again = !asked && exit.is_abnormal();
            services.links.tell_registry(RegistryMessage::Gone { agent, again });
        }
        What::GivenUp { exit } => {
            let reason = format!("it failed too often: {exit}");
            services.links.tell_registry(RegistryMessage::GivenUp { agent, reason });
        }
        _ => {}
    }
}
