//! `ostler pipeline events`.

use std::num::NonZeroU64;

use clap::Args;
use futures::StreamExt;
use hyper::Method;
use ostler_server::wire::PipelineEventLine;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::positive_integer;
use crate::cli::commands::pipeline::{DATA_MAX, NAME_MAX, open, path};
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{fit, fit_name};
use crate::cli::output::terminal::{Out, reader_gone, status_line};
use crate::cli::output::units::clock_time;
use crate::cli::session::AccessMode;
use crate::cli::session::api_client::{CONNECTION_LOST, Client};
use crate::cli::session::signals::Signals;

/// Maximum bytes of one event.
const LINE_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Pipeline
    pipeline: String,
    /// Continue with new events
    #[arg(short, long)]
    follow: bool,
    /// First event to print [default: the oldest kept]
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true, value_parser = positive_integer)]
    from: Option<NonZeroU64>,
}

pub(crate) async fn events(globals: &Globals, args: &EventsArgs) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    signals.set_exit_message("ended at once".to_owned());
    let session = open(globals, AccessMode::Read).await?;
    let follows = args.follow && session.client.is_remote();
    let ended = tokio::select! {
        ended = print_events(&session.client, globals, args, follows) => ended.map(|()| code::SUCCEEDED),
        code = signals.next() => Ok(code),
        () = reader_gone(), if follows => Ok(code::SUCCEEDED),
    };
    session.stop().await;
    if ended.is_ok() && args.follow && !follows {
        status_line("no more events follow: no process holds the data folder");
    }
    ended
}

async fn print_events(
    client: &Client,
    globals: &Globals,
    args: &EventsArgs,
    follows: bool,
) -> Result<(), Failure> {
    let after = args.from.map(|from| format!("&after={}", from.get() - 1)).unwrap_or_default();
    let until = if follows { "forever" } else { "now" };
    let path = format!("{}/events?until={until}{after}", path(&args.pipeline));
    let answer = client.request(Method::GET, &path, "application/x-ndjson", None).await?;
    let mut out = Out::new();
    let (mut body, mut begun) = (answer.into_body().into_data_stream(), Vec::new());
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|_| Failure::internal(CONNECTION_LOST))?;
        begun.extend_from_slice(&bytes);
        while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = begun.drain(..=end).collect();
            print_event(&line, globals, &mut out)?;
        }
        if begun.len() > LINE_BYTES_MAX {
            return Err(Failure::internal(format!("event: larger than {LINE_BYTES_MAX} bytes")));
        }
        if out.is_closed() {
            return Ok(());
        }
    }
    Ok(())
}

fn print_event(line: &[u8], globals: &Globals, out: &mut Out) -> Result<(), Failure> {
    let line: PipelineEventLine = serde_json::from_slice(line)
        .map_err(|error| Failure::internal(format!("response: from another version of ostler: {error}")))?;
    if globals.json {
        out.json(&line);
        return Ok(());
    }
    let data = fit(&line.data.to_string(), DATA_MAX);
    let name_max = out.name_width(NAME_MAX);
    let (stage, kind) = (fit_name(&line.stage, name_max), fit_name(&line.kind, name_max));
    out.line(
        format!("{:>6}  {}  {stage:<12}  {kind:<20}  {data}", line.seq, clock_time(line.at_ms)).trim_end(),
    );
    Ok(())
}
