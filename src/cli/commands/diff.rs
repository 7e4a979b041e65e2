//! `ostler diff`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use hyper::Method;
use serde_json::{Value, json};
use similar::TextDiff;

use super::explain::{difference, fates_with_records, word};
use crate::cli::arguments::Globals;
use crate::cli::arguments::values::run_name;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_line;
use crate::cli::output::terminal::Out;
use crate::cli::session::api_client::{path_segment, read_body};
use crate::cli::session::{AccessMode, Session};

/// Most printed lines of one difference.
const LINES_MAX: usize = 40;

/// Lines shown before and after a change.
const LINES_AROUND: usize = 1;

/// Longest comparison of two texts.
const TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A run: its id, a part of it, or @last
    #[arg(value_name = "RUN_A", value_parser = run_name)]
    before: String,
    /// The run to compare with it
    #[arg(value_name = "RUN_B", value_parser = run_name)]
    after: String,
}

pub(crate) async fn diff(globals: &Globals, args: DiffArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let printed = print_differences(&mut session, globals, &args, &mut out).await;
    session.stop().await;
    printed.map(|()| code::SUCCEEDED)
}

async fn print_differences(
    session: &mut Session,
    globals: &Globals,
    args: &DiffArgs,
    out: &mut Out,
) -> Result<(), Failure> {
    let before = fates_with_records(session, &args.before, out).await?;
    let after = fates_with_records(session, &args.after, out).await?;
    let nodes: BTreeSet<&String> = before.nodes.keys().chain(after.nodes.keys()).collect();
    let mut equal = 0;
    for node in nodes {
        let (old, new) = (before.nodes.get(node), after.nodes.get(node));
        let (Some(old), Some(new)) = (old, new) else {
            let which = if old.is_some() { "only in the first run" } else { "only in the second run" };
            say(globals, out, node, which, &[]);
            continue;
        };
        if old.artifact == new.artifact && word(old) != "pending" && old.state == new.state {
            equal += 1;
            continue;
        }
        let lines = match (&old.artifact, &new.artifact) {
            (Some(_), Some(_)) => {
                let old = artifact(session, &args.before, node).await?;
                changed_lines(&old, &artifact(session, &args.after, node).await?)
            }
            _ => Vec::new(),
        };
        let work = difference(new, Some(old));
        say(globals, out, node, &format!("{} -> {}; {work}", word(old), word(new)), &lines);
    }
    if !globals.json {
        out.line(format!("equal nodes: {equal}"));
    }
    Ok(())
}

fn say(globals: &Globals, out: &mut Out, node: &str, what: &str, lines: &[String]) {
    if globals.json {
        out.json(&json!({"type": "difference", "node": node, "what": what, "lines": lines}));
        return;
    }
    out.line(harmless_line(&format!("{node}: {what}")));
    for line in lines {
        out.line(harmless_line(&format!("  {line}")));
    }
}

/// The result of a node as lines: the text of a result with a text, else its JSON with a line for each member.
async fn artifact(session: &mut Session, run: &str, node: &str) -> Result<String, Failure> {
    let place = format!("/v1/runs/{}/nodes/{}/artifact", path_segment(run), path_segment(node));
    let read = session.with_retry(true, async |client| {
        let body = client.request(Method::GET, &place, "*/*", None).await?.into_body();
        read_body(body).await
    });
    let content = read.await?;
    let text = String::from_utf8_lossy(&content).into_owned();
    Ok(match serde_json::from_slice::<Value>(&content) {
        Ok(Value::Object(members)) if members.len() == 1 && members.contains_key("text") => {
            members["text"].as_str().unwrap_or_default().to_owned()
        }
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or(text),
        Err(_) => text,
    })
}

/// The lines that differ, `-` before removed and `+` before added ones, each change with a line around it and `…` between changes.
fn changed_lines(before: &str, after: &str) -> Vec<String> {
    // Of texts with too many differences, a coarser comparison is enough.
    let diff = TextDiff::configure().timeout(TIMEOUT).diff_lines(before, after);
    let mut lines: Vec<String> = Vec::new();
    for group in diff.grouped_ops(LINES_AROUND) {
        if !lines.is_empty() {
            lines.push("…".to_owned());
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            lines.push(format!("{} {}", change.tag(), change.value().trim_end_matches(['\r', '\n'])));
        }
    }
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    lines.extend((more > 0).then(|| format!("… {more} more lines")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, expected: &[&str]) {
        assert_eq!(changed_lines(before, after), expected);
    }

    #[test]
    fn only_lines_that_differ_are_shown_with_a_line_around_them() {
        check("a", "a", &[]);
        check("", "a", &["+ a"]);
        check("a\nb\nc\nd", "a\nx\ny\nc\nd", &["  a", "- b", "+ x", "+ y", "  c"]);
        let between = "1\n2\n3\n4\n";
        let expected = ["- one a", "+ one b", "  1", "…", "  4", "- end a", "+ end b"];
        check(&format!("one a\n{between}end a\n"), &format!("one b\n{between}end b\n"), &expected);
        let many: String = (0..100).map(|line| format!("{line}\n")).collect();
        assert_eq!(changed_lines("", &many).last().unwrap(), "… 60 more lines");
    }
}
