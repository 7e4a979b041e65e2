//! The supervision tree.

use std::borrow::Cow;

use ostler_supervisor::{Branch, ChildRef, ChildState, Kind};
use serde::{Deserialize, Serialize};

use crate::api::system::System;

/// A child in the supervision tree, with its children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeRow {
    /// Name among its siblings; in the pool, that of the agent.
    pub name: String,
    /// `worker`, `supervisor` or `pool`.
    pub kind: Cow<'static, str>,
    /// `down`, `starting`, `restarting`, `running` or `stopping`.
    pub state: Cow<'static, str>,
    /// Number of starts, failed ones included.
    pub generation: u64,
    /// Number of restarts.
    pub restarts: u64,
    /// The last exit, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<String>,
    /// Number of children.
    #[serde(default, skip_serializing_if = "ostler_kernel::json::is_zero")]
    pub width: usize,
    /// The first of its children, in start order: a crash restarts a child and all after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<TreeRow>,
}

/// Listed children of one supervisor or pool.
pub const TREE_CHILDREN_MAX: usize = 1_000;

impl System {
    /// The supervision tree: registry, evaluator, scheduler, pipelines, and the pool with the agents and stages that
    /// have an actor. Lists the first [`TREE_CHILDREN_MAX`] children of each; empty after the shutdown.
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
        kind: kind.into(),
        state: Cow::Borrowed(match child.state {
            ChildState::Down => "down",
            ChildState::Starting => "starting",
            ChildState::Restarting => "restarting",
            ChildState::Running(_) => "running",
            ChildState::Stopping => "stopping",
        }),
        generation: child.generation,
        restarts: child.restarts,
        last_exit: child.last_exit.map(|exit| exit.to_string()),
        width,
        children: branches.into_iter().map(row).collect(),
    }
}
