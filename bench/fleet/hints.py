"""What the dispatcher and its hints cost with many workers: one process of a fleet does this every two seconds."""

import time
from typing import Any

from redis import Redis
from sqlalchemy import func, select

from bench.fleet.simulated_worker import LEASE_S
from jobs.dispatch.broker import make_app, queue_name, send_hints, waiting_hints
from jobs.dispatch.hints import send_missing
from jobs.queues import CPU
from jobs.store.database import Database
from jobs.store.queue.waiting import hints_wanted
from jobs.store.schema.tables import Shard
from jobs.store.worker_registry import register

ROUNDS = 20


def measure_hints(url: str, broker: str, workers: int) -> dict[str, Any]:
    """Register this many workers beside a job with ready shards; seconds of a round with nothing to send, and of one
    that sends all hints, and hints a second."""
    database, app, redis = Database.open(url), make_app(broker), Redis.from_url(broker)
    try:
        redis.flushdb()
        for _ in range(workers):
            register(database, device="cpu", provider="CPUExecutionProvider", lanes=1)
        with database.reading() as connection:
            shards = connection.execute(select(func.count(Shard.id))).scalar_one()
        sending, began = time.perf_counter(), Redis.info(redis)["used_cpu_user"]
        sent = send_missing(database, app, LEASE_S)
        sending = time.perf_counter() - sending
        redis_s = Redis.info(redis)["used_cpu_user"] - began
        asking = time.perf_counter()
        for _ in range(ROUNDS):
            hints_wanted(database, LEASE_S)
        asking = (time.perf_counter() - asking) / ROUNDS
        waiting = waiting_hints(app, CPU)
        alone = time.perf_counter()
        send_hints(app, CPU, sent)
        alone = time.perf_counter() - alone
        return {
            "workers": workers,
            "ready shards": shards,
            "hints sent": sent,
            "hints waiting": waiting,
            "bytes a hint": redis.memory_usage(queue_name(CPU), samples=0) // max(1, 2 * waiting),
            "round that sends, ms": round(1000 * sending, 1),
            "round without, ms": round(1000 * asking, 1),
            "hints/s": round(sent / alone),
            "Redis, ms of processor time": round(1000 * redis_s, 1),
        }
    finally:
        database.close()
        redis.close()
