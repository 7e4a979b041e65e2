//! Messages to the actor of an agent, and the requests that it answers.

use ostler_kernel::evaluation::Judgement;
use ostler_kernel::event::GateVerdict;
use ostler_kernel::gate::{Denial, Provenance};
use ostler_kernel::id::{Digest, NodeId, RunId};
use ostler_kernel::plan::Delta;
use ostler_kernel::port::{ModelCall, RunRow, ToolResult};
use ostler_kernel::run::{Operation, Patch};
use ractor::RpcReplyPort;
use tokio::time::Instant;

use crate::base::attempt_end::ModelCalls;
use crate::base::error::RunError;
use crate::base::keys::AttemptKey;
use crate::messages::answer::AnswerRequest;
use crate::messages::clearance::ClearanceAnswer;
use crate::messages::resolution::ResolveRequest;
use crate::messages::slots::Granted;
use crate::messages::turn::TurnEnd;
use crate::messages::wait_answer::WaitAnswerRequest;

pub(crate) enum AgentMessage {
    /// Drive the run, and answer these earlier requests.
    Drive(Box<RunRow>, Vec<(Request, AskReply)>),
    /// The run queue granted slots.
    Granted(Vec<Granted>),
    /// Attempts ended and were settled. Their results are in the attempt table.
    Ended(Vec<AttemptKey>),
    /// The run queue had no room for the nodes.
    NoRoom(Vec<NodeId>),
    /// Continue a turn that ended early.
    Again,
    /// Offer rejected nodes again. The time identifies the timer.
    AskAgain(Instant),
    /// The client's credits are used up, or no longer are. `surplus`: enough other runs of the client wait in the run queue.
    OutOfCredit { out: bool, surplus: bool },
    /// The earliest deadline has passed.
    Due,
    /// The plan's own contract was judged for the version; `broken` says why it does not hold.
    ContractJudged { version: u32, broken: Option<String> },
    /// The judge has given an opinion, or failed; with its calls of models.
    Judged { run: RunId, judgement: Judgement, adherence: Option<u16>, calls: Vec<ModelCall> },
    /// A call of the micro-planner ended.
    Advised(Box<Advice>),
    /// Record a verdict on a call within an attempt, and reply once the record is durable.
    Verdict { run: RunId, verdict: Box<GateVerdict>, reply: AskReply },
    /// A test of an attempt is about to run: reply with the provenance of its parameters, or with the denial.
    BeforeTest { run: RunId, of: (NodeId, u32), reply: TestReply },
    /// The clearance authority answered about the call of an attempt.
    Cleared(Box<ClearanceAnswer>),
    /// The wait of an approved attempt for its turn ended.
    Turn(Box<TurnEnd>),
    /// A draining attempt will not begin.
    AttemptLost(NodeId),
    /// A request to the run. Only the registry forwards requests, so none reaches the next run by mistake.
    Ask { request: Box<Request>, reply: AskReply },
}

/// The answer of the micro-planner, with the models that were called for it.
pub(crate) struct Advice {
    pub(crate) run: RunId,
    /// Place of the call among the calls of the run.
    pub(crate) call: usize,
    /// `None`: the call was ended, because nobody waited for it any more.
    pub(crate) answer: Option<ToolResult>,
    pub(crate) calls: ModelCalls,
}

pub(crate) type TestReply = RpcReplyPort<Result<Provenance, Denial>>;

pub(crate) type AskReply = RpcReplyPort<Result<(), RunError>>;

/// A reply held back until its reason is durable.
pub(crate) type PendingReply = (AskReply, Result<(), RunError>);

/// An answer that the planner gave later to the request with the number; `None` refuses.
pub(crate) enum PlannedChange {
    Patch(NodeId, u32, Option<Box<Patch>>),
    Replan(u32, Option<Box<Delta>>),
}

/// A request to a driven run, answered once the decision is durable.
pub(crate) enum Request {
    Operate(Operation),
    Answer(AnswerRequest),
    /// Tell whether a yes would be accepted now. Nobody is taken to have answered.
    CheckYes {
        node: NodeId,
        request: u32,
        shown: Digest,
    },
    WaitAnswer(WaitAnswerRequest),
    Planned(PlannedChange),
    /// Settle an attempt in doubt.
    Resolve(ResolveRequest),
    /// Suspend the run once its attempts have ended.
    Checkpoint,
    /// Take a suspension back that is not complete.
    GoOn,
}

impl Request {
    /// The question that is answered with yes, and the digest that the person saw; `None` for any other request.
    pub(crate) fn yes_to(&self) -> Option<(&NodeId, u32, Digest)> {
        match self {
            Request::Answer(answer) if answer.answer.approve => {
                Some((&answer.node, answer.request, answer.shown))
            }
            Request::CheckYes { node, request, shown } => Some((node, *request, *shown)),
            _ => None,
        }
    }
}
