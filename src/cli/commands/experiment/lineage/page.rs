//! The page of the experiment with lineage.

use std::fmt::Write;

use super::drift::Step;
use super::report::{Mean, Report, figure};
use super::spots::{Spot, Spots};
use super::tasks::{Condition, Task};
use crate::cli::commands::experiment::document::{checks, document, escaped};
use crate::cli::commands::experiment::plot::{Plot, Series, legend, styles};

pub(super) fn html(report: &Report) -> String {
    let body = [
        introduction(report),
        checks(&report.checks),
        unrelated(report),
        intermediate(report),
        information(),
        drift(&report.drift),
        report.spots.as_ref().map(spots).unwrap_or_default(),
    ];
    document("Lineage: what an edit changes", &styles(), &body.concat(), report)
}

fn introduction(report: &Report) -> String {
    let loops = match &report.terms.model {
        None => format!(
            "<p><b>The loops are scripts.</b> A loop is one call that gets the prior memo and all current materials and writes the memo anew, quoting \
             every statement that it is shown. So its churn and its contamination follow from the script and say nothing about a \
             language model. What is measured of it: its calls, its input, its time, and what it leaves as it was, because it \
             keeps no artifact but the memo. The writers of the replay are scripts too, and each call takes {} ms; that the \
             replay keeps bytes does not depend on who writes.</p>\n\
             <p>Not reported: <i>output_faithfulness_score</i> and <i>current_state_precision_score</i>, which need a judge. \
             <i>Precision</i> below counts marked statements of the memo that stand in its current sources.</p>\n",
            report.terms.latency_ms
        ),
        Some(model) => format!(
            "<p>The model <i>{}</i> wrote every answer, of the replay and of the loops. Statements are recognised by their marks; an answer \
             without marks counts as one that reflects nothing.</p>\n",
            escaped(model)
        ),
    };
    format!(
        "<h1>Lineage: what an edit changes</h1>\n\
         <p>A policy memo of nine artifacts stands beside a recruiting branch (examples/plans/telehealth.yaml), as in the paper \
         \"Execution Lineage\". It is edited in the paper's two ways and taken up in its three conditions, by runs of the engine in memory, {} \
         times each.</p>\n{loops}",
        report.terms.repeats
    )
}

/// Head and cells of a column.
type Column<'a> = (&'a str, &'a dyn Fn(&Mean) -> String);

/// A table of means.
fn means(report: &Report, task: Task, columns: &[Column<'_>]) -> String {
    let mut html = "<div class=\"scroll\"><table>\n<tr><th>condition</th>".to_owned();
    columns.iter().for_each(|(head, _)| html += &format!("<th class=\"n\">{head}</th>"));
    html += "</tr>\n";
    for mean in report.means.iter().filter(|mean| mean.task == task) {
        html += &format!("<tr><td>{}</td>", mean.condition.name());
        columns.iter().for_each(|(_, cell)| html += &format!("<td class=\"n\">{}</td>", cell(mean)));
        html += "</tr>\n";
    }
    html + "</table></div>\n"
}

fn unrelated(report: &Report) -> String {
    let mut html = "<h2>Unrelated update</h2>\n<p>A source of the recruiting branch changes. The memo rests on nothing of it.</p>\n".to_owned();
    html += &means(
        report,
        Task::UnrelatedBranchNoopUpdate,
        &[
            ("exact preservation", &|mean| figure(Some(mean.exact))),
            ("stable artifacts", &|mean| figure(mean.stable)),
            ("churn", &|mean| figure(mean.churn)),
            ("contamination", &|mean| figure(Some(mean.contamination))),
            ("precision", &|mean| figure(Some(mean.precision))),
            ("calls", &|mean| format!("{:.0}", mean.calls)),
            ("input tokens", &|mean| format!("{:.0}", mean.input_tokens)),
            ("output tokens", &|mean| format!("{:.0}", mean.output_tokens)),
            ("time", &|mean| format!("{:.0} ms", mean.took_ms)),
        ],
    );
    html + "<p>The call of the replay writes the outlook on recruiting. The memo and what is above it take none; the paper's replay took one.</p>\n"
}

fn intermediate(report: &Report) -> String {
    let mut html = "<h2>Edited artifact</h2>\n<p>A person adds two conditions to the criteria: a budget-neutral first year, and controls of \
                    utilization.</p>\n"
        .to_owned();
    html += &means(
        report,
        Task::IntermediateArtifactEdit,
        &[
            ("reflected", &|mean| figure(mean.reflection)),
            ("consistency", &|mean| figure(mean.consistency)),
            ("stable artifacts", &|mean| figure(mean.stable)),
            ("propagation", &|mean| figure(mean.recall)),
            ("upstream churn", &|mean| figure(mean.upstream_churn)),
            ("unaffected", &|mean| figure(mean.unaffected)),
            ("precision", &|mean| figure(Some(mean.precision))),
            ("calls", &|mean| format!("{:.0}", mean.calls)),
            ("input tokens", &|mean| format!("{:.0}", mean.input_tokens)),
            ("output tokens", &|mean| format!("{:.0}", mean.output_tokens)),
            ("time", &|mean| format!("{:.0} ms", mean.took_ms)),
        ],
    );
    html + "<p>Consistency: the share of criteria and plan with the conditions of the memo. A loop leaves the plan as it was. The replay is not \
            quicker here: plan and memo depend on each other, and two calls in a row take longer than one.</p>\n"
}

fn information() -> String {
    let rows = [
        ("loop final update", ["memo", "all", "no", "no", "no", "no"]),
        ("loop + edit event", ["memo", "all", "yes", "no", "no", "no"]),
        ("lineage replay", ["all artifacts", "of each node", "yes", "yes", "yes", "no"]),
    ];
    let mut html = "<h2>Given information</h2>\n<div class=\"scroll\"><table>\n<tr><th>condition</th><th>prior work</th><th>current sources</th>\
                    <th>edit event</th><th>dependencies</th><th>selective recomputation</th><th>right answers</th></tr>\n"
        .to_owned();
    for (condition, cells) in rows {
        html += &format!("<tr><td>{condition}</td>");
        cells.iter().for_each(|cell| html += &format!("<td>{cell}</td>"));
        html += "</tr>\n";
    }
    html + "</table></div>\n"
}

fn style_of(condition: Condition) -> usize {
    match condition {
        Condition::LoopFinalUpdate => 1,
        Condition::LoopEditEvent => 4,
        Condition::DagReplay => 2,
    }
}

fn drift(steps: &[Step]) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let mut html = "<h2>Edits in a row</h2>\n<p>Statements and remarks of sources, and conditions of the criteria, edited at random. After each \
                    edit everything is written from scratch for another client, which can reuse nothing. <i>Consistency</i> is the share of the artifacts \
                    that have every statement of the one from scratch, in its words. The memos of the loops keep up; the \
                    artifacts beside them do not, as no loop writes them. Both loops end with the same figures, so their lines coincide.</p>\n<p>"
        .to_owned();
    Condition::ALL.iter().for_each(|condition| html += &legend(style_of(*condition), condition.name()));
    html += "</p>\n<div class=\"plots\">\n";
    html += &plot("Consistency of the artifacts", "share", steps, |step| step.consistency);
    html += &plot("Calls of models, in all", "calls", steps, |step| step.calls as f64);
    html += &plot("Tokens of models, in all", "tokens", steps, |step| step.all_tokens as f64);
    html + "</div>\n"
}

fn plot(title: &str, unit: &str, steps: &[Step], value: fn(&Step) -> f64) -> String {
    let series = Condition::ALL.map(|condition| Series {
        name: condition.name().to_owned(),
        style: style_of(condition),
        points: steps
            .iter()
            .filter(|step| step.condition == condition)
            .map(|step| (step.edit as f64, value(step)))
            .collect(),
    });
    Plot { title, x: "edits", unit, series: series.into() }.svg()
}

fn spots(spots: &Spots) -> String {
    let mut html = "<h2>Edits at every place</h2>\n<p>A statement is added to each source, and by hand to each artifact. Nodes below the change whose \
                    inputs come out equal are not executed.</p>\n<div class=\"scroll\"><table>\n<tr><th>edited</th><th class=\"n\">below</th>\
                    <th class=\"n\">executed</th><th class=\"n\">calls in a row</th><th class=\"n\">their time</th><th class=\"n\">time</th><th class=\"n\">tokens</th>\
                    <th>executed nodes</th></tr>\n"
        .to_owned();
    for spot in [&spots.whole, &spots.cut_off, &spots.field].into_iter().chain(&spots.places) {
        row(&mut html, spot);
    }
    html + "</table></div>\n"
}

fn row(html: &mut String, spot: &Spot) {
    let executed: Vec<&str> = spot.executed.iter().map(String::as_str).collect();
    let _ = writeln!(
        html,
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{} ms</td>\
         <td class=\"n\">{:.0} ms</td><td class=\"n\">{}</td><td>{}</td></tr>",
        escaped(&spot.what),
        spot.below.len(),
        spot.executed.len(),
        spot.path.calls,
        spot.path.ms,
        spot.took_ms,
        spot.tokens.input_tokens + spot.tokens.output_tokens,
        executed.join(", ")
    );
}
