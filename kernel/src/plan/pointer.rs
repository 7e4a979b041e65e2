//! Places in a plan as written, as JSON pointers (RFC 6901).

use super::Node;

/// A place in a plan as written, or nowhere. Nodes made by a change of a running plan are in no file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pointer(Option<String>);

impl Pointer {
    /// The plan as a whole.
    pub fn root() -> Pointer {
        Pointer(Some(String::new()))
    }

    /// The value under `key` of this map.
    pub fn key(&self, key: &str) -> Pointer {
        self.step(&key.replace('~', "~0").replace('/', "~1"))
    }

    /// The item at index `at` of this list.
    pub fn item(&self, at: usize) -> Pointer {
        self.step(&at.to_string())
    }

    /// The value under `key` of the map around this place.
    pub fn sibling(&self, key: &str) -> Pointer {
        let above = |pointer: &String| pointer.rsplit_once('/').map_or("", |(above, _)| above).to_owned();
        Pointer(self.0.as_ref().map(above)).key(key)
    }

    /// Appends a pointer relative to this place.
    pub fn join(&self, below: &str) -> Pointer {
        Pointer(self.0.as_ref().map(|pointer| format!("{pointer}{below}")))
    }

    fn step(&self, step: &str) -> Pointer {
        Pointer(self.0.as_ref().map(|pointer| format!("{pointer}/{step}")))
    }

    /// The pointer as text; empty for the whole plan and for nowhere.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

/// Returns the unescaped keys and indices of a pointer.
///
/// ```
/// use ostler_kernel::plan::pointer_steps;
/// assert_eq!(pointer_steps("/nodes/3/params/a~1b").collect::<Vec<_>>(), ["nodes", "3", "params", "a/b"]);
/// assert_eq!(pointer_steps("").count(), 0);
/// ```
pub fn pointer_steps(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// Positions of the nodes of a normalised plan in the plan as written. Empty for a running plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Per node of the normalised plan: position in the written list, and number of written dependencies.
    nodes: Vec<(usize, usize)>,
    written: bool,
}

impl Origin {
    pub(super) fn new(nodes: Vec<(usize, usize)>) -> Origin {
        Origin { nodes, written: true }
    }

    /// The plan as a whole.
    pub fn whole(&self) -> Pointer {
        if self.written { Pointer::root() } else { Pointer::default() }
    }

    /// The node at position `at` of the normalised plan.
    pub fn node(&self, at: usize) -> Pointer {
        match self.nodes.get(at) {
            Some(&(place, _)) => Pointer::root().key("nodes").item(place),
            None => Pointer::default(),
        }
    }

    /// Returns whether dependency `edge` of the node at `at` was written, not added for a reference.
    pub fn is_written(&self, at: usize, edge: usize) -> bool {
        self.nodes.get(at).is_none_or(|&(_, written)| edge < written)
    }

    /// Place of dependency `edge` of `node`, at position `at`: the written dependency, or the reference
    /// behind an added edge.
    pub fn edge(&self, node: &Node, at: usize, edge: usize) -> Pointer {
        let place = self.node(at);
        match self.nodes.get(at) {
            Some(&(_, written)) if edge >= written => {
                let source = node.deps.get(edge).map(|dep| &dep.n);
                match node.param_refs.iter().find(|(_, reference)| Some(&reference.from) == source) {
                    Some((name, _)) => place.key("param_refs").key(name).key("from"),
                    None => place,
                }
            }
            _ => place.key("deps").item(edge),
        }
    }
}
