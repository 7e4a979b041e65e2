//! `ostler simulate`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ostler_drivers::model::decode::decode_case;
use ostler_drivers::regular_file::read_text;
use ostler_sim::{gate, graph, lineage, modes, queue};
use serde_json::{Value, json};

use crate::cli::arguments::Globals;
use crate::cli::arguments::plan::STDIN;
use crate::cli::exit::{Failure, code};
use crate::cli::output::cells::{fit_name, harmless_line};
use crate::cli::output::terminal::Out;

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Simulate plans with scripted outcomes, one JSON object per line
    ///
    /// A line is a case: an `id`, a `plan` as for `ostler run`, and scripted outcomes. `script` lists the
    /// attempts of each node in order, {"ok": VALUE} or {"fail": "timeout"}, with their duration in ticks
    /// as `dur`. `human` lists answers to each node, {"approve": TICKS} or {"reject": TICKS}; `control`
    /// lists commands of an operator, {"at": TICK, "op": "cancel", "node": NODE}; `patch` and `replans`
    /// list answers of planners. The result is printed in the format of `expect`, which a case may contain
    /// too.
    #[command(
        after_help = "Examples:\n  ostler simulate graph cases.jsonl\n  ostler simulate graph cases.jsonl --check"
    )]
    Graph(FileArgs),
    /// Simulate a trace of the run queue, one JSON object per line
    ///
    /// A line is an operation: `op` and its parameters. {"op": "client", "id": "ada", "weight": 200} adds a
    /// client, {"op": "enqueue", "id": "j", "client": "ada", "est": 5} adds a job, {"op": "dispatch"}
    /// starts the next job, {"op": "settle", "id": "j", "actual": 7} records its cost. Further operations:
    /// config, remove_client, agent, dag, step, cancel, credit, weight, rep, tier, advance and stat.
    /// Results are printed one per line; an invalid operation prints {"error": CODE, "op": OP}, and the
    /// trace continues. --check compares with FILE.expected.jsonl beside FILE.jsonl.
    #[command(
        after_help = "Examples:\n  ostler simulate queue trace.jsonl\n  ostler simulate queue trace.jsonl --check"
    )]
    Queue(FileArgs),
    /// Decode recorded responses of language models, one JSON object per line
    ///
    /// A line is a case: an `id`, a `protocol`, "openai" or "anthropic", and a `response` with `status`,
    /// `headers` and one of `body`, `body_b64` (base64) and `body_gen` ([[TEXT, COUNT], ..]). A streamed
    /// response is its bytes as received. `chunks` lists offsets at which the body is also decoded in
    /// pieces. The result is printed in the format of `expect`, which a case may contain too.
    #[command(
        after_help = "Examples:\n  ostler simulate model responses.jsonl\n  ostler simulate model responses.jsonl --check"
    )]
    Model(FileArgs),
    /// Simulate goals with scripted models and tools, one JSON object per line
    ///
    /// A line is a case: an `id`, a `goal`, a `mode` (reflect, nreflect:N, orchestrator, react, auto or
    /// sgh), `tools`, and scripted answers of models in order: `plans`, `reflections`, `thoughts`,
    /// `answers` and `interjections`, and `observations` and `micro` by node. An answer is {"ok": ANSWER}
    /// or {"fail": "transient"}, with its duration in ticks as `dur` and its length as `tokens`. `script`,
    /// `human` and `policy` are those of `simulate graph`; `controls` lists commands of an operator, and
    /// `budgets` limits nodes, versions, depth, model_calls, tokens, replans and wall. The result is
    /// printed in the format of `expect`, which a case may contain too.
    #[command(
        after_help = "Examples:\n  ostler simulate modes cases.jsonl\n  ostler simulate modes cases.jsonl --check"
    )]
    Modes(FileArgs),
    /// Judge calls of tools in a scripted world, one JSON object per line
    ///
    /// A line is a case: an `id`, a `policy`, `tools`, results of earlier `nodes`, answers of name servers
    /// as `dns`, and one step or a list of `steps`. A step is a `call` with `tool` and `params`, or one of
    /// `resume`, `replay` and `recover` with the number of an earlier step; `clearance` is the answer of
    /// the clearance authority, `events` happen meanwhile, and `at_ms` sets the clock. The outcome of each
    /// step is printed in the format of its `expect`, which a step may contain too.
    #[command(
        after_help = "Examples:\n  ostler simulate gate cases.jsonl\n  ostler simulate gate cases.jsonl --check"
    )]
    Gate(FileArgs),
    /// Decide what revisions of a plan reuse and execute
    ///
    /// A line is a case: an `id`, a `plan`, the functions of its nodes as `fns`, the outside world as
    /// `sources`, and `revisions`. A revision continues a `run` or starts one, and applies operations as
    /// `ops`: {"op": "set", "node": NODE, "field": "prompt", "value": TEXT}, and param, ref, rename, add,
    /// remove, source, artifact_edit, unpin, answer, retract, corrupt, gate and domain. For each node it
    /// prints identities, the decision and the reason, in the format of `expect`, which a case may contain
    /// too; `measure` compares with the revision before.
    #[command(
        after_help = "Examples:\n  ostler simulate lineage cases.jsonl\n  ostler simulate lineage cases.jsonl --check"
    )]
    Lineage(FileArgs),
}

#[derive(Debug, Args)]
struct FileArgs {
    /// Input file; or - for stdin
    file: PathBuf,
    /// Compare with the expected results; exit with 1 on a difference
    #[arg(long)]
    check: bool,
}

impl FileArgs {
    fn is_stdin(&self) -> bool {
        self.file.as_os_str() == STDIN
    }

    /// Name in messages.
    fn name(&self) -> String {
        if self.is_stdin() { "stdin".to_owned() } else { self.file.display().to_string() }
    }

    /// Opens the input. A pipe is read, up to the limits of what reads it.
    fn open(&self) -> Result<Box<dyn BufRead>, Failure> {
        if self.is_stdin() {
            return Ok(Box::new(std::io::stdin().lock()));
        }
        let file = std::fs::File::open(&self.file).map_err(|error| unreadable(&self.name(), &error))?;
        Ok(Box::new(BufReader::new(file)))
    }
}

/// Bytes of a case, a line of its file.
const CASE_BYTES_MAX: usize = 16 << 20;

/// Bytes of a trace, or of its expected results.
const TRACE_BYTES_MAX: u64 = 64 << 20;

/// Reads a line without its end; `None` at the end of the input.
fn next_case(input: &mut dyn BufRead) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    if input.take(CASE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() > CASE_BYTES_MAX {
        return Err(std::io::Error::other(format!("a line has more than {CASE_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(line).map_err(std::io::Error::other)?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

pub(crate) fn simulate(globals: &Globals, args: SimulateArgs) -> Result<u8, Failure> {
    match args.what {
        What::Graph(args) => cases(&args, globals.json, &mut Out::new(), graph_case),
        What::Queue(args) => queue_trace(&args, globals.json, &mut Out::new()),
        What::Model(args) => cases(&args, globals.json, &mut Out::new(), model_case),
        What::Modes(args) => cases(&args, globals.json, &mut Out::new(), mode_case),
        What::Gate(args) => cases(&args, globals.json, &mut Out::new(), gate_case),
        What::Lineage(args) => cases(&args, globals.json, &mut Out::new(), lineage_case),
    }
}

fn print_comparison(passed: usize, failed: usize, json: bool, out: &mut Out) -> u8 {
    if json {
        out.json(&json!({"type": "compared", "passed": passed, "failed": failed}));
    } else {
        out.line(format!("{passed} passed, {failed} failed"));
    }
    if failed == 0 { code::SUCCEEDED } else { code::FAILED }
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    Failure::invalid(format!("{name}: cannot read: {error}"))
}

/// Checking nothing is an error, not a success.
fn nothing_to_check(name: &str, lacks: &str) -> Failure {
    Failure::invalid(format!("{name}: contains {lacks}; nothing was checked"))
}

/// The result of a case, in the format of `expect`.
struct CaseResult {
    id: String,
    actual: Value,
    has_expect: bool,
    difference: Option<String>,
}

/// Output of a simulation for one case.
fn simulated(result: Result<graph::CaseResult, graph::BadCase>) -> Result<CaseResult, String> {
    let result = result.map_err(|error| error.to_string())?;
    let (has_expect, difference) = (result.expected.is_some(), result.difference());
    Ok(CaseResult { id: result.id, actual: result.actual, has_expect, difference })
}

fn graph_case(line: &str) -> Result<CaseResult, String> {
    simulated(graph::run_case(line))
}

fn mode_case(line: &str) -> Result<CaseResult, String> {
    simulated(modes::run_case(line))
}

fn gate_case(line: &str) -> Result<CaseResult, String> {
    simulated(gate::run_case(line))
}

fn lineage_case(line: &str) -> Result<CaseResult, String> {
    simulated(lineage::run_case(line))
}

fn model_case(line: &str) -> Result<CaseResult, String> {
    let result = decode_case(line).map_err(|error| error.to_string())?;
    let (has_expect, difference) = (result.expected.is_some(), result.difference());
    Ok(CaseResult { id: result.id, actual: result.actual, has_expect, difference })
}

/// Runs the cases of a file and prints or, with `--check`, compares their results.
fn cases(
    args: &FileArgs,
    json: bool,
    out: &mut Out,
    run: impl Fn(&str) -> Result<CaseResult, String>,
) -> Result<u8, Failure> {
    let (name, mut input) = (args.name(), args.open()?);
    let (mut passed, mut failed) = (0, 0);
    let mut lines_by_id: BTreeMap<String, usize> = BTreeMap::new();
    for at in 0.. {
        let Some(line) = next_case(&mut *input).map_err(|error| unreadable(&name, &error))? else { break };
        if line.trim().is_empty() {
            continue;
        }
        let result = run(&line)
            .map_err(|error| Failure::invalid(format!("{name}:{}: {}", at + 1, harmless_line(&error))))?;
        if let Some(before) = lines_by_id.insert(result.id.clone(), at + 1) {
            return Err(Failure::invalid(format!(
                "{name}:{}: case {:?} is already in line {before}; give each case its own id",
                at + 1,
                result.id
            )));
        }
        if !args.check {
            out.json(&json!({"id": result.id, "expect": result.actual}));
            continue;
        }
        if !result.has_expect {
            return Err(Failure::invalid(format!(
                "{name}:{}: case {:?} has no `expect`; add it, or omit --check",
                at + 1,
                result.id
            )));
        }
        match result.difference {
            None => passed += 1,
            Some(difference) => {
                failed += 1;
                if json {
                    out.json(&json!({"type": "difference", "id": result.id, "difference": difference}));
                } else {
                    out.line(format!("{}: {}", fit_name(&result.id, usize::MAX), harmless_line(&difference)));
                }
            }
        }
    }
    if !args.check {
        return Ok(code::SUCCEEDED);
    }
    if lines_by_id.is_empty() {
        return Err(nothing_to_check(&name, "no case"));
    }
    Ok(print_comparison(passed, failed, json, out))
}

fn queue_trace(args: &FileArgs, json: bool, out: &mut Out) -> Result<u8, Failure> {
    if args.check && args.is_stdin() {
        let what = "--check: needs a file, not stdin; name a file, or omit the option";
        return Err(Failure::invalid(what.to_owned()));
    }
    let (name, mut input) = (args.name(), String::new());
    let read = args.open()?.take(TRACE_BYTES_MAX + 1).read_to_string(&mut input);
    if read.map_err(|error| unreadable(&name, &error))? as u64 > TRACE_BYTES_MAX {
        return Err(Failure::invalid(format!(
            "{name}: has more than {TRACE_BYTES_MAX} bytes; split the trace"
        )));
    }
    let printed = queue::run_trace(&input);
    if !args.check {
        out.raw(printed.as_bytes());
        return Ok(code::SUCCEEDED);
    }
    if input.trim().is_empty() {
        return Err(nothing_to_check(&name, "no operation"));
    }
    let beside = args.file.with_extension("expected.jsonl");
    let expected = read_text(&beside, TRACE_BYTES_MAX)
        .map_err(|error| Failure::invalid(format!("{}: {error}", beside.display())))?;
    let (expected, printed): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), printed.lines().collect());
    let longest = expected.len().max(printed.len());
    let failed = (0..longest).filter(|&at| expected.get(at) != printed.get(at)).count();
    if let Some(at) = (0..longest).find(|&at| expected.get(at) != printed.get(at)) {
        let line_at = |lines: &[&str]| lines.get(at).map_or("nothing".to_owned(), |line| (*line).to_owned());
        let (expected, got) = (line_at(&expected), line_at(&printed));
        if json {
            out.json(&json!({"type": "difference", "line": at + 1, "expected": expected, "got": got}));
        } else {
            out.line(format!("line {}: expected {}", at + 1, harmless_line(&expected)));
            out.line(format!("line {}: got      {}", at + 1, harmless_line(&got)));
        }
    }
    Ok(print_comparison(longest - failed, failed, json, out))
}
