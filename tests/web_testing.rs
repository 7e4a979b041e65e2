//! The example that tests a web site: what it finds, and that its stages overlap.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that meets an error has failed, and says where"
)]
#![allow(dead_code, reason = "the program of the example is not run as a program here")]

#[path = "../examples/web_testing/main.rs"]
mod example;

use example::{How, test};

const REPORT: &str = "\
# 13 pages, 10 places under load

13 checks, 15 loads of 8 requests each.

- /api/order fails under load: 8 of 8
- /contact has no title
- /jobs answers 404, not 200
";

#[tokio::test(flavor = "multi_thread")]
async fn the_site_is_tested_while_it_is_crawled_and_the_report_is_the_same_as_stage_by_stage() {
    let folder = tempfile::tempdir().unwrap();
    let streaming = test(How::Streaming, folder.path()).await.unwrap();
    assert_eq!(streaming.report, REPORT);
    assert!(streaming.overlapped, "something was loaded before the crawl had ended");
    let batch = test(How::Batch, folder.path()).await.unwrap();
    assert_eq!(batch.report, REPORT);
    assert_eq!(batch.events, streaming.events);
    assert!(!batch.overlapped);
    assert!(streaming.took < batch.took, "{:?} against {:?}", streaming.took, batch.took);
}
