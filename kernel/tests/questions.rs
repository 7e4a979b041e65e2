//! Answers of people, and the lifetime of an approval.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;

use ostler_kernel::event::{ApprovalKept, AttemptResult, Event, Failure, HumanRequestKind, Outcome, Output};
use ostler_kernel::id::{Digest, NodeId, RunId};
use ostler_kernel::plan::{PlanDraft, PolicyDraft, Settings};
use ostler_kernel::policy::Decider;
use ostler_kernel::run::{
    AnswerError, Canceller, DecisionContext, FailureCategory, NodeState, Operation, OperationError,
    Resolution, RuleDiagnoser, Run, RunInput, StaticPlanner,
};
use serde_json::json;

const SHOWN: Digest = Digest([1; 32]);
const OTHER: Digest = Digest([2; 32]);

/// A run with an approval node (10 ticks), an input node and a node without approval; and a clock.
struct Stage {
    run: Run,
    now: i64,
}

impl Stage {
    fn new() -> Stage {
        Stage::of("before")
    }

    fn without_approval() -> Stage {
        Stage::of("none")
    }

    fn of(approval: &str) -> Stage {
        let contract = json!([{"method": "schema"}]);
        let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "policy": {"in_doubt": "ask"}, "nodes": [
            {"id": "act", "effect": "write", "impact": 1, "approval": approval, "human_timeout": 10, "retries": 2, "contract": contract},
            {"id": "ask", "kind": "human_approval", "human_timeout": 10, "contract": contract},
            {"id": "free", "contract": contract},
        ]}))
        .unwrap();
        let plan = draft.validate(&Settings::simulation(PolicyDraft::default(), None)).unwrap();
        let mut stage = Stage { run: Run::new(Arc::new(plan), 0, 0), now: 0 };
        stage.within(|run, cx| run.decide(cx, RunInput::Propagate));
        stage
    }

    fn within(&mut self, act: impl FnOnce(&mut Run, &mut DecisionContext<'_>) -> Vec<Event>) -> Vec<Event> {
        let settings = Settings::simulation(PolicyDraft::default(), None);
        let mut cx = DecisionContext {
            run_id: RunId::default(),
            now: self.now,
            settings: &settings,
            planner: &StaticPlanner,
            diagnoser: &RuleDiagnoser,
        };
        act(&mut self.run, &mut cx)
    }

    fn ask(&mut self, node: &str, shown: Digest) -> Vec<Event> {
        self.within(|run, cx| run.ask(cx, &node.into(), Some(shown)))
    }

    fn answer(&mut self, node: &str, request: u32, approve: bool) {
        let node = NodeId::from(node);
        let (by, note) = ("ann".to_owned(), String::new());
        self.within(|run, cx| {
            run.decide(
                cx,
                RunInput::HumanAnswer { node, request, approve, by, note, raise: Default::default() },
            )
        });
    }

    fn check(&self, node: &str, request: u32, named: Digest) -> Result<(), AnswerError> {
        self.run.check_answer(&node.into(), request, named, self.now)
    }

    fn check_operation(&self, operation: Operation) -> Result<(), OperationError> {
        self.run.check_operation(&operation, &Settings::simulation(PolicyDraft::default(), None))
    }

    /// Interjects with one second (a tick) to answer.
    fn interject(&mut self) -> NodeId {
        let (node, operation) = self.run.interjection("go on?", 1_000, &Decider::Model).unwrap();
        assert_eq!(self.check_operation(operation.clone()), Ok(()));
        self.within(|run, cx| run.decide(cx, RunInput::Operator(operation)));
        self.ask(node.as_str(), SHOWN);
        node
    }

    fn state(&self, node: &str) -> NodeState {
        self.run.instance(&node.into()).unwrap().state()
    }
}

#[test]
fn an_answer_is_taken_for_the_open_question_and_what_it_shows_alone() {
    let mut stage = Stage::new();
    stage.ask("act", SHOWN);
    let node = || NodeId::from("act");
    let other = AnswerError::OtherDigest { node: node(), shown: Some(SHOWN), named: OTHER };
    assert_eq!(stage.check("act", 1, OTHER), Err(other));
    assert_eq!(stage.check("nobody", 1, SHOWN), Err(AnswerError::UnknownNode("nobody".into())));
    assert!(matches!(stage.check("free", 1, SHOWN), Err(AnswerError::NotAsked { .. })));
    assert!(matches!(stage.check("act", 2, SHOWN), Err(AnswerError::NotAsked { .. })));
    assert_eq!(stage.check("act", 1, SHOWN), Ok(()));
    stage.now = 10;
    assert_eq!(stage.check("act", 1, SHOWN), Ok(()), "an answer on the very tick counts");
    assert!(stage.run.human_timeout_due(10) && !stage.run.human_timeout_due(9));
    stage.now = 11;
    assert_eq!(stage.check("act", 1, SHOWN), Err(AnswerError::TooLate { node: node(), deadline: 10 }));
    stage.now = 5;
    stage.answer("act", 1, true);
    assert_eq!(stage.state("act"), NodeState::Ready);
    let answered = AnswerError::Answered { node: node(), approve: true, by: "ann".to_owned() };
    assert_eq!(stage.check("act", 1, SHOWN), Err(answered));
}

#[test]
fn an_approval_is_good_for_what_was_shown_and_asked_for_anew_otherwise() {
    let mut stage = Stage::new();
    assert_eq!(stage.run.question(&"act".into()), Some(HumanRequestKind::Before));
    stage.ask("act", SHOWN);
    stage.answer("act", 1, true);
    assert_eq!(stage.run.question(&"act".into()), None);
    assert_eq!(stage.ask("act", SHOWN), [], "what was approved is not asked again");
    let (act, free) = ("act".into(), "free".into());
    assert_eq!(
        (stage.run.approval_kind(&act), stage.run.approval_kind(&free)),
        (Some(HumanRequestKind::Before), None)
    );
    assert!(stage.run.is_approved(&act, || SHOWN) && !stage.run.is_approved(&act, || OTHER));
    assert!(stage.run.is_approved(&free, || panic!("nobody is asked about it")));
    assert!(!stage.ask("act", OTHER).is_empty());
    assert_eq!(stage.state("act"), NodeState::WaitingHuman);
    assert_eq!(stage.run.question(&"act".into()), Some(HumanRequestKind::Before), "the earlier yes is void");
    assert!(!stage.run.is_approved(&act, || OTHER), "it is shown, and nobody said yes yet");
    assert_eq!(stage.check("act", 2, OTHER), Ok(()));
}

/// The attempt of `act` ends in a way that a retry may mend, or leaves open what it did.
fn fails(stage: &mut Stage, category: FailureCategory) {
    stage.within(|run, cx| run.start(cx, &"act".into(), None));
    let failed = Outcome::Failed(Failure { category, message: String::new() });
    let attempt = stage.run.instance(&"act".into()).unwrap().attempts;
    let result = AttemptResult::without_cost("act".into(), attempt, failed);
    stage.within(|run, cx| run.decide(cx, RunInput::Result(Box::new(result))));
}

fn redo(stage: &mut Stage) {
    let (node, by) = ("act".into(), "ann".to_owned());
    stage.within(|run, cx| run.decide(cx, RunInput::Resolved { node, how: Resolution::Redo, by }));
}

#[test]
fn a_fork_asks_again_about_every_yes_that_the_other_run_may_use() {
    type Act = fn(&mut Stage);
    let approved: Act = |stage| {
        stage.ask("act", SHOWN);
        stage.answer("act", 1, true);
    };
    let between_tries: Act = |stage| fails(stage, FailureCategory::Transient);
    let retried: Act = |stage| {
        stage.within(|run, cx| run.decide(cx, RunInput::RetryDue("act".into())));
    };
    let in_doubt: Act = |stage| fails(stage, FailureCategory::InDoubt);
    let done_again: Act = redo;
    let runs: Act = |stage| {
        stage.within(|run, cx| run.start(cx, &"act".into(), None));
    };
    let from = RunId(uuid::Uuid::from_u128(7));
    for (acts, is_void, state) in [
        (&[approved][..], true, NodeState::Ready),
        (&[approved, between_tries], true, NodeState::FailedRetryable),
        (&[approved, between_tries, retried], true, NodeState::Ready),
        (&[approved, in_doubt, done_again], true, NodeState::Ready),
        // Without an end a person of the fork says what became of it.
        (&[approved, runs], false, NodeState::Running),
        (&[approved, in_doubt], false, NodeState::WaitingHuman),
        (&[], false, NodeState::Ready),
    ] {
        let mut stage = Stage::new();
        acts.iter().for_each(|act| act(&mut stage));
        assert_eq!(stage.state("act"), state);
        let before = stage.run.clone();
        let events = stage.run.void_approvals(from, 3);
        let named = |event: &Event| {
            matches!(event, Event::ApprovalKept(kept)
            if kept.node == "act".into() && kept.from == from && kept.by == "ann" && kept.void.is_some())
        };
        assert_eq!(events.iter().filter(|event| named(event)).count(), usize::from(is_void), "{events:?}");
        assert_eq!(stage.state("act"), state, "nothing moves");
        if is_void {
            assert_eq!(stage.run.question(&"act".into()), Some(HumanRequestKind::Before));
            assert_eq!(stage.run.void_approvals(from, 3), [], "once is enough");
            // Recovery comes to the same.
            let mut recovered = before;
            events.iter().for_each(|event| recovered.apply(event, 3).unwrap());
            assert_eq!(recovered.question(&"act".into()), Some(HumanRequestKind::Before));
        }
        if state == NodeState::Running {
            assert_eq!(stage.run.acting(), ["act".into()], "an approved attempt is not repeated unasked");
        }
    }
}

#[test]
fn a_fork_behind_a_redo_asks_about_an_effect_that_the_plan_does_not_ask_about() {
    let mut stage = Stage::without_approval();
    fails(&mut stage, FailureCategory::InDoubt);
    redo(&mut stage);
    assert_eq!(stage.run.question(&"act".into()), None, "the person has said so, in this run");
    stage.run.void_approvals(RunId::default(), 3);
    assert_eq!(stage.run.question(&"act".into()), Some(HumanRequestKind::Before));
    stage.ask("act", SHOWN);
    stage.answer("act", 2, true);
    assert_eq!(stage.run.question(&"act".into()), None);
}

/// A process that died, and a policy that has changed since: however few tries are left, a person is asked and nothing fails.
#[test]
fn an_attempt_that_is_not_what_was_approved_is_asked_about_again() {
    let mut stage = Stage::new();
    for (attempt, shown) in [SHOWN, OTHER, SHOWN, OTHER].into_iter().enumerate() {
        assert!(!stage.run.is_approved(&"act".into(), || shown));
        stage.ask("act", shown);
        stage.answer("act", attempt as u32 + 1, true);
        stage.within(|run, cx| run.start(cx, &"act".into(), None));
        assert!(stage.run.is_approved(&"act".into(), || shown));
        let (node, what) = ("act".into(), "another policy".to_owned());
        stage.within(|run, cx| run.decide(cx, RunInput::Unapproved { node, what }));
        assert_eq!(stage.state("act"), NodeState::Ready);
    }
    assert!(!stage.ask("act", SHOWN).is_empty());
    assert_eq!(stage.state("act"), NodeState::WaitingHuman);
}

#[test]
fn a_no_ends_what_an_earlier_run_approved() {
    for (approve, is_kept) in [(true, true), (false, false)] {
        let mut stage = Stage::new();
        let kept = ApprovalKept {
            node: "act".into(),
            kind: HumanRequestKind::Before,
            material: OTHER,
            shown: OTHER,
            output: None,
            by: "ann".to_owned(),
            at: 0,
            from: RunId::default(),
            void: None,
        };
        stage.run.apply(&Event::ApprovalKept(Box::new(kept)), 0).unwrap();
        stage.ask("act", SHOWN);
        stage.answer("act", 1, approve);
        let kept = stage.run.kept_approval(&"act".into(), HumanRequestKind::Before);
        assert_eq!(kept.is_some(), is_kept, "approved: {approve}");
    }
}

#[test]
fn a_question_that_shows_something_else_is_asked_anew_with_a_deadline_of_its_own() {
    let mut stage = Stage::new();
    stage.ask("ask", SHOWN);
    stage.now = 4;
    assert_eq!(stage.within(|run, cx| run.ask_again(cx, &"ask".into(), Some(SHOWN))), []);
    let events = stage.within(|run, cx| run.ask_again(cx, &"ask".into(), Some(OTHER)));
    let [Event::HumanRequest(request)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((request.deadline, request.shown), (Some(14), Some(OTHER)));
    let anew = AnswerError::AskedAnew { node: "ask".into(), request: 1, latest: 2 };
    assert_eq!(stage.check("ask", 1, SHOWN), Err(anew));
    stage.within(|run, cx| run.decide(cx, RunInput::HumanTimeout { node: "ask".into(), request: 1 }));
    assert_eq!(stage.state("ask"), NodeState::WaitingHuman, "the first question is closed");
    stage.within(|run, cx| run.decide(cx, RunInput::HumanTimeout { node: "ask".into(), request: 2 }));
    assert_eq!(stage.state("ask"), NodeState::Cancelled);
}

#[test]
fn only_what_lives_can_be_stopped() {
    let mut stage = Stage::new();
    let cancel = |node: &str| Operation::Cancel(node.into());
    assert_eq!(stage.check_operation(cancel("ask")), Ok(()));
    let unknown = OperationError::UnknownNode("nobody".into());
    assert_eq!(stage.check_operation(cancel("nobody")), Err(unknown));
    for node in ["ask", "act", "free"] {
        stage.within(|run, cx| run.decide(cx, RunInput::Operator(Operation::Skip(node.into()))));
        let over = OperationError::NodeOver { node: node.into(), state: NodeState::Skipped };
        let expected = if node == "free" { OperationError::Over } else { over };
        assert_eq!(stage.check_operation(cancel(node)), Err(expected));
    }
}

/// The answer to an interjection, the state of `free` afterwards, and whether the run is cancelled.
#[test]
fn what_an_interjection_comes_to_decides_about_the_run() {
    let says = |approve| move |stage: &mut Stage, node: &NodeId| stage.answer(node.as_str(), 1, approve);
    let silence = |stage: &mut Stage, node: &NodeId| {
        let node = node.clone();
        stage.now += 1;
        stage.within(|run, cx| run.decide(cx, RunInput::HumanTimeout { node, request: 1 }));
    };
    let operates = |operation: fn(NodeId) -> Operation| {
        move |stage: &mut Stage, node: &NodeId| {
            let operation = operation(node.clone());
            stage.within(|run, cx| run.decide(cx, RunInput::Operator(operation)));
        }
    };
    type Ends = Box<dyn Fn(&mut Stage, &NodeId)>;
    let table: [(Ends, NodeState, NodeState, bool); 5] = [
        (Box::new(says(true)), NodeState::Executed, NodeState::Ready, false),
        (Box::new(says(false)), NodeState::Failed, NodeState::Cancelled, true),
        (Box::new(silence), NodeState::Cancelled, NodeState::Cancelled, true),
        (Box::new(operates(Operation::Skip)), NodeState::Skipped, NodeState::Ready, false),
        (Box::new(operates(Operation::Cancel)), NodeState::Cancelled, NodeState::Ready, false),
    ];
    for (ends, interjection, free, cancelled) in table {
        let mut stage = Stage::new();
        stage.within(|run, cx| run.start(cx, &"free".into(), None));
        let node = stage.interject();
        assert_eq!((stage.state("act"), stage.state("ask")), (NodeState::Blocked, NodeState::Blocked));
        assert_eq!(stage.state("free"), NodeState::Running, "what runs goes on");
        ends(&mut stage, &node);
        assert_eq!((stage.state(node.as_str()), stage.run.is_cancelled()), (interjection, cancelled));
        assert_eq!(stage.state("act"), free);
    }
}

#[test]
fn interjections_nest_and_are_numbered() {
    let mut stage = Stage::new();
    let (first, second) = (stage.interject(), stage.interject());
    assert_eq!((first.as_str(), second.as_str()), ("interjection-1", "interjection-2"));
    assert_eq!(stage.state("interjection-2"), NodeState::WaitingHuman, "no hold holds another's question");
    stage.answer("interjection-2", 1, true);
    assert_eq!(stage.state("free"), NodeState::Blocked);
    stage.answer("interjection-1", 1, true);
    assert_eq!(stage.state("free"), NodeState::Ready);
}

#[test]
fn a_run_that_is_cancelled_takes_no_interjection() {
    let mut stage = Stage::new();
    stage.within(|run, cx| run.start(cx, &"free".into(), None));
    let (_, late) = stage.run.interjection("go on?", 1_000, &Decider::Model).unwrap();
    stage.within(|run, cx| run.decide(cx, RunInput::Operator(Operation::CancelPlan(Canceller::Operator))));
    assert_eq!(stage.check_operation(late), Err(OperationError::Over));
}

#[test]
fn a_rule_for_a_person_asks_after_the_result_as_an_approval_does() {
    let rule = json!([{"method": "human", "spec": {"ask": "Is it polite?"}}]);
    let draft: PlanDraft = serde_json::from_value(json!({"id": "p", "nodes": [
        {"id": "write", "human_timeout": 10, "contract": rule},
        {"id": "both", "human_timeout": 10, "approval": "after", "contract": rule},
        {"id": "unasked", "contract": rule},
    ]}))
    .unwrap();
    let settings = Settings::simulation(PolicyDraft::default(), None);
    let faults = draft.clone().validate(&settings).unwrap_err();
    let told: Vec<String> =
        faults.iter().map(|fault| format!("{} {} {}", fault.code, fault.node, fault.pointer)).collect();
    assert_eq!(told, ["V14 unasked /nodes/2/contract"], "silence needs an end");
    let nodes = draft.nodes.into_iter().filter(|node| node.id.as_str() != "unasked").collect();
    let plan = PlanDraft { nodes, ..serde_json::from_value(json!({"id": "p", "nodes": []})).unwrap() };
    let plan = plan.validate(&settings).unwrap();
    let mut stage = Stage { run: Run::new(Arc::new(plan), 0, 0), now: 0 };
    stage.within(|run, cx| run.decide(cx, RunInput::Propagate));
    for (node, approve, end) in [("write", true, NodeState::Executed), ("both", false, NodeState::Failed)] {
        stage.within(|run, cx| run.start(cx, &node.into(), None));
        let result = AttemptResult::without_cost(node.into(), 1, Outcome::Ok(output()));
        stage.within(|run, cx| run.decide(cx, RunInput::Result(Box::new(result))));
        assert_eq!(stage.state(node), NodeState::WaitingHuman);
        assert_eq!(stage.check(node, 1, SHOWN), Ok(()), "the digest is that of the result");
        stage.answer(node, 1, approve);
        assert_eq!(stage.state(node), end, "{node} is asked about once");
    }
}

fn output() -> Output {
    Output { artifact: SHOWN, bytes: 2, inline: None, directive: None }
}
