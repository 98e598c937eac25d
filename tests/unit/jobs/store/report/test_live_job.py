"""A job as it stands: its state, its speed of the last minute, and the time left follow from who works on it."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs.store.report.job_lines import JobLine, lines_of
from jobs.store.report.live_job import speed_of
from tests.summaries import LIVE_JOB, READ_AT, RUNNING_JOB

LONG = replace(RUNNING_JOB, started_at=READ_AT - timedelta(hours=1))


def minute(ago_s: float, tokens: int) -> tuple[datetime, int]:
    return READ_AT - timedelta(seconds=ago_s), tokens


def test_a_job_without_a_worker_waits_and_its_time_left_is_unknown() -> None:
    waiting = replace(LIVE_JOB, has_worker=False)

    assert (waiting.shown_state, waiting.eta_s) == ("waiting", None)
    assert (LIVE_JOB.shown_state, LIVE_JOB.eta_s) == ("running", pytest.approx(100))


@pytest.mark.parametrize(
    ("columns", "state"),
    [
        ({"paused": True}, "paused"),
        ({"cancel_requested_at": READ_AT}, "cancelling"),
        ({"state": "done", "finished_at": READ_AT}, "done"),
        ({"shards_open": 0}, "running"),  # a later stage, to which nothing was handed on yet
    ],
)
def test_only_work_that_could_be_taken_waits_for_a_worker(columns: dict[str, Any], state: str) -> None:
    assert replace(LIVE_JOB, has_worker=False, **columns).shown_state == state


def test_the_time_left_follows_from_the_pace_of_the_last_minutes() -> None:
    """The job waited for a night: its average would say days."""
    slow = replace(LIVE_JOB, started_at=READ_AT - timedelta(hours=12))

    assert slow.eta_s == pytest.approx(100)
    assert replace(slow, pace=None).eta_s is None
    assert replace(slow, estimated_done=0).eta_s is None


def test_the_speed_is_that_of_the_last_minute() -> None:
    assert speed_of([minute(30, 600), minute(90, 600), minute(150, 9000)], LONG, 60) == pytest.approx((600 + 300) / 60)
    assert speed_of([minute(150, 9000)], LONG, 60) == 0


def test_of_a_job_that_began_in_the_last_minute_every_token_counts() -> None:
    young = replace(RUNNING_JOB, started_at=READ_AT - timedelta(seconds=20))

    assert speed_of([minute(10, 100), minute(70, 300)], young, 60) == pytest.approx(400 / 20)
    assert speed_of([], replace(young, started_at=None), 60) is None


def stage(number: int, state: str, **columns: Any) -> Any:
    return replace(LIVE_JOB, job_id=number, chain=1, stage=number, state=state, **columns)


def test_a_chain_is_one_line_and_a_job_another() -> None:
    alone = replace(LIVE_JOB, job_id=9)

    lines = lines_of([stage(2, "running"), alone, stage(1, "done"), stage(3, "running")])

    assert [(line.job_id, [one.job_id for one in line.stages]) for line in lines] == [(9, [9]), (1, [1, 2, 3])]
    assert (lines[1].counts.ok, lines[1].counts.documents) == (3 * 480, 3000)


@pytest.mark.parametrize(
    ("stages", "state"),
    [
        ((stage(1, "done"), stage(2, "running")), "running"),
        ((stage(1, "running", has_worker=False), stage(2, "running", shards_open=0)), "waiting"),
        ((stage(1, "done"), stage(2, "running", paused=True)), "paused"),
        ((stage(1, "done"), stage(2, "cancelled")), "cancelled"),
        ((stage(1, "done"), stage(2, "done")), "done"),
    ],
)
def test_the_state_of_a_chain_is_that_of_its_open_stages_or_the_worst(stages: tuple[Any, ...], state: str) -> None:
    assert JobLine(stages).shown_state == state
