"""What a job costs beyond the engine: from its submit to its last record, beside the engine alone on the same segments.

    python -m bench.end_to_end [--only demo,opus-shaped] [--documents 1500] [--repeats 3] [--json] [--work DIR]

The same documents in turns: by `bench.bare_engine`, which computes what a worker's lanes do and keeps nothing; and by a
worker with a lane per core on SQLite whose model is warm, from the start of the submit to the last record. `demo`:
bulletins, by the bundled model. `opus-shaped`: as many of random words, by the random model in int8, greedily, at most
32 tokens each. Rates are documents a second, medians of the rounds; the ratio is the share of the engine alone.
`lease_ratio` is the same from the first lease on; `cpu_ratio` is by the processor time of the worker's processes,
without the submit's.

Needs the extra `bench` for `opus-shaped`.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from bench.checkpoints.folders import made_once
from bench.checkpoints.tokenizer import SYLLABLES
from bench.harness.machine import cpu_name, load_average
from bench.harness.processes.process_tree import tree_cpu_s
from bench.queue import KVJOBS, environment_of, job_state, run, running, wait_for
from jobs.store.database import Database
from jobs.store.schema import tables

DEMO, OPUS = "demo", "opus-shaped"
_OPUS_TOKENS = 32  # of a translation


@dataclass(frozen=True, slots=True)
class Work:
    """A corpus, and the options of its job."""

    name: str
    corpus: Path
    documents: int
    options: tuple[str, ...]  # of submit, and of the bare engine


@dataclass(frozen=True, slots=True)
class Through:
    """A job through the queue, in seconds."""

    submit_to_record: float
    lease_to_record: float
    cpu_s: float


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.end_to_end", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=f"{DEMO},{OPUS}")
    parser.add_argument("--documents", type=int, default=1_500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=Path, help="a folder for the models; a temporary one without it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    if odd := {*names} - {DEMO, OPUS}:
        parser.error(f"--only: nothing is called {', '.join(sorted(odd))}")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        rows = []
        for one in names:
            work = prepare(one, options.documents, scratch, (options.work or scratch).absolute())
            rows.append(measure(work, options.repeats, scratch))
            if not options.json:
                print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        print(json.dumps(rows))
    else:
        print(f"{cpu_name()}; load average {load_average():.2f}")


def prepare(name: str, documents: int, scratch: Path, models: Path) -> Work:
    """Write the corpus, and make the model if it is missing."""
    corpus = scratch / f"{name}.jsonl"
    if name == DEMO:
        from tools.demo.examples import lines

        corpus.write_text("".join(lines(documents, seed=11, references=False)), encoding="utf-8")
        return Work(name, corpus, documents, ())
    checkpoint = made_once(
        models / OPUS / "checkpoint",
        lambda out: ["bench.checkpoints.models", OPUS, "--layout", "checkpoint", "--out", str(out)],
    )
    made = made_once(models / OPUS / "end-to-end", lambda out: ["bench.added", str(checkpoint), str(out), "int8"])
    corpus.write_text("".join(random_lines(documents)), encoding="utf-8")
    options = ("--model", str(made), "--beam-size", "1", "--max-new-tokens", str(_OPUS_TOKENS))
    return Work(name, corpus, documents, options)


def random_lines(count: int, seed: int = 5) -> Iterator[str]:
    """Documents of one sentence each: 14 to 18 words of the source's syllables, about two tokens a word."""
    rng = random.Random(seed)
    for number in range(count):
        words = ("".join(rng.choices(SYLLABLES["source"], k=rng.randint(5, 7))) for _ in range(rng.randint(14, 18)))
        yield json.dumps({"id": number, "text": " ".join(words).capitalize() + "."}) + "\n"


def measure(work: Work, repeats: int, scratch: Path) -> dict[str, Any]:
    """The row of a work."""
    bare: list[dict[str, float]] = []
    through: list[Through] = []
    command = [sys.executable, "-m", "bench.bare_engine", str(work.corpus), "--json", *work.options]
    for number in range(repeats):
        bare.append(json.loads(run(command, dict(os.environ))))
        through.append(by_a_worker(work, scratch / f"{work.name}-{number}"))
    seconds, cpu_s = (statistics.median(one[key] for one in bare) for key in ("seconds", "cpu_s"))
    ours = statistics.median(one.submit_to_record for one in through)
    return {
        "work": f"end-to-end-{work.name}",
        "peer": "bare-engine",
        "ours": round(work.documents / ours, 1),
        "theirs": round(work.documents / seconds, 1),
        "unit": "documents/s",
        "ratio": round(seconds / ours, 3),
        "lease_ratio": round(seconds / statistics.median(one.lease_to_record for one in through), 3),
        "cpu_ratio": round(cpu_s / statistics.median(one.cpu_s for one in through), 3),
    }


def by_a_worker(work: Work, home: Path) -> Through:
    """The job by one worker, which has translated another one before."""
    environment = environment_of(home, None, None)
    database = Database.open(f"sqlite:///{home / 'kvjobs.db'}")
    warm = home / "warm.jsonl"
    warm.write_text(work.corpus.read_text(encoding="utf-8").partition("\n")[0] + "\n", encoding="utf-8")
    with running([[KVJOBS, "worker"]], environment) as (worker,):
        run([KVJOBS, "submit", str(warm), "--no-reuse", *work.options], environment)
        wait_for(lambda: job_state(database) == "done")
        before = tree_cpu_s(worker.pid)
        run([KVJOBS, "submit", str(work.corpus), "--no-reuse", *work.options], environment)
        wait_for(lambda: job_state(database, 2) == "done", timeout_s=900)
        cpu_s = tree_cpu_s(worker.pid) - before
    with database.reading() as connection:
        columns = tables.Job.created_at, tables.Job.started_at, tables.Job.finished_at
        job = connection.execute(select(*columns).where(tables.Job.id == 2)).one()
    database.close()
    return Through(
        (job.finished_at - job.created_at).total_seconds(), (job.finished_at - job.started_at).total_seconds(), cpu_s
    )


if __name__ == "__main__":
    main()
