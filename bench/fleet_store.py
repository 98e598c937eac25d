"""How many workers one PostgreSQL serves, and where it bends.

    python -m bench.fleet_store [--load saturating] [--workers 1,10,50,100,250,500,1000] [--jobs 1] [--seconds 15]
    python -m bench.fleet_store --load paced --workers 100,500,1000     a batch takes 2 to 5 s, as on a CPU
    python -m bench.fleet_store --load idle --workers 1000              there is nothing to do
    python -m bench.fleet_store --load hints --workers 1000             what the dispatcher sends them

Simulated workers run the code of real ones (`worker.drain`, `worker.leased_shard`, `worker.process.lease_keeper`; with
`--load paced` and `--load idle` also the reaper and the dispatcher of their parents) with an engine that computes
nothing and answers as the demo model does: as many results, entries of the memory and timings. They are threads
of a few processes, each with connections of its own. The server is started for this run, on the same machine, so its
processor time is given beside that of the workers: real workers are elsewhere.

Needs the programs of the server of PostgreSQL, and redis-server for all but `--load saturating`.
"""

import argparse
import contextlib
import json
import math
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from bench.fleet.hints import measure_hints
from bench.fleet.load_process import Counted, LoadProcesses, Window
from bench.fleet.postgresql_server import PostgresqlServer, postgresql_server
from bench.fleet.server_watch import ServerUse, watch
from bench.fleet.simulated_worker import Load
from bench.fleet.table_sizes import per_document
from bench.harness.machine import cpu_name, load_average
from bench.harness.processes.servers import redis_server
from jobs.corpus.corpus import Corpus
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.schema.migrate import upgrade
from jobs.submission.submit import submit
from jobs.tasks.shared_options import Timing
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions

CONNECTIONS_PER_WORKER = 4  # at most: lane, heartbeat, reaper, dispatcher
PACE_S = {"saturating": (0.0, 0.0), "paced": (2.0, 5.0), "idle": (0.0, 0.0)}
HINTS = "hints"
WARM_UP_S, WARM_UP_S_PER_WORKER = 12.0, 0.1  # statements are made and planned in the first batches of each
WORKERS_PER_PROCESS = 25  # with 60, threads that wait for Python took more of the processor than those that had it
SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "8GB"}
PERCENTILES = (50, 95, 99)
WORDS = ["".join(random.Random(seed).choices("aeioustrnlmk", k=2 + seed % 9)) for seed in range(4_000)]


def main() -> None:
    parser = argparse.ArgumentParser(description="How many workers one PostgreSQL serves.")
    parser.add_argument("--load", choices=[*PACE_S, HINTS], default="saturating")
    parser.add_argument("--pace", metavar="FROM,TO", help="seconds that a batch takes, in place of those of the load")
    parser.add_argument("--workers", default="1,10,50,100,250,500,1000")
    parser.add_argument("--jobs", default="1", help="numbers of jobs that the documents are spread over")
    parser.add_argument("--seconds", type=float, default=15.0, help="that are measured, after a warm-up")
    parser.add_argument("--documents", type=int, default=600_000)
    parser.add_argument("--processes", type=int, help="that the workers are threads of; one for each 25, at least 4")
    parser.add_argument("--timing", choices=[str(timing) for timing in Timing], default="steps", help="of the jobs")
    parser.add_argument("--no-reuse", action="store_true", help="the jobs have no translation memory")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the server")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.workers.split(",")]
    settings = SETTINGS | dict(setting.split("=", 1) for setting in arguments.set)
    rows = []
    with contextlib.ExitStack() as stack:
        is_whole = arguments.load != "saturating"
        broker = stack.enter_context(redis_server()) if is_whole else ""
        server = stack.enter_context(postgresql_server(CONNECTIONS_PER_WORKER * max(counts) + 20, settings))
        from_s, to_s = map(float, arguments.pace.split(",")) if arguments.pace else PACE_S.get(arguments.load, (0, 0))
        load = Load((from_s, to_s), with_parent=is_whole, broker=broker)
        for jobs in map(int, arguments.jobs.split(",")):
            options = TranslateOptions(timing=Timing(arguments.timing), reuse=not arguments.no_reuse)
            template = fill(server, 0 if arguments.load == "idle" else arguments.documents, jobs, options)
            for workers in counts:
                if arguments.load == HINTS:
                    with copied(server, template) as name:
                        row = measure_hints(server.database_url(name), broker, workers)
                else:
                    row = measure(server, template, workers, load, arguments) | {"jobs": jobs}
                rows.append(row)
                if not arguments.json:
                    print(json.dumps(row), flush=True)
    if arguments.json:
        print(json.dumps(rows))
    else:
        print(f"{cpu_name()}; load average {load_average():.2f}")


def fill(server: PostgresqlServer, documents: int, jobs: int, options: TranslateOptions) -> str:
    """Submit the documents, spread over this many jobs, to a new database, which is copied for each measurement; its
    name."""
    name = f"filled_{jobs}"
    _execute(server, f"CREATE DATABASE {name}")
    with contextlib.closing(Database.connect(server.database_url(name))) as database:
        upgrade(database.engine)
        submit_jobs(database, documents, jobs, options)
    return name


def submit_jobs(database: Database, documents: int, jobs: int, options: TranslateOptions) -> None:
    """Submit this many jobs, as `kvjobs submit` does."""
    spec = JobSpec(task=Task.TRANSLATE, model="bench", model_revision="0" * 64, options=options)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(jobs if documents else 0):
            corpus = Path(folder) / f"{number}.jsonl"
            with corpus.open("w", encoding="utf-8") as file:
                file.writelines(make_lines(documents // jobs, seed=number))
            submit(database, Corpus(path=corpus), spec, name=f"job-{number}", spool=Path(folder))


def make_lines(num_documents: int, seed: int) -> Iterator[str]:
    """Documents of two sentences and 195 characters, as the demo's bulletins are in the measurement of a real run."""
    rng = random.Random(seed)
    for number in range(num_documents):
        text = " ".join(rng.choices(WORDS, k=40))
        middle = text.index(" ", 90)
        text = f"{text[:middle]}. {text[middle + 1 : 193]}."
        yield json.dumps({"id": f"doc-{number:08d}", "station": "Glenrock", "text": text}) + "\n"


@contextlib.contextmanager
def copied(server: PostgresqlServer, template: str) -> Iterator[str]:
    """A copy of a database, which is dropped when the block ends; its name."""
    name = f"copy_of_{template}"
    _execute(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    _execute(server, "CHECKPOINT")
    try:
        yield name
    finally:
        _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def measure(
    server: PostgresqlServer, template: str, workers: int, load: Load, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Run this many workers on a copy of the template; what they did in the measured seconds."""
    with copied(server, template) as name:
        connecting = time.monotonic()
        in_processes = arguments.processes or max(4, math.ceil(workers / WORKERS_PER_PROCESS))
        processes = LoadProcesses(server.database_url(name), workers, load, in_processes)
        connected = time.monotonic()
        begin = connected + WARM_UP_S + WARM_UP_S_PER_WORKER * workers
        window = Window(begin, begin + arguments.seconds)
        processes.run(window)
        use = watch(server, name, window)
        counted = processes.counted()
        row = as_row(workers, counted, use, window)
        row["connect s"] = round(connected - connecting, 1)
        row["shards left"] = _shards_ready(server, name)
        return row | per_document(server.database_url(name))


def as_row(workers: int, counted: Counted, use: ServerUse, window: Window) -> dict[str, Any]:
    """Rates a second, milliseconds of each call, and what both sides cost."""
    seconds, batches = window.seconds, len(counted.seconds.get("record", ()))
    row: dict[str, Any] = {"workers": workers}
    for name, calls in sorted(counted.seconds.items()):
        row[f"{name}/s"] = round(len(calls) / seconds, 1)
        row[f"{name} ms"] = "/".join(f"{1000 * value:.0f}" for value in percentiles(calls))
    row["documents/s"] = round(counted.documents / seconds)
    row["server cores"] = round(use.cpu_s / seconds, 2)
    row["worker cores"] = round(counted.cpu_s / seconds, 2)
    row["other cores"] = round(max(0.0, use.machine_s - use.cpu_s - counted.cpu_s) / seconds, 2)
    if batches:
        row["server ms/batch"] = round(1000 * use.cpu_s / batches, 2)
        row["worker ms/batch"] = round(1000 * counted.cpu_s / batches, 2)
        row["log bytes/document"] = round(use.log_bytes / max(1, counted.documents))
    row["transactions/s"] = round(use.transactions / seconds)
    row["connections"] = use.connections
    row["server MB"], row["worker MB"] = use.memory >> 20, counted.memory >> 20
    row["deadlocks"], row["errors"] = use.deadlocks, counted.errors
    row["failures"] = dict(Counter(failure[:120] for failure in counted.failures).most_common(3))
    row["waits"] = dict(use.waits.most_common(6))
    return row


def percentiles(values: list[float]) -> list[float]:
    """The 50th, 95th and 99th."""
    if len(values) < 2:
        return values * len(PERCENTILES)
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return [cuts[percent - 1] for percent in PERCENTILES]


def _shards_ready(server: PostgresqlServer, name: str) -> int:
    with psycopg.connect(server.database_url(name).replace("+psycopg", "")) as connection:
        found = connection.execute("SELECT count(*) FROM shards WHERE state = 'ready'").fetchone()
    return int(found[0]) if found else 0


def _execute(server: PostgresqlServer, statement: str) -> None:
    with psycopg.connect(server.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[arg-type]  # names that this module makes


if __name__ == "__main__":
    main()
