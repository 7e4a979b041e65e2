//! Records grants and revocations in the streams of the clients.

use ostler_kernel::event::Event;
use ostler_kernel::grant::{GRANTS_MAX, Grant};
use ostler_kernel::port::Position;

use super::RegistryState;
use crate::messages::grant::GrantError;

impl RegistryState {
    /// Records a grant under the next free number.
    pub(super) fn grant(&mut self, mut grant: Grant) -> Result<(Grant, Position), GrantError> {
        let now = self.services.journal.now();
        let known = self.services.grants.in_force(now);
        if known.len() >= GRANTS_MAX {
            return Err(GrantError::TooMany);
        }
        grant.terms.id = self.services.grants.next_id();
        let event = Event::GrantedIn(Box::new(grant.clone()));
        let position = self.append(&grant.terms.client.clone(), vec![event])?;
        Ok((grant, position))
    }

    pub(super) fn revoke_grant(&mut self, id: String, by: String) -> Result<(Grant, Position), GrantError> {
        let now = self.services.journal.now();
        let found = self.services.grants.in_force(now).into_iter().find(|grant| grant.terms.id == id);
        let grant = found.ok_or_else(|| GrantError::Unknown(id.clone()))?;
        let client = grant.terms.client.clone();
        let event = Event::GrantRevoked { client: client.clone(), grant: id, by };
        Ok((grant, self.append(&client, vec![event])?))
    }
}
