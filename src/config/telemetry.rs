//! `[telemetry]`: where traces go.

use ostler_kernel::plan::Pointer;
use serde::Deserialize;

/// Path of traces below the address of a collector (OTLP specification, "Endpoint URLs for OTLP/HTTP").
const TRACES_PATH: &str = "v1/traces";

/// `[telemetry]`. Without an endpoint here or in `OTEL_EXPORTER_OTLP_ENDPOINT`, nothing is traced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "the table [telemetry]")]
pub struct TelemetryConfig {
    /// Address of a collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`.
    pub otlp_endpoint: Option<String>,
    /// Spans hold goals, answers, parameters and results too.
    pub contents: bool,
}

/// What is traced, and where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traces {
    /// Address for traces.
    pub endpoint: String,
    /// Spans hold goals, answers, parameters and results too.
    pub contents: bool,
}

impl TelemetryConfig {
    /// The traces that the configuration or else the environment asks for; `None`: nothing is traced. The variables are those
    /// of OpenTelemetry: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_SDK_DISABLED`.
    pub fn traces(&self, env: &dyn Fn(&str) -> Option<String>) -> Option<Traces> {
        let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        if set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let below = |base: &str| format!("{}/{TRACES_PATH}", base.trim_end_matches('/'));
        let endpoint = match &self.otlp_endpoint {
            Some(base) => below(base),
            None => set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
                .or_else(|| set("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| below(&base)))?,
        };
        Some(Traces { endpoint, contents: self.contents })
    }

    pub(super) fn check(&self, wrong: &mut Vec<(Pointer, String, String)>) {
        let Some(endpoint) = &self.otlp_endpoint else { return };
        let place = || Pointer::root().key("telemetry").key("otlp_endpoint");
        let address = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
        match address.map(|address| address.split('/').next().unwrap_or_default()) {
            None | Some("") => wrong.push((
                place(),
                "otlp_endpoint is no address of a collector".to_owned(),
                "set one such as \"http://127.0.0.1:4318\"".to_owned(),
            )),
            Some(host) if host.contains('@') => wrong.push((
                place(),
                "otlp_endpoint holds a user or password".to_owned(),
                "put credentials into the environment variable OTEL_EXPORTER_OTLP_HEADERS".to_owned(),
            )),
            Some(_) => {}
        }
    }
}
