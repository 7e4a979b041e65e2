//! The file of a scripted model.

use std::collections::BTreeMap;
use std::path::Path;

use ostler_kernel::plan::{HumanDuration, nearest};
use ostler_kernel::port::{CallOrigin, Finish, Message, ModelErrorClass, ModelRequest};
use ostler_kernel::template;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::regular_file::read_text;

/// Maximum bytes of a script.
pub const SCRIPT_BYTES_MAX: u64 = 4 << 20;

/// Deepest nesting of lists and maps in a script.
pub const SCRIPT_DEPTH_MAX: usize = 64;

/// A script: answers by rule, and by role and ordinal.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    /// Duration of every answer that names none.
    pub(super) latency: Option<HumanDuration>,
    /// Repeats the last answer of a role for further calls.
    #[serde(default)]
    repeat: bool,
    /// Random failures.
    pub(super) failures: Option<RandomFailures>,
    #[serde(default)]
    roles: BTreeMap<String, Vec<Answer>>,
    #[serde(default)]
    rules: Vec<Answer>,
}

/// Failures of a share of the calls, the same ones each time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RandomFailures {
    /// Share of the calls, 0 to 100.
    percent: u8,
    /// The class.
    pub(super) fail: FailName,
    #[serde(default)]
    seed: u64,
}

/// One answer of a script.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    /// Only in rules.
    when: Option<When>,
    /// A JSON value, written as text.
    pub(super) answer: Option<Value>,
    pub(super) text: Option<String>,
    /// A text made of the request: a template over [`template_values`].
    pub(super) template: Option<String>,
    pub(super) reasoning: Option<String>,
    #[serde(default)]
    pub(super) calls: Vec<ScriptedCall>,
    /// The class of an error.
    pub(super) fail: Option<FailName>,
    /// The provider's words beside `fail`.
    pub(super) message: Option<String>,
    /// Wait of a rate limit, in seconds.
    pub(super) retry_after: Option<f64>,
    pub(super) tokens: Option<ScriptedTokens>,
    pub(super) finish: Option<FinishName>,
    pub(super) latency: Option<HumanDuration>,
    /// Answers all further calls of the role, on the last answer of a role.
    #[serde(default)]
    repeat: bool,
}

/// Which requests a rule answers: those that all of its parts fit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    role: Option<String>,
    node: Option<String>,
    ordinal: Option<u32>,
    /// A part of a message.
    contains: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedCall {
    pub(super) tool: String,
    #[serde(default)]
    pub(super) params: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedTokens {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) cache_read: Option<u64>,
}

/// A class of errors, by name.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct FailName(pub(super) ModelErrorClass);

impl TryFrom<String> for FailName {
    type Error = String;

    fn try_from(name: String) -> Result<FailName, String> {
        use ModelErrorClass as C;
        let all = [
            C::RateLimited,
            C::Overloaded,
            C::ContextTooLong,
            C::InvalidRequest,
            C::Auth,
            C::NotFound,
            C::Refused,
            C::Server,
            C::InvalidOutput,
            C::Connection,
        ];
        let found = all.into_iter().find(|class| class.as_str() == name);
        found.map(FailName).ok_or_else(|| {
            format!("fail: unknown class {name:?}; use one of {}", all.map(C::as_str).join(", "))
        })
    }
}

/// A finish reason, by name.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct FinishName(pub(super) Finish);

impl TryFrom<String> for FinishName {
    type Error = String;

    fn try_from(name: String) -> Result<FinishName, String> {
        use Finish as F;
        let all =
            [F::Stop, F::Length, F::ToolCalls, F::ContentFilter, F::Refusal, F::StopSequence, F::Unknown];
        let found = all.into_iter().find(|finish| finish.as_str() == name);
        found.map(FinishName).ok_or_else(|| {
            format!("finish: unknown reason {name:?}; use one of {}", all.map(F::as_str).join(", "))
        })
    }
}

impl Answer {
    /// True for a refusal after which the caller may call again.
    fn asks_to_wait(&self) -> bool {
        let is_refused = self.fail.as_ref().is_some_and(|class| class.0 == ModelErrorClass::RateLimited);
        is_refused && self.retry_after.is_some()
    }
}

/// Roles of this program's own calls. Programs may call in other roles.
const ROLES: [&str; 9] =
    ["planner", "reflect", "observe", "micro", "think", "answer", "interject", "executor", "judge"];

/// Limit of letter pairs compared in the search for the meant role.
const PAIRS_MAX: usize = 10_000;

/// The known role that an unknown role resembles.
fn misspelt(role: &str) -> Option<&'static str> {
    if ROLES.contains(&role) { None } else { nearest(role, ROLES, &mut PAIRS_MAX.clone()) }
}

/// The parser's message, without the excerpt of the file.
fn first_line(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

impl Script {
    /// Reads YAML, or JSON.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no script.
    pub(super) fn read(file: &Path) -> Result<(Script, Vec<u8>), String> {
        let text = read_text(file, SCRIPT_BYTES_MAX).map_err(|error| error.to_string())?;
        Ok((Script::parse(&text)?, text.into_bytes()))
    }

    pub(super) fn parse(text: &str) -> Result<Script, String> {
        let options =
            serde_saphyr::options! { budget: serde_saphyr::budget! { max_depth: SCRIPT_DEPTH_MAX } };
        let script: Script = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| first_line(&error.to_string()))?;
        for (role, answers) in &script.roles {
            if let Some(meant) = misspelt(role) {
                return Err(format!("roles.{role}: no call has this role; did you mean {meant:?}?"));
            }
            for (at, answer) in answers.iter().enumerate() {
                let place = format!("roles.{role}[{at}]");
                answer.check().map_err(|problem| format!("{place}: {problem}"))?;
                if answer.when.is_some() {
                    return Err(format!("{place}: `when` is for rules; move the answer to rules"));
                }
                if answer.repeat && at + 1 < answers.len() {
                    return Err(format!(
                        "{place}: `repeat` hides the answers behind it; move it to the last"
                    ));
                }
            }
        }
        for (at, rule) in script.rules.iter().enumerate() {
            rule.check().map_err(|problem| format!("rules[{at}]: {problem}"))?;
            if rule.when.is_none() {
                return Err(format!("rules[{at}]: `when` is missing; write `when: {{}}` for every request"));
            }
        }
        if script.failures.as_ref().is_some_and(|failures| failures.percent > 100) {
            return Err("failures.percent: more than 100; use 0 to 100".to_owned());
        }
        Ok(script)
    }

    /// The answer to a request; `Err` says what the script lacks.
    pub(super) fn answer(&self, request: &ModelRequest) -> Result<&Answer, String> {
        let CallOrigin { role, ordinal, refusals, .. } = &request.origin;
        let rule = self.rules.iter().find(|rule| rule.when.as_ref().is_some_and(|when| when.fits(request)));
        if let Some(rule) = rule {
            return Ok(rule);
        }
        let answers = self.roles.get(role).map(Vec::as_slice).unwrap_or_default();
        let ordinal = (*ordinal).max(1);
        let last = answers.last().filter(|last| self.repeat || last.repeat);
        // A call that was refused for now is made again under its number, so a refusal and the answer behind it have one number.
        let mut numbers = answers.split_inclusive(|answer| !answer.asks_to_wait());
        let of_number = numbers.nth(ordinal as usize - 1);
        let found = of_number.and_then(|all| all.get(*refusals as usize).or(all.last()));
        found.or(last).ok_or_else(|| {
            let remedy = if answers.is_empty() { "" } else { ", or set `repeat: true`" };
            let shown = if role.is_empty() { "\"\"" } else { role };
            format!("no answer for call {ordinal} of role {shown}; add one under roles.{shown}{remedy}")
        })
    }

    /// True if chance makes this call fail.
    pub(super) fn fails(&self, origin: &CallOrigin) -> Option<&RandomFailures> {
        let failures = self.failures.as_ref()?;
        let mut hash = blake3::Hasher::new();
        hash.update(&failures.seed.to_le_bytes());
        hash.update(origin.role.as_bytes());
        hash.update(&[0]);
        if let Some(node) = &origin.node {
            hash.update(node.to_string().as_bytes());
        }
        hash.update(&origin.ordinal.to_le_bytes());
        let drawn = u16::from_le_bytes([hash.finalize().as_bytes()[0], hash.finalize().as_bytes()[1]]);
        (u32::from(drawn) * 100 < u32::from(failures.percent) * 65_536).then_some(failures)
    }
}

impl Answer {
    fn check(&self) -> Result<(), String> {
        let given = [self.answer.is_some(), self.text.is_some(), self.template.is_some()];
        let words = given.into_iter().filter(|is_given| *is_given).count();
        match (&self.fail, words, self.calls.is_empty()) {
            (Some(_), 0, true) => {}
            (Some(_), ..) => return Err("`fail` stands alone; remove the answer".to_owned()),
            (None, 2.., _) => {
                return Err("`answer`, `text` and `template` exclude each other; keep one".to_owned());
            }
            (None, 0, true) => {
                let what = "no answer; write one of `answer`, `text`, `template`, `calls`, `fail`";
                return Err(what.to_owned());
            }
            (None, ..) => {}
        }
        let checked = self.template.as_deref().map_or(Ok(()), |text| {
            let is_there = |name: &str| TEMPLATE_VALUES.contains(&name);
            template::check_template(text).and_then(|()| template::check_values(text, &is_there))
        });
        checked.map_err(|error| error.to_string())
    }
}

/// Names in the template of an answer.
const TEMPLATE_VALUES: [&str; 2] = ["prompt", "system"];

/// Values for the template of an answer: the first message of the user, and the instructions.
pub(super) fn template_values(request: &ModelRequest) -> Map<String, Value> {
    let first = |of: fn(&Message) -> Option<&String>| {
        Value::from(request.messages.iter().find_map(of).map(String::as_str).unwrap_or_default())
    };
    let prompt = first(|message| if let Message::User(text) = message { Some(text) } else { None });
    let system = first(|message| if let Message::System(text) = message { Some(text) } else { None });
    TEMPLATE_VALUES.into_iter().map(str::to_owned).zip([prompt, system]).collect()
}

impl When {
    fn fits(&self, request: &ModelRequest) -> bool {
        let CallOrigin { role, node, ordinal, refusals: _ } = &request.origin;
        let node = node.as_ref().map(ToString::to_string);
        self.role.as_ref().is_none_or(|wanted| wanted == role)
            && self.node.as_ref().is_none_or(|wanted| Some(wanted) == node.as_ref())
            && self.ordinal.is_none_or(|wanted| wanted == *ordinal)
            && self.contains.as_ref().is_none_or(|wanted| {
                request.messages.iter().any(|message| match message {
                    Message::System(text) | Message::User(text) | Message::Assistant { text, .. } => {
                        text.contains(wanted.as_str())
                    }
                    Message::Tool { content, .. } => content.contains(wanted.as_str()),
                })
            })
    }
}
