//! Callback addresses of waits.

use std::sync::OnceLock;

use ostler_kernel::callback::{CallbackKey, HIDDEN_TOKEN, WaitAddress};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::Node;
use ostler_kernel::run::Run;

/// The listener's public address, and the key of the tokens; empty without a listener.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    served: OnceLock<(String, CallbackKey)>,
}

impl Callbacks {
    /// Sets the public base address, without a slash at its end. The first one stays.
    pub(crate) fn serve(&self, base: String, key: CallbackKey) {
        let _ = self.served.set((base, key));
    }

    pub(crate) fn is_served(&self) -> bool {
        self.served.get().is_some()
    }

    /// The address of a wait.
    pub(crate) fn address(&self, run: RunId, node: &NodeId) -> Option<WaitAddress> {
        let (base, key) = self.served.get()?;
        Some(WaitAddress::new(base, run, node, &key.token(run, node)))
    }

    /// The address of a wait without its token.
    pub(crate) fn shown(&self, run: RunId, node: &NodeId) -> Option<WaitAddress> {
        let (base, _) = self.served.get()?;
        Some(WaitAddress::new(base, run, node, HIDDEN_TOKEN))
    }

    pub(crate) fn verifies(&self, run: RunId, node: &NodeId, token: &str) -> bool {
        self.served.get().is_some_and(|(_, key)| key.verifies(run, node, token))
    }

    /// Tokens in the parameters of a call of `node`. Its result and its errors must not repeat them.
    pub(crate) fn tokens(&self, id: RunId, run: &Run, node: &Node) -> Vec<String> {
        let Some((_, key)) = self.served.get() else { return Vec::new() };
        run.addressed(node).iter().map(|wait| key.token(id, wait)).collect()
    }
}
