//! Tests of places whose path without links is longer than any that the system opens, and of longer words for near ones.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::tests::names;

/// A name of 250 bytes.
fn long(letter: &str) -> String {
    letter.repeat(250)
}

/// Makes a folder behind two links, `l1/l2`, that lies deeper than the longest path.
fn make_deep(root: &Path) -> PathBuf {
    let [first, second] = ["a", "b"].map(|letter| vec![long(letter); 9].join("/"));
    std::fs::create_dir_all(root.join(&first)).expect("made");
    symlink(&first, root.join("l1")).expect("a link");
    std::fs::create_dir_all(root.join("l1").join(&second)).expect("made");
    symlink(&second, root.join("l1/l2")).expect("a link");
    root.join("l1/l2")
}

#[tokio::test]
async fn a_file_that_lies_deeper_than_any_path_names_is_not_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let deep = make_deep(root);
    for name in ["deploy.sh", "Makefile", "tool", "__main__.py", "pre-commit"] {
        std::fs::write(deep.join(name), "").expect("written");
    }
    for (link, target) in [
        ("run.sh", "l1/l2/deploy.sh"),
        ("pkg", "l1/l2"),
        ("node_modules/.bin", "../l1/l2"),
        (".git/hooks", "../l1/l2"),
    ] {
        std::fs::create_dir_all(root.join(link).parent().expect("a folder")).expect("made");
        symlink(target, root.join(link)).expect("a link");
    }
    for argv in [
        &["sh", "l1/l2/deploy.sh"][..],
        &["sh", "run.sh"],
        &["sh", "-c", "cd l1/l2 && sh deploy.sh"],
        &["sh", "-c", "cd l1; cd l2; sh deploy.sh"],
        &["sh", "-c", "sh l1/l2/*.sh"],
        &["sh", "-c", "cat l1/**/*.sh"],
        &["sh", "-c", "for d in l1/*; do sh $d/deploy.sh; done"],
        &["make", "-C", "l1/l2"],
        &["python3", "-m", "pkg"],
        &["npx", "tool"],
        &["git", "commit"],
    ] {
        let found = names(root, argv, None).await;
        let why = found.iter().find_map(|file| file.unbound.as_deref());
        assert_eq!(why, Some("lies deeper than any path names"), "{argv:?}");
    }
    for argv in [
        &["sh", "-c", "sh missing/deploy.sh"][..],
        &["sh", &format!("missing/{}", vec![long("m"); 16].join("/"))],
        &["sh", &"m".repeat(4_000)],
        &["sh", &format!("l1/{}/x", "m".repeat(2_000))],
    ] {
        assert_eq!(names(root, argv, None).await, [], "{argv:?}: nothing is there, nor can be");
    }
}

#[tokio::test]
async fn a_file_is_bound_also_if_the_words_for_its_place_are_longer_than_any_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let link = "l".repeat(255);
    for at in 1..=16 {
        std::fs::create_dir(root.join(format!("n{at}"))).expect("made");
        let (from, to) = match at {
            1 => (root.join(&link), "n1".to_owned()),
            _ => (root.join(format!("n{}", at - 1)).join(&link), format!("../n{at}")),
        };
        symlink(to, from).expect("a link");
    }
    let way = |links: usize| vec![&*link; links].join("/");
    let below = long("m");
    for file in ["n16/sub/x.sh", &format!("n15/{below}/x.sql")] {
        std::fs::create_dir_all(root.join(file).parent().expect("a folder")).expect("made");
        std::fs::write(root.join(file), "1").expect("written");
    }
    for (argv, file) in [
        (["sh", "-c", &format!("cd {}; cd {}/sub; sh x.sh", way(8), way(8))], "n16/sub/x.sh"),
        (["sh", "-c", &format!("cat {}/**/*.sql", way(15))], &format!("n15/{below}/x.sql")),
    ] {
        let before = names(root, &argv, None).await;
        assert_eq!(before, names(root, &argv, None).await);
        std::fs::write(root.join(file), "22").expect("written");
        assert_ne!(before, names(root, &argv, None).await, "{file}");
    }
}
