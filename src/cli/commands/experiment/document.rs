//! Common parts of the pages of experiments: one HTML file without external resources, with the checks first and all figures embedded.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use ostler_drivers::regular_file::open_to_append;
use serde::Serialize;

use crate::cli::exit::{Failure, code};
use crate::cli::output::terminal::{Out, status_line};

const STYLE: &str = include_str!("page.css");

/// A checked statement about the figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) what: String,
    pub(super) holds: bool,
    /// Numbers, or the first case that differs.
    pub(super) detail: String,
}

/// The whole page. `style` follows the common style sheet; `figures` are embedded as JSON.
pub(super) fn document(title: &str, style: &str, body: &str, figures: &impl Serialize) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n{body}\
         <script type=\"application/json\" id=\"figures\">{}</script>\n</body>\n</html>\n",
        escaped(title),
        embedded(figures),
    )
}

/// The figures as JSON within a script element, which a `<` could end.
fn embedded(figures: &impl Serialize) -> String {
    serde_json::to_string(figures).expect("figures are names and numbers").replace('<', "\\u003c")
}

pub(super) fn checks(checks: &[Check]) -> String {
    let mut html = "<h2>Checks</h2>\n<div class=\"scroll\"><table>\n".to_owned();
    for check in checks {
        let state = if check.holds { "holds" } else { "fails" };
        let (what, detail) = (escaped(&check.what), escaped(&check.detail));
        let _ = writeln!(html, "<tr><td class=\"{state}\">{state}</td><td>{what}</td><td>{detail}</td></tr>");
    }
    html + "</table></div>\n"
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn unwritable(file: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::invalid(format!("--html {}: cannot be written: {error}", file.display()))
}

/// Checks before a long experiment that its page can be written. An existing page stays until the new page is complete.
pub(super) fn check_writable(file: &Path) -> Result<(), Failure> {
    opened(file).map(drop).map_err(unwritable(file))
}

/// Opens a page as it is. A step may have put a link in its place, which is not followed.
fn opened(file: &Path) -> io::Result<File> {
    let name = file.file_name().ok_or(ErrorKind::IsADirectory)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    open_to_append(folder, Path::new(name), true)
}

/// Writes a page, and returns the exit code of its checks.
pub(super) fn write(file: &Path, page: &str, checks: &[Check]) -> Result<u8, Failure> {
    let written = opened(file).and_then(|mut file| {
        file.set_len(0)?;
        file.write_all(page.as_bytes())
    });
    written.map_err(unwritable(file))?;
    status_line(format!("wrote {}", file.display()));
    Ok(if checks.iter().all(|check| check.holds) { code::SUCCEEDED } else { code::FAILED })
}

pub(super) fn print_checks(checks: &[Check], out: &mut Out) {
    for check in checks {
        let state = if check.holds { "holds" } else { "FAILS" };
        out.line(format!("{state}  {}: {}", check.what, check.detail));
    }
}
