"""How fast the queue itself is, and what it costs.

    python -m bench.queue [--documents 100000] [--workers 1,2,4] [--only SQLite,fleet,celery,share] [--json]

With an engine that answers at once (`bench/instant`): documents a second of the submit, from the first lease to the
last record, and from the start of the submit to the last record; on SQLite, and on PostgreSQL + Redis, by processes
of `kvjobs worker` with one lane each. Beside it plain Celery with one message a document on the same Redis, its tasks
writing nothing at all, and its tasks writing one row each. Then the demo model: the same segments by the bare engine
and through the queue. PostgreSQL is the server that KVJOBS_TEST_POSTGRES names (a database is made and dropped);
Redis is started for this run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import select, text

from bench.harness.processes.process_tree import tree_cpu_s
from bench.harness.processes.servers import own_database, redis_server
from bench.submit import make_lines, size_of
from jobs.store.database import Database
from jobs.store.schema import tables

KVJOBS = str(Path(sys.executable).with_name("kvjobs"))
INSTANT = Path(__file__).with_name("instant")
PARTS = ("sqlite", "fleet", "celery", "share")


def main() -> None:
    parser = argparse.ArgumentParser(description="What the queue itself can do, and what it costs.")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=10_000, help="for plain Celery")
    parser.add_argument("--bulletins", type=int, default=1_500, help="for the share of the queue")
    parser.add_argument("--repeats", type=int, default=3, help="of the share; the median counts")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.workers.split(",")]
    wanted = arguments.only.lower().split(",")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name, redis_server() as broker:
        folder = Path(name)
        corpus = folder / "corpus.jsonl"
        with corpus.open("w", encoding="utf-8") as file:
            file.writelines(make_lines(arguments.documents, "sequential", 0.0))
        for count in counts:
            if "sqlite" in wanted:
                rows.append(told(kvjobs_row(corpus, folder / f"sqlite-{count}", count, None, None), arguments.json))
            if "fleet" in wanted:
                with own_database() as url:
                    rows.append(told(kvjobs_row(corpus, folder / f"fleet-{count}", count, url, broker), arguments.json))
            if "celery" in wanted:
                with own_database() as url:
                    for store in (None, url):
                        rows.append(told(celery_row(arguments.messages, count, broker, store), arguments.json))
        if "share" in wanted:
            rows.extend(told(row, arguments.json) for row in share_rows(folder, arguments, broker))
    if arguments.json:
        print(json.dumps(rows))


def told(row: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """Print a row as soon as it is measured."""
    if not quiet:
        print(
            "  ".join(f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in row.items())
        )
        sys.stdout.flush()
    return row


def kvjobs_row(corpus: Path, home: Path, workers: int, url: str | None, broker: str | None) -> dict[str, Any]:
    """One corpus through waiting workers: documents per second of each part."""
    environment = environment_of(home, url, broker) | {"PYTHONPATH": str(INSTANT)}
    database = Database.open(url or f"sqlite:///{home / 'kvjobs.db'}")
    with running([[KVJOBS, "worker", "--lanes", "1"]] * workers, environment):
        wait_for(lambda: len(ids(database, tables.Worker)) == workers)
        started = time.monotonic()
        run([KVJOBS, "submit", str(corpus)], environment)
        submitted = time.monotonic()
        wait_for(lambda: job_state(database) == "done", timeout_s=900)
        ended = time.monotonic()
    with database.reading() as connection:
        job = connection.execute(select(tables.Job.started_at, tables.Job.finished_at)).one()
        succeeded = connection.execute(select(tables.JobCounts.succeeded)).scalar_one()
    seconds = (job.finished_at - job.started_at).total_seconds()
    row = {
        "part": "PostgreSQL + Redis" if url else "SQLite",
        "workers": workers,
        "documents": succeeded,
        "submit/s": round(succeeded / (submitted - started)),
        "lease to record/s": round(succeeded / seconds),
        "end to end/s": round(succeeded / (ended - started)),
        "bytes a document": sizes(database, succeeded),
    }
    database.close()
    return row


def celery_row(messages: int, workers: int, broker: str, url: str | None) -> dict[str, Any]:
    """One message per document: all are sent, then processed by `workers` processes."""
    environment = {**os.environ, "BENCH_BROKER": broker, "BENCH_DATABASE": url or ""}
    command = [sys.executable, "-m", "celery", "-A", "bench.plain_celery", "worker", "--pool", "prefork"]
    command += ["--concurrency", str(workers), "--loglevel", "ERROR", "--without-mingle", "--without-gossip"]
    from bench.plain_celery import app_of, done, prepare

    app = app_of(broker)
    prepare(broker, url)
    with running([command], environment):
        wait_for(lambda: bool(app.control.ping(timeout=0.5)))
        started = time.monotonic()
        with app.producer_or_acquire() as producer:
            for number in range(messages):
                app.send_task("translate", (number, f"The quick brown fox number {number}."), producer=producer)
        sent = time.monotonic()
        wait_for(lambda: done(broker, url) >= messages, timeout_s=900)
        ended = time.monotonic()
    return {
        "part": "plain Celery, " + ("one INSERT a document" if url else "nothing stored"),
        "workers": workers,
        "documents": messages,
        "submit/s": round(messages / (sent - started)),
        "end to end/s": round(messages / (ended - started)),
    }


def share_rows(folder: Path, arguments: argparse.Namespace, broker: str) -> Iterator[dict[str, Any]]:
    """The demo model: seconds of the bare engine divided by those from the first lease to the last record."""
    from tools.demo.examples import lines

    corpus = folder / "bulletins.jsonl"
    with corpus.open("w", encoding="utf-8") as file:
        file.writelines(lines(arguments.bulletins, seed=11, references=False))
    measured: dict[str, list[tuple[float, ...]]] = {"SQLite": [], "PostgreSQL + Redis": []}
    for number in range(arguments.repeats):
        for name in measured:
            alone = json.loads(
                run(
                    [sys.executable, "-m", "bench.bare_engine", str(corpus), "--lanes", "1", "--json"], dict(os.environ)
                )
            )
            home = folder / f"share-{number}-{len(name)}"
            if name == "SQLite":
                through = queue_seconds(corpus, home, None, None)
            else:
                with own_database() as url:
                    through = queue_seconds(corpus, home, url, broker)
            measured[name].append((alone["seconds"], *through, alone["cpu_s"]))
    for name, runs in measured.items():
        shares = sorted(bare / seconds for bare, seconds, *_ in runs)
        bare, seconds, queue, cpu_s, bare_cpu_s = (
            sorted(values)[len(values) // 2] for values in zip(*runs, strict=True)
        )
        yield {
            "part": f"demo model, {name}",
            "documents": arguments.bulletins,
            "bare engine s": round(bare, 2),
            "through the queue s": round(seconds, 2),
            "engine's share": f"{shares[len(shares) // 2]:.1%}",
            "of": f"{shares[0]:.1%} to {shares[-1]:.1%}",
            "cpu_ratio": round(bare_cpu_s / cpu_s, 3),
            "queue and record, of the lane's time": f"{queue:.1%}",
        }


def queue_seconds(corpus: Path, home: Path, url: str | None, broker: str | None) -> tuple[float, float, float]:
    """From the first lease to the last record, by one worker of one lane whose model is warm; and which share of the
    lane's time went into leasing and recording, as the steps say; and the processor time of the worker's processes."""
    environment = environment_of(home, url, broker)
    database = Database.open(url or f"sqlite:///{home / 'kvjobs.db'}")
    warm = corpus.with_name("warm.jsonl")
    warm.write_text('{"id": 1, "text": "Fog in the morning."}\n')
    with running([[KVJOBS, "worker", "--lanes", "1"]], environment) as (worker,):
        run([KVJOBS, "submit", str(warm), "--no-reuse"], environment)
        wait_for(lambda: job_state(database) == "done")
        before = tree_cpu_s(worker.pid)
        run([KVJOBS, "submit", str(corpus), "--no-reuse"], environment)
        wait_for(lambda: job_state(database, 2) == "done", timeout_s=900)
        cpu_s = tree_cpu_s(worker.pid) - before
    with database.reading() as connection:
        job = connection.execute(select(tables.Job.started_at, tables.Job.finished_at).where(tables.Job.id == 2)).one()
        phases = connection.execute(text("SELECT phase, seconds FROM v_phases WHERE job_id = 2"))
        spent = {row.phase: row.seconds for row in phases}
    database.close()
    seconds = float((job.finished_at - job.started_at).total_seconds())
    return seconds, (spent["queue"] + spent["record"]) / sum(spent.values()), cpu_s


def sizes(database: Database, documents: int) -> str:
    """Bytes per document: of the largest tables, or of the whole SQLite database."""
    if database.is_sqlite:
        return f"{size_of(database) / documents:.0f}"
    parts = []
    with database.reading() as connection:
        for table in ("documents", "translations", "shards", "shard_events", "steps"):
            size = connection.execute(text(f"SELECT pg_total_relation_size('{table}')")).scalar_one()
            parts.append(f"{table} {size / documents:.0f}")
    return ", ".join(parts)


def environment_of(home: Path, url: str | None, broker: str | None) -> dict[str, str]:
    """Environment variables with a home folder, a database and a broker of its own."""
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
    return {**kept, "KVJOBS_HOME": str(home), "KVJOBS_DATABASE": url or "", "KVJOBS_BROKER": broker or ""}


@contextmanager
def running(commands: list[list[str]], environment: dict[str, str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are terminated when the block ends."""
    with open(os.devnull, "wb") as nowhere:
        started = [subprocess.Popen(c, env=environment, stdout=nowhere, stderr=nowhere) for c in commands]
        try:
            yield started
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(timeout=60)


def run(command: list[str], environment: dict[str, str]) -> str:
    """Run a command and return what it prints; raise SystemExit if it fails."""
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{command} ended with {ended.returncode}: {ended.stderr}")
    return ended.stdout


def wait_for(condition: Any, timeout_s: float = 60.0) -> None:
    """Poll every 20 ms until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing happened within {timeout_s:.0f} s")
        time.sleep(0.02)


def job_state(database: Database, job_id: int = 1) -> str | None:
    """The state of a job; None before it exists."""
    with database.reading() as connection:
        return connection.execute(select(tables.Job.state).where(tables.Job.id == job_id)).scalar()


def ids(database: Database, table: Any) -> list[int]:
    """The ids of the rows so far."""
    with database.reading() as connection:
        return list(connection.execute(select(table.id)).scalars())


if __name__ == "__main__":
    main()
