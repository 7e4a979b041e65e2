//! Reads settings of git as git does: git-config(1), "Syntax".

use std::iter::Peekable;
use std::str::Chars;

/// One setting: `[section "subsection"] key = value`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Setting {
    /// Lower case; a section `[a.b]` is `a.b`.
    pub section: String,
    pub subsection: String,
    /// Lower case.
    pub key: String,
    /// Without quotes, escapes and comments. Empty for a key without a value.
    pub value: String,
}

impl Setting {
    /// True for the name of a file with further settings, whatever the condition.
    pub(super) fn is_include(&self) -> bool {
        let section = self.section.split('.').next();
        matches!(section, Some("include" | "includeif")) && self.key == "path"
    }
}

/// The settings of a file, in order. Git refuses a file with a line that is none; here the next line counts.
pub(super) fn settings(text: &str) -> Vec<Setting> {
    let mut reader = Reader(text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable());
    let (mut found, mut at) = (Vec::new(), Setting::default());
    while let Some(c) = reader.next() {
        match c {
            _ if is_space(c) => {}
            '[' => match reader.section() {
                Some((section, subsection)) => at = Setting { section, subsection, ..Setting::default() },
                None => reader.skip_line(),
            },
            _ if c.is_ascii_alphabetic() => {
                if let Some((key, value)) = reader.setting(c) {
                    found.push(Setting { key, value, ..at.clone() });
                }
            }
            // A comment, or a line that is no setting.
            _ => reader.skip_line(),
        }
    }
    found
}

struct Reader<'a>(Peekable<Chars<'a>>);

impl Reader<'_> {
    /// The next character; the two that end a line on some systems are one.
    fn next(&mut self) -> Option<char> {
        let c = self.0.next()?;
        if c == '\r' { self.0.next_if_eq(&'\n').or(Some(c)) } else { Some(c) }
    }

    fn skip_line(&mut self) {
        while self.0.next_if(|c| *c != '\n').is_some() {}
    }

    /// The section and subsection after a `[`.
    fn section(&mut self) -> Option<(String, String)> {
        let mut section = String::new();
        while let Some(c) = self.0.next_if(|c| is_of_key(*c) || *c == '.') {
            section.push(c.to_ascii_lowercase());
        }
        if self.0.next_if_eq(&']').is_some() {
            return Some((section, String::new()));
        }
        while self.0.next_if(|c| is_space(*c) && *c != '\n').is_some() {}
        self.0.next_if_eq(&'"')?;
        let mut subsection = String::new();
        loop {
            match self.0.next_if(|c| *c != '\n')? {
                '"' => break,
                '\\' => subsection.push(self.0.next_if(|c| *c != '\n')?),
                c => subsection.push(c),
            }
        }
        self.0.next_if_eq(&']').map(|_| (section, subsection))
    }

    /// The key that begins with this character, and its value, up to the end of the line.
    fn setting(&mut self, first: char) -> Option<(String, String)> {
        let mut key = String::from(first.to_ascii_lowercase());
        while let Some(c) = self.0.next_if(|c| is_of_key(*c)) {
            key.push(c.to_ascii_lowercase());
        }
        while self.0.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        match self.next() {
            None | Some('\n') => Some((key, String::new())),
            Some('=') => Some((key, self.value())),
            Some(_) => {
                self.skip_line();
                None
            }
        }
    }

    /// The value after a `=`. One that git refuses ends where git stops.
    fn value(&mut self) -> String {
        let (mut value, mut length, mut is_quoted) = (String::new(), 0, false);
        while let Some(c) = self.next().filter(|c| *c != '\n') {
            match c {
                '#' | ';' if !is_quoted => {
                    self.skip_line();
                    continue;
                }
                '"' => is_quoted = !is_quoted,
                '\\' => match self.next() {
                    None | Some('\n') => {}
                    Some('t') => value.push('\t'),
                    Some('b') => value.push('\u{8}'),
                    Some('n') => value.push('\n'),
                    Some(c) => value.push(c),
                },
                _ if is_space(c) && !is_quoted => {
                    // Spaces count if more follows.
                    if !value.is_empty() {
                        value.push(c);
                    }
                    continue;
                }
                _ => value.push(c),
            }
            length = value.len();
        }
        value.truncate(length);
        // For git the text ends there.
        value.truncate(value.find('\0').unwrap_or(length));
        value
    }
}

/// True for a space of git.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_of_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Name and value of each setting, as `git config --list` shows them.
    fn list(text: &str) -> Vec<String> {
        let shown = |it: Setting| {
            let names = [it.section, it.subsection, it.key].into_iter().filter(|name| !name.is_empty());
            format!("{}\n{}", names.collect::<Vec<_>>().join("."), it.value)
        };
        settings(text).into_iter().map(shown).collect()
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        for (text, expected) in [
            ("[core]\n\thooksPath = hk\n", &["core.hookspath\nhk"][..]),
            ("[core] hooksPath = hk\n", &["core.hookspath\nhk"]),
            ("[core]hooksPath=hk", &["core.hookspath\nhk"]),
            ("[core]\nhooksPath = hk ; comment\n", &["core.hookspath\nhk"]),
            ("[core]\nhooksPath = hk#comment \\\nx = y\n", &["core.hookspath\nhk", "core.x\ny"]),
            ("[core]\nhooksPath = h\"k\"\n", &["core.hookspath\nhk"]),
            ("[core]\nhooksPath = h\\\nk\n", &["core.hookspath\nhk"]),
            ("[core]\nhooksPath = \"h\\\nk\"\n", &["core.hookspath\nhk"]),
            ("[core]\r\nhooksPath = h\\\r\nk \r\n", &["core.hookspath\nhk"]),
            ("\u{feff}[core]\nx = \" a # b;\"  \n", &["core.x\n a # b;"]),
            ("[core]\nx =   a  b\"  \" \n", &["core.x\na  b  "]),
            ("[core]\nx = \"\"  a\n", &["core.x\na"]),
            ("[core]\nx = \\\"a\\\"\\\\\\tb\\nc\n", &["core.x\n\"a\"\\\tb\nc"]),
            ("# a\n; [b]\n[core]; c\n# x = 1\nx = 2\n", &["core.x\n2"]),
            ("[Core \"A \\\"b\\c]\"]\nX = 1\n", &["core.A \"bc].x\n1"]),
            ("[core \t \"d\"] x = 1\n[a.B]\ny-2 = 3\n", &["core.d.x\n1", "a.b.y-2\n3"]),
            ("[core]\nx = a[b]=c", &["core.x\na[b]=c"]),
            ("", &[]),
        ] {
            assert_eq!(list(text), expected, "{text:?}");
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), text).expect("written");
            let mut git = Command::new("git");
            git.args(["config", "--list", "--null", "--file"]).arg(file.path());
            let told = git.output().expect("git starts");
            let told = String::from_utf8(told.stdout).expect("UTF-8");
            assert_eq!(told.split_terminator('\0').collect::<Vec<_>>(), expected, "git: {text:?}");
        }
    }

    #[test]
    fn what_git_refuses_hides_no_setting() {
        for (text, expected) in [
            ("[core\nx = 1\n[core]\ny = 2\n", &["x\n1", "core.y\n2"][..]),
            ("[core]\n[d \"a\nx = 1\n!\ny = 2\n", &["core.x\n1", "core.y\n2"]),
            ("[core]\nx = \\qa\nx y\nz\n", &["core.x\nqa", "core.z\n"]),
            ("[core]\nx = hk\0more\n", &["core.x\nhk"]),
        ] {
            assert_eq!(list(text), expected, "{text:?}");
        }
    }
}
