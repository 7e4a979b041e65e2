//! Where the changes of a run began, as its records tell.

use std::collections::BTreeMap;

use ostler_kernel::lineage::{ChangeKind, NodeChange, RootChange, root_changes};
use ostler_server::wire::EventLine;
use serde_json::{Value, json};

use crate::cli::output::cells::harmless_line;
use crate::cli::output::terminal::Out;

/// Codes of executions without anything to compare with.
pub(crate) const NO_CHANGE: [&str; 3] = ["no_record", "not_reusable", "not_modified"];

/// The change of each node.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    nodes: BTreeMap<String, NodeChange>,
    /// Sources of the parameters of each node.
    sources: BTreeMap<String, BTreeMap<String, String>>,
}

/// Root causes to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Roots {
    All,
    /// Those with recomputed nodes below; the line of any other node says everything.
    WithNodesBelow,
}

impl Changes {
    /// Takes a record of the run. Without the record of its opening, nothing is known of a node.
    pub(crate) fn record(&mut self, line: &EventLine) {
        match line.kind.as_str() {
            "run_opened" => self.add(&line.body["plan"]),
            "plan_version" => self.add(&line.body["revision"]),
            "reuse_decided" => {
                let id = line.body["node"].as_str().unwrap_or_default();
                let kind = self.kind(id, &line.body);
                if let Some(node) = self.nodes.get_mut(id) {
                    node.kind = kind;
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, plan: &Value) {
        for node in plan["nodes"].as_array().into_iter().flatten() {
            let id = node["id"].as_str().unwrap_or_default();
            let deps = node["deps"].as_array().into_iter().flatten();
            let deps = deps.filter_map(|dep| dep["n"].as_str().map(str::to_owned)).collect();
            self.nodes.entry(id.to_owned()).or_default().deps = deps;
            let references = node["param_refs"].as_object().into_iter().flatten();
            let sources = references
                .filter_map(|(name, reference)| Some((name.clone(), reference["from"].as_str()?.to_owned())));
            self.sources.insert(id.to_owned(), sources.collect());
        }
    }

    fn kind(&self, id: &str, decided: &Value) -> ChangeKind {
        let text = |key: &str| decided[key].as_str().unwrap_or_default();
        match (text("decision"), text("why")) {
            ("edited", _) => ChangeKind::Edited(format!("edited by {}", text("author"))),
            ("recomputed", "not_reusable") => ChangeKind::Anew,
            ("recomputed", "not_modified") => ChangeKind::Unchanged,
            ("recomputed", "no_record") => ChangeKind::Passes,
            ("recomputed", why) => match (why.strip_prefix("effect."), self.received(id, why)) {
                (Some(node), _) => ChangeKind::Follows(node.to_owned()),
                (None, Some(from)) => ChangeKind::Received(from),
                (None, None) => ChangeKind::Recomputed(text("words").to_owned()),
            },
            _ => ChangeKind::Unchanged,
        }
    }

    /// The predecessor named by a code such as `ref.criteria(…)`.
    fn received(&self, id: &str, why: &str) -> Option<String> {
        let name = why.strip_prefix("ref.")?.rsplit_once('(')?.0;
        Some(
            self.sources
                .get(id)
                .and_then(|sources| sources.get(name))
                .map_or(name, String::as_str)
                .to_owned(),
        )
    }

    /// Prints each root cause.
    pub(crate) fn print(&self, run: &str, json: bool, roots: Roots, out: &mut Out) {
        for RootChange { node, words, below } in root_changes(&self.nodes) {
            if json {
                out.json(&json!({
                    "type": "root_change", "run": run, "node": node, "why": words, "recomputed_below": below,
                }));
            } else if roots == Roots::All || below > 0 {
                let line = format!("root cause: {node}: {words}; recomputed below it: {below}");
                out.line(harmless_line(&line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::live::line;

    #[test]
    fn the_source_of_a_changed_parameter_is_found_by_its_name() {
        let mut changes = Changes::default();
        let reference = json!({"text (old)": {"from": "page", "path": "text"}});
        let nodes = json!([{"id": "page"}, {"id": "memo", "deps": [{"n": "page"}], "param_refs": reference}]);
        changes.record(&line(0, "run_opened", json!({"plan": {"id": "p", "nodes": nodes}})));
        let page = json!({"node": "page", "decision": "recomputed", "why": "not_reusable"});
        changes.record(&line(1, "reuse_decided", page));
        let memo = json!({"node": "memo", "decision": "recomputed", "why": "ref.text (old)(1,2)"});
        changes.record(&line(2, "reuse_decided", memo));
        assert_eq!(changes.nodes["memo"].kind, ChangeKind::Received("page".to_owned()));
        let roots = root_changes(&changes.nodes);
        assert_eq!((roots.len(), roots[0].node.as_str(), roots[0].below), (1, "page", 1));
    }
}
