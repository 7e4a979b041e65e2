//! How closely people watch what an agent does.

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, RunId};
use crate::lineage;
use crate::plan::{Approval, Kind, PlanDraft, Span};

/// Share of the results that are looked at in a spot check, of 2^64.
const SPOT_CHECK: u64 = (u64::MAX / 10) * 3;

/// How long a person has to look at a result where the plan does not say: a week. Then silence cancels it.
pub const REVIEW_MS: i64 = 7 * 24 * 3_600 * 1_000;

/// How closely people watch: what one mode shows them, the next one shows too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oversight {
    /// People are asked only where the plan says so.
    #[default]
    Autonomous,
    /// They look at three results of ten besides, drawn by lot.
    SpotCheck,
    /// They look at every result before anything follows from it.
    Supervised,
}

impl Oversight {
    /// The word that stands for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Oversight::Autonomous => "autonomous",
            Oversight::SpotCheck => "spot_check",
            Oversight::Supervised => "supervised",
        }
    }

    /// Whether people look at the result of a node before it counts. The lot falls the same way on every replay.
    fn asks(self, run: RunId, node: &NodeId) -> bool {
        match self {
            Oversight::Autonomous => false,
            Oversight::SpotCheck => lot(run, node) < SPOT_CHECK,
            Oversight::Supervised => true,
        }
    }
}

/// The first eight bytes of a digest of the run, the node and its first generation.
fn lot(run: RunId, node: &NodeId) -> u64 {
    let digest =
        lineage::hash("aos/spot/1", &[run.0.as_bytes(), node.as_str().as_bytes(), &1u64.to_le_bytes()]);
    let mut first = [0; 8];
    first.copy_from_slice(&digest.0[..8]);
    u64::from_le_bytes(first)
}

/// A plan as it is run under this oversight: results that people look at wait for their approval. What the plan asks for by itself
/// stays.
#[must_use]
pub fn overseen(mut plan: PlanDraft, oversight: Oversight, run: RunId) -> PlanDraft {
    for node in &mut plan.nodes {
        let asks_already = node.approval.is_some_and(|approval| approval != Approval::None);
        let is_question = node.kind == Some(Kind::HumanApproval);
        if !asks_already && !is_question && oversight.asks(run, &node.id) {
            node.approval = Some(Approval::After);
            node.human_timeout.get_or_insert(Span::Millis(REVIEW_MS));
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::NodeDraft;

    fn asked(oversight: Oversight, run: u128) -> Vec<bool> {
        let nodes = (0..1_000).map(|at| NodeDraft::named(format!("n{at}").as_str())).collect();
        let plan = PlanDraft { id: "p".into(), nodes, ..PlanDraft::default() };
        let plan = overseen(plan, oversight, RunId(uuid::Uuid::from_u128(run)));
        plan.nodes.iter().map(|node| node.approval == Some(Approval::After)).collect()
    }

    #[test]
    fn each_mode_shows_people_all_that_the_one_before_it_does() {
        for run in 0..20 {
            let [autonomous, spot_check, supervised] =
                [Oversight::Autonomous, Oversight::SpotCheck, Oversight::Supervised].map(|it| asked(it, run));
            let nests = |few: &[bool], many: &[bool]| few.iter().zip(many).all(|(few, many)| !few || *many);
            assert!(nests(&autonomous, &spot_check) && nests(&spot_check, &supervised));
            let count = |asked: &[bool]| asked.iter().filter(|asked| **asked).count();
            assert_eq!((count(&autonomous), count(&supervised)), (0, 1_000));
            assert!((200..400).contains(&count(&spot_check)), "{}", count(&spot_check));
            assert_eq!(spot_check, asked(Oversight::SpotCheck, run), "the lot falls the same way again");
        }
    }

    #[test]
    fn who_looks_at_a_result_has_the_time_that_the_plan_says_or_a_week() {
        let hurried = NodeDraft { human_timeout: Some(Span::Millis(9)), ..NodeDraft::named("a") };
        let nodes = vec![hurried, NodeDraft::named("b")];
        let plan = PlanDraft { id: "p".into(), nodes, ..PlanDraft::default() };
        let plan = overseen(plan, Oversight::Supervised, RunId(uuid::Uuid::nil()));
        let spans: Vec<Option<Span>> = plan.nodes.iter().map(|node| node.human_timeout).collect();
        assert_eq!(spans, [Some(Span::Millis(9)), Some(Span::Millis(REVIEW_MS))]);
    }

    #[test]
    fn what_a_plan_asks_for_by_itself_stays() {
        let before = NodeDraft { approval: Some(Approval::Before), ..NodeDraft::named("a") };
        let question = NodeDraft { kind: Some(Kind::HumanApproval), ..NodeDraft::named("b") };
        let plan = PlanDraft { id: "p".into(), nodes: vec![before, question], ..PlanDraft::default() };
        assert_eq!(overseen(plan.clone(), Oversight::Supervised, RunId(uuid::Uuid::nil())), plan);
    }
}
