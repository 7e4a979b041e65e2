//! Grants: an operator's approval in advance of calls that match a pattern.

use ostler_kernel::event::HumanRequestKind;
use ostler_kernel::grant::{GRANT_MS_MAX, Grant, GrantTerms, pattern};
use ostler_kernel::id::{Digest, Ticks};

use crate::api::approval::ApprovalId;
use crate::api::system::System;
use crate::messages::answer::Answer;
use crate::messages::grant::GrantError;
use crate::messages::registry::RegistryMessage;

impl System {
    /// Approves in advance, for `valid_ms` milliseconds, calls with the tool, the client and the workspace of an open question and an
    /// argument list that fits the pattern `text`, such as `git push *`. Questions about such calls are answered with yes in the name of
    /// the person of `answer`, as long as the files that the question shows are unchanged; see [`Grant::covers`]. `digest` is what the
    /// person saw. The open question stays open. Durable on return; dropping the future may or may not have granted.
    ///
    /// # Errors
    ///
    /// See [`GrantError`].
    pub async fn grant(
        &self,
        id: &ApprovalId,
        digest: Digest,
        text: &str,
        valid_ms: i64,
        answer: &Answer,
    ) -> Result<Grant, GrantError> {
        answer.check()?;
        let argv = pattern(text)?;
        if !(1..=GRANT_MS_MAX).contains(&valid_ms) {
            return Err(GrantError::Validity(valid_ms));
        }
        let question = self.approval(id).await?;
        let question = question.filter(|question| question.shown.ask == HumanRequestKind::Before);
        let call = question.and_then(|question| {
            let (tool, workspace) = (question.shown.tool.clone()?, question.shown.workspace.clone()?);
            Some((tool, workspace, question.client, question.shown))
        });
        let Some((tool, workspace, client, shown)) =
            call.filter(|(.., shown)| shown.params.contains_key("argv"))
        else {
            return Err(GrantError::NoCall(id.node.clone()));
        };
        if shown.digest() != digest {
            return Err(GrantError::Changed(id.node.clone()));
        }
        let until: Ticks = self.services.journal.now().saturating_add(valid_ms);
        let terms = GrantTerms { id: String::new(), client, tool, argv, until, by: answer.by.clone() };
        if !terms.fits(&shown.params) {
            return Err(GrantError::OtherCall(shown.params["argv"].to_string()));
        }
        let files = shown.files.into_iter().map(|file| (file.path, file.digest)).collect();
        let grant = Grant { terms, workspace, files };
        let given = self.ask_registry(|reply| RegistryMessage::Grant { grant, reply }).await;
        let (grant, position) = given.ok_or(GrantError::Restarting)??;
        self.services.journal.durable(position).await?;
        Ok(grant)
    }

    /// Revokes a grant before its end, in the name of `by`. Durable on return; dropping the future may or may not have revoked.
    ///
    /// # Errors
    ///
    /// See [`GrantError`].
    pub async fn revoke_grant(&self, id: &str, by: &str) -> Result<Grant, GrantError> {
        let (id, by) = (id.to_owned(), by.to_owned());
        let revoked = self.ask_registry(|reply| RegistryMessage::RevokeGrant { id, by, reply }).await;
        let (grant, position) = revoked.ok_or(GrantError::Restarting)??;
        self.services.journal.durable(position).await?;
        Ok(grant)
    }

    /// The grants in force, the earliest end first.
    pub fn grants(&self) -> Vec<Grant> {
        self.services.grants.in_force(self.services.journal.now())
    }
}
