use expect_test::expect;
use ostler_kernel::agent::{Oversight, Profile};
use ostler_kernel::evaluation::{Appraised, Judgement, Scores, Target, Verdict, Weights};
use ostler_kernel::event::{
    ApprovalCarried, ApprovalKept, ApprovalVoid, AttemptIntent, AttemptProgress, AttemptRef, CallReserved,
    CallSettled, CallTerms, ChangeCause, Directive, Evaluated, Exposure, Failure, Forked, Fresh, GateAnswer,
    GateDecision, GateVerdict, HumanAnswer, HumanRequest, HumanRequestKind, KeptIdentity, NodeTransition,
    Output, Parent, PipelineRecord, PlanRefusal, PlanVersion, Published, RecordPlace, RefusedOutput,
    ResultJudged, ReuseTerms, ReusedResult, RunOpened, RunTerms, StepIntent, StepKey, StepResult, Timer,
    TimerKind,
};
use ostler_kernel::grant::{Grant, GrantTerms};
use ostler_kernel::id::{Digest, RunId};
use ostler_kernel::json::{Json, canonical};
use ostler_kernel::ledger::{Amounts, CallLimits};
use ostler_kernel::lineage::{Difference, Reason};
use ostler_kernel::market::{MarketStep, Offer};
use ostler_kernel::plan::Idempotency;
use ostler_kernel::policy::Conclusion;
use ostler_kernel::port::{CageRung, ModelCall};
use ostler_kernel::run::{Diagnosis, FailureCategory, NodeState, RunOutcome, TransitionReason};

use super::*;

fn run() -> RunId {
    "0198f3c2-0000-7000-8000-000000000001".parse().expect("a run id")
}

fn terms() -> GrantTerms {
    GrantTerms {
        id: "g1".to_owned(),
        client: "acme".into(),
        tool: "shell.run".to_owned(),
        argv: vec!["git".to_owned()],
        until: 7,
        by: "ann".to_owned(),
    }
}

fn digest() -> Digest {
    Digest([7; 32])
}

fn json_text(value: Value) -> Json {
    canonical(&value).expect("canonical JSON")
}

fn attempt() -> AttemptRef {
    AttemptRef { node: "a".into(), generation: 1, patch_count: 2, attempt: 3 }
}

const AMOUNTS: Amounts = Amounts { tokens: 12, nano_usd: 900 };

fn run_records() -> Vec<Event> {
    let plan = json_text(json!({"id": "p"}));
    vec![
        Event::RunOpened(Box::new(RunOpened {
            run: run(),
            client: "acme".into(),
            agent: "bot".into(),
            plan: plan.clone(),
            intent: 1,
            scope: "default".to_owned(),
            workspace: "/w".to_owned(),
            policy_epoch: 1,
            seed: 9,
        })),
        Event::RunTerms(Box::new(RunTerms {
            budget: Some(5),
            parent: Some(Parent { run: run(), of: attempt(), step: "s".to_owned() }),
        })),
        Event::RunRecovered { count: 2 },
        Event::PlanVersion(PlanVersion { version: 2, cause: ChangeCause::Replan, revision: plan }),
        Event::PlanRefused { version: 1, step: PlanRefusal::Contract },
        Event::ReplanAsked { for_contract: true },
        Event::ContractChecked { version: 1, holds: false },
        Event::ContractBroken { version: 1, why: "tests fail".to_owned() },
        Event::ModelCalled {
            node: "a".into(),
            attempt: 1,
            call: Box::new(ModelCall {
                model: "default".to_owned(),
                answered_by: Some("small-1".to_owned()),
                response_id: None,
                finish: "stop".to_owned(),
                input_tokens: 12,
                output_tokens: 3,
                cached_tokens: 0,
                nano_usd: Some(900),
                prices: None,
                first_piece_ms: Some(40),
                took_ms: 70,
                ended_at: 9,
                provider: "openai".to_owned(),
                requested: None,
            }),
        },
        Event::CallTerms(CallTerms {
            account: None,
            limits: CallLimits { tokens: None, nano_usd: Some(500) },
            asks: true,
        }),
        Event::CallReserved(Box::new(CallReserved {
            node: "a".into(),
            call: 7,
            model: "default".to_owned(),
            amounts: AMOUNTS,
        })),
        Event::CallSettled(Box::new(CallSettled { call: 7, reserved: AMOUNTS, used: AMOUNTS, prices: None })),
        Event::BudgetRaised { node: "a".into(), by: AMOUNTS },
        Event::BalanceDeposited { client: "acme".into(), tokens: -5, nano_usd: 0, used: AMOUNTS },
        Event::Caged { node: "a".into(), attempt: 1, rung: CageRung::Landlock },
        Event::ReuseTerms(ReuseTerms { fresh: Fresh::Nodes(vec!["a".into()]) }),
        reused(ReuseDecision::Reused(ReusedResult {
            basis: ReuseBasis::CutOff(vec!["b".into()]),
            from: RecordPlace { run: RunId::default(), seq: 7 },
            output: Output { artifact: Digest([1; 32]), bytes: 2, inline: None, directive: None },
            sampled: true,
        })),
        reused(ReuseDecision::Recomputed(Reason::Changed(Difference::Param("prompt".to_owned())))),
        Event::Granted(Box::new(terms())),
        Event::GrantedIn(Box::new(Grant {
            terms: terms(),
            workspace: "/srv".to_owned(),
            files: [("a.sh".to_owned(), Digest([1; 32]))].into(),
        })),
        Event::GrantRevoked { client: "acme".into(), grant: "g1".to_owned(), by: "ann".to_owned() },
        Event::Forked(Box::new(Forked {
            from: run(),
            at: 9,
            done: vec![("a".into(), None)],
            by: "ann".to_owned(),
        })),
        Event::CandidateKept(Box::new(RefusedOutput {
            node: "a".into(),
            attempt: 1,
            why: "no".to_owned(),
            output: Output { artifact: Digest([1; 32]), bytes: 2, inline: None, directive: None },
        })),
        Event::ResultJudged(Box::new(ResultJudged {
            node: "a".into(),
            attempt: 1,
            rule: 2,
            model: "careful".to_owned(),
            precision: Some(0.9),
            holds: true,
            why: "fine".to_owned(),
        })),
        Event::KeptIdentity(Box::new(KeptIdentity {
            node: "a".into(),
            reuse: Digest([3; 32]),
            idempotency_key: Digest([4; 32]),
        })),
        Event::ApprovalKept(Box::new(ApprovalKept {
            node: "a".into(),
            kind: HumanRequestKind::Before,
            material: Digest([3; 32]),
            shown: Digest([3; 32]),
            output: None,
            by: "ann".to_owned(),
            at: 7,
            from: run(),
            void: Some(ApprovalVoid::Effect),
        })),
        Event::ApprovalMaterial { node: "a".into(), material: Digest([3; 32]) },
        Event::ApprovalCarried(Box::new(ApprovalCarried {
            node: "a".into(),
            by: "ann".to_owned(),
            at: 7,
            from: run(),
        })),
        retracted(Withdrawn::Result { run: RunId::default(), node: "a".into(), place: None }),
        retracted(Withdrawn::Executable(json_text(json!({"tool": "t"})))),
        Event::RetractionCarriedOut { client: "acme".into(), retraction: "w1".to_owned() },
        Event::RetractionLifted { client: "acme".into(), retraction: "w1".to_owned(), by: "ann".to_owned() },
        Event::Exposed(Box::new(Exposure {
            labels: ["secret".to_owned()].into(),
            strangers: true,
            private: false,
        })),
        Event::Parked { reason: "crashes".to_owned() },
        Event::OutOfCredit { out: true },
        Event::RunClosed { outcome: RunOutcome::Succeeded },
    ]
}

fn retracted(what: Withdrawn) -> Event {
    let retraction = Retraction { id: "w1".to_owned(), client: "acme".into(), what, by: "ann".to_owned() };
    Event::Retracted(Box::new(retraction))
}

fn reused(decision: ReuseDecision) -> Event {
    let reuse = Some(Digest([3; 32]));
    Event::ReuseDecided(Box::new(ReuseDecided { node: "a".into(), reuse, decision }))
}

fn node_records() -> Vec<Event> {
    vec![
        Event::NodeTransition(NodeTransition {
            node: "a".into(),
            version: 1,
            from: NodeState::Pending,
            to: NodeState::Ready,
            reason: TransitionReason::Entry,
            attempt: 0,
        }),
        Event::Draining { node: "a".into() },
        Event::TimerSet(Timer { node: "a".into(), kind: TimerKind::Backoff, at: 5 }),
        Event::TimerFired { node: "a".into(), kind: TimerKind::Human },
        Event::Diagnosis {
            node: "a".into(),
            category: FailureCategory::Timeout,
            level: 1,
            diagnosis: Box::new(Diagnosis { cause: "slow".into(), level: 1, confidence: 50 }),
        },
        Event::RecoveryExhausted { node: "a".into(), level: 1, reason: "attempts".to_owned() },
        Event::GateDecision(GateDecision {
            node: "a".into(),
            attempt: 1,
            code: "scope".to_owned(),
            detail: "no".to_owned(),
        }),
        Event::GateVerdict(Box::new(GateVerdict {
            node: "a".into(),
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
        })),
        Event::HumanRequest(HumanRequest {
            node: "a".into(),
            kind: HumanRequestKind::Before,
            deadline: Some(8),
            shown: Some(digest()),
        }),
        Event::HumanAnswer(HumanAnswer {
            node: "a".into(),
            approve: true,
            redo: false,
            by: "ann".to_owned(),
            note: "fine".to_owned(),
        }),
        Event::Operator(OperatorAct::CancelPlan),
        Event::Operator(OperatorAct::Cancel("a".into())),
        Event::Operator(OperatorAct::Skip("a".into())),
        Event::Operator(OperatorAct::StopDenied),
        Event::Operator(OperatorAct::StopLate),
        Event::Operator(OperatorAct::StopUnwanted),
        Event::Operator(OperatorAct::Conclude(Conclusion::Node("reflect.1".into()))),
        Event::Operator(OperatorAct::Conclude(Conclusion::Wall)),
    ]
}

fn attempt_records() -> Vec<Event> {
    let key = || StepKey { version: "1".to_owned(), input: digest() };
    let inline = Some(json_text(json!({"text": "hi"})));
    let directive = Some(Box::new(Directive { conclude: true, delta: None }));
    let done = Outcome::Ok(Output { artifact: digest(), bytes: 4, inline, directive });
    let failed = Outcome::Failed(Failure::new(FailureCategory::Crash, "it broke"));
    vec![
        Event::AttemptIntent(Box::new(AttemptIntent {
            node: "a".into(),
            generation: 1,
            patch_count: 2,
            attempt: 3,
            reuse: digest(),
            idempotency_key: digest(),
            intent: 1,
            policy_epoch: 1,
            provenance: vec!["user".to_owned()],
            accounts: None,
        })),
        Event::AttemptProgress(Box::new(AttemptProgress { of: attempt(), token: json_text(json!([1])) })),
        Event::AttemptResult(Box::new(AttemptResult::without_cost("a".into(), 1, done.clone()))),
        Event::LateResult(Box::new(AttemptResult::without_cost("a".into(), 1, failed))),
        Event::StepIntent(Box::new(StepIntent {
            of: attempt(),
            step: "s".to_owned(),
            key: key(),
            idem: Idempotency::None,
            idempotency_key: digest(),
        })),
        Event::StepResult(Box::new(StepResult {
            of: attempt(),
            step: "s".to_owned(),
            key: key(),
            outcome: done,
        })),
        Event::StepInDoubt { of: attempt(), step: "s".to_owned() },
        Event::ChildRun { of: attempt(), step: "s".to_owned(), run: run(), budget: None },
    ]
}

fn agent_and_client_records() -> Vec<Event> {
    let (agent, client) = (|| "bot".into(), || "acme".into());
    let profile = serde_json::to_value(Profile::default()).expect("a profile is JSON");
    let scores = Scores { quality: None, adherence: Some(1), speed: 2, cost: 3, errors: 4, revisions: 5 };
    let evaluated = Evaluated { scores, composite: 6 };
    let offer = Offer { price: Some(3), ..Offer::default() };
    vec![
        Event::AgentRegistered { agent: agent(), client: client(), weight: 100 },
        Event::AgentProfiled { agent: agent(), client: client(), profile: json_text(profile) },
        Event::AgentOffered { agent: agent(), client: client(), offer: Box::new(offer) },
        Event::AgentQuarantined { agent: agent(), reason: "crashes".to_owned() },
        Event::AgentReleased { agent: agent() },
        Event::ClientSet { client: client(), weight: 0, contracted: true },
        Event::CreditDeposited { client: client(), credits: -3, spent: 4 },
        Event::ClientRemoved { client: client() },
        Event::Evaluated(evaluated),
        Event::Appraised(Box::new(Appraised {
            domain: "code".to_owned(),
            weights: Weights::DEFAULT,
            target: Target::default(),
            judgement: Some(Judgement { by: "j".to_owned(), quality: None, note: "n".to_owned() }),
        })),
        Event::Verdict(Box::new(Verdict {
            run: run(),
            agent: None,
            quality: Some(1),
            adherence: None,
            evaluated,
            by: "ann".to_owned(),
            note: "fine".to_owned(),
        })),
        Event::Market {
            job: run(),
            step: Box::new(MarketStep::Signed {
                winner: agent(),
                price: 1,
                budget: 2,
                deadline: None,
                oversight: Oversight::default(),
                reserved: true,
            }),
        },
        Event::Pipeline(Box::new(PipelineRecord::Ended { stage: "s".into() })),
        Event::Published(Published { stage: "s".into(), kind: "k".into(), data: json_text(json!({"n": 1})) }),
    ]
}

fn lines(records: &[Event]) -> String {
    let line = |record| {
        let (kind, body) = event_json(record);
        format!("{kind} {body}\n")
    };
    records.iter().map(line).collect()
}

#[test]
fn records_of_runs_have_stable_json() {
    expect![[r#"
        run_opened {"agent":"bot","client":"acme","intent":1,"plan":{"id":"p"},"policy_epoch":1,"scope":"default","seed":9,"workspace":"/w"}
        run_terms {"budget":5,"parent":{"of":{"attempt":3,"generation":1,"node":"a","phase":2},"run":"0198f3c2-0000-7000-8000-000000000001","step":"s"}}
        run_recovered {"count":2}
        plan_version {"cause":"delta:replan","revision":{"id":"p"},"version":2}
        plan_refused {"step":"contract_failed","version":1}
        replan_asked {"for_contract":true}
        contract_checked {"holds":false,"version":1}
        contract_broken {"version":1,"why":"tests fail"}
        model_called {"attempt":1,"call":{"answered_by":"small-1","cached_tokens":0,"ended_at":9,"finish":"stop","first_piece_ms":40,"input_tokens":12,"model":"default","nano_usd":900,"output_tokens":3,"prices":null,"provider":"openai","requested":null,"response_id":null,"took_ms":70},"node":"a"}
        call_terms {"account":null,"asks":true,"limits":{"nano_usd":500,"tokens":null}}
        call_reserved {"amounts":{"nano_usd":900,"tokens":12},"call":7,"model":"default","node":"a"}
        call_settled {"call":7,"prices":null,"reserved":{"nano_usd":900,"tokens":12},"used":{"nano_usd":900,"tokens":12}}
        budget_raised {"by":{"nano_usd":900,"tokens":12},"node":"a"}
        balance_deposited {"client":"acme","nano_usd":0,"tokens":-5,"used":{"nano_usd":900,"tokens":12}}
        caged {"attempt":1,"node":"a","rung":"landlock"}
        reuse_terms {"fresh":{"Nodes":["a"]}}
        reuse_decided {"age_max_ms":null,"age_ms":null,"artifact":"0101010101010101010101010101010101010101010101010101010101010101","decision":"cut_off","from":{"run":"00000000-0000-0000-0000-000000000000","seq":7},"node":"a","recomputed":["b"],"reuse":"0303030303030303030303030303030303030303030303030303030303030303","sampled":true}
        reuse_decided {"decision":"recomputed","field":null,"node":"a","reuse":"0303030303030303030303030303030303030303030303030303030303030303","why":"param.prompt","words":"prompt changed"}
        granted {"argv":["git"],"by":"ann","client":"acme","id":"g1","tool":"shell.run","until":7}
        granted_in {"files":{"a.sh":"0101010101010101010101010101010101010101010101010101010101010101"},"terms":{"argv":["git"],"by":"ann","client":"acme","id":"g1","tool":"shell.run","until":7},"workspace":"/srv"}
        grant_revoked {"by":"ann","client":"acme","grant":"g1"}
        forked {"at":9,"by":"ann","done":[["a",null]],"from":"0198f3c2-0000-7000-8000-000000000001"}
        candidate_kept {"artifact":"0101010101010101010101010101010101010101010101010101010101010101","attempt":1,"bytes":2,"node":"a","why":"no"}
        result_judged {"attempt":1,"holds":true,"method":"model","model":"careful","node":"a","precision":0.9,"rule":2,"why":"fine"}
        kept_identity {"idempotency_key":"0404040404040404040404040404040404040404040404040404040404040404","node":"a","reuse":"0303030303030303030303030303030303030303030303030303030303030303"}
        approval_kept {"artifact":null,"at":7,"by":"ann","from":"0198f3c2-0000-7000-8000-000000000001","kind":"before","material":"0303030303030303030303030303030303030303030303030303030303030303","node":"a","shown":"0303030303030303030303030303030303030303030303030303030303030303","void":"effect"}
        approval_material {"material":"0303030303030303030303030303030303030303030303030303030303030303","node":"a"}
        approval_carried {"at":7,"by":"ann","from":"0198f3c2-0000-7000-8000-000000000001","node":"a"}
        retracted {"by":"ann","client":"acme","id":"w1","node":"a","record":null,"run":"00000000-0000-0000-0000-000000000000","withdrawn":"result"}
        retracted {"by":"ann","client":"acme","executable":{"tool":"t"},"id":"w1","withdrawn":"executable"}
        retraction_carried_out {"client":"acme","retraction":"w1"}
        retraction_lifted {"by":"ann","client":"acme","retraction":"w1"}
        exposed {"labels":["secret"],"private":false,"strangers":true}
        parked {"reason":"crashes"}
        out_of_credit {"out":true}
        run_closed {"outcome":"succeeded"}
    "#]].assert_eq(&lines(&run_records()));
}

#[test]
fn records_of_nodes_have_stable_json() {
    expect![[r#"
        node_transition {"attempt":0,"from":"pending","node":"a","reason":"entry","to":"ready","version":1}
        draining {"node":"a"}
        timer_set {"at_ms":5,"kind":"backoff","node":"a"}
        timer_fired {"kind":"human","node":"a"}
        diagnosis {"category":"timeout","diagnosis":{"cause":"slow","confidence":50,"level":1},"level":1,"node":"a"}
        recovery_level_exhausted {"level":1,"node":"a","reason":"attempts"}
        gate_decision {"attempt":1,"code":"scope","detail":"no","node":"a"}
        gate_verdict {"amounts":[["count",1.5]],"answer":"hold","attempt":1,"code":"TAINT_AUTHOR","hash":"0909090909090909090909090909090909090909090909090909090909090909","intent":1,"measured":[1,2],"node":"a","params":"0707070707070707070707070707070707070707070707070707070707070707","policy_epoch":3,"previous":"0000000000000000000000000000000000000000000000000000000000000000","scope":"default","tainted":["path"],"tool":"fs.write","version":"1"}
        human_request {"deadline_ms":8,"kind":"before","node":"a","shown":"0707070707070707070707070707070707070707070707070707070707070707"}
        human_answer {"approve":true,"by":"ann","node":"a","note":"fine","redo":false}
        operator {"act":"cancel_plan"}
        operator {"act":"cancel","node":"a"}
        operator {"act":"skip","node":"a"}
        operator {"act":"stop_denied"}
        operator {"act":"stop_late"}
        operator {"act":"stop_unwanted"}
        operator {"act":"conclude","node":"reflect.1"}
        operator {"act":"conclude"}
    "#]].assert_eq(&lines(&node_records()));
}

#[test]
fn records_of_attempts_have_stable_json() {
    expect![[r#"
        attempt_intent {"attempt":3,"generation":1,"idempotency_key":"0707070707070707070707070707070707070707070707070707070707070707","intent":1,"node":"a","phase":2,"policy_epoch":1,"provenance":["user"],"reuse":"0707070707070707070707070707070707070707070707070707070707070707"}
        attempt_progress {"of":{"attempt":3,"generation":1,"node":"a","phase":2},"token":[1]}
        attempt_result {"attempt":1,"cost":0,"duration_ms":0,"node":"a","outcome":{"ok":{"artifact":"0707070707070707070707070707070707070707070707070707070707070707","bytes":4,"inline":{"text":"hi"}}}}
        late_result {"attempt":1,"cost":0,"duration_ms":0,"node":"a","outcome":{"failed":{"category":"crash","message":"it broke"}}}
        step_intent {"idem":"none","of":{"attempt":3,"generation":1,"node":"a","phase":2},"step":"s"}
        step_result {"of":{"attempt":3,"generation":1,"node":"a","phase":2},"outcome":{"ok":{"artifact":"0707070707070707070707070707070707070707070707070707070707070707","bytes":4,"inline":{"text":"hi"}}},"step":"s"}
        step_in_doubt {"of":{"attempt":3,"generation":1,"node":"a","phase":2},"step":"s"}
        child_run {"budget":null,"of":{"attempt":3,"generation":1,"node":"a","phase":2},"run":"0198f3c2-0000-7000-8000-000000000001","step":"s"}
    "#]].assert_eq(&lines(&attempt_records()));
}

#[test]
fn records_of_agents_clients_and_pipelines_have_stable_json() {
    expect![[r#"
        agent_registered {"agent":"bot","client":"acme","weight":100}
        agent_profiled {"agent":"bot","client":"acme","profile":{}}
        agent_offered {"agent":"bot","client":"acme","offer":{"capabilities":[],"domain":null,"price":3,"time_ms":null}}
        agent_quarantined {"agent":"bot","reason":"crashes"}
        agent_released {"agent":"bot"}
        client_set {"client":"acme","contracted":true,"weight":0}
        credit_deposited {"client":"acme","credits":-3,"spent":4}
        client_removed {"client":"acme"}
        evaluated {"composite":6,"scores":{"adherence":1,"cost":3,"errors":4,"quality":null,"revisions":5,"speed":2}}
        appraised {"domain":"code","judgement":{"by":"j","note":"n","quality":null},"target":{"credits":null,"time_ms":null},"weights":[250,200,150,150,150,100]}
        verdict {"adherence":null,"agent":null,"by":"ann","evaluated":{"composite":6,"scores":{"adherence":1,"cost":3,"errors":4,"quality":null,"revisions":5,"speed":2}},"note":"fine","quality":1,"run":"0198f3c2-0000-7000-8000-000000000001"}
        market {"job":"0198f3c2-0000-7000-8000-000000000001","step":{"Signed":{"budget":2,"deadline":null,"oversight":"autonomous_escalation","price":1,"reserved":true,"winner":"bot"}}}
        pipeline {"Ended":{"stage":"s"}}
        published {"data":{"n":1},"kind":"k","stage":"s"}
    "#]].assert_eq(&lines(&agent_and_client_records()));
}
