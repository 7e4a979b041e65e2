//! Tools: the devices that act on the world, and the trait [`Tool`].

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::BoxFuture;
use super::attempt::{AttemptLog, NoLog};
use super::model::{CallOrigin, ModelTerms};
use super::named_file::NamedFile;
use crate::event::Failure;
use crate::gate::{CallClass, Permit};
use crate::id::Digest;

/// Prefix of the tools of MCP servers.
pub const MCP_PREFIX: &str = "mcp.";

/// Description of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Name, such as `fs.read`.
    pub name: String,
    /// Version: part of the identity of every result.
    pub version: String,
    /// One line for people and models.
    pub description: String,
    /// JSON Schema of the parameters. At any depth, a text (or list of texts) with `format: path` is a path below the
    /// workspace, and one with `format: uri` a URL of the egress list: the gate checks both.
    pub params: Value,
    /// JSON Schema of the result.
    pub result: Value,
}

/// A tool with the permit for one call of that tool.
pub type PermittedTool = (Arc<dyn Tool>, Permit);

/// Result of a tool call: a JSON value, or a failure.
pub type ToolResult = Result<Value, Failure>;

/// The environment of a tool call.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The folder that the call may touch.
    pub workspace: Arc<Path>,
    /// Time until the call is abandoned, from its start.
    pub timeout_ms: u64,
    /// True if the call may be made again after a failure: it changes nothing, or its node says that a repetition is harmless.
    pub repeatable: bool,
    /// The attempt behind the call.
    pub origin: CallOrigin,
    /// The log of the attempt: heartbeats, progress and steps.
    pub attempt: Arc<dyn AttemptLog>,
    /// Recorded result of an equal read. The tool may return it if the source says that it has not changed since.
    pub recorded: Option<Arc<Value>>,
    /// The turn of a call that may write in the workspace; `None` for a call that writes nothing there. A tool that starts something that
    /// outlives the future of the call, such as a program or a request to a server, keeps [`WorkspaceTurn::hold`] until that has ended.
    pub turn: Option<Arc<dyn WorkspaceTurn>>,
}

impl CallContext {
    /// The environment of a call outside of any attempt: its log keeps nothing.
    pub fn without_log(workspace: Arc<Path>, timeout_ms: u64) -> CallContext {
        CallContext {
            workspace,
            timeout_ms,
            repeatable: false,
            origin: CallOrigin::default(),
            attempt: Arc::new(NoLog),
            recorded: None,
            turn: None,
        }
    }
}

/// The turn of a call among those that may write in a workspace.
pub trait WorkspaceTurn: Send + Sync + 'static {
    /// Holds the turn until the value is dropped: calls that need a turn alone wait for it. `None` while the call has given its turn back,
    /// because it waits for a run that it opened or for a person.
    fn hold(&self) -> Option<Arc<dyn Any + Send + Sync>>;
}

impl fmt::Debug for dyn WorkspaceTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkspaceTurn")
    }
}

/// A parameter that passes the schema and still cannot work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamProblem {
    /// Name of the parameter.
    pub name: String,
    /// The problem, as a sentence without a full stop.
    pub what: String,
    /// The remedy, as a sentence without a full stop.
    pub help: String,
    /// Line within the parameter's text, from 1, if known.
    pub line: Option<usize>,
}

/// What the calls of a tool do with the files of the workspace.
///
/// What strangers wrote may pass through a file: once a run has called a tool that writes with tainted inputs, the results
/// of tools that read are tainted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkspaceUse {
    /// Results may hold contents or names of files.
    pub reads: bool,
    /// Calls may change files.
    pub writes: bool,
}

impl WorkspaceUse {
    /// Calls touch no file.
    pub const NONE: WorkspaceUse = WorkspaceUse { reads: false, writes: false };
    /// Calls read files.
    pub const READS: WorkspaceUse = WorkspaceUse { reads: true, writes: false };
    /// Calls change files, and results hold none of their contents.
    pub const WRITES: WorkspaceUse = WorkspaceUse { reads: false, writes: true };
    /// Calls read and change files.
    pub const BOTH: WorkspaceUse = WorkspaceUse { reads: true, writes: true };
}

/// A tool: the only way for a node to act on the world.
///
/// A call needs a [`Permit`], which the gate alone can make. Tools keep no state of a run and retry nothing: a failure is a
/// value, and the kernel decides about recovery. The call of a model that its provider asks to wait for is made again only if
/// [`AttemptLog::model_turn_ended`] says so.
pub trait Tool: Send + Sync + 'static {
    /// Description of the tool.
    fn spec(&self) -> &ToolSpec;

    /// Classifies a call by its parameters: effect, impact, idempotency. Pure. Parameters that are not known yet are absent;
    /// the class must cover the worst value of an absent one.
    fn class(&self, params: &Map<String, Value>) -> CallClass;

    /// Checks parameters beyond the schema before any call, such as the syntax of a pattern or template. Pure, and bounded
    /// in time. Parameters that are not known yet are absent; those present may violate the schema. A problem must not
    /// repeat the value. The default finds none.
    fn check(&self, _params: &Map<String, Value>) -> Vec<ParamProblem> {
        Vec::new()
    }

    /// True if results hold texts of strangers, such as web pages or mail. What a model asks for after it has read them needs a
    /// person where it reaches further than before.
    fn reads_strangers(&self) -> bool {
        false
    }

    /// True if results of calls with the effect `external` hold texts of strangers: a program that has the network may print a web
    /// page. The default is that of all results.
    fn reads_strangers_outside(&self) -> bool {
        self.reads_strangers()
    }

    /// What bounds the price of a call, for tools that call a model. The default is `None`.
    fn model_terms(&self) -> Option<ModelTerms> {
        None
    }

    /// Use of workspace files by calls. The default is none.
    fn workspace_use(&self) -> WorkspaceUse {
        WorkspaceUse::NONE
    }

    /// True if calls may write in folders besides the workspace. The default is `false`.
    fn writes_outside(&self) -> bool {
        false
    }

    /// Files and folders that programs of calls in a workspace may read besides, without links, and that no package of the system has
    /// put there. Blocks for a look at folders. The default names none.
    fn reads_outside(&self, _workspace: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The files of the workspace that a call names or executes, as they are now: an approval of the call holds for these contents
    /// alone. Reads a bounded number of bytes. The default names none.
    fn named_files(
        &self,
        _params: &Map<String, Value>,
        _workspace: Arc<Path>,
    ) -> BoxFuture<'_, Vec<NamedFile>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Digest of the configuration that confines the programs of calls; `None`, the default, if nothing does. An approval holds for this
    /// configuration alone. Equal in every process with the same configuration.
    fn confinement(&self) -> Option<Digest> {
        None
    }

    /// True if calls send data out of the system, even if they change nothing.
    fn sends_out(&self) -> bool {
        false
    }

    /// Names of the parameters that say where a call reaches or what leaves by it. Their values must be trusted, or the call
    /// needs clearance.
    fn sensitive(&self) -> Vec<String> {
        Vec::new()
    }

    /// True if calls only wait. Such a call becomes a durable timer without a slot; [`Tool::call`] is never reached.
    fn is_timer(&self) -> bool {
        false
    }

    /// Duration of a waiting call in milliseconds; `None` for other tools.
    fn timer_ms(&self, _params: &Map<String, Value>) -> Option<u64> {
        None
    }

    /// True if a call with these parameters only computes, for microseconds, and waits for nothing. The run's actor makes
    /// such a call itself and writes intent and result together, which saves a task switch and a record; no record remains
    /// of a call that kills the process. The default is `false`.
    fn is_quick(&self, _params: &Map<String, Value>) -> bool {
        false
    }

    /// Calls the tool. Dropping the future stops the call as far as possible (kills the process group, closes the
    /// connection); effects until then stay.
    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult>;
}

impl fmt::Debug for dyn Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tool({})", self.spec().name)
    }
}

/// Name of the file with an operator's secret key. No tool opens a folder that holds one.
pub const OPERATOR_KEY: &str = "ostler-operator.key";

/// Environment variable that marks every process a tool starts: the id of the driving process, a dash, the number of the
/// call, `@`, and a mark of the data folder. A marked process acts for a plan: the server refuses its requests to control
/// runs, and the next process that opens the data folder ends it.
pub const CALL_MARK: &str = "OSTLER_CALL";
