//! The pages of `docs/errors`.

use ostler_kernel::pipeline::SpecFault;
use ostler_kernel::policy::FaultCode;

macro_rules! page {
    ($code:literal) => {
        ($code, include_str!(concat!("../../../../docs/errors/", $code, ".md")))
    };
}

const PAGES: &[(&str, &str)] = &[
    page!("AUDIT_UNAVAILABLE"),
    page!("BUDGET_CUMULATIVE"),
    page!("CLEARANCE_DENIED"),
    page!("CLEARANCE_MALFORMED"),
    page!("CLEARANCE_REDIRECT"),
    page!("CLEARANCE_TIMEOUT"),
    page!("CLEARANCE_UNREACHABLE"),
    page!("D00"),
    page!("D01"),
    page!("D02"),
    page!("D03"),
    page!("D04"),
    page!("D05"),
    page!("D06"),
    page!("D07"),
    page!("D08"),
    page!("DENY_BUDGET"),
    page!("EGRESS_FORBIDDEN"),
    page!("EGRESS_LABEL"),
    page!("IMPACT_OVER_INTENT"),
    page!("IMPACT_OVER_SCOPE_CAP"),
    page!("IMPACT_OVER_TENANT_CEILING"),
    page!("INTENT_ABOVE_TOKEN"),
    page!("LOCKDOWN"),
    page!("OUT_OF_SCOPE"),
    page!("PARAM_POLICY"),
    page!("PARAM_SCHEMA"),
    page!("PATH_ESCAPE"),
    page!("PLAN_FIELD_FORBIDDEN"),
    page!("POLICY_EPOCH_STALE"),
    page!("REF_FOREIGN"),
    page!("RULE_OF_TWO"),
    page!("SCOPE_EMPTY"),
    page!("SCOPE_UNRESOLVED"),
    page!("SEAL_MISMATCH"),
    page!("TAINT_AUTHOR"),
    page!("TAINT_SENSITIVE_PARAM"),
    page!("TOOL_CHANGED"),
    page!("V01"),
    page!("V02"),
    page!("V03"),
    page!("V04"),
    page!("V05"),
    page!("V06"),
    page!("V07"),
    page!("V08"),
    page!("V09"),
    page!("V10"),
    page!("V11"),
    page!("V12"),
    page!("V13"),
    page!("V14"),
    page!("V15"),
    page!("V16"),
    page!("V17"),
    page!("V18"),
    page!("V19"),
    page!("V20"),
    page!("V21"),
    page!("V22"),
    page!("V23"),
    page!("V24"),
    page!("V25"),
    page!("V26"),
    page!("V27"),
    page!("V28"),
    page!("V29"),
    page!("V30"),
    page!("V31"),
    page!("V32"),
    page!("V33"),
    page!("V34"),
    page!("W01"),
    page!("W03"),
    page!("W04"),
    page!("W05"),
    page!("W06"),
    page!("W07"),
    page!("W08"),
    page!("W09"),
    page!("W10"),
    page!("W11"),
    page!("answer"),
    page!("config"),
    page!("job"),
    page!("parameter"),
    page!("pipeline"),
    page!("shape"),
    page!("syntax"),
];

pub(crate) fn codes() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|(code, _)| *code).filter(|code| *code != "pipeline")
}

/// Returns the page of a code, case-insensitively and with `-` for `_`. All pipeline faults share a page, and so do all faults of answers.
pub(crate) fn page(code: &str) -> Option<&'static str> {
    let joined = |text: &str| text.replace('-', "_").to_ascii_lowercase();
    let is_meant = |known: &str| joined(known) == joined(code);
    let is_pipeline = SpecFault::CODES.iter().any(|known| is_meant(known));
    let is_answer = FaultCode::ALL.iter().any(|known| is_meant(&known.to_string()));
    let code = match (is_pipeline, is_answer) {
        (true, _) => "pipeline",
        (false, true) => "answer",
        (false, false) => code,
    };
    PAGES.iter().find(|(known, _)| joined(known) == joined(code)).map(|(_, page)| *page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use ostler_kernel::gate::DenialCode;
    use ostler_kernel::plan::DiagnosticCode;
    use ostler_kernel::policy::RULE_OF_TWO;

    #[test]
    fn every_page_of_the_folder_and_every_rule_is_there() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
        let files = files.map(|name| name.into_string().unwrap().trim_end_matches(".md").to_owned());
        let files: BTreeSet<String> = files.filter(|name| name != "README").collect();
        let known: BTreeSet<String> = PAGES.iter().map(|(code, _)| (*code).to_owned()).collect();
        assert_eq!(known, files);
        for code in DiagnosticCode::ALL {
            assert!(
                page(code.as_str()).is_some_and(|page| page.starts_with(&format!("# {code}: "))),
                "{code}"
            );
        }
        for code in DenialCode::ALL.map(DenialCode::as_str).into_iter().chain([RULE_OF_TWO]) {
            let title = format!("# {code}: ");
            for typed in [code.to_owned(), code.to_lowercase().replace('_', "-")] {
                assert!(page(&typed).is_some_and(|page| page.starts_with(&title)), "{typed}");
            }
        }
        for code in SpecFault::CODES {
            let page = page(code).unwrap_or_default();
            assert!(page.starts_with("# pipeline: ") && page.contains(&format!("`{code}`")), "{code}");
        }
        for code in FaultCode::ALL {
            let page = page(&code.to_string()).unwrap_or_default();
            assert!(page.starts_with("# answer: ") && page.contains(&format!("`{code}`: ")), "{code}");
        }
        assert_eq!(page("v04"), page("V04"));
        assert_eq!(page("V99"), None);
    }
}
