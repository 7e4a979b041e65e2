use expect_test::{Expect, expect};
use serde_json::json;

use super::super::environment::ITEM_BYTES;
use super::*;

fn values() -> Map<String, Value> {
    let values = json!({
        "todos": {"state": "executed", "result": {"count": 3, "matches": ["a", "b", {"k": [1.0]}]}},
        "name": "Ann", "nothing": null, "markup": "<b>&",
    });
    values.as_object().unwrap().clone()
}

fn check(template: &str, expected: Expect) {
    let found = match render(template, &values()) {
        Ok(text) => text,
        Err(error) => format!("error: {error}"),
    };
    expected.assert_eq(&found);
}

#[test]
fn values_become_text() {
    check("# Report\n{{ todos.result.count }} open\n", expect!["# Report\n3 open\n"]);
    check("{{ markup }} {{ todos.result.matches | join(',') }}", expect![[r#"<b>& a,b,{"k":[1]}"#]]);
    check("{{ todos.result.matches[2] | tojson }}", expect![[r#"{"k":[1]}"#]]);
    check("{% if name == 'Ann' %}{{ name ~ '!' }}{% else %}?{% endif %}", expect!["Ann!"]);
    check("{% set n = todos.result.count %}{{ n * 2 + 1 }}", expect!["7"]);
    check(
        "{% for m in todos.result.matches if m is string %}{{ loop.index }}{{ m }} {% endfor %}",
        expect!["1a 2b "],
    );
    check("{{ missing is defined }} {{ missing | default('-') }}", expect!["false -"]);
    check("{{ name | replace('n', 'nn') | upper }}", expect!["ANNNN"]);
    check("{% raw %}{{ x }}{% macro %}{% endraw %}{{ '{%' }}", expect!["{{ x }}{% macro %}{%"]);
    check("{# {% macro #}{{ '}}' }}{ }", expect!["}}{ }"]);
    check("{% for i in range(3) %}{{ i }}{% endfor %}", expect!["012"]);
    check(
        "{{ todos }} {{ nothing }} {{ 1.0 }} {{ 2 ** 60 }} {{ 'x' if false }}",
        expect![[
            r#"{"result":{"count":3,"matches":["a","b",{"k":[1]}]},"state":"executed"} null 1 1152921504606846976 "#
        ]],
    );
    check("{{ todos.result | tojson }}", expect![[r#"{"count":3,"matches":["a","b",{"k":[1]}]}"#]]);
}

#[test]
fn a_missing_value_is_named_with_its_place() {
    check(
        "line\n{{ todos.results.count }}",
        expect!["error: template, line 2: todos.results.count does not exist"],
    );
    check("{{ missing }}", expect!["error: template, line 1: missing does not exist"]);
    check("{% if missing %}x{% endif %}", expect!["error: template, line 1: missing does not exist"]);
}

#[test]
fn what_is_no_template_says_where() {
    check(
        "a\n\n{{ name",
        expect![
            "error: template, line 3: syntax error: unexpected end of input, expected end of variable block at `name`"
        ],
    );
    check(
        "{{ name | nonsense }}",
        expect!["error: template, line 1: unknown filter: filter nonsense is unknown at `nonsense`"],
    );
    check(
        "{% nonsense %}",
        expect![[
            r#"error: template, line 1: expected one of if, elif, else, endif, for, endfor, set, raw, endraw, found "nonsense""#
        ]],
    );
}

#[test]
fn a_template_cannot_grow_without_bound() {
    check(
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        expect!["error: template: the work (instructions) is limited to 1000000"],
    );
    check(
        &"{{ 'x' * 3000000 }}".repeat(2),
        expect!["error: template: the result (bytes) is limited to 4194304"],
    );
    check(
        "{{ 'x' * 3000000000 }}",
        expect![
            "error: template, line 1: invalid operation: repeated string is too large at `'x' * 3000000000`"
        ],
    );
    check(
        "{{ ('x' * 3000000) | replace('x', 'xxxxxxxx') }}",
        expect![
            "error: template, line 1: invalid operation: a result is limited to 4194304 bytes at `replace('x', 'xxxxxxxx')`"
        ],
    );
    check(
        "{{ ['', 'x' * 3000000, ''] | join('x' * 3000000) }}",
        expect![
            "error: template, line 1: invalid operation: a result is limited to 4194304 bytes at `join('x' * 3000000)`"
        ],
    );
    check(
        "{% set a = name ~ name %}",
        expect![
            "error: template, line 1: set may only bind an existing value, with filters: no operators, no lists"
        ],
    );
    check(
        "{% set a = [name, name] %}",
        expect![
            "error: template, line 1: set may only bind an existing value, with filters: no operators, no lists"
        ],
    );
    check(
        "{% set a = name, name %}",
        expect![
            "error: template, line 1: set may only bind an existing value, with filters: no operators, no lists"
        ],
    );
    check(
        "{% set a %}{{ name }}{% endset %}",
        expect!["error: template, line 1: set needs a value: `set name = value`"],
    );
    check(
        "{% for a in [[name, name]] %}{% endfor %}",
        expect![
            "error: template, line 1: for may only bind an existing value, with filters: no operators, no lists"
        ],
    );
    check(
        "{% for a in todos recursive %}{{ loop(a) }}{% endfor %}",
        expect!["error: template, line 1: recursive for loops are not supported"],
    );
    check(
        "{%- filter upper %}x{% endfilter %}",
        expect![[
            r#"error: template, line 1: expected one of if, elif, else, endif, for, endfor, set, raw, endraw, found "filter""#
        ]],
    );
    check(
        "{% with a = name %}{% endwith %}",
        expect![[
            r#"error: template, line 1: expected one of if, elif, else, endif, for, endfor, set, raw, endraw, found "with""#
        ]],
    );
    check(
        &format!("{{{{ name{} }}}}", " ~ name".repeat(9)),
        expect!["error: template, line 1: at most 8 of the operators ~ + * in one tag, found 9"],
    );
    check(
        "{{ namespace(a=1) }}",
        expect!["error: template, line 1: unknown function: namespace is unknown at `namespace(a=1)`"],
    );
    check(
        "{% set a = dict(x=name, y=name) %}",
        expect!["error: template, line 1: unknown function: dict is unknown at `dict(x=name, y=name)`"],
    );
    check(
        &format!("{{{{ [{}] }}}}", "todos,".repeat(33)),
        expect!["error: template, line 1: at most 32 commas in one tag, found 33"],
    );
    check("{{ [todos, todos] | map('tojson') | join | length }}", expect!["142"]);
    check(
        &"x".repeat(TEMPLATE_BYTES_MAX + 1),
        expect!["error: template: the template (bytes) is limited to 262144"],
    );
    check(
        &format!("{}{}", "{% if true %}".repeat(5000), "{% endif %}".repeat(5000)),
        expect!["error: template, line 1: syntax error: template exceeds maximum recursion limits at `if`"],
    );
    check(
        &format!("{{{{ {}1{} }}}}", "(".repeat(240), ")".repeat(240)),
        expect!["error: template, line 1: syntax error: template exceeds maximum recursion limits at `(`"],
    );
}

#[test]
fn a_tag_ends_where_the_engine_ends_it() {
    let many = " ~ name".repeat(9);
    let tilde = "error: template, line 1: at most 8 of the operators ~ + * in one tag, found 9";
    for template in [
        format!("{{{{ {{\"a\": {{\"b\": 1}}}} and (name{many}) }}}}"),
        format!("{{{{ {{'a': {{'b': 1}}}}['a'] and (name{many}) }}}}"),
        format!("{{% if {{'a': {{}}}} and [1 %}} 2] or (name{many}) %}}{{% endif %}}").replace("%} 2", "% 2"),
        format!("{{% raw %}}{{% endraw x %}}{{# {{% endraw %}}{{{{ name{many} }}}}{{# #}}"),
        format!("{{% raw %}}{{%-+endraw%}}{{# {{%- endraw -%}}{{{{ name{many} }}}}{{# #}}"),
    ] {
        assert_eq!(render(&template, &values()).unwrap_err().to_string(), tilde[7..], "{template}");
    }
    check("{{ {'a': {'b': 1}} }}", expect![[r#"{"a":{"b":1}}"#]]);
    check("{{ {'a': {'b': 1}}.a.b }}}}", expect!["1}}"]);
    check("{% raw %}{% endraw x %}{{%- endraw -%}", expect!["{% endraw x %}{"]);
}

#[test]
fn what_filters_copy_is_bounded() {
    let text = "a ".repeat(RENDER_COPIES_BYTES_MAX / ITEM_BYTES / 2);
    let copied = |template: &str, text: &str| {
        render(template, json!({"x": text, "m": {"k": text}}).as_object().unwrap()).map(|text| text.len())
    };
    // Each character is an item; together the items use the whole budget.
    assert_eq!(copied("{{ x|list|length }}", &text), Ok(7));
    for (template, filter) in [
        ("{% set a = x|list %}{% set b = 'x'|list %}", "list"),
        ("{% for a in x|reverse %}{% for b in x|sort %}{% endfor %}{% endfor %}", "sort"),
        ("{{ x|split|length }}{{ x|split|length }}", "split"),
        ("{{ x|split(' ')|map('upper')|map('lower')|list|length }}", "map('upper')"),
        ("{{ [x, x, x, x]|map('upper')|length }}{{ x|unique }}", "unique"),
    ] {
        let error = copied(template, &text).unwrap_err().to_string();
        let expected = format!("filters may copy at most {RENDER_COPIES_BYTES_MAX} bytes at `{filter}");
        assert!(error.contains(&expected), "{template}: {error}");
    }
    let upper = "{% set a = m.k|upper|lower|trim|title|capitalize|string|e %}".repeat(6);
    assert!(copied(&upper, &text).unwrap_err().to_string().contains("filters may copy at most"));
    check("{{ [1, 2]|sum }} {{ [1]|sum(start=4) }}", expect!["3 5"]);
    check(
        "{{ ['a']|sum(start='') }}",
        expect!["error: template, line 1: invalid operation: sum needs a number as start at `sum(start='')`"],
    );
}

#[test]
fn what_a_template_holds_at_once_is_bounded() {
    let loops =
        |depth: usize| format!("{}{}", "{% for c in name %}".repeat(depth), "{% endfor %}".repeat(depth));
    check(&loops(bounds::FOR_NESTING_MAX), expect![""]);
    check(&loops(1).repeat(20), expect![""]);
    check(
        &loops(bounds::FOR_NESTING_MAX + 1),
        expect!["error: template, line 1: at most 8 nested for loops, found 9"],
    );
    let elifs =
        |count: usize| format!("{{% if name == 1 %}}{}{{% endif %}}", "{% elif name == 1 %}".repeat(count));
    check(&elifs(bounds::ELIFS_MAX), expect![""]);
    check(
        &elifs(bounds::ELIFS_MAX + 1),
        expect!["error: template, line 1: at most 250 elif tags in a template, found 251"],
    );
    check(&"{% set a = name %}".repeat(bounds::SETS_MAX), expect![""]);
    check(
        &"{% set a = name %}".repeat(bounds::SETS_MAX + 1),
        expect!["error: template, line 1: at most 64 set tags in a template, found 65"],
    );
}

/// The engine would recurse as deep as these templates are long, and overflow the stack.
#[test]
fn what_goes_deep_without_brackets_is_bounded() {
    let values = json!({"a": 1, "no": false});
    let chain = |words: usize| format!("{{{{ a{} }}}}", ".b".repeat((words - 1) / 2));
    for (template, refused) in [
        (format!("{{% if no %}}{}{{% endif %}}", chain(bounds::WORDS_MAX - 1)), false),
        (chain(bounds::WORDS_MAX + 1), true),
        (chain(100_000), true),
        (format!("{{{{ {}a }}}}", "-".repeat(40_000)), true),
        (format!("{{{{ a{} }}}}", "|e".repeat(40_000)), true),
        (format!("{{{{ a{} }}}}", " and a".repeat(12_000)), true),
        (format!("{{% if no %}}{}{{% endif %}}", "{% elif no %}".repeat(6_000)), true),
    ] {
        let values = values.as_object().unwrap();
        let tail = &template[template.len() - 20..];
        assert_eq!(check_template(&template).is_err(), refused, "{tail}");
        assert_eq!(render(&template, values).is_err(), refused, "{tail}");
        assert!(check_paths(&template, &|_| true).is_ok() && check_values(&template, &|_| true).is_ok());
    }
}

#[test]
fn values_are_bounded_too() {
    let values = json!({"text": "x".repeat(RENDER_VALUES_BYTES_MAX)});
    let error = render("{{ 1 }}", values.as_object().unwrap()).unwrap_err();
    assert_eq!(error, limit("the values (bytes)", RENDER_VALUES_BYTES_MAX as u64));
}

#[test]
fn a_check_finds_faults_without_values() {
    assert_eq!(check_template("{{ unknown.name }}"), Ok(()));
    assert!(check_template("{{ unknown.name").is_err());
    assert!(check_template("{% include 'x' %}").is_err());
}

#[test]
fn a_check_knows_every_filter_test_and_function() {
    for (template, unknown) in [
        ("{{ a | upper }} {{ a|join(', ')|length }} {{ a.b[0] | default('|nope') }}", None),
        ("{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{% endfor %}", None),
        ("{% if (a) and not (b) or (c is defined) %}{% elif (d) %}{% endif %}", None),
        ("{% set f = range %}{{ f(3) }} {{ a if (b) else (c) }} {{ a in (b) }}", None),
        ("{{ a is not divisibleby(3) }}{% raw %}{{ a | nope }}{% endraw %}{# | nope #}", None),
        ("{{ a | map('tojson') | list }} {{ a == '| nope' }} {{ a is odd or b is even }}", None),
        ("a\n{{ a | uper }}", Some("line 2: unknown filter uper: did you mean upper?")),
        ("{% if false %}{{ a|nope|upper }}{% endif %}", Some("line 1: unknown filter nope")),
        ("{% for i in a | sorted %}{% endfor %}", Some("line 1: unknown filter sorted: did you mean sort?")),
        ("{{ a is not nope }}", Some("line 1: unknown test nope")),
        ("{{ 1 + rnge (3) }}", Some("line 1: unknown function rnge")),
        ("{{ dict(a=1) }}", Some("line 1: unknown function dict")),
        ("{{ a | indent(2) }}", Some("line 1: unknown filter indent")),
    ] {
        let found = check_template(template).map_err(|error| error.to_string()).err();
        assert_eq!(
            found.as_deref(),
            unknown.map(|what| format!("template, {what}")).as_deref(),
            "{template}"
        );
    }
}
