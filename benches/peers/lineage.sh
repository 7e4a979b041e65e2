#!/usr/bin/env bash
# The same graph in Ostler, redun and Snakemake, in full, unchanged and after one edit: `benches/peers/lineage.sh [NODES] [ROUNDS]`.
#
# redun and Snakemake come from PyPI, into a temporary folder outside of the repository that is removed in the end. `OSTLER` is the
# command (else target/release/ostler).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

ours="${OSTLER:-$(pwd)/target/release/ostler}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet redun snakemake
"$work/venv/bin/python" benches/peers/lineage.py "$work" "$ours" "${1:-1000}" "${2:-3}"
