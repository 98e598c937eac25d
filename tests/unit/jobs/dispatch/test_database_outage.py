"""What a worker logs while the database is unavailable."""

import logging
import threading

import pytest

from jobs.dispatch import database_outage as outage_module
from jobs.dispatch.database_outage import DatabaseOutage
from jobs.errors import StoreError


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A one-element list that holds the monotonic time in seconds; tests change it."""
    now = [1000.0]
    monkeypatch.setattr(outage_module.time, "monotonic", lambda: now[0])
    return now


def test_an_outage_is_logged_at_once_then_every_minute_and_once_when_it_ends(
    now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    outage = DatabaseOutage()
    outage.over()

    for _ in range(150):
        outage.met(StoreError("it does not answer"))
        now[0] += 1
    outage.over()
    outage.over()

    assert [record.message for record in caplog.records] == [
        *["waiting for the database: it does not answer"] * 3,
        "the database answers again",
    ]


def test_an_outage_does_not_end_while_one_thread_is_still_refused(
    now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    outage = DatabaseOutage()
    outage.met(StoreError("permission denied for table documents"))

    heartbeat = threading.Thread(target=outage.over)
    heartbeat.start()
    heartbeat.join()
    outage.met(StoreError("permission denied for table documents"))

    assert len(caplog.records) == 1
