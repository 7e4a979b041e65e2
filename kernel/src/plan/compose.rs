//! Plans written in code, node by node.

use serde_json::Value;

use super::draft::{DepDraft, NodeDraft, PlanDraft};
use super::{Approval, Dep, HumanDuration, Kind, On, ParamRef, Plan};
use crate::id::NodeId;

impl Plan {
    /// A plan without nodes. [`PlanDraft::validate`] judges it once it has them.
    ///
    /// ```
    /// use ostler_kernel::plan::{NodeDraft, Plan};
    ///
    /// let plan = Plan::builder("notes")
    ///     .node(NodeDraft::tool("list", "fs.list").param("path", "notes"))
    ///     .node(NodeDraft::tool("read", "fs.read").reference("path", "list", "files.0"))
    ///     .node(NodeDraft::model("say", "default").after("read").param("prompt", "Sum up: {{ read.result.text }}"))
    ///     .output("say");
    /// assert_eq!(plan.nodes.len(), 3);
    /// assert_eq!(serde_json::to_value(&plan).unwrap()["nodes"][1]["param_refs"]["path"]["from"], "list");
    /// ```
    pub fn builder(id: impl Into<String>) -> PlanDraft {
        PlanDraft { id: id.into(), ..PlanDraft::default() }
    }
}

impl PlanDraft {
    /// Adds a node.
    pub fn node(mut self, node: NodeDraft) -> PlanDraft {
        self.nodes.push(node);
        self
    }

    /// Names a node that the run is for. Without any, these are the nodes on which no other depends.
    pub fn output(mut self, node: impl Into<NodeId>) -> PlanDraft {
        self.outputs.get_or_insert_default().push(node.into());
        self
    }
}

impl NodeDraft {
    /// A call of a tool or program.
    pub fn tool(id: impl Into<NodeId>, tool: impl Into<String>) -> NodeDraft {
        NodeDraft { tool: Some(tool.into()), ..NodeDraft::named(id) }
    }

    /// A call of a configured model.
    pub fn model(id: impl Into<NodeId>, model: impl Into<String>) -> NodeDraft {
        NodeDraft { kind: Some(Kind::Model), model: Some(model.into()), ..NodeDraft::named(id) }
    }

    /// A question to a person, open for at most `within_ms` milliseconds. A yes executes the node.
    pub fn question(id: impl Into<NodeId>, text: &str, within_ms: i64) -> NodeDraft {
        let human_timeout = Some(HumanDuration::Millis(within_ms));
        NodeDraft { kind: Some(Kind::HumanApproval), human_timeout, ..NodeDraft::named(id) }
            .param("text", text)
    }

    /// Sets a parameter.
    pub fn param(mut self, name: &str, value: impl Into<Value>) -> NodeDraft {
        self.params.get_or_insert_default().insert(name.to_owned(), value.into());
        self
    }

    /// Takes a parameter from the result of another node: the field at `path`.
    pub fn reference(mut self, name: &str, from: impl Into<NodeId>, path: &str) -> NodeDraft {
        let reference = ParamRef { from: from.into(), path: Some(path.to_owned()), template: None };
        self.param_refs.get_or_insert_default().insert(name.to_owned(), reference);
        self
    }

    /// Waits for the success of another node.
    pub fn after(self, node: impl Into<NodeId>) -> NodeDraft {
        self.depends(node.into(), On::Success)
    }

    /// Waits for any end of another node.
    pub fn after_end(self, node: impl Into<NodeId>) -> NodeDraft {
        self.depends(node.into(), On::Terminal)
    }

    fn depends(mut self, n: NodeId, on: On) -> NodeDraft {
        self.deps.get_or_insert_default().push(DepDraft(Dep { n, on }));
        self
    }

    /// Asks a person before the call, for at most `within` milliseconds.
    pub fn approved(self, within_ms: i64) -> NodeDraft {
        let human_timeout = Some(HumanDuration::Millis(within_ms));
        NodeDraft { approval: Some(Approval::Before), human_timeout, ..self }
    }
}
