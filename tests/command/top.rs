//! `ostler top` on a terminal, in a pipe, and as JSON.

use super::terminal::{Terminal, waiting};
use super::world::{Started, World};

const TOP: &str = "sh -c 'echo $$ > pid; exec $OSTLER top'; echo code $?";

/// Starts a run with two waiting attempts.
fn held(world: &World) -> Started {
    world.file("plan.yaml", &format!("id: held\nnodes:\n{}{}", waiting("one"), waiting("two")));
    world.ostler("client add acme --credit 5000").exits(0);
    world.ostler("client add spare --weight 300").exits(0);
    let mut holder = world.start("run plan.yaml --workspace work --intent 2 --client acme --json");
    while !holder.until("\"running\"").contains("two") {}
    holder
}

fn terminal(columns: usize, rows: usize) -> Option<(Terminal, Started)> {
    let terminal = Terminal::open(columns, rows)?;
    let holder = held(&terminal.world);
    Some((terminal, holder))
}

/// Asserts that the terminal settings are restored.
#[track_caller]
fn is_whole(terminal: &Terminal) {
    terminal.is_whole();
    terminal.keys("clear; stty -a | tr ' ' '\\n' | grep -c -e '^echo;*$' -e '^icanon;*$'; echo seen");
    let screen = terminal.until("an answer", |screen| screen.lines().any(|line| line == "seen"));
    assert!(screen.lines().any(|line| line == "2"), "{screen}");
}

#[test]
fn it_shows_a_client_in_a_window_of_any_size_and_leaves_nothing_behind() {
    let Some((terminal, holder)) = terminal(120, 24) else { return };
    terminal.keys(TOP);
    let screen = terminal.until_says("GOT/MIN▼");
    assert_eq!(terminal.modes(), "1 1 1");
    assert!(
        screen.contains("2 of ") && screen.contains("slots") && !screen.contains("echo code"),
        "{screen}"
    );
    let acme = screen.lines().find(|line| line.starts_with("acme ")).unwrap();
    assert!(acme.contains("marketplace") && acme.contains("500") && acme.contains("100.0%"), "{acme}");
    terminal.press("s");
    terminal.until_says("GOT/ALL▼");
    for (columns, rows) in [(40, 8), (20, 4), (200, 50), (80, 24)] {
        terminal.resize(columns, rows);
        terminal.until("one table", |screen| {
            screen.matches("acme ").count() == 1 && screen.lines().all(|line| line.chars().count() <= columns)
        });
    }
    terminal.press("q");
    terminal.until_says("code 0");
    is_whole(&terminal);
    terminal.go();
    holder.end().exits(0);
}

#[test]
fn whatever_ends_it_leaves_a_whole_terminal() {
    for (key, code) in [("Escape", 0), ("C-c", 130), ("TERM", 143), ("C-\\", 131)] {
        let Some((terminal, holder)) = terminal(80, 24) else { return };
        terminal.keys(TOP);
        terminal.until_says("acme ");
        if key == "TERM" {
            terminal.signal("TERM");
        } else {
            terminal.press(key);
        }
        terminal.until_says(&format!("code {code}"));
        is_whole(&terminal);
        terminal.go();
        holder.end().exits(0);
    }
}

#[test]
fn a_stop_gives_the_screen_and_the_keys_back_until_it_goes_on() {
    let Some((terminal, holder)) = terminal(80, 24) else { return };
    terminal.keys("$OSTLER top");
    terminal.until_says("acme ");
    terminal.press("C-z");
    terminal.until_says("Stopped");
    is_whole(&terminal);
    terminal.keys("fg");
    terminal.until_says("acme ");
    // The display continues without a holder of the data folder.
    terminal.go();
    holder.end().exits(0);
    terminal.until_says("no queue: no process holds the data folder now");
    terminal.press("q");
    terminal.until("shell", |screen| !screen.contains("no queue"));
    is_whole(&terminal);
}

#[test]
fn a_pipe_gets_one_table_and_a_machine_an_object_for_each_look() {
    let world = World::new();
    world.ostler("top").exits(0).complains("no run yet: no data folder at ");
    let holder = held(&world);
    let table = world.ostler("top").exits(0);
    let rows: Vec<Vec<&str>> = table.out.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = ["CLIENT", "TIER", "WEIGHT", "SHARE", "GOT/ALL", "RUN", "QUEUED", "LAG", "SPENT", "LEFT"];
    assert_eq!((rows.len(), &rows[1][..]), (4, &head[..]), "{}", table.out);
    assert_eq!(rows[2][..6], ["acme", "marketplace", "500", "100.0%", "100.0%", "2"], "{}", table.out);
    assert_eq!(rows[3][..6], ["spare", "marketplace", "300", "-", "0.0%", "0"], "{}", table.out);
    let looks = world.ostler("top --json -n 2").exits(0).lines();
    assert_eq!(looks.len(), 2);
    assert_eq!((&looks[0]["type"], &looks[1]["running"]), (&"queue".into(), &2.into()));
    let acme = &looks[1]["clients"][0];
    assert_eq!((&acme["client"], acme["entitled"].as_f64()), (&"acme".into(), Some(1.0)), "{acme}");
    assert!(acme["got_last"].is_null() && acme["charged"].is_u64(), "{acme}");
    std::fs::write(world.path().join("work/go"), "").unwrap();
    holder.end().exits(0);
    let nothing = world.ostler("top").exits(0).complains("no queue: no process holds the data folder ");
    assert_eq!(nothing.out, "");
    world.ostler("top -n 0").exits(2);
}
