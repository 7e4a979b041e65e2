//! The gates of a run: what waits for a person is shown to one, until the run is over.

use std::collections::BTreeMap;

use ostler::kernel::run::RunStatus;
use ostler::kernel::event::HumanRequestKind;
use ostler::kernel::run::{RunOutcome, NodeStatus};
use ostler::{Answer, Approval, Ostler, ResolveHow, Run, Settled};
use serde_json::Value;

use super::{Error, Out};

/// What somebody says of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) approve: bool,
    pub(crate) note: String,
}

impl Said {
    pub(crate) fn yes(note: impl Into<String>) -> Said {
        Said { approve: true, note: note.into() }
    }

    /// The result is made again, with the note.
    pub(crate) fn no(note: impl Into<String>) -> Said {
        Said { approve: false, note: note.into() }
    }
}

/// Somebody who looks at results before they count.
pub(crate) trait Reviewer: Send {
    /// What they say of the result of a node.
    fn look(&mut self, node: &str, result: &Value) -> Result<Said, Error>;

    /// Whether a node that crashed is done again, where nobody but a person may say so. These analysts only look: once more
    /// does no harm.
    fn crashed(&mut self, _node: &str) -> Result<bool, Error> {
        Ok(true)
    }
}

/// The person at the terminal.
pub(crate) struct Terminal;

impl Terminal {
    /// What they type. Nothing else goes on meanwhile, so nobody is kept waiting by it.
    fn line(question: &str) -> Result<String, Error> {
        eprintln!("{question}");
        let mut line = String::new();
        if std::io::stdin().read_line(&mut line)? == 0 {
            return Err("nobody is there to answer: start it again to go on".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Reviewer for Terminal {
    fn look(&mut self, node: &str, result: &Value) -> Result<Said, Error> {
        eprintln!("{result:#}");
        let question = format!("{node}: approve with an empty line, or say what is to be different:");
        let note = Terminal::line(&question)?;
        Ok(if note.is_empty() { Said::yes("") } else { Said::no(note) })
    }

    fn crashed(&mut self, node: &str) -> Result<bool, Error> {
        let question = format!("{node} has crashed: an empty line has it done again, anything else ends it:");
        Ok(Terminal::line(&question)?.is_empty())
    }
}

/// What it took for a run to succeed.
pub(crate) struct Seen {
    /// Attempts of each node.
    pub(crate) attempts: BTreeMap<String, u32>,
    /// The version of the plan: one more for each result that was made again, and each fallback.
    pub(crate) version: u32,
}

impl Seen {
    /// A line for each node, and one for the plan if it has changed.
    pub(crate) fn tell(&self, out: Out<'_>) -> std::io::Result<()> {
        for (node, attempts) in &self.attempts {
            writeln!(out, "node  {node}: {attempts} attempt{}", if *attempts == 1 { "" } else { "s" })?;
        }
        if self.version > 1 {
            writeln!(out, "plan  version {}", self.version)?;
        }
        Ok(())
    }
}

/// Leads a run to its success: shows the reviewer what waits for a person.
pub(crate) async fn see_through(
    os: &Ostler,
    run: &Run,
    reviewer: &mut dyn Reviewer,
    out: Out<'_>,
) -> Result<Seen, Error> {
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

/// What a run has come to that is over; one that did not succeed is an error that says why.
async fn closed(os: &Ostler, run: &Run, outcome: RunOutcome) -> Result<Seen, Error> {
    let view = os.system().view(run.id(), None).await?;
    if outcome != RunOutcome::Succeeded {
        let why = view.run.instances().filter_map(|(node, it)| {
            it.failure.as_ref().map(|failure| format!("{}: {}", node.id, failure.message))
        });
        return Err(format!("the run has {outcome}: {}", why.collect::<Vec<_>>().join("; ")).into());
    }
    let attempts = view.run.instances().map(|(node, it)| (node.id.to_string(), it.attempts)).collect();
    Ok(Seen { attempts, version: view.run.plan().version })
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
    let Said { approve, note } = reviewer.look(node.as_str(), &result)?;
    let said = if approve { "approved" } else { "sent back" };
    let answer = if approve { Answer::approve() } else { Answer::reject() };
    // Bound to the digest of what was shown: should the result have changed meanwhile, the answer is void.
    os.answer(approval, answer.by("reviewer").note(note.as_str())).await?;
    let digest = approval.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let note = if note.is_empty() { note } else { format!(": {note}") };
    writeln!(out, "gate  {node} b3:{} {said}{note}", &digest[..digest.len().min(8)])?;
    Ok(())
}

/// Crashes, where nobody but a person may say what comes of them.
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
