//! Language models: their configuration, the drivers of providers, and the tools `model.NAME`.
//!
//! [`Models`] builds every model of a [`ModelsConfig`]. A model is called through its [`ModelTool`], which the gate permits like
//! any other tool. [`decode`] is the only decoder of responses.

mod answer;
mod anthropic;
mod call_ids;
mod cassette;
mod cassette_export;
mod cassette_miss;
mod config;
mod config_check;
pub mod decode;
mod exchange;
mod http_model;
mod key;
mod meter;
mod model_judge;
mod model_tool;
mod models;
mod openai;
mod price;
mod price_table;
mod probe;
mod profile;
mod provider_mark;
mod rate_headers;
mod schema;
mod script;
mod scripted;
mod tokens;
mod tool_names;
mod tool_params;
mod transport;
mod wire;

pub use cassette::CASSETTE_BYTES_MAX;
pub use cassette_export::{AnsweredCall, cassette};
pub use config::{
    CassetteMode, Dialect, IDLE_TIMEOUT_DEFAULT, KeyVariable, MAX_OUTPUT_TOKENS_DEFAULT, MODEL_TIMEOUT_MAX,
    ModelConfig, ModelsConfig, Provider, TIMEOUT_DEFAULT,
};
pub use config_check::{ConfigFault, FALLBACKS_MAX, MODEL_NAME_BYTES_MAX, MODELS_MAX};
pub use key::PROVIDER_MESSAGE_BYTES_MAX;
pub use model_judge::ModelJudge;
pub use model_tool::ModelTool;
pub use models::{ConfiguredModel, Models, tools};
pub use ostler_kernel::ledger::{LongPrompt, Price, Rates, Tokens};
pub use price::{PriceConfig, PriceOrigin, UsdPerMillion};
pub use price_table::{PriceTable, price_table};
pub use probe::{Probe, ProbeCheck, ProbeFailure, probe};
pub use profile::Profile;
pub use script::{SCRIPT_BYTES_MAX, SCRIPT_DEPTH_MAX};
pub use tokens::estimate_tokens;
pub use tool_params::{FEEDBACK_MAX, MESSAGES_MAX, OFFERS_MAX};
