//! Accounts of calls of models: of runs with a budget of tokens or money, and of clients. They outlive any actor.
//!
//! The account of a run is that of the run at the top: child runs share it. Accounts are caches of the journal, read when they
//! are first asked for; a client's sum comes from the journal's table of accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use ostler_kernel::event::{CallReserved, CallSettled, CallTerms, Event};
use ostler_kernel::id::{ClientId, NodeId, RunId};
use ostler_kernel::ledger::{
    Amounts, CallAccount, CallLimits, CallQuote, CallRoom, InputEstimate, room_of_both,
};
use ostler_kernel::port::{AccountRow, CallGrant, JournalError, ModelCall, PricedCall, StreamId};
use tokio::sync::Notify;

use crate::base::lock::lock;
use crate::state::ledger::Ledger;
use crate::storage::journal_client::JournalClient;
use crate::storage::run_reader;

/// Models with an estimate of their own; more than a configuration may have.
const ESTIMATES_MAX: usize = 1_024;

/// Reads of an account for one call, at most.
const READS_MAX: u32 = 8;

/// The accounts that pay for the calls of a run.
#[derive(Debug, Clone)]
pub(crate) struct Payer {
    pub(crate) client: ClientId,
    /// The run whose account pays, with its client's balance; `None`: the balance alone.
    pub(crate) account: Option<RunId>,
}

impl Payer {
    pub(crate) fn new(run: RunId, client: &ClientId, terms: Option<&CallTerms>) -> Payer {
        let account = terms.filter(|terms| terms.account.is_some() || !terms.limits.is_unlimited());
        let account = account.map(|terms| terms.account.unwrap_or(run));
        Payer { client: client.clone(), account }
    }
}

/// The account of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAccountView {
    /// The run whose account it is.
    pub account: RunId,
    /// The budget, raises included.
    pub limits: CallLimits,
    /// Used by the run and all its child runs.
    pub used: Amounts,
    /// Reserved by calls that are being made.
    pub held: Amounts,
}

impl CallAccountView {
    /// What is neither used nor reserved.
    pub fn left(&self) -> CallLimits {
        self.limits.less(self.used.plus(self.held))
    }
}

/// Tokens and money of all calls of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientCalls {
    pub(crate) used: Amounts,
    /// Reserved by calls that are being made.
    pub(crate) held: Amounts,
    /// Set aside for contracts of market jobs, apart from what their calls used and hold.
    pub(crate) aside: Amounts,
}

impl ClientCalls {
    /// All that is not free.
    pub(crate) fn taken(self) -> Amounts {
        self.used.plus(self.held).plus(self.aside)
    }
}

/// A refused call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Refused {
    Short(Box<ostler_kernel::ledger::Shortfall>),
    Unpriced,
    Journal(JournalError),
}

/// A reservation in the accounts, and its record.
pub(crate) struct Reserved {
    pub(crate) grant: CallGrant,
    /// `None`: no limit holds, so nothing is recorded.
    pub(crate) record: Option<CallReserved>,
}

#[derive(Default)]
struct Books {
    runs: BTreeMap<RunId, CallAccount>,
    clients: BTreeMap<ClientId, CallAccount>,
    estimates: BTreeMap<String, InputEstimate>,
    /// Open reservations: the payer, and what was reserved for how many bytes.
    open: BTreeMap<u64, Open>,
    /// Runs that are no longer driven, whose accounts are dropped with their last open reservation.
    over: BTreeSet<RunId>,
    /// Accounts dropped and raised so far: what was read from the journal before may be out of date.
    changes: u64,
}

impl Books {
    fn drop_account(&mut self, run: RunId) {
        self.over.remove(&run);
        self.changes += u64::from(self.runs.remove(&run).is_some());
    }
}

struct Open {
    account: Option<RunId>,
    client: ClientId,
    amounts: Amounts,
    input_bytes: u64,
}

/// Accounts of calls of models.
pub(crate) struct CallAccounts {
    journal: Arc<JournalClient>,
    ledger: Arc<Ledger>,
    books: Mutex<Books>,
    /// Wakes when an account has more room.
    more: Notify,
}

impl CallAccounts {
    /// The accounts of a starting system, with the journal's table of accounts.
    pub(crate) fn new(journal: Arc<JournalClient>, ledger: Arc<Ledger>, rows: &[AccountRow]) -> CallAccounts {
        let mut books = Books::default();
        for row in rows {
            let account = books.clients.entry(row.client.clone()).or_default();
            *account = CallAccount::new(CallLimits::default(), account.used().plus(row.calls));
        }
        CallAccounts { journal, ledger, books: Mutex::new(books), more: Notify::new() }
    }

    /// Reserves a call, and waits while other calls hold what it needs. Dropping the future reserves nothing.
    ///
    /// # Errors
    ///
    /// The call is refused, or the account cannot be read.
    pub(crate) async fn reserve(
        &self,
        payer: &Payer,
        node: &NodeId,
        call: &PricedCall<'_>,
    ) -> Result<Reserved, Refused> {
        loop {
            let mut more = std::pin::pin!(self.more.notified());
            more.as_mut().enable();
            if let Some(reserved) = self.try_reserve(payer, node, call)? {
                return Ok(reserved);
            }
            more.await;
        }
    }

    /// `None`: calls that are being made may return enough.
    fn try_reserve(
        &self,
        payer: &Payer,
        node: &NodeId,
        call: &PricedCall<'_>,
    ) -> Result<Option<Reserved>, Refused> {
        let limits = self.ledger.client(&payer.client).terms().call_limits();
        let (max_output_tokens, input_bytes) = (call.max_output_tokens, call.input_bytes);
        if payer.account.is_none() && limits.is_unlimited() {
            let grant = CallGrant { reservation: None, max_output_tokens };
            return Ok(Some(Reserved { grant, record: None }));
        }
        let books = lock(&self.books);
        let mut books = match payer.account {
            Some(account) => self.recall(books, account, &payer.client).map_err(Refused::Journal)?,
            None => books,
        };
        let estimate = books.estimates.get(call.model).copied().unwrap_or_default();
        let quote = CallQuote {
            input_tokens: estimate.tokens(input_bytes),
            max_output_tokens: max_output_tokens.into(),
            price: call.price,
        };
        let Books { runs, clients, open, .. } = &mut *books;
        let client = clients.entry(payer.client.clone()).or_default();
        client.set_limits(limits);
        let mut of_run = payer.account.and_then(|account| Some((account, runs.get_mut(&account)?)));
        let of_both = of_run.as_ref().map(|(run, account)| (*run, &**account));
        let max_output_tokens = match room_of_both(of_both, client, &quote, call.model) {
            CallRoom::Fits { max_output_tokens } => max_output_tokens,
            CallRoom::Wait => return Ok(None),
            CallRoom::Short(short) => return Err(Refused::Short(Box::new(short))),
            CallRoom::Unpriced => return Err(Refused::Unpriced),
        };
        let (number, amounts) = (rand::random(), quote.amounts(max_output_tokens));
        if let Some((_, account)) = &mut of_run {
            account.reserve(number, None, amounts);
        }
        client.reserve(number, payer.account, amounts);
        open.insert(
            number,
            Open { account: payer.account, client: payer.client.clone(), amounts, input_bytes },
        );
        let max_output_tokens = u32::try_from(max_output_tokens).unwrap_or(u32::MAX);
        let record = CallReserved { node: node.clone(), call: number, model: call.model.to_owned(), amounts };
        Ok(Some(Reserved {
            grant: CallGrant { reservation: Some(number), max_output_tokens },
            record: Some(record),
        }))
    }

    /// The record of a call that ended, which teaches the model's estimate; `None` for an unknown reservation.
    pub(crate) fn settlement(&self, reservation: u64, call: &ModelCall) -> Option<CallSettled> {
        let used = Amounts {
            tokens: call.input_tokens.saturating_add(call.output_tokens),
            nano_usd: call.nano_usd.unwrap_or(0),
        };
        let mut books = lock(&self.books);
        let open = books.open.get(&reservation)?;
        let (reserved, input_bytes) = (open.amounts, open.input_bytes);
        if books.estimates.len() < ESTIMATES_MAX || books.estimates.contains_key(&call.model) {
            books.estimates.entry(call.model.clone()).or_default().learn(input_bytes, call.input_tokens);
        }
        Some(CallSettled { call: reservation, reserved, used, prices: call.prices })
    }

    /// True for a reservation of this process that is not settled.
    pub(crate) fn is_open(&self, reservation: u64) -> bool {
        lock(&self.books).open.contains_key(&reservation)
    }

    /// Settles a call, after its record if its reservation has one.
    pub(crate) fn close(&self, reservation: u64, used: Amounts) {
        let mut books = lock(&self.books);
        let Some(Open { account, client, .. }) = books.open.remove(&reservation) else { return };
        if let Some((run, account)) = account.and_then(|run| Some((run, books.runs.get_mut(&run)?))) {
            account.settle(reservation, used);
            if account.is_idle() && books.over.contains(&run) {
                books.drop_account(run);
            }
        }
        if let Some(account) = books.clients.get_mut(&client) {
            account.settle(reservation, used);
        }
        drop(books);
        self.more.notify_waiters();
    }

    /// Settles a call without a record: all that it reserved counts.
    pub(crate) fn close_in_full(&self, reservation: u64) {
        let amounts = lock(&self.books).open.get(&reservation).map(|open| open.amounts);
        self.close(reservation, amounts.unwrap_or_default());
    }

    /// Takes over the limits of a run's account from the journal, after the record of a raise. If they cannot be read, the account is
    /// dropped unless a call holds a reservation, and read again by the next call.
    pub(crate) fn raised(&self, account: RunId, client: &ClientId) {
        let mut books = lock(&self.books);
        books.changes += 1;
        if books.runs.contains_key(&account) {
            match self.read(books, account, client) {
                Ok((mut books, limits, _)) => {
                    if let Some(account) = books.runs.get_mut(&account) {
                        account.set_limits(limits);
                    }
                }
                Err(error) => {
                    tracing::warn!(run = %account, %error, "a raised budget cannot be read");
                    self.forget(account);
                }
            }
        }
        self.more.notify_waiters();
    }

    /// The client's deposits have changed.
    pub(crate) fn renewed(&self) {
        self.more.notify_waiters();
    }

    /// The sums of a client.
    pub(crate) fn of_client(&self, client: &ClientId) -> ClientCalls {
        let books = lock(&self.books);
        let account = books.clients.get(client);
        account.map_or_else(Default::default, |account| ClientCalls {
            used: account.used(),
            held: account.held(),
            aside: account.aside(),
        })
    }

    /// Sets aside what the calls of a job may use, before its run is open.
    pub(crate) fn set_aside(&self, job: RunId, client: &ClientId, amounts: Amounts) {
        self.set_aside_after(job, client, amounts, Amounts::default());
    }

    /// Sets aside what the calls of a job may use, less what its run and all child runs have used.
    pub(crate) fn recall_aside(
        &self,
        job: RunId,
        client: &ClientId,
        amounts: Amounts,
    ) -> Result<(), JournalError> {
        // A contract of this process knows what its calls hold, which the records say is used.
        let is_known =
            |books: &Books| books.clients.get(client).is_some_and(|account| account.has_contract(job));
        if amounts.is_zero() || is_known(&lock(&self.books)) {
            return Ok(());
        }
        let (_, used) = fold(&self.journal, job, client)?;
        self.set_aside_after(job, client, amounts, used);
        Ok(())
    }

    fn set_aside_after(&self, job: RunId, client: &ClientId, amounts: Amounts, used: Amounts) {
        if !amounts.is_zero() {
            lock(&self.books).clients.entry(client.clone()).or_default().set_aside(job, amounts, used);
        }
    }

    /// Ends the contracts that are not among `kept`.
    pub(crate) fn keep_contracts(&self, kept: impl Fn(RunId) -> bool) {
        lock(&self.books).clients.values_mut().for_each(|account| account.keep_contracts(&kept));
        self.more.notify_waiters();
    }

    /// Ends a job's contract: what its calls have not used is free.
    pub(crate) fn end_contract(&self, job: RunId) {
        self.keep_contracts(|other| other != job);
    }

    /// The account that pays for a run; reads the journal if it is not in memory.
    pub(crate) fn view(&self, account: RunId, client: &ClientId) -> Result<CallAccountView, JournalError> {
        let books = lock(&self.books);
        if let Some(known) = books.runs.get(&account) {
            return Ok(CallAccountView {
                account,
                limits: known.limits(),
                used: known.used(),
                held: known.held(),
            });
        }
        drop(books);
        let (limits, used) = fold(&self.journal, account, client)?;
        Ok(CallAccountView { account, limits, used, held: Amounts::default() })
    }

    /// Drops the account of a run that is no longer driven, with the last call that holds a reservation.
    pub(crate) fn forget(&self, run: RunId) {
        let mut books = lock(&self.books);
        match books.runs.get(&run).map(CallAccount::is_idle) {
            Some(true) => books.drop_account(run),
            Some(false) => drop(books.over.insert(run)),
            None => {}
        }
    }

    /// Reads an account that is not in memory.
    fn recall<'a>(
        &'a self,
        books: MutexGuard<'a, Books>,
        account: RunId,
        client: &ClientId,
    ) -> Result<MutexGuard<'a, Books>, JournalError> {
        if books.runs.contains_key(&account) {
            return Ok(books);
        }
        let (mut books, limits, used) = self.read(books, account, client)?;
        // Another caller may have been faster, and reserved already.
        books.runs.entry(account).or_insert_with(|| CallAccount::new(limits, used));
        Ok(books)
    }

    /// Reads an account as it is now. Every call takes the lock, so it is not held meanwhile, unless changes keep coming.
    fn read<'a>(
        &'a self,
        mut books: MutexGuard<'a, Books>,
        account: RunId,
        client: &ClientId,
    ) -> Result<(MutexGuard<'a, Books>, CallLimits, Amounts), JournalError> {
        for _ in 1..READS_MAX {
            let before = books.changes;
            drop(books);
            let (limits, used) = fold(&self.journal, account, client)?;
            books = lock(&self.books);
            if books.changes == before {
                return Ok((books, limits, used));
            }
        }
        let (limits, used) = fold(&self.journal, account, client)?;
        Ok((books, limits, used))
    }
}

/// Reads an account from the records of its run and of all child runs: the limits, raises included, and what calls used. A
/// reservation without a settlement counts as used.
pub(crate) fn fold(
    journal: &JournalClient,
    account: RunId,
    client: &ClientId,
) -> Result<(CallLimits, Amounts), JournalError> {
    let (mut limits, mut raised, mut used) = (CallLimits::default(), Amounts::default(), Amounts::default());
    let mut runs = vec![account];
    while let Some(run) = runs.pop() {
        run_reader::each(
            &**journal,
            StreamId::run(client, run),
            None,
            |record| -> Result<(), JournalError> {
                match &record.event {
                    Event::CallTerms(terms) if run == account => limits = terms.limits,
                    Event::BudgetRaised { by, .. } => raised = raised.plus(*by),
                    _ => {}
                }
                Ok(())
            },
        )?;
        run_reader::each(
            &**journal,
            StreamId::attempts(client, run),
            None,
            |record| -> Result<(), JournalError> {
                match &record.event {
                    Event::CallReserved(call) => used = call.charge(used),
                    Event::CallSettled(call) => used = call.charge(used),
                    Event::ChildRun { run, .. } => runs.push(*run),
                    _ => {}
                }
                Ok(())
            },
        )?;
    }
    Ok((limits.raised(raised), used))
}

#[cfg(test)]
mod tests;
