//! Exposure of a run to what the runs above and beside it have read, which may reach it by its plan, by the program that opened both, and
//! by the workspace.

use ostler_kernel::event::{Exposure, Parent};
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::plan::Node;
use ostler_kernel::policy::{exposure, exposure_of_run};
use ostler_kernel::run::Run;

use crate::base::error::RunError;
use crate::state::gatekeeper::{Gatekeeper, Terms};

impl Gatekeeper {
    /// Exposure to the runs above a run and beside it by now, as far as it decides about the call of `node`; `None`: nothing that they
    /// read changes the decision. A run that cannot be read counts as the worst.
    pub(crate) fn exposure_above(&self, id: RunId, run: &Run, node: &Node) -> Option<Exposure> {
        let (policy, known) = (self.policy(), run.exposure());
        let is_open = !known.strangers || policy.has_labels();
        // What a goal's models are shown decides whether their steps count as theirs.
        if !is_open || !self.asks_for_provenance(&policy, node) && run.goal().is_none() {
            return None;
        }
        let (mut below, mut next) = (id, run.terms().parent.clone());
        let mut above = next.is_some().then(Exposure::default);
        while let (Some(parent), Some(all)) = (next, &mut above) {
            let read = self.exposure_of_caller(&parent);
            let (caller, before) = read.unwrap_or_else(|error| (unknown(parent.run, &error), None));
            all.extend(&caller);
            all.extend(&self.exposure_beside(&parent, below));
            (below, next) = (parent.run, before);
        }
        above
    }

    /// Exposure of a child run by the call of a node of another run, and the caller of that other run.
    fn exposure_of_caller(&self, parent: &Parent) -> Result<(Exposure, Option<Parent>), RunError> {
        let found = self.runs_around.with(parent.run, |run, _| {
            Some((self.exposure(run, run.node(&parent.of.node)?), run.terms().parent.clone()))
        })?;
        found.ok_or_else(|| RunError::UnknownNode(parent.of.node.clone()))
    }

    /// Exposure of `run` to the other runs that the same node has opened, and to the runs below them: they share the workspace, and the
    /// program that opens them all.
    pub(crate) fn exposure_beside(&self, parent: &Parent, run: RunId) -> Exposure {
        let of_node = |children: &[(NodeId, RunId)]| -> Vec<RunId> {
            let siblings = children.iter().filter(|(node, child)| *node == parent.of.node && *child != run);
            siblings.map(|(_, child)| *child).collect()
        };
        let (mut all, mut open) = (Exposure::default(), Vec::new());
        match self.runs_around.with(parent.run, |_, children| of_node(children)) {
            Ok(siblings) => open.extend(siblings),
            Err(error) => all.extend(&unknown(parent.run, &error)),
        }
        while let Some(id) = open.pop() {
            let read = self.runs_around.with(id, |run, children| {
                open.extend(children.iter().map(|(_, child)| *child));
                exposure_of_run(run, &Terms { toolbox: &self.toolbox, policy: &self.policy() })
            });
            match read {
                Ok(read) => all.extend(&read),
                // The node has recorded that it opens the run, and the run has not begun.
                Err(RunError::Unknown(_)) => {}
                Err(error) => all.extend(&unknown(id, &error)),
            }
        }
        all
    }

    /// Exposure of a child run that the call of a node opens.
    pub(crate) fn exposure(&self, run: &Run, node: &Node) -> Exposure {
        exposure(run, node, &Terms { toolbox: &self.toolbox, policy: &self.policy() })
    }
}

/// The exposure to a run that cannot be read.
fn unknown(run: RunId, error: &RunError) -> Exposure {
    tracing::warn!(%run, %error, "the data that a run has read is not known");
    Exposure { strangers: true, private: true, ..Exposure::default() }
}
