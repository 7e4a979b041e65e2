//! What a list of runs costs.

use std::sync::Arc;
use std::sync::Mutex;

use ostler_kernel::id::{CLIENT_DEFAULT, ClientId, RunId};
use ostler_kernel::port::{Journal, JournalError, JournalLayer, Recorded, Seq, StreamId};
use ostler_store::MemoryJournal;
use serde_json::json;

use super::{api_over, get, post, send, value};

/// A journal that notes which streams are read.
#[derive(Clone, Default)]
struct Noting {
    journal: Arc<MemoryJournal>,
    read: Arc<Mutex<Vec<StreamId>>>,
}

impl JournalLayer for Noting {
    fn below(&self) -> &dyn Journal {
        &*self.journal
    }

    fn read(&self, stream: StreamId, after: Seq, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        self.read.lock().unwrap().push(stream);
        self.journal.read(stream, after, limit)
    }
}

#[tokio::test]
async fn a_list_of_runs_reads_no_budget_of_a_tree_of_runs() {
    let journal = Noting::default();
    let api = api_over(journal.clone()).await;
    let asks =
        json!({"id": "ok", "kind": "human_approval", "params": {"question": "?"}, "human_timeout": "1h"});
    let plan = json!({"id": "p", "policy": {"tokens": 1_000}, "nodes": [asks]});
    let opened = value(send(&api, post("/v1/runs", &json!({"plan": plan, "workspace": "/"}))).await).await;
    let run: RunId = opened["run"].as_str().unwrap().parse().unwrap();
    let begun = std::time::Instant::now();
    loop {
        let shown = value(send(&api, get(&format!("/v1/runs/{run}"))).await).await;
        assert!(shown["call_budget"]["tokens"].is_object(), "{shown}");
        if shown["waiting"][0]["node"] == "ok" {
            break;
        }
        assert!(begun.elapsed().as_secs() < 60, "{shown}");
        tokio::task::yield_now().await;
    }
    let attempts = StreamId::attempts(&ClientId::from(CLIENT_DEFAULT), run);
    let was_read = || std::mem::take(&mut *journal.read.lock().unwrap()).contains(&attempts);
    assert!(was_read(), "its page shows the budget");
    let list = value(send(&api, get("/v1/runs?open=true")).await).await;
    assert_eq!(list["runs"][0]["run"], json!(run.to_string()));
    assert!(!was_read(), "the list does not");
}
