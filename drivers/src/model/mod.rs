//! Language models over HTTP: how the answers of providers are read.

pub mod decode;
