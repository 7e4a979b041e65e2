//! Faults of the configuration, each with its place and remedy.

use expect_test::{Expect, expect};
use ostler_drivers::model::{ModelsConfig, price_table, tools};

fn check(text: &str, expected: Expect) {
    let faults = match toml::from_str::<ModelsConfig>(text) {
        Ok(config) => config.check().iter().map(|fault| format!("{fault}\n")).collect(),
        Err(error) => format!("{}\n", error.message()),
    };
    expected.assert_eq(&faults);
}

#[test]
fn every_fault_is_found_at_once() {
    check(
        r#"
        [models.default]
        provider = "openai"
        base_url = "http://example.com/v1"
        api_key_env = "sk-canary-0123456789"
        max_output_tokens = 0
        context_tokens = 0
        requests_per_minute = 0
        price = {input = -1, output = 2}
        fallback = ["default", "nobody"]
        [models."No Name"]
        provider = "scripted"
        [models.key]
        provider = "anthropic"
        model = "m"
        base_url = "https://me:canary@example.com"
        file = "x"
        [roles]
        judge = "nobody"
        "#,
        expect![[r#"
            models.No Name: not a name of a model; use at most 64 lower-case letters, digits, - and _, a letter first
            models.No Name.file: missing; name the file with the answers
            models.default.fallback: the model itself; name other models
            models.default.fallback: model "nobody" is not configured; add [models.nobody], or name another
            models.default.api_key_env: not the name of an environment variable (the value is not shown, as it could be a key); write the name of the variable that holds the key, such as OPENAI_API_KEY
            models.default.model: missing; name the model as the provider knows it
            models.default.base_url: plain http would send the key unencrypted to another host; use https, or remove api_key_env
            models.default.max_output_tokens: 0; use at least 1
            models.default.context_tokens: not above max_output_tokens; leave room for the prompt
            models.default.requests_per_minute: 0, which allows no call; use at least 1, or remove the key for no limit
            models.default.price: -1 is not between 0 and 1000000; write US dollars per million tokens, such as {input = 0.15, output = 0.6}, or "free"
            models.key.base_url: holds a name or a password; remove it, and name the key's variable in api_key_env
            models.key.file: only for scripted and cassette; remove it, or set provider = "cassette"
            roles.judge: model "nobody" is not configured; add [models.nobody], or name another
        "#]],
    );
}

#[test]
fn values_of_the_wrong_kind_say_what_is_right() {
    let table = |line: &str| format!("[models.default]\nprovider = \"openai\"\nmodel = \"m\"\n{line}");
    check(
        &table("timeout = 30"),
        expect![[r#"
        invalid type: integer `30`, expected a number with a unit, such as 500ms, 30s, 10m, 12h or 30d, in quotes
    "#]],
    );
    check(
        &table("timeout = \"0s\""),
        expect![[r#"
        expected a number with a unit, such as 500ms, 30s, 10m, 12h or 30d, in quotes, above zero and at most 24h, found "0s"
    "#]],
    );
    check(
        &table("price = \"cheap\""),
        expect![[r#"
        invalid value: string "cheap", expected prices in US dollars per million tokens, such as {input = 0.15, output = 0.6}, or "free"
    "#]],
    );
    check(
        &table("price = {input = 1}"),
        expect![[r#"
        missing field `output`
    "#]],
    );
    check(
        &table("colour = 1"),
        expect![[r#"
        unknown field `colour`, expected one of `provider`, `base_url`, `model`, `api_key_env`, `profile`, `context_tokens`, `max_output_tokens`, `timeout`, `idle_timeout`, `price`, `requests_per_minute`, `tokens_per_minute`, `fallback`, `file`, `mode`, `dialect`
    "#]],
    );
    check(
        "[models.default]\nprovider = \"opnai\"",
        expect![[r#"
        unknown variant `opnai`, expected one of `openai`, `anthropic`, `scripted`, `cassette`
    "#]],
    );
    check(
        &table("api_key_env = \"gsk_canary0123\""),
        expect![[r#"
        models.default.api_key_env: not the name of an environment variable (the value is not shown, as it could be a key); write the name of the variable that holds the key, such as OPENAI_API_KEY
    "#]],
    );
    check(
        &table("base_url = \"ftp://x/\""),
        expect![[r#"
        models.default.base_url: neither http nor https; write an address such as http://127.0.0.1:11434/v1
    "#]],
    );
    check(&table("base_url = \"http://localhost:1/v1\"\napi_key_env = \"KEY\""), expect![""]);
    check(&table("base_url = \"http://[::1]:1/v1\"\napi_key_env = \"KEY\""), expect![""]);
    check(
        &table("base_url = \"http://localhost.example.com/v1\"\napi_key_env = \"KEY\""),
        expect![[r#"
        models.default.base_url: plain http would send the key unencrypted to another host; use https, or remove api_key_env
    "#]],
    );
}

#[test]
fn a_key_in_the_configuration_is_shown_nowhere() {
    let text =
        "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\napi_key_env = \"sk-canary-0123456789\"";
    let config: ModelsConfig = toml::from_str(text).unwrap();
    let faults = tools(&config, std::path::Path::new("."), &|_| None).unwrap_err();
    let all = format!("{config:?}{faults:?}{}", faults[0]);
    assert!(!all.contains("canary"), "{all}");
}

#[test]
fn the_version_of_a_tool_follows_its_model() {
    let version = |line: &str| {
        let text = format!("[models.default]\nprovider = \"openai\"\n{line}");
        let tools = tools(&toml::from_str(&text).unwrap(), std::path::Path::new("."), &|_| None).unwrap();
        tools[0].spec().version.clone()
    };
    let one = version("model = \"a\"");
    assert_eq!(one, version("model = \"a\"\ntimeout = \"5s\"\nprice = \"free\""));
    for other in [
        "model = \"b\"",
        "model = \"a\"\nmax_output_tokens = 9",
        "model = \"a\"\nbase_url = \"https://x.example\"",
    ] {
        assert_ne!(one, version(other), "{other}");
    }
    assert_eq!(price_table().date.len(), 10);
}
