"""What one PostgreSQL serves where its workers are elsewhere: what they send is recorded, and sent by all at once.

    python -m bench.fleet_replay [--workers 1,10,100,250,500,1000] [--shards 2]

`bench.fleet_store` runs the code of workers beside the server, on the same cores, of which they take two thirds. Here
the same code runs first, one worker after the other, on a copy of the database, through a proxy that records
(`bench/fleet/recorded_wire.py`). Then another copy gets the recorded bytes of all workers at once, each connection its
next when the answer has come, and a heartbeat of each worker every 15 s over a connection of its own: the server does
what it does for a fleet. At the end every document must have its result.

Not as in a fleet: each worker leases shards that were given to it (another condition in that statement, which passes
over those of the others), and every statement is prepared when it is first sent, as those of a worker are that has run
for a minute.
"""

import argparse
import contextlib
import json
import random
import statistics
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import psycopg
from sqlalchemy import event
from sqlalchemy.engine import make_url

from bench.fleet.instant_provider import InstantProviders
from bench.fleet.postgresql_server import PostgresqlServer, postgresql_server
from bench.fleet.recorded_wire import Call, Recorder, Sent, Stream, send_again
from bench.fleet.simulated_worker import HEARTBEAT_S, LEASE_S
from bench.fleet_store import SETTINGS, copied, fill, percentiles
from bench.harness.machine import cpu_name, load_average
from jobs.dispatch.delta_folding import DeltaFolding
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.singleton_roles import new_holder
from jobs.store.worker_registry import register
from jobs.tasks.translate import TranslateOptions
from worker import leased_shard, stored_memory
from worker.child_process import worker_stats
from worker.drain import drain
from worker.lane import Lane
from worker.process.lease_keeper import LeaseKeeper

DOCUMENTS_PER_SHARD = 340  # at least as many as a shard has
MEASURED = (0.25, 0.75)  # of the records: before, connections prepare their statements; behind, some have ended


def main() -> None:
    parser = argparse.ArgumentParser(description="What one PostgreSQL serves where the workers are elsewhere.")
    parser.add_argument("--workers", default="1,10,100,250,500,1000")
    parser.add_argument("--shards", type=int, default=2, help="that each worker processes, of four batches each")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.workers.split(",")]
    with postgresql_server(2 * max(counts) + 20, SETTINGS) as server:
        documents = max(counts) * arguments.shards * DOCUMENTS_PER_SHARD
        template = fill(server, documents, 1, TranslateOptions())
        for workers in counts:
            # Few workers would be done within a second.
            shards = max(arguments.shards, min(60, max(counts) * arguments.shards // workers))
            print(json.dumps(measure(server, template, workers, shards)), flush=True)
    print(f"{cpu_name()}; load average {load_average():.2f}")


def measure(server: PostgresqlServer, template: str, workers: int, shards: int) -> dict[str, Any]:
    """Record and send again; rates a second, milliseconds of each call, and what both sides cost."""
    with copied(server, template) as name:
        streams, documents = recorded(server.database_url(name), workers, shards)
    with copied(server, template) as name:
        # The streams name the database that they were recorded on: it has the same name.
        database = Database.open(server.database_url(name))
        _register(database, workers)
        folding = Database.open(server.database_url(name))
        with _folded(folding):
            before = server.cpu_s()
            sent = send_again(make_url(server.url).port or 0, streams, random.Random(0).random)
            server_s = server.cpu_s() - before
        results = _count(server.database_url(name), "translations")
        for one in (database, folding):
            one.close()
    if results != documents:
        raise SystemExit(f"{documents} documents were recorded, {results} have a result")
    return {"workers": workers, "documents": documents} | as_row(sent, server_s)


def as_row(sent: Sent, server_s: float) -> dict[str, Any]:
    """Rates a second and p50 / p95 / p99 in ms of the middle half of the records; what both sides cost in all."""
    ends = sorted(at for name, at, _ in sent.calls if name == "record")
    begin, end = (ends[int(share * (len(ends) - 1))] for share in MEASURED)
    row: dict[str, Any] = {"records": len(ends), "seconds": round(end - begin, 1)}
    for name in ("lease", "recall", "record", "heartbeat"):
        seconds = [took for of, at, took in sent.calls if of == name and begin <= at <= end]
        row[f"{name}/s"] = round(len(seconds) / (end - begin), 1)
        row[f"{name} ms"] = "/".join(f"{1000 * value:.0f}" for value in percentiles(seconds))
    whole = ends[-1] - ends[0]
    row["server cores"], row["sender cores"] = round(server_s / whole, 2), round(sent.cpu_s / whole, 2)
    row["server ms/batch"] = round(1000 * server_s / len(ends), 2)
    row["sender ms/batch"] = round(1000 * sent.cpu_s / len(ends), 2)
    row["longest gap s"] = round(max(later - earlier for earlier, later in pairwise(ends)), 2)
    row["mean record s"] = round(statistics.mean(took for of, _, took in sent.calls if of == "record"), 2)
    return row


def recorded(url: str, workers: int, shards: int) -> tuple[list[Stream], int]:
    """Run the workers one after the other; what their lanes and heartbeats sent, and the documents they processed."""
    direct = Database.open(url)
    worker_ids = _register(direct, workers)
    recorder = Recorder(make_url(url).port or 0)
    plain = {"sslmode": "disable", "gssencmode": "disable"}
    through = make_url(url).set(port=recorder.port, query=plain).render_as_string(hide_password=False)
    lanes, beats = Database.open(through, silence_s=LEASE_S), Database.open(through, silence_s=LEASE_S)
    place = _Place(workers)
    for database in (lanes, beats):
        event.listen(database.engine, "connect", _prepare_at_once)
    event.listen(lanes.engine, "before_cursor_execute", place.restrict, retval=True)
    streams: list[Stream] = []
    for number, worker_id in enumerate(worker_ids):
        for database in (lanes, beats):
            database.engine.dispose()
        place.number = number
        streams += _record_worker(recorder, lanes, beats, worker_id, shards)
    documents = _count(url, "translations")
    for database in (lanes, beats, direct):
        database.close()
    recorder.close()
    return streams, documents


class _Place:
    """Gives each worker shards of its own."""

    def __init__(self, workers: int) -> None:
        self.number, self._workers = 0, workers

    def restrict(self, _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
        own = f"AND mod(shards.id, {self._workers}) = {self.number} ORDER BY shards.id"
        return statement.replace("ORDER BY shards.id", own), parameters


def _record_worker(
    recorder: Recorder, lanes: Database, beats: Database, worker_id: int, shards: int
) -> tuple[Stream, Stream]:
    """The streams of its lane and of its heartbeat."""
    known = len(recorder.streams)
    providers = InstantProviders((0.0, 0.0))
    lane = Lane(0, providers)
    keeper = LeaseKeeper(lanes, worker_id, lease_s=LEASE_S, heartbeat_s=HEARTBEAT_S)
    heart = LeaseKeeper(beats, worker_id, lease_s=LEASE_S, heartbeat_s=HEARTBEAT_S)
    with lanes.reading(), beats.reading():
        pass
    of_lane, of_heart = recorder.streams[known:]
    times = iter(range(shards))
    keeper.takes_work = lambda: next(times, None) is not None  # type: ignore[method-assign]  # ends after its shards
    keep = keeper.keep

    def keep_and_beat(work: Any) -> None:
        keep(work)
        if not of_heart.calls:
            heart.keep(work)
            for _ in range(2):  # the second has nothing left to prepare
                first = len(of_heart.turns)
                heart.record_heartbeat(worker_stats(providers, [lane]))
                of_heart.calls = [Call("heartbeat", first, len(of_heart.turns))]

    keeper.keep = keep_and_beat  # type: ignore[method-assign]  # a heartbeat while a lease is held
    with _noted(of_lane):
        drain(lanes, lane, keeper)
    of_heart.every_s = HEARTBEAT_S
    return of_lane, of_heart


@contextlib.contextmanager
def _noted(stream: Stream) -> Iterator[None]:
    """Note which turns are one call of the store."""
    calls = ((leases, "lease"), (stored_memory, "recall"), (leased_shard, "record"))
    originals = [(module, name, getattr(module, name)) for module, name in calls]

    def noting(name: str, original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            first = len(stream.turns)
            found = original(*args, **kwargs)
            stream.calls.append(Call(name, first, len(stream.turns)))
            return found

        return call

    for module, name, original in originals:
        setattr(module, name, noting(name, original))
    try:
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


@contextlib.contextmanager
def _folded(database: Database) -> Iterator[None]:
    """One process of the fleet folds deltas: here this one."""
    stop = threading.Event()
    DeltaFolding(database, new_holder()).start(stop)
    try:
        yield
    finally:
        stop.set()


def _register(database: Database, workers: int) -> list[int]:
    """Register workers: on a new copy of a database they get the same numbers again."""
    return [register(database, device="cpu", provider="CPUExecutionProvider", lanes=1) for _ in range(workers)]


def _prepare_at_once(connection: Any, _record: Any) -> None:
    connection.prepare_threshold = 0


def _count(url: str, table: str) -> int:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        found = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # type: ignore[arg-type]  # of this module
    return int(found[0]) if found else 0


if __name__ == "__main__":
    main()
