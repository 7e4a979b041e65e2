//! What programs prepare for Ostler, or for the next call.

use ostler_kernel::port::CageRung;

use crate::place::{Place, works};

/// Runs a test on each rung that works.
fn on_each_rung(test: impl Fn(Place)) {
    for rung in [CageRung::Landlock, CageRung::Bubblewrap] {
        if works(rung) {
            test(Place::new(rung));
        }
    }
}

#[test]
fn a_program_cannot_say_that_it_never_started() {
    on_each_rung(|place| {
        // 11 is the error for which a call is made again.
        let script = "echo paid >> ledger; printf '%s 11 x\\n' \"${TMPDIR##*/}\" >&2";
        let value = place.call(script, 1).unwrap();
        assert!(value["stderr"].as_str().unwrap().ends_with(" 11 x\n"), "{value}");
        assert_eq!(std::fs::read_to_string(place.ws().join("ledger")).unwrap(), "paid\n");
    });
}

#[test]
fn what_is_hidden_stays_so_for_the_next_program() {
    on_each_rung(|place| {
        let names = "mv .config c; mv inner i; mv .ostler o; mkdir -p .config/ostler; echo moved";
        let value = place.call(names, 1).unwrap();
        assert!(value["stdout"].as_str().unwrap().contains("moved"), "{value}");
        let read = "cat c/*/* .config/*/* i/.ostler/* inner/.ostler/* o/* .ostler/*; find . -name lock -o -name '*.key'";
        for impact in [0, 1] {
            let value = place.call(&format!("{read}; true"), impact).unwrap();
            assert_eq!(value["stdout"], "", "{value}");
        }
        assert!(place.ws().join(".config/ostler/ostler-operator.key").exists());
    });
}
