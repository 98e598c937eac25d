"""How long a visitor of the dashboard waits, with ten million documents in the store, while workers record.

    python -m bench.web [--documents 10000000] [--postgresql] [--requests 40] [--only WORDS] [--json]
    python -m bench.web --store URL             a store that an earlier run has filled, or shall fill and leave

Fills a fresh SQLite file, or a fresh PostgreSQL database on the server that KVJOBS_TEST_POSTGRES names: 20,000 shards
in four jobs, of which `--recorded` have results, and 300 small jobs. Then `kvjobs web` runs as a process of its own,
two processes record batches of 128 documents five times a second each, and every page is asked for at places that
differ from request to request: seconds until the first byte. The goal is 300 ms at the 95th percentile, and 100 ms for
/metrics.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from sqlalchemy import text

from bench.harness.filled_store import SHARES, record_shards, submit_corpora
from bench.harness.machine import cpu_name, load_average
from bench.harness.processes.servers import own_database
from jobs.store.database import Database
from jobs.store.schema.migrate import upgrade

KVJOBS = str(Path(sys.executable).with_name("kvjobs"))
GOAL_S, METRICS_GOAL_S = 0.3, 0.1
RECORDERS, PAUSE_S = 2, 0.2
SCORES, AGAIN, TRANSLATIONS, QUERIES = 1, 2, 3, 4  # numbers of the large jobs


@dataclass(frozen=True, slots=True)
class Measured:
    """What the requests for a page took."""

    page: str
    seconds: list[float]  # to the first byte
    size: int  # bytes of the last answer
    codes: list[int]  # status codes that came

    @property
    def p95(self) -> float:
        return statistics.quantiles(self.seconds, n=20, method="inclusive")[-1]

    @property
    def row(self) -> dict[str, Any]:
        middle, longest = statistics.median(self.seconds), max(self.seconds)
        shown = {"first_ms": self.seconds[0], "median_ms": middle, "p95_ms": self.p95, "max_ms": longest}
        return {
            "page": self.page,
            **{name: round(1000 * value, 1) for name, value in shown.items()},
            "bytes": self.size,
            "codes": self.codes,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a visitor of the dashboard waits.")
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--recorded", type=float, default=0.3, help="share of the shards whose results are recorded")
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--store", help="URL of a database to fill, unless it is filled, and to leave")
    parser.add_argument("--requests", type=int, default=40, help="for each page")
    parser.add_argument("--only", default="", help="pages whose name has one of these words, separated by commas")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        url = arguments.store or f"sqlite:///{folder / 'kvjobs.db'}"
        if arguments.postgresql and not arguments.store:
            url = stack.enter_context(own_database())
        filled = fill(url, arguments.documents, arguments.recorded, folder)
        with recording(url), serving(url, folder) as web:
            wanted = [word for word in arguments.only.split(",") if word]
            pages = {
                name: address
                for name, address in addresses(url).items()
                if not wanted or any(word in name for word in wanted)
            }
            measured = [measure(web.port, name, address, arguments.requests) for name, address in pages.items()]
        report(measured, filled | {"cpu": cpu_name(), "load": round(load_average(), 1)}, arguments.json)


def fill(url: str, num_documents: int, recorded: float, folder: Path) -> dict[str, Any]:
    """Fill the store unless it is; what it holds."""
    database = Database.connect(url)
    upgrade(database.engine)
    started = time.perf_counter()
    with database.reading() as connection:
        is_filled = connection.execute(text("SELECT count(*) FROM jobs")).scalar_one() > 0
    if not is_filled:
        submit_corpora(database, num_documents, folder)
        _in_processes(record_all, url, RECORDERS, recorded)
        if not database.is_sqlite:
            with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("VACUUM ANALYZE"))  # as autovacuum does in the course of a year
    with database.reading() as connection:
        sums = text("SELECT sum(documents), sum(succeeded), sum(shards) FROM job_counts")
        documents, results, shards = map(int, connection.execute(sums).one())
        jobs = connection.execute(text("SELECT max(id) FROM jobs")).scalar()
        steps = int(connection.execute(text("SELECT sum(calls) FROM v_phases")).scalar_one())
        if database.is_sqlite:
            size = Path(str(database.engine.url.database)).stat().st_size
        else:
            size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
        where = database.engine.dialect.name
    database.close()
    found = {"store": where, "documents": documents, "results": results, "shards": shards, "jobs": jobs, "steps": steps}
    return found | {"gb": round(size / 1e9, 1), "fill_s": round(time.perf_counter() - started)}


def record_all(url: str, seed: int, recorded: float) -> None:
    """Record as fast as possible, in a process of its own."""
    database = Database.open(url)
    record_shards(database, recorded=recorded, seed=seed)
    database.close()


def record_on(url: str, seed: int) -> None:
    """Record as workers do, in a process of its own."""
    database = Database.open(url)
    record_shards(database, pause_s=PAUSE_S, seed=seed)
    database.close()


def _in_processes(target: Callable[..., None], url: str, number: int, *more: Any) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=target, args=(url, seed, *more)) for seed in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode:
            raise SystemExit(f"recording ended with {process.exitcode}")


@contextmanager
def recording(url: str) -> Iterator[None]:
    """Two processes that record, until the block ends."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=record_on, args=(url, 100 + seed)) for seed in range(RECORDERS)]
    for process in processes:
        process.start()
    try:
        time.sleep(2)
        yield
        if not all(process.is_alive() for process in processes):
            print("no shard was left to be recorded before the last page was measured", file=sys.stderr)
    finally:
        for process in processes:
            process.terminate()
            process.join()


@dataclass(frozen=True, slots=True)
class Serving:
    """A `kvjobs web`."""

    port: int
    pid: int


@contextmanager
def serving(url: str, folder: Path) -> Iterator[Serving]:
    """`kvjobs web` on a free port, until the block ends."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KVJOBS_")}
    environment |= {"KVJOBS_HOME": str(folder / "home"), "KVJOBS_DATABASE": url}
    (folder / "home").mkdir()
    command = [KVJOBS, "web", "--port", "0"]
    with (folder / "web.log").open("w+") as log, subprocess.Popen(command, env=environment, stderr=log) as web:
        try:
            yield Serving(_port(web, folder / "web.log"), web.pid)
        finally:
            web.terminate()


def _port(web: subprocess.Popen[bytes], log: Path) -> int:
    """The port it prints."""
    until = time.monotonic() + 30
    while time.monotonic() < until and web.poll() is None:
        found = log.read_text()
        if "http://127.0.0.1:" in found:
            return int(found.split("http://127.0.0.1:")[1].split("/")[0].split()[0])
        time.sleep(0.05)
    raise SystemExit(f"kvjobs web did not start: {log.read_text()}")


def addresses(url: str) -> dict[str, Callable[[random.Random], str]]:
    """The pages by name, each with what gives the address of a request."""
    database = Database.connect(url)
    with database.reading() as connection:
        rows = connection.execute(
            text("SELECT job_id, documents, shards FROM job_counts WHERE job_id <= :last"), {"last": len(SHARES)}
        )
        documents, shards = {}, {}
        for row in rows:
            documents[row.job_id], shards[row.job_id] = row.documents, row.shards
        first_shards = dict(
            connection.execute(text("SELECT job_id, min(id) FROM shards WHERE job_id <= 4 GROUP BY job_id")).all()
        )
    database.close()

    def listed(job: int, **asked: Any) -> Callable[[random.Random], str]:
        def address(rng: random.Random) -> str:
            after = rng.randrange(documents[job])
            values = {name: value(rng) if callable(value) else value for name, value in asked.items()}
            if "sort" not in asked:
                values["after"] = after
            return f"/jobs/{job}/documents?{urlencode(values)}"

        return address

    def document(job: int, form: str = "") -> Callable[[random.Random], str]:
        return lambda rng: f"/jobs/{job}/documents/doc-{rng.randrange(documents[job]):08d}{form}"

    def of_shard(job: int) -> Callable[[random.Random], str]:
        return lambda rng: f"/jobs/{job}/shards?shard={first_shards[job] + rng.randrange(shards[job])}&state=done"

    def same(address: str) -> Callable[[random.Random], str]:
        return lambda rng: address

    question = "select job_id, count(*) as n from v_shards group by job_id"
    return {
        "overview": same("/"),
        "overview.json": same("/overview.json"),
        "jobs": same("/jobs"),
        "jobs, named": same("/jobs?name=small-17"),
        "jobs, done": same("/jobs?state=done"),
        "job: scores": same(f"/jobs/{SCORES}"),
        "job: scores, threshold": lambda rng: f"/jobs/{SCORES}?below={rng.uniform(2, 400):.1f}",
        "job: running": same(f"/jobs/{AGAIN}"),
        "job: running, json": same(f"/jobs/{AGAIN}.json"),
        "job: translations": same(f"/jobs/{TRANSLATIONS}"),
        "job: queries": same(f"/jobs/{QUERIES}"),
        "job: small": lambda rng: f"/jobs/{rng.randrange(5, 300)}",
        "shards: waiting": same(f"/jobs/{AGAIN}/shards"),
        "shards: one": of_shard(SCORES),
        "documents": listed(TRANSLATIONS),
        "documents: first page": same(f"/jobs/{SCORES}/documents"),
        "documents: running": listed(AGAIN),
        "documents: queries": listed(QUERIES),
        "documents: failed": listed(SCORES, status="failed"),
        "documents: rejected": listed(TRANSLATIONS, status="rejected"),
        "documents: an error": listed(SCORES, status="failed", code="non-finite"),
        "documents: a flag": listed(TRANSLATIONS, flag="repetition"),
        "documents: common word": listed(SCORES, search="kato"),
        "documents: no such word": listed(TRANSLATIONS, search="nowhere"),
        "documents: a field": listed(SCORES, field="lang", value="de"),
        "documents: no such value": listed(SCORES, field="lang", value="xx"),
        "documents: perplexity": listed(SCORES, min_perplexity=lambda rng: rng.uniform(50, 500)),
        "documents: length": listed(SCORES, min_length=lambda rng: rng.randrange(20, 40)),
        "documents: worst first": same(f"/jobs/{SCORES}/documents?sort=worst"),
        "documents: best first": same(f"/jobs/{TRANSLATIONS}/documents?sort=best"),
        "documents: worst of a field": same(f"/jobs/{SCORES}/documents?sort=worst&field=lang&value=de"),
        "documents: worst, a bound": listed(SCORES, sort="worst", max_perplexity=lambda rng: rng.uniform(20, 60)),
        "documents: worst, a word": same(f"/jobs/{SCORES}/documents?sort=worst&search=kato"),
        "documents: condition": listed(SCORES, where="number(quality) < 0.1 and num_words > 10"),
        "documents.json": lambda rng: listed(SCORES)(rng).replace("documents?", "documents.json?"),
        "document: score": document(SCORES),
        "document: translation": document(TRANSLATIONS),
        "document: query": document(QUERIES),
        "document.json": document(TRANSLATIONS, ".json"),
        "compare": same(f"/compare?a={SCORES}&b={AGAIN}"),
        "compare: form": same("/compare"),
        "workers": same("/workers"),
        "models": same("/models"),
        "actions": same(f"/jobs/{SCORES}/actions"),
        "query": same("/query"),
        "query: an answer": same(f"/query?sql={quote(question)}"),
        "schema": same("/schema"),
        "metrics": same("/metrics"),
        "healthz": same("/healthz"),
    }


def measure(port: int, name: str, address: Callable[[random.Random], str], requests: int) -> Measured:
    """Ask for a page again and again, at other places each time."""
    rng = random.Random(name)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    seconds, codes, size = [], set(), 0
    for _ in range(requests):
        asked = address(rng)
        started = time.perf_counter()
        connection.request("GET", asked)
        answer = connection.getresponse()
        seconds.append(time.perf_counter() - started)
        size = len(answer.read())
        codes.add(answer.status)
    connection.close()
    return Measured(name, seconds, size, sorted(codes))


def report(measured: list[Measured], about: dict[str, Any], as_json: bool) -> None:
    """Print the pages, the slowest marked."""
    if as_json:
        print(json.dumps({"about": about, "pages": [one.row for one in measured]}))
        return
    print(
        ", ".join(f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in about.items())
    )
    print(f"{'page':30} {'first':>8} {'median':>8} {'p95':>8} {'max ms':>8} {'bytes':>9}")
    for one in measured:
        row = one.row
        slow = one.p95 > (METRICS_GOAL_S if one.page == "metrics" else GOAL_S)
        mark = ("  too slow" if slow else "") + ("" if row["codes"] == [200] else f"  status {row['codes']}")
        times = " ".join(f"{row[key]:8.1f}" for key in ("first_ms", "median_ms", "p95_ms", "max_ms"))
        print(f"{one.page:30} {times} {row['bytes']:9,}{mark}")
    slow_pages = sum(one.p95 > GOAL_S for one in measured)
    print(f"{len(measured)} pages, {slow_pages} slower than {1000 * GOAL_S:.0f} ms at the 95th percentile")


if __name__ == "__main__":
    main()
