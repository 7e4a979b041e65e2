//! A minimal durable log as a baseline: one thread drains a queue, writes once, syncs once, answers all.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::oneshot;

/// Record size in bytes.
const RECORD_BYTES: usize = 200;

/// Preallocated file length in bytes.
const FILE_BYTES: usize = 64 * 1024 * 1024;

type Append = (Vec<u8>, oneshot::Sender<()>);

/// A log without streams, checksums or ordering.
pub(crate) struct BareLog {
    queue: Sender<Append>,
    writer: JoinHandle<()>,
}

impl BareLog {
    pub(crate) fn open(folder: &Path) -> BareLog {
        let file = File::create(folder.join("log")).unwrap();
        file.write_all_at(&vec![0; FILE_BYTES], 0).unwrap();
        file.sync_all().unwrap();
        let (queue, appends) = mpsc::channel();
        BareLog { queue, writer: std::thread::spawn(move || write(&file, &appends)) }
    }

    /// Records per second with `tasks` concurrent appenders, each waiting for durability before the next record.
    pub(crate) async fn records_per_s(&self, tasks: usize, records: usize) -> f64 {
        let begun = Instant::now();
        let tasks: Vec<_> = (0..tasks)
            .map(|_| {
                let queue = self.queue.clone();
                tokio::spawn(async move {
                    for _ in 0..records {
                        let (answer, durable) = oneshot::channel();
                        queue.send((vec![7; RECORD_BYTES], answer)).unwrap();
                        durable.await.unwrap();
                    }
                })
            })
            .collect();
        let count = tasks.len() * records;
        for task in tasks {
            task.await.unwrap();
        }
        count as f64 / begun.elapsed().as_secs_f64()
    }

    pub(crate) fn close(self) {
        drop(self.queue);
        self.writer.join().unwrap();
    }
}

fn write(file: &File, appends: &Receiver<Append>) {
    let (mut at, mut buffer, mut answers) = (0, Vec::new(), Vec::new());
    while let Ok(first) = appends.recv() {
        for (record, answer) in std::iter::once(first).chain(appends.try_iter()) {
            buffer.extend_from_slice(&record);
            answers.push(answer);
        }
        if at + buffer.len() > FILE_BYTES {
            at = 0;
        }
        file.write_all_at(&buffer, at as u64).unwrap();
        file.sync_data().unwrap();
        at += buffer.len();
        buffer.clear();
        for answer in answers.drain(..) {
            // The appender may have been dropped.
            let _: Result<(), ()> = answer.send(());
        }
    }
}
