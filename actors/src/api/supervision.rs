//! What supervises what, and how often it had to be brought up again.

use ostler_supervisor::{Branch, ChildRef, ChildState, Kind};

use crate::api::system::System;

/// A child of the tree of supervision, and what is below it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TreeRow {
    /// Its name among its siblings; that of an agent in the pool.
    pub name: String,
    /// `worker`, `supervisor` or `pool`.
    pub kind: &'static str,
    /// `down`, `starting`, `restarting`, `running` or `stopping`.
    pub state: &'static str,
    /// How many times it was started, failed attempts included.
    pub generation: u64,
    /// How many times it was brought up again.
    pub restarts: u64,
    /// How it ended last, if it did, in words.
    pub last_exit: Option<String>,
    /// How many children it has.
    pub width: usize,
    /// The first of them.
    pub children: Vec<TreeRow>,
}

/// Children of one supervisor or pool that are listed, at most.
pub const TREE_CHILDREN_MAX: usize = 1_000;

impl System {
    /// The tree of supervision as it stands: registry, evaluator, scheduler, pipelines, and the pool with the agents and
    /// stages that have an actor; of the children of each, the first [`TREE_CHILDREN_MAX`]. Empty once the system was shut down.
    pub async fn tree(&self) -> Vec<TreeRow> {
        self.root.tree(TREE_CHILDREN_MAX).await.into_iter().map(row).collect()
    }
}

fn row(branch: Branch) -> TreeRow {
    let Branch { child, width, branches } = branch;
    let kind = match (&child.state, child.kind) {
        (ChildState::Running(ChildRef::Pool(_)), _) => "pool",
        (_, Kind::Supervisor) => "supervisor",
        (_, Kind::Worker) => "worker",
    };
    TreeRow {
        name: child.id.to_string(),
        kind,
        state: match child.state {
            ChildState::Down => "down",
            ChildState::Starting => "starting",
            ChildState::Restarting => "restarting",
            ChildState::Running(_) => "running",
            ChildState::Stopping => "stopping",
        },
        generation: child.generation,
        restarts: child.restarts,
        last_exit: child.last_exit.map(|exit| exit.to_string()),
        width,
        children: branches.into_iter().map(row).collect(),
    }
}
