use expect_test::{Expect, expect};

use super::*;

#[track_caller]
fn refused(text: &str, expected: Expect) {
    let error = Config::parse("ostler.toml", text).expect_err(text);
    expected.assert_eq(&error.to_string());
}

#[test]
fn unknown_keys_name_the_known_one_that_was_meant() {
    refused(
        "[stroe]\nurl = 'memory:'\n",
        expect![[r#"ostler.toml:1:2: unknown key "stroe"; did you mean "store"?"#]],
    );
    refused(
        "[tools.http]\negress_alow = []\n",
        expect![[r#"ostler.toml:2:1: unknown key "egress_alow"; did you mean "egress_allow"?"#]],
    );
    refused(
        "[clients.acme]\ntier = 'contract'\n",
        expect![[r#"ostler.toml:2:8: unknown value "contract"; use contracted or marketplace"#]],
    );
    refused(
        "[clients.acme]\nfoo = 1\n",
        expect![[r#"ostler.toml:2:1: unknown key "foo"; use one of weight, tier, tokens_per_minute"#]],
    );
}

#[test]
fn values_out_of_range_are_named() {
    refused(
        "[store]\nurl = 'postgres://x'\n",
        expect![[r#"ostler.toml:2:7: unknown store "postgres://x": use "file:PATH" or "memory:""#]],
    );
    refused(
        "[clients.acme]\nweight = 0\n",
        expect!["ostler.toml:2:10: the weight of client acme is 0; set 1 to 1000000"],
    );
    refused(
        "[clients.\"a b\"]\nweight = 1\n",
        expect![[r#"ostler.toml:1:10: "a b" is not a client name; use 1 to 64 of A-Z a-z 0-9 . _ -"#]],
    );
    refused(
        "[shutdown]\nwait = '25h'\n",
        expect![[
            r#"ostler.toml:2:8: the shutdown wait must be between 0 and 24h; set a duration such as "30s""#
        ]],
    );
    refused(
        "[scopes.r]\ntools = ['fs.read']\ncaps = {'fs.raed' = 1}\n",
        expect![[
            r#"ostler.toml:3:9: scope r caps fs.raed, which is not among its tools; did you mean "fs.read"?"#
        ]],
    );
    refused(
        "[scopes.r]\ntools = ['fs.read']\ncaps = {'fs.read' = 3}\n",
        expect!["ostler.toml:3:21: the cap of fs.read in scope r is 3; set 0, 1 or 2"],
    );
    refused(
        "[evaluation.weights.law]\nquality = 0.5\nspeed = 0.55\n",
        expect![
            "ostler.toml:1:21: domain law: the weights add up to 1.05, not to 1; set weights from 0 to 1, such as 0.25, with a sum of 1"
        ],
    );
    refused(
        "[evaluation.weights.law]\nquality = -0.5\nspeed = 1.5\n",
        expect![[r#"
            ostler.toml:2:11: domain law: the weight of quality is -0.5, which is not within 0 and 1; set weights from 0 to 1, such as 0.25, with a sum of 1
            ostler.toml:3:9: domain law: the weight of speed is 1.5, which is not within 0 and 1; set weights from 0 to 1, such as 0.25, with a sum of 1"#]],
    );
    refused("a = \n", expect!["ostler.toml:1:5: string values must be quoted, expected literal string"]);
}

#[test]
fn values_out_of_range_are_named_beside_wrong_shapes_and_no_fault_follows_from_another() {
    refused(
        "[stroe]\nurl = 'memory:'\n[shutdown]\nwait = '25h'\n[clients.a]\nweight = 'x'\n[clients.b]\nweight = 0\n\
         [scopes.r]\ntools = 3\ncaps = {'fs.read' = 1}\n",
        expect![[r#"
            ostler.toml:1:2: unknown key "stroe"; did you mean "store"?
            ostler.toml:4:8: the shutdown wait must be between 0 and 24h; set a duration such as "30s"
            ostler.toml:6:10: expected a whole number of 0 or more, found the text "x"
            ostler.toml:8:10: the weight of client b is 0; set 1 to 1000000
            ostler.toml:10:9: expected a list, found 3"#]],
    );
}

#[test]
fn a_span_has_its_unit() {
    let told = |found: &str| {
        format!(
            "ostler.toml:2:8: expected a number with a unit, such as 500ms, 30s, 10m, 12h or 30d, in quotes, found {found}"
        )
    };
    for key in ["[retention]\nkeep", "[shutdown]\nwait"] {
        for (written, found) in [
            ("30", "30"),
            ("-30", "-30"),
            ("0", "0"),
            ("1.5", "1.5"),
            ("true", "true"),
            ("'30'", "the text \"30\""),
            ("'30 days'", "the text \"30 days\""),
            ("''", "the text \"\""),
        ] {
            let error = Config::parse("ostler.toml", &format!("{key} = {written}\n")).expect_err(written);
            assert_eq!(error.to_string(), told(found), "{key} = {written}");
        }
        assert!(Config::parse("ostler.toml", &format!("{key} = '12h'\n")).is_ok(), "{key}");
    }
    let both = Config::parse("ostler.toml", "[retention]\nkeep = 30\n[shutdown]\nwait = 5\n").unwrap_err();
    assert_eq!(both.to_string().lines().count(), 2, "{both}");
}

#[test]
fn runs_are_kept_for_some_time_and_no_longer_than_a_limit() {
    let most = RetentionConfig::KEEP_DAYS_MAX;
    let told = format!(
        "ostler.toml:2:8: the retention must be above zero and at most {most} days; set a duration such as \"30d\", \
         or remove `keep` to keep runs for ever"
    );
    for (keep, is_taken) in [
        ("-1ms", false),
        ("0s", false),
        ("0.0d", false),
        ("1ms", true),
        ("36500d", true),
        ("3153600000001ms", false),
        ("36500.1d", false),
        ("9223372036854775807d", false),
        ("99999999999999999999d", false),
        ("99999999999999999999.5d", false),
        ("-99999999999999999999d", false),
    ] {
        let found = Config::parse("ostler.toml", &format!("[retention]\nkeep = '{keep}'\n"));
        let refused = found.err().map(|error| error.to_string());
        assert_eq!(refused, (!is_taken).then(|| told.clone()), "{keep}");
    }
}

#[test]
fn a_scope_names_tools_that_there_are_unless_others_may_be_added() {
    let tools = ["fs.list", "fs.read", "shell.run"].map(str::to_owned).into();
    for (listed, told) in [
        ("'fs.read'", None),
        (
            "'fs.read', 'fs.raed'",
            Some("2:21: scope r names the unknown tool \"fs.raed\"; did you mean \"fs.read\"?"),
        ),
        (
            "'no.such.tool'",
            Some(
                "2:10: scope r names the unknown tool \"no.such.tool\"; remove it; known tools: fs.list, fs.read, \
                 shell.run",
            ),
        ),
    ] {
        let text = format!("[scopes.r]\ntools = [{listed}]\n");
        assert!(Config::parse("x", &text).is_ok(), "{listed}");
        let found = Config::parse_for("x", &text, &tools).map_err(|error| error.to_string()).err();
        assert_eq!(found, told.map(|told| format!("x:{told}")), "{listed}");
    }
}

#[test]
fn a_cap_is_not_said_to_be_meant_for_a_name_that_is_no_tool() {
    let tools = ["fs.list", "fs.read"].map(str::to_owned).into();
    let text = "[scopes.r]\ntools = ['fs.raed']\ncaps = {'fs.read' = 1}\n";
    let told = Config::parse_for("x", text, &tools).unwrap_err().to_string();
    assert!(told.contains("did you mean \"fs.read\"?") && !told.contains("mean \"fs.raed\""), "{told}");
    assert!(told.contains("add the tool to `tools`"), "{told}");
}

#[test]
fn a_cap_of_a_tool_that_no_scope_names_is_told_what_it_may_be_meant_for() {
    let tools = ["fs.list", "fs.read"].map(str::to_owned).into();
    let told = |cap: &str| {
        let text = format!("[scopes.r]\ncaps = {{'{cap}' = 0}}\n");
        Config::parse_for("x", &text, &tools).unwrap_err().to_string()
    };
    let what = |cap: &str| format!("x:2:9: scope r caps {cap}, which is not among its tools; ");
    assert_eq!(told("fs.raed"), what("fs.raed") + "did you mean \"fs.read\"? add it to `tools` too");
    assert_eq!(told("fs.read"), what("fs.read") + "add the tool to `tools`, or remove its cap");
}

#[test]
fn a_rule_names_parameters_that_its_tool_has() {
    let tools = KnownTools::of(&ostler_drivers::tool::builtin(&ToolConfig::complete(), None));
    for (rule, told) in [
        ("[[policy.paths]]\ntool = 'fs.read'\nparam = 'path'\nroot = '/srv'\n", None),
        (
            "[[policy.paths]]\ntool = 'fs.read'\nparam = 'pth'\nroot = '/srv'\n",
            Some("3:9: fs.read has no parameter \"pth\"; did you mean \"path\"?"),
        ),
        (
            "[[policy.egress]]\ntool = 'http.request'\nparam = 'adress'\nhosts = ['a.example']\n",
            Some("3:9: http.request has no parameter \"adress\"; it has "),
        ),
        (
            "[[policy.param_policies]]\ntool = 'fs.write'\nparam = 'texts'\nmax_items = 3\n",
            Some("3:9: fs.write has no parameter \"texts\"; did you mean \"text\"?"),
        ),
        (
            "[[policy.budgets]]\ntool = 'time.sleep'\nparam = 'mss'\nmax_sum = 3\n",
            Some("3:9: time.sleep has no parameter \"mss\"; did you mean \"ms\"?"),
        ),
        ("[[policy.budgets]]\ntool = 'time.sleep'\nmax_calls = 3\n", None),
        (
            "[policy.sensitive]\n'fs.read' = ['pth']\n",
            Some("fs.read has no parameter \"pth\"; did you mean \"path\"?"),
        ),
        (
            "[policy.impact.'fs.read']\nrules = [{when = {all = [{param = 'pth', equals = 1}]}, impact = 1}]\n",
            Some("fs.read has no parameter \"pth\"; did you mean \"path\"?"),
        ),
        // The tools of a server are known once it is accepted.
        ("[mcp.x]\ncommand = ['a']\n[policy.sensitive]\n'mcp.x.say' = ['txt']\n", None),
    ] {
        let found = Config::parse_for("x", rule, &tools).err().map(|error| error.to_string());
        assert_eq!(found.is_some(), told.is_some(), "{rule}: {found:?}");
        assert!(found.is_none_or(|found| found.contains(told.unwrap())), "{rule}: {:?}", told);
    }
}

#[test]
fn misspelt_keys_of_the_policy_servers_and_cages_name_the_known_one() {
    for (text, key, meant) in [
        ("[policy]\ndefalt_intent = 1\n", "defalt_intent", "default_intent"),
        ("[policy.limits]\nmax_dept = 3\n", "max_dept", "max_depth"),
        ("[[policy.egress]]\ntool = 'a'\nparam = 'u'\nhosts = []\nport = [1]\n", "port", "ports"),
        ("[[policy.budgets]]\ntool = 'a'\nmax_cals = 3\n", "max_cals", "max_calls"),
        (
            "[[policy.clearance_routes]]\ntool = 'a'\ndeadline_ms = 1\nonly_tanted = true\n",
            "only_tanted",
            "only_tainted",
        ),
        ("[policy.impact.'a']\nrules = [{when = {parm = 'p', equals = 1}, impact = 1}]\n", "parm", "param"),
        ("[mcp.x]\ncommand = ['a']\nimpcat = 1\n", "impcat", "impact"),
        ("[sandbox]\nminimun = 'none'\n", "minimun", "minimum"),
        ("[sandbox.limits]\nmemory_mb = 1\n", "memory_mb", "memory_mib"),
    ] {
        let told = Config::parse("x", text).expect_err(text).to_string();
        let expected = format!("unknown key {key:?}; did you mean {meant:?}?");
        assert!(told.contains(&expected), "{text}: {told}");
    }
}

#[test]
fn every_place_that_is_none_is_told_where_it_stands() {
    refused(
        "[tools.http]\negress_allow = ['a b', 'ok.example.com:443', 'http://x', '*']\n",
        expect![[r#"
            ostler.toml:2:17: egress entry "a b": expected host:port, in lower case (`*.host:port` for all below it)
            ostler.toml:2:46: egress entry "http://x": expected host:port, in lower case (`*.host:port` for all below it)
            ostler.toml:2:58: egress entry "*": expected host:port, in lower case (`*.host:port` for all below it)"#]],
    );
}

#[test]
fn nothing_said_is_all_tools_and_no_egress() {
    let config = Config::parse("x", "").unwrap();
    let tools = ostler_drivers::tool::builtin(&config.tools, None);
    let gate = config.gate(&tools);
    assert_eq!(gate.scopes[SCOPE_DEFAULT].tools.len(), tools.len());
    assert!(gate.egress.judge("https://example.com/").is_err());
    assert!(config.clients().is_empty());
}

#[test]
fn a_scope_holds_its_tools_with_their_caps() {
    let text = "[scopes.r]\ntools = ['fs.read', 'fs.list']\ncaps = {'fs.read' = 0}\n";
    let gate = Config::parse("x", text).unwrap().gate(&[]);
    assert_eq!(
        gate.scopes["r"].tools,
        BTreeMap::from([("fs.read".into(), Some(0)), ("fs.list".into(), None)])
    );
}

#[test]
fn the_nearest_file_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (data, workspace) = (folder.path().join("data"), folder.path().join("work"));
    std::fs::create_dir_all(&data).unwrap();
    std::fs::create_dir_all(&workspace).unwrap();
    assert_eq!(Config::find(None, &data, &workspace), None);
    std::fs::write(workspace.join(CONFIG_NAME), "").unwrap();
    assert_eq!(Config::find(None, &data, &workspace), Some(workspace.join(CONFIG_NAME)));
    // An unreadable path is not treated as absent.
    std::os::unix::fs::symlink("nowhere", data.join(CONFIG_NAME)).unwrap();
    assert_eq!(Config::find(None, &data, &workspace), Some(data.join(CONFIG_NAME)));
    std::fs::remove_file(data.join(CONFIG_NAME)).unwrap();
    std::fs::create_dir(data.join(CONFIG_NAME)).unwrap();
    assert_eq!(Config::find(None, &data, &workspace), Some(data.join(CONFIG_NAME)));
    let told = Config::read(&data.join(CONFIG_NAME)).unwrap_err().to_string();
    assert!(told.contains("is a folder, expected a file"), "{told}");
    std::fs::remove_dir(data.join(CONFIG_NAME)).unwrap();
    std::fs::write(data.join(CONFIG_NAME), "").unwrap();
    assert_eq!(Config::find(None, &data, &workspace), Some(data.join(CONFIG_NAME)));
    let named = folder.path().join("x.toml");
    assert_eq!(Config::find(Some(&named), &data, &workspace), Some(named));
}
