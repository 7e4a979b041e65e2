use super::super::notes::{NOTED_MAX, NOTES};
use super::*;

struct World {
    _place: tempfile::TempDir,
    root: PathBuf,
    notes: Workspaces,
}

fn world() -> World {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("ws/sub")).unwrap();
    World { notes: Workspaces::at(&root.join("user")), root, _place: place }
}

#[test]
fn where_no_program_ran_every_configuration_counts() {
    let World { root, notes, .. } = &world();
    notes.note(&[root.join("other")], &BTreeSet::new(), &BTreeSet::new()).unwrap();
    assert!(notes.trusts(&root.join("ws/ostler.toml"), b"1", Origin::Found).unwrap());
    assert!(notes.trusts(&root.join("ws/ostler.toml"), b"2", Origin::Found).unwrap(), "edited");
}

#[test]
fn what_programs_could_not_change_counts_also_when_it_is_edited() {
    let World { root, notes, .. } = &world();
    let (ws, file) = (root.join("ws"), root.join("ws/ostler.toml"));
    notes.note(std::slice::from_ref(&ws), &[file.clone()].into(), &BTreeSet::new()).unwrap();
    assert!(
        notes.trusts(&file, b"1", Origin::Found).unwrap()
            && notes.trusts(&file, b"2", Origin::Found).unwrap()
    );
    assert!(!notes.trusts(&root.join("ws/sub/ostler.toml"), b"1", Origin::Found).unwrap(), "another");
    // The operator removed it, and a program ran.
    notes.note(std::slice::from_ref(&ws), &BTreeSet::new(), &BTreeSet::new()).unwrap();
    assert!(notes.trusts(&file, b"2", Origin::Found).unwrap(), "as it was");
    assert!(!notes.trusts(&file, b"3", Origin::Found).unwrap());
    notes.note(&[ws], &[file.clone()].into(), &BTreeSet::new()).unwrap();
    assert!(!notes.trusts(&file, b"3", Origin::Found).unwrap(), "a program may have made it before");
}

#[test]
fn what_an_operator_accepts_counts_and_may_be_edited_in_the_workspace() {
    let World { root, notes, .. } = &world();
    let (file, inner) = (root.join("ws/ostler.toml"), root.join("ws/sub/ostler.toml"));
    notes.note(&[root.join("ws")], &BTreeSet::new(), &BTreeSet::new()).unwrap();
    for file in [&file, &inner] {
        fs::write(file, "1").unwrap();
        assert!(!notes.trusts(file, b"1", Origin::Found).unwrap());
        assert!(notes.accept(file, b"1").unwrap().starts_with("b3:"));
        assert!(notes.trusts(file, b"1", Origin::Found).unwrap());
    }
    assert!(notes.trusts(&file, b"2", Origin::Found).unwrap());
    assert!(!notes.trusts(&inner, b"2", Origin::Found).unwrap(), "programs can change it");
}

#[test]
fn a_data_folder_counts_that_no_program_could_make() {
    let World { root, notes, .. } = &world();
    let (ws, data) = (root.join("ws"), root.join("ws/.ostler"));
    fs::create_dir(&data).unwrap();
    assert!(notes.trusts_folder(&data).unwrap(), "no program ran there");
    assert!(!notes.accept_folder(&data).unwrap(), "so nothing is accepted");
    let none = BTreeSet::new();
    notes.note(std::slice::from_ref(&ws), &none, &none).unwrap();
    assert!(!notes.trusts_folder(&data).unwrap(), "a program may have made it");
    assert!(notes.accept_folder(&data).unwrap());
    assert!(notes.trusts_folder(&data).unwrap());
    fs::write(data.join("ostler.toml"), "1").unwrap();
    assert!(
        !notes.trusts(&data.join("ostler.toml"), b"1", Origin::Found).unwrap(),
        "its configuration is accepted by itself"
    );
    // A program ran beside it that did not see it.
    notes.note(std::slice::from_ref(&ws), &none, &[data.clone()].into()).unwrap();
    assert!(notes.trusts_folder(&data).unwrap());
    assert!(!notes.trusts_folder(&ws.join("sub")).unwrap(), "another");
    notes.note(&[ws], &none, &none).unwrap();
    assert!(!notes.trusts_folder(&data).unwrap(), "a program could have made it anew");
}

#[test]
fn notes_have_a_limit_and_those_of_folders_that_are_gone_make_room() {
    let World { root, notes, .. } = &world();
    let gone: Vec<PathBuf> = (0..NOTED_MAX).map(|at| root.join(format!("gone{at}"))).collect();
    notes.note(&gone, &BTreeSet::new(), &BTreeSet::new()).unwrap();
    notes.note(&[root.join("ws")], &BTreeSet::new(), &BTreeSet::new()).unwrap();
    assert_eq!(notes.read().unwrap().ran.into_keys().collect::<Vec<_>>(), [root.join("ws")]);
    fs::write(root.join("user").join(NOTES), "{").unwrap();
    let damaged = notes.trusts(&root.join("ws/ostler.toml"), b"1", Origin::Found).unwrap_err();
    assert!(damaged.to_string().contains("is damaged"), "{damaged}");
}

#[test]
fn what_file_tools_cannot_write_counts() {
    let World { root, notes, .. } = &world();
    let (ws, named) = (root.join("ws"), root.join("ws/sub/named.toml"));
    let trusts = |path: &str, content: &[u8]| notes.trusts(&ws.join(path), content, Origin::Found).unwrap();
    fs::write(&named, "1").unwrap();
    std::os::unix::fs::symlink("sub/named.toml", ws.join("link.toml")).unwrap();
    notes.note_files(&ws, &[named.clone()].into()).unwrap();
    assert!(trusts("ostler.toml", b"1") && trusts("ostler.toml", b"2"), "no tool writes that name");
    assert!(trusts("sub/named.toml", b"2"), "no tool could");
    assert!(!trusts("link.toml", b"1") && !trusts("other", b"1"), "a tool could");
    fs::create_dir_all(ws.join(".ostler")).unwrap();
    assert!(
        notes.trusts_folder(&ws.join(".ostler")).unwrap() && !notes.trusts_folder(&ws.join("sub")).unwrap()
    );
    notes.note_files(&ws, &BTreeSet::new()).unwrap();
    assert!(trusts("sub/named.toml", b"2") && !trusts("sub/named.toml", b"3"), "as it was");
    for (path, is_written) in
        [("ws/helper", true), ("ws/gone/helper", true), ("helper", false), ("gone/helper", false)]
    {
        assert_eq!(notes.is_written(&root.join(path)), is_written, "{path}");
    }
}

#[test]
fn a_name_is_a_decision_for_the_content_of_that_time() {
    let World { root, notes, .. } = &world();
    let (ws, file) = (root.join("ws"), root.join("ws/dev.toml"));
    fs::write(&file, "1").unwrap();
    let trusts = |content: &[u8]| notes.trusts(&file, content, Origin::Named).unwrap();
    notes.note(&[ws], &BTreeSet::new(), &BTreeSet::new()).unwrap();
    assert!(trusts(b"1") && trusts(b"1"));
    assert!(!trusts(b"2"), "a program could write it");
    notes.accept(&file, b"2").unwrap();
    assert!(trusts(b"2") && !trusts(b"3"));
}

#[test]
fn a_file_with_hard_links_counts_by_its_content() {
    let World { root, notes, .. } = &world();
    let (file, other) = (root.join("ostler.toml"), root.join("ws/x"));
    fs::write(&file, "1").unwrap();
    fs::hard_link(&file, &other).unwrap();
    let trusts = |content: &[u8]| notes.trusts(&file, content, Origin::Found).unwrap();
    assert!(trusts(b"1") && trusts(b"2"), "no step wrote anywhere");
    notes.note(&[root.join("ws")], &BTreeSet::new(), &BTreeSet::new()).unwrap();
    assert!(trusts(b"2") && !trusts(b"3"));
    assert!(notes.accept(&file, b"3").unwrap_err().to_string().contains("hard links"));
    fs::remove_file(other).unwrap();
    assert!(trusts(b"3"));
}
