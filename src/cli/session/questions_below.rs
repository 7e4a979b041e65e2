//! Questions of the runs that a node opens while it runs, such as those of an MCP server. The records of the run do not tell of them.

use std::collections::BTreeSet;
use std::time::Duration;

use ostler_server::wire::{ApprovalList, ApprovalView};
use tokio::time::{Instant, sleep_until};

use crate::cli::session::api_client::Client;

/// Time without a record after which questions are looked for.
const WAIT: Duration = Duration::from_millis(500);

/// Longest time between two looks; each look without a record doubles the time.
const WAIT_MAX: Duration = Duration::from_secs(30);

pub(super) struct QuestionsBelow {
    run: String,
    /// Run and node of each question that was returned.
    told: BTreeSet<(String, String)>,
    wait: Duration,
    due: Instant,
}

impl QuestionsBelow {
    /// `path`: the run in the API.
    pub(super) fn of(path: &str) -> QuestionsBelow {
        let run = path.rsplit('/').next().unwrap_or_default().to_owned();
        QuestionsBelow { run, told: BTreeSet::new(), wait: WAIT, due: Instant::now() + WAIT }
    }

    /// A record came: a node may have begun to run.
    pub(super) fn record(&mut self) {
        (self.wait, self.due) = (WAIT, Instant::now() + WAIT);
    }

    /// Waits for the time of the next look. Dropping the future loses nothing.
    pub(super) async fn due(&self) {
        sleep_until(self.due).await;
    }

    /// The questions that came since the last look. None if the look fails: the records tell of a lost connection.
    pub(super) async fn look(&mut self, client: &Client) -> Vec<ApprovalView> {
        self.wait = (self.wait * 2).min(WAIT_MAX);
        let found = client.get::<ApprovalList>("/v1/approvals").await;
        self.due = Instant::now() + self.wait;
        let mut questions = found.map(|list| list.approvals).unwrap_or_default();
        questions.retain(|question| {
            let is_below = question.parent.as_ref().is_some_and(|parent| parent.run == self.run);
            is_below && self.told.insert((question.run.clone(), question.node.clone()))
        });
        questions
    }
}
