//! The examples of the guide's page about models.

use ostler_drivers::model::{Models, ModelsConfig};

/// The indented blocks of the page.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in page.lines() {
        match line.strip_prefix("    ") {
            Some(code) => blocks.last_mut().unwrap().push_str(&format!("{code}\n")),
            None if line.is_empty() => blocks.last_mut().unwrap().push('\n'),
            None => blocks.push(String::new()),
        }
    }
    blocks.into_iter().map(|block| block.trim().to_owned()).filter(|block| !block.is_empty()).collect()
}

#[test]
fn configurations_and_scripts_of_the_guide_are_valid() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/models.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (mut configurations, mut scripts) = (0, 0);
    for block in blocks(&page) {
        if block.starts_with('[') {
            let config: ModelsConfig =
                toml::from_str(&block).unwrap_or_else(|error| panic!("{block}\n{error}"));
            assert!(config.check().is_empty(), "{block}\n{:?}", config.check());
            configurations += 1;
        } else {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("s"), &block).unwrap();
            let config: ModelsConfig =
                toml::from_str("[models.default]\nprovider = \"scripted\"\nfile = \"s\"").unwrap();
            let models = Models::new(&config, folder.path(), &|_| None);
            assert!(models.is_ok(), "{block}\n{:?}", models.err());
            scripts += 1;
        }
    }
    assert_eq!((configurations, scripts), (6, 1));
}
