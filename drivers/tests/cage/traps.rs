//! What programs prepare for Ostler, or for the next call.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ostler_drivers::cage::{SandboxConfig, Workspaces, reached};
use ostler_kernel::port::CageRung;

use crate::place::{Place, SECRET, sandbox, works};

/// Runs a test on each rung that works.
fn on_each_rung(test: impl Fn(Place)) {
    for rung in [CageRung::Landlock, CageRung::Bubblewrap] {
        if works(rung) {
            test(Place::new(rung));
        }
    }
}

#[test]
fn a_program_cannot_say_that_it_never_started() {
    on_each_rung(|place| {
        // 11 is the error for which a call is made again.
        let script = "echo paid >> ledger; printf '%s 11 x\\n' \"${TMPDIR##*/}\" >&2";
        let value = place.call(script, 1).unwrap();
        assert!(value["stderr"].as_str().unwrap().ends_with(" 11 x\n"), "{value}");
        assert_eq!(std::fs::read_to_string(place.ws().join("ledger")).unwrap(), "paid\n");
    });
}

#[test]
fn what_is_hidden_stays_so_for_the_next_program() {
    on_each_rung(|place| {
        let names = "mv .config c; mv inner i; mv .ostler o; mkdir -p .config/ostler; echo moved";
        let value = place.call(names, 1).unwrap();
        assert!(value["stdout"].as_str().unwrap().contains("moved"), "{value}");
        let read = "cat c/*/* .config/*/* i/.ostler/* inner/.ostler/* o/* .ostler/*; find . -name lock -o -name '*.key'";
        for impact in [0, 1] {
            let value = place.call(&format!("{read}; true"), impact).unwrap();
            assert_eq!(value["stdout"], "", "{value}");
        }
        assert!(place.ws().join(".config/ostler/ostler-operator.key").exists());
    });
}

/// A file that the cage may show by then is bound as any other one.
#[test]
fn an_approval_is_bound_to_files_in_hidden_folders_that_a_step_can_make_and_move() {
    on_each_rung(|place| {
        let all = [".ostler/run.sh", "inner/.ostler/run.sh", "made/run.sh", ".config/ostler/run.sh"];
        std::fs::create_dir_all(place.ws().join("made/journal")).unwrap();
        ["format", "lock"]
            .iter()
            .for_each(|name| std::fs::write(place.ws().join("made").join(name), "").unwrap());
        all.iter().for_each(|file| std::fs::write(place.ws().join(file), "").unwrap());
        let argv = [
            "sh",
            "-c",
            "sh .ostler/run.sh; sh inner/.ostler/run.sh; sh made/run.sh; sh .config/ostler/run.sh",
        ];
        let bound = |data: Option<&str>| place.bound(data, &argv);
        assert_eq!(bound(Some(".ostler")), ["inner/.ostler/run.sh", "made/run.sh"]);
        assert_eq!(bound(None), [".ostler/run.sh", "inner/.ostler/run.sh", "made/run.sh"]);
    });
}

#[test]
fn a_link_in_the_place_of_what_is_frozen_or_hidden_shows_nothing_and_opens_nothing() {
    for link in [
        "rm -rf .git; mkdir .git; ln -s ../.. .git/hooks",
        "rm -rf .git; ln -s .. .git; mkdir ../hooks",
        "rm -rf .git; mkdir .git; ln -s \"$PWD\" .git/hooks",
        "rm -f ostler.toml; ln -s ../outside ostler.toml",
        "mv inner i; ln -s .. inner",
    ] {
        on_each_rung(|place| {
            let beside = place.ws().parent().unwrap().join("outside");
            std::fs::write(&beside, SECRET).unwrap();
            place.call(&format!("{link} 2>/dev/null; true"), 1).unwrap();
            for impact in [0, 1] {
                let look = "cat .ostler/* ../outside ostler.toml inner/.ostler/* i/.ostler/* .config/ostler/*; echo x >> ../outside; \
                            echo x >> .ostler/lock; touch ../new; true";
                let value = place.call(look, impact).unwrap();
                assert!(!value["stdout"].as_str().unwrap().contains(SECRET), "{link}: {value}");
            }
            let lock = std::fs::read_to_string(place.ws().join(".ostler/lock")).unwrap();
            assert_eq!(
                (lock.as_str(), &*std::fs::read_to_string(&beside).unwrap()),
                (SECRET, SECRET),
                "{link}"
            );
            assert!(!beside.with_file_name("new").exists(), "{link}");
        });
    }
}

/// Set for the process of a test that only finds out what the machine reaches.
const FIND_OUT: &str = "OSTLER_TEST_FINDS_OUT_RUNG";

#[test]
fn a_planted_bwrap_or_true_is_not_run() {
    let unnamed = SandboxConfig { bubblewrap: None, ..sandbox(CageRung::Landlock) };
    if std::env::var_os(FIND_OUT).is_some() {
        return println!("\nrung {}", reached(&unnamed).rung);
    }
    let planted = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in ["bwrap", "true"] {
        let (file, mark) = (planted.path().join(name), planted.path().join("ran"));
        let script = format!(
            "#!/bin/sh\ntouch {}\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n",
            mark.display()
        );
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let test = ["--exact", "traps::a_planted_bwrap_or_true_is_not_run", "--nocapture"];
    let found = |path: String| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(test).env(FIND_OUT, "1").env("PATH", path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find_map(|line| Some(line.strip_prefix("rung ")?.to_owned())).expect(&text)
    };
    let system = "/usr/bin:/bin";
    assert_eq!(found(format!("{}:{system}", planted.path().display())), found(system.to_owned()));
    assert!(!planted.path().join("ran").exists());
}

#[test]
fn a_shortage_takes_nobody_the_cage() {
    if !works(CageRung::Landlock) {
        return;
    }
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (helper, mark) = (place.path().join("helper"), place.path().join("tried"));
    let script = format!(
        "#!/bin/sh\n[ -e {mark} ] && exec {real} \"$@\"\ntouch {mark}\necho 'fork: Resource temporarily unavailable (os error 11)' >&2\nexit 125\n",
        mark = mark.display(),
        real = env!("CARGO_BIN_EXE_ostler-sandbox"),
    );
    std::fs::write(&helper, script).unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = SandboxConfig { helper: Some(helper), ..sandbox(CageRung::Landlock) };
    let first = reached(&config);
    assert!(first.is_short, "{first:?}");
    let second = reached(&config);
    assert_eq!((second.rung, second.is_short), (CageRung::Landlock, false), "{second:?}");
}

/// A helper that a signal ends each time is tried a few times; afterwards programs are refused for good, and none runs without a cage.
#[test]
fn a_helper_that_a_signal_ends_each_time_is_not_tried_for_ever() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (helper, tries) = (place.path().join("helper"), place.path().join("tries"));
    std::fs::write(&helper, format!("#!/bin/sh\necho >> {}\nkill -KILL $$\n", tries.display())).unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = SandboxConfig { helper: Some(helper), ..sandbox(CageRung::Landlock) };
    let told: Vec<bool> = (0..5).map(|_| reached(&config).is_killed).collect();
    assert_eq!(told, [false, false, true, true, true]);
    assert!(reached(&config).is_short);
    assert_eq!(std::fs::read_to_string(tries).unwrap().len(), 3);
}

#[test]
fn temporary_folders_of_any_depth_are_removed() {
    on_each_rung(|place| {
        let nest = "/usr/bin/python3 -c 'import os\nos.chdir(os.environ[\"TMPDIR\"])\nfor _ in range(3000): os.mkdir(\"a\"); os.chdir(\"a\")'";
        let value = place.call(&format!("{nest} && printf %s $TMPDIR"), 1).unwrap();
        let folder = Path::new(value["stdout"].as_str().unwrap());
        assert!(folder.is_absolute(), "{value}");
        // On a slow disk a thread goes on when the call has ended.
        let begun = Instant::now();
        while folder.exists() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{} is left", folder.display());
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_link_that_a_step_of_another_workspace_made_leads_nowhere() {
    on_each_rung(|other| {
        let user = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let workspaces = Some(Workspaces::at(user.path()));
        let place = Place::new(other.rung());
        let link = format!("ln -s {} models", other.out().display());
        let noted = SandboxConfig { workspaces: workspaces.clone(), ..sandbox(other.rung()) };
        other.call_with(noted.clone(), &link, 1).unwrap();
        let reading = SandboxConfig { read: vec![other.ws().join("models")], ..noted };
        let secret = other.out().join("secret");
        let value = place.call_with(reading, &format!("cat {}; true", secret.display()), 1).unwrap();
        assert!(!value.to_string().contains(SECRET), "{value}");
    });
}

/// Two workspaces: the first is a linked worktree of the repository in the second once [`Worktree::link`] ran.
struct Worktree {
    place: Place,
    main: Place,
    config: SandboxConfig,
    _user: tempfile::TempDir,
}

impl Worktree {
    fn new(place: Place) -> Worktree {
        let user = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let config = SandboxConfig { workspaces: Some(Workspaces::at(user.path())), ..sandbox(place.rung()) };
        let main = Place::new(place.rung());
        std::fs::remove_dir_all(place.ws().join(".git")).unwrap();
        std::fs::write(main.ws().join(".git/private"), SECRET).unwrap();
        Worktree { place, main, config, _user: user }
    }

    /// Scripts that link the worktree, for its workspace and for that of the repository.
    fn link(&self) -> [(&Place, String); 2] {
        let (place, main) = (self.place.ws(), self.main.ws());
        let back =
            format!("mkdir -p .git/worktrees/x && echo {}/.git > .git/worktrees/x/gitdir", place.display());
        [
            (&self.place, format!("echo gitdir: {}/.git/worktrees/x > .git", main.display())),
            (&self.main, back),
        ]
    }

    fn step(&self, place: &Place, script: &str) {
        place.call_with(self.config.clone(), script, 1).unwrap();
    }

    fn shows_repository(&self) -> bool {
        let look = format!("cat {}/.git/private; true", self.main.ws().display());
        self.place.call_with(self.config.clone(), &look, 0).unwrap().to_string().contains(SECRET)
    }
}

#[test]
fn a_linked_worktree_that_steps_of_two_workspaces_made_shows_no_repository() {
    on_each_rung(|place| {
        let worktree = Worktree::new(place);
        worktree.link().iter().for_each(|(place, script)| worktree.step(place, script));
        assert!(!worktree.shows_repository());
    });
}

#[test]
fn a_linked_worktree_from_before_any_step_shows_its_repository_whatever_steps_write() {
    on_each_rung(|place| {
        let worktree = Worktree::new(place);
        for (place, script) in worktree.link() {
            assert!(
                Command::new("sh").args(["-c", &script]).current_dir(place.ws()).status().unwrap().success()
            );
        }
        assert!(worktree.shows_repository(), "no step wrote");
        for place in [&worktree.main, &worktree.place, &worktree.main] {
            worktree.step(place, "true");
            assert!(worktree.shows_repository());
        }
        let [(place, _), _] = worktree.link();
        worktree.step(place, "echo gitdir: elsewhere > .git");
        assert!(!worktree.shows_repository(), "it is no worktree any more");
    });
}

#[test]
fn many_folders_that_look_like_data_uncover_none() {
    on_each_rung(|place| {
        let user = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let config = SandboxConfig { workspaces: Some(Workspaces::at(user.path())), ..sandbox(place.rung()) };
        let data = place.ws().join("zz/.ostler");
        std::fs::create_dir_all(data.join("journal")).unwrap();
        ["lock", "format"].iter().for_each(|name| std::fs::write(data.join(name), SECRET).unwrap());
        let decoys = "for i in $(seq 70); do mkdir -p a$i/journal; touch a$i/lock a$i/format; done";
        place.call_with(config.clone(), decoys, 1).unwrap();
        let value =
            place.call_with(config, "cat zz/.ostler/lock; echo x >> zz/.ostler/lock; true", 1).unwrap();
        assert!(!value.to_string().contains(SECRET), "{value}");
        assert_eq!(std::fs::read_to_string(data.join("lock")).unwrap(), SECRET);
    });
}

#[test]
fn the_program_of_a_server_is_not_written_by_programs() {
    on_each_rung(|place| {
        let server = place.ws().join("server.py");
        std::fs::write(&server, "kind").unwrap();
        let config = SandboxConfig { pinned: vec![server.clone()], ..sandbox(place.rung()) };
        let script = "echo evil > server.py; rm -f server.py; mv server.py other; ln -sf other server.py; echo new > written";
        place.call_with(config, script, 1).unwrap();
        assert_eq!(std::fs::read_to_string(&server).unwrap(), "kind");
        assert!(place.ws().join("written").exists());
    });
}

#[test]
fn copies_with_attributes_work_where_attributes_are_not_read() {
    on_each_rung(|place| {
        let copy = "/usr/bin/python3 -c 'import shutil; shutil.copy2(\"tracked\", \"a\")' && cp -a tracked b && ls -l a b >&2 && cat a b";
        let value = place.call(copy, 1).unwrap();
        assert_eq!(value["stdout"], "text\ntext\n", "{value}");
    });
}

/// A program could write the file of the helper by a descriptor that somebody in its cage has left open.
#[test]
fn the_helper_is_open_nowhere_in_the_cage() {
    on_each_rung(|place| {
        let script =
            "readlink /proc/[0-9]*/fd/* /proc/[0-9]*/exe; cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'; true";
        let value = place.call(script, 1).unwrap();
        let shown = value["stdout"].as_str().unwrap();
        // In the other rung it sees none of these.
        let sees = place.rung() == CageRung::Bubblewrap;
        assert!(shown.contains("__sandbox") == sees && !shown.contains("ostler-sandbox-"), "{value}");
        assert!(!shown.lines().any(|line| line.ends_with("/ostler-sandbox")), "{value}");
    });
}

#[test]
fn shared_memory_by_name_is_in_the_temporary_folder_or_not_there() {
    on_each_rung(|place| {
        let script = "echo x > /dev/shm/named && ls $TMPDIR; /usr/bin/python3 -c 'import multiprocessing as m; m.Lock(); print(\"locked\")'; true";
        let value = place.call(script, 1).unwrap();
        let expected = if place.rung() == CageRung::Bubblewrap { "named\nlocked\n" } else { "" };
        assert_eq!(value["stdout"], expected, "{value}");
    });
}
