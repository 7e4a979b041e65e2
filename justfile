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

# Kills real processes at random moments, and looks at what the world saw of it.
torture kills="500":
    OSTLER_KILLS={{kills}} cargo test --release --test torture -- --nocapture

# The conformance suite, through the command.
conformance:
    cargo run --release -- simulate graph kernel/tests/data/graph_cases.jsonl --check

# Rewrites what the pages of the guide print to what is printed now; look at the difference before you commit it.
guide:
    UPDATE_EXPECT=1 cargo test --test guide

# The figures of docs/performance.md; with names, some of them: makespan, overhead, flood, validation, start, memory, agents, disk.
figures *groups:
    cargo bench --bench figures -- {{groups}}

# Instructions of the decisions of a run, held against the baseline; `--renew` writes that anew.
instructions *renew:
    cargo bench --bench instructions -- {{renew}}
