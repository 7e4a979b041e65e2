//! Samples of every kind of event.

use std::collections::{BTreeMap, BTreeSet};

use ostler_kernel::agent::Oversight;
use ostler_kernel::evaluation::{Appraised, Domains, Judgement, Scores, Standard, Target, Verdict};
use ostler_kernel::event::*;
use ostler_kernel::grant::{Grant, GrantTerms};
use ostler_kernel::id::{AgentId, ClientId, Digest, EventType, NodeId, RunId, StageId};
use ostler_kernel::json::{Json, Object, canonical};
use ostler_kernel::ledger::{Amounts, CallLimits, Shortfall};
use ostler_kernel::lineage::{Difference, ExecutableSpec, Manifest, Material, Reason, StalePolicy};
use ostler_kernel::market::{Job, JobOutcome, MarketStep, Offer, Proposal, Stage};
use ostler_kernel::plan::Idempotency;
use ostler_kernel::policy::{CallEnd, Conclusion, FaultyAnswer, Role};
use ostler_kernel::port::{CageRung, ModelCall};
use ostler_kernel::run::{Diagnosis, FailureCategory, NodeState, RunOutcome, TransitionReason};
use serde_json::json;

fn run() -> RunId {
    "0190b5b8-7a5e-7c3f-8000-0123456789ab".parse().unwrap()
}

fn node() -> NodeId {
    NodeId::from("n-1")
}

fn json() -> Json {
    canonical(&json!({"id": "trip", "n": [1, 2.5, null], "ü": "\u{0000}"})).unwrap()
}

fn accounts() -> Accounts {
    Accounts {
        client_vruntime: 1,
        client_remainder: 2,
        balance: Some(i64::MAX),
        agents_vruntime: 7,
        agent_vruntime: i64::MIN,
        agent_remainder: 0,
        tier_vruntime: 1 << 40,
        owed: -(1 << 80),
    }
}

fn attempt(outcome: Outcome) -> Box<AttemptResult> {
    let accounts = Some(accounts());
    Box::new(AttemptResult { node: node(), attempt: 2, outcome, duration_ms: 1_500, cost: 7, accounts })
}

/// Each variant of the event, and of the enums inside, at least once.
pub(crate) fn samples() -> Vec<Event> {
    let output = |inline, directive: Option<Directive>| {
        Outcome::Ok(Output {
            artifact: Digest([0xab; 32]),
            bytes: 9,
            inline,
            directive: directive.map(Box::new),
        })
    };
    let mut samples = vec![
        Event::RunOpened(Box::new(RunOpened {
            run: run(),
            client: ClientId::from("acme"),
            agent: AgentId::from("worker"),
            plan: json(),
            intent: 2,
            scope: "default".into(),
            workspace: "/srv/work".into(),
            policy_epoch: 3,
            seed: u64::MAX,
        })),
        Event::RunRecovered { count: 1 },
        Event::AttemptIntent(Box::new(AttemptIntent {
            node: node(),
            generation: 1,
            patch_count: 0,
            attempt: 2,
            reuse: Digest([1; 32]),
            idempotency_key: Digest([0; 32]),
            intent: 1,
            policy_epoch: 3,
            provenance: vec!["user".into(), "tool:fs.read".into()],
            accounts: None,
        })),
        Event::AttemptResult(attempt(output(Some(json()), None))),
        Event::AttemptResult(attempt(output(None, Some(Directive { conclude: true, delta: Some(json()) })))),
        Event::LateResult(attempt(output(None, Some(Directive { conclude: false, delta: None })))),
        Event::TimerFired { node: node(), kind: TimerKind::Backoff },
        Event::RecoveryExhausted { node: node(), level: 3, reason: "no patch".into() },
        Event::GateDecision(GateDecision {
            node: node(),
            attempt: 1,
            code: "OUT_OF_SCOPE".into(),
            detail: "no tool".into(),
        }),
        Event::AgentRegistered {
            agent: AgentId::from("worker"),
            client: ClientId::from("acme"),
            weight: 100,
        },
        Event::AgentQuarantined { agent: AgentId::from("worker"), reason: "crashes".into() },
        Event::Parked { reason: String::new() },
        Event::ContractChecked { version: 1, holds: true },
        Event::ClientSet { client: ClientId::from("acme"), weight: 10, contracted: true },
    ];
    samples.extend(
        causes().map(|cause| Event::PlanVersion(PlanVersion { version: 2, cause, revision: json() })),
    );
    samples.extend(
        [
            PlanRefusal::Delta { cause: ChangeCause::Replan, codes: vec!["D01".into(), "V03".into()] },
            PlanRefusal::Replan,
            PlanRefusal::Contract,
        ]
        .map(|step| Event::PlanRefused { version: 1, step }),
    );
    samples.extend(categories().map(|category| {
        let message = "connection reset".into();
        Event::AttemptResult(attempt(Outcome::Failed(Failure { category, message })))
    }));
    samples.extend(reasons().into_iter().zip(states().into_iter().cycle()).map(|(reason, state)| {
        let (from, to) = (NodeState::Pending, state);
        Event::NodeTransition(NodeTransition { node: node(), version: 1, from, to, reason, attempt: 0 })
    }));
    use HumanRequestKind as H;
    samples.extend([H::Before, H::After, H::Node, H::InDoubt].map(|kind| {
        let (deadline, shown) = (Some(-1), (kind == H::After).then_some(Digest([6; 32])));
        Event::HumanRequest(HumanRequest { node: node(), kind, deadline, shown })
    }));
    let (by, note) = ("ann".into(), "fine".into());
    samples.push(Event::HumanAnswer(HumanAnswer { node: node(), approve: true, redo: false, by, note }));
    samples.extend(
        [TimerKind::Backoff, TimerKind::Human, TimerKind::Sleep]
            .map(|kind| Event::TimerSet(Timer { node: node(), kind, at: 1_700_000_000_000 })),
    );
    let acts = [OperatorAct::CancelPlan, OperatorAct::Cancel(node()), OperatorAct::Skip(node())];
    samples.extend(acts.map(Event::Operator));
    let outcomes = [RunOutcome::Succeeded, RunOutcome::Concluded, RunOutcome::Failed, RunOutcome::Cancelled];
    samples.extend(outcomes.map(|outcome| Event::RunClosed { outcome }));
    samples.push(Event::Draining { node: node() });
    samples.push(Event::ReplanAsked { for_contract: true });
    samples.push(Event::Diagnosis {
        node: node(),
        category: FailureCategory::Crash,
        level: 1,
        diagnosis: Box::new(Diagnosis { cause: "slow".into(), level: 1, confidence: 50 }),
    });
    samples.push(Event::AgentProfiled {
        agent: AgentId::from("worker"),
        client: ClientId::from("acme"),
        profile: json(),
    });
    samples.push(Event::CreditDeposited { client: ClientId::from("acme"), credits: -5, spent: 7 });
    samples.push(Event::ContractBroken { version: 1, why: "too short".into() });
    samples.push(Event::OutOfCredit { out: true });
    let scores =
        |quality, adherence| Scores { quality, adherence, speed: 1_000, cost: 7, errors: 0, revisions: 500 };
    let evaluated = |scores| Event::Evaluated(Evaluated { scores, composite: 512 });
    samples.push(evaluated(scores(None, None)));
    samples.push(evaluated(scores(Some(900), Some(1))));
    samples.push(Event::AgentReleased { agent: AgentId::from("worker") });
    samples.extend(notes());
    samples.extend(pipeline_records().map(|record| Event::Pipeline(Box::new(record))));
    samples.push(Event::Published(Published {
        stage: StageId::from("recon"),
        kind: EventType::from("page_discovered"),
        data: json(),
    }));
    evaluations(&mut samples);
    market(&mut samples);
    for (act, reason) in [
        (OperatorAct::StopDenied, TransitionReason::Denials),
        (OperatorAct::StopLate, TransitionReason::Deadline),
        (OperatorAct::StopUnwanted, TransitionReason::Unwanted),
    ] {
        samples.push(Event::Operator(act));
        samples.push(Event::NodeTransition(NodeTransition {
            node: node(),
            version: 1,
            from: NodeState::Ready,
            to: NodeState::Cancelled,
            reason,
            attempt: 0,
        }));
    }
    samples.push(Event::ModelCalled { node: node(), attempt: 1, call: Box::new(model_call()) });
    goal(&mut samples);
    samples.push(Event::ClientRemoved { client: ClientId::from("acme") });
    call_budget(&mut samples);
    samples.push(Event::Pipeline(Box::new(PipelineRecord::Removed { upto: 9 })));
    let (params, answer, call) = (json(), json(), model_call());
    let exchanged = ModelExchanged { node: node(), attempt: 1, params, answer, call };
    samples.push(Event::ModelExchanged(Box::new(exchanged)));
    samples.push(Event::Caged { node: node(), attempt: 1, rung: CageRung::Landlock });
    samples.extend(reuse());
    let terms = GrantTerms {
        id: "g1".into(),
        client: ClientId::from("acme"),
        tool: "shell.run".into(),
        argv: vec!["git".into(), "push".into(), "*".into()],
        until: 1 << 40,
        by: "ann".into(),
    };
    samples.push(Event::Granted(Box::new(terms.clone())));
    let (client, by) = (ClientId::from("acme"), "ann".to_owned());
    samples.push(Event::GrantRevoked { client, grant: "g1".into(), by });
    samples.push(gate_verdict());
    samples.extend(edits());
    plan_language(&mut samples);
    samples.extend(kept());
    samples.extend(recalls());
    samples.push(changed_field());
    let labels = ["private".to_owned(), "secret".to_owned()].into();
    samples.push(Event::Exposed(Box::new(Exposure { labels, strangers: true, private: false })));
    samples.extend(reads());
    let done = vec![(node(), Some(RecordPlace { run: run(), seq: 7 })), ("b".into(), None)];
    samples.push(Event::Forked(Box::new(Forked { from: run(), at: 9, done, by: "ann".into() })));
    let output = Output { artifact: Digest([0xab; 32]), bytes: 9, inline: Some(json()), directive: None };
    let refused = RefusedOutput { node: node(), attempt: 2, why: "contract[0]".into(), output };
    samples.push(Event::CandidateKept(Box::new(refused)));
    let (reuse, idempotency_key) = (Digest([3; 32]), Digest([4; 32]));
    samples.push(Event::KeptIdentity(Box::new(KeptIdentity { node: node(), reuse, idempotency_key })));
    samples.extend(approvals());
    samples.push(Event::ResultJudged(Box::new(ResultJudged {
        node: node(),
        attempt: 2,
        rule: 1,
        model: "default".into(),
        precision: Some(0.9),
        holds: false,
        why: "no source".into(),
    })));
    let files = [("deploy.sh".to_owned(), Digest([7; 32]))].into();
    samples.push(Event::GrantedIn(Box::new(Grant { terms, workspace: "/srv/site".into(), files })));
    samples
}

fn approvals() -> impl Iterator<Item = Event> {
    use ApprovalVoid::{AskedFor, Effect, Grant, Withdrawn};
    let (material, shown, at) = (Digest([5; 32]), Digest([6; 32]), 1 << 40);
    let kept = move |void: Option<ApprovalVoid>| {
        let output = Output { artifact: shown, bytes: 9, inline: Some(json()), directive: None };
        let (kind, output) = match void {
            None => (HumanRequestKind::After, Some(output)),
            Some(_) => (HumanRequestKind::Before, None),
        };
        let (node, by, from) = (node(), "ann".to_owned(), run());
        Event::ApprovalKept(Box::new(ApprovalKept {
            node,
            kind,
            material,
            shown,
            output,
            by,
            at,
            from,
            void,
        }))
    };
    let carried = ApprovalCarried { node: node(), by: "ann".into(), at, from: run() };
    let voids = [None, Some(Effect), Some(Withdrawn), Some(AskedFor), Some(Grant)];
    voids.map(kept).into_iter().chain([
        Event::ApprovalMaterial { node: node(), material },
        Event::ApprovalCarried(Box::new(carried)),
    ])
}

fn kept() -> [Event; 2] {
    let output = || Output { artifact: Digest([0xab; 32]), bytes: 9, inline: Some(json()), directive: None };
    let decision = ReuseDecision::Kept { output: None, from: run() };
    [
        Event::ReuseDecided(Box::new(ReuseDecided { node: node(), reuse: None, decision })),
        Event::ResultKept(Box::new(ResultKept { node: node(), output: Some(output()), from: run() })),
    ]
}

fn recalls() -> [Event; 4] {
    let retracted = |what| {
        let (id, client, by) = ("w1".into(), ClientId::from("acme"), "ann".into());
        Event::Retracted(Box::new(Retraction { id, client, what, by }))
    };
    let (client, retraction) = (|| ClientId::from("acme"), || "w1".to_owned());
    let place = Some(RecordPlace { run: run(), seq: 7 });
    [
        retracted(Withdrawn::Result { run: run(), node: node(), place }),
        retracted(Withdrawn::Executable(json())),
        Event::RetractionCarriedOut { client: client(), retraction: retraction() },
        Event::RetractionLifted { client: client(), retraction: retraction(), by: "ann".into() },
    ]
}

fn edits() -> [Event; 2] {
    let output = || Output { artifact: Digest([0xab; 32]), bytes: 9, inline: Some(json()), directive: None };
    let decision = ReuseDecision::Edited { output: output(), author: "ada".into(), stale: true };
    [
        Event::ReuseDecided(Box::new(ReuseDecided { node: node(), reuse: None, decision })),
        Event::ArtifactEdited(Box::new(ArtifactEdited {
            node: node(),
            output: output(),
            author: "ada".into(),
            base: Some(Digest([6; 32])),
            stale: StalePolicy::Keep,
        })),
    ]
}

fn reuse() -> Vec<Event> {
    let fresh = [Fresh::Nothing, Fresh::Nodes(vec![node()]), Fresh::Everything];
    let mut samples: Vec<Event> = fresh.map(|fresh| Event::ReuseTerms(ReuseTerms { fresh })).into();
    let output = || Output { artifact: Digest([0xab; 32]), bytes: 9, inline: Some(json()), directive: None };
    let decided =
        |reuse, decision| Event::ReuseDecided(Box::new(ReuseDecided { node: node(), reuse, decision }));
    let from = RecordPlace { run: run(), seq: 7 };
    for basis in [ReuseBasis::Same, ReuseBasis::CutOff(vec![node()]), ReuseBasis::Revalidated] {
        let result = ReusedResult { basis, from, output: output(), sampled: true };
        samples.push(decided(Some(Digest([3; 32])), ReuseDecision::Reused(result)));
    }
    let changed = [
        Difference::Executable { field: "tool_version".into(), old: None, new: Some("3".into()) },
        Difference::Param("path".into()),
        Difference::Ref { name: "in".into(), old: None, new: Some(Digest([4; 32])) },
        Difference::Effect(node()),
        Difference::World,
    ];
    let reasons =
        [Reason::NotReusable, Reason::Retracted, Reason::Corrupt, Reason::ContractFailed, Reason::NoRecord];
    let reasons = reasons.into_iter().chain(changed.into_iter().map(Reason::Changed));
    samples.extend(reasons.map(|reason| decided(None, ReuseDecision::Recomputed(reason))));
    let sigma = ExecutableSpec { kind: "tool", tool: Some("t"), ..ExecutableSpec::default() };
    let (refs, receipts) = (BTreeMap::new(), BTreeMap::from([(node(), Digest([5; 32]))]));
    let params = Object::default();
    let material = Material { sigma: &sigma, params: &params, refs: &refs, receipts: &receipts, world: None };
    let manifest = Manifest::new(material).unwrap();
    samples.push(Event::ResultRecorded(Box::new(ResultRecorded {
        node: node(),
        attempt: 1,
        reuse: manifest.reuse(),
        manifest,
        contract: json(),
        output: output(),
    })));
    samples
}

fn reads() -> Vec<Event> {
    let decided =
        |decision| Event::ReuseDecided(Box::new(ReuseDecided { node: node(), reuse: None, decision }));
    let reused = |most| {
        let output = Output { artifact: Digest([0xab; 32]), bytes: 9, inline: Some(json()), directive: None };
        let (basis, from) = (ReuseBasis::Fresh { age: 40_000, most }, RecordPlace { run: run(), seq: 7 });
        decided(ReuseDecision::Reused(ReusedResult { basis, from, output, sampled: false }))
    };
    let reasons = [Reason::Expired { ago: 1_000 }, Reason::NotModified];
    let executed = reasons.map(|reason| decided(ReuseDecision::Recomputed(reason)));
    [reused(None), reused(Some(600_000))].into_iter().chain(executed).collect()
}

fn changed_field() -> Event {
    let (old, new) = (Some(Digest([6; 32])), Some(Digest([7; 32])));
    let difference = Difference::Field { name: "in".into(), old, new, field: "limits.budget".into() };
    let decision = ReuseDecision::Recomputed(Reason::Changed(difference));
    Event::ReuseDecided(Box::new(ReuseDecided { node: node(), reuse: None, decision }))
}

fn gate_verdict() -> Event {
    Event::GateVerdict(Box::new(GateVerdict {
        node: node(),
        attempt: 1,
        tool: "fs.write".to_owned(),
        version: "1".to_owned(),
        answer: GateAnswer::Hold,
        code: "TAINT_AUTHOR".to_owned(),
        scope: "default".to_owned(),
        intent: 1,
        measured: Some((1, 2)),
        policy_epoch: 3,
        params: Some(Digest([7; 32])),
        tainted: vec!["path".to_owned()],
        amounts: vec![("count".to_owned(), 1.5)],
        previous: Digest([0; 32]),
        hash: Digest([9; 32]),
    }))
}

fn notes() -> Vec<Event> {
    let of = || AttemptRef { node: node(), generation: 1, patch_count: 0, attempt: 2 };
    let key = || StepKey { version: "3".into(), input: Digest([5; 32]) };
    let run = || "0190b5b8-7a5e-7c3f-8000-0123456789ab".parse().unwrap();
    let ended = |outcome| {
        Event::StepResult(Box::new(StepResult { of: of(), step: "pay".into(), key: key(), outcome }))
    };
    let output = Output { artifact: Digest([0xab; 32]), bytes: 9, inline: Some(json()), directive: None };
    let intent = |idem| {
        let idempotency_key = Digest([6; 32]);
        Event::StepIntent(Box::new(StepIntent {
            of: of(),
            step: "pay".into(),
            key: key(),
            idem,
            idempotency_key,
        }))
    };
    let doubtful = Failure { category: FailureCategory::InDoubt, message: "lost".into() };
    let parent = Parent { run: run(), of: of(), step: "pay".into() };
    vec![
        Event::AttemptProgress(Box::new(AttemptProgress { of: of(), token: json() })),
        intent(Idempotency::Natural),
        intent(Idempotency::Keyed),
        intent(Idempotency::None),
        ended(Outcome::Ok(output)),
        ended(Outcome::Failed(doubtful)),
        Event::StepInDoubt { of: of(), step: "pay".into() },
        Event::ChildRun { of: of(), step: "pay".into(), run: run(), budget: Some(9) },
        Event::RunTerms(Box::new(RunTerms { budget: None, parent: Some(parent) })),
        Event::RunTerms(Box::new(RunTerms { budget: Some(1), parent: None })),
    ]
}

fn pipeline_records() -> [PipelineRecord; 10] {
    use PipelineRecord as P;
    let stage = || StageId::from("load");
    [
        P::Created { spec: json() },
        P::Acked { stage: stage(), upto: 7, state: None },
        P::Acked { stage: stage(), upto: 1 << 40, state: Some(json()) },
        P::DeadLettered { stage: stage(), seq: 8, reason: "it panicked".into(), stops: true },
        P::Moved { stage: stage(), after: 3, keeps_state: false },
        P::Lagged { stage: stage(), first: 1, last: 9 },
        P::LogChunk { upto: 1_024, bytes: 70_000, oldest: 1 },
        P::Ended { stage: stage() },
        P::Released { stage: stage() },
        P::Failed { stage: stage(), seq: 8, times: 2, reason: "it panicked".into() },
    ]
}

fn evaluations(samples: &mut Vec<Event>) {
    let standard =
        Standard { domain: Some("legal".into()), target: Target { time_ms: Some(9), credits: None } };
    for judgement in [
        None,
        Some(Judgement { by: "words".into(), quality: None, note: "cannot tell".into() }),
        Some(Judgement { by: "words".into(), quality: Some(900), note: String::new() }),
    ] {
        samples.push(Event::Appraised(Box::new(Appraised::by(&standard, &Domains::default(), judgement))));
    }
    let scores =
        Scores { quality: Some(900), adherence: None, speed: 1_000, cost: 7, errors: 0, revisions: 500 };
    samples.push(Event::Verdict(Box::new(Verdict {
        run: run(),
        agent: Some(AgentId::from("worker")),
        quality: Some(900),
        adherence: None,
        evaluated: Evaluated { scores, composite: 512 },
        by: "pat".into(),
        note: "good".into(),
    })));
}

fn market(samples: &mut Vec<Event>) {
    let capabilities = BTreeSet::from(["contracts".to_owned()]);
    let offer = Offer {
        capabilities: capabilities.clone(),
        domain: Some("legal".into()),
        price: Some(40),
        time_ms: None,
    };
    samples.push(Event::AgentOffered {
        agent: AgentId::from("worker"),
        client: ClientId::from("acme"),
        offer: Box::new(offer),
    });
    let job = Job {
        id: run(),
        client: ClientId::from("acme"),
        title: "read the contract".into(),
        capabilities: capabilities.clone(),
        domain: None,
        budget: 100,
        deadline: Some(1_700_000_000_000),
        oversight: Oversight::SpotCheck,
        plan: json(),
        intent: 1,
        scope: "default".into(),
        workspace: "/work".into(),
    };
    let proposal = Proposal {
        agent: "worker".into(),
        price: 40,
        time_ms: Some(5),
        capabilities,
        domain: None,
        reputation_pm: Some(700),
    };
    let steps = [
        MarketStep::Posted(job.clone()),
        MarketStep::Proposed { proposals: vec![proposal] },
        MarketStep::Signed {
            winner: "worker".into(),
            price: 40,
            budget: 100,
            deadline: job.deadline,
            oversight: Oversight::Supervised,
            reserved: true,
        },
        MarketStep::Decomposed { plan: job.plan, nodes: 3 },
        MarketStep::Started,
        MarketStep::Evaluated(JobOutcome { outcome: RunOutcome::Succeeded, spent: 30, composite: Some(900) }),
        MarketStep::Failed { at: Stage::Contract, reason: "no agent".into(), spent: 0 },
    ];
    samples.extend(steps.map(|step| Event::Market { job: run(), step: Box::new(step) }));
}

fn goal(samples: &mut Vec<Event>) {
    samples.push(Event::GoalOpened { terms: json() });
    samples.push(Event::CallBegun { intent: json(), reserved: 9 });
    let end =
        CallEnd { input_tokens: Some(5), output_tokens: 7, faults: 1, is_skip: false, is_unmade: false };
    let faulty = FaultyAnswer { answer: "{}".into(), faults: "F02".into() };
    samples.push(Event::CallEnded { call: 2, end, faulty: Some(faulty) });
    samples.push(Event::CallEnded { call: 2, end, faulty: None });
    let conclusion = OperatorAct::Conclude(Conclusion::Node(node()));
    samples.extend([conclusion, OperatorAct::Conclude(Conclusion::Wall)].map(Event::Operator));
    samples.push(Event::PlanVersion(PlanVersion {
        version: 2,
        cause: ChangeCause::Mode(Role::Reflect),
        revision: json(),
    }));
}

fn call_budget(samples: &mut Vec<Event>) {
    let amounts = |tokens| Amounts { tokens, nano_usd: 3 * tokens };
    let model = "default".to_owned();
    let reserved = CallReserved { node: node(), call: 1 << 60, model: model.clone(), amounts: amounts(9) };
    let settled = |prices| {
        Event::CallSettled(Box::new(CallSettled { call: 4, reserved: amounts(9), used: amounts(5), prices }))
    };
    let shortfall = Shortfall {
        model,
        of_client: true,
        needs: amounts(100),
        least: amounts(50),
        left: CallLimits { tokens: Some(8), nano_usd: None },
        limits: CallLimits { tokens: Some(200), nano_usd: None },
    };
    samples.push(Event::CallReserved(Box::new(reserved)));
    samples.extend([settled(Some(Digest([7; 32]))), settled(None)]);
    samples.push(Event::BudgetShort { node: node(), shortfall: Box::new(shortfall) });
    samples.push(Event::BudgetRaised { node: node(), by: amounts(1) });
    let client = ClientId::from("acme");
    samples.push(Event::BalanceDeposited { client, tokens: -5, nano_usd: 1 << 40, used: amounts(2) });
    samples.push(Event::HumanRequest(HumanRequest {
        node: node(),
        kind: HumanRequestKind::Budget,
        deadline: Some(7),
        shown: Some(Digest([8; 32])),
    }));
    samples.push(Event::NodeTransition(NodeTransition {
        node: node(),
        version: 1,
        from: NodeState::Running,
        to: NodeState::WaitingHuman,
        reason: TransitionReason::OverBudget,
        attempt: 1,
    }));
    let own = CallTerms { account: None, limits: CallLimits { tokens: None, nano_usd: Some(5) }, asks: true };
    let shared = CallTerms { account: Some(run()), limits: CallLimits::default(), asks: false };
    samples.extend([own, shared].map(Event::CallTerms));
}

/// Guards, expansion, waits and undo.
fn plan_language(samples: &mut Vec<Event>) {
    let causes = [ChangeCause::Expand(node()), ChangeCause::UndoPolicy, ChangeCause::UndoOperator];
    samples
        .extend(causes.map(|cause| Event::PlanVersion(PlanVersion { version: 2, cause, revision: json() })));
    let refusals = [PlanRefusal::UndoLive, PlanRefusal::UndoNothing];
    samples.extend(refusals.map(|step| Event::PlanRefused { version: 1, step }));
    use TransitionReason as R;
    let moves = [
        (NodeState::Pending, NodeState::Skipped, R::GuardFalse),
        (NodeState::Running, NodeState::Skipped, R::CollectorEnded),
        (NodeState::Running, NodeState::WaitingHuman, R::Wait),
        (NodeState::WaitingHuman, NodeState::Executed, R::Answered),
    ];
    samples.extend(moves.map(|(from, to, reason)| {
        Event::NodeTransition(NodeTransition { node: node(), version: 1, from, to, reason, attempt: 1 })
    }));
    let (kind, deadline) = (HumanRequestKind::Wait, Some(9));
    samples.push(Event::HumanRequest(HumanRequest { node: node(), kind, deadline, shown: None }));
    use FailureCategory as C;
    samples.extend([C::GuardError, C::ExpandError, C::Deadline].map(|category| {
        let failure = Failure { category, message: "no field".into() };
        Event::NodeFault { node: node(), failure }
    }));
    use AnswerVerdict as V;
    samples.extend([V::Accepted, V::Invalid, V::Kept, V::Full, V::Duplicate, V::Late, V::Unknown].map(
        |verdict| {
            let output =
                Output { artifact: Digest([0xab; 32]), bytes: 9, inline: Some(json()), directive: None };
            Event::WaitAnswered(Box::new(WaitAnswer {
                node: node(),
                id: (verdict != V::Late).then(|| "evt-1".into()),
                verdict,
                output: (verdict == V::Accepted).then_some(output),
                by: "ann".into(),
                was_kept: verdict == V::Invalid,
            }))
        },
    ));
}

fn model_call() -> ModelCall {
    ModelCall {
        model: "default".into(),
        answered_by: Some("small-1".into()),
        response_id: None,
        finish: "stop".into(),
        input_tokens: 12,
        output_tokens: 3,
        cached_tokens: 4,
        nano_usd: Some(900),
        prices: Some(Digest([7; 32])),
        first_piece_ms: None,
        took_ms: 70,
        ended_at: 1_700_000_000_000,
        provider: "openai".into(),
        requested: Some("small".into()),
    }
}

fn causes() -> [ChangeCause; 5] {
    use ChangeCause as C;
    [C::Patch(node()), C::Node(node()), C::Operator, C::Interject, C::Replan]
}

fn categories() -> [FailureCategory; 10] {
    use FailureCategory as C;
    [
        C::Crash,
        C::Timeout,
        C::Transient,
        C::RateLimit,
        C::ResourceExhaustion,
        C::InvalidOutput,
        C::HumanRejection,
        C::Structural,
        C::ParamMissing,
        C::GateDenied,
    ]
}

fn states() -> [NodeState; 10] {
    use NodeState as S;
    [
        S::Pending,
        S::Ready,
        S::Running,
        S::WaitingHuman,
        S::FailedRetryable,
        S::Blocked,
        S::Executed,
        S::Failed,
        S::Cancelled,
        S::Skipped,
    ]
}

fn reasons() -> Vec<TransitionReason> {
    use TransitionReason as R;
    vec![
        R::Entry,
        R::AllOf,
        R::AnyOf(node()),
        R::Attempt(3),
        R::ApproveBefore,
        R::ApproveAfter,
        R::HumanNode,
        R::Approved,
        R::Ok,
        R::Category(FailureCategory::Timeout),
        R::InDoubt,
        R::Retry,
        R::Patched,
        R::Upstream(node()),
        R::Unblocked,
        R::Hold,
        R::HoldReleased,
        R::JoinExhausted,
        R::SiblingWon,
        R::Concluded,
        R::Operator,
        R::HumanRejected,
        R::HumanTimeout,
        R::PlanCancelled,
        R::InterjectionFailed,
        R::Delta,
        R::DrainedUnapproved,
    ]
}
