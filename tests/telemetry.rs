//! Traces, as a collector gets them.
#![cfg(feature = "otel")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

const SCRIPT: &str = r#"
roles:
  planner:
    - answer: {answer: null, missing: null, steps: [
        {id: read, tool: fs.read, params: {path: note.md}, refs: [], after: [], why: null},
        {id: gone, tool: fs.read, params: {path: none.md}, refs: [], after: [], why: null}]}
      tokens: {input: 100, output: 20}
  micro:
    - answer: {decision: skip, tool: null, params: null, refs: null}
  reflect:
    - answer: {decision: conclude, verdict: "enough", next: null, cancel: []}
  answer:
    - answer: {answer: "buy oat milk", citations: [read]}
"#;

/// Head and body.
type Request = (String, Vec<u8>);

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Serves each connection once, in threads, and keeps the requests.
struct Served {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

fn serve(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
    let kept = requests.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let Some((head, body)) = read(&stream) else { continue };
            let answer = answer(&head);
            kept.lock().unwrap().push((head, body));
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    Served { port, requests }
}

fn collector() -> Served {
    serve(|_| "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned())
}

impl Served {
    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap();
        let decoded = requests.iter().map(|(head, body)| {
            assert!(head.starts_with("POST /v1/traces "), "{head}");
            ExportTraceServiceRequest::decode(&body[..]).unwrap()
        });
        let of_resources = decoded.flat_map(|request| request.resource_spans);
        of_resources.flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
    }

    fn has(&self, text: &str) -> bool {
        let requests = self.requests.lock().unwrap();
        requests.iter().any(|(_, body)| body.windows(text.len()).any(|part| part == text.as_bytes()))
    }
}

/// Runs the command in `folder`, with its data there.
fn ostler(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command.current_dir(folder).args(args).env("OSTLER_DATA", folder.join("data")).stdin(Stdio::null());
    command.env_remove("OSTLER_CONFIG").env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").envs(env.iter().copied());
    command.output().unwrap()
}

fn attribute(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(count)) => count.to_string(),
        Some(Value::ArrayValue(list)) => format!("{} values", list.values.len()),
        Some(other) => format!("{other:?}"),
        None => "-".to_owned(),
    }
}

/// Each span as `parent > name error`, sorted.
fn tree(spans: &[Span]) -> Vec<String> {
    let names: BTreeMap<&[u8], &str> =
        spans.iter().map(|span| (&span.span_id[..], span.name.as_str())).collect();
    let line = |span: &Span| {
        let parent = names.get(&span.parent_span_id[..]).copied().unwrap_or("none");
        format!("{parent} > {} {}", span.name, attribute(span, "error.type"))
    };
    let mut lines: Vec<String> = spans.iter().map(line).collect();
    lines.sort();
    lines
}

fn ask(folder: &Path, env: &[(&str, &str)]) {
    std::fs::write(folder.join("script.yaml"), SCRIPT).unwrap();
    std::fs::write(folder.join("note.md"), "a very private note").unwrap();
    let args = ["ask", "what to buy", "--mode", "reflect", "--model", "scripted:script.yaml", "--yes"];
    let ended = ostler(folder, &args, env);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_goal_run_is_one_trace_of_its_plans_chats_and_tools() {
    let (folder, collector) = (tempfile::tempdir().unwrap(), collector());
    ask(folder.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint())]);
    let spans = collector.spans();
    assert_eq!(
        tree(&spans),
        [
            "invoke_agent > chat scripted -",
            "invoke_agent > chat scripted -",
            "invoke_agent > chat scripted -",
            "invoke_agent > execute_tool fs.read -",
            "invoke_agent > execute_tool fs.read structural",
            "invoke_agent > plan plan.1 -",
            "none > invoke_agent -",
            "plan plan.1 > chat scripted -",
        ]
    );
    let root = spans.iter().find(|span| span.parent_span_id.is_empty()).unwrap();
    let run = attribute(root, "ostler.run.id");
    let trace: String = root.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(trace, run.replace('-', ""), "the id of the run is the id of the trace");
    for span in &spans {
        assert_eq!(span.trace_id, root.trace_id);
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        assert!(root.start_time_unix_nano <= span.start_time_unix_nano, "{span:?}");
    }
    let planned =
        spans.iter().find(|span| span.name == "chat scripted" && attribute(span, "ostler.role") == "planner");
    let planned = planned.unwrap();
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "scripted"),
        ("gen_ai.usage.input_tokens", "100"),
        ("gen_ai.usage.output_tokens", "20"),
        ("gen_ai.response.finish_reasons", "1 values"),
        ("ostler.node", "plan.1"),
    ] {
        assert_eq!(attribute(planned, name), value, "{name}");
    }
    for private in ["what to buy", "a very private note", "buy oat milk", "note.md"] {
        assert!(!collector.has(private), "{private:?} was sent without being asked for");
    }
}

#[test]
fn contents_are_sent_if_the_configuration_says_so() {
    let (folder, collector) = (tempfile::tempdir().unwrap(), collector());
    let config = format!("[telemetry]\notlp_endpoint = \"{}/\"\ncontents = true\n", collector.endpoint());
    std::fs::write(folder.path().join("ostler.toml"), config).unwrap();
    ask(folder.path(), &[("OSTLER_CONFIG", "ostler.toml")]);
    for content in ["what to buy", "a very private note", "buy oat milk", "note.md"] {
        assert!(collector.has(content), "{content:?} is missing");
    }
}

const PLAN: &str = r#"
id: two
nodes:
  - {id: first, tool: text.render, params: {template: "x", values: {}}}
  - {id: sure, kind: human_approval, deps: [first], params: {question: "Is it out?"}, human_timeout: 1h}
  - {id: last, tool: text.render, deps: [sure], params: {template: "y", values: {}}}
"#;

#[test]
fn the_trace_of_a_run_goes_on_in_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.yaml"), PLAN).unwrap();
    let (one, two) = (collector(), collector());
    let waits =
        ostler(folder.path(), &["run", "plan.yaml"], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &one.endpoint())]);
    assert_eq!(waits.status.code(), Some(3), "{}", String::from_utf8_lossy(&waits.stderr));
    let listed = ostler(folder.path(), &["approvals", "--json"], &[]);
    let row: serde_json::Value =
        serde_json::from_slice(listed.stdout.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let digest = row["digest"].as_str().unwrap();
    let args = ["approve", "@last", "sure", "--digest", digest];
    let ended = ostler(folder.path(), &args, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &two.endpoint())]);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let (before, after) = (one.spans(), two.spans());
    let named = |spans: &[Span]| tree(spans).len();
    assert_eq!(
        tree(&before),
        ["none > execute_tool text.render -"],
        "its parent comes at the end of the run"
    );
    assert_eq!(named(&after), 2, "{:?}", tree(&after));
    let root = after.iter().find(|span| span.parent_span_id.is_empty()).unwrap();
    assert_eq!((&before[0].trace_id, &before[0].parent_span_id), (&root.trace_id, &root.span_id));
    assert!(
        root.start_time_unix_nano <= before[0].start_time_unix_nano,
        "the run began in the first process"
    );
    assert_eq!(attribute(root, "ostler.run.recoveries"), "1");
}

/// A provider that repeats the key wherever it can.
#[test]
fn a_key_is_in_no_span() {
    const SECRET: &str = "canary-4f1c9a7e";
    let (folder, collector) = (tempfile::tempdir().unwrap(), collector());
    let provider = serve(|head| {
        let key =
            head.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap().to_owned();
        let body = format!(
            r#"{{"id":"{key}","model":"{key}","choices":[{{"message":{{"content":"your key is {key}"}},"finish_reason":"stop"}}]}}"#
        );
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    });
    let config = format!(
        "[telemetry]\notlp_endpoint = \"{}\"\ncontents = true\n[models.default]\nprovider = \"openai\"\nmodel = \"m\"\n\
         api_key_env = \"CANARY_KEY\"\nbase_url = \"http://127.0.0.1:{}/v1\"\n",
        collector.endpoint(),
        provider.port
    );
    std::fs::write(folder.path().join("ostler.toml"), config).unwrap();
    let plan = "id: p\nnodes:\n  - {id: ask, model: default, params: {prompt: hi}}\n";
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let env = [("OSTLER_CONFIG", "ostler.toml"), ("CANARY_KEY", SECRET)];
    let ended = ostler(folder.path(), &["run", "plan.yaml"], &env);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(provider.requests.lock().unwrap()[0].0.contains(SECRET), "the key was sent to its provider");
    assert!(collector.has("your key is"), "the answer is among the contents");
    assert!(!collector.has(SECRET), "the key was sent to the collector");
}

#[test]
fn a_collector_that_is_gone_changes_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    ask(folder.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &gone)]);
    ask(folder.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", "no address")]);
}

#[test]
fn a_wrong_endpoint_in_the_file_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    for (endpoint, told) in [
        ("127.0.0.1:4318", "otlp_endpoint is no address of a collector"),
        ("http://me:secret@host", "OTEL_EXPORTER_OTLP_HEADERS"),
    ] {
        let config = format!("[telemetry]\notlp_endpoint = \"{endpoint}\"\n");
        std::fs::write(folder.path().join("ostler.toml"), config).unwrap();
        let ended = ostler(folder.path(), &["models"], &[("OSTLER_CONFIG", "ostler.toml")]);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.code() == Some(2) && said.contains(told), "{said}");
    }
}
