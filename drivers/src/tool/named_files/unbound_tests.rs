//! Tests of names that nothing can be bound to, and of files that change without a trace in their times.

use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use ostler_kernel::port::NamedFile;

use super::content::Reader;
use super::*;
use crate::tool::blocking_tool::CancelFlag;
use crate::tool::workspace::CHUNK_BYTES;

async fn names(root: &Path, argv: &[&str], written: &[&Path]) -> Vec<NamedFile> {
    let naming = Naming {
        argv: argv.iter().map(ToString::to_string).collect(),
        stdin: None,
        cwd: None,
        written: std::iter::once(root).chain(written.iter().copied()).map(Path::to_owned).collect(),
        hidden: Vec::new(),
    };
    named_files(|| naming, root.into()).await
}

/// The reason for which nothing is bound to the only file of a call.
async fn why(root: &Path, argv: &[&str]) -> Option<String> {
    let (one, other) = (names(root, argv, &[]).await, names(root, argv, &[]).await);
    let unbound: Vec<&NamedFile> = one.iter().filter(|file| file.unbound.is_some()).collect();
    let is_equal = one == other;
    assert_eq!(is_equal, unbound.is_empty(), "{argv:?}: each look at an unbound file gives another digest");
    unbound.first().and_then(|file| file.unbound.clone())
}

#[tokio::test]
async fn a_name_that_leads_through_the_folder_of_a_process_is_not_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for name in ["sub", "lib", "node_modules/.bin"] {
        std::fs::create_dir_all(root.join(name)).expect("a folder");
    }
    std::fs::write(root.join("x.sh"), "").expect("written");
    for (link, target) in [
        ("sub/deploy.sh", "/proc/self/cwd/x.sh"),
        ("cwd", "/proc/thread-self/cwd"),
        ("lib/Makefile", "/dev/fd/9"),
        ("node_modules/.bin/tool", "/proc/self/root/no"),
        ("plain", "x.sh"),
    ] {
        symlink(target, root.join(link)).expect("a link");
    }
    for argv in [
        &["sh", "sub/deploy.sh"][..],
        &["sh", "cwd/x.sh"],
        &["make", "-C", "cwd"],
        &["make", "-C", "lib"],
        &["npx", "tool"],
        &["sh", "-c", "sh s*/deploy.sh"],
        &["sh", "-c", "sh c?d/x.sh"],
        &["sh", "/proc/self/cwd/x.sh"],
        &["sh", "/dev/fd/9"],
        &["sh", "/dev/stdin"],
        &["sh", "/proc/4000000/cwd/x.sh"],
        &["sh", "-c", ". /proc/$PPID/cwd/x.sh"],
    ] {
        let why = why(root, argv).await;
        assert!(why.as_ref().is_some_and(|why| why.contains("/proc")), "{argv:?}: {why:?}");
    }
    for argv in
        [&["sh", "plain"][..], &["sh", "-c", "sh x.sh 2>/dev/null >/dev/stderr"], &["cat", "/proc/cpuinfo"]]
    {
        assert_eq!(why(root, argv).await, None, "{argv:?}");
    }
}

#[tokio::test]
async fn a_pipe_and_a_socket_in_the_place_of_a_file_are_not_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), mode).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).expect("a socket");
    symlink("pipe", root.join("run.sh")).expect("a link");
    symlink("/dev/null", root.join("nothing")).expect("a link");
    let is = |what: &str| Some(format!("is {what}: its content is not bound"));
    assert_eq!(why(root, &["sh", "run.sh"]).await, is("a pipe"));
    assert_eq!(why(root, &["sh", "socket"]).await, is("a socket"));
    assert_eq!(why(root, &["sh", "nothing"]).await, None, "a device outside is bound by its place");
}

#[tokio::test]
async fn a_file_with_a_lease_of_another_program_is_not_bound_by_its_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    std::fs::write(root.join("run.sh"), "1").expect("written");
    let mut lease = std::process::Command::new("python3");
    let code = "import fcntl, os, signal\n\
        signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
        fcntl.fcntl(os.open('run.sh', os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
        print('held', flush=True)\n\
        signal.pause()";
    lease.args(["-c", code]).current_dir(root).stdout(std::process::Stdio::piped());
    let mut holder = lease.spawn().expect("python3 starts");
    let mut said = [0; 4];
    std::io::Read::read_exact(holder.stdout.as_mut().expect("a pipe"), &mut said)
        .expect("it holds the lease");
    let told = why(root, &["sh", "run.sh"]).await;
    holder.kill().and_then(|()| holder.wait()).expect("it ends");
    assert!(told.as_ref().is_some_and(|why| why.starts_with("cannot be looked at now: ")), "{told:?}");
    assert_eq!(why(root, &["sh", "run.sh"]).await, None);
}

#[tokio::test]
async fn a_file_that_is_too_long_or_without_permission_is_not_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    std::fs::write(root.join("run.sh"), "").expect("written");
    let closed = root.join("closed.sh");
    std::fs::write(&closed, "").expect("written");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o0)).expect("closed");
    // A file without blocks is long at no cost.
    let long = std::fs::File::create(root.join("long")).expect("created");
    long.set_len(NAMED_FILES_BYTES_MAX + 1).expect("it has holes");
    let told = why(root, &["sh", "run.sh", "long"]).await;
    assert!(told.as_ref().is_some_and(|why| why.starts_with("is too long: ")), "{told:?}");
    // Root reads every file.
    let told = why(root, &["sh", "closed.sh"]).await;
    match std::fs::File::open(&closed) {
        Ok(_) => assert_eq!(told, None),
        Err(_) => assert!(told.is_some_and(|why| why.starts_with("cannot be looked at now: "))),
    }
}

#[tokio::test]
async fn a_file_behind_many_links_is_not_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    // The folder of the call may be behind links that the program has left behind.
    std::fs::create_dir(root.join("sub")).expect("made");
    symlink("sub", root.join("l0")).expect("a link");
    (1..40).for_each(|at| symlink(format!("l{}", at - 1), root.join(format!("l{at}"))).expect("a link"));
    std::fs::write(root.join("sub/real.sh"), "").expect("written");
    symlink("real.sh", root.join("sub/deploy.sh")).expect("a link");
    let too_far = Some("leads through more links or folders than are followed");
    assert_eq!(why(root, &["sh", "l39/deploy.sh"]).await.as_deref(), too_far);
    assert_eq!(why(root, &["sh", "l0/deploy.sh"]).await, None);
}

#[tokio::test]
async fn a_call_with_endless_places_is_not_bound_and_the_look_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    ["x", "y"].iter().for_each(|link| symlink(".", root.join(link)).expect("a link"));
    let endless = format!("cat {}", "*/".repeat(35));
    let patterns: Vec<String> = (0..40).map(|at| format!("{endless}*{at}")).collect();
    let told = why(root, &["sh", "-c", &patterns.join(" ")]).await;
    assert_eq!(told.as_deref(), Some("has more to look at than 500000 names"));
}

#[tokio::test]
async fn what_is_not_looked_through_to_its_end_is_not_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let deep: std::path::PathBuf = std::iter::repeat_n("d", 40).collect();
    std::fs::create_dir_all(root.join("deep").join(deep)).expect("made");
    let told = why(root, &["sh", "-c", "cat deep/**/*.sql"]).await;
    assert_eq!(told.as_deref(), Some("lies deeper than 32 folders"));
    std::fs::create_dir(root.join("wide")).expect("made");
    // Links of one file are made faster than files.
    std::fs::write(root.join("wide/0"), "").expect("written");
    for at in 1..=super::search::LISTED_MAX {
        let kept = at % 30_000;
        let (of, to) = (root.join(format!("wide/{}", at - kept)), root.join(format!("wide/{at}")));
        match kept {
            0 => std::fs::write(to, "").expect("written"),
            _ => std::fs::hard_link(of, to).expect("linked"),
        }
    }
    let told = why(root, &["sh", "-c", "cat wide/*.sql"]).await;
    assert_eq!(told.as_deref(), Some("has, with the folders before it, more entries than 100000"));
}

#[tokio::test]
async fn many_files_of_a_pattern_are_bound_by_their_contents() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    (0..300).for_each(|at| std::fs::write(root.join(format!("{at}.txt")), "1").expect("written"));
    let before = names(root, &["tool", "*.txt"], &[]).await;
    let changed = std::fs::File::options().write(true).open(root.join("7.txt")).expect("it opens");
    let times = changed.metadata().and_then(|meta| meta.modified()).expect("it has times");
    changed.write_at(b"2", 0).expect("written");
    changed.set_modified(times).expect("set back");
    let after = names(root, &["tool", "*.txt"], &[]).await;
    assert_eq!((before.len(), before[0].bytes, after[0].bytes), (1, 300, 300));
    assert_ne!(before, after);
    changed.write_at(b"1", 0).expect("written");
    assert_eq!(names(root, &["tool", "*.txt"], &[]).await, before, "contents, not times");
}

#[tokio::test]
async fn files_in_further_folders_that_steps_may_write_are_bound_by_their_contents() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().canonicalize().expect("a path");
    let (root, cache, other) = (place.join("work"), place.join("cache"), place.join("other"));
    [&root, &cache, &other].into_iter().for_each(|folder| std::fs::create_dir(folder).expect("made"));
    symlink(cache.join("run.sh"), root.join("run.sh")).expect("a link");
    symlink(&cache, place.join("alias")).expect("a link");
    let write = |text: &str| {
        [&cache, &other]
            .into_iter()
            .for_each(|folder| std::fs::write(folder.join("run.sh"), text).expect("written"));
        std::fs::write(cache.join("Makefile"), text).expect("written");
    };
    let (there, alias) = (cache.display().to_string(), place.join("alias/run.sh").display().to_string());
    let absolute = cache.join("run.sh").display().to_string();
    for argv in [
        &["sh", "run.sh"][..],
        &["sh", &absolute],
        &["sh", "../cache/run.sh"],
        &["sh", &alias],
        &["make", "-C", &there],
        &["sh", "-c", &format!("cat {there}/*.sh | sh")],
    ] {
        write("1");
        let before = names(&root, argv, &[&cache]).await;
        write("2");
        assert_ne!(before, names(&root, argv, &[&cache]).await, "{argv:?}");
    }
    let elsewhere = other.join("run.sh").display().to_string();
    assert_eq!(names(&root, &["sh", &elsewhere], &[&cache]).await, [], "no step writes there");
}

#[tokio::test(start_paused = true)]
async fn a_look_without_an_end_binds_nothing() {
    let look = async || in_time(".", std::future::pending()).await;
    let found = look().await;
    assert_eq!(found[0].unbound.as_deref(), Some("cannot be looked at now: the look takes longer than 60 s"));
    assert_ne!(found, look().await, "each look gives another digest");
}

/// A step may have made the cause, and take it away before the call starts.
#[tokio::test]
async fn a_look_that_fails_for_good_binds_nothing_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    std::fs::create_dir(root.join("journal")).expect("made");
    ["format", "lock", "run.sh"]
        .iter()
        .for_each(|name| std::fs::write(root.join(name), "").expect("written"));
    let told = why(root, &["sh", "run.sh"]).await.expect("nothing is bound");
    assert!(told.starts_with("cannot be looked at: no tool may use the workspace"), "{told}");
    assert!(told.contains("rename one of them"), "it says what to do: {told}");
    std::fs::remove_file(root.join("lock")).expect("removed");
    assert_eq!(why(root, &["sh", "run.sh"]).await, None);
    let aborted =
        in_time(".", off_runtime(|_| -> Result<Vec<NamedFile>, Failure> { panic!("broken") })).await;
    assert!(aborted[0].unbound.as_ref().is_some_and(|why| why.contains("broken")), "{aborted:?}");
}

#[tokio::test]
async fn a_write_whose_place_cannot_be_looked_at_is_not_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let root: Arc<Path> = folder.path().into();
    std::fs::create_dir_all(root.join("lib/journal")).expect("made");
    ["format", "lock"]
        .iter()
        .for_each(|name| std::fs::write(root.join("lib").join(name), "").expect("written"));
    let tools = crate::tool::builtin(&crate::tool::ToolConfig::default(), None);
    let write = tools.iter().find(|tool| tool.spec().name == "fs.write").expect("a tool of this name");
    let look = async |path: &str| {
        let params = serde_json::Map::from_iter([("path".to_owned(), path.into())]);
        write.named_files(&params, Arc::clone(&root)).await
    };
    let found = look("lib/x").await;
    let why = found.first().and_then(|file| file.unbound.as_ref());
    assert!(why.is_some_and(|why| why.contains("rename one of them")), "{found:?}");
    assert_eq!(found[0].path, "lib/x");
    assert_eq!(look("x").await, []);
}

#[test]
fn a_look_that_was_given_up_looks_at_nothing_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    std::fs::create_dir_all(root.join("lib/.git/hooks")).expect("made");
    std::fs::write(root.join("lib/run.sh"), "x".repeat(3 * CHUNK_BYTES)).expect("written");
    let workspace = Workspace::open(&root.into()).expect("it opens");
    let calls: [&[&str]; 4] = [
        &["sh", "lib/run.sh"],
        &["sh", "-c", "sh l*/**/*.sh; sh */run.sh"],
        &["git", "-C", "lib", "status"],
        &["python3", "-m", "lib"],
    ];
    for argv in calls {
        for (cancel, is_given_up) in [(CancelFlag::default(), false), (CancelFlag::cancelled(), true)] {
            let written = vec![root.to_owned()];
            let mut search = Search::new(&workspace, root, Path::new("."), written, Vec::new(), &cancel);
            search.add_words(&named_paths(argv));
            assert_eq!(
                (search.looks.get() == 0, search.read().is_err()),
                (is_given_up, is_given_up),
                "{argv:?}"
            );
        }
    }
    let (cancel, written) = (CancelFlag::cancelled(), [root.to_owned()].into());
    let mut reader = Reader::new(&workspace, root, &written, &[], &cancel);
    let (file, start) = reader.read(Path::new("lib/run.sh")).expect("it is there");
    assert_eq!(
        (file.unbound.is_some(), start),
        (true, Vec::new()),
        "no piece of a long file is read any more"
    );
}

#[tokio::test]
async fn a_call_with_more_words_than_a_program_can_have_is_not_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = "-".repeat(ARGV_BYTES_MAX - "sh".len());
    assert_eq!(why(folder.path(), &["sh", &long]).await, None);
    let told = why(folder.path(), &["sh", &long, "x"]).await;
    assert!(told.is_some_and(|why| why.contains("its words have more than 6291456 bytes")));
}

#[tokio::test]
async fn a_pattern_that_is_longer_than_any_path_binds_its_files_or_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    std::fs::write(root.join("1.sh"), "1").expect("written");
    let long = format!("sh [{}]*.sh", "1".repeat(5_000));
    let argv = ["sh", "-c", &long];
    let before = names(root, &argv, &[]).await;
    assert_eq!(before.iter().map(|file| &*file.path).collect::<Vec<_>>(), ["1.sh"]);
    (10..267).for_each(|at| std::fs::write(root.join(format!("{at}.sh")), "").expect("written"));
    let told = why(root, &argv).await;
    assert_eq!(told.as_deref(), Some("is a pattern that is longer than any path, and stands for many files"));
    let nowhere = format!("sh -c 'cat {}*'", "a/".repeat(3_000));
    assert_eq!(names(root, &["sh", "-c", &nowhere], &[]).await, []);
}

/// The owner of a folder may close the folder, and open it before the program starts. Root looks into every folder, so another user looks.
#[test]
fn a_folder_that_may_not_be_looked_into_is_not_bound_where_steps_may_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, outside) = (folder.path().join("work"), folder.path().join("outside"));
    for name in ["lib", "__pycache__", ".git"] {
        std::fs::create_dir_all(root.join(name)).expect("made");
    }
    std::fs::create_dir(&outside).expect("made");
    std::fs::write(root.join("tool.py"), "").expect("written");
    std::fs::write(root.join("lib/run.sh"), "").expect("written");
    symlink(outside.join("run.sh"), root.join("run.sh")).expect("a link");
    let all = || ["lib", "__pycache__", ".git", ""].map(|name| root.join(name));
    let user = rustix::process::geteuid();
    let other = if user.is_root() { rustix::process::Uid::from_raw(65_534) } else { user };
    for path in all().iter().chain([&root.join("tool.py"), &outside, &folder.path().to_owned()]) {
        std::os::unix::fs::chown(path, Some(other.as_raw()), None).expect("given");
    }
    let close = |name: &Path, mode| {
        std::fs::set_permissions(name, PermissionsExt::from_mode(mode)).expect("the mode is set");
    };
    close(&outside, 0);
    let look = |argv: &'static [&'static str]| {
        let root = &root;
        let looks = move || {
            if user.is_root() {
                rustix::thread::set_thread_res_uid(other, other, other).expect("this thread is another user");
            }
            let workspace = Workspace::open(&root.as_path().into()).expect("it opens");
            let cancel = CancelFlag::default();
            let written = vec![root.clone()];
            let mut search = Search::new(&workspace, root, Path::new("."), written, Vec::new(), &cancel);
            search.add_words(&named_paths(argv));
            search.read().expect("nobody has given up")
        };
        std::thread::scope(|scope| scope.spawn(looks).join().expect("the look ends"))
    };
    let led = look(&["sh", "run.sh"]);
    assert!(led.len() == 1 && led[0].unbound.is_none(), "a place where no step writes: {led:?}");
    for (argv, closed) in [
        (&["sh", "lib/run.sh"][..], "lib"),
        (&["sh", "-c", "sh lib/*.sh"], "lib"),
        (&["python3", "-m", "tool"], "__pycache__"),
        (&["git", "status"], ".git"),
    ] {
        assert!(look(argv).iter().all(|file| file.unbound.is_none()), "{argv:?} before");
        close(&root.join(closed), 0);
        let found = look(argv);
        close(&root.join(closed), 0o700);
        let unbound: Vec<&NamedFile> = found.iter().filter(|file| file.unbound.is_some()).collect();
        let why = unbound.first().and_then(|file| file.unbound.as_ref());
        assert!(why.is_some_and(|why| why.contains("ermission denied")), "{argv:?}: {found:?}");
        assert_eq!((unbound.len(), &*unbound[0].path), (1, closed), "one line tells which folder");
    }
    close(&outside, 0o700);
}
