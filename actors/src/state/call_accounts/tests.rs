//! Accounts leave the memory with their runs.

use ostler_store::MemoryJournal;

use super::*;

const CALL: PricedCall<'_> =
    PricedCall { model: "default", input_bytes: 400, max_output_tokens: 100, price: None };

fn accounts() -> (CallAccounts, Payer) {
    let journal = Arc::new(JournalClient::new(Arc::new(MemoryJournal::default())));
    let ledger = Arc::new(Ledger::new(Vec::new(), Vec::new()));
    let run = RunId(uuid::Uuid::from_u128(1));
    (CallAccounts::new(journal, ledger, &[]), Payer { client: "acme".into(), account: Some(run) })
}

async fn reserved(accounts: &CallAccounts, payer: &Payer) -> u64 {
    let reserved = accounts.reserve(payer, &"n".into(), &CALL).await;
    reserved.unwrap_or_else(|refused| panic!("{refused:?}")).grant.reservation.unwrap()
}

fn known(accounts: &CallAccounts) -> usize {
    let books = lock(&accounts.books);
    assert!(books.open.len() >= books.over.len(), "a run that is over waits for a call");
    books.runs.len()
}

#[tokio::test]
async fn the_account_of_a_run_that_is_over_goes_with_its_last_call() {
    let (accounts, payer) = accounts();
    let (first, second) = (reserved(&accounts, &payer).await, reserved(&accounts, &payer).await);
    accounts.forget(payer.account.unwrap());
    accounts.close(first, Amounts::default());
    assert_eq!(known(&accounts), 1, "a call holds a reservation");
    accounts.close(second, Amounts::default());
    assert_eq!(known(&accounts), 0);
    assert!(lock(&accounts.books).over.is_empty());
}

#[tokio::test]
async fn the_account_of_an_idle_run_goes_at_once_and_is_read_again() {
    let (accounts, payer) = accounts();
    for _ in 0..2 {
        let call = reserved(&accounts, &payer).await;
        accounts.close(call, Amounts::default());
        assert_eq!(known(&accounts), 1);
        accounts.forget(payer.account.unwrap());
        assert_eq!(known(&accounts), 0);
    }
}
