//! Validation time of a large plan.

use std::time::Instant;

use ostler::kernel::plan::PlanDraft;

use crate::plans;
use crate::table::{Row, median};

const ROUNDS: usize = 21;

pub(crate) fn rows() -> Vec<Row> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let os = plans::in_memory().await;
        let draft: PlanDraft = serde_json::from_value(plans::dense(10_000, 10)).unwrap();
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let draft = draft.clone();
            let begun = Instant::now();
            let plan = os.plan(draft).unwrap();
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            assert_eq!(plan.nodes.len(), 10_000);
        }
        os.shutdown().await;
        vec![Row::ratio("validation of 10,000 nodes and 100,000 edges", 50.0, median(times)).unit("ms")]
    })
}
