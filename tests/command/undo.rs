//! Undoing effects at another program, through crashes and failures.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use super::web::{Received, Web};
use super::world::{Ended, World};

/// A provider that makes and removes things, once for each idempotency key.
#[derive(Default)]
struct Provider {
    /// Line of the first request of each key, in order of arrival.
    done: Mutex<Vec<(String, String)>>,
    /// Lines whose answers are held back.
    held: Mutex<Vec<&'static str>>,
    released: Condvar,
    names_are_taken: bool,
}

impl Provider {
    fn answer(&self, request: &Received) -> (u16, String) {
        let number = {
            let mut done = self.done.lock().unwrap();
            let known = done.iter().position(|(key, _)| *key == request.key);
            known.unwrap_or_else(|| {
                done.push((request.key.clone(), request.line.clone()));
                done.len() - 1
            })
        };
        let held = self.held.lock().unwrap();
        drop(self.released.wait_while(held, |held| held.contains(&&*request.line)).unwrap());
        match &*request.line {
            "POST /names" if self.names_are_taken => (409, "{}".to_owned()),
            line if line.ends_with("/remove") => (200, "{}".to_owned()),
            _ => (201, json!({"id": number + 1}).to_string()),
        }
    }

    fn lines(&self) -> Vec<String> {
        self.done.lock().unwrap().iter().map(|(_, line)| line.clone()).collect()
    }

    fn release(&self) {
        self.held.lock().unwrap().clear();
        self.released.notify_all();
    }
}

const UNDONE: [&str; 5] =
    ["POST /networks", "POST /machines", "POST /names", "POST /machines/remove", "POST /networks/remove"];

fn world(provider: Provider, keyed: bool) -> (World, Arc<Provider>, Web) {
    let provider = Arc::new(provider);
    let answers = Arc::clone(&provider);
    let web = Web::start(move |request| answers.answer(request));
    let [plan, config] = web.example("provision");
    let config = if keyed { config } else { config.replace("idempotency = true", "idempotency = false") };
    let world = World::new();
    world.file("provision.yaml", &plan).file("provision.toml", &config);
    (world, provider, web)
}

const RUN: &str = "run provision.yaml --config provision.toml";

fn shown(world: &World) -> Value {
    world.ostler("show @last --json").exits(0).lines()[0].clone()
}

fn taken(held: &[&'static str]) -> Provider {
    Provider { names_are_taken: true, held: Mutex::new(held.to_vec()), ..Provider::default() }
}

#[test]
fn the_example_takes_back_what_it_made_and_tells_what_nobody_knows() {
    let (world, provider, _web) = world(taken(&[]), true);
    let run = world.ostler(RUN).exits(1);
    assert_eq!(provider.lines(), UNDONE, "{}", run.out);
    run.says("undo.machine").says("2 of 2 undos executed").says("unsure         name");
    let shown = shown(&world);
    assert_eq!((&shown["outcome"], &shown["undo"]["state"]), (&"failed".into(), &"partly".into()));
    assert_eq!(shown["undo"]["nodes"], json!(["undo.machine", "undo.network"]), "newest first");
    assert_eq!(shown["undo"]["unsure"], json!(["name"]), "{shown}");
    world.ostler("ps").exits(0).says("undo: partly");
}

#[test]
fn an_operator_undoes_a_run_that_succeeded_once() {
    let (world, provider, _web) = world(Provider::default(), true);
    world.ostler(RUN).exits(0);
    world.ostler("undo @last --config provision.toml").exits(0).says("undone");
    let lines = provider.lines();
    let removed = ["POST /names/remove", "POST /machines/remove", "POST /networks/remove"];
    assert_eq!(lines[3..], removed);
    let shown = shown(&world);
    assert_eq!((&shown["outcome"], &shown["undo"]["state"]), (&"succeeded".into(), &"undone".into()));
    world.ostler("undo @last --config provision.toml").exits(0).says("is undone already");
    assert_eq!(provider.lines(), lines);
    world.ostler("ps").exits(0).says("undo: undone");
}

fn ended(run: Ended) -> String {
    run.out + &run.err
}

#[test]
fn a_process_killed_amid_an_undo_goes_on_and_undoes_each_effect_once() {
    for held in ["POST /machines/remove", "POST /networks/remove"] {
        let (world, provider, web) = world(taken(&[held]), true);
        let holder = world.start(RUN);
        web.wait_for(held);
        holder.signal("KILL");
        holder.end();
        provider.release();
        let resumed = world.ostler("resume @last --config provision.toml").exits(1);
        assert_eq!(provider.lines(), UNDONE, "{held}: {}", ended(resumed));
        let sent = web.received().into_iter().filter(|request| request.line == held).count();
        assert_eq!(sent, 2, "the request whose answer was lost is repeated under its key");
        let shown = shown(&world);
        assert_eq!(shown["undo"]["state"], "partly", "{held}: {shown}");
        assert_eq!(shown["undo"]["unsure"], json!(["name"]), "{held}: {shown}");
        for undo in ["undo.machine", "undo.network"] {
            assert_eq!(shown["nodes"][undo], "executed", "{held}: {shown}");
        }
    }
}

#[test]
fn an_undo_that_may_not_be_repeated_is_in_doubt_and_a_person_settles_it() {
    let held = "POST /machines/remove";
    let (world, provider, web) = world(taken(&[held]), false);
    let holder = world.start(RUN);
    web.wait_for(held);
    holder.signal("KILL");
    holder.end();
    provider.release();
    let resumed = world.ostler("resume @last --config provision.toml").exits(3);
    resumed.says("in doubt").says("resolve");
    let before = shown(&world);
    assert_eq!(before["undo"]["unsure"], json!(["name", "undo.machine"]), "{before}");
    let settle = before["undo"]["settle"]["undo.machine"][1].as_str().unwrap();
    assert!(settle.starts_with("ostler resolve ") && settle.ends_with(" undo.machine --redo"), "{settle}");
    world.file("done.json", r#"{"status": 200, "headers": {}, "body": {}}"#);
    world.ostler("resolve @last undo.machine --done done.json --config provision.toml").exits(1);
    let counts = web.received().into_iter().fold(BTreeMap::<String, usize>::new(), |mut counts, request| {
        *counts.entry(request.line).or_default() += 1;
        counts
    });
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert_eq!(shown(&world)["undo"]["unsure"], json!(["name"]));
}

#[test]
fn an_undo_whose_tool_is_gone_fails_and_the_others_go_on() {
    let plan = r#"
id: gone
nodes:
  - id: note
    tool: fs.write
    params: {path: note, text: "new", mode: replace}
    undo: {tool: fs.write, params: {path: note, text: "old", mode: replace}}
  - id: mark
    tool: fs.write
    params: {path: mark, text: "new", mode: replace}
    undo: {tool: shell.run, params: {argv: [rm, mark]}}
"#;
    let world = World::new();
    world.file("gone.yaml", plan).file("less.toml", "[tools.shell]\nenabled = false\n");
    world.ostler("run gone.yaml --workspace work --intent 2").exits(0);
    let undone = world.ostler("undo @last --config less.toml").exits(1);
    undone.says("undo.mark").says("the call was refused").says("1 of 2 undos executed");
    assert_eq!((world.work("note"), world.work("mark")), ("old".to_owned(), "new".to_owned()));
    let stands = shown(&world);
    assert_eq!((&stands["status"], &stands["undo"]["state"]), (&"succeeded".into(), &"partly".into()));
    assert_eq!(
        (&stands["nodes"]["undo.mark"], &stands["nodes"]["undo.note"]),
        (&"failed".into(), &"executed".into())
    );
    world.ostler("ps").exits(0).says("undo: partly");
    // With the tool, a second round undoes what is left.
    world.ostler("undo @last").exits(0).says("undo2.mark");
    assert_eq!(world.work("mark"), "");
    assert_eq!(shown(&world)["undo"]["state"], "undone");
}

/// A file that is written, whose result breaks its contract, and a file whose undo needs the file `ready`.
const HALF: &str = r#"
id: half
nodes:
  - id: page
    tool: fs.write
    params: {path: page, text: new, mode: replace}
    retries: 0
    contract: [{method: schema, spec: {type: object, required: [nothing]}}]
    undo: {tool: fs.write, params: {path: page, text: old, mode: replace}}
  - id: b
    tool: fs.write
    params: {path: b, text: new, mode: replace}
    undo: {tool: shell.run, params: {argv: [test, -e, ready]}, retries: 0}
"#;

#[test]
fn a_second_undo_counts_effects_and_a_person_settles_what_no_one_knows() {
    let world = World::new();
    world.file("half.yaml", HALF);
    world.ostler("run half.yaml --workspace work --intent 2").exits(1);
    world.ostler("undo @last").exits(1).says("partly         0 of 1 undo executed");
    std::fs::write(world.path().join("work/ready"), "").unwrap();
    let undone = world.ostler("undo @last").exits(1);
    let undone = undone.says("partly         1 of 1 undo executed").says("unsure         page");
    let settle = undone.out.lines().find(|line| line.contains("ostler resolve ")).unwrap().trim().to_owned();
    world.ostler("undo @last").exits(2).complains("nobody knows what is left of page");
    for how in ["--redo", "--fail"] {
        let refused = world.ostler(&format!("resolve @last page {how}")).exits(2);
        refused.complains("the run has ended").complains("--gone");
    }
    let closed = shown(&world)["closed_ms"].clone();
    let settled = world.ostler(settle.trim_start_matches("ostler ")).exits(0);
    let settled = settled.says("undone         1 of 1 undo executed");
    assert!(!settled.out.contains("unsure"), "{}", settled.out);
    world.ostler(settle.trim_start_matches("ostler ")).exits(0).says("undone         1 of 1 undo executed");
    world.ostler("resolve @last b --gone").exits(2).complains("nothing to resolve");
    assert_eq!(shown(&world)["closed_ms"], closed, "a settlement is no second end of the run");
    world.ostler("show @last").exits(0).says("failed  half").says("contract[0]");
    world.ostler("doctor").exits(0);
}
