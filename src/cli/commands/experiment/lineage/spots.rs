//! Edits at every place of the plan: what is executed, how long it takes, and where a change ends.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::memo::{Memo, Path, Ran, Tokens};
use crate::cli::exit::Failure;

/// An edit and what followed.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Spot {
    pub(super) what: String,
    /// Nodes below the change.
    pub(super) below: BTreeSet<String>,
    pub(super) executed: BTreeSet<String>,
    /// Nodes below the change that were not executed because what they read came out equal.
    pub(super) cut_off: BTreeSet<String>,
    #[serde(flatten)]
    pub(super) tokens: Tokens,
    pub(super) took_ms: f64,
    /// The longest path of what was executed.
    pub(super) path: Path,
}

/// What edits at all places do, beside a run that executes everything.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Spots {
    /// The first run of the plan.
    pub(super) whole: Spot,
    /// A remark in the source of the operations: its context comes out equal.
    pub(super) cut_off: Spot,
    /// An open question of the claim matrix, which the memo alone reads.
    pub(super) field: Spot,
    /// A new statement in each artifact by hand, and in each source.
    pub(super) places: Vec<Spot>,
}

pub(super) async fn spots(memo: &Memo) -> Result<Spots, Failure> {
    let base = memo.write("spots").await?;
    let whole = spot(memo, "everything", memo.writers(), &base);
    let operations = memo.source("operations")?;
    memo.set_source("operations", &format!("{operations}\nA remark.\n"))?;
    let ran = memo.again(&base).await?;
    let cut_off = spot(memo, "a remark in operations.md", memo.below("operations_source"), &ran);
    memo.restore_sources()?;

    let mut value = base.artifacts["claim_matrix"].value.clone();
    add(&mut value["questions"], "? [Q9] Added by hand.");
    let ran = memo.edit(&base, "claim_matrix", value).await?;
    let field = spot(memo, "`questions` of claim_matrix", memo.below("claim_matrix"), &ran);

    let mut places = Vec::new();
    for name in Memo::sources() {
        let source = memo.source(name)?;
        memo.set_source(name, &format!("{source}\n- [A9] Added to {name}.\n"))?;
        let ran = memo.again(&base).await?;
        places.push(spot(memo, &format!("{name}.md"), memo.below(&format!("{name}_source")), &ran));
        memo.restore_sources()?;
    }
    for (node, artifact) in &base.artifacts {
        let mut value = artifact.value.clone();
        let statement = format!("- [A9] Added to {node} by hand.");
        match value.get_mut("text") {
            Some(Value::String(text)) => *text += &format!("\n{statement}"),
            _ if node == "criteria" => add(&mut value["conditions"], &statement.replace("[A9]", "[C9]")),
            _ => add(&mut value["claims"], &statement),
        }
        let ran = memo.edit(&base, node, value).await?;
        places.push(spot(memo, node, memo.below(node), &ran));
    }
    Ok(Spots { whole, cut_off, field, places })
}

fn add(items: &mut Value, item: &str) {
    if let Value::Array(items) = items {
        items.push(json!(item));
    }
}

fn spot(memo: &Memo, what: &str, below: BTreeSet<String>, ran: &Ran) -> Spot {
    let cut_off = below.intersection(&ran.cut_off).cloned().collect();
    Spot {
        what: what.to_owned(),
        below,
        executed: ran.executed.clone(),
        cut_off,
        tokens: ran.all_tokens(),
        took_ms: ran.took_ms,
        path: memo.longest_path(ran),
    }
}
