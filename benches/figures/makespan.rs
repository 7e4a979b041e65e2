//! Makespan of the example `bugfix.yaml` against the same graph in plain tokio.

use std::path::Path;
use std::time::{Duration, Instant};

use ostler::Ostler;
use serde_json::{Value, json};
use tokio::join;
use tokio::time::sleep;

use crate::plans;
use crate::table::{Row, median, ratios};

/// Samples per side.
const ROUNDS: usize = 15;

/// Steps with a longer duration than in the plan.
struct Variation {
    name: &'static str,
    slow: &'static [&'static str],
}

const SLOW_MS: u64 = 300;
const USUAL_MS: u64 = 50;

const VARIATIONS: [Variation; 4] = [
    Variation { name: "bugfix.yaml", slow: &[] },
    Variation { name: "bugfix.yaml, fix_B 300 ms", slow: &["fix_B"] },
    Variation { name: "bugfix.yaml, update_docs 300 ms", slow: &["update_docs"] },
    Variation {
        name: "bugfix.yaml, search_utils and read_auth 300 ms",
        slow: &["search_utils", "read_auth"],
    },
];

impl Variation {
    fn span_ms(&self, node: &str) -> u64 {
        if self.slow.contains(&node) { SLOW_MS } else { USUAL_MS }
    }

    /// The example without its failing fix.
    fn plan(&self) -> Value {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/plans/bugfix.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        let mut plan: Value = serde_saphyr::from_str(&text).unwrap();
        let nodes = plan["nodes"].as_array_mut().unwrap();
        nodes.retain(|node| node["id"] != "fix_A");
        assert_eq!(nodes.len(), 9, "the example has ten nodes, the failing fix included");
        for node in nodes {
            let id = node["id"].as_str().unwrap().to_owned();
            node["params"]["ms"] = json!(self.span_ms(&id));
            if id == "run_tests" {
                node["deps"] = json!(["fix_B"]);
                node["join"] = json!("all_of");
            }
        }
        plan
    }

    /// The same graph, hard-coded with tokio.
    async fn by_hand(&self) -> Duration {
        let step = |node: &'static str| sleep(Duration::from_millis(self.span_ms(node)));
        let begun = Instant::now();
        let authentication = async {
            step("search_auth").await;
            step("read_auth").await;
        };
        let utilities = async {
            step("search_utils").await;
            step("read_utils").await;
        };
        join!(authentication, utilities);
        step("analyze").await;
        let code = async {
            step("fix_B").await;
            step("run_tests").await;
        };
        join!(code, step("update_docs"));
        step("report").await;
        begun.elapsed()
    }
}

pub(crate) fn rows() -> Vec<Row> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let data = plans::folder();
        let (memory, file) = (plans::in_memory().await, plans::in_folder(data.path()).await);
        let mut rows = Vec::new();
        for variation in &VARIATIONS {
            rows.extend(measure(variation, &memory, &file, data.path()).await);
        }
        memory.shutdown().await;
        file.shutdown().await;
        rows
    })
}

async fn measure(variation: &Variation, memory: &Ostler, file: &Ostler, data: &Path) -> [Row; 2] {
    let plan = plans::plan(memory, variation.plan());
    let (mut pairs, mut later, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        tick().await;
        let bare = millis(variation.by_hand().await);
        tick().await;
        let in_memory = millis(plans::run(memory, plan.clone()).await);
        tick().await;
        let in_folder = millis(plans::run(file, plan.clone()).await);
        pairs.push((in_memory, bare));
        later.push(in_folder - in_memory);
        // On another thread that was idle before, like the journal's.
        let probe = data.to_owned();
        syncs.push(millis(tokio::task::spawn_blocking(move || sync(&probe)).await.unwrap()));
    }
    let [ratio, ours, bare] = ratios(&pairs);
    let (later, sync) = (median(later), median(syncs));
    [
        Row::ratio(format!("{} ÷ bare tokio, in memory", variation.name), 1.02, ratio)
            .note(format!("{ours:.1} ms ÷ {bare:.1} ms")),
        Row::ratio(format!("{}: later in a folder, in fsyncs", variation.name), 1.0, later / sync)
            .note(format!("{later:.2} ms ÷ {sync:.2} ms")),
    ]
}

/// Waits for the next timer tick, so that both sides start at the same phase of the tick.
async fn tick() {
    sleep(Duration::from_millis(1)).await;
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Time to sync one overwritten page after an idle period as long as a step.
pub(crate) fn sync(folder: &Path) -> Duration {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().create(true).truncate(false).write(true).open(folder.join("probe"));
    let file = file.unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_all().unwrap();
    std::thread::sleep(Duration::from_millis(USUAL_MS));
    let begun = Instant::now();
    file.write_all_at(&[2; 4096], 0).unwrap();
    file.sync_data().unwrap();
    begun.elapsed()
}
