//! Held servers and tools: no program starts with other files than the accepted ones, and a tool with another definition than the
//! accepted one is not called until an operator accepts the new definition, also amid a call.

use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::port::{AttemptLog, NamedFile};
use ostler_kernel::run::FailureCategory;

use super::definition::{Definition, Difference};
use super::pins::Acceptance;
use super::program::{FileDifference, ProgramFiles};
use super::question::MCP_QUESTION_MS;
use super::server::McpServer;

/// Largest difference that a question shows, in bytes. A larger difference is not asked about, because the question could not show
/// all of the difference.
pub const MCP_DIFFERENCE_BYTES_MAX: usize = 8 << 10;

/// Names of files in a message.
const NAMES_SHOWN: usize = 3;

/// Asks a person to accept the present definition of the tool. The tool stays held after a no, without an answer, and if no question
/// can be asked.
pub(super) async fn ask(
    server: &Arc<McpServer>,
    accepted: &Definition,
    now: &Definition,
    attempt: &dyn AttemptLog,
) -> Result<(), Failure> {
    let why = || held(server, &now.name, "is described differently by its server");
    let Some(text) = question(server.name(), accepted, now) else { return Err(why()) };
    let step = format!("accept-{}", &now.digest().to_string()[..16]);
    match attempt.ask_person(&step, &text, MCP_QUESTION_MS).await {
        Ok(true) => {}
        Ok(false) => return Err(why()),
        Err(error) => {
            tracing::warn!(%error, tool = %now.name, "a changed tool is held, and nobody can be asked");
            return Err(why());
        }
    }
    let (server, now) = (Arc::clone(server), now.clone());
    let kept = tokio::task::spawn_blocking(move || {
        let acceptance = Acceptance { tools: vec![now], ..Acceptance::default() };
        // The records of the question name the person.
        server.accept_tools(acceptance, Some("an approval"))
    });
    let kept = kept.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    kept.map_err(|error| Failure::new(FailureCategory::Transient, format!("accepted tools: {error}")))
}

/// The failure of a call of a held tool.
pub(super) fn held(server: &McpServer, tool: &str, why: &str) -> Failure {
    let name = server.name();
    failure(format!(
        "tool mcp.{name}.{tool} is held: it {why} since it was accepted; `ostler mcp accept {name} {tool}` shows the difference"
    ))
}

/// The failure of a call of a held tool or server.
pub(super) fn failure(why: String) -> Failure {
    Failure::new(FailureCategory::GateDenied, why)
}

/// Advice about files that are data.
pub(super) const MAY_CHANGE: &str = "a file that is only data belongs in `may_change` of its table";

/// Names of the files that differ, for a message; `None` if none does.
pub(super) fn changed(before: &[NamedFile], now: &[NamedFile]) -> Option<String> {
    let differences = FileDifference::between(before, now);
    let names: Vec<&str> = differences.iter().take(NAMES_SHOWN).map(FileDifference::path).collect();
    match differences.len() - names.len() {
        0 if names.is_empty() => None,
        0 => Some(names.join(", ")),
        more => Some(format!("{} and {more} more", names.join(", "))),
    }
}

impl McpServer {
    /// The files that the command names or executes, as they are now, by path from the folder of the configuration.
    pub async fn program(&self) -> Vec<NamedFile> {
        ProgramFiles::read(&self.config, &self.place.folder).await.files
    }

    /// Differences between the accepted files of the program and `now`; none before the first acceptance.
    pub fn program_differences(&self, now: &[NamedFile]) -> Vec<FileDifference> {
        let accepted = self.accepted().map(|accepted| accepted.program.unwrap_or_default());
        accepted.map_or_else(Vec::new, |accepted| FileDifference::between(&accepted, now))
    }

    /// The reason for holding the server, with the command that accepts it; `None` if `now` are the accepted files of its program.
    pub fn held(&self, now: &[NamedFile]) -> Option<String> {
        let (name, accepted) = (self.name(), self.accepted()?);
        if let Some(unbound) = ProgramFiles::unbound(now) {
            return Some(format!("server {name} is held: {unbound}"));
        }
        let files = changed(accepted.program.as_deref().unwrap_or_default(), now)?;
        let why = match &accepted.program {
            Some(_) => format!("{files} changed since its program was accepted"),
            None => format!("its tools were accepted without the files of its program, {files}"),
        };
        Some(format!(
            "server {name} is held: {why}; `ostler mcp accept {name}` shows the difference; {MAY_CHANGE}"
        ))
    }
}

/// The question with the whole difference; `None` if the difference is larger than [`MCP_DIFFERENCE_BYTES_MAX`].
fn question(server: &str, accepted: &Definition, now: &Definition) -> Option<String> {
    let difference = Difference::Changed { accepted: accepted.clone(), now: now.clone() }.to_string();
    let text = format!(
        "The MCP server {server} describes a tool differently than it was accepted. Accept it as it is now?\n{difference}"
    );
    (difference.len() <= MCP_DIFFERENCE_BYTES_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_names_the_files_that_differ() {
        let file = |path: &str| {
            let digest = ostler_kernel::lineage::hash("test", &[b"1"]);
            NamedFile { path: path.to_owned(), digest, bytes: 1, text: None, unbound: None, by_word: true }
        };
        let many = ["a", "b", "c", "d"].map(file);
        assert_eq!(changed(&many, &many), None);
        assert_eq!(changed(&many, &many[2..]).as_deref(), Some("a, b"));
        assert_eq!(changed(&[], &many).as_deref(), Some("a, b, c and 1 more"));
    }

    #[test]
    fn a_difference_is_shown_as_a_whole_or_not_asked_about() {
        let tool = |description: String| -> Definition {
            serde_json::from_value(json!({"name": "a", "description": description, "input": {}})).unwrap()
        };
        let text = question("s", &tool("old".into()), &tool("n\u{1b}[31mew".into())).unwrap();
        assert!(
            text.ends_with("a (changed)\n  - description: old\n  + description: n\u{fffd}[31mew"),
            "{text}"
        );
        assert_eq!(question("s", &tool("old".into()), &tool("x".repeat(MCP_DIFFERENCE_BYTES_MAX))), None);
    }
}
