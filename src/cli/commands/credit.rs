//! `ostler credit`.

use std::path::Path;

use clap::Args;
use ostler_kernel::client_terms::CREDITS_MAX;
use ostler_kernel::ledger::Amount;
use ostler_server::wire::{ClientRequest, ClientRow};

use crate::cli::arguments::Globals;
use crate::cli::arguments::budget::amount_or_credits;
use crate::cli::commands::client::{path, print};
use crate::cli::exit::Failure;
use crate::cli::output::terminal::status_line;
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Args)]
pub(crate) struct CreditArgs {
    /// Client
    client: String,
    /// Amount to deposit, such as +1000 (credits), +5usd or +1000000tokens, or to withdraw, such as -200;
    /// without it, show the balance
    #[arg(value_name = "AMOUNT", allow_hyphen_values = true, value_parser = signed)]
    amount: Option<Signed>,
}

impl CreditArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.amount.is_none()
    }
}

/// An amount with its sign: positive to deposit, negative to withdraw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signed {
    Credits(i64),
    Tokens(i64),
    NanoUsd(i64),
}

fn signed(text: &str) -> Result<Signed, String> {
    let unsigned = text.strip_prefix(['+', '-']);
    let Some(unsigned) = unsigned else {
        let example =
            amount_or_credits(text).map(|_| format!("give a sign: +{text} deposits, -{text} withdraws"));
        return Err(example.unwrap_or_else(|_| EXPECTED.to_owned()));
    };
    if unsigned.starts_with(['+', '-']) {
        return Err(EXPECTED.to_owned());
    }
    let amount =
        amount_or_credits(unsigned).map_err(|why| if is_zero(unsigned) { ZERO.to_owned() } else { why })?;
    let sign = |amount: u64| {
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        if text.starts_with('-') { -amount } else { amount }
    };
    match amount {
        Amount::Credits(credits) if credits > CREDITS_MAX.unsigned_abs() => {
            Err(format!("give at most {CREDITS_MAX} in either direction"))
        }
        Amount::Credits(credits) => Ok(Signed::Credits(sign(credits))),
        Amount::Tokens(tokens) => Ok(Signed::Tokens(sign(tokens))),
        Amount::NanoUsd(nano_usd) => Ok(Signed::NanoUsd(sign(nano_usd))),
    }
}

fn is_zero(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte == b'0')
}

const ZERO: &str = "an amount of 0 changes nothing; omit it to show the balance";

const EXPECTED: &str = "give an amount with its sign, such as +1000, -200, +5usd or +1000000tokens";

fn request(amount: Signed) -> ClientRequest {
    let request = ClientRequest::default();
    match amount {
        Signed::Credits(credits) => ClientRequest { credits: Some(credits), ..request },
        Signed::Tokens(tokens) => ClientRequest { tokens: Some(tokens), ..request },
        Signed::NanoUsd(nano_usd) => ClientRequest { nano_usd: Some(nano_usd), ..request },
    }
}

pub(crate) async fn credit(globals: &Globals, args: CreditArgs) -> Result<u8, Failure> {
    let path = path(&args.client)?;
    let mode = if args.amount.is_some() { AccessMode::Create } else { AccessMode::Read };
    let mut session = Session::open(globals, Path::new("."), mode).await?;
    let mut line = session.get::<ClientRow>(&path).await;
    let mut begins = false;
    // An unknown client is an error: a deposit must not create one by a typing mistake.
    if let (Ok(known), Some(amount)) = (&mut line, args.amount) {
        match session.post::<ClientRow>(&path, &request(amount)).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_a_sign_and_perhaps_a_unit() {
        for (text, amount) in [
            ("+1000", Signed::Credits(1_000)),
            ("-200credits", Signed::Credits(-200)),
            ("+5usd", Signed::NanoUsd(5_000_000_000)),
            ("-0.25usd", Signed::NanoUsd(-250_000_000)),
            ("+1000000tokens", Signed::Tokens(1_000_000)),
        ] {
            assert_eq!(signed(text), Ok(amount), "{text}");
        }
        for (text, told) in [
            ("1000", "give a sign: +1000 deposits, -1000 withdraws"),
            ("5usd", "give a sign: +5usd deposits, -5usd withdraws"),
            ("+0", ZERO),
            ("much", EXPECTED),
            ("++5", EXPECTED),
        ] {
            assert_eq!(signed(text), Err(told.to_owned()), "{text}");
        }
        assert!(signed("+99999999999999999999").is_err());
    }
}
