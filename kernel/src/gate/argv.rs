//! Classifies a shell call by its argument list. Any call that no entry lists has impact 2.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::plan::Effect;

/// Effect of a program call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgvClass {
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
    /// Effect on the world.
    pub effect: Effect,
}

/// Class of a call that no entry lists.
pub const UNLISTED: ArgvClass = ArgvClass { impact: 2, effect: Effect::External };

/// Programs and the arguments under which their class is known.
///  
/// A call is an argument list, never a shell line, so quoting and expansion play no role. Classification compares text:
///  
/// 1. Operator patterns, in order; the first match decides.
/// 2. The table entry of the program, by its exact name: `/bin/ls` is not `ls`, because a path can lead to any file.
/// 3. Subcommands (`git log`) descend one element each.
/// 4. Every remaining element must be a listed flag, the value of a listed flag or an acceptable operand.
///  
/// One unknown element makes the whole call [`UNLISTED`], so a new flag of a program can only be refused, never trusted.
///  
/// ```
/// use ostler_kernel::gate::{ArgvTable, UNLISTED};
/// let table = ArgvTable::read_only();
/// assert_eq!(table.classify(&["git", "log", "--oneline"]).impact, 0);
/// assert_eq!(table.classify(&["git", "log", "--output=/etc/passwd"]), UNLISTED);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ArgvTable {
    patterns: Vec<ArgvPattern>,
    programs: BTreeMap<String, Entry>,
}

/// An operator's entry, such as `{argv = ["git", "log", "*"], impact = 0, effect = "read"}`. Elements match exactly. A final
/// `*` matches any further elements, flags included, so use it only for programs that are harmless with any arguments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgvPattern {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// 0 observe, 1 operate, 2 control.
    pub impact: u8,
    /// Effect on the world.
    pub effect: Effect,
}

/// Reasons to reject an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgvError {
    /// The first element is missing, empty or `*`.
    #[error("pattern {0:?} must begin with the name of a program")]
    NoProgram(Vec<String>),
    /// A `*` precedes the last element.
    #[error("pattern {0:?} has a `*` before its end")]
    InnerStar(Vec<String>),
    /// Impact and effect contradict each other.
    #[error(
        "{name}: impact {impact} and effect {effect:?} disagree: impact 0 observes, more acts, 2 is the most"
    )]
    Disagree {
        /// Program, with its subcommands.
        name: String,
        /// Declared impact.
        impact: u8,
        /// Declared effect.
        effect: Effect,
    },
    /// The JSON of the table is malformed.
    #[error("programs: {0}")]
    Malformed(String),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
enum Entry {
    Group(Group),
    Program(Program),
}

impl TryFrom<Value> for Entry {
    type Error = serde_json::Error;

    fn try_from(entry: Value) -> Result<Entry, serde_json::Error> {
        if entry.get("sub").is_some() {
            serde_json::from_value(entry).map(Entry::Group)
        } else {
            serde_json::from_value(entry).map(Entry::Program)
        }
    }
}

/// Requires one of these words as the next element.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    sub: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    impact: u8,
    /// Defaults to read for impact 0 and to write above.
    #[serde(default)]
    effect: Option<Effect>,
    #[serde(default)]
    flags: Vec<String>,
    /// Flags with a value: the next element, or, with a trailing `=`, the rest of the same element.
    #[serde(default)]
    flags_with_value: Vec<String>,
    #[serde(default = "no_operands")]
    operands: (usize, Option<usize>),
    #[serde(default)]
    operand_chars: BTreeMap<usize, String>,
    /// Single-letter flags that may be combined behind one dash, as in `-la`.
    #[serde(default)]
    letters: String,
    /// Flag prefixes completed by decimal digits, as in `-n5`.
    #[serde(default)]
    counted: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
    #[serde(default)]
    any_flags: bool,
    /// The program reads flags even behind `--`.
    #[serde(default)]
    flags_everywhere: bool,
}

impl ArgvTable {
    /// Common read-only programs and the flags that keep them read-only. Run such calls with
    /// [`OBSERVING_ENVIRONMENT`](super::OBSERVING_ENVIRONMENT).
    pub fn read_only() -> ArgvTable {
        ArgvTable::from_programs(super::argv_programs::READ_ONLY).expect("the built-in table is tested")
    }

    /// Reads a table from JSON: `{name: {impact, flags, flags_with_value, operands: [min, max], operand_chars}}`. Programs with
    /// subcommands have the form `{sub: {word: ..}}`.
    ///  
    /// # Errors
    ///  
    /// [`ArgvError::Malformed`] or [`ArgvError::Disagree`].
    pub fn from_programs(json: &str) -> Result<ArgvTable, ArgvError> {
        let programs: BTreeMap<String, Entry> =
            serde_json::from_str(json).map_err(|error| ArgvError::Malformed(error.to_string()))?;
        programs.iter().try_for_each(|(name, entry)| entry.check(name))?;
        Ok(ArgvTable { patterns: Vec::new(), programs })
    }

    /// Adds operator patterns, which precede the table; the first match decides.
    ///  
    /// # Errors
    ///  
    /// The first invalid pattern.
    pub fn with_patterns(
        mut self,
        patterns: impl IntoIterator<Item = ArgvPattern>,
    ) -> Result<ArgvTable, ArgvError> {
        for pattern in patterns {
            pattern.check()?;
            self.patterns.push(pattern);
        }
        Ok(self)
    }

    /// Class of a call. An empty list is [`UNLISTED`].
    pub fn classify<T: AsRef<str>>(&self, argv: &[T]) -> ArgvClass {
        self.listed(argv).unwrap_or(UNLISTED)
    }

    /// Class of a call that an entry lists.
    pub fn listed<T: AsRef<str>>(&self, argv: &[T]) -> Option<ArgvClass> {
        if let Some(pattern) = self.patterns.iter().find(|pattern| pattern.fits(argv)) {
            return Some(ArgvClass { impact: pattern.impact, effect: pattern.effect });
        }
        let (program, rest) = argv.split_first()?;
        self.programs.get(program.as_ref())?.classify(rest)
    }
}

impl ArgvPattern {
    fn check(&self) -> Result<(), ArgvError> {
        let Some((program, rest)) = self.argv.split_first() else {
            return Err(ArgvError::NoProgram(self.argv.clone()));
        };
        if program.is_empty() || program == "*" {
            return Err(ArgvError::NoProgram(self.argv.clone()));
        }
        if rest.iter().rev().skip(1).any(|element| element == "*") {
            return Err(ArgvError::InnerStar(self.argv.clone()));
        }
        check_class(program, self.impact, self.effect)
    }

    fn fits<T: AsRef<str>>(&self, argv: &[T]) -> bool {
        let same = |wanted: &[String], found: &[T]| {
            wanted.iter().zip(found).all(|(wanted, found)| wanted == found.as_ref())
        };
        match self.argv.split_last() {
            Some((star, fixed)) if star == "*" => argv.len() >= fixed.len() && same(fixed, argv),
            _ => argv.len() == self.argv.len() && same(&self.argv, argv),
        }
    }
}

impl Entry {
    fn check(&self, name: &str) -> Result<(), ArgvError> {
        match self {
            Entry::Group(group) => {
                group.sub.iter().try_for_each(|(word, entry)| entry.check(&format!("{name} {word}")))
            }
            Entry::Program(program) => check_class(name, program.impact, program.class().effect),
        }
    }

    fn classify<T: AsRef<str>>(&self, rest: &[T]) -> Option<ArgvClass> {
        match self {
            Entry::Group(group) => {
                let (word, rest) = rest.split_first()?;
                group.sub.get(word.as_ref())?.classify(rest)
            }
            Entry::Program(program) => program.accepts(rest).then(|| program.class()),
        }
    }
}

impl Program {
    fn class(&self) -> ArgvClass {
        let usual = if self.impact == 0 { Effect::Read } else { Effect::Write };
        ArgvClass { impact: self.impact, effect: self.effect.unwrap_or(usual) }
    }

    fn accepts<T: AsRef<str>>(&self, rest: &[T]) -> bool {
        let mut elements = rest.iter().map(AsRef::as_ref);
        let mut operands = 0;
        let mut flags_may_come = !self.any_flags;
        while let Some(element) = elements.next() {
            if self.never.iter().any(|part| element.contains(part.as_str())) {
                return false;
            }
            if flags_may_come && element == "--" && !self.flags_everywhere {
                flags_may_come = false;
            } else if flags_may_come && element.len() > 1 && element.starts_with('-') {
                let known = self.is_flag(element)
                    || (lists(&self.flags_with_value, element) && elements.next().is_some());
                if !known {
                    return false;
                }
            } else {
                if !self.may_be_operand(operands, element) {
                    return false;
                }
                operands += 1;
            }
        }
        let (least, most) = self.operands;
        operands >= least && most.is_none_or(|most| operands <= most)
    }

    /// True if an element that begins with a dash is a flag that needs no further element.
    fn is_flag(&self, element: &str) -> bool {
        let with_value = || {
            let end = element.find('=').map(|at| at + 1)?;
            lists(&self.flags_with_value, &element[..end]).then_some(())
        };
        let letters = || {
            let letters = element.strip_prefix('-')?;
            letters.chars().all(|letter| self.letters.contains(letter)).then_some(())
        };
        let counted = |beginning: &String| {
            element.strip_prefix(beginning.as_str()).is_some_and(|digits| {
                !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        lists(&self.flags, element)
            || with_value().is_some()
            || letters().is_some()
            || self.counted.iter().any(counted)
    }

    fn may_be_operand(&self, place: usize, element: &str) -> bool {
        self.operand_chars.get(&place).is_none_or(|allowed| element.chars().all(|it| allowed.contains(it)))
    }
}

fn no_operands() -> (usize, Option<usize>) {
    (0, Some(0))
}

fn lists(flags: &[String], element: &str) -> bool {
    flags.iter().any(|flag| flag == element)
}

fn check_class(name: &str, impact: u8, effect: Effect) -> Result<(), ArgvError> {
    let acts = effect.acts();
    if impact <= 2 && acts == (impact > 0) {
        return Ok(());
    }
    Err(ArgvError::Disagree { name: name.to_owned(), impact, effect })
}

#[cfg(test)]
mod tests;
