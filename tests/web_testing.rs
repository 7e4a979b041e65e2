//! The web testing example: findings, overlapping stages, and no changes to data of others.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that meets an error has failed, and says where"
)]
#![allow(dead_code, reason = "the program of the example is not run as a program here")]

#[path = "../examples/web_testing/main.rs"]
mod example;

use std::path::Path;

use example::Compared;
use example::both_ways;
use example::case_studies::analyst::InjectedFault;
use example::case_studies::arguments::Arguments;

const REPORT: &str = "\
# 13 pages, 10 places under load

13 checks, 15 loads of 8 requests each.

- /api/order fails under load: 8 of 8
- /contact has no title
- /jobs answers 404, not 200
";

/// Tests the site both ways; returns the result and the output.
async fn played(folder: &Path, fault: Option<(&str, InjectedFault)>) -> (Compared, String) {
    let fault = fault.map(|(stage, fault)| (stage.to_owned(), fault));
    let mut told = Vec::new();
    let compared = both_ways(&Arguments { fault, ..Arguments::default() }, folder, &mut told).await.unwrap();
    compared.print(&mut told).unwrap();
    (compared, String::from_utf8(told).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_site_is_tested_while_it_is_crawled_and_the_report_is_the_same_as_stage_by_stage() {
    let folder = tempfile::tempdir().unwrap();
    let (Compared { streaming, batch, .. }, told) = played(folder.path(), None).await;
    assert_eq!((streaming.report.as_str(), batch.report.as_str()), (REPORT, REPORT));
    assert_eq!(std::fs::read_to_string(folder.path().join("report.md")).unwrap(), REPORT);
    assert!(streaming.overlapped, "something was loaded before the crawl had ended");
    assert!(!batch.overlapped);
    assert_eq!(batch.events, streaming.events);
    assert!(streaming.took < batch.took, "{:?} against {:?}", streaming.took, batch.took);
    for line in [
        "node  recon: 1 attempt\n",
        "node  report: 1 attempt\n",
        "this run, weights of web-testing\n",
        "  quality     1.000    weight 0.250\n",
        "  judge       visitor: 3 of 3 anomalies are there still\n",
        "the paper's vector (0.87, 0.92, 0.78, 0.85, 0.95, 0.88)\n",
        "  0.8765  weights of web-testing  (the paper prints 0.877)\n",
    ] {
        assert!(told.contains(line), "{line:?} in {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_with_anything_in_the_way_is_refused_and_nothing_in_it_is_touched() {
    for name in ["report.md", "streaming", "batch"] {
        let folder = tempfile::tempdir().unwrap();
        let mine = [folder.path().join("data/mine.txt"), folder.path().join(name)];
        std::fs::create_dir(folder.path().join("data")).unwrap();
        mine.iter().for_each(|path| std::fs::write(path, "mine").unwrap());
        let refused = both_ways(&Arguments::default(), folder.path(), &mut Vec::new()).await.err().unwrap();
        let expected =
            format!("{} is there already, and stays as it is: name another folder", mine[1].display());
        assert_eq!(refused.to_string(), expected);
        mine.iter().for_each(|path| assert_eq!(std::fs::read_to_string(path).unwrap(), "mine"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "and nothing was made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_with_other_things_in_it_keeps_them() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("data/mine.txt");
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(&mine, "mine").unwrap();
    played(folder.path(), None).await;
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_analyst_that_fails_once_costs_nothing_but_another_try() {
    for fault in [
        ("recon", InjectedFault::Crash),
        ("behavior", InjectedFault::Crash),
        ("behavior", InjectedFault::Nonsense),
        ("synthesis", InjectedFault::Crash),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (compared, told) = played(folder.path(), Some(fault)).await;
        assert_eq!((compared.streaming.report.as_str(), compared.batch.report.as_str()), (REPORT, REPORT));
        let attempts = if fault.0 == "recon" { "2 attempts" } else { "1 attempt" };
        assert!(told.contains(&format!("node  recon: {attempts}\n")), "{fault:?}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_reads_the_pages_and_the_report_is_that_of_the_code() {
    let folder = tempfile::tempdir().unwrap();
    let model = Some("scripted:examples/models/web_testing.yaml".to_owned());
    let mut told = Vec::new();
    let arguments = Arguments { model, ..Arguments::default() };
    let compared = both_ways(&arguments, folder.path(), &mut told).await.unwrap();
    assert_eq!((compared.streaming.report.as_str(), compared.batch.report.as_str()), (REPORT, REPORT));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_reads_what_no_page_says_fails_the_crawl_and_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("dreamer.yaml");
    std::fs::write(&script, "rules:\n  - when: {}\n    answer: {title: Shop, links: [/dreams]}\n").unwrap();
    let model = Some(format!("scripted:{}", script.display()));
    let arguments = Arguments { model, ..Arguments::default() };
    let failed = both_ways(&arguments, &folder.path().join("out"), &mut Vec::new()).await.err().unwrap();
    let told = failed.to_string();
    assert!(
        told.contains("3 answers of the model cannot be used, the last: the page has no link to \"/dreams\""),
        "{told}"
    );
}
