"""The log lines of a worker at level info."""

import logging
import re

import pytest

from jobs.errors import Stopped
from jobs.store.database import Database
from tests.rows import AddWaitingJob
from tests.store.worker.echo import Echo, keeper_of
from worker.drain import drain


def test_the_begin_and_the_end_of_each_job_and_each_shard_are_logged(
    database: Database, add_waiting_job: AddWaitingJob, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = add_waiting_job(documents=3, per_shard=2)

    with caplog.at_level(logging.INFO):
        drain(database, Echo(), keeper_of(database))  # type: ignore[arg-type]

    messages = [re.sub(r"(?<=shard )\d+|[\d.]+ s$", "*", message) for message in caplog.messages]
    assert messages[0].startswith(f"job {job_id}: begun here (translate with ")
    assert messages[1:] == [
        f"job {job_id}: shard * begun by lane 0, 2 documents to do",
        f"job {job_id}: shard * done after *",
        f"job {job_id}: shard * begun by lane 0, 1 document to do",
        f"job {job_id}: shard * done after *",
        f"job {job_id}: done, 3 of 3 documents ok",
    ]


def test_a_released_shard_is_logged_without_an_end_of_the_job(
    database: Database, add_waiting_job: AddWaitingJob, caplog: pytest.LogCaptureFixture
) -> None:
    add_waiting_job(documents=2, per_shard=2)
    keeper = keeper_of(database)

    def stop(_batch: int, _should_stop: object) -> None:
        keeper.stop()
        raise Stopped

    with caplog.at_level(logging.INFO):
        drain(database, Echo(stop), keeper)  # type: ignore[arg-type]

    assert re.search("shard .* given back after", caplog.messages[-1])


def test_at_the_default_level_nothing_is_logged_and_nothing_is_queried(
    database: Database, add_waiting_job: AddWaitingJob, caplog: pytest.LogCaptureFixture
) -> None:
    add_waiting_job(documents=2, per_shard=2)

    with caplog.at_level(logging.WARNING):
        drain(database, Echo(), keeper_of(database))  # type: ignore[arg-type]

    assert caplog.messages == []
