//! The security audit example: findings, approvals, and isolation of a crashing scanner.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(dead_code, reason = "the program of the example is not run as a program here")]

#[path = "../examples/security_audit/main.rs"]
mod example;
mod kill_at_gate;

use std::path::Path;

use example::case_studies::analyst::InjectedFault;
use example::case_studies::arguments::Arguments;
use example::folder::plant;
use example::{Audited, audit};
use kill_at_gate::Held;

const REPORT: &str = "\
# 10 findings in 6 files

- critical: deploy/id_rsa: a private key that others may read (0644)
- critical: deploy/id_rsa:1: a private key in plain text
- critical: requirements.txt:3: pyyaml ==5.3, CVE-2020-14343: full_load runs code that a document names (fixed in 5.4)
- high: app/settings.py:2: an access key of AWS in plain text
- high: app/settings.py:3: a password in plain text, 3.8 bits a character
- high: package.json:4: lodash 4.17.15, CVE-2021-23337: template runs commands (fixed in 4.17.21)
- high: scripts/backup.sh: everybody may change it (0777)
- medium: Cargo.toml:6: time =0.1.42, RUSTSEC-2020-0071: reading the local offset beside setenv may crash the process (fixed in 0.2.23)
- medium: package.json:5: left-pad in any version: whatever is published next is taken
- medium: requirements.txt:2: requests in any version: whatever is published next is taken
";

/// Audits `folder`; returns the result and the output.
async fn audited(place: &Path, fault: Option<(&str, InjectedFault)>) -> (Audited, String) {
    let fault = fault.map(|(node, fault)| (node.to_owned(), fault));
    let arguments = Arguments { fault, unattended: true, ..Arguments::default() };
    let mut told = Vec::new();
    let audited = audit(&arguments, &place.join("data"), &place.join("folder"), &mut told).await.unwrap();
    audited.print(&mut told).unwrap();
    (audited, String::from_utf8(told).unwrap())
}

/// Audits a folder with planted findings.
async fn played(fault: Option<(&str, InjectedFault)>) -> (Audited, String) {
    let place = tempfile::tempdir().unwrap();
    plant(&place.path().join("folder")).unwrap();
    audited(place.path(), fault).await
}

/// Attempts of the three scanners and of the synthesis.
fn attempts(audited: &Audited) -> [u32; 4] {
    ["secrets", "permissions", "dependencies", "synthesis"].map(|node| audited.seen.attempts[node])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_planted_is_found_and_a_person_is_asked_about_what_is_doubtful() {
    let (audited, told) = played(None).await;
    assert_eq!(audited.report, REPORT);
    let gates: Vec<&str> = told.lines().filter(|line| line.starts_with("gate")).collect();
    assert_eq!(gates.len(), 1, "{told}");
    assert!(gates[0].ends_with("sent back: dismiss tests/fixtures/login.json:1 made up for tests"), "{told}");
    assert_eq!((attempts(&audited), audited.seen.version), ([2, 1, 1, 1], 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_folder_asks_nobody_anything() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("folder")).unwrap();
    let (audited, told) = audited(place.path(), None).await;
    assert_eq!(audited.report, "# 0 findings in 0 files\n\nNothing was found.\n");
    assert!(!told.contains("gate"), "{told}");
    assert_eq!(attempts(&audited), [1, 1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_found_is_told_with_its_place_and_what_is_fine_is_not() {
    let files = [
        // Newer, unrelated, or exactly the fixed version.
        ("a/requirements.txt", "-r more.txt\npyyaml==5.4\nrequests>=2.31 # of course\njinja2~=3.1.2\n"),
        (
            "b/Cargo.toml",
            "[dependencies]\ntime = { path = \"../time\" }\nchrono = { version = \"0.4.19\" }\n",
        ),
        ("c/package.json", "{\"dependencies\": {\"lodash\": \"^4.17.21\", \"axios\": \"latest\"}}"),
        ("d/package.json", "{\"dependencies\": "),
        ("e/main.rs", "let password = read();\nlet token = \"q8Zr-71Lw_xT0bVn\";\n"),
        ("f/key.pub", "ssh-rsa AAAA"),
    ];
    let place = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = place.path().join("folder").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (audited, _) = audited(place.path(), None).await;
    let found: Vec<&str> = audited.report.lines().filter(|line| line.starts_with('-')).collect();
    assert_eq!(
        found,
        [
            "- high: e/main.rs:2: a token in plain text, 4.0 bits a character",
            "- medium: a/requirements.txt:4: jinja2 ~=3.1.2, CVE-2024-22195: xmlattr lets attributes in that nobody asked \
             for (fixed in 3.1.3)",
            "- medium: b/Cargo.toml:3: chrono 0.4.19, RUSTSEC-2020-0159: reading the local offset beside setenv may \
             crash the process (fixed in 0.4.20)",
            "- medium: c/package.json: axios in any version: whatever is published next is taken",
            "- low: d/package.json: cannot be read: EOF while parsing a value at line 1 column 17",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scanner_that_crashes_is_started_again_and_touches_no_other() {
    // One of its two further attempts is for the rejected finding.
    for (node, expected) in [("secrets", [3, 1, 1, 1]), ("dependencies", [2, 1, 2, 1])] {
        let (audited, told) = played(Some((node, InjectedFault::Crash))).await;
        assert_eq!(attempts(&audited), expected, "{told}");
        assert_eq!(audited.report, REPORT, "and nothing is missing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_is_judged_as_security_and_the_vector_of_the_paper_comes_to_what_its_weights_make_of_it() {
    let (_, told) = played(None).await;
    for line in [
        "this run, weights of security\n",
        "  quality     1.000    weight 0.300\n",
        "  judge       evidence: 10 of 10 findings have their evidence\n",
        "the paper's vector (0.83, 0.89, 0.82, 0.79, 0.91, 0.85)\n",
        "  0.8485  weights of default  (the paper prints 0.851)\n",
        "  0.8550  weights of security\n",
    ] {
        assert!(told.contains(line), "{line:?} in {told}");
    }
}

/// The worker process.
#[test]
fn worker() {
    let Some(place) = kill_at_gate::folder() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // The author of the report is silent, so that the held approval is not answered before the kill.
    let fault = Some(("synthesis".to_owned(), InjectedFault::Silence));
    let arguments = Arguments { fault, unattended: true, ..Arguments::default() };
    let out = &mut Held::new();
    runtime.block_on(audit(&arguments, &place.join("data"), &place.join("folder"), out)).map(drop).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_that_is_killed_goes_on_and_scans_nothing_twice() {
    let place = tempfile::tempdir().unwrap();
    plant(&place.path().join("folder")).unwrap();
    kill_at_gate::kill_at_first_gate(place.path());
    let (audited, told) = audited(place.path(), None).await;
    assert!(told.starts_with("run   security-audit: goes on where it was\n"), "{told}");
    assert!(!told.contains("gate  "), "what was answered is not asked again: {told}");
    assert_eq!((audited.report.as_str(), attempts(&audited)), (REPORT, [2, 1, 1, 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_open_audit_of_another_folder_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    plant(&place.path().join("folder")).unwrap();
    kill_at_gate::kill_at_first_gate(place.path());
    let (data, clean) = (place.path().join("data"), place.path().join("clean"));
    std::fs::create_dir(&clean).unwrap();
    let arguments = Arguments { unattended: true, ..Arguments::default() };
    let mut told = Vec::new();
    let other = audit(&arguments, &data, &clean, &mut told).await.unwrap();
    assert_eq!(other.report, "# 0 findings in 0 files\n\nNothing was found.\n");
    assert_eq!(String::from_utf8(told).unwrap(), "", "it does not go on with anything");
    let (audited, told) = audited(place.path(), None).await;
    assert!(told.starts_with("run   security-audit: goes on where it was\n"), "{told}");
    assert_eq!(audited.report, REPORT);
}
