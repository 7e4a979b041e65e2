//! Classes and declarations of the built-in tools.

use expect_test::{Expect, expect};
use ostler_drivers::tool::{ToolConfig, builtin};
use ostler_kernel::gate::GatedTool;
use serde_json::{Value, json};

use crate::world::World;

const CONFIG: &str = r#"
    [shell]
    allow = [{argv = ["make", "check"], impact = 1, effect = "write"}]
    [http]
    egress_allow = ["api.example.com:443", "other.example.com:443"]
    [http.hosts."api.example.com:443"]
    idempotency = true
    [search]
    url = "https://search.example.com/search"
"#;

fn check(tool: &str, params: Value, expected: Expect) {
    let class = World::with(CONFIG).tool(tool).class(params.as_object().unwrap());
    expected.assert_eq(&format!("{}, {:?}, {:?}", class.impact, class.effect, class.idem));
}

#[test]
fn shell_run_is_absent_where_it_is_not_enabled_and_web_search_without_a_server() {
    let names = |config: &str| {
        let config: ToolConfig = toml::from_str(config).unwrap();
        builtin(&config, None).iter().map(|tool| tool.spec().name.clone()).collect::<Vec<_>>().join(" ")
    };
    expect!["agent.ask fs.edit fs.list fs.read fs.write host.facts http.fetch http.request json.query shell.run text.render text.search text.stats time.sleep"].assert_eq(&names(""));
    assert!(!names("[shell]\nenabled = false").contains("shell.run"));
    assert!(!names("").contains("web.search") && names(CONFIG).ends_with(" web.search"));
}

#[test]
fn looking_is_impact_0() {
    check("fs.list", json!({}), expect!["0, Read, Natural"]);
    check("fs.read", json!({}), expect!["0, Read, Natural"]);
    check("http.fetch", json!({}), expect!["0, Read, Natural"]);
    check("host.facts", json!({}), expect!["0, Read, Natural"]);
    check("web.search", json!({}), expect!["0, Read, Natural"]);
    check("text.search", json!({}), expect!["0, Read, Natural"]);
    check("text.stats", json!({}), expect!["0, Read, Natural"]);
    check("text.render", json!({}), expect!["0, None, Natural"]);
    check("json.query", json!({}), expect!["0, None, Natural"]);
    check("time.sleep", json!({}), expect!["0, None, Natural"]);
}

#[test]
fn writing_is_repeatable_unless_it_appends() {
    check("fs.write", json!({"mode": "create"}), expect!["1, Write, Natural"]);
    check("fs.write", json!({"mode": "replace"}), expect!["1, Write, Natural"]);
    check("fs.write", json!({"mode": "append"}), expect!["1, Write, None"]);
    check("fs.write", json!({}), expect!["1, Write, None"]);
    check("fs.edit", json!({}), expect!["1, Write, None"]);
}

#[test]
fn a_request_is_what_its_method_says_and_keyed_where_the_host_knows_keys() {
    let of = |method: &str, url: &str| json!({"method": method, "url": url});
    check("http.request", of("GET", "https://api.example.com/"), expect!["0, Read, Natural"]);
    check("http.request", of("HEAD", "https://api.example.com/"), expect!["0, Read, Natural"]);
    check("http.request", of("PUT", "https://api.example.com/"), expect!["1, External, Natural"]);
    check("http.request", of("DELETE", "https://api.example.com/"), expect!["2, External, Natural"]);
    check("http.request", of("POST", "https://API.example.com/x"), expect!["1, External, Keyed"]);
    check("http.request", of("PATCH", "https://api.example.com:443/x"), expect!["1, External, Keyed"]);
    check("http.request", of("POST", "https://other.example.com/"), expect!["1, External, None"]);
    check("http.request", of("POST", "https://unlisted.example.com/"), expect!["1, External, None"]);
    check("http.request", json!({"method": "POST"}), expect!["1, External, None"]);
    check("http.request", json!({"url": "https://api.example.com/"}), expect!["2, External, None"]);
    check("http.request", of("get", "https://api.example.com/"), expect!["2, External, None"]);
}

#[test]
fn a_program_is_what_the_table_says_and_the_worst_if_it_says_nothing() {
    check("shell.run", json!({"argv": ["git", "log", "--oneline"]}), expect!["0, Read, Natural"]);
    check("shell.run", json!({"argv": ["make", "check"]}), expect!["1, Write, None"]);
    check("shell.run", json!({"argv": ["make", "check", "x"]}), expect!["2, External, None"]);
    check("shell.run", json!({"argv": ["rm", "-rf", "/"]}), expect!["2, External, None"]);
    check("shell.run", json!({"argv": []}), expect!["2, External, None"]);
    check("shell.run", json!({"argv": ["ls", 1]}), expect!["2, External, None"]);
    check("shell.run", json!({}), expect!["2, External, None"]);
}

#[test]
fn what_comes_from_the_web_comes_from_strangers() {
    let world = World::with(CONFIG);
    for (tool, expected) in
        [("http.fetch", true), ("http.request", true), ("web.search", true), ("fs.read", false)]
    {
        assert_eq!(world.tool(tool).reads_strangers(), expected, "{tool}");
    }
}

#[tokio::test]
async fn what_is_not_a_parameter_is_refused_by_the_schema() {
    for tool in builtin(&ToolConfig::complete(), None) {
        let name = tool.spec().name.clone();
        let shown = World::with(CONFIG).shown(&name, json!({"surprise": 1})).await;
        assert!(shown.starts_with("gate_denied: PARAM_SCHEMA"), "{name}: {shown}");
    }
}

#[test]
fn what_a_stranger_may_not_choose_is_every_parameter_that_can_hold_text() {
    let sensitive = |name: &str| {
        let tool = builtin(&ToolConfig::default(), None).into_iter().find(|tool| tool.spec().name == name);
        let gated = GatedTool::new(tool.unwrap()).unwrap().with_reach();
        gated.sensitive().iter().cloned().collect::<Vec<_>>().join(" ")
    };
    expect!["body headers url"].assert_eq(&sensitive("http.request"));
    expect!["argv cwd stdin"].assert_eq(&sensitive("shell.run"));
    expect!["goal mode model plan tools wall"].assert_eq(&sensitive("agent.ask"));
}
