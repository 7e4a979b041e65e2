"""Figures of guards and lists: python3 benches/dynamic.py target/release/ostler

Simulates generated cases; prints the lines of docs/performance.md. CPU time is that of the whole process, with the
reading of the case; compared cases alternate, and the smallest of several rounds counts.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile

ROUNDS = 7
CHILDREN = 10_000
GUARDED, GUARDS = 5_000, 16
CONTRACT = [{"method": "schema"}]
SOURCE = {"id": "src", "contract": CONTRACT}


def case(name, nodes, result):
    policy = {"slots": 256, "max_nodes": 2 * CHILDREN + 10}
    script = {"src": [{"ok": result, "dur": 1}], "each": [{"ok": {}, "dur": 1}]}
    return {"id": name, "plan": {"id": "p", "policy": policy, "nodes": nodes}, "script": script}


def expanded():
    each = {"from": "src", "path": "items", "as": "x", "max": CHILDREN}
    nodes = [SOURCE, {"id": "each", "contract": CONTRACT, "for_each": each}, end("each")]
    return case("expanded", nodes, {"items": list(range(CHILDREN))})


def written():
    ids = [f"each.{k}" for k in range(CHILDREN)]
    reference = lambda k: {"x": {"from": "src", "path": f"items.{k}"}}
    children = [{"id": id, "contract": CONTRACT, "param_refs": reference(k)} for k, id in enumerate(ids)]
    collector = {"id": "all", "deps": ["src", *ids], "contract": CONTRACT}
    return case("written", [SOURCE, *children, collector, end("all")], {"items": list(range(CHILDREN))})


def end(after):
    return {"id": "end", "deps": [after], "contract": CONTRACT}


def guarded(first):
    """`first`: value that the first of the guards expects; 1 holds, and all are judged."""
    guard = lambda value: {"from": "src", "path": "v", "op": "eq", "value": value}
    when = [guard(first)] + [guard(1)] * (GUARDS - 1)
    nodes = [{"id": f"n{k}", "contract": CONTRACT, "deps": ["src"], "when": when} for k in range(GUARDED)]
    return case("guarded", [SOURCE, *nodes], {"v": 1, "more": "x" * 3_900})


def cpu(arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def simulated(ostler, cases):
    files = []
    for number, one in enumerate(cases):
        files.append(f"case{number}.jsonl")
        with open(files[-1], "w") as file:
            file.write(json.dumps(one) + "\n")
    rounds = [[cpu([ostler, "simulate", "graph", file]) for file in files] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds)]


def main():
    ostler = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        one, other = simulated(ostler, [expanded(), written()])
        print(f"a list of {CHILDREN:,} children over the same nodes written out: {one / other:.2f}")
        all_of_them, first = simulated(ostler, [guarded(1), guarded(2)])
        judged = GUARDED * (GUARDS - 1)
        print(f"a guard, at most: {(all_of_them - first) / judged * 1e6:.2f} us")


main()
