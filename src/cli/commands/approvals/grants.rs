//! `ostler approvals --grants` and `ostler approvals revoke`.

use std::path::Path;

use ostler_server::wire::{GrantList, GrantRow};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_lines;
use crate::cli::output::terminal::{Out, status_line, tagged};
use crate::cli::output::units::{duration, now_ms};
use crate::cli::session::api_client::{ApiError, path_segment};
use crate::cli::session::settings::has_no_data_folder;
use crate::cli::session::{AccessMode, Session, open_existing};

pub(super) async fn list(globals: &Globals) -> Result<u8, Failure> {
    if has_no_data_folder("grant", globals)? {
        return Ok(code::SUCCEEDED);
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let listed: Result<GrantList, ApiError> = session.get("/v1/grants").await;
    session.stop().await;
    let (listed, mut out) = (listed?, Out::new());
    listed.grants.iter().for_each(|grant| print(globals, "grant", grant, &mut out));
    if listed.grants.is_empty() && !globals.json {
        status_line("no grant is in force");
    }
    Ok(code::SUCCEEDED)
}

pub(super) async fn revoke(globals: &Globals, id: &str) -> Result<u8, Failure> {
    let mut session = open_existing("grant", globals, AccessMode::Execute).await?;
    let path = format!("/v1/grants/{}/revoke", path_segment(id));
    let revoked: Result<GrantRow, ApiError> = session.post(&path, &json!({})).await;
    session.stop().await;
    print(globals, "grant_revoked", &revoked?, &mut Out::new());
    Ok(code::SUCCEEDED)
}

fn print(globals: &Globals, tag: &str, grant: &GrantRow, out: &mut Out) {
    if globals.json {
        out.json(&tagged(tag, grant));
        return;
    }
    let GrantRow { id, client, workspace, tool, pattern, files, until_ms, by } = grant;
    let files = if files.is_empty() { String::new() } else { format!(" with {}", files.join(", ")) };
    let rest = if tag == "grant" {
        format!("for {}", duration(until_ms.saturating_sub(now_ms())))
    } else {
        "revoked".to_owned()
    };
    out.line(harmless_lines(&format!(
        "{id}  {tool} {pattern}{files}  in {workspace}, client {client}, by {by}, {rest}"
    )));
}
