"""Hints in a real Redis: how many are sent, and to which queues."""

import pytest

from jobs.dispatch.broker import BrokerStatus, make_app, send_hints, waiting_hints
from jobs.dispatch.hints import Dispatcher
from jobs.store.database import Database
from jobs.store.queue import leases
from jobs.store.singleton_roles import DISPATCHER, release_role
from jobs.store.worker_registry import register
from tests.integration.conftest import RedisServer
from tests.rows import SPEC, insert_waiting_job


def dispatcher(database: Database, url: str, name: str, messages: list[str] | None = None) -> Dispatcher:
    broker_status = BrokerStatus((messages if messages is not None else []).append)
    return Dispatcher(database, make_app(url), name, broker_status, silence_s=60)


def test_only_one_of_two_dispatchers_sends_hints_until_it_gives_up_the_role(
    database: Database, redis_server: RedisServer
) -> None:
    first, second = (dispatcher(database, redis_server.url, name) for name in ("first", "second"))

    assert [first.tick(), second.tick(), first.tick(), second.tick()] == [True, False, True, False]

    release_role(database, DISPATCHER, "first")
    assert [second.tick(), first.tick()] == [True, False]


def test_there_is_a_hint_per_shard_and_at_most_two_per_lane(database: Database, redis_server: RedisServer) -> None:
    app = make_app(redis_server.url)
    this = dispatcher(database, redis_server.url, "this")
    insert_waiting_job(database, documents=3, per_shard=1)
    this.tick()
    assert waiting_hints(app, "cpu") == 0  # no worker is registered

    worker_id = register(database, device="cpu", provider="test", lanes=2)
    this.tick()
    assert waiting_hints(app, "cpu") == 3
    insert_waiting_job(database, documents=6, per_shard=1)
    this.tick()
    this.tick()
    assert waiting_hints(app, "cpu") == 4

    redis_server.client().flushall()
    this.tick()
    assert waiting_hints(app, "cpu") == 4

    while leases.lease(database, worker_id, 0, 60):
        pass
    redis_server.client().flushall()
    this.tick()
    assert waiting_hints(app, "cpu") == 0


def test_hints_for_a_worker_of_one_model_go_to_the_queue_of_that_model(
    database: Database, redis_server: RedisServer
) -> None:
    app = make_app(redis_server.url)
    insert_waiting_job(database, documents=3, per_shard=1)
    register(database, device="cpu", provider="test", lanes=1, queues=f"model:{SPEC.model}")
    register(database, device="cpu", provider="test", lanes=1, queues="model:another")

    dispatcher(database, redis_server.url, "this").tick()

    assert [waiting_hints(app, name) for name in ("cpu", f"model:{SPEC.model}", "model:another")] == [0, 2, 0]


def test_an_outage_of_the_broker_is_reported_once(database: Database, redis_server: RedisServer) -> None:
    messages: list[str] = []
    this = dispatcher(database, redis_server.url, "this", messages)
    insert_waiting_job(database, documents=3, per_shard=1)
    register(database, device="cpu", provider="test", lanes=1)
    redis_server.kill()
    for _ in range(3):
        this.tick()
    redis_server.start()
    for _ in range(3):
        this.tick()

    assert ["does not answer" in messages[0], *messages[1:]] == [True, "the broker is back"]


def test_environment_variables_of_celery_are_ignored(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL"):
        monkeypatch.setenv(name, "redis://127.0.0.1:1/0")
    app = make_app(redis_server.url)

    send_hints(app, "cpu", 1)

    assert waiting_hints(app, "cpu") == 1
