//! Which files of the workspace a program call names: what it executes or goes by may be one of them.

mod conventional;
mod shell_words;

use std::collections::BTreeSet;

use shell_words::{COMPUTED, shell_words, without_comments};

/// What interpreters add to a name to find a file: a module's (`python3 -m tool`), a folder's (`node server`). GNU make makes `deploy`
/// from `deploy.sh`.
const MODULE_SUFFIXES: [&str; 25] = [
    ".py",
    "/__init__.py",
    "/__main__.py",
    ".js",
    ".cjs",
    ".mjs",
    ".ts",
    ".mts",
    ".cts",
    ".tsx",
    ".jsx",
    ".node",
    "/index.js",
    "/index.cjs",
    "/index.mjs",
    "/index.ts",
    "/index.node",
    "/package.json",
    ".rb",
    ".pm",
    ".pmc",
    ".lua",
    ".java",
    ".class",
    ".sh",
];

/// Bytes of the longest word that may name a module.
const MODULE_BYTES_MAX: usize = 255;

/// Texts within each other whose words count.
const TEXTS_MAX: usize = 3;

/// Patterns of one call that are expanded. Further patterns bind nothing.
const PATTERNS_MAX: usize = 256;

/// What a call names: paths as written, and the files that its programs read from the current folder and from named ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedPaths {
    /// Words and parts of words that may be paths, in order. A word without a `/` may also be a program of the search path.
    pub paths: Vec<String>,
    /// Patterns that may stand for paths, with `*`, `?` and `[…]`. What a shell computes is a `*`.
    pub patterns: Vec<String>,
    /// Names of files that the programs read without being told to.
    pub conventional: Vec<&'static str>,
    /// Folders of further programs, from the current folder.
    pub programs: Vec<&'static str>,
    /// True if git is among the programs: it goes by the settings and hooks of repositories.
    pub uses_git: bool,
}

impl NamedPaths {
    /// Paths of which a folder counts as one that the call names: the words, packages (`from a.b import c`), and the folder of a file that
    /// programs read by convention (`--manifest-path lib/Cargo.toml`).
    ///
    /// ```
    /// let named = ostler_kernel::gate::named_paths(&["cargo", "build", "--manifest-path", "lib/Cargo.toml"]);
    /// assert!(named.folders().any(|folder| folder == "lib"));
    /// ```
    pub fn folders(&self) -> impl Iterator<Item = String> + '_ {
        let is_package = |word: &&String| is_module(word) && word.contains('.') && !word.contains('/');
        let packages = self.paths.iter().filter(is_package).map(|word| word.replace('.', "/"));
        let above = self.paths.iter().filter_map(|path| {
            let (folder, file) = path.rsplit_once('/')?;
            self.conventional.contains(&file).then(|| folder.to_owned())
        });
        // Where git finds no repository of a name, it looks for one with this ending.
        let repositories = self.paths.iter().filter(|_| self.uses_git).map(|path| format!("{path}.git"));
        self.paths.iter().cloned().chain(packages).chain(above).chain(repositories)
    }

    /// Files that interpreters look for if a word names a module, in the current folder or a named one. Nearly all of them do not exist.
    ///
    /// ```
    /// let named = ostler_kernel::gate::named_paths(&["python3", "-m", "tools.deploy"]);
    /// let modules: Vec<String> = named.modules().collect();
    /// for file in ["tools/__init__.py", "tools/deploy.py", "tools/deploy/__main__.py"] {
    ///     assert!(modules.contains(&file.to_owned()));
    /// }
    /// ```
    pub fn modules(&self) -> impl Iterator<Item = String> + '_ {
        self.paths.iter().filter(|word| is_module(word)).flat_map(|word| {
            let is_module = word.contains('.') && !word.contains('/');
            let path = is_module.then(|| word.replace('.', "/"));
            let above = |path: &String| {
                let ends = path.match_indices('/').map(|(at, _)| &path[..at]);
                // A module comes before a package without `__init__.py`.
                ends.flat_map(|above| [format!("{above}/__init__.py"), format!("{above}.py")])
                    .collect::<Vec<_>>()
            };
            let packages = path.as_ref().map(above).unwrap_or_default();
            let names = [Some(word.clone()), path].into_iter().flatten();
            let found = names.flat_map(|name| MODULE_SUFFIXES.map(|suffix| format!("{name}{suffix}")));
            // `tool.py` is the word itself, also as a module `py` of `tool`.
            found.chain(packages).filter(move |found| found != word)
        })
    }
}

/// The paths that an argument list may name. Errs on the side of too many: a word that is no file binds nothing. Words are also
/// taken apart as shells do, and at other characters, so that `sh -c "make check"` and `--file=run.sh` name what they run.
/// There are at most a few times as many paths as the parameters of a call have bytes.
///
/// ```
/// let named = ostler_kernel::gate::named_paths(&["sh", "-c", "cd lib && ./run.sh --to=x 'my file' *.txt"]);
/// for path in ["./run.sh", "my file"] {
///     assert!(named.paths.contains(&path.to_owned()));
/// }
/// assert_eq!(named.patterns, ["*.txt"]);
/// let named = ostler_kernel::gate::named_paths(&["timeout", "5", "make", "-C", "lib"]);
/// assert_eq!(named.conventional[..3], ["GNUmakefile", "makefile", "Makefile"]);
/// ```
pub fn named_paths<T: AsRef<str>>(argv: &[T]) -> NamedPaths {
    let mut named = Collector::default();
    let mut all = Vec::new();
    for word in argv.iter().map(AsRef::as_ref) {
        named.add_with_values(word);
        let mut outer = shell_words(word);
        outer.extend(without_comments(word).into_iter().flat_map(|text| shell_words(&text)));
        let inner = words_within(&outer);
        let shell_words = || outer.iter().chain(&inner);
        shell_words().for_each(|word| named.add_with_values(word));
        for part in word.split(|c: char| !(c.is_alphanumeric() || "._/-+@~".contains(c))) {
            named.add_with_values(part);
            named.add_program(part);
        }
        // Perl's `Net::Tool` is `Net/Tool.pm`.
        shell_words().for_each(|word| named.add_with_values(&word.replace("::", "/")));
        all.push((word, outer, inner));
    }
    named.add_patterns(&all);
    named.add_dots();
    named.found
}

/// The words of words with spaces, which may be texts for another shell: `sh -c "ssh here 'cat *.txt'"`.
fn words_within(words: &[String]) -> Vec<String> {
    let (mut all, mut texts) = (Vec::new(), words.to_vec());
    for _ in 0..TEXTS_MAX {
        texts = texts
            .iter()
            .filter(|word| word.contains(char::is_whitespace))
            .flat_map(|it| shell_words(it))
            .collect();
        all.extend(texts.iter().cloned());
    }
    all
}

#[derive(Default)]
struct Collector {
    found: NamedPaths,
    seen: BTreeSet<String>,
    /// The folder itself, or the one above, as a word.
    dots: BTreeSet<&'static str>,
    /// A program runs a folder as a module: `node .`.
    runs_folders: bool,
}

/// Beginnings of the names of programs that run a folder.
const RUN_FOLDERS: [&str; 7] = ["node", "bun", "deno", "tsx", "ts-node", "python", "pypy"];

impl Collector {
    fn add(&mut self, path: &str) {
        self.dots.extend([".", ".."].into_iter().filter(|dot| *dot == path));
        if !matches!(path, "" | "." | "..") && !path.contains(COMPUTED) && self.seen.insert(path.to_owned()) {
            self.found.paths.push(path.to_owned());
        }
    }

    /// Adds a word and what is attached to an option: `--file=a b`, `-fMakefile`, `@body`.
    fn add_with_values(&mut self, word: &str) {
        self.add(word);
        // An address of this machine may name a host.
        if let Some((_, of_host)) = word.split_once("://")
            && let Some(at) = of_host.find('/')
        {
            self.add(&of_host[at..]);
        }
        for value in values(word) {
            self.add(value);
        }
    }

    /// Adds the modules of folders that have no other name.
    fn add_dots(&mut self) {
        let dots: Vec<&str> = self.dots.iter().copied().filter(|_| self.runs_folders).collect();
        let in_folders = || MODULE_SUFFIXES.into_iter().filter(|suffix| suffix.starts_with('/'));
        for dot in dots {
            in_folders().for_each(|suffix| self.add(&format!("{dot}{suffix}")));
        }
    }

    fn add_program(&mut self, word: &str) {
        let program = name(word);
        self.runs_folders |= RUN_FOLDERS.iter().any(|begin| program.starts_with(begin));
        self.found.uses_git |= program == "git";
        for file in conventional::files_of(program) {
            if !self.found.conventional.contains(&file) {
                self.found.conventional.push(file);
            }
        }
        for folder in conventional::folders_of(program) {
            if !self.found.programs.contains(&folder) {
                self.found.programs.push(folder);
            }
        }
    }

    /// Adds the patterns among arguments, with the words of each and the words within those.
    fn add_patterns(&mut self, all: &[(&str, Vec<String>, Vec<String>)]) {
        let is_any = |is: fn(&str) -> bool| {
            all.iter().any(|(_, outer, inner)| outer.iter().chain(inner).any(|word| is(name(word))))
        };
        let (is_shell, is_code) = (is_any(conventional::is_shell), is_any(conventional::is_interpreter));
        for (word, outer, inner) in all {
            if !word.contains(char::is_whitespace) {
                self.add_pattern(word);
            }
            if is_shell {
                outer.iter().for_each(|word| self.add_pattern(word));
            }
            // Most stars and brackets of code are no patterns.
            let is_likely =
                |word: &&String| word.contains(['*', '?', COMPUTED]) && word.contains(char::is_alphanumeric);
            let parts: Vec<String> = match is_code {
                true => word.split(|c| !is_of_pattern(c)).flat_map(shell_words).collect(),
                false => Vec::new(),
            };
            let within = inner.iter().filter(|_| is_shell).chain(&parts);
            within.filter(is_likely).for_each(|word| self.add_pattern(word));
        }
    }

    /// Adds a pattern. One that is computed as a whole could be anything, and is left out.
    fn add_pattern(&mut self, word: &str) {
        for word in std::iter::once(word).chain(values(word)) {
            let is_glob = word.contains(['*', '?', '[']);
            let is_part = word.contains(COMPUTED) && word.contains(char::is_alphanumeric);
            let pattern = word.replace(COMPUTED, "*");
            let is_new = (is_glob || is_part) && !self.found.patterns.contains(&pattern);
            if is_new && self.found.patterns.len() < PATTERNS_MAX {
                self.found.patterns.push(pattern);
            }
        }
    }
}

/// True for a word that may name a module.
fn is_module(word: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "._/-".contains(c);
    word.len() <= MODULE_BYTES_MAX && !word.starts_with('-') && word.chars().all(is_plain)
}

/// True for a character of a path or a pattern in code.
fn is_of_pattern(c: char) -> bool {
    c.is_alphanumeric() || "._/-+@~*?[]!^:$".contains(c)
}

/// The name of a program at a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Letters of options before a value in one word: `make -sCx`.
const BUNDLED_MAX: usize = 8;

fn values(word: &str) -> impl Iterator<Item = &str> {
    let assigned = word.split_once('=').map(|(_, value)| value);
    let attached = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let bundled = attached.into_iter().flat_map(|rest| {
        let are_letters = |at: usize| at <= 1 || rest[..at].chars().all(|c| c.is_ascii_alphanumeric());
        let ends = rest.char_indices().map(|(at, _)| at).skip(1).take(BUNDLED_MAX);
        ends.take_while(move |at| are_letters(*at)).map(|at| &rest[at..])
    });
    [assigned, word.strip_prefix('@')].into_iter().flatten().chain(bundled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(argv: &[&str], path: &str) {
        let named = named_paths(argv);
        let found = named.paths.iter().any(|it| it == path) || named.conventional.contains(&path);
        assert!(found, "{argv:?} does not name {path}: {named:?}");
    }

    #[test]
    fn modules_are_named_as_their_interpreters_find_them() {
        for (argv, path) in [
            (&["python3", "-m", "tool"][..], "tool.py"),
            (&["timeout", "5", "pypy3", "-mtool"], "tool/__main__.py"),
            (&["python3", "-m", "a.b.tool"], "a/__init__.py"),
            (&["python3", "-m", "a.b.tool"], "a/b/tool.py"),
            (&["python3", "-m", "a.b.tool"], "a/b.py"),
            (&["python3", "-c", "import helper; helper.go()"], "helper.py"),
            (&["python3", "-c", "from a.b import c"], "c.py"),
            (&["node", "./server"], "./server/index.js"),
            (&["node", "-e", "require('./lib/x')"], "./lib/x.js"),
            (&["ruby", "-rhelper", "-e", "go"], "helper.rb"),
            (&["java", "-cp", "out", "Main"], "Main.class"),
            (&["make", "-f", "build.mk"], "build.mk.sh"),
            (&["sh", "-c", "make deploy && ./deploy"], "deploy.sh"),
            (&["python3", "-m", "büro-2"], "büro-2.py"),
        ] {
            assert!(named_paths(argv).modules().any(|it| it == path), "{argv:?} does not name {path}");
        }
        let all = |word: &str| named_paths(&[word]).modules().collect::<Vec<_>>();
        let longest = "m".repeat(MODULE_BYTES_MAX);
        let each = MODULE_SUFFIXES.len();
        assert_eq!((all(&longest).len(), all(&format!("{longest}m")).len()), (each, 0));
        assert_eq!(
            (all("tools/a.b").len(), all("a.b").len()),
            (each, 2 * each + 2),
            "a path names no package"
        );
        assert_eq!((all("--quiet").len(), all("a b").len()), (0, 2 * each), "neither names a module");
        assert!(!all("tool.py").contains(&"tool.py".to_owned()), "the word itself");
        let long = "a.".repeat(MODULE_BYTES_MAX);
        assert_eq!(
            named_paths(&["-m", "a b", &long[..]]).modules().find(|it| it.len() > MODULE_BYTES_MAX),
            None
        );
    }

    #[test]
    fn folders_are_named_by_words_packages_and_files_read_by_convention() {
        for (argv, folder) in [
            (&["make", "-C", "lib"][..], "lib"),
            (&["python3", "-c", "from a.b import c"], "a/b"),
            (&["cargo", "build", "--manifest-path", "lib/Cargo.toml"], "lib"),
            (&["docker", "compose", "-fd/compose.yaml", "up"], "d"),
            (&["git", "push", "--atomic", "name"], "name.git"),
            (&["git", "push", "file://localhost/w/evil.git"], "/w/evil.git"),
        ] {
            assert!(named_paths(argv).folders().any(|it| it == folder), "{argv:?} does not name {folder}");
        }
        let named = named_paths(&["sh", "lib/Cargo.toml"]);
        assert!(!named.folders().any(|it| it == "lib"), "sh reads no such file by convention");
    }

    #[test]
    fn what_a_call_may_execute_is_named() {
        for (argv, path) in [
            (&["./deploy.sh"][..], "./deploy.sh"),
            (&["node", "."], "./index.js"),
            (&["make", "all"], "Makefile.sh"),
            (&["npm", "ci"], "npm-shrinkwrap.json"),
            (&["mvn", "-o", "compile"], ".mvn/jvm.config"),
            (&["node", "-e", "require('..')"], "../index.js"),
            (&["python3", "."], "./__main__.py"),
            (&["make", "-sCx"], "x"),
            (&["sed", "-nfs.sed"], "s.sed"),
            (&["python3", "-Bmpkg.mod"], "pkg.mod"),
            (&["sh", "-c", "# it's\nsh 'c mt'.sh"], "c mt.sh"),
            (&["sh", "-c", "sh \"de\\ploy.sh\""], "de\\ploy.sh"),
            (&["sh", "./deploy.sh"], "./deploy.sh"),
            (&["sh", "-c", "cd x; . ./env.sh && deploy"], "./env.sh"),
            (&["sh", "-c", "cat a.txt|sh"], "a.txt"),
            (&["bash", "--rcfile=my rc"], "rc"),
            (&["make", "check"], "Makefile"),
            (&["make", "-fbuild.mk"], "build.mk"),
            (&["make", "-fbuild-x.mk"], "build-x.mk"),
            (&["make", "--file=build.mk"], "build.mk"),
            (&["tool", "--files=a.mk,b.mk"], "b.mk"),
            (&["make", "-C", "lib"], "lib"),
            (&["env", "-i", "/usr/bin/make"], "GNUmakefile"),
            (&["sh", "-c", "nice make -j2"], "makefile"),
            (&["npm", "test"], "package.json"),
            (&["cargo", "test"], "build.rs"),
            (&["python3", "-m", "pytest"], "conftest.py"),
            (&["python3", "-c", "exec(open('x.py').read())"], "x.py"),
            (&["tool", "bücher.txt"], "bücher.txt"),
            (&["cat", "my file.txt"], "my file.txt"),
            (&["tool", "--file=my file.txt"], "my file.txt"),
            (&["sh", "-c", "cat 'my file.txt'"], "my file.txt"),
            (&["sh", "-c", "cat my\\ file.txt"], "my file.txt"),
            (&["sh", "-c", "sh dep\"loy\".sh"], "deploy.sh"),
            (&["sh", "-c", "sh $PWD/deploy.sh"], "./deploy.sh"),
            (&["curl", "-d", "@my body"], "my body"),
            (&["env", "A=1", "tool"], "tool"),
            (&["sh", "-c", "exec tool x"], "tool"),
            (&["timeout", "5", "nohup", "nice", "tool"], "tool"),
            (&["git", "push"], ".gitmodules"),
            (&["python3.12", "x"], "sitecustomize.py"),
        ] {
            check(argv, path);
        }
        assert_eq!(named_paths::<&str>(&[]), NamedPaths::default());
        assert_eq!(named_paths(&["ls", ".", "..", ""]).paths, ["ls"]);
        assert_eq!(named_paths(&["make", "make"]).conventional, named_paths(&["make"]).conventional);
        let computed = named_paths(&["sh", "-c", "cat a$X"]);
        assert!(!computed.paths.iter().any(|path| path.contains(COMPUTED)), "{computed:?}");
    }

    #[test]
    fn patterns_and_what_a_shell_computes_are_named() {
        for (argv, patterns) in [
            (&["sh", "-c", "cat *.txt"][..], &["*.txt"][..]),
            (&["nice", "bash", "-c", "cat a?.txt lib/[ab].sh"], &["a?.txt", "lib/[ab].sh"]),
            (&["sh", "-c", "sh ./$X.sh; echo $X"], &["./*.sh"]),
            (&["ssh", "host", "cd x; sh *.sh *.sh"], &["*.sh"]),
            (&["bash", "-c", "sh run-{a,b}.sh"], &["run-*.sh"]),
            (&["sh", "-c", "curl -d '{\"a\":1}' $X"], &[]),
            (&["prettier", "src/**/*.ts"], &["src/**/*.ts"]),
            (&["tool", "--of=*.c"], &["--of=*.c", "*.c"]),
            (&["bash", "-c", "sh d@(e)ploy.sh [[:alpha:]].sh"], &["d*ploy.sh", "[[:alpha:]].sh"]),
            (
                &["sh", "-c", "ssh here 'cat *.sql \"lib/[ab]?\"'; ls *"],
                &["cat *.sql \"lib/[ab]?\"", "*", "*.sql", "lib/[ab]?"],
            ),
            (&["python3", "-c", "import os; os.system(\"sh de*.sh\")"], &["sh de*.sh", "de*.sh"]),
            (&["python3.12", "-c", "from a import *; run('./de*.sh', x[0], 2 * y)"], &["./de*.sh"]),
            (&["awk", "BEGIN { system(\"./de*.sh\") }"], &["./de*.sh"]),
            // No shell expands these.
            (&["psql", "-c", "select * from t"], &[]),
            (&["psql", "", "-c", "select * from t"], &[]),
            (&["tool", "{\"a\":1,\"b\":2}"], &[]),
        ] {
            assert_eq!(named_paths(argv).patterns, patterns, "{argv:?}");
        }
        let many: Vec<String> = (0..=PATTERNS_MAX).map(|at| format!("{at}*")).collect();
        assert_eq!(named_paths(&many).patterns.len(), PATTERNS_MAX);
    }

    #[test]
    fn programs_behind_launchers_of_a_language_are_looked_for_in_its_folders() {
        assert_eq!(named_paths(&["npx", "npx", "tool"]).programs, ["node_modules/.bin"]);
        assert_eq!(named_paths(&["nice", "uv", "run", "tool"]).programs, [".venv/bin"]);
        assert!(named_paths(&["sh", "-c", "cd x && git status"]).uses_git);
        assert!(!named_paths(&["sh", "-c", "echo digit"]).uses_git);
        assert_eq!(
            named_paths(&["perl", "-MNet::Tool"]).modules().find(|it| it == "Net/Tool.pm").as_deref(),
            Some("Net/Tool.pm")
        );
    }
}
