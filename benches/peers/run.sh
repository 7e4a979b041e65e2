#!/usr/bin/env bash
# The same workflow of ten steps in Ostler, Restate and DBOS, in turns with an fsync probe, on one disk: `benches/peers/run.sh`.
#
# Restate comes from npm, DBOS from PyPI, into a temporary folder that is removed in the end. Needs node, npm, python3, and for the row
# of PostgreSQL its server (Debian: postgresql). `PEERS_FOLDER` is where the data stands (else target/peers), `PEERS_ROUNDS` how
# often each is measured (else 7).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mkdir -p "${PEERS_FOLDER:-target/peers}"
work="$(mktemp -d "$(cd "${PEERS_FOLDER:-target/peers}" && pwd)/XXXXXX")"
trap 'rm -rf "$work"' EXIT

cargo bench --bench durability --no-run
ours="$(cargo bench --bench durability --no-run --message-format json 2>/dev/null |
    grep -o '"executable":"[^"]*/durability-[^"]*"' | tail -n 1 | cut -d '"' -f 4)"

cp benches/peers/restate.mjs "$work"
(cd "$work" && npm init --yes >/dev/null && npm install --no-audit --no-fund --loglevel error \
    @restatedev/restate-server @restatedev/restate-sdk)
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet dbos 'psycopg[binary]'

"$work/venv/bin/python" benches/peers/compare.py "$work" "$ours" "${PEERS_ROUNDS:-7}"
