#!/bin/sh
# Stands for cargo where the commands of a page are typed: what it would build has been built for the test.
case "$*" in
"run -- "*)
    shift 2
    exec ostler "$@"
    ;;
"install --locked --profile dist --path ." | "test --workspace" | "run --example spawn_agents") exit 0 ;;
*)
    echo "no test stands behind: cargo $*"
    exit 101
    ;;
esac
