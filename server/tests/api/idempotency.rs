//! Submissions under an idempotency key.

use super::*;

fn keyed(key: &str, body: &Value) -> Request<Body> {
    let body = Body::from(body.to_string());
    Request::post("/v1/runs").header("idempotency-key", key).body(body).unwrap()
}

#[tokio::test]
async fn one_key_opens_one_run() {
    let api = api().await;
    let first = value(send(&api, keyed("k1", &submission("a"))).await).await;
    let second = value(send(&api, keyed("k1", &submission("a"))).await).await;
    assert_eq!(first, second);
    refused(&api, keyed("k1", &submission("b")), (422, "idempotency_key_reused")).await;
    let list = value(send(&api, get("/v1/runs")).await).await;
    assert_eq!(list["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_of_what_was_refused_takes_what_was_meant_and_never_gives_a_run_of_somebody_else() {
    let api = api().await;
    let mut meant = submission("a");
    meant["scope"] = json!("elsewhere");
    for _ in 0..2 {
        refused(&api, keyed("k1", &meant), (422, "scope_unknown")).await;
    }
    meant["scope"] = json!("default");
    let opened = value(send(&api, keyed("k1", &meant)).await).await;
    assert_eq!(value(send(&api, keyed("k1", &meant)).await).await, opened);
    // Another plan under the name of that run.
    let mut other = submission("b");
    other["run"] = opened["run"].clone();
    for _ in 0..2 {
        let answer = send(&api, keyed("k2", &other)).await;
        assert_ne!(answer.status(), StatusCode::CREATED);
    }
    other = meant;
    other["run"] = opened["run"].clone();
    for _ in 0..2 {
        assert_eq!(value(send(&api, keyed("k2", &other)).await).await, opened);
    }
}

#[tokio::test]
async fn a_key_that_comes_with_two_bodies_at_once_is_that_of_the_body_that_opened_its_run() {
    let api = api().await;
    // The one that comes first takes longer to be judged.
    let large: Vec<Value> = (0..2_000)
        .map(|at| json!({"id": format!("n{at}"), "tool": "text.render", "params": {"template": "hi", "values": {}}}))
        .collect();
    let large = json!({"plan": {"id": "large", "nodes": large}, "workspace": "/"});
    let small = submission("small");
    let (first, second) = tokio::join!(send(&api, keyed("k1", &large)), send(&api, keyed("k1", &small)));
    let (opened, other, answer) = match (first.status(), second.status()) {
        (StatusCode::CREATED, _) => (&large, &small, first),
        (_, StatusCode::CREATED) => (&small, &large, second),
        statuses => panic!("{statuses:?}"),
    };
    let answer = value(answer).await;
    assert_eq!(value(send(&api, keyed("k1", opened)).await).await, answer);
    refused(&api, keyed("k1", other), (422, "idempotency_key_reused")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_before_the_answer_and_asks_again_under_the_same_key_gets_the_same_run() {
    let disk = FaultyDisk::new();
    let (journal, _) = SegmentJournal::on_disk(Arc::new(disk.clone()), Options::default()).unwrap();
    let api = api_over(journal).await;
    disk.hold_syncs();
    let mut asked = Box::pin(api.clone().oneshot(keyed("k1", &submission("a"))));
    assert!(futures::poll!(&mut asked).is_pending(), "its opening waits for the disk");
    drop(asked);
    disk.release_syncs();
    let second = value(send(&api, keyed("k1", &submission("a"))).await).await;
    let list = value(send(&api, get("/v1/runs")).await).await;
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["runs"][0]["run"], second["run"]);
    records(&api, second["run"].as_str().unwrap()).await;
}
