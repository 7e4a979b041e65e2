//! What the examples are asked on the command line.

use std::io::IsTerminal;
use std::path::PathBuf;

use super::Error;
use super::analyst::Trouble;

/// What an example is to do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// What it is about: a file or a folder.
    pub(crate) subject: Option<PathBuf>,
    /// Where it keeps its records; `None`: in a folder of its own.
    pub(crate) data: Option<PathBuf>,
    /// A node, and what goes wrong there once.
    pub(crate) trouble: Option<(String, Trouble)>,
    /// Nobody sits there: it plays the reviewer itself.
    pub(crate) unattended: bool,
}

impl Asked {
    /// As the command line says; anything that it cannot read is answered with `usage`.
    pub(crate) fn of_command_line(usage: &str) -> Result<Asked, Error> {
        let unattended = !std::io::stdin().is_terminal();
        Asked::of(std::env::args().skip(1), Asked { unattended, ..Asked::default() })
            .ok_or_else(|| usage.into())
    }

    fn of(mut words: impl Iterator<Item = String>, mut asked: Asked) -> Option<Asked> {
        while let Some(word) = words.next() {
            let trouble = match word.as_str() {
                "--crash" => Trouble::Crash,
                "--silence" => Trouble::Silence,
                "--nonsense" => Trouble::Nonsense,
                "--yes" => {
                    asked.unattended = true;
                    continue;
                }
                "--data" => {
                    asked.data = Some(words.next()?.into());
                    continue;
                }
                other if !other.starts_with('-') && asked.subject.is_none() => {
                    asked.subject = Some(other.into());
                    continue;
                }
                _ => return None,
            };
            asked.trouble = Some((words.next()?, trouble));
        }
        Some(asked)
    }

    /// What goes wrong at this node.
    pub(crate) fn trouble_of(&self, node: &str) -> Option<Trouble> {
        self.trouble.as_ref().filter(|(whose, _)| whose == node).map(|(_, trouble)| *trouble)
    }
}
