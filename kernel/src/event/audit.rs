//! Records of verdicts of the gate: the audit log.

use serde::{Deserialize, Serialize};

use crate::id::{Digest, NodeId};
use crate::lineage;

/// Record of [`Event::GateVerdict`](super::Event::GateVerdict): one for each verdict on the call of a node.
///
/// The verdicts of a run are a hash chain: each verdict names the hash of its predecessor, so a changed, removed or
/// inserted verdict breaks every later link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateVerdict {
    /// The node.
    pub node: NodeId,
    /// Number of the judged attempt.
    pub attempt: u32,
    /// Name of the tool.
    pub tool: String,
    /// Version of the tool; empty for an unregistered tool.
    pub version: String,
    /// The answer.
    pub answer: GateAnswer,
    /// `OK`, or the code of the denial or of the hold.
    pub code: String,
    /// Scope of the caller.
    pub scope: String,
    /// Highest impact that the caller allows.
    pub intent: u8,
    /// Impact of the call, and the smallest of intent, cap and ceiling; `None`: an earlier check failed.
    pub measured: Option<(u8, u8)>,
    /// Epoch of the policy.
    pub policy_epoch: u64,
    /// Digest of the parameters, defaults included; `None` before they are resolved.
    pub params: Option<Digest>,
    /// Sensitive parameters for which the call is held, or was held until a person allowed the call.
    pub tainted: Vec<String>,
    /// Numeric parameters of an allowed call, for cumulative budgets.
    pub amounts: Vec<(String, f64)>,
    /// Hash of the preceding verdict; zeros for the first verdict.
    pub previous: Digest,
    /// Hash of all other fields.
    pub hash: Digest,
}

/// The answer of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateAnswer {
    /// The call starts.
    Allow,
    /// The call does not start.
    Deny,
    /// The call waits for a person.
    Hold,
}

impl GateAnswer {
    /// The answer in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            GateAnswer::Allow => "allow",
            GateAnswer::Deny => "deny",
            GateAnswer::Hold => "hold",
        }
    }
}

impl GateVerdict {
    /// The verdict, linked to its predecessor's hash `previous`.
    #[must_use]
    pub fn sealed(self, previous: Digest) -> GateVerdict {
        let verdict = GateVerdict { previous, ..self };
        GateVerdict { hash: verdict.digest(), ..verdict }
    }

    /// True if the verdict links to `previous` and its hash matches its fields.
    pub fn follows(&self, previous: Digest) -> bool {
        self.previous == previous && self.hash == self.digest()
    }

    fn digest(&self) -> Digest {
        let (impact, ceiling) = self.measured.unwrap_or((u8::MAX, u8::MAX));
        let levels = [self.answer as u8, self.intent, impact, ceiling];
        let params = self.params.map(|digest| digest.0.to_vec()).unwrap_or_default();
        let (attempt, epoch) = (self.attempt.to_le_bytes(), self.policy_epoch.to_le_bytes());
        let mut parts: Vec<&[u8]> = vec![
            self.node.as_str().as_bytes(),
            &attempt,
            self.tool.as_bytes(),
            self.version.as_bytes(),
            &levels,
            self.code.as_bytes(),
            self.scope.as_bytes(),
            &epoch,
            &params,
            &self.previous.0,
        ];
        let tainted = (self.tainted.len() as u64).to_le_bytes();
        parts.push(&tainted);
        parts.extend(self.tainted.iter().map(|name| name.as_bytes()));
        let amounts: Vec<[u8; 8]> = self.amounts.iter().map(|(_, amount)| amount.to_le_bytes()).collect();
        for ((name, _), amount) in self.amounts.iter().zip(&amounts) {
            parts.extend([name.as_bytes(), &amount[..]]);
        }
        lineage::hash("ostler.audit.1", &parts)
    }
}

/// Checks the chain of a run's verdicts, in order; returns their number.
///
/// # Errors
///
/// Index of the first verdict, from 0, that breaks the chain.
pub fn verify_verdicts<'a>(verdicts: impl IntoIterator<Item = &'a GateVerdict>) -> Result<usize, usize> {
    let mut previous = Digest([0; 32]);
    let mut count = 0;
    for verdict in verdicts {
        if !verdict.follows(previous) {
            return Err(count);
        }
        (previous, count) = (verdict.hash, count + 1);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Vec<GateVerdict> {
        let mut previous = Digest([0; 32]);
        let verdict = |attempt| GateVerdict {
            node: NodeId::from("pay"),
            attempt,
            tool: "pay".to_owned(),
            version: "1".to_owned(),
            answer: GateAnswer::Allow,
            code: "OK".to_owned(),
            scope: "default".to_owned(),
            intent: 1,
            measured: Some((1, 1)),
            policy_epoch: 1,
            params: Some(Digest([7; 32])),
            tainted: vec!["to".to_owned()],
            amounts: vec![("amount".to_owned(), 7.5)],
            previous: Digest([0; 32]),
            hash: Digest([0; 32]),
        };
        let sealed = (1..4).map(|attempt| {
            let sealed = verdict(attempt).sealed(previous);
            previous = sealed.hash;
            sealed
        });
        sealed.collect()
    }

    #[test]
    fn a_verdict_that_was_changed_removed_or_inserted_breaks_the_chain() {
        assert_eq!(verify_verdicts(&chain()), Ok(3));
        let changes: [&dyn Fn(&mut GateVerdict); 9] = [
            &|it| it.node = NodeId::from("other"),
            &|it| it.attempt = 9,
            &|it| it.answer = GateAnswer::Deny,
            &|it| it.code = "LOCKDOWN".to_owned(),
            &|it| it.scope = "all".to_owned(),
            &|it| it.measured = None,
            &|it| it.params = None,
            &|it| it.tainted.clear(),
            &|it| it.amounts[0].1 = 8.0,
        ];
        for change in changes {
            let mut changed = chain();
            change(&mut changed[1]);
            assert_eq!(verify_verdicts(&changed), Err(1), "{:?}", changed[1]);
        }
        let mut removed = chain();
        removed.remove(1);
        assert_eq!(verify_verdicts(&removed), Err(1));
        let mut inserted = chain();
        inserted.insert(1, inserted[0].clone());
        assert_eq!(verify_verdicts(&inserted), Err(1));
    }
}
