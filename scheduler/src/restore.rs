//! Restores recorded accounts after a restart.
//!
//! Values are absolute, so restoring one twice is harmless. The order of a recovery matters: weights and reputations first,
//! because a remainder is below the weight; then the ready jobs; then the accounts. Waking a client raises its vruntime, and
//! an idle marketplace is owed nothing, so accounts restored before the jobs are overwritten.

use crate::account::{Account, VRUNTIME_MAX, VRUNTIME_MIN};
use crate::agent::AgentHandle;
use crate::client::ClientHandle;
use crate::config::{AMOUNT_DEBT_MAX, BALANCE_MAX};
use crate::error::RestoreError;
use crate::event::Event;
use crate::run_queue::RunQueue;
use crate::tier::Tier;

impl<P> RunQueue<P> {
    /// Sets vruntime, remainder, balance (`Some` exactly for a metered client) and the virtual time of the client's queue of
    /// agents.
    pub fn restore_client(
        &mut self,
        client: ClientHandle,
        vruntime: i64,
        remainder: u32,
        balance: Option<i64>,
        agents_vruntime: i64,
        events: &mut Vec<Event>,
    ) -> Result<(), RestoreError> {
        let found = self.find_client(client).map_err(|_| RestoreError::Unknown)?;
        check_account(&found.account, vruntime, remainder)?;
        if found.balance.is_some() != balance.is_some() {
            return Err(RestoreError::Metering);
        }
        if let Some(balance) = balance {
            within("balance", balance, -AMOUNT_DEBT_MAX, BALANCE_MAX + AMOUNT_DEBT_MAX)?;
        }
        within("agents_vruntime", agents_vruntime, 0, self.rebase_at)?;
        let found = &mut self.clients[client.at];
        (found.account.vruntime, found.account.remainder) = (vruntime, remainder);
        (found.balance, found.agents_vruntime) = (balance, agents_vruntime);
        self.refresh_client(client.at, events);
        self.tiers.reset_owed_if_idle();
        Ok(())
    }

    /// Sets vruntime and remainder of an agent.
    pub fn restore_agent(
        &mut self,
        agent: AgentHandle,
        vruntime: i64,
        remainder: u32,
        events: &mut Vec<Event>,
    ) -> Result<(), RestoreError> {
        if !self.agents.contains(agent.at, agent.generation) {
            return Err(RestoreError::Unknown);
        }
        let account = &mut self.agents[agent.at].account;
        check_account(account, vruntime, remainder)?;
        (account.vruntime, account.remainder) = (vruntime, remainder);
        self.refresh_with(agent.at, events);
        Ok(())
    }

    /// Sets the virtual times of both tiers and the amount owed to the marketplace, in thousandths of charge.
    ///
    /// A positive `owed` becomes 0 while the marketplace is idle.
    pub fn restore_tiers(
        &mut self,
        contracted: i64,
        marketplace: i64,
        owed: i128,
    ) -> Result<(), RestoreError> {
        within("contracted", contracted, 0, self.rebase_at)?;
        within("marketplace", marketplace, 0, self.rebase_at)?;
        within("owed", owed, -OWED_MAX, OWED_MAX)?;
        self.tiers.vruntime[Tier::Contracted as usize] = contracted;
        self.tiers.vruntime[Tier::Marketplace as usize] = marketplace;
        self.tiers.owed = owed;
        self.tiers.reset_owed_if_idle();
        Ok(())
    }
}

/// Bound of `owed` in either direction: 1000 · `cost_max` · (slots + 1).
const OWED_MAX: i128 = 1 << 70;

fn check_account(account: &Account, vruntime: i64, remainder: u32) -> Result<(), RestoreError> {
    within("vruntime", vruntime, VRUNTIME_MIN, VRUNTIME_MAX)?;
    within("remainder", remainder, 0, account.weight - 1)
}

fn within<T: Into<i128> + Copy>(field: &'static str, found: T, min: T, max: T) -> Result<(), RestoreError> {
    let (found, min, max) = (found.into(), min.into(), max.into());
    if (min..=max).contains(&found) {
        Ok(())
    } else {
        Err(RestoreError::OutOfRange { field, found, min, max })
    }
}
