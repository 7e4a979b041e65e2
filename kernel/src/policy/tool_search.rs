//! Searches of the index of tools. A prompt lists a limited number of tools. A planner or a turn that misses one asks for it by
//! words; the next planner or turn is shown what fits.
//!
//! A search is an answer like any other: the result of its node, from which a node of the same role follows. So a crash repeats no
//! search, and a search uses up no try.

use serde_json::json;

use super::answer::Answer;
use super::prompt::tool_line;
use super::{CallIntent, Role, View, text_tokens};
use crate::id::NodeId;
use crate::plan::{Approval, Delta, HumanDuration, Node, NodeDraft};
use crate::port::ToolOffer;
use crate::run::NodeState;
use crate::text::beginning;

/// Most searches of one planning, one after another; and the latest searches of turns whose tools a turn is offered.
pub const SEARCHES_MAX: usize = 3;

/// Most tools that one search finds.
pub const FOUND_TOOLS_MAX: usize = 8;

/// The call by which a turn searches. No tool may have this name.
pub const SEARCH_TOOL: &str = "tools.search";

/// Bytes of a search that count.
const WORDS_BYTES_MAX: usize = 200;

/// The words of a search as they are used and shown: one line, of limited length.
pub(super) fn search_words(words: &str) -> String {
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    beginning(&words, WORDS_BYTES_MAX).to_owned()
}

/// Tokens of an offer in a prompt. Planners get the parameters twice: in a line for each tool, and in the schema of the answer.
pub fn offer_tokens(offer: &ToolOffer) -> u64 {
    let params = 2 * text_tokens(&offer.params.to_string());
    text_tokens(&offer.name) + text_tokens(&offer.description) + params
}

impl<'a> View<'a> {
    /// The node whose search this node goes on from; `None` for a node that begins a planning.
    fn searched_for(self, node: &Node) -> Option<&'a Node> {
        let asker = &node.deps.first()?.n;
        self.answer(asker)?.search()?;
        self.run.node(asker)
    }

    /// True for a node that goes on from a search.
    pub(super) fn goes_on_from_search(self, node: &Node) -> bool {
        self.searched_for(node).is_some()
    }

    /// The node and those whose searches led to it, the latest first.
    fn planning(self, node: &'a Node) -> impl Iterator<Item = &'a Node> {
        std::iter::successors(Some(node), move |node| self.searched_for(node))
    }

    /// The node that began the planning which this node goes on with: itself, unless a search led to it.
    pub(super) fn planning_begins(self, node: &'a Node) -> &'a Node {
        self.planning(node).last().unwrap_or(node)
    }

    /// True if the answer of a planner or turn may be a search.
    pub(super) fn may_search(self, node: &'a Node) -> bool {
        let plans = matches!(self.role(&node.id), Some(Role::Planner | Role::Think));
        plans && self.goal.tools.left_out() > 0 && self.planning(node).count() <= SEARCHES_MAX
    }

    /// The searches whose tools a node is offered, the oldest first: of a planner those that led to it, of a turn the latest
    /// ones of all turns.
    pub(super) fn searches(self, node: &'a Node, role: Role) -> Vec<String> {
        let mut found: Vec<String> = match role {
            Role::Planner => {
                self.planning(node).skip(1).filter_map(|node| self.search_of(&node.id)).collect()
            }
            Role::Think => {
                let ended = self.of_role(Role::Think).filter(|(_, turn)| turn.state() == NodeState::Executed);
                let mut ended: Vec<(u64, &NodeId)> =
                    ended.map(|(node, turn)| (turn.commit_number, &node.id)).collect();
                ended.sort_by(|a, b| b.cmp(a));
                ended.into_iter().filter_map(|(_, node)| self.search_of(node)).take(SEARCHES_MAX).collect()
            }
            Role::Reflect | Role::Observe | Role::Micro | Role::Answer | Role::Interject => Vec::new(),
        };
        found.reverse();
        found
    }

    fn search_of(self, node: &NodeId) -> Option<String> {
        self.answer(node).as_ref().and_then(Answer::search)
    }

    /// True if a node of this role goes on from the answer of `asker`.
    fn has_successor(self, role: Role, asker: &NodeId) -> bool {
        self.of_role(role).any(|(node, _)| node.deps.iter().any(|dep| dep.n == *asker))
    }

    /// True if the search of an executed planner or turn is due and has not been answered.
    pub(super) fn is_search_open(self, asker: &NodeId) -> bool {
        self.role(asker).is_some_and(|role| !self.has_successor(role, asker))
    }

    /// Tokens of the tools that searches find.
    pub(super) fn found_tokens(self, searches: &[String]) -> u64 {
        let found = searches.iter().flat_map(|words| self.goal.tools.search(words));
        found.map(|offer| offer_tokens(&offer)).sum()
    }
}

/// The node that goes on from a search, with what a person has to approve of the planning; `None` if it does not fit, or exists.
pub(super) fn successor(view: View<'_>, asker: &NodeId) -> Option<Delta> {
    let (role, known) = (view.role(asker)?, view.run.node(asker)?);
    let is_due = view.is_search_open(asker) && view.fits_after_search(role);
    let approval = (known.approval == Approval::After).then_some(Approval::After);
    let human_timeout = approval.and(known.human_timeout).map(HumanDuration::Millis);
    let node = NodeDraft { approval, human_timeout, ..view.control(role, view.next_id(role), [asker]) };
    is_due.then(|| Delta { add: vec![node], ..Delta::default() })
}

/// The tools of a prompt.
pub(super) struct Offered {
    /// The listed tools.
    pub(super) listed: Vec<ToolOffer>,
    /// The tools that searches found beyond the listed ones.
    pub(super) found: Vec<ToolOffer>,
    /// Findings of the searches, for the model; empty without a search.
    pub(super) told: String,
    /// The answer may be a search.
    pub(super) may_search: bool,
}

impl Offered {
    /// The tools of a call.
    pub(super) fn of(view: View<'_>, intent: &CallIntent) -> Offered {
        let listed = view.goal.tools.offers(intent.context.text.as_deref()).into_owned();
        let mut found: Vec<ToolOffer> = Vec::new();
        let mut told = String::new();
        for words in &intent.context.searches {
            let fitting = view.goal.tools.search(words);
            told += &match fitting.is_empty() {
                true => format!("\nNo other tool fits {words:?}.\n"),
                false => format!("\nTools found for {words:?}:\n"),
            };
            for offer in fitting {
                let is_known = |known: &ToolOffer| known.name == offer.name;
                if listed.iter().chain(&found).any(is_known) || intent.role == Role::Think {
                    told += &format!("- {}\n", offer.name);
                } else {
                    told += &tool_line(&offer);
                }
                if !listed.iter().chain(&found).any(is_known) {
                    found.push(offer);
                }
            }
        }
        let may_search = view.run.node(&intent.node).is_some_and(|node| view.may_search(node));
        Offered { listed, found, told, may_search }
    }

    /// Every tool that the answer may name.
    pub(super) fn all(&self) -> Vec<ToolOffer> {
        self.listed.iter().chain(&self.found).cloned().collect()
    }

    /// Hint for a planner about tools that are not listed; empty if the planner may not search.
    pub(super) fn hint(&self, left_out: usize) -> String {
        if !self.may_search {
            return String::new();
        }
        format!(
            "({left_out} more tools are not listed. If the goal needs one of them, put words for what it does into `search` and \
             nothing into the other fields: you are then shown the tools that fit.)\n"
        )
    }
}

/// The call by which a turn searches, as the provider is told of it.
pub(super) fn search_offer() -> ToolOffer {
    ToolOffer {
        name: SEARCH_TOOL.to_owned(),
        description: "Finds tools that are not listed. Call it alone, with words for what the tool does: the next turn has the tools \
                      that fit."
            .to_owned(),
        params: json!({
            "type": "object", "required": ["words"], "additionalProperties": false,
            "properties": {"words": {"type": "string"}},
        }),
    }
}
