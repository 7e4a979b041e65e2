//! `ostler mcp login` and `ostler mcp logout`.

use std::io::{BufRead, IsTerminal, stderr, stdin};
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use ostler::config::Config;
use ostler_drivers::mcp::{BegunLogin, LoggedIn, LoginState, McpServer};
use ostler_kernel::plan::HumanDuration;
use ostler_server::OperatorSecret;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::cli::arguments::Globals;
use crate::cli::commands::mcp::server;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::harmless_line;
use crate::cli::output::hints::with_location;
use crate::cli::output::terminal::{Out, status_line};
use crate::cli::output::units::{date, duration_exact};
use crate::cli::session::signals::Signals;

/// Longest line that is read from standard input, in bytes.
const LINE_BYTES_MAX: u64 = 16 << 10;

#[derive(Debug, Args)]
pub(super) struct LoginArgs {
    /// Name of the server in the configuration
    name: String,
    /// Time to wait for the browser
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = waiting_time)]
    wait: HumanDuration,
}

#[derive(Debug, Args)]
pub(super) struct LogoutArgs {
    /// Name of the server in the configuration
    name: String,
}

fn waiting_time(text: &str) -> Result<HumanDuration, String> {
    HumanDuration::with_unit(text)
        .filter(|wait| (1_000..=86_400_000).contains(&wait.ticks(1_000)))
        .ok_or_else(|| "expected a duration from 1s to 24h, such as 10m".to_owned())
}

pub(super) async fn login(globals: &Globals, config: &Config, args: LoginArgs) -> Result<u8, Failure> {
    let LoginArgs { name, wait } = args;
    let server = server(config, &name)?;
    let mut signals = Signals::listen()?;
    // No file tool opens the folder of an operator key, where the token will be.
    OperatorSecret::of_user().map_err(|error| Failure::internal(error.to_string()))?;
    let failed = |why: String| Failure {
        code: code::FAILED,
        what: format!("no login at server {name}: {}", harmless_line(&why)),
    };
    let begun = match signals.during(server.log_in()).await {
        Ok(begun) => begun.map_err(failed)?,
        Err(code) => return Ok(code),
    };
    status_line(format!("log in at {}, with this address:", harmless_line(begun.issuer())));
    status_line(begun.address());
    open(begun.address());
    status_line("waiting for the browser to return; or paste the address at which it ends here:");
    let time = Duration::from_millis(u64::try_from(wait.ticks(1_000)).unwrap_or_default());
    let returned = match signals.during(tokio::time::timeout(time, returned(&begun))).await {
        Ok(Ok(returned)) => returned,
        Ok(Err(_)) => return Err(failed(format!("nobody logged in within {}", duration_exact(wait)))),
        Err(code) => return Ok(code),
    };
    let logged_in = match signals.during(begun.finish(&returned)).await {
        Ok(logged_in) => logged_in.map_err(failed)?,
        Err(code) => return Ok(code),
    };
    told(globals, server, &logged_in);
    Ok(code::SUCCEEDED)
}

fn told(globals: &Globals, server: &McpServer, LoggedIn { issuer, scopes, state }: &LoggedIn) {
    let (name, mut out) = (server.name(), Out::new());
    if globals.json {
        let login = json_of(state);
        out.json(
            &json!({"type": "login", "server": name, "issuer": issuer, "scopes": scopes, "login": login}),
        );
        return;
    }
    let scopes = if scopes.is_empty() { String::new() } else { format!(", with {}", scopes.join(" ")) };
    out.line(harmless_line(&format!("logged in at {issuer}{scopes}")));
    if let Some(told) = state_line(server) {
        out.line(told);
    }
}

/// The address with which the browser returns to the port, or that a person pastes.
async fn returned(begun: &BegunLogin) -> String {
    let mut pasted = pasted();
    loop {
        tokio::select! {
            returned = begun.returned() => return returned,
            Some(line) = pasted.recv() => {
                if begun.is_answered_by(&line) {
                    return line;
                }
                if !line.trim().is_empty() {
                    status_line("that is not the address at which this login ends: paste the whole address, from http:// on");
                }
            }
        }
    }
}

/// Lines of standard input. Its reader is left behind at the end of the command: nothing else ends it.
fn pasted() -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = stdin().lock();
        loop {
            let mut line = String::new();
            let read = std::io::Read::take(&mut input, LINE_BYTES_MAX).read_line(&mut line);
            if !matches!(read, Ok(1..)) || send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Opens an address with the first program of `$BROWSER` that starts, or at a terminal with that of the desktop.
fn open(address: &str) {
    let desktop = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let browsers = match std::env::var("BROWSER") {
        Ok(browsers) if !browsers.trim().is_empty() => browsers,
        _ if stderr().is_terminal() => desktop.to_owned(),
        _ => return,
    };
    let started = browsers.split(':').any(|browser| {
        let mut words = browser.split_whitespace().map(|word| word.replace("%s", address));
        let Some(program) = words.next() else { return false };
        let mut command = Command::new(program);
        command.args(words);
        if !browser.contains("%s") {
            command.arg(address);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().is_ok()
    });
    if !started {
        status_line(format!("no browser starts ({}): open the address yourself", harmless_line(&browsers)));
    }
}

pub(super) async fn logout(globals: &Globals, config: &Config, args: &LogoutArgs) -> Result<u8, Failure> {
    let name = &args.name;
    let removed = server(config, name)?.log_out().await;
    let removed =
        removed.map_err(|error| Failure::internal(format!("the login at {name} is not removed: {error}")))?;
    let mut out = Out::new();
    if globals.json {
        out.json(&json!({"type": "logout", "server": name, "removed": removed}));
    } else if removed {
        out.line(format!(
            "the login at server {name} is removed; the service may list it until you revoke it there"
        ));
    } else {
        out.line(format!("there is no login at server {name}"));
    }
    Ok(code::SUCCEEDED)
}

/// A line about the login at a server; `None` for a server without one.
pub(super) fn state_line(server: &McpServer) -> Option<String> {
    let name = server.name();
    let needed = || Some(with_location(&format!("server {name}: login needed: `ostler mcp login {name}`")));
    match server.login_state() {
        Err(error) => Some(harmless_line(&error.to_string())),
        Ok(None) => None,
        Ok(Some(LoginState::None)) => server.config().oauth.as_ref().and_then(|_| needed()),
        Ok(Some(LoginState::Ended)) => needed(),
        Ok(Some(LoginState::Kept { until, renewed })) => {
            let until = until.map(|until| format!(" until {}", date(ms_of(until)))).unwrap_or_default();
            let renewed = if renewed { ", and is renewed without you" } else { "" };
            Some(format!("server {name}: the token holds{until}{renewed}"))
        }
    }
}

/// The state of the login at a server; null for a server without one.
pub(super) fn state_json(server: &McpServer) -> Value {
    match server.login_state() {
        Err(error) => json!({"state": "unusable", "told": error.to_string()}),
        Ok(state) => state.as_ref().map_or(Value::Null, json_of),
    }
}

fn json_of(state: &LoginState) -> Value {
    match state {
        LoginState::None => json!({"state": "none"}),
        LoginState::Ended => json!({"state": "ended"}),
        LoginState::Kept { until, renewed } => {
            json!({"state": "kept", "until_ms": until.map(ms_of), "renewed": renewed})
        }
    }
}

fn ms_of(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000)
}
