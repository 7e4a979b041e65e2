"""Measures the peers in turns, and prints a table. Started by run.sh."""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).parent
AT_ONCE = [(1, 3), (16, 1), (256, 1)]
SYNCS = 100
# The longest that anything here may take, in seconds.
PATIENCE = 180


class Peer:
    """A process that is told what to measure, line by line."""

    def __init__(self, name, word, command, **more):
        self.name, self.word = name, word
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more
        )
        while self.line() != "ready":
            pass

    def line(self):
        # Who does not answer is ended, and then its output ends.
        overdue = threading.Timer(PATIENCE, self.process.kill)
        overdue.start()
        line = self.process.stdout.readline()
        overdue.cancel()
        if not line:
            raise SystemExit(f"{self.name} said nothing for {PATIENCE} s, or ended: {self.process.poll()}")
        return line.strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.line())

    def steps(self, at_once, rounds):
        return self.ask(f"{self.word} {at_once} {rounds}")

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def postgres(folder):
    """A server of its own in a folder, and where to reach it; nothing where there is none."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres")) or [shutil.which("postgres")]
    if not found[-1]:
        return None, None
    programs = pathlib.Path(found[-1]).parent
    folder.mkdir()
    become = []
    if os.geteuid() == 0:
        # It refuses to be run by root.
        shutil.chown(folder, "postgres")
        for above in folder.parents:
            if not os.stat(above).st_mode & 0o001:
                os.chmod(above, os.stat(above).st_mode | 0o011)
        become = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
    data = folder / "data"
    subprocess.run(
        [*become, programs / "initdb", "-D", data, "-U", "dbos", "-A", "trust"],
        check=True, stdout=subprocess.DEVNULL, cwd=folder,
    )
    port = "55432"
    server = subprocess.Popen(
        [*become, programs / "postgres", "-D", data, "-k", folder, "-p", port,
         "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
    )
    ready = [programs / "pg_isready", "-h", "127.0.0.1", "-p", port, "-t", "60"]
    for _ in range(100):
        if subprocess.run(ready, stdout=subprocess.DEVNULL).returncode == 0:
            break
        threading.Event().wait(0.2)
    return server, f"postgresql://dbos@127.0.0.1:{port}/dbos"


def main():
    work, ours, rounds = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    (work / "ours").mkdir()
    server, url = postgres(work / "postgres")
    python = sys.executable
    ostler = Peer("Ostler, steps that act", "effectful", [ours, "--peer", work / "ours"])
    peers = [ostler]
    pure = object.__new__(Peer)
    pure.name, pure.word, pure.process = "Ostler, steps that only look", "pure", ostler.process
    peers.append(pure)
    peers.append(Peer("Restate", "steps", ["node", "restate.mjs", work / "restate", "19080"], cwd=work,
                      env={**os.environ, "RESTATE_LOGGING": "ERROR", "NODE_ENV": "production"}))
    dbos = [python, HERE / "dbos_steps.py"]
    peers.append(Peer("DBOS on SQLite", "steps", [*dbos, f"sqlite:///{work}/dbos.sqlite"]))
    if url:
        peers.append(Peer("DBOS on PostgreSQL", "steps", [*dbos, url]))
    syncs, measured = [], {}
    for round_ in range(rounds + 1):
        for at_once, times in AT_ONCE:
            for peer in peers:
                # What the one before left to be written is none of the next.
                os.sync()
                before = ostler.ask(f"probe {SYNCS}")
                steps = peer.steps(at_once, times)
                os.sync()
                probe = (before + ostler.ask(f"probe {SYNCS}")) / 2
                # The first round warms up.
                if round_:
                    syncs.append(probe)
                    measured.setdefault((peer.name, at_once), []).append((steps, steps / probe))
    versions = subprocess.run(
        ["npm", "ls", "--depth", "0"], cwd=work, capture_output=True, text=True, check=False
    ).stdout.split("\n")[1:3]
    installed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "freeze"], capture_output=True, text=True, check=True
    ).stdout
    print(", ".join(line.split(" ")[-1] for line in versions if line), end=", ")
    print(next(line for line in installed.split("\n") if line.startswith("dbos=")))
    low, high = statistics.quantiles(syncs, n=20)[0], statistics.quantiles(syncs, n=20)[-1]
    print(f"fdatasync of 300 bytes: {statistics.median(syncs):.0f}/s ({low:.0f} to {high:.0f})\n")
    print("| steps/s (÷ fdatasync/s) | 1 at a time | 16 | 256 |")
    print("|:--|--:|--:|--:|")
    for peer in peers:
        cells = []
        for at_once, _ in AT_ONCE:
            pairs = measured[peer.name, at_once]
            steps, ratio = (statistics.median(column) for column in zip(*pairs))
            cells.append(f"{steps:,.0f} ({ratio:.2f})")
        print(f"| {peer.name} | {' | '.join(cells)} |")
    for peer in [peer for peer in peers if peer is not pure]:
        peer.end()
    if server:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
