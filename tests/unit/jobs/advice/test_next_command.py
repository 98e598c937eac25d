"""The command that is advised next brings the job on."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.advice.next_command import next_command
from tests.summaries import LIVE_JOB


@pytest.mark.parametrize(
    ("columns", "command"),
    [
        ({}, "kvjobs watch 9"),
        ({"has_worker": False}, "kvjobs worker"),
        ({"has_worker": False, "queue": "gpu"}, "kvjobs worker --device cuda:0"),
        ({"has_worker": False, "paused": True}, "kvjobs resume 9"),
    ],
)
def test_a_job_that_waits_for_a_worker_gets_one(columns: dict[str, Any], command: str) -> None:
    assert next_command(replace(LIVE_JOB, **columns)) == command
