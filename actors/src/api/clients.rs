//! Clients: on what terms they are served, and how they stand.

use std::collections::BTreeMap;

use ostler_kernel::id::{ClientId, is_name};
use ostler_scheduler::WEIGHT_MAX;

use crate::api::system::System;
use crate::messages::client_change::{ClientChange, ClientError, Weight};
use crate::messages::registry::RegistryMessage;
use crate::scheduler::rows::{QueueRow, QueueShown, Queueing};

/// A client, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ClientRow {
    /// Its name.
    pub client: ClientId,
    /// Whether it is served in the contracted tier.
    pub contracted: bool,
    /// Its entitlement, before reputation bends it.
    pub weight: u32,
    /// The one that counts: bent by reputation, once it has had work in this process.
    pub weight_served: u32,
    /// Where the weight comes from: `configured`, `chosen`, `credits`, or `default`.
    pub weight_from: &'static str,
    /// All credits that were ever deposited for it; `None`: it is not metered.
    pub deposited: Option<i64>,
    /// Credits that its attempts cost so far; of one that is metered, since its first deposit.
    pub spent: u64,
    /// Credits that the attempts under way hold.
    pub reserved: u64,
    /// Credits that jobs of the market have reserved and not spent: they are among those that are left.
    pub for_jobs: u64,
    /// Credits that are left: `deposited - reserved - spent`; below zero where attempts cost more than was expected.
    pub left: Option<i64>,
    /// What the scores of its runs add up to, in thousandths; 500 leaves its weight as it is, 0 and 1,000 bend it by a
    /// quarter. `None`: no run of it was evaluated yet.
    pub reputation_pm: Option<u16>,
    /// Nothing of it is dispatched, because its credits are used up.
    pub parked: bool,
    /// Its attempts that run.
    pub running: u32,
    /// Its attempts that wait for a slot.
    pub queued: u64,
    /// Credits that it was charged since the scheduler started.
    pub charged: u64,
    /// Credits by which it is behind what its weight entitles it to; below zero: ahead.
    pub lag: i64,
}

impl System {
    /// Changes a client, which need not have been heard of before. Durable when it returns; dropping the future may or
    /// may not have changed it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; nothing has changed then.
    pub async fn change_client(&self, client: &str, change: ClientChange) -> Result<(), ClientError> {
        if !is_name(client) {
            return Err(ClientError::Name(client.to_owned()));
        }
        if let Some(Weight::Chosen(weight)) = change.weight
            && !(1..=WEIGHT_MAX).contains(&weight)
        {
            return Err(ClientError::Weight(weight));
        }
        let client = ClientId::from(client);
        let changed =
            self.ask_registry(|reply| RegistryMessage::ChangeClient { client, change, reply }).await;
        if let Some(position) = changed.ok_or(ClientError::Restarting)?? {
            self.services.journal.durable(position).await?;
        }
        Ok(())
    }

    /// All clients that anything is known of, by name.
    pub async fn clients(&self) -> Vec<ClientRow> {
        let (_, queueing) = self.queue_shown().await.unwrap_or_default();
        self.rows(&queueing)
    }

    fn rows(&self, queueing: &BTreeMap<ClientId, Queueing>) -> Vec<ClientRow> {
        let now = self.services.journal.now();
        let ledger = &self.services.ledger;
        let rows = ledger.clients().into_iter().map(|(client, book)| {
            let terms = book.terms();
            let queueing = queueing.get(&client).copied().unwrap_or_default();
            let weight_from = match terms.chosen_weight() {
                Some(_) if ledger.is_configured(&client) => "configured",
                Some(_) => "chosen",
                None if terms.deposited().is_some() => "credits",
                None => "default",
            };
            ClientRow {
                contracted: terms.is_contracted(),
                weight: terms.weight(now),
                weight_served: queueing.weight.unwrap_or_else(|| terms.weight(now)),
                weight_from,
                deposited: terms.deposited(),
                spent: terms.paid(book.spent()),
                reserved: queueing.reserved,
                for_jobs: book.reserved(),
                left: book.left().map(|left| left.saturating_sub_unsigned(queueing.reserved)),
                reputation_pm: book.reputation_pm(),
                // Where nothing of it waits, nobody has found out.
                parked: book.is_parked() || book.left().is_some_and(|left| left <= 0),
                running: queueing.running,
                queued: queueing.queued,
                charged: queueing.charged,
                lag: queueing.lag,
                client,
            }
        });
        rows.collect()
    }

    /// The run queue; `None` while the scheduler is being restarted.
    pub async fn queue(&self) -> Option<QueueRow> {
        self.queue_shown().await.map(|(queue, _)| queue)
    }

    /// The run queue and all clients at one moment; `None` while the scheduler is being restarted.
    pub async fn queue_and_clients(&self) -> Option<(QueueRow, Vec<ClientRow>)> {
        let (queue, queueing) = self.queue_shown().await?;
        Some((queue, self.rows(&queueing)))
    }

    async fn queue_shown(&self) -> Option<QueueShown> {
        self.services.scheduler.show()
    }
}
