//! The accepted definitions of each server's tools, and the files of its program, one file for each server.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ostler_kernel::port::NamedFile;
use serde::{Deserialize, Serialize};

use super::definition::Definition;

/// Name of the folder in a data folder.
const FOLDER: &str = "mcp";

/// Largest file of pins, in bytes.
pub const MCP_PINS_BYTES_MAX: u64 = 64 << 20;

/// Folder of the accepted definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pins {
    folder: PathBuf,
}

/// The accepted tools of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    /// Operator of the last acceptance; `None` if a new server was accepted without a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The tools, by name.
    pub tools: Vec<Definition>,
    /// The files that the command of the server names or executes; `None` if they were accepted before files were pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Vec<NamedFile>>,
}

/// Change to the accepted tools of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// Present definitions to accept.
    pub tools: Vec<Definition>,
    /// Names of tools to forget.
    pub removed: Vec<String>,
    /// Files of the program to accept; `None` keeps the accepted ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Vec<NamedFile>>,
}

impl Accepted {
    /// The accepted tools after one more acceptance.
    pub fn with(mut self, acceptance: Acceptance, by: Option<&str>) -> Accepted {
        let Acceptance { tools, removed, program } = acceptance;
        let is_named = |name: &String| removed.contains(name) || tools.iter().any(|tool| tool.name == *name);
        self.tools.retain(|tool| !is_named(&tool.name));
        self.tools.extend(tools);
        self.tools.sort_by(|one, other| one.name.cmp(&other.name));
        Accepted { by: by.map(str::to_owned), tools: self.tools, program: program.or(self.program) }
    }
}

impl Pins {
    /// The pins of a data folder, which need not exist.
    pub fn of(data: &Path) -> Pins {
        Pins { folder: data.join(FOLDER) }
    }

    /// Reads the accepted tools of a server; `None` before the first acceptance.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is damaged. Remove a damaged file, and accept the tools again with `ostler mcp accept`.
    pub fn read(&self, server: &str) -> io::Result<Option<Accepted>> {
        let path = self.path(server);
        let length = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?.len(),
        };
        let damaged = |what: String| {
            let help = format!("remove it, and accept the tools again with `ostler mcp accept {server}`");
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}; {help}", path.display()))
        };
        if length > MCP_PINS_BYTES_MAX {
            return Err(damaged(format!("larger than {MCP_PINS_BYTES_MAX} bytes")));
        }
        serde_json::from_slice(&fs::read(&path)?).map(Some).map_err(|error| damaged(error.to_string()))
    }

    /// Replaces the accepted tools of a server; durable on return.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the old file stays.
    pub fn write(&self, server: &str, accepted: &Accepted) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let (path, new) = (self.path(server), self.folder.join(format!("{server}.json.new")));
        let mut text = serde_json::to_vec_pretty(accepted)?;
        text.push(b'\n');
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.folder)?.sync_all()
    }

    fn path(&self, server: &str) -> PathBuf {
        self.folder.join(format!("{server}.json"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_accepted_is_read_again_and_damage_is_an_error() {
        let data = tempfile::tempdir().unwrap();
        let pins = Pins::of(data.path());
        assert_eq!(pins.read("time").unwrap(), None);
        let tool: Definition =
            serde_json::from_value(json!({"name": "now", "input": {"type": "object"}})).unwrap();
        let digest = ostler_kernel::lineage::hash("test", &[b"1"]);
        let program = Some(vec![NamedFile {
            path: "a.py".into(),
            digest,
            bytes: 1,
            text: None,
            unbound: None,
            by_word: false,
        }]);
        let first = Acceptance { tools: vec![tool.clone()], removed: Vec::new(), program: program.clone() };
        let accepted = Accepted::default().with(first, Some("ann"));
        pins.write("time", &accepted).unwrap();
        let read = Accepted { by: Some("ann".into()), tools: vec![tool], program: program.clone() };
        assert_eq!(pins.read("time").unwrap(), Some(read));
        let gone = Acceptance { removed: vec!["now".into()], ..Acceptance::default() };
        assert_eq!(accepted.with(gone, None), Accepted { program, ..Accepted::default() });
        fs::write(data.path().join("mcp/time.json"), "{\"by\": \"ann\", \"tools\": []}").unwrap();
        assert_eq!(pins.read("time").unwrap().unwrap().program, None, "accepted by an earlier version");
        fs::write(data.path().join("mcp/time.json"), "{\"tools\": [").unwrap();
        let told = pins.read("time").unwrap_err().to_string();
        assert!(told.contains("`ostler mcp accept time`"), "{told}");
    }
}
