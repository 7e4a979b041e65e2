//! The option `--metrics`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use clap::Args;
use ostler::{Ostler, OstlerBuilder};

use crate::cli::exit::Failure;
use crate::cli::output::terminal::status_line;

#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct MetricsOption {
    /// Serve Prometheus metrics at http://ADDR/metrics while this command runs; ADDR is a port of this
    /// machine or ADDRESS:PORT; port 0 takes a free port, printed on stderr
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) metrics: Option<SocketAddr>,
}

impl MetricsOption {
    pub(crate) fn apply_to(self, builder: OstlerBuilder) -> OstlerBuilder {
        match self.metrics {
            Some(address) => builder.metrics(address),
            None => builder,
        }
    }

    pub(crate) fn announce(self, os: &Ostler) {
        if let Some(address) = os.metrics_address() {
            status_line(format!("metrics at http://{address}/metrics"));
        }
    }

    /// Rejects the option if another process holds the data folder and does the work.
    pub(crate) fn require_in_process(self, data: &Path) -> Result<(), Failure> {
        let Some(address) = self.metrics else { return Ok(()) };
        Err(Failure::invalid(format!(
            "--metrics {address}: another process holds {} and executes the runs; give --metrics to that process",
            data.display()
        )))
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| "give a port, such as 9464, or ADDRESS:PORT, such as 127.0.0.1:9464".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_port_is_one_of_this_machine() {
        let read = |text| address(text).map(|address| address.to_string());
        assert_eq!(read("9464").unwrap(), "127.0.0.1:9464");
        assert_eq!(read("localhost:0").unwrap(), "127.0.0.1:0");
        assert_eq!(read("0.0.0.0:9464").unwrap(), "0.0.0.0:9464");
        assert_eq!(read("[::1]:9464").unwrap(), "[::1]:9464");
        for wrong in ["", "70000", ":9464", "example.com:9464", "127.0.0.1", "-1"] {
            assert!(read(wrong).unwrap_err().contains("such as 9464"), "{wrong}");
        }
    }
}
