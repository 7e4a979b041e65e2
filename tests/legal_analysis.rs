//! The contract analysis example: findings, an approval after each step, and recovery after a kill.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(dead_code, reason = "the program of the example is not run as a program here")]

#[path = "../examples/legal_analysis/main.rs"]
mod example;
mod kill_at_gate;

use std::path::Path;

use example::case_studies::analyst::InjectedFault;
use example::case_studies::arguments::Arguments;
use example::{Analysed, analyse};
use kill_at_gate::Held;

/// Runs the analysis; returns the result and the output.
async fn played(data: &Path, fault: Option<(&str, InjectedFault)>) -> (Analysed, String) {
    let fault = fault.map(|(node, fault)| (node.to_owned(), fault));
    asked(data, Arguments { fault, unattended: true, ..Arguments::default() }).await
}

async fn asked(data: &Path, arguments: Arguments) -> (Analysed, String) {
    let mut told = Vec::new();
    let analysed = analyse(&arguments, data, &mut told).await.unwrap();
    analysed.print(&mut told).unwrap();
    (analysed, String::from_utf8(told).unwrap())
}

/// Attempts of extract, score and recommend.
fn attempts(analysed: &Analysed) -> [u32; 3] {
    ["extract", "score", "recommend"].map(|node| analysed.seen.attempts[node])
}

/// Lines about approvals, without digests.
fn gates(told: &str) -> Vec<String> {
    let lines = told.lines().filter_map(|line| line.strip_prefix("gate  "));
    let words =
        |line: &str| line.split(' ').filter(|word| !word.starts_with("b3:")).collect::<Vec<_>>().join(" ");
    lines.map(words).collect()
}

/// Returns whether the analysis continued with open points.
fn goes_on(told: &str) -> bool {
    let first = told.lines().next().unwrap();
    first.starts_with("job   Analyse vendor contract for GDPR") && first.ends_with(": goes on where it was")
}

const GATES: [&str; 4] = [
    "extract approved: 13 clauses, as in the contract",
    "score sent back: clause 12 is a high risk: the cap is far below what a breach costs",
    "score approved: 8 risks, and their levels are right",
    "recommend approved: the client can work with that",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_result_is_looked_at_and_what_was_sent_back_is_made_again_with_the_note() {
    let folder = tempfile::tempdir().unwrap();
    let (analysed, told) = played(folder.path(), None).await;
    assert_eq!(gates(&told), GATES);
    assert_eq!((attempts(&analysed), analysed.seen.version), ([1, 2, 1], 2));
    assert!(analysed.memo.starts_with("# 8 risks, 6 of them high\n\nDo not sign as it stands.\n"), "{told}");
    for risk in [
        "- high: audits (missing, GDPR 28(3)(h))\n",
        "- high: instructions (clause 2, GDPR 28(3)(a))\n",
        "- high: breaches (clause 9, GDPR 33(2))\n",
        "- high: liability (clause 12, GDPR 82)\n  the reviewer: clause 12 is a high risk",
        "- medium: security (clause 5, GDPR 28(3)(c), 32)\n",
    ] {
        assert!(analysed.memo.contains(risk), "{risk} in {}", analysed.memo);
    }
    assert!(!analysed.memo.contains("confidentiality (") && !analysed.memo.contains("deletion ("));
    assert_eq!(analysed.job.winner.unwrap().as_str(), "jurist");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_is_judged_as_legal_and_the_vector_of_the_paper_comes_to_what_its_weights_make_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (analysed, told) = played(folder.path(), None).await;
    assert!(analysed.job.composite_pm.is_some());
    for line in [
        "this run, weights of legal",
        "  quality     1.000    weight 0.350",
        "  revisions   0.858    weight 0.100", // one of the seven changes that the plan allows
        "  judge       partner: accuracy 1000, completeness 1000, actionability 1000 of 1000",
        "the paper's vector (0.91, 0.95, 0.65, 0.72, 0.88, 0.80)\n",
        "  0.8725  weights of legal  (the paper prints 0.882)\n",
        "  0.8350  weights of default  (the paper prints 0.837)\n",
    ] {
        assert!(told.contains(line), "{line:?} in {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_legal_work_are_met_as_the_paper_says() {
    // Fault in the scores; attempts, plan versions, and the last line about their approval.
    for (fault, tries, version, last) in [
        (InjectedFault::Crash, 3, 2, GATES[2]),
        (InjectedFault::Silence, 2, 2, "score approved: 5 risks, and their levels are right"),
        (InjectedFault::Nonsense, 3, 2, GATES[2]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (analysed, told) = played(folder.path(), Some(("score", fault))).await;
        let expected = ([1, tries, 1], version);
        assert_eq!((attempts(&analysed), analysed.seen.version), expected, "{fault:?}: {told}");
        let gates = gates(&told);
        assert_eq!(gates[gates.len() - 2], last, "{told}");
        // A crash is escalated to a person, a silent lawyer is replaced, and an invalid answer is asked
        // for again.
        let escalated = gates.contains(&"score crashed: a person says that it is done again".to_owned());
        assert_eq!(escalated, fault == InjectedFault::Crash, "{told}");
    }
}

/// The worker process.
#[test]
fn worker() {
    let Some(data) = kill_at_gate::folder() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let arguments = Arguments { unattended: true, ..Arguments::default() };
    runtime.block_on(analyse(&arguments, &data, &mut Held::new())).map(drop).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_analysis_that_is_killed_at_a_gate_goes_on_there() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    kill_at_gate::kill_at_first_gate(&data);
    let (analysed, told) = played(&data, None).await;
    assert!(goes_on(&told), "{told}");
    // A node interrupted by the kill is resolved by a person, if it had started.
    let mut asked = gates(&told);
    asked.retain(|gate| gate != "score crashed: a person says that it is done again");
    assert_eq!(asked, GATES[1..], "what was approved is not asked again");
    let [extract, _, recommend] = attempts(&analysed)[..] else { panic!("three nodes") };
    assert_eq!((extract, recommend), (1, 1), "and what was extracted is not extracted again");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_open_analysis_of_another_contract_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    kill_at_gate::kill_at_first_gate(&data);
    let other = folder.path().join("other.txt");
    std::fs::write(&other, "1. Liability\nThe vendor is liable for nothing.\n").unwrap();
    let (analysed, told) =
        asked(&data, Arguments { subject: Some(other), unattended: true, ..Arguments::default() }).await;
    assert!(!goes_on(&told), "{told}");
    assert_eq!(gates(&told)[0], "extract approved: 1 clauses, as in the contract");
    assert!(analysed.memo.contains("missing"), "{told}");
    let (analysed, told) = played(&data, None).await;
    assert!(goes_on(&told), "{told}");
    assert!(analysed.memo.starts_with("# 8 risks, 6 of them high\n"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_takes_the_place_of_the_patterns_and_what_it_invents_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = Some("scripted:examples/models/legal_analysis.yaml".to_owned());
    let arguments = Arguments { model, unattended: true, ..Arguments::default() };
    let (analysed, told) = asked(folder.path(), arguments).await;
    // The script's first extraction has a clause that the contract has not.
    assert_eq!(gates(&told), GATES);
    assert_eq!((attempts(&analysed), analysed.seen.version), ([1, 2, 1], 2));
    assert!(analysed.memo.contains("(clause 12, GDPR 82)\n  the reviewer is right"), "{told}");
    assert!(
        told.contains("  judge       partner: accuracy 1000, completeness 1000, actionability 1000 of 1000")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_keeps_inventing_is_replaced_by_code() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("inventor.yaml");
    let clause = "{number: 99, heading: Invented, text: Nothing of this was agreed.}";
    std::fs::write(
        &script,
        format!(
            "rules:\n  - when: {{contains: Extract}}\n    answer: {{clauses: [{clause}]}}\n  - when: {{}}\n    text: I would rather not.\n"
        ),
    )
    .unwrap();
    let model = Some(format!("scripted:{}", script.display()));
    let arguments = Arguments { model, unattended: true, ..Arguments::default() };
    let (analysed, told) = asked(&folder.path().join("data"), arguments).await;
    assert_eq!(gates(&told)[0], GATES[0], "the code splits the contract");
    assert!(
        analysed.memo.contains("high: instructions (clause 2, GDPR 28(3)(a))"),
        "and names the high risks: {told}"
    );
}
