//! Reads a plan file of arbitrary bytes in each format and prints its findings, without panic or hang.

use std::collections::{BTreeMap, BTreeSet};

use ostler::kernel::plan::Settings;
use ostler::plan_file::{Format, PlanFile, RenderStyle};

/// Reads `bytes` in each format; returns the number of findings.
pub(crate) fn plan(bytes: &[u8]) -> usize {
    let text = String::from_utf8_lossy(bytes);
    let tools: BTreeSet<String> = ["fs.list", "fs.read", "text.search"].map(str::to_owned).into();
    let settings = Settings::simulation(Default::default(), Some(&tools));
    let mut shown = 0;
    for format in [Format::Yaml, Format::Json, Format::Toml] {
        let file = PlanFile::parse("plan", format, &text, &BTreeMap::new());
        for finding in file.validate(&settings).err().into_iter().flatten() {
            let place = finding.place.as_ref();
            assert!(place.is_none_or(|place| place.offset <= text.len()), "{finding:?}");
            assert!(!file.show(&finding, RenderStyle::default()).is_empty());
            shown += 1;
        }
    }
    shown
}
