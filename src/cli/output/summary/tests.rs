//! Snapshots of reports, and whether they fit the page.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use ostler_kernel::run::{RunOutcome, RunStatus};
use ostler_server::wire::{GraphNode, GraphView, ReliabilityBounds, RootCause, Summary, Waiting};

use super::figures::figure_lines;
use super::outputs::{OUTPUTS_MAX, Output};
use super::root_causes::root_cause_lines;
use super::waiting::waiting_lines;
use super::{PLAN_MIN, Page, ROWS_MIN, layout};
use crate::cli::output::cells::width;
use crate::cli::output::terminal::Out;

const RUN: &str = "0198f3c2-0000-7000-8000-1a2b3c4d5e6f";

/// A run with the given number of nodes in each state.
fn summary(states: &[(&str, usize)]) -> Summary {
    let names = states
        .iter()
        .flat_map(|&(state, count)| (0..count).map(move |at| (format!("{state}-{at:04}"), state)));
    let nodes: BTreeMap<String, String> = names.map(|(name, state)| (name, state.to_owned())).collect();
    let failed = nodes.iter().filter(|(_, state)| *state == "failed").map(|(node, _)| RootCause {
        node: node.clone(),
        state: "failed".to_owned(),
        reason: "structural".to_owned(),
        message: Some(format!(
            "no such file: notes/of/{node}.md, which is needed for the rest of it\nand more"
        )),
        lost: (0..20).map(|at| format!("{node}-{at}")).collect(),
    });
    let waiting = nodes.iter().filter(|(_, state)| *state == "waiting_human");
    let waiting = waiting.enumerate().map(|(at, (node, _))| Waiting {
        over_budget: None,
        node: node.clone(),
        ask: if at % 2 == 0 { "in_doubt" } else { "before" }.to_owned(),
        id: None,
        digest: None,
        deadline_ms: (at % 4 == 1).then_some(1),
        attempt: (at % 2 == 0).then_some(1),
        why: (at % 4 == 0).then(|| "not done within 1000 ms".to_owned()),
        blocks: vec!["pending-0000".to_owned()],
    });
    let waiting = waiting.collect();
    let outputs = nodes.iter().filter(|(_, state)| *state == "executed");
    Summary {
        kind: "summary".to_owned(),
        run: RUN.to_owned(),
        plan: "a-plan-with-a-name-that-takes-some-room".to_owned(),
        version: 2,
        status: RunStatus::Failed,
        waits_for: None,
        active: false,
        past: false,
        outcome: Some(RunOutcome::Failed),
        reason: None,
        dispatches: 12_345,
        rounds: (0..400).collect(),
        peak_ready: 8,
        mean_ready: 1.5,
        makespan_ms: 83_000,
        critical_path_ms: 12_000,
        parallelism: 3.5,
        overhead_us_per_node: 1.0,
        attempts: 12_345,
        reused: 0,
        call_budget: None,
        lost_calls: Vec::new(),
        verdicts: Vec::new(),
        models: None,
        on: Vec::new(),
        model_file: None,
        goal: None,
        answer: None,
        cost: 77,
        diagnoses: Default::default(),
        root_causes: failed.collect(),
        reliability: Some(ReliabilityBounds { independent: 0.9, always: 0.85 }),
        outputs: outputs.map(|(node, _)| (node.clone(), "b3:00".to_owned())).collect(),
        carried: Vec::new(),
        waits: Vec::new(),
        lists: BTreeMap::new(),
        absent: Vec::new(),
        left_out: BTreeMap::new(),
        undo: None,
        waiting,
        blocked_by: None,
        out_of_credit: false,
        rate_waits: Vec::new(),
        budget: None,
        parent: None,
        waiting_below: Vec::new(),
        client: "local".to_owned(),
        agent: "a".to_owned(),
        workspace: "/w".to_owned(),
        opened_ms: 1_700_000_000_000,
        seq: 1,
        nodes,
        interrupted: Vec::new(),
        held: Default::default(),
    }
}

fn graph(summary: &Summary) -> GraphView {
    let nodes = summary.nodes.iter().map(|(id, state)| GraphNode {
        id: id.clone(),
        kind: "tool".to_owned(),
        uses: None,
        level: 0,
        state: state.clone(),
        reason: Some("ok".to_owned()),
        since_ms: 0,
        attempts: 1,
        interrupted: false,
        busy_ms: Some(1_240),
        failure: (state == "failed").then(|| "no such file: 日本語.md ".repeat(9)),
        artifact: None,
        bytes: Some(2_300),
        reuse: None,
        critical: false,
        deadline_ms: None,
        list: None,
        undoes: None,
        round: None,
    });
    GraphView {
        run: RUN.to_owned(),
        plan: summary.plan.clone(),
        version: 2,
        nodes: nodes.collect(),
        edges: Vec::new(),
        outputs: summary.outputs.keys().cloned().collect(),
    }
}

/// Lays out the report for a terminal of 80 columns and 24 rows, one of them for the prompt.
fn page_of(summary: &Summary, nodes_shown: bool) -> Vec<String> {
    let text = "# Report\nwith a line that is much longer than the terminal is wide, so that it has to be cut somewhere\n";
    let output = |node: &String| Output {
        node: node.clone(),
        bytes: 2_300,
        is_text: true,
        lines: text.repeat(30).lines().map(str::to_owned).collect(),
    };
    let outputs: Vec<Output> = summary.outputs.keys().take(OUTPUTS_MAX).map(output).collect();
    let out = Out::new();
    let page = Page { out: &out, columns: 80, rows: ROWS_MIN, cuts_names: true };
    let graph = graph(summary);
    let lines = layout(&page, summary, None, (!nodes_shown).then_some(&graph), &outputs, true);
    let rows: usize = lines.iter().map(|line| page.rows_of(line)).sum();
    assert!(rows <= ROWS_MIN, "{rows} rows: {lines:#?}");
    lines
}

fn check(states: &[(&str, usize)], expected: &Expect) {
    expected.assert_eq(&page_of(&summary(states), false).join("\n"));
}

#[test]
fn five_nodes() {
    check(
        &[("executed", 1), ("failed", 1), ("skipped", 3)],
        &expect![[r#"
            failed  a-plan…e-room, version 2  0198f3c2-0000-7000-8000-1a2b3c4d5e6f  1 m 23 s
              failed failed-0000: no such file: notes/of/failed-0000.md, which is needed for
                the rest of it  (20 lost with it)
                │ and more
              executed-0000  executed     1.24 s
              failed-0000    failed       1.24 s  no such file: 日本語.md no such file: 日…
              skipped-0000   skipped      1.24 s
              skipped-0001   skipped      1.24 s
              skipped-0002   skipped      1.24 s
              nodes          1 executed, 1 failed, 3 skipped
              cost           77 credits
              rounds         0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 400 in all  (12345 attempts)
              makespan       1 m 23 s  critical path 12.00 s  parallelism 3.50
              output         executed-0000  2.3 kB  ostler artifact 1a2b3c4d5e6f/executed-0000 --path text
              │ # Report
              │ with a line that is much longer than the terminal is wide, so that it has t…
              │ # Report
              │ with a line that is much longer than the terminal is wide, so that it has t…
              │ # Report
              │ with a line that is much longer than the terminal is wide, so that it has t…
              │ # Report
              │ … 53 more lines"#]],
    );
}

#[test]
fn fourteen_nodes() {
    check(
        &[("executed", 12), ("failed", 2)],
        &expect![[r#"
            failed  a-plan…e-room, version 2  0198f3c2-0000-7000-8000-1a2b3c4d5e6f  1 m 23 s
              failed failed-0000: no such file: notes/of/failed-0000.md, which is needed for
                the rest of it  (20 lost with it)
                │ and more
              failed failed-0001: no such file: notes/of/failed-0001.md, which is needed for
                the rest of it  (20 lost with it)
                │ and more
              14 nodes: ostler show 1a2b3c4d5e6f lists them
              nodes          12 executed, 2 failed
              cost           77 credits
              rounds         0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 400 in all  (12345 attempts)
              makespan       1 m 23 s  critical path 12.00 s  parallelism 3.50
              output         executed-0000  2.3 kB  ostler artifact 1a2b3c4d5e6f/executed-0000 --path text
              │ # Report
              │ with a line that is much longer than the terminal is wide, so that it has t…
              │ # Report
              │ with a line that is much longer than the terminal is wide, so that it has t…
              │ # Report
              │ … 55 more lines
              output         executed-0001  2.3 kB  ostler artifact 1a2b3c4d5e6f/executed-0001 --path text
              … and 10 more outputs: ostler artifact 1a2b3c4d5e6f/NODE"#]],
    );
}

#[test]
fn five_thousand_nodes_of_which_three_hundred_failed() {
    check(
        &[("executed", 4_650), ("failed", 300), ("cancelled", 50)],
        &expect![[r#"
            failed  a-plan…e-room, version 2  0198f3c2-0000-7000-8000-1a2b3c4d5e6f  1 m 23 s
              failed failed-0000: no such file: notes/of/failed-0000.md, which is needed for
                the rest of it…  (20 lost with it)
              failed failed-0001: no such file: notes/of/failed-0001.md,…  (20 lost with it)
              failed failed-0002: no such file: notes/of/failed-0002.md,…  (20 lost with it)
              failed failed-0003: no such file: notes/of/failed-0003.md,…  (20 lost with it)
              failed failed-0004: no such file: notes/of/failed-0004.md,…  (20 lost with it)
              failed failed-0005: no such file: notes/of/failed-0005.md,…  (20 lost with it)
              failed failed-0006: no such file: notes/of/failed-0006.md,…  (20 lost with it)
              … and 293 more: ostler show 1a2b3c4d5e6f
              5000 nodes: ostler show 1a2b3c4d5e6f lists them
              nodes          50 cancelled, 4650 executed, 300 failed
              cost           77 credits
              rounds         0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 400 in all  (12345 attempts)
              makespan       1 m 23 s  critical path 12.00 s  parallelism 3.50
              output         executed-0000  2.3 kB  ostler artifact 1a2b3c4d5e6f/executed-0000 --path text
              │ # Report
              │ with a line that is much longer than the terminal is wide, so that it has t…
              │ # Report
              │ with a line that is much longer than the terminal is wide, so that it has t…
              │ … 56 more lines
              … and 4649 more outputs: ostler artifact 1a2b3c4d5e6f/NODE"#]],
    );
}

#[test]
fn twelve_nodes_that_wait_for_a_person() {
    check(
        &[("waiting_human", 12), ("pending", 5)],
        &expect![[r#"
            failed  a-plan…e-room, version 2  0198f3c2-0000-7000-8000-1a2b3c4d5e6f  1 m 23 s
              in doubt waiting_human-0000: not done within 1000 ms; outcome unknown
                ostler resolve 1a2b3c4d5e6f waiting_human-0000 --done FILE
                ostler resolve 1a2b3c4d5e6f waiting_human-0000 --redo
                ostler resolve 1a2b3c4d5e6f waiting_human-0000 --fail
              waits waiting_human-0001: approval to start (ostler approvals); deadline pass…
              … and 10 more: ostler show 1a2b3c4d5e6f
              17 nodes: ostler show 1a2b3c4d5e6f lists them
              nodes          5 pending, 12 waiting
              cost           77 credits
              rounds         0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 400 in all  (12345 attempts)
              makespan       1 m 23 s  critical path 12.00 s  parallelism 3.50"#]],
    );
}

#[test]
fn work_that_takes_no_time_that_is_measured_has_no_parallelism() {
    let base = Summary { rounds: vec![1, 2], ..summary(&[("executed", 3)]) };
    for (dispatches, makespan_ms, critical_path_ms, parallelism, told) in [
        (3, 0, 0, 0.0, "makespan       <1 ms  critical path <1 ms  parallelism -"),
        (3, 12, 0, 0.0, "makespan       12 ms  critical path <1 ms  parallelism -"),
        (3, 12, 6, 0.5, "makespan       12 ms  critical path 6 ms  parallelism 0.50"),
        (0, 12, 0, 0.0, "makespan       12 ms  critical path -  parallelism -"),
    ] {
        let summary = Summary { dispatches, makespan_ms, critical_path_ms, parallelism, ..base.clone() };
        let lines = figure_lines(
            &Page { out: &Out::new(), columns: 80, rows: ROWS_MIN, cuts_names: true },
            &summary,
            true,
        );
        assert!(lines.iter().any(|line| line.trim() == told), "{lines:#?}");
    }
}

#[test]
fn a_reliability_of_one_is_a_matter_of_detail() {
    for (always, shown) in [(1.0, false), (0.85, true)] {
        let reliability = Some(ReliabilityBounds { independent: 1.0, always });
        let outcome = Some(RunOutcome::Succeeded);
        let summary = Summary { reliability, outcome, ..summary(&[("executed", 3)]) };
        for verbose in [false, true] {
            let page = Page { out: &Out::new(), columns: 80, rows: ROWS_MIN, cuts_names: true };
            let lines = figure_lines(&page, &summary, verbose);
            let count = lines.iter().filter(|line| line.contains("reliability")).count();
            assert_eq!(count, usize::from(shown || verbose), "{always} {verbose}: {lines:#?}");
        }
    }
}

#[test]
fn a_failure_of_several_lines_keeps_their_order() {
    let long = format!("{}END-OF-FIRST", "word ".repeat(30));
    let message = format!("{long}\nsecond\nthird");
    let root_causes = vec![RootCause {
        node: "n".to_owned(),
        state: "failed".to_owned(),
        reason: "structural".to_owned(),
        message: Some(message),
        lost: Vec::new(),
    }];
    let summary = Summary { root_causes, ..summary(&[("failed", 1)]) };
    let page = Page { out: &Out::new(), columns: 80, rows: ROWS_MIN, cuts_names: true };
    let lines = root_cause_lines(&page, &summary, 8, 20);
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_start()).collect();
    let words = |count: usize| ["word"; 13][..count].join(" ");
    let expected = [
        format!("failed n: {}", words(13)),
        words(13) + " word word",
        "word word END-OF-FIRST".to_owned(),
        "│ second".to_owned(),
        "│ third".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn figures_fit_a_narrow_terminal() {
    let few = || vec![1, 2];
    for (rounds, dispatches, columns, told) in [
        (few(), 3, 80, "rounds         1, 2  (3 attempts)"),
        (few(), 3, 35, "rounds         1, 2  (3 attempts)"),
        (few(), 3, 34, "rounds         1, 2"),
        (few(), 3, 20, "rounds         1,…"),
        (few(), 3, PLAN_MIN, "rounds   …"),
        (Vec::new(), 0, 80, "rounds         -  (0 attempts)"),
        (Vec::new(), 0, 20, "rounds         -"),
        ((0..400).collect(), 400, 30, "rounds         … 400 in all"),
        ((0..400).collect(), 400, 24, "rounds         0, 1, …"),
    ] {
        let summary = Summary { rounds, dispatches, ..summary(&[("executed", 3)]) };
        let lines = figure_lines(
            &Page { out: &Out::new(), columns, rows: ROWS_MIN, cuts_names: true },
            &summary,
            true,
        );
        assert!(lines.iter().any(|line| line.trim() == told), "{columns}: {lines:#?}");
        assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:#?}");
    }
}

#[test]
fn what_a_run_waits_behind_is_told_with_its_command() {
    let summary = Summary { blocked_by: Some(RUN.to_owned()), ..summary(&[("executed", 1)]) };
    for columns in [40, 80] {
        let page = Page { out: &Out::new(), columns, rows: ROWS_MIN, cuts_names: true };
        let lines = waiting_lines(&page, &summary, None, usize::MAX);
        assert!(lines[0].ends_with("waits for an answer: ostler show 1a2b3c4d5e6f"), "{columns}: {lines:?}");
    }
}

#[test]
fn any_plan_fits_a_screen() {
    let some = [0, 1, 5, 14, 5_000];
    for executed in some {
        for failed in some {
            for waiting in [0, 12] {
                let states = [("executed", executed), ("failed", failed), ("waiting_human", waiting)];
                for nodes_shown in [false, true] {
                    page_of(&summary(&states), nodes_shown);
                }
            }
        }
    }
}

#[test]
fn a_long_name_is_cut_on_a_terminal_and_whole_in_a_pipe() {
    let node = |id: &str, state: &str| GraphNode {
        id: id.to_owned(),
        kind: "tool".to_owned(),
        uses: None,
        level: 0,
        state: state.to_owned(),
        reason: None,
        since_ms: 0,
        attempts: 1,
        interrupted: false,
        busy_ms: Some(7),
        failure: (state == "failed").then(|| "not done within 500 ms".to_owned()),
        artifact: None,
        bytes: None,
        reuse: None,
        critical: false,
        deadline_ms: None,
        list: None,
        undoes: None,
        round: None,
    };
    let graph = GraphView {
        run: RUN.to_owned(),
        plan: "p".to_owned(),
        version: 1,
        nodes: vec![node("a", "executed"), node("render-the-chapters-of-the-second-volume-0017", "failed")],
        edges: Vec::new(),
        outputs: Vec::new(),
    };
    let out = Out::new();
    let lines = |columns, cuts_names| {
        let page = Page { out: &out, columns, rows: ROWS_MIN, cuts_names };
        let lines = super::node_lines(&page, &graph);
        lines.iter().for_each(|line| assert!(width(line) <= columns, "{line}"));
        lines.iter().map(|line| line.trim_start()).collect::<Vec<_>>().join("\n")
    };
    expect![[r#"
          a                             executed       7 ms
          render-the-cha…d-volume-0017  failed         7 ms  not done within 500 ms"#]]
    .assert_eq(&lines(80, true));
    expect![[r#"
          a                  executed       7 ms
          render-t…ume-0017  failed         7 ms"#]]
    .assert_eq(&lines(40, true));
    expect![[r#"
          a                                              executed       7 ms
          render-the-chapters-of-the-second-volume-0017  failed         7 ms  not done within 500 ms"#]]
    .assert_eq(&lines(160, false));
}
