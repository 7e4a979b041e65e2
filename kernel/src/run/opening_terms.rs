//! The terms of a run behind its opening record: a repetition and a fork have those of the run that they continue.

use super::{RepeatDecision, Run};
use crate::event::{
    ApprovalKept, ArtifactEdited, CallTerms, Event, Exposure, KeptIdentity, Parent, ResultKept, ReuseTerms,
    RunTerms,
};
use crate::id::{RunId, Ticks};

/// What a run may spend, and what it is given of earlier runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpeningTerms {
    /// Budget in credits; `None`: limited only by the client's credits.
    pub budget: Option<u64>,
    /// Limits of the calls of models; `None`: no limits but the client's.
    pub calls: Option<CallTerms>,
    /// Terms of reuse; `None`: the run neither reuses results nor records results for reuse.
    pub reuse: Option<ReuseTerms>,
    /// Artifacts that replace results by order of a person; only with `reuse`.
    pub edits: Vec<ArtifactEdited>,
    /// Results of an earlier run that stand as they are; only with `reuse`.
    pub kept: Vec<ResultKept>,
    /// Identities of the works behind them, as far as they are known.
    pub identities: Vec<KeptIdentity>,
    /// Approvals of people in the earlier run; only with `reuse`.
    pub approvals: Vec<ApprovalKept>,
    /// What the caller had read: the gate treats the plan and the goal as made of it.
    pub exposure: Exposure,
}

impl OpeningTerms {
    /// Most records before those of edits and kept results.
    pub const RECORDS_MAX: usize = 4;

    /// Reads a record of the run. Returns whether it belongs to the terms.
    pub fn see(&mut self, event: &Event) -> bool {
        match event {
            Event::RunTerms(terms) => self.budget = terms.budget,
            Event::CallTerms(terms) => self.calls = Some(*terms),
            Event::ReuseTerms(terms) => self.reuse = Some(terms.clone()),
            Event::Exposed(exposure) => self.exposure = Exposure::clone(exposure),
            Event::ArtifactEdited(edited) => self.edits.push(ArtifactEdited::clone(edited)),
            Event::ResultKept(kept) => self.kept.push(ResultKept::clone(kept)),
            Event::KeptIdentity(kept) => self.identities.push(KeptIdentity::clone(kept)),
            Event::ApprovalKept(kept) => self.approvals.push(ApprovalKept::clone(kept)),
            _ => return false,
        }
        true
    }

    /// The records behind the opening of a run of `parent`.
    pub fn into_records(self, parent: Option<Parent>) -> Vec<Event> {
        let OpeningTerms { budget, calls, reuse, edits, kept, identities, approvals, exposure } = self;
        let terms = RunTerms { budget, parent };
        let mut records = Vec::new();
        records.extend((terms != RunTerms::default()).then(|| Event::RunTerms(Box::new(terms))));
        records.extend(calls.map(Event::CallTerms));
        records.extend(reuse.map(Event::ReuseTerms));
        records.extend((exposure != Exposure::default()).then(|| Event::Exposed(Box::new(exposure))));
        records.extend(edits.into_iter().map(|edited| Event::ArtifactEdited(Box::new(edited))));
        records.extend(kept.into_iter().map(|kept| Event::ResultKept(Box::new(kept))));
        records.extend(identities.into_iter().map(|kept| Event::KeptIdentity(Box::new(kept))));
        records.extend(approvals.into_iter().map(|kept| Event::ApprovalKept(Box::new(kept))));
        records
    }

    /// The terms without the account of the calls: another run pays from its own.
    pub fn without_account(mut self) -> OpeningTerms {
        self.calls = self.calls.map(|terms| CallTerms { account: None, ..terms });
        self
    }
}

impl Run {
    /// Adds what the runs above have read since they opened this one. Returns the record, already applied; `None`: nothing is new.
    pub fn expose(&mut self, now: Ticks, above: &Exposure) -> Option<Event> {
        let mut exposure = self.exposure.clone();
        exposure.extend(above);
        if exposure == self.exposure {
            return None;
        }
        let record = Event::Exposed(Box::new(exposure));
        self.apply(&record, now).expect("an exposure applies to every run");
        Some(record)
    }

    /// The terms of a repetition of this run, `from`.
    pub fn terms_to_repeat(&self, from: RunId, decision: &RepeatDecision) -> OpeningTerms {
        let (kept, identities): (Vec<_>, Vec<_>) = self.results_kept(from, decision).into_iter().unzip();
        let is_there = |edit: &&ArtifactEdited| {
            decision.whole.position(&edit.node).is_some() && self.standing_edit(&edit.node).is_some()
        };
        let terms = OpeningTerms {
            budget: self.terms.budget,
            calls: self.call_terms().copied(),
            reuse: Some(ReuseTerms { fresh: decision.fresh() }),
            edits: self.edits().filter(is_there).map(|edit| decision.edit_to_repeat(edit)).collect(),
            kept,
            identities: identities.into_iter().flatten().collect(),
            approvals: self.approvals_to_keep(from, &decision.whole, &decision.first),
            exposure: self.exposure.clone(),
        };
        terms.without_account()
    }
}
