//! `ostler credit`.

use std::path::Path;

use clap::Args;
use ostler_kernel::client_terms::CREDITS_MAX;
use ostler_server::wire::{ClientRequest, ClientRow};

use crate::cli::arguments::Globals;
use crate::cli::commands::client::{path, print};
use crate::cli::exit::Failure;
use crate::cli::output::terminal::status_line;
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct CreditArgs {
    /// Client
    client: String,
    /// Credits to deposit, such as +1000, or to withdraw, such as -200; without it, show the balance
    #[arg(value_name = "AMOUNT", allow_hyphen_values = true, value_parser = amount)]
    amount: Option<i64>,
}

fn amount(text: &str) -> Result<i64, String> {
    let signed = text.strip_prefix(['+', '-']).is_some();
    match text.parse::<i128>() {
        Ok(0) => Err("an amount of 0 changes nothing; omit it to show the balance".to_owned()),
        Ok(amount) if !signed => Err(format!("give a sign: +{amount} deposits, -{amount} withdraws")),
        Ok(amount) if amount.abs() <= CREDITS_MAX.into() => Ok(amount as i64),
        Ok(_) => Err(format!("give at most {CREDITS_MAX} in either direction")),
        Err(_) => Err("give a whole number with its sign, such as +1000 or -200".to_owned()),
    }
}

pub(crate) async fn credit(globals: &Globals, args: CreditArgs) -> Result<u8, Failure> {
    let path = path(&args.client)?;
    let mode = if args.amount.is_some() { AccessMode::Create } else { AccessMode::Read };
    let mut session = Session::open(globals, Path::new("."), mode).await?;
    let mut line = session.get::<ClientRow>(&path).await;
    let mut begins = false;
    // An unknown client is an error: a deposit must not create one by a typing mistake.
    if let (Ok(known), Some(_)) = (&mut line, args.amount) {
        let request = ClientRequest { credits: args.amount, ..ClientRequest::default() };
        match session.post::<ClientRow>(&path, &request).await {
            Ok(changed) => {
                begins = known.left.is_none() && changed.left.is_some();
                *known = changed;
            }
            Err(refused) => line = Err(refused),
        }
    }
    session.stop().await;
    let code = print(globals, &line?)?;
    if begins {
        let client = &args.client;
        status_line(format!(
            "{client} is metered from now on: its attempts stop when its credits are used up; \
             `ostler client remove {client}` ends that"
        ));
    }
    Ok(code)
}
