//! Profiles of agents: a cache of the journal that outlives the registry.

use std::sync::{Arc, LazyLock, Mutex};

use dashmap::DashMap;
use ostler_kernel::agent::Profile;
use ostler_kernel::id::AgentId;
use ostler_kernel::json::Json;

use crate::base::interner::Interner;
use crate::base::lock::lock;

/// Profiles that are not empty.
#[derive(Default)]
pub(crate) struct Profiles {
    profiles: DashMap<AgentId, Arc<Profile>>,
    alike: Mutex<Interner<Profile>>,
}

static EMPTY: LazyLock<Arc<Profile>> = LazyLock::new(Arc::default);

impl Profiles {
    pub(crate) fn read(&self, agent: &AgentId, text: &Json) {
        let profile = lock(&self.alike).of(text, || serde_json::from_str::<Profile>(text.as_str()));
        match profile {
            Ok(profile) if profile.is_empty() => {}
            Ok(profile) => drop(self.profiles.insert(agent.clone(), profile)),
            Err(error) => tracing::error!(%agent, %error, "the profile of an agent cannot be read"),
        }
    }

    /// The profile of an agent; the empty one if the agent is unknown.
    pub(crate) fn of(&self, agent: &AgentId) -> Arc<Profile> {
        self.profiles.get(agent).map_or_else(|| Arc::clone(&EMPTY), |profile| Arc::clone(&profile))
    }
}
