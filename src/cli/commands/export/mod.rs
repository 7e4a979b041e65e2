//! `ostler export`.

mod cassette;
mod openlineage;
mod prov_json;
mod terms;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ostler_kernel::provenance::Provenance;

use crate::cli::arguments::Globals;
use crate::cli::arguments::values::run_name;
use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::Out;
use crate::cli::session::api_client::path_segment;
use crate::cli::session::{AccessMode, Session};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Calls of models with their answers
    Cassette,
    /// Provenance as W3C PROV-JSON, with the terms of PROV-AGENT
    ProvJson,
    /// Provenance as OpenLineage events, one on each line
    Openlineage,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The run: its id, a part of it, or @last
    #[arg(value_parser = run_name)]
    run: String,
    /// Output format
    #[arg(long, value_enum, default_value = "cassette")]
    format: Format,
    /// Write the cassette to this new file, instead of standard output
    #[arg(long, value_name = "FILE")]
    cassette: Option<PathBuf>,
}

impl ExportArgs {
    /// True if nothing but the output is written.
    pub(crate) fn only_reads(&self) -> bool {
        self.cassette.is_none()
    }
}

pub(crate) async fn export(globals: &Globals, args: ExportArgs) -> Result<u8, Failure> {
    if args.format == Format::Cassette {
        return cassette::export(globals, args).await;
    }
    if args.cassette.is_some() {
        return Err(Failure::invalid(
            "--cassette: needs --format cassette; redirect standard output instead",
        ));
    }
    let mut session = Session::open(globals, Path::new("."), AccessMode::Read).await?;
    let found = session.get(&format!("/v1/runs/{}/provenance", path_segment(&args.run))).await;
    session.stop().await;
    let provenance: Provenance = found?;
    let text = match args.format {
        Format::ProvJson => prov_json::document(&provenance),
        _ => openlineage::events(&provenance),
    };
    Out::new().json_text(&text);
    Ok(code::SUCCEEDED)
}

/// Writes a file that must not exist yet; `option` named the file.
fn write(option: &str, file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let what = match error.kind() {
            ErrorKind::AlreadyExists => "exists; remove it, or name another file".to_owned(),
            _ => error.to_string(),
        };
        Failure::invalid(format!("{option} {}: {what}", file.display()))
    };
    let mut opened = OpenOptions::new().write(true).create_new(true).open(file).map_err(failed)?;
    opened.write_all(text.as_bytes()).map_err(failed)
}
