//! TLS configuration, with ring.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// Trusts the platform's certificates. Reads them; blocks.
pub(crate) fn with_platform_roots() -> Result<ClientConfig, String> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map(|config| config.with_no_client_auth())
        .map_err(|error| format!("cannot set up TLS: {error}"))
}

pub(crate) fn without_roots() -> Result<ClientConfig, String> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map(|config| config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        .map_err(|error| format!("cannot set up TLS: {error}"))
}
