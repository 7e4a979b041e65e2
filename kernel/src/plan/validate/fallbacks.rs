//! What nodes become once retries cannot help: each such plan has to be one as well.

use super::super::delta::{Change, NodeStanding, merge};
use super::super::fault::{Fault, FaultCode};
use super::super::{Approval, NodeFields, Settings};
use super::Subject;

/// Judges every fallback as the patch that it is. Only of a plan without other faults is anything known of that.
pub(super) fn judge(subject: &Subject<'_>, settings: &Settings<'_>, faults: &mut Vec<Fault>) {
    for (at, node) in subject.plan.nodes.iter().enumerate() {
        let Some(fields) = &node.fallback else { continue };
        let set = Some(NodeFields::clone(fields));
        let patch = Change::Patch { node: node.id.clone(), set };
        let standing = |_: &_| NodeStanding::Movable;
        let found = merge(subject.plan, &patch, &standing, false, settings).err().unwrap_or_default();
        let place = subject.place(at).key("fallback");
        if fields
            .approval
            .is_some_and(|approval| approval != node.approval && node.approval != Approval::None)
        {
            let detail = "as its fallback: asks nobody where the node itself asks a person";
            let mend = "leave `approval` out: the fallback asks as the node does";
            faults.push(Fault::new(FaultCode::V14, &node.id, detail, mend).at(&place));
        }
        faults.extend(found.into_iter().map(|fault| {
            let detail = format!("as its fallback: {}", fault.detail);
            Fault::new(fault.code, &node.id, detail, fault.mend).at(&place)
        }));
    }
}
