//! Calls and denials of runs together with all runs that their attempts opened, for the budgets of the gate: opening runs makes no
//! budget larger.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ostler_kernel::gate::Spent;
use ostler_kernel::id::RunId;
use ostler_kernel::run::Run;

use crate::base::error::RunError;
use crate::base::lock::lock;
use crate::storage::run_reader::{self, RunReader};

/// The totals of trees of runs. A tree is read from its records when it is first asked for, and kept while its uppermost run is driven.
pub(crate) struct CallTotals {
    runs: Arc<RunReader>,
    trees: Mutex<Trees>,
    /// Numbers of calls within attempts. Calls of nodes have numbers of their own, which are hashes.
    next: AtomicU64,
}

#[derive(Default)]
struct Trees {
    /// The uppermost run of each known run.
    roots: HashMap<RunId, RunId>,
    totals: HashMap<RunId, Arc<Mutex<Totals>>>,
}

/// Totals of a tree of runs.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) spent: Spent,
    denials: BTreeMap<RunId, u32>,
}

impl Totals {
    fn add(&mut self, id: RunId, run: &Run) {
        self.spent.add(run.spent(), salt(id));
        self.denials.insert(id, run.denials());
    }
}

impl CallTotals {
    pub(crate) fn new(runs: Arc<RunReader>) -> CallTotals {
        CallTotals { runs, trees: Mutex::default(), next: AtomicU64::new(rand::random()) }
    }

    /// The totals of the tree of a run. `run`: the run itself, where the records may lack its last decisions.
    ///
    /// # Errors
    ///
    /// A run of the tree cannot be read.
    pub(crate) fn of(&self, id: RunId, run: Option<&Run>) -> Result<Arc<Mutex<Totals>>, RunError> {
        let mut trees = lock(&self.trees);
        let root = match trees.roots.get(&id) {
            Some(root) => *root,
            None => run_reader::root(&**self.runs.journal, id)?,
        };
        trees.roots.insert(id, root);
        if let Some(known) = trees.totals.get(&root) {
            return Ok(Arc::clone(known));
        }
        let (read, all) = self.read(root, (id, run))?;
        let totals = Arc::new(Mutex::new(read));
        trees.roots.extend(all.into_iter().map(|id| (id, root)));
        trees.totals.insert(root, Arc::clone(&totals));
        Ok(totals)
    }

    /// The totals of a tree by its records, and the runs of the tree.
    fn read(&self, root: RunId, known: (RunId, Option<&Run>)) -> Result<(Totals, Vec<RunId>), RunError> {
        let (mut totals, mut all, mut open) = (Totals::default(), Vec::new(), vec![root]);
        while let Some(id) = open.pop() {
            all.push(id);
            open.extend(run_reader::opened_by(&self.runs, id)?);
            match known {
                (of, Some(run)) if of == id => totals.add(id, run),
                _ => {
                    let Some(row) = self.runs.journal.run(id)? else { continue };
                    totals.add(id, &self.runs.fold(&row, None, |_| {})?.run);
                }
            }
        }
        Ok((totals, all))
    }

    /// Notes that an attempt of a run opens another one.
    pub(crate) fn add_child(&self, child: RunId, parent: RunId) {
        let mut trees = lock(&self.trees);
        if let Some(root) = trees.roots.get(&parent).copied() {
            trees.roots.insert(child, root);
        }
    }

    /// Notes the denials of a run.
    pub(crate) fn note_denials(&self, id: RunId, run: &Run) {
        match self.of(id, Some(run)) {
            Ok(totals) => drop(lock(&totals).denials.insert(id, run.denials())),
            Err(error) => {
                tracing::warn!(run = %id, %error, "the denials of the runs around a run are not known")
            }
        }
    }

    /// Denials in the tree of a run, without those of the run. 0 while nothing was denied in this process.
    pub(crate) fn denied_elsewhere(&self, id: RunId) -> u32 {
        self.denied(id, |of| of != id)
    }

    /// Denials in the tree of a run. 0 while nothing was denied in this process.
    pub(crate) fn denied_in_tree(&self, id: RunId) -> u32 {
        self.denied(id, |_| true)
    }

    fn denied(&self, id: RunId, counts: impl Fn(RunId) -> bool) -> u32 {
        let trees = lock(&self.trees);
        let totals = trees.roots.get(&id).and_then(|root| trees.totals.get(root));
        totals.map_or(0, |totals| {
            let denials = &lock(totals).denials;
            denials.iter().filter(|(of, _)| counts(**of)).map(|(_, denials)| denials).sum()
        })
    }

    /// Number for a call within an attempt.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets a run that is no longer driven; with the uppermost run, the whole tree.
    pub(crate) fn forget(&self, id: RunId) {
        let mut trees = lock(&self.trees);
        trees.roots.remove(&id);
        if trees.totals.remove(&id).is_some() {
            trees.roots.retain(|_, root| *root != id);
        }
    }
}

/// Number of a call of a node within the tree, from its number within its run.
pub(crate) fn in_tree(id: RunId, number: u64) -> u64 {
    number ^ salt(id)
}

fn salt(id: RunId) -> u64 {
    let (high, low) = id.0.as_u64_pair();
    high ^ low
}
