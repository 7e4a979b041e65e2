//! A shell that runs the commands of a page in order.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use regex::Regex;

use super::page::{Page, root};

/// Time limit for a page.
const PATIENCE: Duration = Duration::from_secs(120);

/// Separator of outputs.
const MARK: char = '\u{1e}';

#[derive(Debug)]
pub(crate) enum Deed<'a> {
    Write { name: &'a str, content: &'a str },
    Type(&'a str),
}

/// Result of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) printed: Vec<String>,
    pub(crate) status: i32,
}

/// Folder for the commands of a page.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    stands_in: PathBuf,
}

impl Place {
    pub(crate) fn empty() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let stands_in = folder.path().join("here");
        std::fs::create_dir(&stands_in).unwrap();
        Place { folder, stands_in }
    }

    /// An empty folder, with the examples if the page uses them.
    pub(crate) fn of_page(path: &str) -> Place {
        let place = Place::empty();
        if Page::read(path).text.contains("examples/plans/") {
            let copied =
                Command::new("cp").arg("-R").arg(root().join("examples")).arg(&place.stands_in).status();
            assert!(copied.unwrap().success());
        }
        place
    }

    /// This repository; the data folder is elsewhere.
    pub(crate) fn clone() -> Place {
        Place { folder: tempfile::tempdir().unwrap(), stands_in: root().to_owned() }
    }

    /// Runs commands in one shell; returns their results.
    pub(crate) fn run(&self, deeds: &[Deed<'_>]) -> Vec<Done> {
        let script = self.folder.path().join("script");
        std::fs::write(&script, text(deeds)).unwrap();
        let mut child = self.shell(&script).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.read_to_end(&mut bytes).map(|_| bytes);
            let _ = send.send(read);
        });
        let Ok(read) = receive.recv_timeout(PATIENCE) else {
            let _ = child.kill();
            panic!("the commands took longer than {PATIENCE:?}:\n{}", text(deeds));
        };
        child.wait().unwrap();
        let text = String::from_utf8(read.unwrap()).unwrap();
        let parts: Vec<&str> = text.split(MARK).collect();
        let done = parts.chunks_exact(2).map(|part| Done {
            printed: part[0].lines().map(str::to_owned).collect(),
            status: part[1].trim().parse().unwrap(),
        });
        done.collect()
    }

    fn shell(&self, script: &Path) -> Command {
        let bin = self.folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let command = Path::new(env!("CARGO_BIN_EXE_ostler"));
        std::os::unix::fs::symlink(command, bin.join("ostler")).unwrap();
        std::fs::copy(root().join("tests/guide/cargo.sh"), bin.join("cargo")).unwrap();
        let mut path = std::ffi::OsString::from(&bin);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.arg(script).current_dir(&self.stands_in).stdin(Stdio::null()).stdout(Stdio::piped());
        for name in ["OSTLER_CONFIG", "OSTLER_LOG", "OSTLER_DATA", "COLUMNS", "CLICOLOR_FORCE"] {
            shell.env_remove(name);
        }
        if self.stands_in == root() {
            shell.env("OSTLER_DATA", self.folder.path().join("data"));
        }
        shell.env("PATH", path).env("HOME", self.folder.path()).env("TZ", "UTC").env("LC_ALL", "C.UTF-8");
        shell
    }
}

/// The digest that a page shows.
static SHOWN_DIGEST: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bb3:[0-9a-f]{32}\b").unwrap());

/// The digest of the open question, which holds for the folder of the test.
const ASKED_DIGEST: regex::NoExpand<'_> =
    regex::NoExpand(r#"$(ostler approvals --json | sed -n 's/.*"digest":"\([0-9a-f]*\)".*/\1/p')"#);

/// The script: each command is followed by a separator and its status, which the next command sees as `$?`.
fn text(deeds: &[Deed<'_>]) -> String {
    let mut text = "exec 2>&1\n".to_owned();
    for deed in deeds {
        let done = match deed {
            Deed::Write { name, content } => {
                write!(text, "cat > {name} <<'END_OF_THE_FILE'\n{content}END_OF_THE_FILE\n")
            }
            Deed::Type(command) => write!(
                text,
                "{}\n{{ status=$?; printf '{MARK}%s{MARK}' \"$status\"; (exit \"$status\"); }}\n",
                SHOWN_DIGEST.replace_all(command, ASKED_DIGEST),
            ),
        };
        done.unwrap();
    }
    text
}

#[test]
fn a_command_sees_the_status_of_the_one_before_and_the_files_of_the_page() {
    let deeds = [
        Deed::Write { name: "a", content: "x $y\n" },
        Deed::Type("cat a"),
        Deed::Type("sh -c 'exit 3'"),
        Deed::Type("echo $?"),
        Deed::Type("printf b >&2"),
    ];
    let done = Place::empty().run(&deeds);
    let told: Vec<_> = done.iter().map(|done| (done.printed.join("|"), done.status)).collect();
    assert_eq!(told, [("x $y".into(), 0), (String::new(), 3), ("3".into(), 0), ("b".into(), 0)]);
}
