//! `ostler artifact`.

use std::num::NonZeroU64;
use std::path::Path;

use clap::Args;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, ETAG};
use ostler_server::wire::{CandidateList, CandidateRow};
use serde_json::{Value, json};

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::positive_integer;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{harmless_line, harmless_lines};
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::output::units;
use crate::cli::session::api_client::{path_segment, read_body};
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct ArtifactArgs {
    /// Run and node: RUN/NODE
    #[arg(value_name = "RUN/NODE")]
    name: String,
    /// Part of a JSON result, as keys and indices separated by dots; text is printed as is
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// List the outputs that did not become the result: refused by the contract or by a person, or late
    #[arg(long, conflicts_with_all = ["path", "candidate"])]
    candidates: bool,
    /// Print the output of this attempt, which did not become the result
    #[arg(long, value_name = "ATTEMPT", value_parser = positive_integer)]
    candidate: Option<NonZeroU64>,
}

pub(crate) async fn artifact(globals: &Globals, args: ArtifactArgs) -> Result<u8, Failure> {
    let mut out = Out::new();
    let Some((run, node)) =
        args.name.split_once('/').filter(|(run, node)| !run.is_empty() && !node.is_empty())
    else {
        return Err(Failure::invalid(format!("{:?}: not RUN/NODE, such as @last/report", args.name)));
    };
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let of_node = format!("/v1/runs/{}/nodes/{}", path_segment(run), path_segment(node));
    let printed = if args.candidates {
        print_candidates(&mut session, globals, &format!("{of_node}/candidates"), &mut out).await
    } else {
        let place = match args.candidate {
            Some(attempt) => format!("{of_node}/candidates/{attempt}"),
            None => format!("{of_node}/artifact"),
        };
        print_artifact(&mut session, globals, node, &place, args.path.as_deref(), &mut out).await
    };
    session.stop().await;
    printed.map(|()| code::SUCCEEDED)
}

async fn print_artifact(
    session: &mut Session,
    globals: &Globals,
    node: &str,
    place: &str,
    path: Option<&str>,
    out: &mut Out,
) -> Result<(), Failure> {
    let read = session.with_retry(true, async |client| {
        let (head, body) = client.request(Method::GET, place, "*/*", None).await?.into_parts();
        Ok((head.headers, read_body(body).await?))
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
    if out.is_terminal() {
        // A terminal obeys the control characters of a result; a pipe or a file gets its bytes.
        let text = harmless_lines(&String::from_utf8_lossy(&content));
        out.line(text.strip_suffix('\n').unwrap_or(&text));
    } else {
        out.raw(&content);
    }
    Ok(())
}

async fn print_candidates(
    session: &mut Session,
    globals: &Globals,
    place: &str,
    out: &mut Out,
) -> Result<(), Failure> {
    let list: CandidateList = session.get(place).await?;
    for candidate in &list.candidates {
        if globals.json {
            out.json(&tagged("candidate", candidate));
            continue;
        }
        let CandidateRow { attempt, reason, detail, bytes, .. } = candidate;
        let why = match reason.as_str() {
            "contract_refused" => "refused by the contract",
            "rejected" => "rejected",
            "unapproved" => "never approved",
            "late" => "late: the node had moved on",
            other => other,
        };
        let detail = match (reason.as_str(), detail) {
            ("rejected", Some(by)) => format!(" {by}"),
            (_, Some(detail)) => format!(": {detail}"),
            (_, None) => String::new(),
        };
        out.line(harmless_line(&format!("attempt {attempt}  {}  {why}{detail}", units::bytes(*bytes))));
    }
    if list.candidates.is_empty() && !globals.json {
        status_line(format!("{} has no candidates", list.node));
    }
    Ok(())
}

/// Returns the part of a JSON document at a dotted path; texts without quotes.
fn within(content: &[u8], path: &str) -> Result<Vec<u8>, Failure> {
    let value: Value = serde_json::from_slice(content)
        .map_err(|_| Failure::invalid("--path: the result is not JSON; omit the option"))?;
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
                if known.is_empty() { String::new() } else { format!("; its keys are {}", known.join(", ")) };
            Failure::invalid(format!("--path {path:?}: no {step:?} in the result{known}"))
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
        assert!(refused.what.contains("its keys are matches, text"), "{refused}");
        assert!(within(b"plain", "text").is_err());
        assert!(within(content, "matches.7").is_err());
    }
}
