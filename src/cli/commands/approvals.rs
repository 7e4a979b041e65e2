//! `ostler approvals`.

mod grants;

use std::path::Path;

use clap::{Args, Subcommand};
use ostler_kernel::run::WaitReason;
use ostler_server::wire::{ApprovalList, ApprovalView, RunLine, RunList, Summary, UnreadableRun};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::exit::{Failure, code};
use crate::cli::output::approval::{Detail, TEXT_LINES_MAX, approval_lines, is_expired, short_digest};
use crate::cli::output::cells::harmless_lines;
use crate::cli::output::hints;
use crate::cli::output::hints::{DigestSource, answer_commands};
use crate::cli::output::labels::short_id;
use crate::cli::output::summary::waiting::unapproved_lines;
use crate::cli::output::terminal::{Out, Style, status_line};
use crate::cli::session::api_client::path_segment;
use crate::cli::session::settings::has_no_data_folder;
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    /// List the grants in force, which `ostler approve --also` made, and no approvals
    #[arg(long)]
    grants: bool,
    #[command(subcommand)]
    command: Option<ApprovalsCommand>,
}

impl ApprovalsArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.command.is_none()
    }
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// End a grant before its time
    #[command(after_help = "Example:\n  ostler approvals revoke g1")]
    Revoke {
        /// Id of the grant, as `ostler approvals --grants` lists it
        id: String,
    },
}

pub(crate) async fn approvals(globals: &Globals, args: ApprovalsArgs) -> Result<u8, Failure> {
    if let Some(ApprovalsCommand::Revoke { id }) = args.command {
        return grants::revoke(globals, &id).await;
    }
    if args.grants {
        return grants::list(globals).await;
    }
    let mut out = Out::new();
    if has_no_data_folder("run", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let listed = list(&mut session, globals, &mut out).await;
    session.stop().await;
    listed.map(|()| code::SUCCEEDED)
}

async fn list(session: &mut Session, globals: &Globals, out: &mut Out) -> Result<(), Failure> {
    let (mut next, mut printed): (Option<String>, usize) = (None, 0);
    loop {
        let after = next.map(|cursor| format!("?after={}", path_segment(&cursor))).unwrap_or_default();
        let page: ApprovalList = session.get(&format!("/v1/approvals{after}")).await?;
        for UnreadableRun { run, detail } in &page.unreadable {
            printed += 1;
            let detail = harmless_lines(detail);
            status_line(format!("run {run}: approvals unknown, its records cannot be read: {detail}"));
        }
        for question in &page.approvals {
            printed += 1;
            hints::know_model(&question.run, question.model_file.as_deref());
            if globals.json {
                // JSON output contains the whole result, however large. A question about one has no files to look at.
                let whole: Option<ApprovalView> = match (question.result_bytes, &question.result) {
                    (Some(_), None) => {
                        Some(session.get(&format!("/v1/approvals/{}", path_segment(&question.id))).await?)
                    }
                    _ => None,
                };
                let mut line = serde_json::to_value(whole.as_ref().unwrap_or(question))
                    .expect("a question is names, numbers and JSON");
                line["type"] = json!("approval");
                line["too_late"] = json!(is_expired(question.deadline_ms));
                out.json(&line);
            } else {
                print(question, out);
            }
        }
        next = page.next;
        if next.is_none() || out.is_closed() {
            break;
        }
    }
    if globals.json {
        return Ok(());
    }
    if printed == 0 {
        status_line("no approval is pending");
    }
    list_unapproved(session, out).await
}

/// Most listed runs that wait without an approval.
const UNAPPROVED_MAX: usize = 20;

/// Lists the runs that no approval continues: with an attempt in doubt, or a wait for an answer from outside.
async fn list_unapproved(session: &mut Session, out: &mut Out) -> Result<(), Failure> {
    let (mut listed, mut after) = (0, String::new());
    loop {
        let page: RunList = session.get(&format!("/v1/runs?status=waiting{after}")).await?;
        let is_unapproved = |line: &&RunLine| {
            let in_doubt = line.waiting.iter().any(|waiting| waiting.ask == "in_doubt");
            in_doubt || line.waits_for == Some(WaitReason::Answer)
        };
        for line in page.runs.iter().filter(is_unapproved) {
            if listed == UNAPPROVED_MAX {
                let more = hints::command("ps", &[], "--state waiting");
                out.line(format!("… and more runs that wait: {more}"));
                return Ok(());
            }
            let summary: Summary = session.get(&format!("/v1/runs/{}", path_segment(&line.run))).await?;
            hints::know_model(&line.run, line.model_file.as_deref());
            let lines = unapproved_lines(out, &summary);
            if listed == 0 && !lines.is_empty() {
                out.line("waiting for something else than an approval:");
            }
            listed += usize::from(!lines.is_empty());
            lines.iter().for_each(|line| out.line(line));
        }
        match page.next.filter(|_| !out.is_closed()) {
            Some(next) => after = format!("&after={}", path_segment(&next)),
            None => return Ok(()),
        }
    }
}

fn print(question: &ApprovalView, out: &mut Out) {
    let paint = if is_expired(question.deadline_ms) { Style::Dim } else { Style::Warning };
    let mut lines = format_approval(question).into_iter();
    if let Some(head) = lines.next() {
        out.line(out.styled(paint, &head));
    }
    lines.for_each(|line| out.line(line));
}

/// Formats a request with the commands that answer it, or that continue the run after the deadline.
fn format_approval(question: &ApprovalView) -> Vec<String> {
    let mut lines = approval_lines(question, Detail::Excerpt(TEXT_LINES_MAX));
    if is_expired(question.deadline_ms) {
        lines.push(format!("    {}", hints::resume(short_id(&question.run))));
        return lines;
    }
    if question.over_budget.is_some() {
        // The three answers are among the lines.
        return lines;
    }
    let digest = question.digest.as_deref().map(short_digest);
    let seen = digest.as_deref().map_or(DigestSource::Unseen, DigestSource::Shown);
    let answers = answer_commands(&question.run, &question.node, &question.ask, seen);
    lines.extend(answers.iter().map(|answer| format!("    {answer}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_whose_time_is_over_says_so_first_and_offers_no_answer() {
        let mut question: ApprovalView = serde_json::from_value(json!({
            "id": "i", "run": "r-12", "plan": "p", "client": "c", "node": "n", "ask": "before", "kind": "tool",
            "tool": "fs.write", "effect": "write", "impact": 1, "params": {}, "tests": [], "digest": "b3:00",
            "outdated": false, "asked_ms": 0, "holds_up": [],
        }))
        .expect("a question");
        for (deadline_ms, asked, last) in [
            (None, "approve this action?", "ostler reject 12 n --note WHY"),
            (Some(i64::MAX), "approve this action?", "ostler reject 12 n --note WHY"),
            (Some(1), "deadline passed", "ostler resume 12"),
        ] {
            question.deadline_ms = deadline_ms;
            let lines = format_approval(&question);
            assert_eq!(lines[0], format!("r-12  p/n  {asked}  fs.write, impact 1"));
            assert_eq!(lines[lines.len() - 1].trim(), last);
            let offers = lines.iter().any(|line| line.contains("ostler approve"));
            assert_eq!(offers, deadline_ms != Some(1), "{lines:#?}");
        }
    }
}
