//! The control socket.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use super::world::World;

const LONG: &str = "id: long\nnodes:\n  - {id: nap, tool: time.sleep, params: {ms: 60000}, timeout: 90s}\n";

#[test]
fn the_socket_is_for_its_owner_alone_and_goes_with_its_process() {
    let world = World::new();
    world.file("long.yaml", LONG);
    let mut holder = world.start("run long.yaml --workspace work");
    holder.until("opened: long");
    let socket = world.data().join("control.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"status\":\"ok\""), "{answer}");
    holder.signal("INT");
    holder.end().exits(130);
    assert!(!socket.exists());
}

#[test]
fn a_data_folder_of_a_long_path_works_too() {
    let world = World::new();
    world.file("long.yaml", LONG);
    let data = world.path().join("d".repeat(120));
    let option = format!("--data {}", data.display());
    let mut holder = world.start(&format!("{option} run long.yaml --workspace work"));
    holder.until("opened: long");
    world.ostler(&format!("{option} ps")).exits(0).says("waiting");
    world.ostler(&format!("{option} cancel @last")).exits(0);
    holder.end().exits(1);
}

#[test]
fn what_a_dead_process_left_is_no_obstacle() {
    let world = World::new();
    world.file("long.yaml", LONG);
    let mut holder = world.start("run long.yaml --workspace work");
    holder.until("opened: long");
    holder.signal("KILL");
    holder.end();
    assert!(world.data().join("control.sock").exists());
    world.ostler("ps").exits(0).says("queued");
    world.ostler("cancel @last").exits(0).says("cancelled");
}
