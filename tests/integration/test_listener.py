"""The hint listener: a Celery worker inside the parent process, which any client of the broker can shut down."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from celery.worker.consumer import Consumer
from kombu.message import Message

from jobs.dispatch.broker import BrokerStatus, make_app, ping_nodes, send_hints
from jobs.queues import Queues
from tests.integration.conftest import RedisServer
from tests.machine import until
from worker.fleet import hint_exchange
from worker.fleet.hint_exchange import HintListener, make_worker_app

NODE = "kvjobs-listener@test"


class NoChild:
    """In place of a child process without lanes."""

    def __init__(self) -> None:
        self.times_woken = 0

    def wake(self) -> None:
        self.times_woken += 1

    def wait_idle(self, _seconds: float) -> bool:
        return True


def test_a_listener_that_is_shut_down_over_the_broker_restarts_and_keeps_no_file_open(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hint_exchange, "RESTART_AFTER_S", 0.05)
    app, stop = make_app(redis_server.url), threading.Event()
    begun = count_calls(monkeypatch, HintListener, "_controller")
    worker_app = make_worker_app(redis_server.url, Queues(), NoChild())  # type: ignore[arg-type]
    listener = HintListener(worker_app, NODE, BrokerStatus(print), stop)
    listener.start()
    kept = []
    try:
        for times in range(3):
            until(lambda: ping_nodes(app, [NODE], 0.3))
            kept.append(open_files())
            app.control.shutdown(destination=[NODE])
            until(lambda times=times: begun() > times + 1)
    finally:
        stop.set()
        listener.join()

    assert kept[2] == kept[1], kept  # only the second start opens further files


def test_a_connection_that_celery_does_not_recover_is_one_sentence_and_the_listener_restarts(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hint_exchange, "RESTART_AFTER_S", 0.05)
    stop, said = threading.Event(), list[str]()
    real, failures = Consumer.start, [redis.exceptions.ConnectionError("Connection closed by server.")]
    monkeypatch.setattr(Consumer, "start", lambda consumer: fail(failures.pop()) if failures else real(consumer))
    worker_app = make_worker_app(redis_server.url, Queues(), NoChild())  # type: ignore[arg-type]
    listener = HintListener(worker_app, NODE, BrokerStatus(said.append), stop)
    listener.start()
    try:
        until(lambda: len(said) == 2)
    finally:
        stop.set()
        listener.join()

    assert "does not answer (Connection closed by server.)" in said[0]
    assert said[1] == "the broker is back"
    assert not [record.message for record in caplog.records if record.exc_info]


def test_an_acknowledgement_that_is_lost_with_its_connection_prints_no_traceback(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop, child = threading.Event(), NoChild()
    real, failures = Message.ack, [redis.exceptions.ConnectionError("Connection closed by server.")]
    monkeypatch.setattr(Message, "ack", lambda *given, **how: fail(failures.pop()) if failures else real(*given, **how))
    listener = HintListener(
        make_worker_app(redis_server.url, Queues(), child),  # type: ignore[arg-type]
        NODE,
        BrokerStatus(print),
        stop,
    )
    listener.start()
    try:
        send_hints(make_app(redis_server.url), Queues().names()[0], 1)
        until(lambda: child.times_woken)
    finally:
        stop.set()
        listener.join()

    assert not failures
    assert not [record.message for record in caplog.records if record.exc_info]


def test_a_redis_that_takes_no_writes_is_one_sentence_until_it_does(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica, as after a failover."""
    monkeypatch.setattr(hint_exchange, "RESTART_AFTER_S", 0.05)
    stop, said = threading.Event(), list[str]()
    begun = count_calls(monkeypatch, HintListener, "_controller")
    redis_server.client().replicaof("127.0.0.1", "1")
    worker_app = make_worker_app(redis_server.url, Queues(), NoChild())  # type: ignore[arg-type]
    listener = HintListener(worker_app, NODE, BrokerStatus(said.append), stop)
    listener.start()
    try:
        until(lambda: begun() > 2)
        redis_server.client().replicaof("NO", "ONE")
        until(lambda: said[-1] == "the broker is back")
    finally:
        stop.set()
        listener.join()

    assert "read only replica" in said[0]
    assert not [record.message for record in caplog.records if record.exc_info]


def fail(error: Exception) -> None:
    raise error


def count_calls(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> Callable[[], int]:
    calls, real = [], getattr(of, name)

    def counted(self: object) -> object:
        calls.append(name)
        return real(self)

    monkeypatch.setattr(of, name, counted)
    return lambda: len(calls)


def open_files() -> int:
    """The number of epoll files of this process; each Celery worker has some. (Sockets are not counted, because
    connection pools open and close them.)"""
    kinds = []
    for number in os.listdir("/proc/self/fd"):
        try:
            kinds.append(str(Path(f"/proc/self/fd/{number}").readlink()))
        except FileNotFoundError:
            continue  # the descriptor of this listing itself
    return kinds.count("anon_inode:[eventpoll]")
