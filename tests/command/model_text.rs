//! What models write, while they write it: on a terminal, over the API, and in bounded memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use super::terminal::Terminal;
use super::world::{World, until};

/// Time limit of a wait for the other side.
const PATIENCE: Duration = Duration::from_secs(60);

/// A provider whose answers the test writes piece by piece.
struct Provider {
    connections: mpsc::Receiver<TcpStream>,
}

impl Provider {
    /// A provider, configured as the default model of a world.
    fn of(world: &World) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = format!(
            "[models.default]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nmodel = \"m\"\n\
             profile = \"generic\"\nprice = \"free\"\n"
        );
        std::fs::create_dir_all(world.data()).unwrap();
        std::fs::write(world.data().join("ostler.toml"), config).unwrap();
        let (accepted, connections) = mpsc::channel();
        std::thread::spawn(move || {
            listener.incoming().map_while(Result::ok).try_for_each(|stream| accepted.send(stream))
        });
        Provider { connections }
    }

    /// Waits for the next request, and begins the answer.
    fn call(&self) -> Call {
        let stream = self.connections.recv_timeout(PATIENCE).expect("a call of the model");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut call = Call { stream };
        let (mut request, mut some) = (Vec::new(), [0; 4_096]);
        while !is_whole(&request) {
            let count = call.stream.read(&mut some).unwrap();
            request.extend_from_slice(&some[..count]);
        }
        call.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").unwrap();
        call
    }
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.trim().parse().unwrap())
}

/// An answer that the test writes.
struct Call {
    stream: TcpStream,
}

impl Call {
    fn send(&mut self, bytes: &str) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_bytes())
    }

    fn delta(&mut self, delta: &Value) -> std::io::Result<()> {
        self.send(&format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]})))
    }

    fn text(&mut self, text: &str) {
        self.delta(&json!({"content": text})).unwrap();
    }

    fn end(mut self) {
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        self.send(&format!("data: {end}\n\ndata: [DONE]\n\n")).unwrap();
    }
}

/// A connection that follows the texts of the last run.
struct Follower {
    lines: BufReader<UnixStream>,
}

impl Follower {
    fn connect(world: &World, query: &str, last_event_id: &str) -> Follower {
        let mut stream = UnixStream::connect(world.data().join("control.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "GET /v1/runs/@last/text{query} HTTP/1.0\r\nHost: x\r\nLast-Event-ID: {last_event_id}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        Follower { lines: BufReader::new(stream) }
    }

    /// The next row and its id; `None` at the end.
    fn next(&mut self) -> Option<(String, Value)> {
        let (mut id, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            // A process that ends while it is asked says so, and closes the connection.
            if self.lines.read_line(&mut line).unwrap() == 0 || line == "event: problem\n" {
                return None;
            }
            if let Some(found) = line.strip_prefix("id: ") {
                found.trim().clone_into(&mut id);
            }
            if let Some(row) = line.strip_prefix("data: ") {
                return Some((id, serde_json::from_str(row).unwrap()));
            }
        }
    }

    /// Reads pieces of the text up to one that ends so; returns all of them and the last id.
    fn until(&mut self, end: &str) -> (String, String) {
        let mut read = String::new();
        loop {
            let (id, row) = self.next().unwrap_or_else(|| panic!("it ended after {read:?}"));
            read += row["text"].as_str().unwrap_or("<end>");
            if read.ends_with(end) {
                return (read, id);
            }
        }
    }
}

const TALK: &str = "id: talk\nnodes:\n  - {id: say, tool: model.default, params: {prompt: hello}, contract: [{method: schema, spec: {}}]}\n";

fn world(plan: &str) -> (World, Provider) {
    let world = World::new();
    world.file("plan.yaml", plan);
    let provider = Provider::of(&world);
    (world, provider)
}

const RUN: &str = "run plan.yaml --workspace work";

#[test]
fn a_terminal_shows_the_text_as_it_grows_and_the_answer_once() {
    let Some(terminal) = Terminal::open(80, 24) else { return };
    let provider = Provider::of(&terminal.world);
    terminal.keys("$OSTLER ask 'what is up?' --yes --workspace work; echo code $?");
    let mut call = provider.call();
    call.delta(&json!({"reasoning_content": "hm, the sky"})).unwrap();
    terminal.until_says("│ think.1 (thinks) | hm, the sky");
    call.text("The sky");
    terminal.until_says("│ think.1 | The sky");
    call.text(" is\u{1b}[2J up\u{7}.\nAnd so");
    let screen = terminal.until_says("│ think.1 | And so");
    assert!(screen.contains("│ think.1 | The sky is\u{fffd}[2J up\u{fffd}."), "{screen}");
    assert!(screen.contains("think.1  running") && screen.contains("0/1 node"), "{screen}");
    call.text(" on.");
    terminal.until_says("│ think.1 | And so on.");
    call.end();
    terminal.until_says("code 0");
    let everything = terminal.everything();
    assert_eq!(everything.matches("And so on.").count(), 1, "{everything}");
    assert!(!everything.contains("hm, the sky") && !everything.contains("│ think.1"), "{everything}");
    terminal.is_whole();
}

#[test]
fn a_follower_at_a_terminal_sees_the_text_below_the_records() {
    let Some(terminal) = Terminal::open(100, 24) else { return };
    let provider = Provider::of(&terminal.world);
    terminal.world.file("plan.yaml", TALK);
    let run = terminal.world.start(RUN);
    let mut call = provider.call();
    call.text("so far");
    until("the text is there", || Follower::connect(&terminal.world, "?until=now", "").next().is_some());
    terminal.keys("$OSTLER events @last --follow; echo code $?");
    terminal.until_says("│ say | so far");
    call.text(", and on");
    let screen = terminal.until_says("│ say | so far, and on");
    let at = |text: &str| screen.rfind(text).unwrap_or_else(|| panic!("no {text} in {screen}"));
    assert!(at("attempt_intent") < at("│ say"), "{screen}");
    call.end();
    let screen = terminal.until_says("code 0");
    assert!(screen.contains("run_closed") && !screen.contains("│ say"), "{screen}");
    terminal.is_whole();
    run.end().exits(0);
}

#[test]
fn a_reader_that_comes_late_or_again_gets_each_byte_once_and_none_of_them_delays_the_call() {
    let (world, provider) = world(TALK);
    let run = world.start(RUN);
    let mut call = provider.call();
    call.text("one ");
    until("the socket is there", || world.data().join("control.sock").exists());
    let mut early = Follower::connect(&world, "", "");
    assert_eq!(early.until("one ").0, "one ");
    call.text("two ");
    let mut late = Follower::connect(&world, "?node=say", "");
    assert_eq!(late.until("two ").0, "one two ");
    let (read, id) = early.until("two ");
    assert_eq!(read, "two ");
    // A reader that goes away, and one that never reads.
    drop(early);
    let _idle = Follower::connect(&world, "", "");
    call.text("three ");
    assert_eq!(Follower::connect(&world, "", &id).until("three ").0, "three ");
    assert_eq!(late.until("three ").0, "three ");
    call.end();
    let (id, ended) = late.next().unwrap();
    assert!(ended["text"].is_null() && ended["end"] == 14 && id.ends_with(":14"), "{id} {ended}");
    assert!(late.next().is_none(), "the run is settled");
    run.end().exits(0).says("say  executed");
    // A reader without a position reads no text that has ended: its result is the artifact.
    assert!(world.ostler("artifact @last/say --path text").exits(0).out.starts_with("one two three "));
    assert_eq!(world.ostler("logs @last say").exits(0).out, "one two three \n");
    let records = world.ostler("events @last").exits(0);
    assert!(!records.out.contains("two "), "no piece is recorded: {}", records.out);
}

#[test]
fn of_an_answer_in_json_people_see_the_answer_and_nothing_else() {
    let schema = "{type: object, properties: {steps: {type: array}, answer: {type: string}}}";
    let (world, provider) = world(&TALK.replace("hello", &format!("hello, schema: {schema}")));
    let run = world.start(RUN);
    let mut call = provider.call();
    until("the socket is there", || world.data().join("control.sock").exists());
    let mut reader = Follower::connect(&world, "", "");
    call.text("{\"steps\": [{\"id\": \"secret plan\"}], \"ans");
    call.text("wer\": \"It is");
    assert_eq!(reader.until("It is").0, "It is");
    call.text(" so.\\nYes.\"}");
    assert_eq!(reader.until("Yes.").0, " so.\nYes.");
    call.end();
    run.end().exits(0);
    assert_eq!(world.ostler("logs @last say").exits(0).out, "It is so.\nYes.\n");
}

#[test]
fn a_pipe_gets_whole_lines_if_it_asks_for_logs_and_json_has_no_pieces() {
    for (options, lines) in [("", 0), ("--logs", 2), ("--json", 0), ("--json --logs", 1)] {
        let (world, provider) = world(TALK);
        let run = world.start(&format!("{RUN} {options}"));
        let mut call = provider.call();
        for piece in ["first", " line\nsec", "ond line"] {
            call.text(piece);
        }
        call.end();
        let out = run.end().exits(0).out;
        let of_model =
            out.lines().filter(|line| line.contains("say | ") || line.contains("\"stream\":\"model\""));
        assert_eq!(of_model.count() > 0, lines > 0, "{options}: {out}");
        assert!(!out.contains("model_text"), "{options}: {out}");
        if options == "--logs" {
            assert!(out.contains("say | first line\n") && out.contains("say | second line\n"), "{out}");
        }
    }
}

#[test]
fn a_lost_process_loses_the_text_and_the_repeated_call_begins_it_again() {
    let (world, provider) = world(TALK);
    let run = world.start(RUN);
    let mut call = provider.call();
    call.text("lost text");
    until("the socket is there", || world.data().join("control.sock").exists());
    let (_, id) = Follower::connect(&world, "", "").until("lost text");
    run.signal("KILL");
    run.end();
    let resumed = world.start("resume @last");
    let mut call = provider.call();
    call.text("another text");
    until("the new process answers", || UnixStream::connect(world.data().join("control.sock")).is_ok());
    let (read, again) = Follower::connect(&world, "", &id).until("another text");
    assert_eq!(read, "another text", "the offset of a text that is gone counts for nothing");
    assert_ne!(id.rsplit_once(':').unwrap().0, again.rsplit_once(':').unwrap().0);
    call.end();
    resumed.end().exits(0);
    assert_eq!(world.ostler("logs @last say").exits(0).out.lines().last(), Some("another text"));
}

/// Bytes of an answer beyond every limit.
const FLOOD_BYTES: usize = 100 << 20;

#[test]
fn an_answer_of_a_hundred_megabytes_takes_a_bounded_memory_whoever_reads_it() {
    let (world, provider) = world(&TALK.replace("params", "retries: 0, params"));
    let mut run = world.start(RUN);
    let mut call = provider.call();
    call.text("begun");
    until("the socket is there", || world.data().join("control.sock").exists());
    let mut reader = Follower::connect(&world, "", "");
    reader.until("begun");
    let _never_reads = Follower::connect(&world, "", "");
    let before = run.rss_bytes();
    let (line, mut sent, mut most) = ("x".repeat(64 << 10), 0, 0);
    while sent < FLOOD_BYTES && call.delta(&json!({"content": line})).is_ok() {
        sent += line.len();
        most = most.max(run.rss_bytes().saturating_sub(before));
    }
    assert!(sent < FLOOD_BYTES, "the call ends at its limit of bytes");
    assert!(most < 96 << 20, "{most} bytes more for {sent} bytes of an answer");
    // It read nothing meanwhile: what it finds is the end of the text, as far as that is kept.
    let mut read = 0;
    while let Some((_, row)) = reader.next() {
        read += row["text"].as_str().map_or(0, str::len);
    }
    assert!(read < 4 << 20, "{read} bytes of {sent}");
    run.until("say  failed");
    run.end().exits(1);
}

#[test]
fn a_place_that_is_none_is_refused() {
    let (world, provider) = world(TALK);
    let run = world.start(RUN);
    let call = provider.call();
    until("the socket is there", || world.data().join("control.sock").exists());
    for (query, id, expected) in [
        ("?after=say:1", "", "NODE:ATTEMPT:BEGAN_MS:OFFSET"),
        ("", "7", "NODE:ATTEMPT:BEGAN_MS:OFFSET"),
        ("?node=nobody", "", "no node nobody"),
        ("?after=say:1:0:18446744073709551615&until=now", "", "200 OK"),
    ] {
        let mut answer = String::new();
        Follower::connect(&world, query, id).lines.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(expected), "{query}: {answer}");
    }
    call.end();
    run.end();
}
