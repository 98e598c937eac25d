"""Sentences that people stumbled over, as they read now."""

import importlib.metadata
import sys
from dataclasses import replace
from typing import Any

import pytest

from jobs.cli.render.dry_run import describe
from jobs.cli.render.job_end import end_message
from jobs.cli.render.live_progress import progress_text
from jobs.documents import Reject, Rejected
from jobs.process import how_it_ended
from jobs.requirements import install_command
from jobs.store.database import Database
from jobs.store.report.job_summary import find_job
from jobs.store.report.speed import RecentSpeed
from jobs.submission.dry_run import DryRun, SegmentCounts
from tests.command_line import Kvjobs
from tests.rows import SPEC, AddJob, Line


def test_a_process_that_a_signal_ended_was_killed() -> None:
    assert [how_it_ended(code) for code in (1, -9, -63)] == [
        "exited with code 1",
        "was killed by SIGKILL (signal 9)",
        "was killed by signal 63",
    ]


def test_a_missing_package_is_installed_by_its_own_name_wherever_kvjobs_came_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = ["psycopg[binary]>=3.2; extra == 'postgres'", "ir-measures>=0.4.3; extra == 'metrics'", "click>=8.2"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _name: wanted)

    assert [install_command(name) for name in ("psycopg", "ir_measures", "click", "kombu")] == [
        "pip install 'psycopg[binary]>=3.2'",
        "pip install 'ir-measures>=0.4.3'",
        "pip install 'click>=8.2'",
        "pip install kombu",
    ]


def test_a_job_that_no_worker_began_took_no_time(database: Database, add_job: AddJob) -> None:
    job_id = add_job(Line("a", "甲"), name="nightly")
    with database.reading() as connection:
        job = replace(find_job(connection, str(job_id)), started_at=None)

    assert end_message(job, None, None, None).startswith(
        f"Job {job_id} (nightly) is done: 1 of 1 document translated.\n"
    )
    assert " in -" not in progress_text(job, RecentSpeed())


def test_one_rejected_line_is_one_line() -> None:
    dry_run = DryRun(
        counts=SegmentCounts(2, 2, 0, 0, 0, 0, 0, ()),
        num_documents=2,
        estimated_tokens=0,
        num_rejected=1,
        rejected=(Rejected(1, None, False, 2, Reject.BAD_JSON, "line 2 is not JSON"),),
        num_shards=1,
        num_without_id=0,
    )

    assert next(describe(dry_run, SPEC, None)) == "documents   2, and 1 rejected line"


def test_a_submit_from_the_terminal_says_what_it_waits_for(
    kvjobs: Kvjobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal('{"id": 1, "text": "Rain."}\n'))

    result = kvjobs("submit", "-")

    assert (result.exit_code, "Reading JSON Lines from the terminal; end with Ctrl-D." in result.err) == (0, True)


def test_a_deletion_that_nobody_can_confirm_says_what_to_give(kvjobs: Kvjobs, finished_job: int) -> None:
    result = kvjobs("db", "prune", finished_job)

    assert (result.exit_code, "nobody can confirm; to delete without a question give --yes" in result.err) == (2, True)


class Terminal:
    """Standard input that somebody types into."""

    def __init__(self, typed: str) -> None:
        import io

        self.buffer = io.BytesIO(typed.encode())
        self.raw: Any = self.buffer

    def isatty(self) -> bool:
        return True
