"""The same graph of small steps in Ostler, redun and Snakemake: executed in full, repeated unchanged, and repeated after one edit.

Usage: lineage.py WORK OSTLER NODES ROUNDS. WORK/venv has redun and snakemake. A source, NODES - 2 steps that read it, and a sink
that reads all of them; each step writes a line of text. Times are of the whole command, in turns; the median of the rounds counts.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time

WORK, OSTLER, NODES, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
MIDDLE = NODES - 2
BIN = os.path.join(WORK, "venv", "bin")
SLOTS = 2

REDUN = """
from redun import task
redun_namespace = "bench"

@task(version="1")
def source(): return "source"

@task(version="1")
def step(text, word): return text + word

@task(version="1")
def sink(lines): return "".join(lines)

@task(version="1")
def main(edit: str = "0"):
    text = source()
    return sink([step(text, f" {at}" + (edit if at == 1 else "")) for at in range(%d)])
"""

SNAKEMAKE = """
EDIT = str(config.get("edit", "0"))
rule all:
    input: "sink.txt"
rule source:
    output: "source.txt"
    shell: "echo source > {output}"
rule step:
    input: "source.txt"
    output: "step{at}.txt"
    params: word=lambda wildcards: wildcards.at + (EDIT if wildcards.at == "1" else "")
    shell: "echo {params.word} | cat {input} - > {output}"
rule sink:
    input: [f"step{at}.txt" for at in range(%d)]
    output: "sink.txt"
    shell: "cat step*.txt > {output}"
"""


def plan(edit):
    """The plan of Ostler; `edit` is part of one step."""
    step = lambda at: {
        "id": f"step{at}", "tool": "text.render", "deps": ["source"],
        "params": {"values": {"word": f"{at}{edit if at == 1 else ''}"}},
        "param_refs": {"template": {"from": "source", "path": "text", "template": "{} {{ word }}"}},
    }
    steps = [step(at) for at in range(MIDDLE)]
    source = {"id": "source", "tool": "text.render", "params": {"template": "source", "values": {}}}
    lines = "".join("{{ step%d.result.text }}" % at for at in range(MIDDLE))
    sink = {"id": "sink", "kind": "aggregator", "deps": [each["id"] for each in steps], "params": {"template": lines}}
    return {"id": "bench", "nodes": [source, *steps, sink]}


def timed(command, folder, environment=None):
    begun = time.monotonic()
    ended = subprocess.run(command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    took = time.monotonic() - begun
    if ended.returncode:
        sys.exit(f"{command}: {ended.stdout[-2000:]}\n{ended.stderr[-2000:]}")
    return took


class Ostler:
    name = "ostler"

    def start(self, folder):
        for edit in ("0", "x"):
            with open(os.path.join(folder, f"plan{edit}.json"), "w", encoding="utf-8") as file:
                json.dump(plan(edit), file)

    def run(self, folder, edit):
        return timed([OSTLER, "run", f"plan{edit}.json"], folder)


class Redun:
    name = "redun"

    def start(self, folder):
        with open(os.path.join(folder, "flow.py"), "w", encoding="utf-8") as file:
            file.write(REDUN % MIDDLE)

    def run(self, folder, edit):
        return timed([os.path.join(BIN, "redun"), "run", "flow.py", "main", "--edit", edit], folder)


class Snakemake:
    name = "snakemake"

    def start(self, folder):
        with open(os.path.join(folder, "Snakefile"), "w", encoding="utf-8") as file:
            file.write(SNAKEMAKE % MIDDLE)

    def run(self, folder, edit):
        command = [os.path.join(BIN, "snakemake"), "--cores", str(SLOTS), "--quiet", "all", "--config", f"edit={edit}"]
        return timed(command, folder, {"XDG_CACHE_HOME": folder})


def main():
    times = {}
    for at in range(ROUNDS):
        for system in (Ostler(), Redun(), Snakemake()):
            folder = os.path.join(WORK, f"{system.name}{at}")
            os.makedirs(folder)
            system.start(folder)
            for case, edit in (("in full", "0"), ("unchanged", "0"), ("one edit", "x")):
                times.setdefault((system.name, case), []).append(system.run(folder, edit))
            shutil.rmtree(folder)
    full = {name: statistics.median(all) for (name, case), all in times.items() if case == "in full"}
    print(f"{NODES} nodes, {ROUNDS} rounds")
    for (name, case), all in times.items():
        median = statistics.median(all)
        print(f"{name:10} {case:10} {median * 1e3:9.0f} ms   {median / full[name]:6.3f} of a full run")


main()
