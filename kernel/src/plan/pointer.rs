//! Places in a plan as written, as JSON pointers (RFC 6901).

use super::Node;

/// A place in a plan as written, or nowhere: what was made by a change of a running plan stands in no file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pointer(Option<String>);

impl Pointer {
    /// The plan as a whole.
    pub fn root() -> Pointer {
        Pointer(Some(String::new()))
    }

    /// What stands under a key of this map.
    pub fn key(&self, key: &str) -> Pointer {
        self.step(&key.replace('~', "~0").replace('/', "~1"))
    }

    /// An item of this list, 0 for the first.
    pub fn item(&self, at: usize) -> Pointer {
        self.step(&at.to_string())
    }

    /// What stands under a key beside this part.
    pub fn sibling(&self, key: &str) -> Pointer {
        let above = |pointer: &String| pointer.rsplit_once('/').map_or("", |(above, _)| above).to_owned();
        Pointer(self.0.as_ref().map(above)).key(key)
    }

    /// What a pointer that begins here leads to.
    pub fn join(&self, below: &str) -> Pointer {
        Pointer(self.0.as_ref().map(|pointer| format!("{pointer}{below}")))
    }

    fn step(&self, step: &str) -> Pointer {
        Pointer(self.0.as_ref().map(|pointer| format!("{pointer}/{step}")))
    }

    /// The pointer as text; empty for the whole plan, and for nowhere.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

/// The keys and indices that a pointer goes through.
///
/// ```
/// use ostler_kernel::plan::pointer_steps;
/// assert_eq!(pointer_steps("/nodes/3/params/a~1b").collect::<Vec<_>>(), ["nodes", "3", "params", "a/b"]);
/// assert_eq!(pointer_steps("").count(), 0);
/// ```
pub fn pointer_steps(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// Where the nodes of a normalised plan stood in the plan as written. That of a running plan knows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Per node, in the order of the normalised plan: its place in the list, and how many of its dependencies
    /// were written as such.
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

    /// The node that stands at `at` in the normalised plan.
    pub fn node(&self, at: usize) -> Pointer {
        match self.nodes.get(at) {
            Some(&(place, _)) => Pointer::root().key("nodes").item(place),
            None => Pointer::default(),
        }
    }

    /// Whether dependency `edge` of the node at `at` was written as one: else it was made for a reference.
    pub fn is_written(&self, at: usize, edge: usize) -> bool {
        self.nodes.get(at).is_none_or(|&(_, written)| edge < written)
    }

    /// Dependency `edge` of `node`, which stands at `at`: where it was written, or the reference that it was made
    /// for.
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
