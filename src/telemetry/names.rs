//! Names of attributes and operations. Those that begin with `gen_ai` and `error` are of OpenTelemetry's semantic conventions for
//! generative AI; no such name is written elsewhere.

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const INVOKE_AGENT: &str = "invoke_agent";
pub(super) const PLAN: &str = "plan";
pub(super) const CHAT: &str = "chat";
pub(super) const EXECUTE_TOOL: &str = "execute_tool";

pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(super) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(super) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(super) const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub(super) const ERROR_TYPE: &str = "error.type";

/// Contents, which are sent only if the configuration says so.
pub(super) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(super) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(super) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(super) const TOOL_RESULT: &str = "gen_ai.tool.call.result";

/// The provider of runs, plans and tools.
pub(super) const OSTLER: &str = "ostler";

pub(super) const RUN: &str = "ostler.run.id";
pub(super) const PLAN_ID: &str = "ostler.plan.id";
pub(super) const CLIENT: &str = "ostler.client";
pub(super) const OUTCOME: &str = "ostler.run.outcome";
pub(super) const RECOVERIES: &str = "ostler.run.recoveries";
pub(super) const NODE: &str = "ostler.node";
pub(super) const ATTEMPT: &str = "ostler.attempt";
pub(super) const ROLE: &str = "ostler.role";
pub(super) const MODEL: &str = "ostler.model";
pub(super) const NANO_USD: &str = "ostler.cost.nano_usd";
pub(super) const FIRST_PIECE_MS: &str = "ostler.first_piece_ms";
