"""Plain Celery for comparison, as its tutorial uses it: one message per document. `python -m bench.queue` runs it."""

import os
from typing import Any

from celery import Celery
from redis import Redis
from sqlalchemy import Connection, Engine, create_engine, text

DONE = "bench:done"


def app_of(broker: str) -> Celery:
    """Celery keeps no results: that would only slow it down."""
    app = Celery("plain", broker=broker)
    app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=64, worker_hijack_root_logger=False)
    return app


app = app_of(os.environ.get("BENCH_BROKER", ""))
_database: Engine | None = None
_redis: Redis | None = None


@app.task(name="translate")
def translate(number: int, source: str) -> None:
    """An engine that answers at once; it inserts a row, or only counts."""
    if os.environ["BENCH_DATABASE"]:
        with _connect() as connection, connection.begin():
            connection.execute(
                text("INSERT INTO plain (number, source) VALUES (:number, :source)"),
                {"number": number, "source": source},
            )
    else:
        _count()


def prepare(broker: str, url: str | None) -> None:
    """Empty Redis, and create the table."""
    Redis.from_url(broker).flushdb()
    if url:
        with create_engine(url).begin() as connection:
            connection.execute(text("CREATE TABLE plain (number BIGINT PRIMARY KEY, source TEXT)"))


def done(broker: str, url: str | None) -> int:
    """The number of documents processed so far."""
    if url:
        with create_engine(url).connect() as connection:
            return int(connection.execute(text("SELECT COUNT(*) FROM plain")).scalar_one())
    found: Any = Redis.from_url(broker).get(DONE)
    return int(found or 0)


def _connect() -> Connection:
    global _database
    _database = _database or create_engine(os.environ["BENCH_DATABASE"])
    return _database.connect()


def _count() -> None:
    global _redis
    _redis = _redis or Redis.from_url(os.environ["BENCH_BROKER"])
    _redis.incr(DONE)
