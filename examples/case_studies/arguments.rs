//! Command line arguments of the examples.

use std::io::IsTerminal;
use std::path::PathBuf;

use super::Error;
use super::analyst::InjectedFault;

/// Parsed arguments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments {
    /// The file or folder to work on.
    pub(crate) subject: Option<PathBuf>,
    /// The data folder; `None` for a temporary one.
    pub(crate) data: Option<PathBuf>,
    /// A node and the fault to inject there.
    pub(crate) fault: Option<(String, InjectedFault)>,
    /// Uses the scripted reviewer instead of the terminal.
    pub(crate) unattended: bool,
    /// A model that takes the place of code: `scripted:FILE`, `cassette:FILE`, or a name of `ostler.toml`.
    pub(crate) model: Option<String>,
}

impl Arguments {
    /// Parses the command line. Returns `usage` as the error for unknown arguments.
    pub(crate) fn from_command_line(usage: &str) -> Result<Arguments, Error> {
        let unattended = !std::io::stdin().is_terminal();
        Arguments::of(std::env::args().skip(1), Arguments { unattended, ..Arguments::default() })
            .ok_or_else(|| usage.into())
    }

    fn of(mut words: impl Iterator<Item = String>, mut arguments: Arguments) -> Option<Arguments> {
        while let Some(word) = words.next() {
            let fault = match word.as_str() {
                "--crash" => InjectedFault::Crash,
                "--silence" => InjectedFault::Silence,
                "--nonsense" => InjectedFault::Nonsense,
                "--yes" => {
                    arguments.unattended = true;
                    continue;
                }
                "--model" => {
                    arguments.model = Some(words.next()?);
                    continue;
                }
                "--data" => {
                    arguments.data = Some(words.next()?.into());
                    continue;
                }
                other if !other.starts_with('-') && arguments.subject.is_none() => {
                    arguments.subject = Some(other.into());
                    continue;
                }
                _ => return None,
            };
            arguments.fault = Some((words.next()?, fault));
        }
        Some(arguments)
    }

    /// The fault to inject at this node.
    pub(crate) fn fault_at(&self, node: &str) -> Option<InjectedFault> {
        self.fault.as_ref().filter(|(whose, _)| whose == node).map(|(_, fault)| *fault)
    }
}
