//! Golden bytes of every kind of event in every released format.
//!
//! Add a new kind at the end of [`samples()`] and, with `UPDATE_EXPECT=1`, of the file. A changed line makes existing journals
//! unreadable: introduce a new format instead.

mod samples;

use expect_test::expect_file;
use ostler_kernel::event::{Accounts, Event};
use ostler_kernel::ledger::Amounts;

pub(crate) use self::samples::samples;
use super::{decode, encode};
use crate::format::FORMAT;

/// The number of an event's kind. A new kind fails to compile here as a reminder to add a sample.
fn kind(event: &Event) -> u8 {
    match event {
        Event::RunOpened(_) => 0,
        Event::RunRecovered { .. } => 1,
        Event::PlanVersion(_) => 2,
        Event::PlanRefused { .. } => 3,
        Event::NodeTransition(_) => 4,
        Event::AttemptIntent(_) => 5,
        Event::AttemptResult(_) => 6,
        Event::LateResult(_) => 7,
        Event::HumanRequest(_) => 8,
        Event::HumanAnswer(_) => 9,
        Event::TimerSet(_) => 10,
        Event::TimerFired { .. } => 11,
        Event::RecoveryExhausted { .. } => 12,
        Event::GateDecision(_) => 13,
        Event::AgentRegistered { .. } => 14,
        Event::AgentQuarantined { .. } => 15,
        Event::Parked { .. } => 16,
        Event::Operator(_) => 17,
        Event::ContractChecked { .. } => 18,
        Event::ClientSet { .. } => 19,
        Event::RunClosed { .. } => 20,
        Event::Draining { .. } => 21,
        Event::ReplanAsked { .. } => 22,
        Event::Diagnosis { .. } => 23,
        Event::CreditDeposited { .. } => 24,
        Event::OutOfCredit { .. } => 25,
        Event::Evaluated(_) => 26,
        Event::AgentReleased { .. } => 27,
        Event::AgentProfiled { .. } => 28,
        Event::AttemptProgress(_) => 29,
        Event::StepIntent(_) => 30,
        Event::StepResult(_) => 31,
        Event::StepInDoubt { .. } => 32,
        Event::ChildRun { .. } => 33,
        Event::RunTerms(_) => 34,
        Event::Pipeline(_) => 35,
        Event::Published(_) => 36,
        Event::Appraised(_) => 37,
        Event::Verdict(_) => 38,
        Event::AgentOffered { .. } => 39,
        Event::Market { .. } => 40,
        Event::ContractBroken { .. } => 41,
        Event::ModelCalled { .. } => 42,
        Event::GoalOpened { .. } => 43,
        Event::CallBegun { .. } => 44,
        Event::CallEnded { .. } => 45,
        Event::ClientRemoved { .. } => 46,
        Event::CallTerms(_) => 47,
        Event::CallReserved(_) => 48,
        Event::CallSettled(_) => 49,
        Event::BudgetShort { .. } => 50,
        Event::BudgetRaised { .. } => 51,
        Event::BalanceDeposited { .. } => 52,
        Event::ModelExchanged(_) => 53,
        Event::Caged { .. } => 54,
        Event::ReuseTerms(_) => 55,
        Event::ReuseDecided(_) => 56,
        Event::ResultRecorded(_) => 57,
        Event::Granted(_) => 58,
        Event::GrantRevoked { .. } => 59,
        Event::GateVerdict(_) => 60,
        Event::ArtifactEdited(_) => 61,
        Event::NodeFault { .. } => 62,
        Event::WaitAnswered(_) => 63,
        Event::ResultKept(_) => 64,
        Event::Retracted(_) => 65,
        Event::RetractionCarriedOut { .. } => 66,
        Event::RetractionLifted { .. } => 67,
        Event::Exposed(_) => 68,
        Event::Forked(_) => 69,
        Event::CandidateKept(_) => 70,
        Event::KeptIdentity(_) => 71,
        Event::ApprovalKept(_) => 72,
        Event::ApprovalMaterial { .. } => 73,
        Event::ApprovalCarried(_) => 74,
        Event::ResultJudged(_) => 75,
        Event::GrantedIn(_) => 76,
    }
}

const KINDS: u8 = 77;

/// Number of samples known to each format of a data folder, starting with the first.
const KNOWN: [usize; 17] =
    [117, 119, 123, 123, 143, 145, 165, 187, 189, 193, 195, 199, 200, 201, 202, 210, 211];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_kind_of_event_has_the_bytes_of_the_released_format() {
    let samples = samples();
    assert!(
        (0..KINDS).all(|number| samples.iter().any(|event| kind(event) == number)),
        "a kind has no sample"
    );
    let mut lines = String::new();
    for event in &samples {
        let mut record = Vec::new();
        encode(event, &mut record).unwrap();
        assert_eq!(record[1], kind(event));
        lines += &hex(&record);
        lines.push('\n');
    }
    expect_file!["../../../tests/golden/events-1.hex"].assert_eq(&lines);
}

/// An earlier program takes an unknown kind for damage, so the folder's format must keep it out.
#[test]
fn a_new_kind_raises_the_format_of_the_data_folder() {
    assert_eq!(
        (KNOWN.len(), KNOWN.last()),
        (FORMAT as usize, Some(&samples().len())),
        "raise `FORMAT` of the data folder, and add the number of samples here"
    );
}

#[test]
fn the_bytes_of_the_released_format_are_read() {
    let lines: Vec<&str> = include_str!("../../../tests/golden/events-1.hex").lines().collect();
    let samples = samples();
    assert_eq!(lines.len(), samples.len());
    for (line, event) in lines.into_iter().zip(samples) {
        let byte = |at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
        let record: Vec<u8> = (0..line.len()).step_by(2).map(byte).collect();
        assert_eq!(decode(&record).as_ref(), Ok(&event));
        for cut in 0..record.len() {
            assert_ne!(decode(&record[..cut]).as_ref(), Ok(&event), "cut at {cut}");
        }
    }
}

/// Checkpoints of accounts outlive the records they result from.
#[test]
fn a_row_of_an_account_has_the_bytes_of_the_released_format() {
    use ostler_kernel::evaluation::Reputation;
    use ostler_kernel::port::AccountRow;

    let row = AccountRow {
        client: "acme".into(),
        agent: Some("worker".into()),
        accounts: Some(Accounts { client_vruntime: -1, balance: Some(2), owed: 3, ..Accounts::default() }),
        spent: 4,
        reputation: Reputation::default().after(750),
        settled: 5,
        position: 6,
        calls: Amounts { tokens: 7, nano_usd: 8 },
    };
    let bytes = super::encode_row(&row).unwrap();
    expect_test::expect!["040000000000000061636d65010600000000000000776f726b657201ffffffffffffffff0000000001020000000000000000000000000000000000000000000000000000000000000000000000030000000000000000000000000000000400000000000000b0710b000000000001000000000000000500000000000000060000000000000007000000000000000800000000000000"].assert_eq(&hex(&bytes));
    assert_eq!(super::decode_row::<AccountRow>(&bytes), Ok(row));
}
