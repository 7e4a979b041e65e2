//! Clients: terms and accounts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ostler_kernel::client_terms::Balance;
use ostler_kernel::id::{ClientId, is_name};
use ostler_scheduler::WEIGHT_MAX;
use serde::{Deserialize, Serialize};

use crate::api::system::System;
use crate::messages::client_change::{ClientChange, ClientError, Weight};
use crate::messages::registry::RegistryMessage;
use crate::scheduler::rows::{QueueRow, QueueShown, Queueing};

/// The tier in which a client is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientTier {
    /// Served before the marketplace, which keeps a guaranteed share.
    Contracted,
    /// Any other client.
    Marketplace,
}

/// A client's terms and accounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRow {
    /// The name.
    pub client: ClientId,
    /// The tier.
    pub tier: ClientTier,
    /// Weight, before reputation bends it.
    pub weight: u32,
    /// Weight in force, bent by reputation once the client has had work in the process.
    pub weight_served: u32,
    /// Origin of the weight: `configured`, `chosen`, `credits` or `default`.
    pub weight_from: Cow<'static, str>,
    /// Sum of all deposits; `None`: not metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposited: Option<i64>,
    /// Credits that attempts have cost; of a metered client, since its first deposit.
    pub spent: u64,
    /// Credits held by running attempts.
    pub reserved: u64,
    /// Credits reserved for market jobs and not spent; part of `left`.
    #[serde(default, skip_serializing_if = "ostler_kernel::json::is_zero")]
    pub for_jobs: u64,
    /// Credits left: `deposited - reserved - spent`; negative where attempts cost more than estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<i64>,
    /// Tokens of its calls of models; absent: not metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<BalanceRow>,
    /// Money of its calls of models, in billionths of a US dollar; absent: not metered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nano_usd: Option<BalanceRow>,
    /// Reputation in thousandths: 500 leaves the weight, 0 and 1,000 bend it by a quarter. `None`: no evaluated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reputation_pm: Option<u16>,
    /// Nothing is dispatched for lack of credits.
    pub parked: bool,
    /// Running attempts.
    pub running: u32,
    /// Attempts that wait for a slot.
    pub queued: u64,
    /// Credits charged since the scheduler started.
    pub charged: u64,
    /// Credits of the client behind its share; negative: ahead.
    pub lag: i64,
}

/// A client's balance in one resource of its calls of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceRow {
    /// Sum of all deposits.
    pub deposited: i64,
    /// Used since the first deposit, by calls that ended or were lost with a process.
    pub spent: u64,
    /// Reserved by calls that are being made.
    pub reserved: u64,
    /// Set aside for market jobs, apart from what their calls used and reserved; part of `left`.
    #[serde(default, skip_serializing_if = "ostler_kernel::json::is_zero")]
    pub for_jobs: u64,
    /// What is left: `deposited - spent - reserved`; negative where prompts were longer than estimated.
    pub left: i64,
}

impl BalanceRow {
    fn new(balance: Balance, reserved: u64, for_jobs: u64) -> BalanceRow {
        let Balance { deposited, used, left } = balance;
        BalanceRow {
            deposited,
            spent: used,
            reserved,
            for_jobs,
            left: left.saturating_sub_unsigned(reserved),
        }
    }
}

impl System {
    /// Changes a client, which need not be known. Durable on return; dropping the future may or may not have
    /// changed it.
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

    /// Removes the terms and credits of a client, which is unmetered from then on; its runs and agents stay, and terms of the
    /// configuration. Returns its last state. Durable on return; dropping the future may or may not have removed them.
    ///
    /// # Errors
    ///
    /// [`ClientError`], for example while a run or a job of the market is open; nothing has changed then.
    pub async fn remove_client(&self, client: &str) -> Result<ClientRow, ClientError> {
        if !is_name(client) {
            return Err(ClientError::Name(client.to_owned()));
        }
        let client = ClientId::from(client);
        let before = self.clients().await.into_iter().find(|row| row.client == client);
        let before = before.ok_or_else(|| ClientError::Unknown(client.clone()))?;
        let removed = self.ask_registry(|reply| RegistryMessage::RemoveClient { client, reply }).await;
        let position = removed.ok_or(ClientError::Restarting)??;
        self.services.journal.durable(position).await?;
        Ok(before)
    }

    /// All known clients, by name.
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
            let calls = self.services.call_accounts.of_client(&client);
            let (tokens, nano_usd) = terms.balances(calls.used);
            let (held, aside) = (calls.held, calls.aside);
            ClientRow {
                tokens: tokens.map(|tokens| BalanceRow::new(tokens, held.tokens, aside.tokens)),
                nano_usd: nano_usd.map(|nano_usd| BalanceRow::new(nano_usd, held.nano_usd, aside.nano_usd)),
                tier: if terms.is_contracted() { ClientTier::Contracted } else { ClientTier::Marketplace },
                weight: terms.weight(now),
                weight_served: queueing.weight.unwrap_or_else(|| terms.weight(now)),
                weight_from: weight_from.into(),
                deposited: terms.deposited(),
                spent: terms.paid(book.spent()),
                reserved: queueing.reserved,
                for_jobs: book.reserved(),
                left: book.left().map(|left| left.saturating_sub_unsigned(queueing.reserved)),
                reputation_pm: book.reputation_pm(),
                // The run queue finds out only when a job waits.
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

    /// The run queue; `None` while the scheduler restarts.
    pub async fn queue(&self) -> Option<QueueRow> {
        self.queue_shown().await.map(|(queue, _)| queue)
    }

    /// The run queue and all clients at one moment; `None` while the scheduler restarts.
    pub async fn queue_and_clients(&self) -> Option<(QueueRow, Vec<ClientRow>)> {
        let (queue, queueing) = self.queue_shown().await?;
        Some((queue, self.rows(&queueing)))
    }

    async fn queue_shown(&self) -> Option<QueueShown> {
        self.services.scheduler.show()
    }
}
