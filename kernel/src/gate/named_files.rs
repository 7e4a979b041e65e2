//! Which files of the workspace a program call names: what it executes or goes by may be one of them.

use std::collections::BTreeSet;

/// Files that programs read without being told to, by the name of the program.
const CONVENTIONAL: [(&[&str], &[&str]); 16] = [
    (
        &["git"],
        &[
            ".git/config",
            ".git/config.worktree",
            ".git/info/attributes",
            ".gitattributes",
            ".gitmodules",
            ".git/hooks/pre-commit",
            ".git/hooks/prepare-commit-msg",
            ".git/hooks/commit-msg",
            ".git/hooks/post-commit",
            ".git/hooks/pre-merge-commit",
            ".git/hooks/post-merge",
            ".git/hooks/pre-rebase",
            ".git/hooks/post-rewrite",
            ".git/hooks/post-checkout",
            ".git/hooks/pre-push",
            ".git/hooks/reference-transaction",
        ],
    ),
    (&["hg"], &[".hg/hgrc"]),
    (&["ansible", "ansible-playbook"], &["ansible.cfg"]),
    (&["pre-commit"], &[".pre-commit-config.yaml"]),
    (&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"]),
    (
        &["npm", "npx", "yarn", "pnpm", "node", "tsc"],
        &[
            "package.json",
            "package-lock.json",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".pnpmfile.cjs",
            "pnpm-workspace.yaml",
            "tsconfig.json",
        ],
    ),
    (
        &["cargo"],
        &[
            "Cargo.toml",
            "Cargo.lock",
            "build.rs",
            ".cargo/config.toml",
            ".cargo/config",
            "rust-toolchain.toml",
            "rust-toolchain",
        ],
    ),
    (&["just"], &["justfile", "Justfile", ".justfile"]),
    (
        &["pytest", "python", "python3", "tox", "nox", "pip", "uv", "poetry"],
        &[
            "conftest.py",
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "tox.ini",
            "noxfile.py",
            "pytest.ini",
            "sitecustomize.py",
        ],
    ),
    (&["go"], &["go.mod", "go.work"]),
    (
        &["docker", "docker-compose", "podman"],
        &["Dockerfile", "compose.yaml", "docker-compose.yml", "docker-compose.yaml"],
    ),
    (&["mvn", "ant"], &["pom.xml", "build.xml"]),
    (
        &["gradle", "gradlew"],
        &["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties"],
    ),
    (&["rake", "bundle", "ruby"], &["Rakefile", "rakefile", "Gemfile"]),
    (&["cmake", "ninja"], &["CMakeLists.txt", "CMakePresets.json", "build.ninja"]),
    (&["deno", "bun"], &["deno.json", "deno.jsonc", "bunfig.toml", "package.json"]),
];

/// What interpreters add to a name to find a file: a module's (`python3 -m tool`), a folder's (`node server`).
const MODULE_SUFFIXES: [&str; 14] = [
    ".py",
    "/__init__.py",
    "/__main__.py",
    ".js",
    ".cjs",
    ".mjs",
    ".ts",
    "/index.js",
    "/package.json",
    ".rb",
    ".pm",
    ".lua",
    ".java",
    ".class",
];

/// Bytes of the longest word that may name a module.
const MODULE_BYTES_MAX: usize = 255;

/// What a call names: paths as written, and the files that its programs read from the current folder and from named ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedPaths {
    /// Words and parts of words that may be paths, in order.
    pub paths: Vec<String>,
    /// Names of files that the programs read without being told to.
    pub conventional: Vec<&'static str>,
}

impl NamedPaths {
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
        let words = self.paths.iter().filter(|word| {
            let is_plain = |c: char| c.is_alphanumeric() || "._/-".contains(c);
            word.len() <= MODULE_BYTES_MAX && !word.starts_with('-') && word.chars().all(is_plain)
        });
        words.flat_map(|word| {
            let is_module = word.contains('.') && !word.contains('/');
            let path = is_module.then(|| word.replace('.', "/"));
            let above = |path: &String| {
                let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
                ends.into_iter().map(|at| format!("{}/__init__.py", &path[..at])).collect::<Vec<_>>()
            };
            let packages = path.as_ref().map(above).unwrap_or_default();
            let names = [Some(word.clone()), path].into_iter().flatten();
            names.flat_map(|name| MODULE_SUFFIXES.map(|suffix| format!("{name}{suffix}"))).chain(packages)
        })
    }
}

/// The paths that an argument list may name. Errs on the side of too many: a word that is no file binds nothing. Words are also
/// taken apart at spaces, quotes and other characters of shells, so that `sh -c "make check"` and `--file=run.sh` name what they run.
/// There are at most as many paths as the parameters of a call have bytes.
///
/// ```
/// let named = ostler_kernel::gate::named_paths(&["sh", "-c", "cd lib && ./run.sh --to=x"]);
/// assert!(named.paths.contains(&"./run.sh".to_owned()));
/// let named = ostler_kernel::gate::named_paths(&["timeout", "5", "make", "-C", "lib"]);
/// assert_eq!(named.conventional, ["GNUmakefile", "makefile", "Makefile"]);
/// ```
pub fn named_paths<T: AsRef<str>>(argv: &[T]) -> NamedPaths {
    let mut named = NamedPaths::default();
    let mut seen = BTreeSet::new();
    let mut add = |named: &mut NamedPaths, path: &str| {
        if !matches!(path, "" | "." | "..") && seen.insert(path.to_owned()) {
            named.paths.push(path.to_owned());
        }
    };
    for word in argv.iter().map(AsRef::as_ref) {
        add(&mut named, word);
        for part in word.split(|c: char| !(c.is_alphanumeric() || "._/-+@~".contains(c))) {
            add(&mut named, part);
            // `-fMakefile`
            let attached = part.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            if let Some(value) =
                attached.and_then(|rest| rest.char_indices().nth(1).map(|(at, _)| &rest[at..]))
            {
                add(&mut named, value);
            }
            let program = part.rsplit('/').next().unwrap_or(part);
            for (_, files) in CONVENTIONAL.iter().filter(|(programs, _)| programs.contains(&program)) {
                named.conventional.extend(
                    files
                        .iter()
                        .filter(|file| !named.conventional.contains(file))
                        .copied()
                        .collect::<Vec<_>>(),
                );
            }
        }
    }
    named
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
            (&["python3", "-c", "import helper; helper.go()"], "helper.py"),
            (&["node", "./server"], "./server/index.js"),
            (&["node", "-e", "require('./lib/x')"], "./lib/x.js"),
            (&["ruby", "-rhelper", "-e", "go"], "helper.rb"),
            (&["java", "-cp", "out", "Main"], "Main.class"),
        ] {
            assert!(named_paths(argv).modules().any(|it| it == path), "{argv:?} does not name {path}");
        }
        let all = |word: &str| named_paths(&[word]).modules().collect::<Vec<_>>();
        let longest = "m".repeat(MODULE_BYTES_MAX);
        assert_eq!((all(&longest).len(), all(&format!("{longest}m")).len()), (14, 0));
        assert_eq!((all("tools/a.b").len(), all("a.b").len()), (14, 14 + 14 + 1), "a path names no package");
        let long = "a.".repeat(MODULE_BYTES_MAX);
        assert_eq!(
            named_paths(&["-m", "a b", &long[..]]).modules().find(|it| it.len() > MODULE_BYTES_MAX),
            None
        );
    }

    #[test]
    fn what_a_call_may_execute_is_named() {
        for (argv, path) in [
            (&["./deploy.sh"][..], "./deploy.sh"),
            (&["sh", "./deploy.sh"], "./deploy.sh"),
            (&["sh", "-c", "cd x; . ./env.sh && deploy"], "./env.sh"),
            (&["sh", "-c", "cat a.txt|sh"], "a.txt"),
            (&["bash", "--rcfile=my rc"], "rc"),
            (&["make", "check"], "Makefile"),
            (&["make", "-fbuild.mk"], "build.mk"),
            (&["make", "--file=build.mk"], "build.mk"),
            (&["make", "-C", "lib"], "lib"),
            (&["env", "-i", "/usr/bin/make"], "GNUmakefile"),
            (&["sh", "-c", "nice make -j2"], "makefile"),
            (&["npm", "test"], "package.json"),
            (&["cargo", "test"], "build.rs"),
            (&["python3", "-m", "pytest"], "conftest.py"),
            (&["python3", "-c", "exec(open('x.py').read())"], "x.py"),
            (&["tool", "bücher.txt"], "bücher.txt"),
        ] {
            check(argv, path);
        }
        assert_eq!(named_paths::<&str>(&[]), NamedPaths::default());
        assert_eq!(named_paths(&["ls", ".", "..", ""]).paths, ["ls"]);
    }
}
