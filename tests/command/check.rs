//! `ostler check`, and the bounds of a run.

use super::plans::world;
use super::world::World;
use expect_test::expect;

#[test]
fn check_shows_every_fault_with_its_place() {
    let world = world();
    world.file("bad.yaml", "id: bad\nnodes:\n  - id: a\n    tool: fs.lst\n    deps: [b]\n    retires: 2\n");
    let ended = world.ostler("check bad.yaml").exits(2);
    expect![[r#"
        V20 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V20.md)

          × a: unknown tool fs.lst
           ╭─[bad.yaml:4:11]
         3 │   - id: a
         4 │     tool: fs.lst
           ·           ──────
         5 │     deps: [b]
           ╰────
          help: did you mean "fs.list"?

        V03 (https://github.com/ostler-os/ostler/blob/main/docs/errors/V03.md)

          × a: depends on b, which the plan does not define
           ╭─[bad.yaml:5:12]
         4 │     tool: fs.lst
         5 │     deps: [b]
           ·            ─
         6 │     retires: 2
           ╰────
          help: did you mean "a"?

        shape (https://github.com/ostler-os/ostler/blob/main/docs/errors/shape.md)

          × unknown key "retires"
           ╭─[bad.yaml:6:5]
         5 │     deps: [b]
         6 │     retires: 2
           ·     ───────
           ╰────
          help: did you mean "retries"?

        error: bad.yaml has 3 faults; 1 more follows from it; they may hide further ones
    "#]]
    .assert_eq(&ended.err);
    let lines = world.ostler("check bad.yaml --json").exits(2).lines();
    assert!(lines.iter().all(|line| line["type"] == "fault" && line["line"].is_u64()), "{lines:?}");
}

#[test]
fn check_of_a_valid_plan_shows_its_facts() {
    let world = world();
    expect![[r#"
        valid report
          nodes          3 with 2 edges
          depth, width   3, 1
          critical path  list, todos, report
          impact         0 (observe)
          tools          fs.list, text.search
          outputs        report
    "#]]
    .assert_eq(&world.ostler("check report.yaml").exits(0).out);
    let lines = world.ostler("check report.yaml --json").exits(0).lines();
    let plan = lines.last().unwrap();
    assert_eq!((&plan["type"], &plan["valid"], &plan["nodes"]), (&"plan".into(), &true.into(), &3.into()));
}

#[test]
fn a_parameter_that_is_missing_is_named() {
    world().ostler("check audit.yaml").exits(2).complains("the parameter \"what\" is not given");
    world()
        .ostler("check audit.yaml --param what=x --param y=1")
        .exits(2)
        .complains("the plan does not use the parameter");
}

#[test]
fn a_slip_in_the_name_of_a_parameter_is_one_fault() {
    let world = world();
    world.file("p.yaml", "id: p\nnodes: [{id: a, tool: fs.list, params: {path: '${name}'}}]\n");
    world.file("q.yaml", "id: p\nnodes: [{id: a, tool: fs.read, params: {pth: x}}]\n");
    for (line, says) in [
        ("check p.yaml --param nmae=x", "did you mean \"nmae\"?"),
        ("check q.yaml", "did you mean \"path\"?"),
    ] {
        world.ostler(line).exits(2).complains(says).complains("yaml has 1 fault\n");
    }
    world.ostler("check p.yaml --param other=x").exits(2).complains("p.yaml has 2 faults");
}

#[test]
fn a_value_of_another_kind_hides_no_other_fault() {
    let world = world();
    let plan = |whole: &str, node: &str| {
        format!("{whole}\nnodes:\n  - {{id: x, tool: fs.list, params: {{path: 5}}, deps: [zz]{node}}}\n")
    };
    for (text, faults) in [
        (plan("id: a", ", retries: many"), "3 faults\n"),
        (plan("id: a", ", timeout: 5 minutes"), "3 faults\n"),
        (plan("id: 5", ""), "3 faults\n"),
        (plan("id: a\npolicy: {slots: many}", ""), "3 faults\n"),
        (plan("id: a\ntitle: ${title}", ""), "3 faults\n"),
        (plan("id: a", ", reads: 5"), "1 fault; it may hide further ones\n"),
        (plan("id: a\nstrict: 5", ""), "2 faults; they may hide further ones\n"),
    ] {
        world.file("f.yaml", &text);
        world.ostler("check f.yaml").exits(2).complains(&format!("f.yaml has {faults}"));
    }
}

#[test]
fn of_many_findings_that_are_alike_a_few_are_shown_and_machines_get_all() {
    let world = world();
    let node = |at: usize, dep: usize| {
        format!("  - {{id: n{at:02}, tool: fs.list, params: {{path: .}}, deps: [n{dep:02}]}}\n")
    };
    let chain: String = (1..30).map(|at| node(at, at - 1)).collect();
    let first = "  - {id: n00, tool: fs.list, params: {path: .}}\n";
    world.file("chain.yaml", &format!("id: chain\nnodes:\n{first}{chain}"));
    world.file("circle.yaml", &format!("id: circle\nnodes:\n{}{chain}", node(0, 29)));
    let unknown: String = (0..30).map(|at| node(at, at + 30)).collect();
    world.file("lost.yaml", &format!("id: lost\nnodes:\n{unknown}"));
    for (name, code, exit, in_full, rest) in [
        ("chain", "W01", 0, 3, "W01: 26 more like these, of nodes n04, n05,"),
        ("circle", "V04", 2, 1, "circle.yaml has 1 fault"),
        ("lost", "V03", 2, 8, "V03: 22 more like these, of nodes n08,"),
    ] {
        let told = world.ostler(&format!("check {name}.yaml")).exits(exit);
        let told = told.out + &told.err;
        assert!(told.contains(rest), "{told}");
        assert_eq!(told.matches(&format!("{code} (http")).count(), in_full, "{told}");
        let lines = world.ostler(&format!("check {name}.yaml --json")).exits(exit).lines();
        assert!(lines.iter().filter(|line| line["code"] == code).count() >= 29, "{name}");
    }
}

#[test]
fn what_is_no_plan_file_is_refused() {
    let world = world();
    world.file("x.txt", "").file("dir.yaml", "id: [");
    world.ostler("check missing.yaml").exits(2).complains("cannot read missing.yaml");
    world.ostler("check x.txt").exits(2).complains("ends in .yaml, .yml, .json or .toml");
    world.ostler("run dir.yaml").exits(2).complains("syntax");
    world.ostler("run report.yaml --workspace nowhere").exits(2).complains("nowhere");
    world.ostler("run report.yaml --intent 3").exits(2);
    assert!(!world.data().exists(), "a plan that is refused leaves nothing");
}

#[test]
fn advice_comes_in_the_order_of_the_file_to_programs_too() {
    let world = World::new();
    world.file(
        "advised.yaml",
        "id: p\nnodes:\n  - id: out\n    tool: fs.read\n    params: {path: /etc/passwd}\n  - id: late\n    tool: fs.list\n    params: {path: .}\n    deps: [out]\n",
    );
    let lines = world.ostler("check advised.yaml --json").exits(0).lines();
    let told: Vec<_> = lines.iter().filter_map(|line| line["line"].as_u64()).collect();
    assert!(told.len() > 1 && told.is_sorted(), "{lines:?}");
    let refused = lines.iter().find(|line| line["code"] == "W06").unwrap();
    assert_eq!(refused["detail"], "would be denied: path \"/etc/passwd\": it can lead out of the workspace");
}

#[test]
fn intent_caps_what_a_run_may_do() {
    let world = world();
    world.file(
        "write.yaml",
        "id: w\nnodes:\n  - {id: put, tool: fs.write, params: {path: x, text: hi, mode: create}}\n",
    );
    let refused = world.ostler("run write.yaml --workspace work --intent 0").exits(1);
    refused.says("IMPACT_OVER_INTENT").says("\n    if this is intended, run it with --intent 1\n");
    assert_eq!(world.work("x"), "");
    world.ostler("run write.yaml --workspace work").exits(0);
    assert_eq!(world.work("x"), "hi");
}

#[test]
fn an_unknown_key_of_the_configuration_names_the_known_one() {
    let world = world();
    world.file("o.toml", "[tools.shel]\nenabled = false\n");
    let ended = world.ostler("check report.yaml --config o.toml").exits(2);
    ended.complains("o.toml:1:8").complains("unknown key \"shel\"").complains("did you mean \"shell\"?");
}

#[test]
fn a_scope_of_tools_that_there_are_not_is_refused() {
    let world = world();
    for (tool, mend) in [
        ("fs.raed", "did you mean \"fs.read\"?"),
        ("no.such.tool", "remove it; known tools: agent.ask, fs.edit, fs.list"),
    ] {
        world.file("o.toml", &format!("[scopes.r]\ntools = ['fs.list', '{tool}']\n"));
        let refused = world.ostler("check audit.yaml --config o.toml").exits(2);
        refused
            .complains(&format!("scope r names the unknown tool \"{tool}\""))
            .complains("o.toml:2:21")
            .complains(mend);
    }
    world.file("o.toml", "[scopes.r]\ntools = ['shell.run']\n[tools.shell]\nenabled = false\n");
    world.ostler("ps --config o.toml").exits(0);
}

#[test]
fn a_scope_of_the_configuration_counts() {
    let world = world();
    world.file("o.toml", "[scopes.reader]\ntools = [\"fs.list\"]\n");
    world
        .ostler("run report.yaml --workspace work --config o.toml --scope reader")
        .exits(1)
        .says("todos   failed");
    world.ostler("run report.yaml --workspace work --config o.toml").exits(0).says("todos   executed");
}

#[test]
fn check_tells_what_the_gate_would_refuse_within_the_bounds_of_a_run() {
    let world = world();
    world.file(
        "acts.yaml",
        "id: acts\nnodes:\n\
         \x20 - {id: out, tool: fs.list, params: {path: /etc}}\n\
         \x20 - {id: get, tool: http.request, params: {method: GET, url: 'https://example.org/'}}\n\
         \x20 - {id: make, tool: shell.run, params: {argv: [make]}}\n\
         \x20 - {id: list, tool: fs.list, params: {path: .}}\n",
    );
    let config = "[tools.http]\negress_allow = ['example.org:443']\n[scopes.s]\ntools = ['http.request', 'shell.run']\n";
    world.file("o.toml", config);
    for (bounds, expected) in [
        ("--workspace work", &["get url", "make impact 2", "out path"][..]),
        ("--workspace work --intent 2", &["get url", "out path"]),
        ("--workspace /etc --intent 2", &["get url"]),
        ("--intent 2 --scope s --config o.toml", &["list scope", "out scope"]),
        ("--scope t", &["get scope", "list scope", "make impact 2", "make scope", "out scope"]),
    ] {
        let lines = world.ostler(&format!("check acts.yaml --json {bounds}")).exits(0).lines();
        let mut told: Vec<String> = lines
            .iter()
            .filter(|line| line["code"] == "W06")
            .map(|line| {
                let detail = line["detail"].as_str().unwrap().strip_prefix("would be denied: ").unwrap();
                let words = if detail.starts_with("impact") { 2 } else { 1 };
                let words: Vec<&str> = detail.split_whitespace().take(words).collect();
                format!("{} {}", line["node"].as_str().unwrap(), words.join(" ").trim_end_matches(':'))
            })
            .collect();
        told.sort();
        assert_eq!(told, expected, "{bounds}");
    }
    let told = world.ostler("check acts.yaml --workspace work").exits(0).says("run it with --intent 2");
    told.says("W06").says("egress_allow").says("acts.yaml:5:").says("valid acts");
    for (url, mend) in [
        ("example.org/x", "write it as https://HOST/PATH"),
        ("ftp://example.org/x", "write it as https://HOST/PATH"),
        ("https://example.org:8443/x", "list \"example.org:8443\" in egress_allow"),
    ] {
        let node = format!("{{id: get, tool: http.request, params: {{method: GET, url: '{url}'}}}}");
        world.file("get.yaml", &format!("id: get\nnodes:\n  - {node}\n"));
        world.ostler("check get.yaml").exits(0).says(mend).says("get.yaml:3:62");
    }
    for (call, place) in [
        ("tool: fs.read, params: {path: ../x}", "3:45"),
        ("tool: shell.run, params: {argv: [ls], cwd: ../..}", "3:58"),
    ] {
        world.file("out.yaml", &format!("id: out\nnodes:\n  - {{id: out, {call}}}\n"));
        let told = world.ostler("check out.yaml --workspace work").exits(0);
        told.says("W06").says("can lead out").says(&format!("out.yaml:{place}"));
    }

    // Calls in tests of a contract count too.
    world.file(
        "tested.yaml",
        "id: tested\nnodes:\n\
         \x20 - {id: list, tool: fs.list, params: {path: .}, contract: [{method: test, spec: {argv: [make]}}]}\n",
    );
    let check = |bounds: &str| world.ostler(&format!("check tested.yaml --workspace work {bounds}")).exits(0);
    check("").says("W06").says("run it with --intent 2");
    assert!(!check("--intent 2").out.contains("W06"));
    world.file("o.toml", "[scopes.s]\ntools = ['fs.list']\n");
    check("--intent 2 --scope s --config o.toml").says("W06").says("shell.run");
}

#[test]
fn check_knows_the_rules_for_the_values_of_parameters() {
    let world = World::new();
    world.file("o.toml", "[[policy.param_policies]]\ntool = 'fs.write'\nparam = 'mode'\nin = ['create']\n");
    world.file(
        "w.yaml",
        "id: w\nnodes:\n  - {id: a, tool: fs.write, params: {path: x, text: hi, mode: replace}}\n",
    );
    let told = world.ostler("check w.yaml --workspace work --config o.toml").exits(0);
    told.says("W06").says("mode: the value is not listed").says("w.yaml:3:63");
    assert!(!world.ostler("check w.yaml --workspace work").exits(0).out.contains("W06"));
}

#[test]
fn a_path_that_the_tool_refuses_is_explained_with_the_verdict() {
    let world = World::new();
    world.file("p.yaml", "id: p\nnodes:\n  - {id: a, tool: fs.list, params: {path: .}}\n");
    world.ostler("run p.yaml --workspace work").exits(0);
    let explain =
        |path: &str| world.ostler(&format!("policy explain fs.read {{\"path\":\"{path}\"}} --workspace ."));
    explain("p.yaml").exits(0);
    explain("data/format")
        .exits(1)
        .says("refused  by the tool itself: ")
        .says("looks like a data folder of ostler");
}

#[test]
fn a_lockdown_comes_before_everything_that_follows_it() {
    let world = World::new();
    let explain = "policy explain fs.list {\"path\":\".\"} --workspace work";
    world.ostler(explain).exits(0).says("allow");
    world.ostler("lockdown on").exits(0);
    world.ostler(explain).exits(1).says("LOCKDOWN").says("step 1");
    // A call that waits for a person is denied for the same reason.
    world.file(
        "p.yaml",
        "id: p\nnodes:\n  - {id: a, tool: shell.run, params: {argv: [make]}, approval: before, human_timeout: 1h}\n",
    );
    let denied = world.ostler("run p.yaml --workspace work").exits(1).says("LOCKDOWN");
    denied.complains("a lockdown is on").complains("ostler lockdown off");
    world.ostler("doctor").exits(0).says("lockdown").says("ostler lockdown off");
    world.ostler("lockdown off").exits(0);
    world.ostler(explain).exits(0).says("allow");
}

#[test]
fn a_template_may_ask_for_the_error_of_any_dependency() {
    let world = World::new();
    world.file(
        "p.yaml",
        "id: p\nnodes:\n\
         \x20 - {id: good, tool: fs.list, params: {path: .}}\n\
         \x20 - {id: bad, tool: fs.read, params: {path: missing.txt}}\n\
         \x20 - id: told\n    kind: aggregator\n    deps: [{n: good, on: terminal}, {n: bad, on: terminal}]\n\
         \x20   params: {template: \"{{ good.state }}[{{ good.error }}] {% if bad.error %}{{ bad.state }}{% endif %}\"}\n",
    );
    world.ostler("run p.yaml --workspace work").exits(0).says("executed[] failed");
}

#[test]
fn a_fallback_that_a_timeout_does_not_use_is_told() {
    let world = World::new();
    let plan = "id: p\nnodes:\n  - id: a\n    tool: shell.run\n    params: {argv: [sh, -c, \"sleep 60\"]}\n    timeout: 1s\n    IDEM\n\
        \x20   fallback: {tool: fs.list, params: {path: .}}\n";
    world
        .file("p.yaml", &plan.replace("    IDEM\n", ""))
        .file("q.yaml", &plan.replace("IDEM", "idem: natural"));
    world.ostler("check p.yaml --intent 2").exits(0).says("W09").says("the node is in doubt then");
    assert!(!world.ostler("check q.yaml --intent 2").exits(0).out.contains("W09"));
    world.ostler("run p.yaml --workspace work --intent 2").exits(3).says("in doubt");
}

#[test]
fn help_of_a_command_shows_no_page_of_the_same_name_about_something_else() {
    let world = World::new();
    assert!(!world.ostler("help answer").exits(0).says("--value").out.contains("F01"));
    world.ostler("help F01").exits(0).says("# answer: ");
}

#[test]
fn a_plan_for_a_model_in_a_file_is_checked_with_that_file() {
    let world = World::new();
    world.file("model.yaml", "roles: {}\n");
    world.file("asks.yaml", "id: asks\nnodes:\n  - {id: a, tool: model.default, params: {prompt: hi}, contract: [{method: schema, spec: {type: object}}]}\n");
    world.ostler("check asks.yaml").exits(2).complains("V20");
    world.ostler("check asks.yaml --model scripted:model.yaml").exits(0).says("valid asks");
    world.file(
        "cut.jsonl",
        "{\"cassette\":1,\"dialect\":\"openai\",\"model\":\"m\",\"profile\":\"generic\"}\n{\"request\":{",
    );
    for line in ["check asks.yaml", "run asks.yaml", "resume"] {
        let told = world.ostler(&format!("{line} --model cassette:cut.jsonl")).exits(2);
        let told =
            told.complains("error: --model: ").complains("cut.jsonl: line 2: it is cut off at column 12");
        assert_eq!(told.err.matches("cut.jsonl").count(), 1, "{}", told.err);
    }
    world.file("cut.toml", "[models.default]\nprovider = \"cassette\"\nfile = \"cut.jsonl\"\n");
    world
        .ostler("check asks.yaml --config cut.toml")
        .exits(2)
        .complains("it is configured, and cannot be set up");
}

#[test]
fn parameters_that_a_plan_does_not_use_are_told_with_those_it_has() {
    let world = World::new();
    let plan = "id: p\nparams: {folder: ., unused: 1}\nnodes:\n  - {id: a, tool: fs.list, params: {path: \"${folder}\"}}\n";
    world.file("p.yaml", plan);
    let idle = "the plan does not use its parameter \"unused\"";
    world.ostler("check p.yaml").exits(0).says("W11").says(idle);
    let told = world.ostler("check p.yaml --param zz=1").exits(2);
    told.complains("the plan does not use the parameter \"zz\"")
        .complains("its parameters are folder, unused");
    world.ostler("check p.yaml --param foldr=1").exits(2).complains("did you mean \"folder\"?");
}

#[test]
fn a_number_from_a_parameter_is_written_without_quotes_and_without_braces() {
    let world = World::new();
    let plan =
        |params: &str| format!("id: p\nnodes:\n  - id: a\n    tool: time.sleep\n    params:{params}\n");
    let check = |params: &str| {
        world.file("p.yaml", &plan(params));
        world.ostler("check p.yaml --param n=3")
    };
    check(" {ms: ${n}}").exits(2).complains("a key on each line");
    check(" {ms: \"${n}\"}").exits(2).complains("write ${n} without quotes").complains("a key on each line");
    check("\n      ms: ${n}").exits(0);
}
