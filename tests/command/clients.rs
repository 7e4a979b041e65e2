//! Who pays: `ostler client`, `ostler credit`, `ostler ps --clients`.

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
        "acme: weight 10 (from its credits of the last thirty days), marketplace, 100 credits left of 100",
    );
    let mut run = world.start("run two.yaml --workspace work --client acme");
    run.until("the credits of client acme are used up: nothing more starts until there are more: ostler credit acme +1000");
    world.ostler("ps --clients").exits(0).says("  parked");
    world.ostler("credit acme").exits(0).says("parked: nothing of it starts until it has credits");
    world.ostler("credit acme +1000").exits(0).says("marketplace");
    run.end().exits(0).says("client acme has credits again").says("2 executed");
    let line = &world.ostler("credit acme --json").exits(0).lines()[0];
    let number = |key: &str| line[key].as_i64().unwrap();
    assert_eq!((number("deposited"), line["parked"].as_bool()), (1_100, Some(false)));
    assert_eq!(number("left"), 1_100 - number("spent"));
    assert!(number("spent") >= 2);
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
        ("client add a/b", 2, "\"a/b\" is not"),
        ("credit nobody", 2, "nothing is known of a client nobody: `ostler client add nobody` adds it"),
        ("credit acme ten", 2, "give a whole number with its sign"),
        ("credit acme -5", 2, "0 of its credits are left: 5 cannot be taken back"),
        ("credit acme +9007199254740993", 2, "give at most 9007199254740992"),
        ("client add fixed --weight 8", 2, "stated in ostler.toml"),
    ] {
        world.ostler(line).exits(code).complains(told);
    }
    let clients = world.ostler("ps --clients").exits(0);
    assert_eq!(clients.out.lines().count(), 3, "{}", clients.out);
}
