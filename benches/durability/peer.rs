//! Ostler's side of `benches/peers`: runs workflows of ten steps as requested on standard input and prints the speed.

use std::io::BufRead;
use std::path::Path;

use crate::probe::Probe;
use crate::steps::{self, Kind};

/// Argument that selects this mode.
pub(crate) const WORD: &str = "--peer";

/// Reads lines `KIND AT_ONCE ROUNDS`, or `probe COUNT` for the disk; prints steps or syncs per second.
pub(crate) fn serve(data: &Path) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let os = steps::start(data).await;
        let mut probe = Probe::new(data);
        let plans = [Kind::Effectful, Kind::Pure].map(|kind| steps::plan(&os, kind));
        println!("ready");
        for line in std::io::stdin().lock().lines() {
            let line = line.unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<usize>().unwrap();
            let said = match words[0] {
                "probe" => probe.syncs_per_s(number(1) as u32),
                "effectful" => steps::steps_per_s(&os, &plans[0], number(1), number(2)).await,
                "pure" => steps::steps_per_s(&os, &plans[1], number(1), number(2)).await,
                other => panic!("no {other:?}: effectful, pure or probe"),
            };
            println!("{said}");
        }
        os.shutdown().await;
    });
}
