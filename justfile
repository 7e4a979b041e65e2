# Shows what there is.
default:
    @just --list

# Everything that CI runs.
verify:
    ./.ci/run

# Formats, and judges the style.
lint:
    cargo fmt
    cargo clippy --workspace --all-targets -- -D warnings

# All tests.
test:
    cargo test --workspace

# Kills real processes at random moments, and looks at what the world saw of it: a hundred times with the other tests, here more.
torture kills="2000":
    OSTLER_KILLS={{kills}} cargo test --release --test torture -- --nocapture

# Takes what durability rests on out of a copy of the sources, one thing at a time, and expects a test to fail; with names, some of them.
mutants *names:
    tests/mutants.sh {{names}}

# Changes the gate, one operator or result at a time, and expects its tests to fail; with a name, one file: `just mutants-gate decide`.
# Needs `cargo install --locked cargo-mutants`, and hours for the whole gate.
mutants-gate file="*":
    cargo mutants --workspace --file 'kernel/src/gate/{{file}}.rs' --test-package ostler-kernel -- --lib --test gate

# The faulty disk by more seeds than the other tests try.
seeds count="100000":
    OSTLER_SEEDS={{count}} cargo test --release --workspace --test seeds -- --nocapture

# The conformance suite, through the command.
conformance:
    cargo run -- simulate graph kernel/tests/data/graph_cases.jsonl --check
    cargo run -- simulate modes kernel/tests/data/mode_cases.jsonl --check
    cargo run -- simulate gate kernel/tests/data/gate_cases.jsonl --check
    cargo run -- simulate lineage kernel/tests/data/lineage_cases.jsonl --check
    cargo run -- simulate lineage kernel/tests/data/own_lineage_cases.jsonl --check

# Rewrites what the pages of the guide print to what is printed now; look at the difference before you commit it.
guide:
    UPDATE_EXPECT=1 cargo test --test guide

# The figures of docs/performance.md; with names, some of them: makespan, overhead, flood, validation, start, memory, agents, disk.
figures *groups:
    cargo bench --bench figures -- {{groups}}

# The figures of durability; with names, some of them: disk, syncs, memory, open, recovery.
durability *groups:
    cargo bench --bench durability -- {{groups}}

# The figures of pipelines; with names, some of them: web, hop, flow, catch.
pipelines *groups:
    cargo bench --bench pipeline -- {{groups}}

# The same workflow in Restate and DBOS, which are fetched from npm and PyPI.
peers:
    benches/peers/run.sh

# Instructions of the decisions of a run, held against the baseline; `--renew` writes that anew.
instructions *renew:
    cargo bench --bench instructions -- {{renew}}

# Every fuzz target for so many seconds, from its seeds; needs a nightly compiler and `cargo install cargo-fuzz`.
fuzz seconds="60":
    for target in plan policy path url stream journal mcp; do mkdir -p "fuzz/corpus/$target" "fuzz/seeds/$target"; cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- -max_total_time={{seconds}} || exit 1; done
