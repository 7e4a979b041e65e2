//! The `ostler` command: output, exit codes, and recovery after a kill.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod agents;
mod api;
mod approval_prompt;
mod approvals;
mod bad_plans;
mod bound_files;
mod budgets;
mod check;
mod clients;
mod conversations;
mod damage;
mod escapes;
mod experiment;
mod exports;
mod goals;
mod grants;
mod heartbeats;
mod kill;
mod logs;
mod long_run;
mod market;
mod mcp;
mod metrics;
mod model_text;
mod operator;
mod pipelines;
mod plans;
mod second_terminal;
mod simulations;
mod suggestions;
mod telehealth;
mod templates;
mod terminal;
mod top;
mod world;
