//! `host.facts` on the machine of the test.
#![cfg(target_os = "linux")]

use std::net::TcpListener;

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn the_machine_is_described() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let facts = World::new().call("host.facts", json!({})).await.unwrap();
    assert_eq!(facts["kernel"]["system"], "Linux");
    assert!(facts["kernel"]["processors"].as_u64().unwrap() > 0);
    assert!(facts["memory"]["total_bytes"].as_u64().unwrap() >= 1 << 20);
    for topic in ["disks", "ports", "processes", "users"] {
        let (items, total) =
            (facts[topic]["items"].as_array().unwrap(), facts[topic]["total"].as_u64().unwrap());
        assert!(items.len() <= 200 && total >= items.len() as u64, "{topic}");
        assert_eq!(facts[topic]["truncated"], total > 200, "{topic}");
    }
    assert!(facts["processes"]["total"].as_u64().unwrap() > 0);
    let ports = facts["ports"]["items"].as_array().unwrap();
    let is_ours = |item: &&serde_json::Value| item["port"] == port && item["protocol"] == "tcp";
    assert!(
        facts["ports"]["truncated"] == true || ports.iter().find(is_ours).unwrap()["address"] == "127.0.0.1"
    );
}

#[tokio::test]
async fn only_the_topics_asked_for_are_read() {
    let facts = World::new().call("host.facts", json!({"topics": ["memory", "users"]})).await.unwrap();
    assert_eq!(facts.as_object().unwrap().keys().collect::<Vec<_>>(), ["memory", "users"]);
    for topics in [json!([]), json!(["cpu"]), json!(["users", "users"])] {
        let told = World::new().shown("host.facts", json!({"topics": topics})).await;
        assert!(told.starts_with("gate_denied: PARAM_SCHEMA"), "{told}");
    }
}
