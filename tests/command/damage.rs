//! Damage is reported and quarantined; expired runs are removed.

use std::fs;
use std::path::PathBuf;

use redb::TableDefinition;

use super::world::World;

const BIG: &str = "id: big
nodes:
  - {id: read, tool: fs.read, params: {path: big.txt}}
";

const SMALL: &str = "id: small
nodes:
  - {id: say, tool: text.render, params: {template: hello, values: {}}}
";

fn world() -> World {
    let world = World::new();
    fs::write(world.path().join("work/big.txt"), "0123456789abcdef".repeat(1_000)).unwrap();
    world.file("big.yaml", BIG).file("small.yaml", SMALL);
    world
}

/// Runs a plan, and returns the run's id.
fn run(world: &World, plan: &str) -> String {
    let ended = world.ostler(&format!("run {plan} --workspace work --json")).exits(0);
    ended.lines().last().unwrap()["run"].as_str().unwrap().to_owned()
}

fn segment(world: &World) -> PathBuf {
    world.data().join("journal/0000000001.seg")
}

/// Changes a byte of the first record.
fn flip(world: &World) {
    let mut bytes = fs::read(segment(world)).unwrap();
    bytes[200] ^= 0x40;
    fs::write(segment(world), bytes).unwrap();
}

fn artifacts(world: &World) -> Vec<PathBuf> {
    let folders = fs::read_dir(world.data().join("artifacts")).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| !path.ends_with("new") && !path.ends_with("damaged"));
    folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|file| file.unwrap().path())).collect()
}

#[test]
fn a_damaged_journal_is_not_written_to_and_repairing_sets_one_run_aside() {
    let world = world();
    let runs = [run(&world, "small.yaml"), run(&world, "small.yaml"), run(&world, "small.yaml")];
    flip(&world);
    let found = fs::read(segment(&world)).unwrap();
    for line in ["run small.yaml --workspace work", "resume", "client add acme"] {
        let refused = world.ostler(line).exits(4).complains("segment 1, offset 64").complains(&runs[0]);
        refused.complains(
            "nothing was written; `ostler doctor` reports what is affected, `ostler doctor --repair`",
        );
    }
    assert_eq!(fs::read(segment(&world)).unwrap(), found);
    // Undamaged runs can be read.
    world.ostler(&format!("show {}", runs[1])).exits(0);
    world.ostler(&format!("show {}", runs[0])).exits(4).complains("`ostler doctor --repair` quarantines it");
    let told = world.ostler("doctor").exits(4);
    let touched: Vec<&str> = told.out.lines().filter(|line| line.contains("touched")).collect();
    assert_eq!(touched.len(), 1, "{}", told.out);
    assert!(touched[0].contains(&runs[0]), "{}", told.out);
    told.says("✔ charges").says("ostler doctor --repair");
    world.ostler("doctor --repair").exits(0).says("1 run quarantined").says("! quarantined");
    assert!(world.data().join(format!("journal/{}.remains", runs[0])).exists());
    let listed = world.ostler("ps").exits(0);
    let line = listed.out.lines().find(|line| line.contains(&runs[0])).unwrap();
    assert!(line.contains("quarantined") && line.contains("small"), "{}", listed.out);
    world.ostler(&format!("resume {}", runs[0])).exits(4).complains("quarantined");
    for line in ["show", "resume"] {
        world
            .ostler(&format!("{line} {}", runs[0]))
            .exits(4)
            .complains("`ostler gc --quarantined --apply` removes");
    }
    world.ostler(&format!("show {}", runs[2])).exits(0);
    run(&world, "small.yaml");
    world.ostler("resume").exits(0);
    world.ostler("doctor").exits(0).says("nothing is broken");
    world.ostler("doctor --repair").exits(0).says("nothing is broken");
    world.ostler("gc --quarantined --apply").exits(0).says("1 quarantined run removed");
    assert!(!world.ostler("ps").exits(0).out.contains(&runs[0]));
    assert!(!world.data().join("journal/quarantine").exists());
    world.ostler("doctor").exits(0);
}

#[test]
fn damage_in_what_is_on_record_of_a_client_is_told_with_what_mends_it() {
    let world = world();
    world.ostler("client add acme --weight 5").exits(0);
    run(&world, "small.yaml");
    let mut bytes = fs::read(segment(&world)).unwrap();
    let name = bytes.windows(4).position(|bytes| bytes == b"acme").unwrap();
    bytes[name] ^= 0x40;
    fs::write(segment(&world), bytes).unwrap();
    for line in ["ps", "ps --clients", "show @last", "agents", "approvals", "market ls"] {
        let refused = world.ostler(line).exits(4).complains("the journal is damaged at segment 1, offset 64");
        refused.complains("`ostler doctor --repair` quarantines it");
    }
    world
        .ostler("doctor --repair")
        .exits(0)
        .says("! repaired       no run quarantined; 1 segment kept as found");
    world.ostler("ps").exits(0).says("succeeded");
}

#[test]
fn a_run_that_cannot_be_read_is_suspended_and_says_why() {
    let world = world();
    let ask = "id: ask\nnodes:\n  - {id: ok, kind: human_approval, params: {question: \"Now?\"}, human_timeout: 1h}\n";
    world.file("ask.yaml", ask);
    world.ostler("run ask.yaml --workspace work").exits(3);
    flip(&world);
    let listed = world.ostler("ps").exits(0);
    let listed =
        listed.says("suspended").says("  it cannot be read: the journal is damaged").says("ostler doctor");
    assert!(!listed.out.contains("suspended:") && !listed.out.contains("ostler resume"), "{}", listed.out);
    for (word, is_it) in [("suspended", true), ("waiting", false)] {
        let listed = world.ostler(&format!("ps --state {word}")).exits(0);
        assert_eq!(listed.out.contains("it cannot be read"), is_it, "{word}: {}", listed.out);
    }
}

#[test]
fn a_result_that_is_damaged_or_missing_sets_its_run_aside() {
    for missing in [false, true] {
        let world = world();
        let (small, big) = (run(&world, "small.yaml"), run(&world, "big.yaml"));
        let stored = artifacts(&world);
        assert_eq!(stored.len(), 1);
        match missing {
            true => fs::remove_file(&stored[0]).unwrap(),
            false => fs::write(&stored[0], "other bytes").unwrap(),
        }
        let told =
            world.ostler("doctor").exits(4).says("✘ touched").says(&big).says("the result of node read");
        assert!(!told.out.contains(&small), "{}", told.out);
        world.ostler("doctor --repair").exits(0).says("1 run quarantined");
        world.ostler("doctor").exits(0).says("! quarantined");
        // The records are intact; the same result can be produced again.
        world.ostler(&format!("events {big}")).exits(0).says("executed");
        let shown = &world.ostler(&format!("show {big} --json")).exits(0).lines()[0];
        assert_eq!(
            (shown["status"].as_str(), shown["outcome"].as_str()),
            (Some("quarantined"), Some("succeeded"))
        );
        assert!(shown["reason"].as_str().unwrap().contains("the result of node read"), "{shown}");
        world.ostler(&format!("resume {big}")).exits(4).complains("quarantined");
        run(&world, "big.yaml");
        world.ostler("doctor").exits(0);
        let aside = || fs::read_dir(world.data().join("artifacts/damaged")).into_iter().flatten().count();
        assert_eq!(aside(), usize::from(!missing));
        let gone = world.ostler("gc --quarantined --apply").exits(0).says("1 quarantined run removed");
        assert_eq!((aside(), gone.out.contains("1 damaged result removed: ")), (0, !missing), "{}", gone.out);
        world.ostler("doctor").exits(0);
    }
}

#[test]
fn a_damaged_index_is_built_again_and_told() {
    let world = world();
    let small = run(&world, "small.yaml");
    let index = world.data().join("index.redb");
    let mut bytes = fs::read(&index).unwrap();
    let middle = bytes.len() / 2;
    bytes[..middle].fill(0x55);
    fs::write(&index, bytes).unwrap();
    world.ostler("doctor").exits(0).says("! index").says("rebuilt from the journal");
    world.ostler("ps").exits(0).says(&small);
    let again = world.ostler("doctor").exits(0);
    assert!(!again.out.contains("! index"), "{}", again.out);
}

#[test]
fn a_damaged_page_of_the_index_costs_nothing_but_its_rebuilding() {
    let world = world();
    let small = run(&world, "small.yaml");
    let index = world.data().join("index.redb");
    let sound = fs::read(&index).unwrap();
    for page in 0..sound.len() / 4096 {
        let mut bytes = sound.clone();
        bytes[page * 4096..][..4096].fill(0x22);
        fs::write(&index, bytes).unwrap();
        let told = world.ostler("ps").exits(0).says(&small);
        assert_eq!(told.err, "", "page {page}");
    }
}

#[test]
fn an_index_that_says_otherwise_than_the_records_is_told_with_what_makes_it_anew() {
    let world = world();
    let small = run(&world, "small.yaml");
    // An orderly close completes the index.
    drop(ostler_store::Store::open(&world.data()).unwrap());
    let sound = world.ostler("doctor").exits(0);
    assert!(!sound.out.contains(" index "), "{}", sound.out);
    let index = world.data().join("index.redb");
    let database = redb::Database::open(&index).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut rows = write.open_table(TableDefinition::<&[u8], &[u8]>::new("rows")).unwrap();
        rows.pop_first().unwrap().expect("the run has a line");
    }
    write.commit().unwrap();
    drop(database);
    let told = world.ostler("doctor").exits(4).says("✘ index").says("remove index.redb");
    told.says(&format!("run {small}: not listed as ended or suspended"));
    fs::remove_file(index).unwrap();
    world.ostler("doctor").exits(0);
    world.ostler("ps").exits(0).says(&small);
}

#[test]
fn runs_that_are_over_for_long_go_and_their_client_has_paid_for_them() {
    let world = world();
    world.ostler("client add acme --credit 100000").exits(0);
    world.ostler("run big.yaml --workspace work --client acme").exits(0);
    let spent =
        |world: &World| world.ostler("credit acme --json").exits(0).lines()[0]["spent"].as_i64().unwrap();
    let before = spent(&world);
    assert!(before > 0);
    world.ostler("gc").exits(0).says("nothing to remove").complains("runs are kept without limit");
    world.ostler("gc --older-than 30d").exits(0).says("nothing to remove");
    world.ostler("gc --older-than 0d").exits(2).complains("above zero");
    world
        .ostler("gc --older-than 1ms")
        .exits(0)
        .says("1 run would be removed")
        .says("1 result")
        .says("--apply");
    assert_eq!(artifacts(&world).len(), 1);
    let done = &world.ostler("gc --older-than 1ms --apply --json").exits(0).lines()[0];
    assert_eq!((done["runs"].as_array().unwrap().len(), done["artifacts"].as_u64()), (1, Some(1)));
    assert!(done["journal_bytes_after"].as_u64() < done["journal_bytes_before"].as_u64());
    assert_eq!(artifacts(&world), Vec::<PathBuf>::new());
    world.ostler("ps").exits(0).complains("no run yet");
    assert_eq!(spent(&world), before);
    world.ostler("doctor").exits(0);
    world.ostler("run big.yaml --workspace work --client acme").exits(0);
    world.file("data/ostler.toml", "[retention]\nkeep = \"1ms\"\n");
    // Retention uses the index, which may lag behind the last run: then the next command removes it.
    let listed = (0..5).map(|_| {
        let kept = run(&world, "small.yaml");
        world.ostler("ps").exits(0).says(&kept)
    });
    let gone = listed.map(|left| left.out).find(|left| !left.contains("big"));
    assert!(gone.is_some(), "{}", world.ostler("ps").out);
    assert!(spent(&world) > before);
}

#[test]
fn who_opens_the_folder_is_told_what_it_kept_no_longer() {
    let world = world();
    run(&world, "small.yaml");
    world.ostler("doctor").exits(0).says("✔ retention      runs are kept without limit\n");
    world.file("data/ostler.toml", "[retention]\nkeep = \"1ms\"\n");
    world.ostler("doctor").exits(0).says("✔ retention      closed runs are removed after 1ms");
    // Retention uses the index, which may lag behind the last run: then the next command removes it.
    let mut said = (0..5).map(|_| world.ostler("run small.yaml --workspace work").exits(0).err);
    let said = said.find(|said| said.contains("keep")).expect("one of five finds something that is due");
    let note = said.lines().find(|line| line.contains("keep")).unwrap();
    let of_more = note.starts_with("note: ") && note.ends_with(" runs older than keep = 1ms were removed");
    assert!(of_more || note == "note: 1 run older than keep = 1ms was removed", "{said}");
    // Reading removes nothing.
    let looked = world.ostler("ps").exits(0);
    assert!(!looked.err.contains("keep"), "{looked:?}");
}

#[test]
fn what_is_held_is_neither_repaired_nor_collected() {
    let world = world();
    run(&world, "small.yaml");
    let held = ostler_store::Store::open(&world.data()).unwrap();
    for line in ["gc --older-than 1ms --apply", "doctor --repair"] {
        world.ostler(line).exits(4).complains("held by process").complains("after that process has ended");
    }
    // Only telling is possible beside the holder.
    let listed = world.ostler("gc --older-than 1ms").exits(0).says("1 run would be removed");
    listed.complains(&format!("held by process {}", std::process::id()));
    drop(held);
}

/// A copy of the own last segment under the next number: its end looks torn, and the next run refuses the journal.
#[test]
fn a_torn_end_beside_damage_is_not_said_to_need_nothing() {
    let world = world();
    run(&world, "small.yaml");
    fs::copy(segment(&world), world.data().join("journal/0000000002.seg")).unwrap();
    let told = world.ostler("doctor").exits(4);
    assert!(!told.out.contains("no action needed"), "{}", told.out);
    told.says("ostler doctor --repair");
}
