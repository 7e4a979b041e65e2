//! Tests of what is told about why a file is listed: a grant leaves only files free that are there for a word alone.

use std::path::Path;

use super::tests::names;

/// Checks which files of a call are there for a word alone, in a folder with these files.
async fn check(there: &[(&str, &str)], argv: &[&str], expected: &[(&str, bool)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for (name, text) in there {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        match text.strip_prefix("-> ") {
            Some(target) => std::os::unix::fs::symlink(target, path).expect("a link"),
            None => std::fs::write(path, text).expect("written"),
        }
    }
    let found = names(root, argv, None).await;
    let found: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.by_word)).collect();
    assert_eq!(found, expected, "{argv:?}");
    let absolute: Vec<&str> = argv.iter().copied().chain([root.to_str().expect("UTF-8")]).collect();
    let again = names(Path::new(root), &absolute, None).await;
    assert!(again.iter().all(|file| found.contains(&(&*file.path, file.by_word))), "{absolute:?}");
}

#[tokio::test]
async fn a_file_is_there_for_a_word_alone_unless_something_else_leads_to_it() {
    let hooks = &[(".git/config", "[core]\n\thooksPath = hk\n"), ("hk/pre-commit", "")][..];
    let commit = &[(".git/config", false), ("hk/pre-commit", false)][..];
    check(hooks, &["git", "commit", "-m", "hk/pre-commit"], commit).await;
    check(hooks, &["git", "commit", "-m", "./hk/pre-commit"], commit).await;
    for (argv, name) in [
        (&["cargo", "test", ".cargo/config.toml"][..], ".cargo/config.toml"),
        (&["npm", "test", ".npmrc"], ".npmrc"),
        (&["make", "GNUmakefile"], "GNUmakefile"),
        (&["python3", "-m", "pytest", "--deselect", "conftest.py"], "conftest.py"),
        (&["python3", "-m", "tool", "tool.py"], "tool.py"),
        (&["node", "server", "server/index.js"], "server/index.js"),
        (&["sh", "-c", "cat *.sql", "x.sql"], "x.sql"),
        (&["sh", "-c", "cd lib && sh x.sh", "lib/x.sh"], "lib/x.sh"),
        (&["npx", "tool", "node_modules/.bin/tool"], "node_modules/.bin/tool"),
    ] {
        check(&[(name, "")], argv, &[(name, false)]).await;
    }
    for (argv, name) in [
        (&["sh", "run.sh"][..], "run.sh"),
        (&["git", "add", "lib/a b.txt"], "lib/a b.txt"),
        (&["cargo", "test", "--", "./tests/x.txt"], "tests/x.txt"),
        (&["python3", "tool.py"], "tool.py"),
        (&["make", "--file=build.mk"], "build.mk"),
    ] {
        check(&[(name, "")], argv, &[(name, true)]).await;
    }
}

#[tokio::test]
async fn a_file_to_which_another_one_leads_is_not_there_for_its_word_alone() {
    let there = &[("run", "#!./b.sh\n"), ("b.sh", "")][..];
    check(there, &["./run", "b.sh"], &[("b.sh", false), ("run", true)]).await;
    let there = &[(".git/config", "[include]\n\tpath = ../more.cfg\n"), ("more.cfg", "")][..];
    check(there, &["git", "add", "more.cfg"], &[(".git/config", false), ("more.cfg", false)]).await;
    let there = &[("tool.py", ""), ("tool.so", ""), ("__pycache__/tool.cpython-311.pyc", "")][..];
    let expected = &[("__pycache__/tool.cpython-311.pyc", false), ("tool.py", true), ("tool.so", false)][..];
    check(there, &["python3", "tool.py"], expected).await;
    // The system goes up from where the link leads.
    let there = &[("a/b/x", ""), ("a/run.sh", ""), ("run.sh", ""), ("l", "-> a/b")][..];
    let expected = &[("a/run.sh", false), ("run.sh", true)][..];
    check(there, &["sh", "l/../run.sh", "a/run.sh"], expected).await;
}

/// A name that is no UTF-8 is shown with escapes, and a step can give another file a name that reads like that.
#[tokio::test]
async fn files_whose_names_are_shown_alike_are_bound_both() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().expect("a folder");
    let places =
        [&b"\xff.sh"[..], b"\"\\xFF.sh\""].map(|name| folder.path().join(std::ffi::OsStr::from_bytes(name)));
    places.iter().for_each(|place| std::fs::write(place, "1").expect("written"));
    for place in &places {
        let before = names(folder.path(), &["sh", "-c", "cat *.sh* | sh"], None).await;
        assert_eq!(before.len(), 2, "{before:?}");
        std::fs::write(place, "2").expect("written");
        assert_ne!(names(folder.path(), &["sh", "-c", "cat *.sh* | sh"], None).await, before, "{place:?}");
    }
}
