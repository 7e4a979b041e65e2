//! The page of the experiment with modes.

use std::fmt::Write;

use ostler_kernel::policy::{Aggregator, ContextForm};
use ostler_sim::modes::experiment::{Comparison, Family, Line, Point, Strategy, Sweep};

use super::document::{checks, document, escaped};
use super::plot::{Plot, Series, legend, styles};
use super::report::Report;

/// The whole page.
pub(super) fn html(report: &Report) -> String {
    let body = [
        introduction(report),
        checks(&report.checks),
        plots(report),
        crossover_table(report),
        engine_table(report),
        form_tables(report),
    ];
    document("Modes of goal runs", &styles(), &body.concat(), report)
}

fn style_of(strategy: Strategy) -> usize {
    match strategy {
        Strategy::React => 0,
        Strategy::ReactBatched => 1,
        Strategy::Reflect => 2,
        Strategy::NReflect(_) => 3,
        Strategy::Orchestrator => 4,
        Strategy::Auto => 5,
        Strategy::Sgh => 6,
    }
}

/// Word for the model that writes the answer.
pub(super) fn answerer(aggregator: Aggregator) -> &'static str {
    match aggregator {
        Aggregator::Off => "no model",
        Aggregator::Executor => "executor",
        Aggregator::Planner => "planner",
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::Independent => "independent calls",
        Family::Pairs => "two calls a level",
        Family::Chain => "a chain of calls",
    }
}

fn introduction(report: &Report) -> String {
    let costs = &report.costs;
    format!(
        "<h1>Modes of goal runs</h1>\n\
         <p>Every mode runs on the same goals: <i>n</i> calls of a tool in <i>d</i> levels of equal width. A call of a model has {} \
         tokens of base and takes {} ms; a result has {} tokens, a digest of one {}, and a tool takes {} ms. Most runs are \
         simulated in virtual time with the decisions of real runs; some are made by the engine itself with a scripted \
         model.</p>\n\
         <p><b>What this shows:</b> the mechanism. How many calls a mode makes, how long their contexts are, what waits for what, \
         and what the engine adds. <b>What it does not show:</b> wisdom. The scripted models always write the same right steps and \
         always say continue; nothing fails. Which mode answers better, asks for fewer tools or recovers from a mistake \
         depends on the model and the goal, and this experiment is silent about it. Prices per token and caches of providers, \
         which make repeated beginnings cheaper, are left out.</p>\n",
        costs.base_tokens, costs.model_ms, costs.result_tokens, costs.digest_tokens, costs.tool_ms
    )
}

fn plots(report: &Report) -> String {
    let answered = |family: Family| {
        let of = |sweep: &&Sweep| sweep.family == family && sweep.aggregator == Aggregator::Executor;
        report.sweeps.iter().find(of)
    };
    let mut html = "<h2>Tokens and time</h2>\n<p>Bounded contexts; a model writes the answer, so that every run ends with a text \
                    about the results. <i>react</i> calls one tool in a turn, <i>react, parallel calls</i> all of a level. Lines that coincide \
                    hide one another: the values are in the JSON.</p>\n<p>"
        .to_owned();
    let independent = answered(Family::Independent);
    for line in independent.iter().flat_map(|sweep| &sweep.lines) {
        html += &legend(style_of(line.strategy), &line.strategy.to_string());
    }
    html += "</p>\n<div class=\"plots\">\n";
    for sweep in [Family::Independent, Family::Chain].into_iter().filter_map(answered) {
        let family = family_name(sweep.family);
        let tokens = format!("Input tokens, {family}");
        html += &plot(&tokens, "tokens", sweep, |point| point.tokens as f64);
        let time = format!("Time, {family}");
        html += &plot(&time, "s", sweep, |point| point.ms as f64 / 1_000.0);
    }
    html + "</div>\n"
}

fn plot(title: &str, unit: &str, sweep: &Sweep, value: fn(&Point) -> f64) -> String {
    let series = |line: &Line| Series {
        name: line.strategy.to_string(),
        style: style_of(line.strategy),
        points: line.points.iter().map(|point| (f64::from(point.tools), value(point))).collect(),
    };
    Plot { title, x: "tools", unit, series: sweep.lines.iter().map(series).collect() }.svg()
}

fn crossover_table(report: &Report) -> String {
    let mut html = "<h2>Crossover with react</h2>\n<p>The number of tools from which on a mode takes less than <i>react</i> with one call a \
         turn, up to 16; a dash means never. Without a model that writes the answer, a planning mode ends with the \
         results themselves and saves that call.</p>\n<div class=\"scroll\"><table>\n\
         <tr><th>goals</th><th>mode</th><th>answer</th><th class=\"n\">fewer tokens from</th><th class=\"n\">less time from</th></tr>\n"
        .to_owned();
    let from = |from: Option<u32>| from.map_or("–".to_owned(), |tools| tools.to_string());
    for row in &report.crossovers {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            family_name(row.family),
            row.strategy,
            answerer(row.aggregator),
            from(row.tokens_from),
            from(row.time_from)
        );
    }
    html + "</table></div>\n"
}

fn engine_table(report: &Report) -> String {
    let mut html = "<h2>In the engine</h2>\n<p>The same goals reached by the engine in memory: queue, gate and records included. <i>Alone</i> is the time of \
         the calls of models and tools on the longest path, made without the engine at the same time; overhead is what comes on top. The runs of one goal \
         were under way at the same time.</p>\n<div class=\"scroll\"><table>\n\
         <tr><th>mode</th><th class=\"n\">tools</th><th class=\"n\">levels</th><th>answer</th><th class=\"n\">calls</th><th class=\"n\">tokens</th>\
         <th class=\"n\">alone</th><th class=\"n\">took</th><th class=\"n\">overhead</th><th>calls and tokens</th></tr>\n"
        .to_owned();
    for trial in &report.engine {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{:.1} ms</td><td class=\"n\">{:.1} ms</td><td class=\"n\">{:+.2} %</td><td>{}</td></tr>",
            trial.strategy,
            trial.goal.tools,
            trial.goal.levels,
            answerer(trial.aggregator),
            trial.calls,
            trial.input_tokens,
            trial.alone_ms,
            trial.took_ms,
            trial.overhead * 100.0,
            trial.difference.as_deref().map_or("as simulated".to_owned(), escaped)
        );
    }
    html + "</table></div>\n"
}

/// Numbers of tools in the table of closed forms; the JSON has them all.
const SHOWN_TOOLS: [u32; 3] = [1, 4, 16];

fn form_tables(report: &Report) -> String {
    let mut html = "<h2>Closed forms</h2>\n<p>Counted input tokens beside the closed form, without a model that writes the answer. <i>Waves</i> are tools \
         one after another, and the calls of models that wait beside them. Reflections of <i>nreflect</i> end before the next \
         results here. The page embeds all runs as JSON.</p>\n<div class=\"scroll\"><table>\n\
         <tr><th>mode</th><th class=\"n\">tools</th><th class=\"n\">levels</th><th>earlier results</th><th class=\"n\">calls</th>\
         <th class=\"n\">counted</th><th class=\"n\">form</th><th class=\"n\">waves of tools</th><th class=\"n\">calls in a row</th></tr>\n"
        .to_owned();
    let is_shown = |row: &&Comparison| {
        let goal = row.goal;
        SHOWN_TOOLS.contains(&goal.tools)
            && [1, 4, goal.tools].contains(&goal.levels)
            && match row.strategy {
                Strategy::NReflect(results) => results == goal.width().max(goal.tools / 4),
                _ => true,
            }
    };
    for row in report.comparisons.iter().filter(is_shown) {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            row.strategy,
            row.goal.tools,
            row.goal.levels,
            context_name(row.context),
            row.calls,
            row.counted,
            row.form,
            row.waves.tools,
            row.waves.calls
        );
    }
    html += "</table></div>\n<h2>Growth</h2>\n<p>Exponents fitted to the tokens of results over 8 to 16 tools, beside that of the highest \
         term. Lower terms keep a quadratic below 2.</p>\n<div class=\"scroll\"><table>\n\
         <tr><th>mode</th><th>earlier results</th><th class=\"n\">fitted</th><th class=\"n\">highest term</th></tr>\n";
    for slope in &report.slopes {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{:.3}</td><td class=\"n\">{}</td></tr>",
            escaped(&slope.what),
            context_name(slope.context),
            slope.fitted,
            slope.expected
        );
    }
    html + "</table></div>\n"
}

fn context_name(context: ContextForm) -> &'static str {
    match context {
        ContextForm::Bounded => "digests",
        ContextForm::Cumulative => "in full",
    }
}
