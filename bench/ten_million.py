"""Ten million documents on one machine: submitted, processed, exported and checked, and what each stage costs.

    python -m bench.ten_million [--documents 10000000] [--postgresql] [--workers N] [--options=--no-reuse] [--keep DIR]

The commands are those of users: `kvjobs submit`, then as many `kvjobs worker --drain` of one lane as there are cores,
with an engine that answers at once (`bench/instant`), then `kvjobs export`. The documents are sentences of about 100
characters, no two of them equal, made and checked as streams. Of each stage: documents a second, processor time, the
most memory that the processes of kvjobs have at one time, and for PostgreSQL that of the server, which is one of its
own on the same machine (`bench.fleet.postgresql_server`). Every line of the export is compared with its line of the
corpus: the id, and the text, which is what the engine answers. Then bytes on the disk by table, and the seconds of
commands and pages that look at the finished job.

The job has no translation memory (`--no-reuse`): this engine learns nothing, and by what a batch learns a lane of a job
that has one knows that it is fast, so that it records four batches as one.

`--keep DIR` leaves corpus, SQLite file and export in that folder, where the next run finds the corpus.
"""

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import select, text

from bench.fleet.postgresql_server import PostgresqlServer, postgresql_server
from bench.fleet.table_sizes import SIZES
from bench.fleet.watched_command import run_watched, size_of_files
from bench.fleet_store import SETTINGS
from bench.harness.machine import cpu_name, load_average
from bench.queue import INSTANT, KVJOBS, environment_of
from bench.web import measure, serving
from jobs.store.database import Database
from jobs.store.schema.current_sums import current
from jobs.store.schema.migrate import upgrade
from jobs.store.schema.tables import JobCounts

PLACES = ("Glenrock", "Ashford", "Mill Bay", "Norwick", "Sandwell", "East Harbour", "Tarn Head", "Low Fell", "Ravensby")
SKIES = ("light rain", "heavy rain", "fog", "snow", "hail", "sunshine", "drizzle", "thunder", "sleet", "haze", "frost")
WINDS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")
STEP = 7_654_321  # odd, and not small: neighbours differ in most words
REQUESTS = 5  # for each page
COMMANDS = (
    *(["--version"], ["ls"], ["show", "last"], ["totals", "last"], ["steps", "last"], ["worker", "ls"], ["doctor"]),
    *(["db", "check"], ["db", "check", "last"]),
    ["export", "last", "--where", "contains(translation, 'nowhere')", "-o", "DIR/none.jsonl"],
    ["query", "SELECT count(*) FROM v_documents WHERE job_id = 1"],
)
PAGES = (
    *("/", "/overview.json", "/jobs", "/jobs/1", "/jobs/1.json", "/jobs/1/shards", "/workers", "/metrics"),
    *("/jobs/1/documents", "/jobs/1/documents?after=AT", "/jobs/1/documents/ID"),
    *("/jobs/1/documents?sort=worst", "/jobs/1/documents?sort=best", "/jobs/1/documents?search=nowhere"),
    *("/jobs/1/documents?search=hail", "/jobs/1/documents?status=failed", "/jobs/1/documents?flag=repetition"),
    *("/jobs/1/documents?field=station&value=Norwick", "/jobs/1/documents?where=num_words+%3E+90"),
)
MB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description="Ten million documents on one machine.")
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--postgresql", action="store_true", help="a server of its own, in place of a SQLite file")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="of one lane each")
    parser.add_argument("--options", default="--no-reuse", help="of submit: --options='--no-reuse --timing batches'")
    parser.add_argument("--stop-after", type=float, metavar="MINUTES", help="end the workers, done or not")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work in this folder, and leave it")
    arguments = parser.parse_args()
    print(f"{cpu_name()}; load average {load_average():.2f}", flush=True)
    with ExitStack() as stack:
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kvjobs-bench-")))
        folder.mkdir(parents=True, exist_ok=True)
        server = stack.enter_context(postgresql_server(50, SETTINGS)) if arguments.postgresql else None
        store = Store(folder, server)
        stages(store, folder, arguments)
        told("on the disk", store.on_disk(arguments.documents))
        for name, row in looks(store, folder):
            told(name, row)


class Store:
    """The database of a run: its address, what it costs beside the commands, and what it holds."""

    def __init__(self, folder: Path, server: PostgresqlServer | None) -> None:
        self.server = server
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.url = server.url if server else f"sqlite:///{self.home / 'kvjobs.db'}"
        database = Database.connect(self.url)
        upgrade(database.engine)
        database.close()
        self.environment = environment_of(self.home, self.url, None)

    def cpu_s(self) -> float:
        return self.server.cpu_s() if self.server else 0.0

    def log(self) -> int:
        """Bytes of the write-ahead log on the disk."""
        if self.server is None:
            return size_of_files(self.home, "kvjobs.db-wal")
        with psycopg.connect(self.server.url.replace("+psycopg", "")) as connection:
            row = connection.execute("SELECT sum(size) FROM pg_ls_waldir()").fetchone()
        return int(row[0]) if row else 0

    def memory(self) -> int:
        """Bytes of main memory of the server."""
        return self.server.memory() if self.server else 0

    def count(self, counter: str) -> int:
        """A counter of the job; 0 before there is one."""
        database = Database.connect(self.url)
        with database.reading() as connection:
            found = connection.execute(select(getattr(current(JobCounts), counter))).scalar()
        database.close()
        return int(found or 0)

    def on_disk(self, documents: int) -> dict[str, Any]:
        """Bytes a document of each table that takes any, as table + indexes."""
        if self.server is not None:
            with psycopg.connect(self.url.replace("+psycopg", "")) as connection:
                sizes = {name: (table, indexes) for name, table, indexes in connection.execute(SIZES)}
        else:
            sizes = {}
            database = Database.connect(self.url)
            names = (
                "SELECT tbl_name, sum(CASE type WHEN 'table' THEN size ELSE 0 END),"
                " sum(CASE type WHEN 'index' THEN size ELSE 0 END)"
                " FROM sqlite_schema JOIN (SELECT name, sum(pgsize) AS size FROM dbstat GROUP BY name) USING (name)"
                " GROUP BY tbl_name"
            )
            with database.reading() as connection:
                sizes = {name: (table, indexes) for name, table, indexes in connection.execute(text(names))}
            database.close()
        shown = {
            name: f"{table / documents:.1f} + {indexes / documents:.1f}"
            for name, (table, indexes) in sorted(sizes.items(), key=lambda item: -sum(item[1]))
            if table + indexes >= documents / 2
        }
        return {"GB": round(sum(map(sum, sizes.values())) / 1e9, 2), "bytes a document": shown}


def stages(store: Store, folder: Path, asked: argparse.Namespace) -> None:
    """Run the stages one after another, and print what each cost. Raises SystemExit where the export is not what the
    corpus says."""
    corpus, export = folder / f"corpus-{asked.documents}.jsonl", folder / "export.jsonl"
    started = time.monotonic()
    if not corpus.exists():
        with corpus.open("w", encoding="utf-8") as file:
            file.writelines(make_lines(asked.documents))
    told("corpus", {"documents": asked.documents, "s": round(time.monotonic() - started), "MB": size(corpus)})

    def stage(
        name: str, counted: str, commands: list[list[str]], path: str = "", stop_after_s: float | None = None
    ) -> None:
        server_cpu_s, before = store.cpu_s(), store.count(counted)
        environment = store.environment | ({"PYTHONPATH": path} if path else {})
        cost = run_watched(commands, environment, [store.log, store.memory], stop_after_s)
        documents = store.count(counted) - (before if name != "export" else 0)
        row = {
            "documents": documents,
            "documents/s": round(documents / cost.seconds),
            "s": round(cost.seconds),
            "processor s": round(cost.cpu_s),
            "peak MB": cost.peak_memory // MB,
            "log MB": cost.peaks[0] // MB,
            "load": round(load_average(), 1),
        }
        if store.server is not None:
            row |= {"server s": round(store.cpu_s() - server_cpu_s), "server MB": cost.peaks[1] // MB}
        told(name, row)

    stage("submit", "documents", [[KVJOBS, "submit", str(corpus), *asked.options.split()]])
    path = os.pathsep.join(filter(None, [str(INSTANT), os.environ.get("PYTHONPATH")]))
    worker, stop_after_s = [KVJOBS, "worker", "--drain", "--lanes", "1"], asked.stop_after and 60 * asked.stop_after
    stage("work", "succeeded", [worker] * asked.workers, path, stop_after_s)
    stage("export", "succeeded", [[KVJOBS, "export", "last", "-o", str(export)]])
    started = time.monotonic()
    found = compare(store.count("succeeded"), export)
    told("check", {"equal in id, text and place": found, "s": round(time.monotonic() - started), "MB": size(export)})


def make_lines(documents: int) -> Iterator[str]:
    """The lines of the corpus, the same in every run."""
    for number in range(documents):
        yield json.dumps({"id": f"doc-{number:08d}", "station": PLACES[number % 9], "text": sentence(number)}) + "\n"


def sentence(number: int) -> str:
    """A sentence, another one for each number."""
    rest = number * STEP % 2**31  # another one for each number below 2^31, since STEP is odd
    rest, place = divmod(rest, len(PLACES))
    rest, sky = divmod(rest, len(SKIES))
    rest, wind = divmod(rest, len(WINDS))
    rest, minute = divmod(rest, 24 * 60)
    hour, minute = divmod(minute, 60)
    return (
        f"At {hour:02d}:{minute:02d} the station of {PLACES[place]} reported {SKIES[sky]} with wind from the"
        f" {WINDS[wind]} and {rest} metres of sight."
    )


def compare(documents: int, export: Path) -> int:
    """How many lines an export has. Raises SystemExit at the first that is not a document of the corpus behind the one
    before it, with its own text for a translation, and where there are not so many lines as documents ended."""
    number, place = 0, -1
    with export.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            found = json.loads(line)
            before, place = place, int(found["id"].removeprefix("doc-"))
            if place <= before or (found["status"], found["translation"]) != ("ok", sentence(place)):
                raise SystemExit(f"line {number} of the export is {line!r}, behind document {before}")
    if number != documents:
        raise SystemExit(f"the export has {number} lines, and {documents} documents have a result")
    return number


def looks(store: Store, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Commands and pages on the finished job: seconds of each command, of which the start of Python is the part that
    `--version` takes, and the milliseconds of the slowest of a few requests for each page."""
    for command in COMMANDS:
        arguments = [part.replace("DIR", str(folder)) for part in command]
        if command[0] == "query" and store.server:
            arguments.append("--as-superuser")
        cost = run_watched([[KVJOBS, *arguments]], store.environment)
        row = {"s": round(cost.seconds, 2), "processor s": round(cost.cpu_s, 2), "peak MB": cost.peak_memory // MB}
        yield f"kvjobs {' '.join(command[:3])}", row
    (folder / "web").mkdir(exist_ok=True)
    with serving(store.url, folder / "web") as web:
        for address in PAGES:
            yield f"page {address}", {"ms": round(1000 * seconds_of(web.port, address, store))}


def seconds_of(port: int, address: str, store: Store) -> float:
    """The slowest request for a page; AT and ID stand for a place anywhere in the job."""
    last = store.count("documents") - 1

    def anywhere(rng: Any) -> str:
        number = rng.randrange(last)
        return address.replace("AT", str(number)).replace("ID", f"doc-{number:08d}")

    measured = measure(port, address, anywhere, REQUESTS)
    if measured.codes != [200]:
        raise SystemExit(f"{address} answered {measured.codes}")
    return max(measured.seconds)


def size(path: Path) -> int:
    """Megabytes of a file."""
    return math.ceil(path.stat().st_size / MB)


def told(name: str, values: dict[str, Any]) -> None:
    """Print a row as soon as it is measured."""
    print(
        f"{name:12}  "
        + "  ".join(
            f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in values.items()
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
