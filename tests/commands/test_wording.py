"""The wording of messages that were once misleading."""

import sys
from dataclasses import replace
from typing import Any

import pytest

from jobs.cli.render.job_end import end_message
from jobs.cli.render.live_progress import progress_text
from jobs.store.database import Database
from jobs.store.report.job_providers import providers_of
from jobs.store.report.job_summary import find_job
from jobs.store.report.timings.speed import RecentSpeed
from tests.command_line import Kvjobs
from tests.rows import AddJob, Line


def test_a_job_that_no_worker_began_is_reported_without_a_duration(database: Database, add_job: AddJob) -> None:
    job_id = add_job(Line("a", "甲"), name="nightly")
    with database.reading() as connection:
        job = replace(find_job(connection, str(job_id)), started_at=None)
        answers = providers_of(connection, job)

    assert end_message(job, None, None, None, answers).startswith(
        f"Job {job_id} (nightly) is done: 1 of 1 document translated.\n"
    )
    assert " in -" not in progress_text(job, RecentSpeed())


def test_a_submit_from_a_terminal_says_that_it_reads_standard_input(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal('{"id": 1, "text": "Rain."}\n'))

    result = kvjobs("submit", "-")

    assert (result.exit_code, "Reading JSON Lines from the terminal; end with Ctrl-D." in result.err) == (0, True)


def test_a_deletion_that_cannot_be_confirmed_names_the_option_that_skips_confirmation(
    kvjobs: Kvjobs, finished_job: int
) -> None:
    result = kvjobs("db", "prune", finished_job)

    assert (result.exit_code, "nobody can confirm; to delete without confirmation give --yes" in result.err) == (
        2,
        True,
    )


class Terminal:
    """Standard input as a terminal with typed text."""

    def __init__(self, typed: str) -> None:
        import io

        self.buffer = io.BytesIO(typed.encode())
        self.raw: Any = self.buffer

    def isatty(self) -> bool:
        return True
