//! Files that programs read without being told to.

/// Files that programs read without being told to, by the name of the program.
const CONVENTIONAL: [(&[&str], &[&str]); 16] = [
    (
        &["git"],
        &[
            ".gitattributes",
            ".gitmodules",
            ".pre-commit-config.yaml",
            "lefthook.yml",
            ".gitconfig",
            ".config/git/config",
            ".config/git/attributes",
        ],
    ),
    (&["hg"], &[".hg/hgrc"]),
    (&["ansible", "ansible-playbook"], &["ansible.cfg"]),
    (&["pre-commit"], &[".pre-commit-config.yaml"]),
    (
        &["make", "gmake"],
        &[
            "GNUmakefile",
            "makefile",
            "Makefile",
            // By built-in rules, GNU make makes its makefile from these.
            "GNUmakefile.sh",
            "makefile.sh",
            "Makefile.sh",
            "Makefile,v",
            "RCS/Makefile,v",
            "s.Makefile",
            "SCCS/s.Makefile",
        ],
    ),
    (
        &["npm", "npx", "yarn", "pnpm", "node", "tsc"],
        &[
            "package.json",
            "package.json5",
            "package.yaml",
            "package-lock.json",
            "npm-shrinkwrap.json",
            "yarn.lock",
            "pnpm-lock.yaml",
            "binding.gyp",
            "server.js",
            ".pnp.cjs",
            ".pnp.loader.mjs",
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
    (&["just"], &["justfile", "Justfile", ".justfile", "JUSTFILE", ".env"]),
    (
        &["pytest", "python", "tox", "nox", "pip", "uv", "poetry"],
        &[
            "__main__.py",
            "conftest.py",
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "tox.ini",
            "noxfile.py",
            "pytest.ini",
            "sitecustomize.py",
            "usercustomize.py",
            "pyvenv.cfg",
        ],
    ),
    (&["go"], &["go.mod", "go.work"]),
    (
        &["docker", "docker-compose", "podman"],
        &[
            "Dockerfile",
            "Containerfile",
            "compose.yaml",
            "compose.yml",
            "compose.override.yaml",
            "compose.override.yml",
            "docker-compose.yml",
            "docker-compose.yaml",
            "docker-compose.override.yml",
            "docker-compose.override.yaml",
            ".env",
        ],
    ),
    (
        &["mvn", "mvnw", "ant"],
        &[
            "pom.xml",
            "build.xml",
            ".mvn/jvm.config",
            ".mvn/maven.config",
            ".mvn/extensions.xml",
            ".mvn/wrapper/maven-wrapper.properties",
            ".mavenrc",
        ],
    ),
    (
        &["gradle", "gradlew"],
        &[
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle.properties",
            "gradle/wrapper/gradle-wrapper.properties",
            "gradle/wrapper/gradle-wrapper.jar",
        ],
    ),
    (
        &["rake", "bundle", "ruby"],
        &["Rakefile", "rakefile", "Gemfile", "Gemfile.lock", "gems.rb", ".bundle/config"],
    ),
    (&["cmake", "ninja"], &["CMakeLists.txt", "CMakePresets.json", "build.ninja"]),
    (&["deno", "bun"], &["deno.json", "deno.jsonc", "bunfig.toml", "package.json", "bun.lock", "bun.lockb"]),
];

/// Folders of programs that another program puts in front of the search path, by the name of that program.
const LAUNCHED: [(&[&str], &str); 3] = [
    (&["npm", "npx", "yarn", "pnpm", "bun", "bunx", "corepack"], "node_modules/.bin"),
    (&["uv", "uvx", "poetry", "pdm", "hatch", "pipenv", "rye"], ".venv/bin"),
    (&["poetry", "pipenv", "tox", "nox"], "venv/bin"),
];

/// Programs that expand patterns and variables of their arguments.
const SHELLS: [&str; 15] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish", "busybox", "rbash", "yash",
    "posh", "osh",
];

/// Programs whose arguments are often code, which may give texts to a shell.
const INTERPRETERS: [&str; 18] = [
    "python", "pypy", "perl", "ruby", "node", "deno", "bun", "php", "lua", "luajit", "awk", "gawk", "mawk",
    "nawk", "tclsh", "expect", "Rscript", "julia",
];

/// The files that a program reads from the current folder without being told to. A version in the name does not count: `python3.12`.
pub(super) fn files_of(program: &str) -> impl Iterator<Item = &'static str> {
    let found = CONVENTIONAL.iter().filter(move |(programs, _)| is_one_of(program, programs));
    found.flat_map(|(_, files)| files.iter().copied())
}

/// The folders in which a program finds other programs.
pub(super) fn folders_of(program: &str) -> impl Iterator<Item = &'static str> {
    let found = LAUNCHED.iter().filter(move |(programs, _)| is_one_of(program, programs));
    found.map(|(_, folder)| *folder)
}

/// True for a shell.
pub(super) fn is_shell(program: &str) -> bool {
    is_one_of(program, &SHELLS)
}

/// True for an interpreter of a language that is no shell.
pub(super) fn is_interpreter(program: &str) -> bool {
    is_one_of(program, &INTERPRETERS)
}

fn is_one_of(program: &str, programs: &[&str]) -> bool {
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    programs.contains(&plain)
}
