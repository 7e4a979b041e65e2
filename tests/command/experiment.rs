//! `ostler experiment`.

use serde_json::Value;

use crate::world::World;

#[test]
fn modes_are_compared_and_the_page_holds_the_figures_that_are_printed() {
    let world = World::new();
    let line = "experiment modes --latency 30ms --tool-latency 10ms --json --html page.html";
    let ended = world.ostler(line).exits(0);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(report["checks"].as_array().unwrap().iter().all(|check| check["holds"] == true), "{report:#}");
    let engine = report["engine"].as_array().unwrap();
    assert!(engine.iter().all(|trial| trial["calls"].as_u64() > Some(1) && trial["difference"].is_null()));
    let comparisons = report["comparisons"].as_array().unwrap();
    assert!(comparisons.iter().any(|row| row["strategy"] == "nreflect:4" && row["counted"] == row["form"]));

    let page = std::fs::read_to_string(world.path().join("page.html")).unwrap();
    let (_, embedded) = page.split_once("<script type=\"application/json\" id=\"figures\">").unwrap();
    let (embedded, _) = embedded.split_once("</script>").unwrap();
    assert_eq!(serde_json::from_str::<Value>(embedded).unwrap(), report);
    assert!(page.contains("<polyline") && page.contains("wisdom"));
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "the page loads nothing: {outside}");
    }
}

#[test]
fn what_cannot_be_measured_or_written_is_told_at_once() {
    let world = World::new();
    let equal = world.ostler("experiment modes --latency 10ms --tool-latency 10ms").exits(2);
    equal.complains("--latency and --tool-latency: equal");
    world.ostler("experiment modes --latency 2h").exits(2).complains("give 1ms to 60s");
    let nowhere = world.ostler("experiment modes --html no/such/folder/page.html").exits(2);
    nowhere.complains("--html no/such/folder/page.html: cannot be written");
}
