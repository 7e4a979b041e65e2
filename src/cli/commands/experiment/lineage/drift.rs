//! Many edits in a row: does what is kept still agree with what would be written from scratch?

use serde::Serialize;
use serde_json::Value;

use super::memo::{Memo, Ran};
use super::metrics::{Artifact, Artifacts, consistency};
use super::tasks::Condition;
use crate::cli::exit::Failure;

/// The state after an edit, in one condition.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Step {
    /// Number of the edit; 0 before the first.
    pub(super) edit: usize,
    pub(super) condition: Condition,
    pub(super) what: String,
    /// Share of the artifacts with all statements that they have when written from scratch.
    pub(super) consistency: f64,
    /// The memo alone.
    pub(super) memo_agrees: bool,
    /// All artifacts have the bytes that they have when written from scratch.
    pub(super) same_bytes: bool,
    /// Calls and tokens of all edits so far.
    pub(super) calls: u64,
    pub(super) all_tokens: u64,
}

/// One condition's artifacts on their way.
struct Kept {
    condition: Condition,
    artifacts: Artifacts,
    calls: u64,
    tokens: u64,
}

/// A change of the material.
enum Edit {
    /// A statement of a source has another wording.
    Statement { source: &'static str, number: usize },
    /// A source has one more remark.
    Remark { source: &'static str },
    /// A person rewords a condition of the criteria.
    Criteria { number: usize },
}

/// Makes `edits` edits in a row.
pub(super) async fn drift(memo: &Memo, edits: usize, seed: u64) -> Result<Vec<Step>, Failure> {
    let mut random = SplitMix(seed);
    let mut replayed = memo.write("drift").await?;
    let start = |condition| Kept { condition, artifacts: replayed.artifacts.clone(), calls: 0, tokens: 0 };
    let mut kept = Condition::ALL.map(start);
    let mut criteria: Option<Artifact> = None;
    let mut steps = Vec::new();
    for number in 0..=edits {
        let what = if number == 0 {
            "none".to_owned()
        } else {
            let edit = random.edit();
            let what = edit.in_words();
            replayed = made(memo, &replayed, edit, number, &mut criteria).await?;
            for kept in &mut kept {
                update(memo, kept, &replayed, criteria.as_ref(), &what).await?;
            }
            what
        };
        let scratch = memo.scratch(&replayed, &format!("scratch-{number}")).await?;
        steps.extend(kept.iter().map(|kept| step(number, &what, kept, &scratch)));
    }
    Ok(steps)
}

/// Makes an edit, and replays the memo.
async fn made(
    memo: &Memo,
    last: &Ran,
    edit: Edit,
    number: usize,
    criteria: &mut Option<Artifact>,
) -> Result<Ran, Failure> {
    match edit {
        Edit::Statement { source, number: at } => {
            let text = memo.source(source)?;
            let statements = text.lines().filter(|line| line.starts_with("- [")).count();
            let mut seen = 0;
            let mut changed = String::new();
            for line in text.lines() {
                let is_statement = line.starts_with("- [");
                let is_it = is_statement && seen == at % statements;
                seen += usize::from(is_statement);
                changed += &if is_it { revised(line, number) } else { line.to_owned() };
                changed.push('\n');
            }
            memo.set_source(source, &changed)?;
            memo.again(last).await
        }
        Edit::Remark { source } => {
            memo.set_source(source, &format!("{}\nRemark {number}.\n", memo.source(source)?))?;
            memo.again(last).await
        }
        Edit::Criteria { number: at } => {
            let mut value = last.artifacts["criteria"].value.clone();
            if let Some(Value::Array(conditions)) = value.get_mut("conditions")
                && let count @ 1.. = conditions.len()
            {
                let condition = &mut conditions[at % count];
                *condition = revised(condition.as_str().unwrap_or_default(), number).into();
            }
            *criteria = Some(Artifact::of(value.clone()));
            memo.edit(last, "criteria", value).await
        }
    }
}

/// A line with the number of its revision in the place of an earlier one.
fn revised(line: &str, number: usize) -> String {
    let plain = line.split_once(" (revision ").map_or(line, |(plain, _)| plain);
    format!("{plain} (revision {number})")
}

/// Lets a condition take the edit up: the replay has its artifacts, and a loop writes its memo anew.
async fn update(
    memo: &Memo,
    kept: &mut Kept,
    replayed: &Ran,
    criteria: Option<&Artifact>,
    what: &str,
) -> Result<(), Failure> {
    let event = match kept.condition {
        Condition::DagReplay => {
            kept.artifacts = replayed.artifacts.clone();
            let tokens = replayed.all_tokens();
            kept.calls += tokens.calls;
            kept.tokens += tokens.input_tokens + tokens.output_tokens;
            return Ok(());
        }
        Condition::LoopFinalUpdate => None,
        Condition::LoopEditEvent => Some(what),
    };
    let edited: Vec<(&str, &Artifact)> =
        criteria.into_iter().map(|criteria| ("criteria", criteria)).collect();
    let asked = memo.ask_loop(&memo.loop_prompt(&kept.artifacts["memo"], event, &edited)?).await?;
    kept.artifacts.insert("memo".to_owned(), asked.memo().clone());
    kept.artifacts.extend(criteria.map(|criteria| ("criteria".to_owned(), criteria.clone())));
    let tokens = asked.all_tokens();
    kept.calls += tokens.calls;
    kept.tokens += tokens.input_tokens + tokens.output_tokens;
    Ok(())
}

fn step(edit: usize, what: &str, kept: &Kept, scratch: &Ran) -> Step {
    let memo = |artifacts: &Artifacts| Artifacts::from([("memo".to_owned(), artifacts["memo"].clone())]);
    let bytes = |(name, artifact): (&String, &Artifact)| kept.artifacts[name].bytes == artifact.bytes;
    Step {
        edit,
        condition: kept.condition,
        what: what.to_owned(),
        consistency: consistency(&kept.artifacts, &scratch.artifacts),
        memo_agrees: consistency(&kept.artifacts, &memo(&scratch.artifacts)) >= 1.0,
        same_bytes: scratch.artifacts.iter().all(bytes),
        calls: kept.calls,
        all_tokens: kept.tokens,
    }
}

impl Edit {
    fn in_words(&self) -> String {
        match self {
            Edit::Statement { source, number } => format!("statement {} of {source}", number + 1),
            Edit::Remark { source } => format!("a remark in {source}"),
            Edit::Criteria { number } => format!("condition {} of the criteria", number + 1),
        }
    }
}

/// The generator of Steele, Lea and Flood (2014): the same seed gives the same edits.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    /// Three statements for a remark and for a condition.
    fn edit(&mut self) -> Edit {
        let sources: Vec<&'static str> = Memo::sources().collect();
        let kind = self.below(5);
        let (source, number) = (sources[self.below(sources.len())], self.below(3));
        match kind {
            0 => Edit::Remark { source },
            1 => Edit::Criteria { number },
            _ => Edit::Statement { source, number },
        }
    }
}
