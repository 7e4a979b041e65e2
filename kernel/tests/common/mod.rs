//! Reads conformance cases: the copies in `tests/data`, and the shared originals if present.

use std::path::Path;

use serde_json::Value;

pub(crate) fn cases(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Text of the field `name`.
pub(crate) fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().unwrap_or_else(|| panic!("{case} has no text {name}"))
}

/// Fails if the copy differs from the shared original; prints a note if the original is missing.
pub(crate) fn check_copy(file: &str) {
    let shared = std::env::var("OSTLER_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared").to_owned());
    let original = Path::new(&shared).join("conformance").join(file);
    let Ok(original) = std::fs::read(&original) else {
        println!("skipped: no {}", original.display());
        return;
    };
    let copy = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)).unwrap();
    assert!(copy == original, "tests/data/{file} differs from the shared original: copy it again");
}
