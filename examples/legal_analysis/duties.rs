//! Requirements of the General Data Protection Regulation on processor contracts, as far as keywords can check them.

use serde::{Deserialize, Serialize};

/// Severity of a risk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Low,
    Medium,
    High,
}

/// Wording that a clause should not contain.
pub(crate) struct Flaw {
    /// Regular expression, ignoring case and line breaks.
    pub(crate) words: &'static str,
    pub(crate) level: Level,
    pub(crate) why: &'static str,
}

/// A required topic of the contract.
pub(crate) struct Duty {
    pub(crate) topic: &'static str,
    pub(crate) article: &'static str,
    /// Regular expression for the headings of clauses on the topic.
    pub(crate) heading: &'static str,
    pub(crate) flaws: &'static [Flaw],
    /// Severity if no clause covers the topic; `None` if the topic is optional.
    pub(crate) missing: Option<Level>,
    /// Recommended wording.
    pub(crate) wording: &'static str,
}

pub(crate) const DUTIES: [Duty; 10] = [
    Duty {
        topic: "instructions",
        article: "28(3)(a)",
        heading: "instruction|purpose",
        flaws: &[Flaw {
            words: r"(for its own purposes|improve its products|train its models)",
            level: Level::High,
            why: "who uses the data for purposes of their own is a controller, and needs a legal basis (28(10))",
        }],
        missing: Some(Level::High),
        wording: "The Processor shall process personal data on documented instructions of the Controller only.",
    },
    Duty {
        topic: "confidentiality",
        article: "28(3)(b)",
        heading: "confidential|secrecy",
        flaws: &[],
        missing: Some(Level::Medium),
        wording: "Persons authorised to process personal data shall be bound to confidentiality.",
    },
    Duty {
        topic: "security",
        article: "28(3)(c), 32",
        heading: "security|measures",
        flaws: &[Flaw {
            words: r"as it deems (fit|appropriate)|reasonable measures",
            level: Level::Medium,
            why: "no measure is named, so none can be held against the processor",
        }],
        missing: Some(Level::High),
        wording: "The Processor shall maintain the technical and organisational measures of annex A: encryption at rest and in \
                  transit, access by role, tested backups.",
    },
    Duty {
        topic: "sub-processors",
        article: "28(2), 28(4)",
        heading: "sub-?process|subcontract",
        flaws: &[Flaw {
            words: r"without (prior )?(notice|consent|authori[sz]ation)|at its (sole )?discretion",
            level: Level::High,
            why: "others are engaged without the controller's authorisation",
        }],
        missing: Some(Level::High),
        wording: "The Processor shall announce a new sub-processor thirty days ahead; the Controller may object. The same duties \
                  bind the sub-processor.",
    },
    Duty {
        topic: "transfers",
        article: "44 to 46",
        heading: "transfer",
        flaws: &[Flaw {
            words: r"to any country|any jurisdiction|worldwide",
            level: Level::High,
            why: "data may leave the EU without an adequacy decision or standard clauses",
        }],
        missing: None,
        wording: "Personal data shall not leave the EEA, save under standard contractual clauses and a documented assessment.",
    },
    Duty {
        topic: "data subjects",
        article: "28(3)(e), 12(3)",
        heading: "data subject",
        flaws: &[Flaw {
            words: r"within (\w+ )?\(?(60|90)\)? days",
            level: Level::Medium,
            why: "the controller has to answer within one month",
        }],
        missing: Some(Level::Medium),
        wording: "The Processor shall assist within five working days, so that the Controller can answer within one month.",
    },
    Duty {
        topic: "breaches",
        article: "33(2)",
        heading: "breach|incident",
        flaws: &[Flaw {
            words: r"within (\w+ )?\(?([4-9]|\d\d+)\)? days",
            level: Level::High,
            why: "the controller has 72 hours to tell the authority, and is to be told without undue delay",
        }],
        missing: Some(Level::High),
        wording: "The Processor shall notify the Controller without undue delay, and within 24 hours of becoming aware.",
    },
    Duty {
        topic: "deletion",
        article: "28(3)(g)",
        heading: "delet|return",
        flaws: &[Flaw {
            words: r"may (keep|retain)",
            level: Level::High,
            why: "data are kept after the end of the service",
        }],
        missing: Some(Level::Medium),
        wording: "At the end of the term the Processor shall delete or return all personal data, at the Controller's choice.",
    },
    Duty {
        topic: "audits",
        article: "28(3)(h)",
        heading: "audit|inspection",
        flaws: &[Flaw {
            words: r"at most once|no on-site",
            level: Level::Medium,
            why: "the controller cannot look for itself when there is reason to",
        }],
        missing: Some(Level::High),
        wording: "The Processor shall make available all information that shows compliance, and allow for audits.",
    },
    Duty {
        topic: "liability",
        article: "82",
        heading: "liabilit|indemn",
        flaws: &[Flaw {
            words: r"limited to the fees",
            level: Level::Medium,
            why: "a cap on liability may leave the controller with the damage",
        }],
        missing: None,
        wording: "The cap shall not apply to breaches of this agreement, or shall be at least twice the yearly fees.",
    },
];
