//! The list of accepted operator keys.

use std::path::Path;

use ostler_server::{OPERATORS_CURE, OperatorKeys};

use crate::cli::commands::doctor::report::Report;

pub(super) fn check_operators(data: &Path, report: &mut Report) {
    match OperatorKeys::of_data(data) {
        Ok(keys) => {
            if let Some(damage) = keys.damage() {
                report.fail("operators", damage, OPERATORS_CURE);
            }
        }
        Err(error) => report.fail("operators", error.to_string(), "make the file readable for you"),
    }
}
