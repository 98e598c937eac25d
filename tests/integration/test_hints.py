"""Hints, as they lie in a real Redis."""

import pytest

from jobs.dispatch.broker import make_app, send_hints, waiting_hints
from jobs.dispatch.broker_status import BrokerStatus
from jobs.dispatch.dispatcher import Dispatcher
from jobs.store import leases
from jobs.store.database import Database
from jobs.store.singleton_roles import DISPATCHER, release_role
from jobs.store.worker_registry import register
from tests.integration.conftest import RedisServer
from tests.rows import SPEC, insert_waiting_job


def dispatcher(database: Database, url: str, name: str, said: list[str] | None = None) -> Dispatcher:
    broker_status = BrokerStatus((said if said is not None else []).append)
    return Dispatcher(database, make_app(url), name, broker_status, silence_s=60)


def test_of_two_dispatchers_one_acts_until_it_leaves(database: Database, redis_server: RedisServer) -> None:
    first, second = (dispatcher(database, redis_server.url, name) for name in ("first", "second"))

    assert [first.tick(), second.tick(), first.tick(), second.tick()] == [True, False, True, False]

    release_role(database, DISPATCHER, "first")
    assert [second.tick(), first.tick()] == [True, False]


def test_there_are_as_many_hints_as_shards_or_two_a_lane(database: Database, redis_server: RedisServer) -> None:
    app = make_app(redis_server.url)
    ours = dispatcher(database, redis_server.url, "ours")
    insert_waiting_job(database, documents=3, per_shard=1)
    ours.tick()
    assert waiting_hints(app, "cpu") == 0  # nobody listens

    worker_id = register(database, device="cpu", provider="test", lanes=2)
    ours.tick()
    assert waiting_hints(app, "cpu") == 3
    insert_waiting_job(database, documents=6, per_shard=1)
    ours.tick()
    ours.tick()
    assert waiting_hints(app, "cpu") == 4

    redis_server.client().flushall()
    ours.tick()
    assert waiting_hints(app, "cpu") == 4

    while leases.lease(database, worker_id, 0, 60):
        pass
    redis_server.client().flushall()
    ours.tick()
    assert waiting_hints(app, "cpu") == 0


def test_a_worker_for_one_model_is_told_in_the_queue_of_that_model(
    database: Database, redis_server: RedisServer
) -> None:
    app = make_app(redis_server.url)
    insert_waiting_job(database, documents=3, per_shard=1)
    register(database, device="cpu", provider="test", lanes=1, queues=f"model:{SPEC.model}")
    register(database, device="cpu", provider="test", lanes=1, queues="model:another")

    dispatcher(database, redis_server.url, "ours").tick()

    assert [waiting_hints(app, name) for name in ("cpu", f"model:{SPEC.model}", "model:another")] == [0, 2, 0]


def test_a_broker_that_goes_and_comes_is_told_once(database: Database, redis_server: RedisServer) -> None:
    said: list[str] = []
    ours = dispatcher(database, redis_server.url, "ours", said)
    insert_waiting_job(database, documents=3, per_shard=1)
    register(database, device="cpu", provider="test", lanes=1)
    redis_server.kill()
    for _ in range(3):
        ours.tick()
    redis_server.start()
    for _ in range(3):
        ours.tick()

    assert ["does not answer" in said[0], *said[1:]] == [True, "the broker is back"]


def test_the_variables_of_other_celery_projects_are_not_ours(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL"):
        monkeypatch.setenv(name, "redis://127.0.0.1:1/0")
    app = make_app(redis_server.url)

    send_hints(app, "cpu", 1)

    assert waiting_hints(app, "cpu") == 1
