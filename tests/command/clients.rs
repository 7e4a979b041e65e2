//! `ostler client`, `ostler credit`, `ostler ps --clients`.

use super::world::World;

const TWO: &str = "id: two
nodes:
  - {id: a, tool: text.render, params: {template: a, values: {}}}
  - {id: b, tool: fs.list, params: {path: .}, deps: [a]}
";

#[test]
fn a_run_whose_client_is_out_of_credit_says_so_and_goes_on_when_there_is_some() {
    let world = World::new();
    world.file("two.yaml", TWO);
    let added = world.ostler("client add acme --credit 100").exits(0);
    added.says(
        "acme: weight 10 (from its deposits of the last thirty days), marketplace, 100 credits left of 100",
    );
    let mut run = world.start("run two.yaml --workspace work --client acme");
    run.until("client acme: credits are used up, no further attempt starts; ostler credit acme +1000");
    world.ostler("ps --clients").exits(0).says("  parked");
    world.ostler("credit acme").exits(0).says("parked: its attempts start when it has credits");
    world.ostler("credit acme +1000").exits(0).says("marketplace");
    run.end().exits(0).says("client acme has credits again").says("2 executed");
    let line = &world.ostler("credit acme --json").exits(0).lines()[0];
    let number = |key: &str| line[key].as_i64().unwrap();
    assert_eq!((number("deposited"), line["parked"].as_bool()), (1_100, Some(false)));
    assert_eq!(number("left"), 1_100 - number("spent"));
    assert!(number("spent") >= 2);
}

#[test]
fn who_meters_a_client_by_a_deposit_is_told_so_once() {
    let world = World::new();
    let told = "acme is metered from now on: its attempts stop when its credits are used up; \
                `ostler client remove acme` ends that\n";
    world.ostler("client add acme").exits(0).says("not metered");
    let first = world.ostler("credit acme +500").exits(0).says("500 credits left of 500");
    assert_eq!(first.err, told);
    for line in ["credit acme +10", "credit acme", "credit acme -510", "credit acme +5"] {
        assert_eq!(world.ostler(line).exits(0).err, "", "{line}");
    }
    // Programs find the state in `left`.
    world.ostler("client add other").exits(0);
    let first = world.ostler("credit other +5 --json").exits(0);
    assert_eq!((first.lines().len(), first.lines()[0]["left"].as_i64()), (1, Some(5)));
}

#[test]
fn a_removed_client_is_unmetered_and_one_in_use_is_not_removed() {
    let world = World::new();
    world.file("two.yaml", TWO);
    world.ostler("client remove acme").exits(2).complains("no client yet");
    world.ostler("client add acme --credit 100").exits(0);
    world.ostler("client remove other").exits(2).complains("`ostler client add other` adds it");
    let mut run = world.start("run two.yaml --workspace work --client acme");
    run.until("client acme: credits are used up");
    let used = world.ostler("client remove acme").exits(2);
    used.complains("of client acme is open and uses its terms").complains("`ostler cancel ");
    world.ostler("cancel @last").exits(0);
    run.end().exits(1);

    world.ostler("client remove acme").exits(0).says(" credits left of 100; it is not metered any more");
    world.ostler("credit acme").exits(0).says("acme: weight 100, marketplace, not metered");
    world.ostler("run two.yaml --workspace work --client acme").exits(0).says("2 executed");
    world.ostler("client remove acme").exits(2).complains("there is nothing to remove");
    world.ostler("doctor").exits(0);
    // A client that never ran is forgotten.
    world.ostler("client add other --weight 5").exits(0);
    world.ostler("client remove other").exits(0).says("other: removed, with weight 5, marketplace");
    world.ostler("credit other").exits(2).complains("nothing is known of a client other");
}

#[test]
fn who_looks_at_a_run_that_waits_for_credits_or_resumes_it_is_told_so() {
    let world = World::new();
    world.file("two.yaml", &TWO.replace("tool: text.render, params: {template: a, values: {}}", SLOW));
    world.ostler("client add acme --credit 100").exits(0);
    let mut run = world.start("run two.yaml --workspace work --client acme --intent 2");
    run.until("no further attempt starts; ostler credit acme +2000");
    run.signal("INT");
    run.end().exits(130);

    let waits = "waits for credits of client acme: ostler credit acme +2000";
    world.ostler("show @last").exits(0).says(waits).says("then ostler resume");
    world.ostler("ps").exits(0).says(waits);
    world
        .ostler("doctor")
        .exits(0)
        .says("1 run waits for credits of client acme")
        .says("`ostler credit acme +2000`");
    let told = world.ostler("events @last --follow").exits(0);
    told.complains("this run is not executing").complains(waits);
    let shown = &world.ostler("show @last --json").exits(0).lines()[0];
    assert_eq!(shown["out_of_credit"], true);
    let clients = world.ostler("ps --clients --json").exits(0).lines();
    assert_eq!(clients[0]["parked"], true, "{clients:?}");

    // In a pipe, and from a second terminal.
    let mut resumed = world.start("resume @last");
    let told = "client acme: credits are used up, no further attempt starts; ostler credit acme";
    resumed.until(told);
    let mut second = world.start("resume @last");
    second.until(told);
    let some = world.ostler("credit acme +10").exits(0);
    some.says("parked: its attempts start when it has credits, at least ");
    world.ostler("credit acme +2000").exits(0);
    resumed.end().exits(0).says("client acme has credits again");
    second.end().exits(0);
    let shown = world.ostler("show @last").exits(0);
    assert!(!shown.out.contains("credits of client"), "{}", shown.out);
}

/// A node that costs more than a client has.
const SLOW: &str = "tool: shell.run, params: {argv: [sleep, \"0.3\"]}";

#[test]
fn what_is_not_named_stays_as_it_is() {
    let world = World::new();
    world.ostler("client add umbrella --weight 300 --tier contracted").exits(0);
    for (line, told) in [
        ("client add umbrella --credit 50", "umbrella: weight 300, contracted, 50 credits left of 50"),
        ("client add umbrella --tier marketplace", "umbrella: weight 300, marketplace, 50 credits"),
        ("client add umbrella", "umbrella: weight 300, marketplace, 50 credits"),
        ("client add umbrella --weight credits", "umbrella: weight 10 (from its deposits"),
    ] {
        world.ostler(line).exits(0).says(told);
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_could_be() {
    let world = World::new();
    std::fs::create_dir(world.data()).unwrap();
    world.file("data/ostler.toml", "[clients.fixed]\nweight = 7\n");
    world.ostler("client add acme").exits(0).says("acme: weight 100, marketplace, not metered");
    for (line, code, told) in [
        ("client add acme --weight 0", 2, "give a whole number from 1 to 1000000"),
        ("client add acme --credit -5", 2, "--credit"),
        ("client add acme --tier gold", 2, "contracted, marketplace"),
        ("client add a/b", 2, "client name \"a/b\": expected"),
        ("client add acme --credit 0", 2, "give a whole number, 1 or more"),
        ("credit acme +0", 2, "an amount of 0 changes nothing"),
        ("credit nobody +5", 2, "nothing is known of a client nobody: `ostler client add nobody` adds it"),
        ("credit nobody", 2, "nothing is known of a client nobody: `ostler client add nobody` adds it"),
        ("credit acme 100", 2, "give a sign: +100 deposits, -100 withdraws"),
        ("credit acme ten", 2, "give an amount with its sign"),
        ("credit acme -5", 2, "0 credits left: 5 cannot be withdrawn"),
        ("credit acme +9007199254740993", 2, "give at most 9007199254740992"),
        ("client add fixed --weight 8", 2, "stated in ostler.toml"),
    ] {
        world.ostler(line).exits(code).complains(told);
    }
    for name in ["", "a b"] {
        let mut command = world.command("client add");
        let ended = command.arg(name).output().unwrap();
        let told = String::from_utf8(ended.stderr).unwrap();
        assert!(told.contains(&format!("client name {name:?}: expected 1 to 64 of")), "{told}");
    }
    let clients = world.ostler("ps --clients").exits(0);
    assert_eq!(clients.out.lines().count(), 3, "{}", clients.out);
}
