//! Tests of what git goes by.

use super::git::SETTINGS_BYTES_MAX;
use super::tests::{check_binds, names};

#[tokio::test]
async fn what_git_goes_by_is_named_also_from_a_folder_below_and_its_text_is_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    std::fs::create_dir_all(root.join(".git/hooks")).expect("a folder");
    std::fs::create_dir_all(root.join("lib")).expect("a folder");
    for name in [".git/config", ".git/hooks/pre-push", ".git/HEAD", ".gitattributes"] {
        std::fs::write(root.join(name), "secret").expect("it is written");
    }
    let named = names(root, &["git", "push"], Some("lib")).await;
    let told: Vec<_> = named.iter().map(|file| (file.path.as_str(), file.text.is_some())).collect();
    let expected = [(".git/config", false), (".git/hooks/pre-push", true), (".gitattributes", true)];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn repositories_of_submodules_and_worktrees_are_bound() {
    let there = &[
        (
            ".git/config",
            "[core]\n\thooksPath = .hooks/_\n[alias]\n\tx = !tools/x.sh\n[include]\n\tpath = ../more.cfg\n",
        ),
        (".git/modules/libs/sub/config", "[alias]\n\ty = !./y.sh\n"),
        (".git/modules/libs/sub/HEAD", ""),
        (".git/hooks/pre-push.sample", ""),
        (".gitmodules", "[submodule \"sub\"]\n\tpath = libs/sub\n"),
        ("libs/sub/.git", "gitdir: ../../.git/modules/libs/sub\n"),
        ("libs/sub/y.sh", ""),
        ("tree/.git", "gitdir: ../.git/worktrees/tree"),
        (".git/worktrees/tree/commondir", "../..\n"),
        ("bare.git/objects/x", ""),
        ("bare.git/refs/x", ""),
        ("more.cfg", ""),
        (".hooks/_/pre-push", ""),
        ("tools/x.sh", ""),
    ][..];
    for (argv, planted) in [
        (&["git", "push"][..], ".git/hooks/post-checkout"),
        (&["git", "rebase", "--continue"], ".git/rebase-merge/git-rebase-todo"),
        (&["git", "cherry-pick", "--continue"], ".git/sequencer/todo"),
        (&["git", "push"], ".hooks/_/pre-commit"),
        (&["git", "push"], ".hooks/pre-commit"),
        (&["git", "x"], "tools/x.sh"),
        (&["git", "status"], "more.cfg"),
        (&["git", "status"], ".git/modules/libs/sub/config"),
        (&["git", "fetch"], ".git/modules/libs/sub/hooks/post-merge"),
        (&["git", "submodule", "update"], "libs/sub/.git"),
        (&["git", "-C", "libs/sub", "status"], ".git/modules/libs/sub/config"),
        (&["sh", "-c", "cd tree && git status"], ".git/worktrees/tree/config.worktree"),
        (&["sh", "-c", "cd tree && git status"], "tree/.git"),
        (&["git", "-C", "tree", "status"], ".git/worktrees/tree/commondir"),
        (&["git", "--git-dir=bare.git", "log"], "bare.git/config"),
        (&["git", "--git-dir", "bare.git", "gc"], "bare.git/hooks/pre-auto-gc"),
    ] {
        check_binds(argv, there, planted).await;
    }
    // Data of a repository and its branches are not what git goes by.
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("config", "[branch \"main\"]\n\tmerge = refs/heads/main\n"),
        ("refs/heads/main", "1"),
        ("objects/x", ""),
    ] {
        let path = folder.path().join(".git").join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let named = names(folder.path(), &["git", "push"], None).await;
    assert_eq!(
        named.iter().map(|file| (&*file.path, file.text.is_some())).collect::<Vec<_>>(),
        [(".git/config", false)]
    );
}

#[tokio::test]
async fn hooks_are_bound_however_settings_name_them() {
    let long = format!("[core]\n#{}\n\thooksPath = hk\n", " ".repeat(64 << 10));
    for config in [
        "[core]\n\thooksPath = hk\n",
        "[core] hooksPath = hk",
        "[core]\n\thooksPath = hk ; comment\n",
        "[core]\n\thooksPath = h\"k\"\n",
        "[core]\n\thooksPath = h\\\nk\n",
        "[core]\n\tx = ü\n\thooksPath = hk\n",
        "[core]\n\tworktree = ../tree\n\thooksPath = ../hk\n",
        "[include] path = ../more.cfg\n",
        "[includeIf \"gitdir:**\"]\n\tpath = \"../more.cfg\"\n",
        "[include] path = a.cfg",
        &long,
    ] {
        let there = &[
            (".git/config", config),
            (".git/a.cfg", "[include] path = b.cfg"),
            (".git/b.cfg", "[include] path = a.cfg\n[include] path = ../more.cfg"),
            ("more.cfg", "[core] hooksPath = hk"),
            ("tree/x", ""),
            ("hk/pre-commit", ""),
        ];
        check_binds(&["git", "commit"], there, "hk/pre-commit").await;
        check_binds(&["git", "commit"], there, "hk/post-commit").await;
    }
    for (argv, planted) in [
        (&["git", "add", "a"][..], ".gitconfig"),
        (&["git", "add", "a"], ".config/git/config"),
        (&["git", "-C", "proj", "add", "a"], ".config/git/attributes"),
        (&["git", "-C", "proj", "add", "a"], "proj/h/pre-commit"),
        (&["git", "-C", "proj", "add", "a"], "monitor.sh"),
        (&["env", "HOME=home", "git", "add", "a"], "home/.gitconfig"),
    ] {
        let there = &[
            (".config/git/config", "[core] hooksPath = h"),
            (".gitconfig", "[core] fsmonitor = ROOT/monitor.sh"),
            ("proj/h/x", ""),
            ("home/x", ""),
        ];
        check_binds(argv, there, planted).await;
    }
    for (argv, config, planted) in [
        (&["git", "x"][..], "[alias] x = \"!sh run now\"", "run"),
        (&["git", "fetch"], "[url \"./up.sh\"] insteadOf = x", "up.sh"),
        (
            &["git", "--git-dir=bare", "--work-tree=tree", "commit"],
            "[core] hooksPath = hk",
            "tree/hk/pre-commit",
        ),
    ] {
        let there = &[
            (".git/config", config),
            ("bare/config", config),
            ("bare/objects/x", ""),
            ("bare/refs/x", ""),
            ("tree/hk/x", ""),
        ];
        check_binds(argv, there, planted).await;
    }
}

#[tokio::test]
async fn settings_that_are_not_read_to_their_end_bind_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    std::fs::create_dir_all(root.join(".git")).expect("a folder");
    let why = async || names(root, &["git", "commit"], None).await.into_iter().find_map(|file| file.unbound);
    let write = |text: &[u8]| std::fs::write(root.join(".git/config"), text).expect("written");
    write(&vec![b'#'; SETTINGS_BYTES_MAX]);
    assert_eq!(why().await, None);
    write(&vec![b'#'; SETTINGS_BYTES_MAX + 1]);
    assert!(why().await.is_some_and(|why| why.starts_with("is too long: ")));
    write(b"[core] hooksPath = h\xffk");
    assert!(why().await.is_some_and(|why| why.contains("UTF-8")));
}
