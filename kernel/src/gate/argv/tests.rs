use super::*;

const READ: ArgvClass = ArgvClass { impact: 0, effect: Effect::Read };
const PURE: ArgvClass = ArgvClass { impact: 0, effect: Effect::None };

fn check(line: &str, expected: ArgvClass) {
    let argv: Vec<&str> = line.split(' ').collect();
    assert_eq!(ArgvTable::read_only().classify(&argv), expected, "{line}");
}

#[test]
fn what_only_looks_is_listed() {
    for line in [
        "git log",
        "git log --oneline -n 5",
        "git log -5 --stat main..dev -- src",
        "git log -n123456789",
        "git log --format=%H -1",
        "git log -S needle --since=yesterday",
        "git log --grep=",
        "git status",
        "git status --porcelain=v2 -b",
        "git diff",
        "git diff --cached --stat HEAD~1 -- a b",
        "git diff -U3 --no-ext-diff",
        "git show HEAD:README.md",
        "git show --stat --format=%s HEAD",
        "git rev-parse --short HEAD",
        "git ls-files -z",
        "git blame -L 1,10 src/main.rs",
        "git shortlog -sne HEAD",
        "git --version",
        "git branch --show-current",
        "ls",
        "ls -la",
        "ls -lahR /tmp",
        "ls -- -x",
        "cat a b",
        "cat -n a",
        "cat -",
        "wc -l a",
        "uname -a",
        "date",
        "date -u +%Y-%m-%dT%H:%M:%SZ",
        "date --date=yesterday +%F",
        "pwd",
        "head -n 5 a",
        "head -5 a",
        "head -c 100 a",
        "tail -n 20 a",
        "tail -n5 a",
        "sort -rn a",
        "sort -k 2 -t : a",
        "uniq -c a",
        "file -b a",
        "file -",
        "stat -c %s a",
        "du -sh .",
        "df -h",
        "grep -rn needle src",
        "grep -e a -A 3 --include=*.rs .",
        "find . -type f -name *.rs",
        "find . -maxdepth 2 -not -path */x/* -print",
    ] {
        check(line, READ);
    }
    // A pause is the effect of `sleep`: a recorded result would not pause.
    check("sleep 0.5", READ);
    for line in ["true", "false", "echo a b", "echo -n -e --x"] {
        check(line, PURE);
    }
}

const UNLISTED_CALLS: &[&str] = &[
    "",
    "rm -rf /",
    "sh -c ls",
    "bash",
    "/bin/ls",
    "./ls",
    "LS",
    "env ls",
    "ls --unknown",
    "xargs ls",
    "git",
    "git push",
    "git commit -m x",
    "git -c core.pager=sh log",
    "git -C /x log",
    "git --git-dir=x log",
    "git --exec-path=x log",
    "git -p log",
    "git --paginate log",
    "git log --output=x",
    "git log --output x",
    "git log --outpu=x",
    "git log --ext-diff",
    "git log --textconv",
    "git log -p --ext-diff",
    "git log -O x",
    "git log --show-signature",
    "git log --format=%G?",
    "git log --pretty=format:%GS",
    "git show --format=%GK",
    "git log -n",
    "git log -n1234567890",
    "git diff --output=x",
    "git diff --ext-diff",
    "git diff --textconv",
    "git diff -o x",
    "git show --ext-diff",
    "git show --output=x",
    "git status --x",
    "git grep -O sh x",
    "git grep --open-files-in-pager x",
    "git branch new",
    "git branch -D main",
    "git branch --list -D",
    "git rev-parse --parseopt",
    "git blame --contents x a",
    "git ls-remote --upload-pack=sh x",
    "git fetch --upload-pack sh",
    "git archive --exec=sh",
    "git bisect run sh",
    "git diff --no-index a b",
    "git stash",
    "git stash drop",
    "git remote add x y",
    "git tag v1",
    "git config --get x",
    "git log --oneline\u{0}--output=x",
    "sort -o out in",
    "sort -oout in",
    "sort -no out in",
    "sort --output=out in",
    "sort --outp=out in",
    "sort --compress-program=sh in",
    "sort --compress-program sh in",
    "sort -T /x in",
    "sort --files0-from=x",
    "sort -k",
    "uniq in out",
    "uniq -- in out",
    "uniq -- -- out",
    "date -s x",
    "date --set=x",
    "date --set x",
    "date 010100002030",
    "date -us x",
    "date -u 010100002030",
    "date +%Y 010100002030",
    "date -f x",
    "find . -delete",
    "find . -exec rm",
    "find . -execdir rm",
    "find . -ok rm",
    "find . -okdir rm",
    "find . -fprint x",
    "find . -fprint0 x",
    "find . -fprintf x y",
    "find . -fls x",
    "find -- . -delete",
    "find . -- -delete",
    "find . -name x -delete",
    "find . -files0-from x",
    "find . -name",
    "tail -f a",
    "tail -F a",
    "tail --follow a",
    "tail -nf a",
    "tail -5f a",
    "tail --pid=1 a",
    "file -C -m x",
    "file -m x a",
    "file -f x",
    "file -p a",
    "file -z a",
    "stat --unknown a",
    "stat",
    "uname -S x",
    "uname x",
    "uname -",
    "df --sync",
    "du --files0-from=x",
    "wc --files0-from=x",
    "pwd x",
    "sleep",
    "sleep inf",
    "sleep 1 2",
    "sleep -- -1",
    "cat --x",
    "head -n",
    "head --lines",
    "grep",
    "grep --unknown x",
];

#[test]
fn what_could_act_is_not() {
    for line in UNLISTED_CALLS {
        check(line, UNLISTED);
    }
    assert_eq!(ArgvTable::read_only().classify::<&str>(&[]), UNLISTED);
}

#[test]
fn a_pattern_compares_each_element_whole() {
    let pattern = |argv: &[&str], impact, effect| ArgvPattern {
        argv: argv.iter().map(|&element| element.to_owned()).collect(),
        impact,
        effect,
    };
    let table = ArgvTable::read_only()
        .with_patterns([
            pattern(&["cargo", "metadata", "*"], 0, Effect::Read),
            pattern(&["cargo", "test"], 1, Effect::Write),
            pattern(&["ls", "*"], 1, Effect::External),
            pattern(&["ls", "-l"], 0, Effect::Read),
        ])
        .unwrap();
    for (argv, impact) in [
        (vec!["cargo", "metadata"], 0),
        (vec!["cargo", "metadata", "--x", "y"], 0),
        (vec!["cargo", "metadata2"], 2),
        (vec!["cargo"], 2),
        (vec!["cargo", "test"], 1),
        (vec!["cargo", "test", "x"], 2),
        (vec!["ls", "-l"], 1),
    ] {
        assert_eq!(table.classify(&argv).impact, impact, "{argv:?}");
    }
    let control = [pattern(&["reboot"], 2, Effect::External)];
    let table = ArgvTable::default().with_patterns(control).unwrap();
    assert_eq!((table.listed(&["reboot"]), table.listed(&["halt"])), (Some(UNLISTED), None));
    for bad in [
        pattern(&[], 0, Effect::Read),
        pattern(&["*"], 0, Effect::Read),
        pattern(&["", "x"], 0, Effect::Read),
        pattern(&["a", "*", "b"], 0, Effect::Read),
        pattern(&["a"], 0, Effect::Write),
        pattern(&["a"], 1, Effect::Read),
        pattern(&["a"], 3, Effect::External),
    ] {
        assert!(ArgvTable::default().with_patterns([bad.clone()]).is_err(), "{bad:?}");
    }
}

#[test]
fn a_malformed_table_is_refused() {
    for json in [
        "[]",
        r#"{"a": {"flags": []}}"#,
        r#"{"a": {"impact": 0, "flag": []}}"#,
        r#"{"a": {"impact": 3}}"#,
        r#"{"a": {"sub": {"b": {"impact": 0, "effect": "external"}}}}"#,
    ] {
        assert!(ArgvTable::from_programs(json).is_err(), "{json}");
    }
}
