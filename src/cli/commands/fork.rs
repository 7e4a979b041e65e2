//! `ostler fork`.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use clap::Args;
use ostler_server::wire::ForkRequest;
use serde_json::{Map, Value};

use super::rerun::open_and_watch;
use crate::cli::arguments::metrics::MetricsOption;
use crate::cli::arguments::values::{positive_integer, run_name};
use crate::cli::arguments::watch::WatchOptions;
use crate::cli::arguments::{Globals, ModelOption};
use crate::cli::exit::Failure;
use crate::cli::session::api_client::path_segment;

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// The last record to take over; `ostler events RUN` numbers them
    #[arg(long, value_name = "SEQ", allow_negative_numbers = true, value_parser = positive_integer)]
    at: NonZeroU64,
    /// Set a parameter of a node that has not started by then; a value that is no JSON is a text
    #[arg(long, value_name = "NODE.PARAM=VALUE", value_parser = param)]
    set: Vec<(String, String, Value)>,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    watch: WatchOptions,
    #[command(flatten)]
    metrics: MetricsOption,
}

/// Parses `NODE.PARAM=VALUE`. Names of nodes may have dots.
fn param(text: &str) -> Result<(String, String, Value), String> {
    let refused = || "give NODE.PARAM=VALUE, such as memo.prompt='Be brief.'".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(refused)?;
    let (node, param) = name.rsplit_once('.').ok_or_else(refused)?;
    if node.is_empty() || param.is_empty() {
        return Err(refused());
    }
    let value = ostler_kernel::json::parse_value(value).unwrap_or_else(|_| Value::from(value));
    Ok((node.to_owned(), param.to_owned(), value))
}

pub(crate) async fn fork(globals: &Globals, args: ForkArgs) -> Result<u8, Failure> {
    let globals = &args.model.add_to(globals)?;
    let mut set: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for (node, param, value) in args.set {
        set.entry(node).or_default().insert(param, value);
    }
    let path = format!("/v1/runs/{}/fork", path_segment(&args.run));
    open_and_watch(globals, &path, ForkRequest { at: args.at, set }, args.watch, args.metrics).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_named_behind_the_last_dot() {
        for (text, expected) in [
            ("a.b.n=3", Some(("a.b", "n", Value::from(3)))),
            ("memo.prompt=be brief", Some(("memo", "prompt", Value::from("be brief")))),
            ("memo.prompt=", Some(("memo", "prompt", Value::from("")))),
            ("memo=3", None),
            (".n=3", None),
            ("memo.n", None),
        ] {
            let expected = expected.map(|(node, param, value)| (node.to_owned(), param.to_owned(), value));
            assert_eq!(param(text).ok(), expected, "{text}");
        }
    }
}
