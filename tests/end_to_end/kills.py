"""Kill the worker's child, its parent and `submit --wait` at random moments, and compare with an undisturbed run.

    python -m tests.end_to_end.kills --documents 2000 --kills 10

prints one line a kill and a table of what held; exits with 1 where something did not.
"""

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from worker.demo.examples import lines

KVJOBS = [str(Path(sys.executable).with_name("kvjobs"))]
VICTIMS = ("child", "parent", "submit")


@dataclass(frozen=True)
class Report:
    """What was done, and what came of it."""

    documents: int
    kills: dict[str, int]  # by victim
    identical: bool  # the export, byte for byte, with that of the undisturbed run
    each_once: bool  # every document has exactly one result, the counters say so, and `kvjobs db check` recounts it
    redone: int  # documents that were being computed when their process died
    most_redone: int  # ... in the worst kill
    lanes: int
    batch: int  # documents of the largest batch
    seconds: float

    @property
    def holds(self) -> bool:
        return self.identical and self.each_once and self.most_redone <= self.lanes * self.batch


def run(folder: Path, documents: int, kills: int, seed: int, *, lanes: int = 0, model: str = "demo-en-zh") -> Report:
    """The same corpus twice: once undisturbed, once with `kills` kills."""
    corpus = folder / "corpus.jsonl"
    with corpus.open("w", encoding="utf-8") as file:
        file.writelines(lines(documents, seed=7, references=False))
    quiet = _environment(folder / "quiet", lanes)
    subprocess.run(
        _command(corpus, folder / "quiet.jsonl", model), env=quiet, check=True, capture_output=True, timeout=900
    )
    started = time.monotonic()
    disturbed = _environment(folder / "disturbed", lanes)
    tally = _disturb(_command(corpus, folder / "disturbed.jsonl", model), disturbed, kills, random.Random(seed))
    return _report(folder, documents, tally, lanes, time.monotonic() - started)


def _disturb(command: list[str], environment: dict[str, str], kills: int, chance: random.Random) -> dict[str, int]:
    tally = dict.fromkeys(VICTIMS, 0)
    running = _start(command, environment)
    while sum(tally.values()) < kills:
        time.sleep(chance.uniform(0.3, 2.5))
        if running.poll() is not None:
            break  # the job was over before the kills were
        victim = VICTIMS[sum(tally.values()) % len(VICTIMS)]
        if (pid := _find(running.pid, VICTIMS[::-1].index(victim))) is None:
            continue  # it is just being replaced
        os.kill(pid, signal.SIGKILL)
        tally[victim] += 1
        print(f"  kill -9 of the {victim}", flush=True)
        if victim == "submit":
            running.wait()
            running = _start(command, environment)
    if running.wait(timeout=900) != 0:
        raise SystemExit(f"the command ended with {running.returncode}")
    return tally


def _start(command: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    log = Path(environment["KVJOBS_HOME"]).with_suffix(".log").open("ab")
    with log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _find(pid: int, generations: int) -> int | None:
    """The process that many generations below `pid`: 0 itself, 1 the worker's parent, 2 its child."""
    for _ in range(generations):
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        if not children:
            return None
        pid = int(children[0])
    return pid


def _report(folder: Path, documents: int, tally: dict[str, int], lanes: int, seconds: float) -> Report:
    quiet, disturbed = (folder / f"{name}.jsonl" for name in ("quiet", "disturbed"))
    ids = [json.loads(line)["id"] for line in disturbed.read_text().splitlines()]
    database = sqlite3.connect(folder / "disturbed" / "kvjobs.db")
    succeeded, counted = database.execute("SELECT succeeded, documents FROM job_counts").fetchone()
    (results,) = database.execute("SELECT COUNT(*) FROM translations").fetchone()
    lost = database.execute(
        "SELECT worker_id, SUM(documents) FROM shard_events WHERE event IN ('lost', 'expired') GROUP BY worker_id"
    )
    redone = [documents for _, documents in lost]
    (batch,) = database.execute("SELECT MAX(documents) FROM shard_events WHERE event = 'recorded'").fetchone()
    (most_lanes,) = database.execute("SELECT MAX(lanes) FROM workers").fetchone()
    environment = _environment(folder / "disturbed", lanes)
    recount = subprocess.run([*KVJOBS, "db", "check", "1"], env=environment, check=False, capture_output=True)
    once = len(set(ids)) == len(ids) == succeeded == counted == results == documents and recount.returncode == 0
    return Report(
        documents=documents,
        kills=tally,
        identical=quiet.read_bytes() == disturbed.read_bytes(),
        each_once=once,
        redone=sum(redone),
        most_redone=max(redone, default=0),
        lanes=most_lanes,
        batch=batch,
        seconds=seconds,
    )


def _command(corpus: Path, output: Path, model: str) -> list[str]:
    return [*KVJOBS, "submit", str(corpus), "--model", model, "--wait", "-o", str(output)]


def _environment(home: Path, lanes: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
    return {**kept, "KVJOBS_HOME": str(home), "KVJOBS_LANES": str(lanes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--lanes", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="demo-en-zh")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(
            Path(folder),
            arguments.documents,
            arguments.kills,
            arguments.seed,
            lanes=arguments.lanes,
            model=arguments.model,
        )
    for name, value in vars(report).items():
        print(f"{name:<12}{value}")
    sys.exit(not report.holds)


if __name__ == "__main__":
    main()
