//! `events`, `artifact`: looking, without changing anything.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;

use clap::Args;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, ETAG};
use ostler_server::wire::{EventLine, Standing, Summary};
use serde_json::{Value, json};

use super::advice::{self, placed};
use super::cells::fit;
use super::client::{part, whole};
use super::exit::{Failure, code};
use super::follow::{Lines, Part, follow, lost, to_rest};
use super::live::View;
use super::number::{from_one, run_name};
use super::session::{Session, Want};
use super::term::{Out, clock, say};
use super::{Globals, clients};

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Go on until the run is over
    #[arg(short, long)]
    follow: bool,
    /// The first record to print
    #[arg(long, value_name = "SEQ", default_value = "1", allow_negative_numbers = true, value_parser = from_one)]
    from: NonZeroU64,
}

#[derive(Debug, Args)]
pub(crate) struct ArtifactArgs {
    /// The run and the node: RUN/NODE
    #[arg(value_name = "RUN/NODE")]
    name: String,
    /// Part of a JSON result, as keys and indices with dots; a text is printed as it is
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
}

/// Records for people.
#[derive(Default)]
struct Table {
    /// What does each node, as far as the records that were shown say so: its tool, else its kind.
    done_by: BTreeMap<String, String>,
}

impl Table {
    /// Takes in the nodes of a plan, or those that another version changes.
    fn take_in(&mut self, nodes: &Value) {
        for node in nodes.as_array().into_iter().flatten() {
            let done_by = node["tool"].as_str().or(node["kind"].as_str());
            if let (Some(id), Some(done_by)) = (node["id"].as_str(), done_by) {
                self.done_by.insert(id.to_owned(), done_by.to_owned());
            }
        }
    }
}

impl View for Table {
    fn record(&mut self, line: &EventLine, out: &mut Out) {
        self.take_in(&line.body["plan"]["nodes"]);
        self.take_in(&line.body["revision"]["nodes"]);
        let node = line.body["node"].as_str().unwrap_or_default();
        let detail = match line.kind.as_str() {
            "node_transition" => {
                let word = |key: &str| line.body[key].as_str().unwrap_or_default().to_owned();
                format!("{} -> {}  {}", word("from"), word("to"), word("reason"))
            }
            // What is identified, and by what, is for programs.
            "attempt_intent" => {
                let done_by = self.done_by.get(node).map(|done_by| format!(", {done_by}"));
                format!("attempt {}{}", line.body["attempt"], done_by.unwrap_or_default())
            }
            "attempt_result" | "late_result" => {
                let outcome = &line.body["outcome"];
                match outcome["failed"]["message"].as_str() {
                    Some(message) => format!("failed: {message}"),
                    None => format!("ok, {} bytes", outcome["ok"]["bytes"]),
                }
            }
            "run_opened" => format!("{} for {}", line.body["plan"]["id"], line.body["client"]),
            _ => {
                let mut body = line.body.clone();
                if let Some(members) = body.as_object_mut() {
                    members.remove("node");
                }
                if body.as_object().is_some_and(serde_json::Map::is_empty) {
                    String::new()
                } else {
                    body.to_string()
                }
            }
        };
        let text = format!(
            "{:>6}  {}  {:<24}  {node:<20}  {}",
            line.seq,
            clock(line.at_ms),
            line.kind,
            fit(&detail, 200)
        );
        out.line(text.trim_end());
    }

    fn has_told_nodes(&self) -> bool {
        true
    }
}

pub(crate) async fn events(globals: &Globals, args: EventsArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let mut session = Session::open(globals, Path::new("."), Want::Look).await?;
    let told = tell_events(&mut session, globals, &args, &mut out).await;
    session.stop().await;
    told.map(|()| code::SUCCEEDED)
}

async fn tell_events(
    session: &mut Session,
    globals: &Globals,
    args: &EventsArgs,
    out: &mut Out,
) -> Result<(), Failure> {
    let path = format!("/v1/runs/{}", part(&args.run));
    let summary: Summary = session.get(&path).await?;
    let path = format!("/v1/runs/{}", summary.run);
    let follows = args.follow && session.client.is_remote();
    if args.from.get() > summary.seq && (summary.standing == Standing::Closed || !follows) {
        return Err(Failure::invalid(format!(
            "run {} has only {} records: there is no record {}",
            summary.run, summary.seq, args.from
        )));
    }
    let mut view: Box<dyn View + Send> =
        if globals.json { Box::new(Lines) } else { Box::new(Table::default()) };
    let mut after = args.from.get() - 1;
    let followed = if follows {
        to_rest(session, &summary.run, &mut after, "closed", Part::Looks, &mut *view, None, out).await
    } else {
        follow(&session.client, &path, &mut after, "now", &mut *view, None, out).await
    };
    followed.map_err(|refused| lost(refused, &summary.run))?;
    if !args.follow {
        return Ok(());
    }
    // Who drove the run while it was followed may have let go of it.
    let now = if follows { session.summary(&summary.run).await? } else { summary };
    if !matches!(now.standing, Standing::Closed | Standing::Quarantined) {
        let short = clients::short(&session.client, &now).await;
        let how = match (short, now.standing != Standing::Waiting) {
            (Some(short), _) => {
                format!("{}; then `{}` goes on", clients::waits(&short), advice::resume(&now.run))
            }
            (None, true) => format!("`{}` goes on", advice::resume(&now.run)),
            (None, false) => placed("it waits for a person: `ostler approvals` shows for what"),
        };
        say(format!("this run stands still, so nothing more comes: {how}"));
    }
    Ok(())
}

pub(crate) async fn artifact(globals: &Globals, args: ArtifactArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let Some((run, node)) =
        args.name.split_once('/').filter(|(run, node)| !run.is_empty() && !node.is_empty())
    else {
        return Err(Failure::invalid(format!("{:?} is not RUN/NODE, such as @last/report", args.name)));
    };
    let mut session = Session::open(globals, Path::new("."), Want::Look).await?;
    let told = tell_artifact(&mut session, globals, run, node, args.path.as_deref(), &mut out).await;
    session.stop().await;
    told.map(|()| code::SUCCEEDED)
}

async fn tell_artifact(
    session: &mut Session,
    globals: &Globals,
    run: &str,
    node: &str,
    path: Option<&str>,
    out: &mut Out,
) -> Result<(), Failure> {
    let place = format!("/v1/runs/{}/nodes/{}/artifact", part(run), part(node));
    let read = session.asked(true, async |client| {
        let (head, body) = client.ask(Method::GET, &place, "*/*", None).await?.into_parts();
        Ok((head.headers, whole(body).await?))
    });
    let (headers, mut content) = read.await?;
    let header = |name| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().trim_matches('"').to_owned()
    };
    let (media, digest) = (header(CONTENT_TYPE), header(ETAG));
    if let Some(path) = path {
        content = within(&content, path)?;
    }
    if globals.json {
        let text = String::from_utf8_lossy(&content);
        let value: Value = serde_json::from_slice(&content).unwrap_or_else(|_| json!(text));
        out.json(&json!({
            "type": "artifact", "node": node, "media": media, "digest": digest,
            "bytes": content.len(), "content": value,
        }));
        return Ok(());
    }
    if out.is_screen() && !content.ends_with(b"\n") {
        content.push(b'\n');
    }
    out.raw(&content);
    Ok(())
}

/// The part of a JSON document at a dot path; a text without its quotes.
fn within(content: &[u8], path: &str) -> Result<Vec<u8>, Failure> {
    let value: Value = serde_json::from_slice(content)
        .map_err(|_| Failure::invalid("the result is no JSON, so it has no parts: leave --path out"))?;
    let mut at = &value;
    for step in path.split('.') {
        let below = match at {
            Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            other => other.get(step),
        };
        at = below.ok_or_else(|| {
            let known: Vec<&str> =
                at.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            let known =
                if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) };
            Failure::invalid(format!("the result has no {step:?} at {path:?}{known}"))
        })?;
    }
    Ok(match at {
        Value::String(text) => text.clone().into_bytes(),
        other => other.to_string().into_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_result_is_found_or_the_keys_are_named() {
        let content = br##"{"text": "# Report\n", "matches": [{"line": 3}]}"##;
        assert_eq!(within(content, "text").unwrap(), b"# Report\n");
        assert_eq!(within(content, "matches.0.line").unwrap(), b"3");
        assert_eq!(within(content, "matches").unwrap(), br#"[{"line":3}]"#);
        let refused = within(content, "txt").unwrap_err();
        assert!(refused.what.contains("there are matches, text"), "{refused}");
        assert!(within(b"plain", "text").is_err());
        assert!(within(content, "matches.7").is_err());
    }
}
