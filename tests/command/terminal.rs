//! The live tree on a real terminal (tmux): drawing, resizing and cleaning up.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::world::World;

const PATIENCE: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(20);

/// Reports that a test is skipped for lack of a program. Under `CI` this is a failure, because its script
/// installs the programs.
pub(crate) fn skipped(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "nothing is skipped in CI: {why}");
    eprintln!("skipped: {why}");
}

/// A terminal with a shell in the folder of a world.
pub(crate) struct Terminal {
    socket: PathBuf,
    pub(crate) world: World,
}

impl Terminal {
    /// Returns `None`, with the reason printed, without tmux.
    pub(crate) fn open(columns: usize, rows: usize) -> Option<Terminal> {
        if Command::new("tmux").arg("-V").stdout(Stdio::null()).status().is_err() {
            skipped("there is no tmux to be the terminal");
            return None;
        }
        let world = World::new();
        let terminal = Terminal { socket: world.path().join("tmux"), world };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let path = terminal.world.path().to_str().unwrap().to_owned();
        let data = format!("OSTLER_DATA={path}/data");
        let config = format!("XDG_CONFIG_HOME={}", terminal.world.config().display());
        let ostler = format!("OSTLER={}", env!("CARGO_BIN_EXE_ostler"));
        let session = ["new-session", "-d", "-x", &columns, "-y", &rows, "-c", &path];
        let environment = ["-e", &data, "-e", &config, "-e", &ostler, "-e", "TZ=UTC", "-e", "ENV=", "sh -i"];
        terminal.tmux(&[&session[..], &environment[..]].concat());
        terminal.until("a prompt", |screen| !screen.trim().is_empty());
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(arguments);
        for name in ["TMUX", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "OSTLER_LOG", "OSTLER_CONFIG"] {
            command.env_remove(name);
        }
        let output = command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn keys(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    /// Presses a key, such as `C-c`.
    pub(crate) fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    pub(crate) fn resize(&self, columns: usize, rows: usize) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The screen and its history.
    pub(crate) fn everything(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-S", "-"])
    }

    /// Cursor visibility, and use of the alternate screen.
    pub(crate) fn modes(&self) -> String {
        self.tmux(&["display-message", "-p", "#{cursor_flag} #{alternate_on} #{wrap_flag}"]).trim().to_owned()
    }

    /// Waits for a condition, and returns the screen.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < PATIENCE, "no {what} on the screen:\n{}", self.everything());
            std::thread::sleep(LOOK);
        }
    }

    #[track_caller]
    pub(crate) fn until_says(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Asserts that the terminal has its modes of before the run.
    #[track_caller]
    pub(crate) fn is_restored(&self) {
        assert_eq!(self.modes(), "1 0 1", "the cursor is shown, on the first screen, where lines wrap");
    }

    /// Asserts that the terminal is as before the run, without a trace of the tree.
    #[track_caller]
    pub(crate) fn is_whole(&self) {
        self.is_restored();
        let everything = self.everything();
        for sign in ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "░", "█", "\u{b7} "] {
            assert!(!everything.contains(sign), "{sign} was left behind:\n{everything}");
        }
    }

    /// Sends a signal, such as `TERM`, to the command that [`RUN`] started.
    pub(crate) fn signal(&self, name: &str) {
        let pid = std::fs::read_to_string(self.world.path().join("pid")).unwrap();
        let status = Command::new("kill").args(["-s", name, pid.trim()]).status().unwrap();
        assert!(status.success());
    }

    /// Releases the waiting nodes.
    pub(crate) fn go(&self) {
        std::fs::write(self.world.path().join("work/go"), "").unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

const RUN: &str =
    "sh -c 'echo $$ > pid; exec $OSTLER run plan.yaml --workspace work --intent 2'; echo code $?";

/// A node that waits until [`Terminal::go`].
pub(crate) fn waiting(id: &str) -> String {
    // Orphans of a killed process end too.
    let wait = "n=0; until [ -e go ] || [ $n -gt 1500 ]; do sleep 0.02; n=$((n+1)); done";
    format!("  - {{id: {id}, tool: shell.run, params: {{argv: [sh, -c, '{wait}']}}, timeout: 50s}}\n")
}

fn small() -> String {
    format!(
        "id: small\nnodes:\n  - {{id: list, tool: fs.list, params: {{path: .}}}}\n{}{}{}",
        waiting("slow").replace("}, timeout", "}, deps: [list], timeout"),
        "  - {id: then, tool: fs.list, params: {path: .}, deps: [slow]}\n",
        "  - {id: last, tool: fs.list, params: {path: .}, deps: [then]}\n"
    )
}

/// A hundred nodes: one that waits, and chains that start with it.
fn large() -> String {
    let mut plan = format!("id: large\nnodes:\n{}", waiting("slow"));
    for at in 0..33 {
        for wave in 1..=3 {
            let dep = if wave == 1 { "slow".to_owned() } else { format!("w{}-{at}", wave - 1) };
            plan += &format!("  - {{id: w{wave}-{at}, tool: fs.list, params: {{path: .}}, deps: [{dep}]}}\n");
        }
    }
    plan
}

fn with(plan: &str, columns: usize, rows: usize) -> Option<Terminal> {
    let terminal = Terminal::open(columns, rows)?;
    terminal.world.file("plan.yaml", plan);
    Some(terminal)
}

#[test]
fn a_small_tree_is_drawn_in_place_and_leaves_a_summary() {
    let Some(terminal) = with(&small(), 80, 24) else { return };
    terminal.keys(RUN);
    let screen = terminal.until_says("slow");
    assert!(
        screen.contains("✔ list") && screen.contains("1/4 nodes") && screen.contains("echo code"),
        "{screen}"
    );
    assert_eq!(terminal.modes(), "1 0 1");
    terminal.go();
    let screen = terminal.until_says("code 0");
    assert!(screen.contains("succeeded  small") && screen.contains("4 executed"), "{screen}");
    terminal.is_whole();
}

#[test]
fn a_small_tree_in_a_window_that_changes_leaves_nothing_behind() {
    let Some(terminal) = with(&small(), 80, 24) else { return };
    terminal.keys(RUN);
    terminal.until_says("1/4 nodes");
    for (columns, rows) in [(60, 24), (100, 20), (50, 22), (120, 30), (50, 24), (80, 24)] {
        terminal.resize(columns, rows);
        let shown = if columns < 60 { "1/4  " } else { "1/4 nodes" };
        let screen = terminal.until("one tree", |screen| {
            screen.contains(shown)
                && ["✔ list", "· then", "· last"].iter().all(|line| screen.matches(line).count() == 1)
        });
        assert_eq!(screen.matches("small").count(), 1, "{screen}");
    }
    terminal.go();
    terminal.until_says("code 0");
    terminal.is_whole();
}

#[test]
fn a_large_tree_fits_a_window_of_any_size_and_leaves_nothing_behind() {
    let Some(terminal) = with(&large(), 80, 24) else { return };
    terminal.keys(RUN);
    let screen = terminal.until_says("0/100 nodes");
    assert!(screen.contains("wave 1") && screen.contains("wave 4") && screen.contains("slow"), "{screen}");
    assert_eq!(terminal.modes(), "1 1 1");
    for (columns, rows) in [(20, 5), (200, 60), (40, 24), (30, 8), (80, 5), (80, 24)] {
        terminal.resize(columns, rows);
        let last = if columns < 60 { "0/100  " } else { "0/100 nodes" };
        terminal.until("one tree", |screen| {
            screen.matches(last).count() == 1 && screen.matches("slow").count() == 1
        });
    }
    terminal.go();
    terminal.until_says("code 0");
    let told = terminal.everything();
    assert!(told.contains("succeeded  large") && told.contains("100 executed"), "{told}");
    terminal.is_whole();
}

#[test]
fn whatever_ends_it_leaves_a_whole_terminal() {
    for plan in [small(), large()] {
        for (signals, code) in
            [(&["C-c"][..], 130), (&["C-c", "C-c"], 130), (&["TERM"], 143), (&["C-\\"], 131)]
        {
            let Some(terminal) = with(&plan, 80, 24) else { return };
            terminal.keys(RUN);
            terminal.until_says(" nodes ");
            for (at, signal) in signals.iter().enumerate() {
                if at > 0 {
                    terminal.until_says("stopping");
                }
                if *signal == "TERM" {
                    terminal.signal("TERM");
                } else {
                    terminal.press(signal);
                }
            }
            if code != 131 && signals.len() == 1 {
                terminal.until_says("stopping");
                terminal.go();
            }
            let screen = terminal.until_says(&format!("code {code}"));
            assert!(code == 131 || screen.contains("state is kept: `ostler resume "), "{screen}");
            // The last tree stays, once, above the announcement.
            let trees = terminal.everything().matches(" nodes  ").count();
            assert_eq!(trees, usize::from(code != 131), "{}", terminal.everything());
            if code == 131 {
                terminal.is_whole();
            } else {
                terminal.is_restored();
            }
        }
    }
}

#[test]
fn a_stop_gives_the_screen_back_until_it_goes_on() {
    for plan in [small(), large()] {
        let Some(terminal) = with(&plan, 80, 24) else { return };
        // The shell continues with the rest of the line after a stop.
        terminal.keys("$OSTLER run plan.yaml --workspace work --intent 2");
        terminal.until_says(" nodes ");
        terminal.press("C-z");
        terminal.until_says("Stopped");
        terminal.is_whole();
        terminal.keys("echo meanwhile");
        terminal.keys("fg");
        terminal.until("tree", |screen| screen.contains("slow") && screen.contains(" nodes "));
        terminal.go();
        terminal.until_says("succeeded  ");
        terminal.is_whole();
        assert!(terminal.everything().contains("meanwhile"));
    }
}

#[test]
fn colours_are_for_who_wants_them() {
    for (before, coloured, drawn) in [
        ("", true, true),
        ("NO_COLOR=1 ", false, true),
        ("CLICOLOR=0 ", false, true),
        ("TERM=dumb ", false, false),
    ] {
        let Some(terminal) = with(&small(), 80, 24) else { return };
        terminal.keys(&format!("{before}{RUN}"));
        terminal.until_says("list");
        if drawn {
            terminal.until_says("1/4 nodes");
        } else {
            terminal.until_says("list  executed");
        }
        let screen = terminal.tmux(&["capture-pane", "-p", "-e"]);
        assert_eq!(screen.contains("\u{1b}["), coloured, "{before}{screen:?}");
        terminal.go();
        terminal.until_says("code 0");
        terminal.is_whole();
    }
}

#[test]
fn a_killed_run_leaves_a_terminal_that_can_be_used() {
    let Some(terminal) = with(&large(), 80, 24) else { return };
    terminal.keys(RUN);
    terminal.until_says("0/100 nodes");
    terminal.signal("KILL");
    terminal.until_says("code 137");
    terminal.keys("echo a shell; tput rmcup");
    terminal.until("first screen", |screen| screen.contains("code $?") && !screen.contains("wave"));
    terminal.is_whole();
}

/// Two approvals, the first with a text of thirty lines; a waiting node beside them, another after them.
fn asking() -> String {
    let text: String = (1..=30).map(|at| format!("        line {at}.\n")).collect();
    format!(
        "id: asking\nnodes:\n\
         \x20 - id: text\n    tool: text.render\n    params:\n      values: {{}}\n      template: |\n{text}\
         \x20 - {{id: put, tool: fs.write, params: {{path: out, mode: create}}, param_refs: {{text: {{from: text, path: text}}}}, \
         approval: before, human_timeout: 1h}}\n\
         \x20 - {{id: zap, kind: human_approval, params: {{question: Sure?}}, deps: [put], human_timeout: 1h}}\n{}{}",
        waiting("slow"),
        waiting("end").replace(" go ", " go2 ").replace("}, timeout", "}, deps: [zap], timeout")
    )
}

#[test]
fn who_is_asked_can_see_all_of_it_and_how_the_run_stands_and_misses_nothing() {
    let Some(terminal) = with(&asking(), 80, 24) else { return };
    terminal.keys(RUN);
    let screen = terminal.until_says("put >");
    assert!(screen.contains("… 18 more lines") && !screen.contains("line 13."), "{screen}");
    assert!(screen.contains("v: view all") && screen.contains("^C: leave unanswered"), "{screen}");
    terminal.keys("yep");
    terminal.until_says("\"yep\": not an answer. Possible are:");
    terminal.keys("v");
    terminal.until_says("line 30.");
    terminal.keys("");
    terminal.until_says("1/5 nodes");
    terminal.go();
    terminal.until("slow node that is done", |screen| {
        terminal.keys("");
        screen.contains("✔ slow") && screen.contains("2/5 nodes")
    });
    terminal.keys("y");
    let screen = terminal.until_says("zap >");
    assert!(screen.contains("  meanwhile: 1 executed") && screen.contains("Sure?"), "{screen}");
    terminal.keys("yes");
    terminal.until("tree that goes on", |screen| screen.contains("✔ zap") && screen.contains("4/5 nodes"));
    std::fs::write(terminal.world.path().join("work/go2"), "").unwrap();
    terminal.until_says("code 0");
}

#[test]
fn what_is_said_after_a_question_begins_a_line() {
    let Some(terminal) = with(&asking(), 80, 24) else { return };
    let begins_a_line = |screen: &str, text: &str| {
        assert!(screen.lines().any(|line| line.starts_with(text)), "{screen}");
    };
    terminal.keys(RUN);
    terminal.until_says("put >");
    terminal.press("C-c");
    begins_a_line(&terminal.until_says("stopping: "), "stopping: ");
    terminal.go();
    terminal.until_says("code 130");
    terminal.keys("$OSTLER approve @last put");
    terminal.until_says("or N >");
    terminal.press("C-d");
    begins_a_line(&terminal.until_says("not answered;"), "not answered;");
}

#[test]
fn who_is_asked_is_asked_again_after_a_stop() {
    let Some(terminal) = with(&asking(), 80, 24) else { return };
    terminal.go();
    let shell = terminal.screen().trim().to_owned();
    // In a pipe there is no redrawn tree.
    for (command, node, text) in [
        ("$OSTLER run plan.yaml --workspace work --intent 2", "put", "line 3."),
        ("$OSTLER resume @last | cat", "put", "line 3."),
        ("$OSTLER approve @last put", "approve put?", "line 3."),
    ] {
        let prompt = if node == "put" { "  put > " } else { "or N > " };
        terminal.keys(command);
        terminal.until_says(prompt.trim_end());
        terminal.press("C-z");
        terminal.until_says("Stopped");
        terminal.keys("printf '\\033[2J\\033[H'");
        terminal.until("empty screen", |screen| !screen.contains(node));
        terminal.keys("fg");
        let screen = terminal.until(prompt, |screen| screen.trim_end().ends_with(prompt.trim_end()));
        assert!(screen.contains(text), "{command}: {screen}");
        terminal.press("C-c");
        terminal.until("shell", |screen| screen.trim_end().ends_with(&shell));
        terminal.keys("printf '\\033[2J\\033[H'");
        terminal.until("empty screen", |screen| screen.trim() == shell);
    }
}

#[test]
fn a_stop_before_a_question_does_not_show_it_twice() {
    let Some(terminal) = with(&asking().replace("id: text\n", "id: text\n    deps: [slow]\n"), 80, 24) else {
        return;
    };
    terminal.keys("$OSTLER run plan.yaml --workspace work --intent 2");
    terminal.until_says("0/5 nodes");
    terminal.press("C-z");
    terminal.until_says("Stopped");
    terminal.keys("fg");
    terminal.until_says("0/5 nodes");
    terminal.go();
    terminal.until_says("put >");
    terminal.keys("v");
    terminal.until_says("line 30.");
    let everything = terminal.everything();
    assert_eq!(everything.matches("approve this action?").count(), 2, "{everything}");
}
