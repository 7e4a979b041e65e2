//! Drives a run to its end and passes approval requests to a reviewer.

use std::collections::BTreeMap;

use ostler::kernel::event::HumanRequestKind;
use ostler::kernel::run::RunStatus;
use ostler::kernel::run::{NodeStatus, RunOutcome};
use ostler::{Answer, Approval, Ostler, ResolveHow, Run, Settled};
use serde_json::Value;

use super::{Error, Out};

/// A reviewer's answer to an approval request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Review {
    pub(crate) approve: bool,
    pub(crate) note: String,
}

impl Review {
    pub(crate) fn approve(note: impl Into<String>) -> Review {
        Review { approve: true, note: note.into() }
    }

    /// Rejects the result; the node runs again with the note as feedback.
    pub(crate) fn reject(note: impl Into<String>) -> Review {
        Review { approve: false, note: note.into() }
    }
}

/// Answers approval requests.
pub(crate) trait Reviewer: Send {
    /// Reviews the result of a node.
    fn review(&mut self, node: &str, result: &Value) -> Result<Review, Error>;

    /// Decides whether a crashed node may run again. The analysts here only read, so a rerun is safe.
    fn crashed(&mut self, _node: &str) -> Result<bool, Error> {
        Ok(true)
    }
}

/// Reviews at the terminal.
pub(crate) struct Terminal;

impl Terminal {
    /// Reads a line. Blocks the thread, which has nothing else to do.
    fn line(question: &str) -> Result<String, Error> {
        eprintln!("{question}");
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line)? == 0 {
            return Err("end of input: start the example again to resume".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Reviewer for Terminal {
    fn review(&mut self, node: &str, result: &Value) -> Result<Review, Error> {
        eprintln!("{result:#}");
        let question = format!("{node}: press Enter to approve, or type what to change:");
        let note = Terminal::line(&question)?;
        Ok(if note.is_empty() { Review::approve("") } else { Review::reject(note) })
    }

    fn crashed(&mut self, node: &str) -> Result<bool, Error> {
        let question = format!("{node} crashed: press Enter to retry, or type anything to fail it:");
        Ok(Terminal::line(&question)?.is_empty())
    }
}

/// Effort of a successful run.
pub(crate) struct RunStats {
    /// Attempts by node.
    pub(crate) attempts: BTreeMap<String, u32>,
    /// Plan version: starts at 1 and grows with each repetition after a rejection and each fallback.
    pub(crate) version: u32,
}

impl RunStats {
    /// Prints a line per node, and the plan version if the plan changed.
    pub(crate) fn print(&self, out: Out<'_>) -> std::io::Result<()> {
        for (node, attempts) in &self.attempts {
            writeln!(out, "node  {node}: {attempts} attempt{}", if *attempts == 1 { "" } else { "s" })?;
        }
        if self.version > 1 {
            writeln!(out, "plan  version {}", self.version)?;
        }
        Ok(())
    }
}

/// Waits until the run succeeds and answers its approval requests.
pub(crate) async fn run_to_success(
    os: &Ostler,
    run: &Run,
    reviewer: &mut dyn Reviewer,
    out: Out<'_>,
) -> Result<RunStats, Error> {
    loop {
        let Settled { status, reason } = run.outcome().await?;
        if let Some(outcome) = status.outcome() {
            return closed(os, run, outcome).await;
        }
        match status {
            RunStatus::Waiting => {
                for approval in run.approvals().await? {
                    answer(os, &approval, reviewer, out).await?;
                }
                escalated(os, run, reviewer, out).await?;
            }
            _ => return Err(format!("the run is {status}: {}", reason.unwrap_or_default()).into()),
        }
    }
}

/// The effort of a closed run; an error if the run did not succeed.
async fn closed(os: &Ostler, run: &Run, outcome: RunOutcome) -> Result<RunStats, Error> {
    let view = os.system().view(run.id(), None).await?;
    if outcome != RunOutcome::Succeeded {
        let why = view.run.instances().filter_map(|(node, it)| {
            it.failure.as_ref().map(|failure| format!("{}: {}", node.id, failure.message))
        });
        return Err(format!("the run has {outcome}: {}", why.collect::<Vec<_>>().join("; ")).into());
    }
    let attempts = view.run.instances().map(|(node, it)| (node.id.to_string(), it.attempts)).collect();
    Ok(RunStats { attempts, version: view.run.plan().version })
}

async fn answer(
    os: &Ostler,
    approval: &Approval,
    reviewer: &mut dyn Reviewer,
    out: Out<'_>,
) -> Result<(), Error> {
    let node = &approval.id.node;
    let output = approval.result.as_ref().ok_or_else(|| format!("{node} asks about no result"))?;
    let result = os.system().value(output).await?;
    let Review { approve, note } = reviewer.review(node.as_str(), &result)?;
    let said = if approve { "approved" } else { "sent back" };
    let answer = if approve { Answer::approve() } else { Answer::reject() };
    // The answer carries the digest of the shown result and has no effect if the result has changed since.
    os.answer(approval, answer.by("reviewer").note(note.as_str())).await?;
    let digest = approval.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let note = if note.is_empty() { note } else { format!(": {note}") };
    writeln!(out, "gate  {node} b3:{} {said}{note}", &digest[..digest.len().min(8)])?;
    Ok(())
}

/// Answers escalated crashes.
async fn escalated(os: &Ostler, run: &Run, reviewer: &mut dyn Reviewer, out: Out<'_>) -> Result<(), Error> {
    let view = os.system().view(run.id(), None).await?;
    for (node, instance) in view.run.instances() {
        if matches!(instance.status, NodeStatus::WaitingHuman { ask: HumanRequestKind::InDoubt, .. }) {
            let again = reviewer.crashed(node.id.as_str())?;
            run.resolve(node.id.as_str(), if again { ResolveHow::Redo } else { ResolveHow::Fail }).await?;
            let said = if again { "it is done again" } else { "it has failed" };
            writeln!(out, "gate  {} crashed: a person says that {said}", node.id)?;
        }
    }
    Ok(())
}
