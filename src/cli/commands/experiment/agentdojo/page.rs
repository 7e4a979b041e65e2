//! The page of the experiment.

use std::fmt::Write;

use super::trials::SuiteFigures;
use super::{Report, adaptive, percent};
use crate::cli::commands::experiment::document::{checks, document, escaped};

pub(super) fn html(report: &Report) -> String {
    let body = [introduction(report), checks(&report.checks), stages(&report.suites), detours(report)];
    document("Injected calls at the gate", "", &body.concat(), report)
}

fn introduction(report: &Report) -> String {
    format!(
        "<h1>Injected calls at the gate</h1>\n\
         <p>Corpus: {}. Each task of a user runs with the tools that it needs as scope and the highest impact of its calls as intent, and a person \
         allows its own calls and no others. Each injected task is put into the first result that an attacker can write to, twice: as a plan \
         of a trusted author whose injected calls take every value from that result, and as a conversation in which a scripted model obeys \
         the injection at once. Queue, gate, records and questions are those of real runs; the tools only answer.</p>\n\
         <p><b>What this shows:</b> which calls the gate lets run if the model is lost to the attacker. <b>What it does not show:</b> whether a \
         model would obey, and what a person does who is asked again and again. A pair counts as stopped if any of its injected \
         calls is, because an attack needs all of them. Attacks that want words and no call are not counted as pairs.</p>\n<p>{}</p>\n",
        escaped(&report.benchmark),
        escaped(&report.license_note),
    )
}

fn stages(suites: &[SuiteFigures]) -> String {
    let mut html = "<h2>By suite</h2>\n<div class=\"scroll\"><table>\n\
         <tr><th>suite</th><th class=\"n\">pairs</th><th class=\"n\">no way in</th><th class=\"n\">no calls</th><th class=\"n\">scope and impact</th>\
         <th class=\"n\">with taint</th><th class=\"n\">with author</th><th class=\"n\">side effects that ran</th>\
         <th class=\"n\">own calls kept</th><th class=\"n\">questions</th><th class=\"n\">detours that ran</th></tr>\n"
        .to_owned();
    for suite in suites {
        let of_pairs = |part: usize| percent(part, suite.pairs);
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{} of {}</td><td class=\"n\">{} of {}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{} of {}</td></tr>",
            escaped(&suite.suite),
            suite.pairs,
            suite.pairs_without_way_in,
            suite.pairs_without_calls,
            of_pairs(suite.by_scope_and_impact),
            of_pairs(suite.with_taint),
            of_pairs(suite.with_author),
            suite.side_effects_ran.len(),
            suite.side_effects,
            suite.own_calls_kept,
            suite.own_calls,
            suite.questions,
            suite.detours_ran.len(),
            suite.detours,
        );
    }
    html += "</table></div>\n<h2>What stopped injected calls first</h2>\n<div class=\"scroll\"><table>\n\
             <tr><th>suite</th><th>code</th><th class=\"n\">calls</th></tr>\n";
    for suite in suites {
        for (code, calls) in &suite.codes {
            let name = escaped(&suite.suite);
            let _ = writeln!(html, "<tr><td>{name}</td><td>{code}</td><td class=\"n\">{calls}</td></tr>");
        }
    }
    html + "</table></div>\n"
}

fn detours(report: &Report) -> String {
    let mut html = format!(
        "<h2>The adaptive attacker</h2>\n<p>An attacker who knows scope, intent and sensitive parameters makes the model call the granted \
         tools in ways that may pass: values of its own, the user's values where they are sensitive, none or null there, the \
         user's call once more, forged authority, other spellings, paraphrases. {}.</p>\n<ul>\n",
        escaped(&adaptive(&report.suites))
    );
    for suite in &report.suites {
        for detour in suite.detours_ran.iter().chain(&suite.side_effects_ran) {
            let _ = writeln!(html, "<li>{}: {}</li>", escaped(&suite.suite), escaped(detour));
        }
    }
    html + "</ul>\n"
}
