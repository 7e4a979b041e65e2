//! Every combination of the decision's variables in a finite domain, compared with an oracle per variable.

use std::collections::BTreeMap;

use ostler_kernel::gate::{
    AtConnection, Call, Cleared, GatePolicy, GatedTool, OnObserve, Provenance, Scope, Seal, Spent, Standing,
    Trust, judge,
};
use ostler_kernel::id::Digest;
use serde_json::json;

use super::tool;

/// A value of each variable.
#[derive(Debug, Clone, Copy)]
struct Point {
    registered: bool,
    granted: bool,
    pin: Option<&'static str>,
    intent: u8,
    cap: Option<u8>,
    ceiling: u8,
    /// 3: the impact function fails.
    impact: u8,
    /// `lockdown` and `audit`: in order, off, or off except for observing calls.
    lockdown: Switch,
    audit: Switch,
    path: &'static str,
    trust: Taint,
    cleared: Clear,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    Open,
    Closed,
    OpenToObserve,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taint {
    Clean,
    Value,
    Author,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clear {
    No,
    Yes,
    ForAnother,
}

impl Point {
    fn counted(self) -> u8 {
        self.impact.min(2)
    }

    fn passes(self, switch: Switch) -> bool {
        switch == Switch::Open || switch == Switch::OpenToObserve && self.counted() == 0
    }

    /// True if each variable alone permits the call.
    fn permits(self) -> bool {
        self.registered
            && self.granted
            && self.pin.is_none_or(|pin| pin == "1")
            && self.counted() <= self.intent
            && self.cap.is_none_or(|cap| self.counted() <= cap)
            && self.counted() <= self.ceiling
            && self.passes(self.lockdown)
            && self.passes(self.audit)
            && self.path == "a"
            && (self.trust == Taint::Clean || self.cleared == Clear::Yes)
    }
}

fn observe(switch: Switch) -> OnObserve {
    if switch == Switch::OpenToObserve { OnObserve::Allow } else { OnObserve::Deny }
}

fn is_permitted(point: Point, tools: &[GatedTool]) -> bool {
    let scope = Scope { tools: BTreeMap::from([("put".to_owned(), point.cap)]) };
    let pins = point.pin.map(|pin| ("put".to_owned(), pin.to_owned()));
    let policy = GatePolicy {
        scopes: BTreeMap::from([("all".to_owned(), scope), ("none".to_owned(), Scope::default())]),
        pins: BTreeMap::from([("all".to_owned(), pins.into_iter().collect())]),
        ceiling: point.ceiling,
        lockdown_observe: observe(point.lockdown),
        audit_observe: observe(point.audit),
        ..GatePolicy::default()
    };
    let untrusted = BTreeMap::from([("path".to_owned(), Trust::Untrusted)]);
    let provenance = Provenance {
        untrusted_author: point.trust == Taint::Author,
        params: if point.trust == Taint::Value { untrusted } else { BTreeMap::new() },
        ..Provenance::default()
    };
    let call = Call {
        tool: point.registered.then(|| &tools[usize::from(point.impact)]),
        name: "put",
        params: json!({"path": point.path}).as_object().unwrap().clone().into(),
        floor: 0,
        intent: point.intent,
        scope: if point.granted { "all" } else { "none" }.into(),
        workspace: Some("/srv"),
        provenance: &provenance,
        spent: Spent::NOTHING,
    };
    let standing = Standing {
        lockdown: point.lockdown != Switch::Open,
        audit_down: point.audit != Switch::Open,
        accepted: None,
    };
    let Ok(judged) = judge(call, &policy, standing, &mut AtConnection) else { return false };
    let seal = judged.seal().unwrap();
    let cleared = match point.cleared {
        Clear::No => None,
        Clear::Yes => Some(Cleared::new(seal)),
        Clear::ForAnother => Some(Cleared::new(Seal { params: Digest([1; 32]), ..seal })),
    };
    judged.permit(Digest([0; 32]), cleared).is_ok()
}

#[test]
fn no_call_is_permitted_that_any_variable_forbids_and_none_denied_that_all_permit() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string", "format": "path"}}});
    let tools: Vec<GatedTool> =
        (0..4).map(|impact| tool("put", schema.clone(), move |_| impact).with_reach()).collect();
    // Observing tools have no sensitive paths, so only the policy could mark the parameter as sensitive.
    let is_sensitive = |impact: u8| tools[usize::from(impact)].is_sensitive("path");
    let switches = [Switch::Open, Switch::Closed, Switch::OpenToObserve];
    let taints = [
        (Taint::Clean, Clear::No),
        (Taint::Value, Clear::No),
        (Taint::Value, Clear::Yes),
        (Taint::Value, Clear::ForAnother),
        (Taint::Author, Clear::No),
        (Taint::Author, Clear::Yes),
        (Taint::Author, Clear::ForAnother),
    ];
    let mut points = 0;
    let mut visit = |point: Point| {
        let taint = if is_sensitive(point.impact) { point.trust } else { Taint::Clean };
        assert_eq!(is_permitted(point, &tools), Point { trust: taint, ..point }.permits(), "{point:?}");
        points += 1;
    };
    for (registered, granted, pin) in [
        (true, true, None),
        (true, true, Some("1")),
        (true, true, Some("2")),
        (true, false, None),
        (false, true, None),
    ] {
        for (intent, cap, ceiling) in levels() {
            for impact in 0..4 {
                for (lockdown, audit) in switches.iter().flat_map(|&one| switches.map(|other| (one, other))) {
                    for (path, (trust, cleared)) in
                        ["a", "../a"].iter().flat_map(|path| taints.map(|it| (*path, it)))
                    {
                        visit(Point {
                            registered,
                            granted,
                            pin,
                            intent,
                            cap,
                            ceiling,
                            impact,
                            lockdown,
                            audit,
                            path,
                            trust,
                            cleared,
                        });
                    }
                }
            }
        }
    }
    assert_eq!(points, 5 * 36 * 4 * 9 * 14);
}

/// Intent, cap and ceiling.
fn levels() -> impl Iterator<Item = (u8, Option<u8>, u8)> {
    let caps = [None, Some(0), Some(1), Some(2)];
    (0..3).flat_map(move |intent| {
        caps.into_iter().flat_map(move |cap| (0..3).map(move |ceiling| (intent, cap, ceiling)))
    })
}
