//! What agents say of themselves: a cache of the journal that outlives the registry.

use std::sync::{Arc, LazyLock};

use dashmap::DashMap;
use ostler_kernel::agent::Profile;
use ostler_kernel::id::AgentId;
use ostler_kernel::json::Json;

/// The profiles of those agents that say anything.
#[derive(Default)]
pub(crate) struct Profiles(DashMap<AgentId, Arc<Profile>>);

/// What most agents say.
static EMPTY: LazyLock<Arc<Profile>> = LazyLock::new(Arc::default);

impl Profiles {
    /// Keeps what an agent says from here on.
    pub(crate) fn keep(&self, agent: &AgentId, profile: Profile) {
        if !profile.is_empty() {
            self.0.insert(agent.clone(), Arc::new(profile));
        }
    }

    /// Keeps what a record says of an agent.
    pub(crate) fn read(&self, agent: &AgentId, profile: &Json) {
        match serde_json::from_str(profile.as_str()) {
            Ok(profile) => self.keep(agent, profile),
            Err(error) => tracing::error!(%agent, %error, "the profile of an agent cannot be read"),
        }
    }

    /// What an agent says; nothing, for one that nobody knows.
    pub(crate) fn of(&self, agent: &AgentId) -> Arc<Profile> {
        self.0.get(agent).map_or_else(|| Arc::clone(&EMPTY), |profile| Arc::clone(&profile))
    }
}
