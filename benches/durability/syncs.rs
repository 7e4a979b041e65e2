//! Number of syncs, from the journal's own counter.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ostler::Ostler;

use crate::steps::{self, Act, Kind, SLOTS, STEPS};
use crate::table::{Must, Row};

/// Workflows per sample.
const WORKFLOWS: usize = 1_024;

pub(crate) fn rows() -> Vec<Row> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let folder = steps::folder();
        let os = Ostler::builder()
            .data_dir(folder.path().join("data"))
            .tool(Act::new())
            .slots(SLOTS)
            .metrics(SocketAddr::from(([127, 0, 0, 1], 0)))
            .start()
            .await
            .unwrap();
        let address = os.metrics_address().unwrap();
        let mut rows = Vec::new();
        for (kind, name) in [(Kind::Pure, "pure"), (Kind::Effectful, "effectful")] {
            let plan = steps::plan(&os, kind);
            for (at_once, must, aim) in [(1, 1.2, 1.1), (16, 0.2, 0.15), (256, 0.02, 0.01)] {
                let workflows = if at_once == 1 { WORKFLOWS / 8 } else { WORKFLOWS };
                let before = fsyncs(address).await;
                steps::steps_per_s(&os, &plan, at_once, workflows / at_once).await;
                let each = (fsyncs(address).await - before) / (workflows * STEPS) as f64;
                let (must, aim) = match kind {
                    Kind::Pure => (Must::Most(must), Some(aim)),
                    Kind::Effectful => (Must::Nothing, None),
                };
                rows.push(Row::new(format!("fsyncs per {name} step, {at_once} at a time"), must, aim, each));
            }
        }
        os.shutdown().await;
        rows
    })
}

/// Longer than metrics are cached, in milliseconds.
const STALE_MS: u64 = 1_500;

/// The journal's counter as served by the metrics endpoint.
async fn fsyncs(address: SocketAddr) -> f64 {
    tokio::time::sleep(Duration::from_millis(STALE_MS)).await;
    let read = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let text = tokio::task::spawn_blocking(read).await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("ostler_journal_fsyncs_total "));
    line.unwrap_or_else(|| panic!("no count of fsyncs in:\n{text}")).trim().parse().unwrap()
}
