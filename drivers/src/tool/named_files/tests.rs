//! Tests of the files that calls name.

use std::path::Path;

use ostler_kernel::port::{NAMED_TEXT_BYTES_MAX, NamedFile};

use super::*;

fn naming(argv: Vec<String>, stdin: Option<String>, cwd: Option<String>, root: &Path) -> Naming {
    let hidden = vec![root.join("hidden")];
    Naming { argv, stdin, cwd, written: vec![root.to_owned()], hidden }
}

pub(super) async fn names(root: &Path, argv: &[&str], cwd: Option<&str>) -> Vec<NamedFile> {
    let argv = argv.iter().map(ToString::to_string).collect();
    let cwd = cwd.map(str::to_owned);
    let naming = naming(argv, None, cwd, root);
    named_files(|| naming, root.into()).await
}

#[tokio::test]
async fn files_are_named_with_their_contents_and_only_below_the_workspace() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("work");
    std::fs::create_dir_all(root.join("lib")).expect("a folder");
    for (name, text) in
        [("work/Makefile", "all:\n"), ("work/lib/makefile", "lib:\n"), ("work/run.sh", "x"), ("out.sh", "y")]
    {
        std::fs::write(folder.path().join(name), text).expect("it is written");
    }
    std::os::unix::fs::symlink(folder.path().join("out.sh"), root.join("link.sh")).expect("a link");
    let paths = |files: Vec<NamedFile>| files.into_iter().map(|file| file.path).collect::<Vec<_>>();
    assert_eq!(paths(names(&root, &["make", "-C", "lib"], None).await), ["Makefile", "lib/makefile"]);
    assert_eq!(paths(names(&root, &["make"], Some("lib")).await), ["Makefile", "lib/makefile"]);
    assert_eq!(paths(names(&root, &["sh", "../run.sh"], Some("lib")).await), ["run.sh"]);
    let absolute = root.join("run.sh");
    let absolute = absolute.to_str().expect("UTF-8");
    assert_eq!(paths(names(&root, &["sh", "-c", &format!(". {absolute}")], None).await), ["run.sh"]);
    for outside in ["../out.sh", "/etc/passwd", "lib"] {
        assert_eq!(names(&root, &["cat", outside], None).await, [], "{outside}");
    }
    let fed = |text: &str| {
        let naming = naming(vec!["sh".to_owned()], Some(text.to_owned()), None, &root);
        || naming
    };
    std::fs::write(root.join("lib/own.sh"), "").expect("it is written");
    let code = "./run.sh\ncd lib; ./own.sh";
    assert_eq!(paths(named_files(fed(code), root.as_path().into()).await), ["lib/own.sh", "run.sh"]);
    let code = "./run.sh";
    for (blanks, named, why) in [
        (STDIN_BYTES_MAX - code.len(), "run.sh", None),
        (
            STDIN_BYTES_MAX,
            "standard input",
            Some("of more than 1 MiB: the files that it names are not looked for"),
        ),
    ] {
        let found = named_files(fed(&format!("{code}{}", " ".repeat(blanks))), root.as_path().into()).await;
        let found: Vec<_> = found.iter().map(|file| (&*file.path, file.unbound.as_deref())).collect();
        assert_eq!(found, [(named, why)]);
    }
    let before = names(&root, &["./run.sh"], None).await;
    assert_eq!((before[0].text.as_deref(), before[0].bytes), (Some("x"), 1));
    std::fs::write(root.join("run.sh"), "z".repeat(NAMED_TEXT_BYTES_MAX + 1)).expect("it is written");
    let after = names(&root, &["./run.sh"], None).await;
    assert_ne!(before[0].digest, after[0].digest);
    assert_eq!(after[0].text, None);
}

/// A link is the plan's to change, also one that no tool follows.
#[tokio::test]
async fn a_link_is_bound_to_what_a_program_finds_behind_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("work");
    std::fs::create_dir_all(root.join("lib")).expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    for name in ["out.sh", "more.sh", "work/in.sh", "work/lib/run.sh"] {
        write(name, "1");
    }
    let link = |target: &Path| {
        let _ = std::fs::remove_file(root.join("run.sh"));
        std::os::unix::fs::symlink(target, root.join("run.sh")).expect("a link");
    };
    let run = async || names(&root, &["sh", "run.sh"], None).await;
    link(&folder.path().join("out.sh"));
    let out = run().await;
    assert_eq!((&*out[0].path, out[0].text.as_deref()), ("run.sh", None), "what is outside is not shown");
    write("out.sh", "2");
    assert_eq!(run().await, out, "a file outside is not the plan's to change");
    link(&folder.path().join("more.sh"));
    assert_ne!(run().await, out);
    // An absolute link back into the workspace.
    link(&root.join("in.sh"));
    let within = run().await;
    assert_eq!(within[0].text.as_deref(), Some("1"));
    write("work/in.sh", "2");
    assert_ne!(run().await, within);
    std::fs::remove_file(root.join("run.sh")).expect("removed");
    std::os::unix::fs::symlink(root.join("lib"), root.join("linked")).expect("a link");
    let before = names(&root, &["make", "-C", "linked", "run.sh"], None).await;
    assert_eq!(before.iter().map(|file| &*file.path).collect::<Vec<_>>(), ["linked/run.sh"]);
    write("work/lib/run.sh", "2");
    assert_ne!(names(&root, &["make", "-C", "linked", "run.sh"], None).await, before);
}

#[tokio::test]
async fn what_programs_see_is_bound_also_where_no_tool_may_look() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for name in ["tools", "data/journal", "hidden"] {
        std::fs::create_dir_all(root.join(name)).expect("a folder");
    }
    for name in [
        "tools/ostler-operator.key",
        "tools/run.sh",
        "__main__.py",
        "data/format",
        "data/lock",
        "data/run.sh",
        "hidden/run.sh",
    ] {
        std::fs::write(root.join(name), "1").expect("it is written");
    }
    let paths = |found: &[NamedFile]| found.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
    let before = names(root, &["sh", "tools/run.sh"], None).await;
    assert_eq!(paths(&before), ["tools/run.sh"]);
    std::fs::write(root.join("tools/run.sh"), "22").expect("it is written");
    assert_ne!(names(root, &["sh", "tools/run.sh"], None).await, before);
    assert_eq!(paths(&names(root, &["python3", "."], None).await), ["__main__.py"]);
    let like_data = names(root, &["sh", "data/run.sh"], None).await;
    assert_eq!(paths(&like_data), ["data/run.sh"], "a folder that looks like a data folder");
    assert_eq!(like_data[0].text, None);
    assert_eq!(paths(&names(root, &["sh", "hidden/run.sh"], None).await), [""; 0]);
    for (cwd, named) in [("data", "data/run.sh"), ("tools", "tools/run.sh")] {
        let before = names(root, &["sh", "run.sh"], Some(cwd)).await;
        assert_eq!(paths(&before), [named], "the folder of a call that a step made look like another one");
        std::fs::write(root.join(named), "333").expect("it is written");
        assert_ne!(names(root, &["sh", "run.sh"], Some(cwd)).await, before);
    }
}

#[tokio::test]
async fn modules_are_found_in_the_folders_that_a_call_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    std::fs::create_dir_all(root.join("src/pkg")).expect("a folder");
    for file in ["tool.py", "src/tool.py", "src/pkg/__init__.py", "src/pkg/go.py"] {
        std::fs::write(root.join(file), "").expect("it is written");
    }
    for (argv, expected) in [
        (&["python3", "-m", "tool"][..], &["tool.py"][..]),
        (&["env", "PYTHONPATH=src", "python3", "-mtool"], &["src/tool.py", "tool.py"]),
        (&["env", "PYTHONPATH=src", "python3", "-m", "pkg.go"], &["src/pkg/__init__.py", "src/pkg/go.py"]),
        (&["python3", "-m", "other"], &[]),
    ] {
        let found = names(root, argv, None).await;
        assert_eq!(found.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), expected);
    }
}

/// Checks that the files of a call are other ones once a step has written another file.
pub(super) async fn check_binds(argv: &[&str], there: &[(&str, &str)], planted: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("work");
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text.replace("ROOT", root.to_str().expect("UTF-8"))).expect("written");
    };
    std::fs::create_dir(&root).expect("made");
    there.iter().for_each(|(name, text)| write(name, text));
    let before = names(&root, argv, None).await;
    assert_eq!(before, names(&root, argv, None).await, "{argv:?}: nothing changed");
    write(planted, "planted");
    assert_ne!(before, names(&root, argv, None).await, "{argv:?} is not bound to {planted}");
}

#[tokio::test]
async fn what_python_runs_in_the_place_of_a_source_is_bound_also_if_it_comes_later() {
    let tool = &[("tool.py", "1"), ("pkg/__init__.py", ""), ("pkg/tool.py", "2"), ("bare/tool.py", "3")][..];
    for (argv, planted) in [
        (&["python3", "-m", "tool"][..], "__pycache__/tool.cpython-311.pyc"),
        (&["python3", "-m", "tool"], "__pycache__/tool.cpython-311.opt-1.pyc"),
        (&["python3", "-m", "tool"], "tool.so"),
        (&["python3", "-m", "tool"], "tool.abi3.so"),
        (&["python3", "-m", "tool"], "tool.cpython-311-x86_64-linux-gnu.so"),
        (&["python3", "-m", "tool"], "tool/__init__.py"),
        (&["python3", "-m", "tool"], "tool/__init__.abi3.so"),
        (&["python3", "-m", "pkg.tool"], "pkg/__pycache__/__init__.cpython-311.pyc"),
        (&["python3", "-m", "pkg.tool"], "pkg/__pycache__/tool.cpython-311.pyc"),
        (&["python3", "-m", "pkg.tool"], "pkg/tool.pyc"),
        (&["python3", "-m", "bare.tool"], "bare.so"),
        (&["python3", "-m", "pkg"], "pkg/__pycache__/__main__.cpython-311.pyc"),
        (&["python3", "pkg"], "pkg/__main__.pyc"),
        (&["python3", "-c", "import tool"], "__pycache__/tool.cpython-311.pyc"),
        (&["uvicorn", "tool:app"], "__pycache__/tool.cpython-311.pyc"),
        (&["fastmcp", "run", "pkg/tool.py"], "pkg/__pycache__/tool.cpython-311.pyc"),
        (&["env", "PYTHONPATH=pkg", "python3", "-mtool"], "pkg/__pycache__/tool.cpython-311.pyc"),
        (&["pytest"], "__pycache__/conftest.cpython-311-pytest-8.3.4.pyc"),
        (&["pytest"], "conftest/__init__.py"),
        (&["python3", "-m", "pytest", "x"], "sitecustomize.so"),
    ] {
        check_binds(argv, tool, planted).await;
    }
}

#[tokio::test]
async fn programs_behind_launchers_and_first_lines_are_bound() {
    let there = &[
        ("bin/tool", ""),
        ("run", "#!/usr/bin/env -S ./interpreter x\n"),
        ("interpreter", "#!ROOT/below/last\n"),
        ("below/last", ""),
        (".venv/bin/tool", ""),
        ("node_modules/.bin/x", ""),
    ][..];
    for (argv, planted) in [
        (&["env", "PATH=bin:/usr/bin", "tool"][..], "bin/tool"),
        (&["sh", "-c", "PATH=./bin:$PATH; exec tool x"], "bin/tool"),
        (&["nice", "timeout", "5", "./run"], "interpreter"),
        (&["./run"], "below/last"),
        (&["sh", "-c", "exec ./run"], "below/last"),
        (&["npx", "tool"], "node_modules/.bin/tool"),
        (&["uv", "run", "tool"], ".venv/bin/tool"),
        (&["uv", "run", "tool"], ".venv/pyvenv.cfg"),
    ] {
        check_binds(argv, there, planted).await;
    }
}

#[tokio::test]
async fn files_in_folders_that_words_lead_to_one_by_one_are_bound() {
    let there = &[
        ("lib/deep/x", ""),
        ("q/x", ""),
        ("a/b/x", ""),
        ("lib/Cargo.toml", ""),
        ("deploy.sh", ""),
        ("f/o/u/r/x", ""),
    ][..];
    for (argv, planted) in [
        (&["sh", "-c", "cd lib && cd deep && sh x.sh"][..], "lib/deep/x.sh"),
        (&["sh", "-c", "cd lib; cd ../q; sh y.sh"], "q/y.sh"),
        (&["sh", "-c", "cd f; cd o; cd u; cd r; sh x.sh"], "f/o/u/r/x.sh"),
        (&["sh", "-c", "cd lib/deep && sh ../../q/y.sh"], "q/y.sh"),
        (&["sh", "-c", "cd lib && cd deep && cat *.sql"], "lib/deep/x.sql"),
        (&["make", "-C", "lib", "-C", "deep"], "lib/deep/Makefile"),
        (&["make", "-Clib", "-Cdeep"], "lib/deep/Makefile"),
        (&["env", "-C", "lib", "make", "-C", "deep"], "lib/deep/GNUmakefile"),
        (&["git", "-C", "lib", "-C", "deep", "status"], "lib/deep/.git/config"),
        (&["python3", "-c", "from a.b import c"], "a/b/c.py"),
        (&["python3", "-c", "from a.b import c"], "a/b/c.so"),
        (&["python3", "-c", "from a import b"], "a/b/__init__.py"),
        (&["sh", "-c", "cd l*b/deep && sh x.sh"], "lib/deep/x.sh"),
        (&["sh", "-c", "cd l*; cd deep; sh x.sh"], "lib/deep/x.sh"),
        (&["sh", "-c", "for d in lib; do cd $d/deep; sh x.sh; done"], "lib/deep/x.sh"),
        (&["sh", "-c", "for d in *; do cd $d; make; done"], "q/Makefile"),
        (&["sh", "-c", "for d in */; do git -C $d pull; done"], "q/.git/config"),
        (&["cargo", "build", "--manifest-path", "lib/Cargo.toml"], "lib/build.rs"),
        (&["sh", "-c", "sh [[:alpha:]]eploy.sh"], "deploy.sh"),
        (&["bash", "-O", "extglob", "-c", "sh d@(e)ploy.sh"], "deploy.sh"),
        (&["ksh", "-c", "sh +(d)eploy.sh"], "deploy.sh"),
        (&["zsh", "-c", "sh (deploy|x).sh"], "deploy.sh"),
        (&["bash", "-c", "sh $\"deploy\".sh"], "deploy.sh"),
        (&["python3", "-c", "import os; os.system(\"./de*.sh\")"], "deploy.sh"),
        (&["perl", "-e", "system(\"sh de*.sh\")"], "deploy.sh"),
        (&["awk", "BEGIN{system(\"./de*.sh\")}"], "deploy.sh"),
    ] {
        check_binds(argv, there, planted).await;
    }
}

#[tokio::test]
async fn names_with_spaces_and_patterns_are_bound() {
    let there = &[("my file.txt", ""), ("a.sh", ""), ("lib/b.sh", ""), ("lib/deep/c.sh", "")][..];
    for (argv, planted) in [
        (&["cat", "my file.txt"][..], "my file.txt"),
        (&["sh", "-c", "cat 'my file.txt' x"], "my file.txt"),
        (&["sh", "-c", "sh my\\ file.txt"], "my file.txt"),
        (&["sh", "-c", "cat *.sh | sh"], "a.sh"),
        (&["sh", "-c", "cat *.sh | sh"], "new.sh"),
        (&["sh", "-c", "cd lib && cat *.sh | sh"], "lib/new.sh"),
        (&["sh", "-c", "for f in l?b/*.sh; do sh $f; done"], "lib/new.sh"),
        (&["bash", "-c", "sh lib/$X.sh"], "lib/new.sh"),
        (&["bash", "-c", "sh {a,b}.sh"], "b.sh"),
        (&["tool", "**/*.sh"], "lib/deep/new.sh"),
        (&["tool", "lib/**"], "lib/deep/new"),
        (&["tool", "../work/l*/new"], "lib/new"),
        (&["tool", "lib/../*.sh"], "new.sh"),
        (&["sh", "../work/a.sh"], "a.sh"),
        // A pattern with a dot stands for the folder and the one above too, in some shells.
        (&["sh", "-c", "sh lib/.*/new.sh"], "new.sh"),
        (&["sh", "-c", "sh lib/.?/new.sh"], "new.sh"),
        (&["sh", "-c", "sh lib/.[.]/new.sh"], "new.sh"),
        (&["sh", "-c", "sh lib/.*/new.sh"], "lib/new.sh"),
    ] {
        check_binds(argv, there, planted).await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let write = |at: usize, text: &str| std::fs::write(folder.path().join(format!("{at}.txt")), text);
    (0..300).for_each(|at| write(at, "").expect("written"));
    let all = format!("{}/*.txt", folder.path().display());
    let name = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff.txt");
    let odd = folder.path().join::<&std::ffi::OsStr>(name);
    std::fs::write(&odd, "1").expect("written");
    let before = names(folder.path(), &["tool", "*.txt"], None).await;
    std::fs::write(&odd, "2").expect("written");
    assert_ne!(names(folder.path(), &["tool", "*.txt"], None).await, before, "a name that is no UTF-8");
    std::fs::remove_file(&odd).expect("removed");
    for pattern in ["*.txt", &all] {
        let before = names(folder.path(), &["tool", pattern], None).await;
        assert_eq!((before.len(), before[0].path.ends_with("*.txt")), (1, true), "too many for one by one");
        write(299, pattern).expect("written");
        assert_ne!(names(folder.path(), &["tool", pattern], None).await, before);
    }
}

#[tokio::test]
async fn what_programs_read_by_convention_counts_where_a_step_may_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().canonicalize().expect("a path");
    for name in ["package.json", "work/package.json", "work/lib/package.json", "other/package.json"] {
        std::fs::create_dir_all(place.join(name).parent().expect("a folder")).expect("made");
        std::fs::write(place.join(name), "").expect("written");
    }
    let other = place.join("other").display().to_string();
    let naming = Naming {
        argv: ["npx".to_owned(), other].to_vec(),
        stdin: None,
        cwd: place.join("work/lib").to_str().map(str::to_owned),
        written: vec![place.join("work")],
        hidden: Vec::new(),
    };
    let found = named_files(|| naming, Path::new("/").into()).await;
    let found: Vec<PathBuf> = found.iter().map(|file| Path::new("/").join(&file.path)).collect();
    let expected = ["other/package.json", "work/lib/package.json", "work/package.json"];
    assert_eq!(found, expected.map(|name| place.join(name)));
}

#[tokio::test]
async fn what_lies_around_a_folder_behind_a_link_counts_where_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    for name in ["x.sh", "a/x.sh", "a/Makefile", "a/package.json", "a/.git/hooks/pre-commit", "a/.git/HEAD"] {
        std::fs::create_dir_all(root.join(name).parent().expect("a folder")).expect("made");
        std::fs::write(root.join(name), "").expect("written");
    }
    std::fs::create_dir_all(root.join("a/b")).expect("made");
    std::os::unix::fs::symlink("a/b", root.join("lib")).expect("a link");
    for (argv, cwd, expected) in [
        (&["sh", "-c", "cd lib && sh ../x.sh"][..], None, "a/x.sh"),
        (&["env", "-C", "lib", "sh", "../x.sh"], None, "a/x.sh"),
        (&["sh", "-c", "sh l*/../x.sh"], None, "a/x.sh"),
        (&["make", "-C", "lib", "-f", "../Makefile"], None, "a/Makefile"),
        (&["npm", "test"], Some("lib"), "a/package.json"),
        (&["git", "commit"], Some("lib"), "a/.git/hooks/pre-commit"),
    ] {
        let found = names(&root, argv, cwd).await;
        let is_there = found.iter().any(|file| file.path == expected && file.unbound.is_none());
        assert!(is_there, "{argv:?}: {:?}", found.iter().map(|file| &file.path).collect::<Vec<_>>());
    }
}
