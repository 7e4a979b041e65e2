//! Calls and denials of runs together with all runs that their attempts opened, for the budgets of the gate: opening runs makes no
//! budget larger. The same trees know which of their runs are open, for the limit of those.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ostler_kernel::gate::Spent;
use ostler_kernel::id::{NodeId, RunId};
use ostler_kernel::port::{JournalError, RunRow, RunRowStatus};
use ostler_kernel::run::Run;

use crate::base::error::RunError;
use crate::base::lock::lock;
use crate::storage::run_reader::{self, RunReader};

/// The totals of trees of runs. A tree is read from its records when it is first asked for, and kept while a run of it is driven.
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
    /// By uppermost run.
    trees: HashMap<RunId, Tree>,
}

#[derive(Default)]
struct Tree {
    members: BTreeSet<RunId>,
    totals: TreeTotals,
}

/// The totals of a tree of runs, shared by all that count. `None` until they are read. Never held while the trees are locked.
#[derive(Clone, Default)]
pub(crate) struct TreeTotals(Arc<Mutex<Option<Totals>>>);

/// Totals of a tree of runs.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) spent: Spent,
    denials: BTreeMap<RunId, u32>,
    /// The open runs below the uppermost one, and those that are being opened.
    open: BTreeSet<RunId>,
}

impl Totals {
    fn add(&mut self, id: RunId, run: &Run) {
        self.spent.add(run.spent(), salt(id));
        self.denials.insert(id, run.denials());
    }

    /// Denials of all runs.
    pub(crate) fn denied(&self) -> u32 {
        self.denials.values().sum()
    }
}

impl TreeTotals {
    /// Acts on totals that were read.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Totals) -> T) -> T {
        act(lock(&self.0).as_mut().expect("they are read before anybody has them"))
    }
}

/// The place of a run among the open runs of its tree. Dropped, it is free again unless the run is open.
pub(crate) struct Place {
    totals: TreeTotals,
    runs: Arc<RunReader>,
    run: RunId,
}

impl Drop for Place {
    fn drop(&mut self) {
        free_unless_open(&self.totals, &self.runs, self.run);
    }
}

/// Frees the place of a run that is not open. Where the journal cannot be read the place stays taken, until the tree is read again.
fn free_unless_open(totals: &TreeTotals, runs: &RunReader, run: RunId) {
    if matches!(is_open(runs, run), Ok(false)) {
        totals.with(|totals| totals.open.remove(&run));
    }
}

/// True if a run has work left, also while it is suspended.
fn has_work(row: &RunRow) -> bool {
    matches!(row.status, RunRowStatus::Open | RunRowStatus::Parked(_))
}

fn is_open(runs: &RunReader, run: RunId) -> Result<bool, JournalError> {
    Ok(runs.journal.run(run)?.is_some_and(|row| has_work(&row)))
}

impl Trees {
    fn add(&mut self, id: RunId, root: RunId) -> &Tree {
        self.roots.insert(id, root);
        let tree = self.trees.entry(root).or_default();
        tree.members.insert(id);
        tree
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
    pub(crate) fn of(&self, id: RunId, run: Option<&Run>) -> Result<TreeTotals, RunError> {
        let known = lock(&self.trees).roots.get(&id).copied();
        let root = match known {
            Some(root) => root,
            None => run_reader::ancestors(&**self.runs.journal, id).last().unwrap_or(Ok(id))?,
        };
        let tree = lock(&self.trees).add(id, root).totals.clone();
        let mut all = Vec::new();
        {
            let mut totals = lock(&tree.0);
            if totals.is_none() {
                let (read, members) = self.read(root, (id, run))?;
                (*totals, all) = (Some(read), members);
            }
        }
        if !all.is_empty() {
            let mut trees = lock(&self.trees);
            for id in &all {
                trees.add(*id, root);
            }
            drop(trees);
            // A run that closed before it was known to be of the tree was not taken out.
            for id in all {
                free_unless_open(&tree, &self.runs, id);
            }
        }
        Ok(tree)
    }

    /// Takes a place for `run`, which an attempt of `parent` opens, among the open runs below the uppermost run. A run that has a
    /// place keeps it. `None`: there are `most` open runs.
    ///
    /// # Errors
    ///
    /// A run of the tree cannot be read.
    pub(crate) fn place(&self, run: RunId, parent: RunId, most: usize) -> Result<Option<Place>, RunError> {
        let totals = self.of(parent, None)?;
        let has_place = totals.with(|totals| {
            let open = &mut totals.open;
            let has_room = open.len() < most || open.contains(&run);
            if has_room {
                open.insert(run);
            }
            has_room
        });
        Ok(has_place.then(|| Place { totals, runs: Arc::clone(&self.runs), run }))
    }

    /// Notes that a run has closed.
    pub(crate) fn closed(&self, id: RunId) {
        let Some(known) = self.known(id) else { return };
        if let Some(totals) = lock(&known.0).as_mut() {
            totals.open.remove(&id);
        }
    }

    /// The totals of a tree by its records, and the runs of the tree.
    fn read(&self, root: RunId, known: (RunId, Option<&Run>)) -> Result<(Totals, Vec<RunId>), RunError> {
        let (mut totals, mut all, mut open) = (Totals::default(), Vec::new(), vec![root]);
        while let Some(id) = open.pop() {
            all.push(id);
            open.extend(run_reader::opened_by(&self.runs, id)?);
            let row = self.runs.journal.run(id)?;
            if id != root && row.as_ref().is_some_and(has_work) {
                totals.open.insert(id);
            }
            match (known, row) {
                ((of, Some(run)), _) if of == id => totals.add(id, run),
                (_, Some(row)) => totals.add(id, &self.runs.fold(&row, None, |_| {})?.run),
                (_, None) => {}
            }
        }
        Ok((totals, all))
    }

    /// Notes that an attempt of a run opens another one.
    pub(crate) fn add_child(&self, child: RunId, parent: RunId) {
        let mut trees = lock(&self.trees);
        if let Some(root) = trees.roots.get(&parent).copied() {
            trees.add(child, root);
        }
    }

    /// Notes the denials of a run.
    pub(crate) fn note_denials(&self, id: RunId, run: &Run) {
        match self.of(id, Some(run)) {
            Ok(totals) => totals.with(|totals| {
                totals.denials.insert(id, run.denials());
            }),
            Err(error) => {
                tracing::warn!(run = %id, %error, "the denials of the runs around a run are not known")
            }
        }
    }

    /// Denials in the tree of a run, without those of the run. 0 while the tree was not asked for in this process.
    pub(crate) fn denied_elsewhere(&self, id: RunId) -> u32 {
        let denied = |totals: &Totals| totals.denied() - totals.denials.get(&id).unwrap_or(&0);
        self.known(id).map_or(0, |totals| lock(&totals.0).as_ref().map_or(0, denied))
    }

    /// The totals of the tree of a run, if it was asked for in this process.
    fn known(&self, id: RunId) -> Option<TreeTotals> {
        let trees = lock(&self.trees);
        let tree = trees.roots.get(&id).and_then(|root| trees.trees.get(root));
        tree.map(|tree| tree.totals.clone())
    }

    /// Number for a call within an attempt.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Forgets the tree of a run that is no longer driven, if no other run of it is.
    pub(crate) fn forget(&self, id: RunId, is_driven: impl Fn(RunId) -> bool) {
        let mut trees = lock(&self.trees);
        let Some(root) = trees.roots.get(&id).copied() else { return };
        let Some(tree) = trees.trees.get(&root) else { return };
        if !tree.members.iter().any(|run| is_driven(*run)) {
            let tree = trees.trees.remove(&root).unwrap_or_default();
            trees.roots.retain(|run, _| !tree.members.contains(run));
        }
    }
}

/// Number of the call of a node's attempt within its tree.
pub(crate) fn number(id: RunId, node: &NodeId, attempt: u32) -> u64 {
    Run::charge_number(node, attempt) ^ salt(id)
}

fn salt(id: RunId) -> u64 {
    let (high, low) = id.0.as_u64_pair();
    high ^ low
}
