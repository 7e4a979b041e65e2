//! Checks of learnt plans.

use std::path::Path;

use ostler::plan_folder::PlanFolder;

use crate::cli::commands::doctor::report::Report;
use crate::cli::output::units::plural;

/// Reads every template. A damaged one is not shown to planners, and harms nothing else.
pub(crate) fn check_templates(data: &Path, report: &mut Report) {
    let stored = match PlanFolder::of_data(data).list() {
        Ok(stored) => stored,
        Err(error) => {
            return report.warn("templates", error.to_string(), "make the folder readable, or remove it");
        }
    };
    if stored.is_empty() {
        return;
    }
    let damaged: Vec<&String> = stored.iter().filter_map(|stored| stored.content.as_ref().err()).collect();
    match damaged.first() {
        None => report.pass("templates", format!("{}, all readable", plural(stored.len(), "template"))),
        Some(first) => {
            let what = format!("{} of {} cannot be read: {first}", damaged.len(), stored.len());
            report.warn("templates", what, "correct the file, or remove it");
        }
    }
}
