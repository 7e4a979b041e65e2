//! `ostler operator`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ostler_server::wire::{OperatorList, OperatorRow};
use ostler_server::{OperatorSecret, PublicKey, account};
use serde_json::json;

use crate::cli::arguments::Globals;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_lines;
use crate::cli::output::terminal::{Out, tagged};
use crate::cli::session::api_client::{ApiError, path_segment, prove_with};
use crate::cli::session::{AccessMode, Session, open_existing};

#[derive(Debug, Args)]
pub(crate) struct OperatorArgs {
    #[command(subcommand)]
    command: OperatorCommand,
}

impl OperatorArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.command, OperatorCommand::Key | OperatorCommand::Ls)
    }
}

#[derive(Debug, Subcommand)]
enum OperatorCommand {
    /// Print the public part of your key in ~/.config/ostler
    ///
    /// Creates the secret key if there is none.
    #[command(after_help = "Example:\n  ostler operator key")]
    Key,
    /// List the operator keys that the data folder accepts
    #[command(after_help = "Example:\n  ostler operator ls")]
    Ls,
    /// Accept one more operator key
    ///
    /// An operator whose key is accepted already decides that: run it as that user, or name that user's
    /// secret key with --with.
    #[command(
        after_help = "Examples:\n  ostler operator add ed25519:2152f8d19b791d24453242e15f2eab6cb7cffa7b6a5ed30097960e069881db12 --name ann\n  ostler operator add ed25519:2152f8d19b791d24453242e15f2eab6cb7cffa7b6a5ed30097960e069881db12 --with old.key"
    )]
    Add(AddArgs),
    /// Accept an operator key no more
    #[command(
        after_help = "Example:\n  ostler operator remove ed25519:2152f8d19b791d24453242e15f2eab6cb7cffa7b6a5ed30097960e069881db12"
    )]
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Public key, as `ostler operator key` prints it
    key: PublicKey,
    /// Name of the operator in the journal [default: your account]
    #[arg(long)]
    name: Option<String>,
    /// Secret key to prove this with, instead of your own
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// Public key, as `ostler operator ls` lists it
    key: PublicKey,
    /// Secret key to prove this with, instead of your own
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
}

pub(crate) async fn operator(globals: &Globals, args: OperatorArgs) -> Result<u8, Failure> {
    let (mode, with) = match &args.command {
        OperatorCommand::Key => return print_key(globals),
        OperatorCommand::Ls => (AccessMode::Read, None),
        OperatorCommand::Add(AddArgs { with, .. }) | OperatorCommand::Remove(RemoveArgs { with, .. }) => {
            (AccessMode::Execute, with.clone())
        }
    };
    with.into_iter().for_each(prove_with);
    let mut session = open_existing("operator key", globals, mode).await?;
    let listed = send(&mut session, args.command).await;
    session.stop().await;
    print(globals, listed?)
}

async fn send(session: &mut Session, command: OperatorCommand) -> Result<OperatorList, ApiError> {
    match command {
        OperatorCommand::Key | OperatorCommand::Ls => session.get("/v1/operators").await,
        OperatorCommand::Add(AddArgs { key, name, .. }) => {
            let row = OperatorRow { key: key.to_string(), name: name.unwrap_or_else(account) };
            session.post_idempotent("/v1/operators", &row).await
        }
        OperatorCommand::Remove(RemoveArgs { key, .. }) => {
            let path = format!("/v1/operators/{}/remove", path_segment(&key.to_string()));
            session.post(&path, &json!({})).await
        }
    }
}

fn print_key(globals: &Globals) -> Result<u8, Failure> {
    let unproven =
        |error: ostler_server::SecretError| Failure { code: code::UNPROVEN, what: error.to_string() };
    let key = OperatorSecret::of_user().map_err(unproven)?.public().to_string();
    let mut out = Out::new();
    if globals.json {
        out.json(&tagged("operator_key", &json!({"key": key})));
    } else {
        out.line(key);
    }
    Ok(code::SUCCEEDED)
}

fn print(globals: &Globals, list: OperatorList) -> Result<u8, Failure> {
    let mut out = Out::new();
    for row in &list.operators {
        if globals.json {
            out.json(&tagged("operator", row));
        } else {
            out.line(harmless_lines(&format!("{}  {}", row.key, row.name)));
        }
    }
    Ok(code::SUCCEEDED)
}
