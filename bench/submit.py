"""How fast a corpus becomes a job: documents per second, peak memory, size of the database.

    python -m bench.submit [--documents 1000000] [--ids sequential|random] [--bad 0] [--postgresql] [--http] [--json]

Writes a corpus of short lines into a temporary folder and submits it into a fresh SQLite file there, or into a fresh
PostgreSQL database, in a process of its own, whose memory is then the submit's alone. TMPDIR is the disk to measure.
With --http it is the body of a request to a `kvjobs web` of its own: the seconds are the client's, the memory is the
server's.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import text

from bench.harness.processes.servers import own_database
from bench.web import serving
from jobs.corpus.corpus import Corpus
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.schema.migrate import upgrade
from jobs.submission.submit import submit
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast a corpus becomes a job.")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--ids", choices=["sequential", "random"], default="sequential")
    parser.add_argument("--bad", type=float, default=0.0, help="share of unreadable lines, 0 to 1")
    parser.add_argument("--postgresql", action="store_true", help="on the server that KVJOBS_TEST_POSTGRES names")
    parser.add_argument("--http", action="store_true", help="as the body of a request")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        url = stack.enter_context(own_database()) if arguments.postgresql else f"sqlite:///{folder / 'kvjobs.db'}"
        corpus = folder / "corpus.jsonl"
        with corpus.open("w", encoding="utf-8") as file:
            file.writelines(make_lines(arguments.documents, arguments.ids, arguments.bad))
        if arguments.http:
            measured = measure_http(corpus, url, folder)
        else:
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                measured = pool.submit(measure, corpus, url).result()
    load = round(os.getloadavg()[0], 1)
    result = {"documents": arguments.documents, "ids": arguments.ids, "bad": arguments.bad, **measured, "load": load}
    if arguments.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:>24}  {value:,}" if isinstance(value, int | float) else f"{key:>24}  {value}")


def make_lines(num_documents: int, ids: str, bad: float) -> Iterator[str]:
    """Lines of about a hundred bytes, the same in every run."""
    rng = random.Random(0)
    for number in range(num_documents):
        if rng.random() < bad:
            yield f'{{"id": {number}, "text": \n'
            continue
        identity = uuid.UUID(int=rng.getrandbits(128)) if ids == "random" else f"doc-{number:08d}"
        yield f'{{"id": "{identity}", "text": "The quick brown fox number {number} jumps over the lazy dog."}}\n'


def measure(path: Path, url: str) -> dict[str, Any]:
    """Submit the corpus once."""
    database = Database.open(url)
    options = TranslateOptions()
    spec = JobSpec(task=Task.TRANSLATE, model="bench", model_revision="0" * 64, options=options)
    started, cpu_started = time.perf_counter(), time.process_time()
    submitted = submit(database, Corpus(path=path), spec, spool=path.parent)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    size = size_of(database)
    database.close()
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "documents_per_s": round(submitted.documents / seconds),
        "documents_per_cpu_s": round(submitted.documents / cpu_seconds),
        "rejected": submitted.rejected,
        "shards": submitted.shards,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "corpus_mb": path.stat().st_size >> 20,
        "database_mb": size >> 20,
    }


def measure_http(path: Path, url: str, folder: Path) -> dict[str, Any]:
    """Send the corpus once to a server of its own, piece by piece, by a client that was answered before."""
    database = Database.connect(url)
    upgrade(database.engine)
    with serving(url, folder) as web, httpx2.Client(base_url=f"http://127.0.0.1:{web.port}", timeout=None) as client:
        client.post("/api/jobs", content=b'{"id": 1, "text": "The first."}').raise_for_status()
        memory = peak_memory_mb(web.pid)
        started = time.perf_counter()
        with path.open("rb") as file:
            answer = client.post("/api/jobs", content=iter(lambda: file.read(1 << 16), b"")).raise_for_status().json()
        seconds = time.perf_counter() - started
        job, peak = answer["job"], peak_memory_mb(web.pid)
    size = size_of(database)
    database.close()
    return {
        "seconds": round(seconds, 2),
        "documents_per_s": round(job["documents"] / seconds),
        "rejected": job["rejected"],
        "shards": job["shards"],
        "peak_memory_mb": peak,
        "memory_before_mb": memory,
        "corpus_mb": path.stat().st_size >> 20,
        "database_mb": size >> 20,
    }


def peak_memory_mb(pid: int) -> int:
    """The most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) >> 10


def size_of(database: Database) -> int:
    """Size in bytes; of SQLite with the pages that still stand in the write-ahead log alone."""
    pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    statement = pages if database.is_sqlite else "SELECT pg_database_size(current_database())"
    with database.reading() as connection:
        return int(connection.execute(text(statement)).scalar_one())


if __name__ == "__main__":
    main()
