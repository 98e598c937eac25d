"""Workers whose Redis is gone before they start, or dies while they work."""

import os
import signal
import subprocess
import time

from tests.end_to_end.conftest import Bulletins
from tests.integration.conftest import Fleet
from tests.machine import PATIENCE_S, child_of, until

MANY = 3000  # documents that take any machine longer than to kill its Redis


def test_a_worker_that_cannot_reach_its_broker_still_finds_work(fleet: Fleet, bulletins: Bulletins) -> None:
    fleet.redis.kill()
    worker = fleet.worker(KVJOBS_POLL_S="10")  # so long that it does not take the job before its hint is tried

    submitted = fleet.submit(bulletins(5))

    assert "find the job by themselves" in submitted.err
    until(fleet.is_done)
    worker.send_signal(signal.SIGINT)
    _, log = worker.communicate(timeout=PATIENCE_S)
    assert worker.returncode == 0
    assert log.count("does not answer") == 1


def test_a_redis_that_dies_during_a_job_and_returns_empty_loses_no_work(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = fleet.worker()
    fleet.submit(bulletins(60))
    until(fleet.succeeded)
    fleet.redis.kill()
    until(fleet.is_done)
    fleet.redis.start()

    fleet.submit(bulletins(5), "--again")

    until(fleet.is_done)
    worker.send_signal(signal.SIGTERM)
    _, log = worker.communicate(timeout=PATIENCE_S)
    assert log.count("does not answer") == log.count("the broker is back") == 1


def test_a_child_killed_while_redis_is_unavailable_is_replaced_at_once(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = at_work_without_redis(fleet, bulletins)
    killed = child_of(worker.pid)
    assert killed is not None
    before = fleet.succeeded()

    os.kill(killed, signal.SIGKILL)

    until(lambda: child_of(worker.pid) not in (None, killed))
    until(lambda: fleet.succeeded() > before)
    worker.send_signal(signal.SIGQUIT)
    worker.communicate(timeout=PATIENCE_S)
    assert worker.returncode == 0


def test_a_worker_stops_cleanly_while_redis_is_unavailable(fleet: Fleet, bulletins: Bulletins) -> None:
    worker = at_work_without_redis(fleet, bulletins)

    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE_S)

    assert worker.returncode == 0
    shards = fleet.ask("select state, crashes from shards")
    assert {state for state, _ in shards} <= {"ready", "done"}
    assert not any(crashes for _, crashes in shards)
    assert 0 < fleet.succeeded() < MANY


def at_work_without_redis(fleet: Fleet, bulletins: Bulletins) -> "subprocess.Popen[str]":
    """A worker in the middle of a job, whose Redis is gone."""
    worker = fleet.worker()
    fleet.submit(bulletins(MANY))
    until(fleet.succeeded)
    fleet.redis.kill()
    time.sleep(2)  # until Celery is in its reconnect loop
    return worker
