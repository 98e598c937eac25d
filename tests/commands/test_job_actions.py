"""Commands that act on a job: pause, resume, cancel, retry and close."""

import pytest

from jobs.store.database import Database
from jobs.store.report.action_list import list_actions
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import JobState
from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.rows import AddJob, Line


def test_pause_and_resume_suggest_the_next_command(kvjobs: Kvjobs, running_job: int) -> None:
    assert f"kvjobs resume {running_job}" in kvjobs("pause", running_job, "--reason", "lunch").err
    assert kvjobs("show", running_job).out.startswith("Job 1 (running): paused (lunch)")
    assert "is resumed" in kvjobs("resume", running_job).err
    assert "was not paused" in kvjobs("resume", running_job).err


def test_cancel_keeps_results(kvjobs: Kvjobs, running_job: int) -> None:
    result = kvjobs("cancel", running_job)

    assert result.exit_code == 0
    assert result.err.startswith("1 document of job 1 (running) cancelled; 2 results kept.\n")
    assert f"kvjobs export {running_job} --only ok" in result.err
    assert kvjobs("wait", running_job).exit_code == 3


def test_an_ended_job_cannot_be_paused_resumed_or_cancelled(kvjobs: Kvjobs, finished_job: int) -> None:
    for command in ("pause", "resume", "cancel"):
        result = kvjobs(command, finished_job)
        assert result.exit_code == 2
        assert "is done" in result.err


def test_retry_reopens_documents_that_did_not_succeed(kvjobs: Kvjobs, mixed_job: int, finished_job: int) -> None:
    assert "3 documents of job" in kvjobs("retry", mixed_job).err
    assert kvjobs("wait", mixed_job, "--timeout", "0").exit_code == 4
    assert kvjobs("db", "check", mixed_job).exit_code == 0
    assert "nothing changed" in kvjobs("retry", finished_job).err


def test_retry_continues_a_cancelled_job_and_every_command_says_so(kvjobs: Kvjobs, running_job: int) -> None:
    kvjobs("cancel", running_job)

    for command in ("resume", "pause"):
        assert kvjobs(command, running_job).err == (
            f"Error: job {running_job} is cancelled; to take it up again: kvjobs retry {running_job}\n"
        )
    assert f"kvjobs retry {running_job}" in kvjobs("show", running_job).out
    assert kvjobs("retry", running_job).err == (
        f"2 documents of job {running_job} (running) will run again. To follow it: kvjobs watch {running_job}\n"
    )
    assert kvjobs("show", running_job, "--json").json["shown_state"] == "waiting"
    assert kvjobs("db", "check", running_job).exit_code == 0


def test_resume_says_that_a_job_is_being_cancelled(kvjobs: Kvjobs, add_job: AddJob) -> None:
    job = add_job(Line("a"), cancel_requested_at=db_time())

    assert kvjobs("resume", job).err == f"Job {job} is being cancelled. To continue it: kvjobs retry {job}\n"


@pytest.fixture
def open_job(database: Database, add_job: AddJob) -> int:
    """A job that is open, each of whose documents has ended."""
    return add_job(Line("a", "eins"), state=JobState.RUNNING, is_open=True, finished_at=None)


def test_commands_say_that_a_job_is_open_and_waits_for_documents(kvjobs: Kvjobs, open_job: int) -> None:
    assert line_with(kvjobs("ls").out, "open, awaiting", "translate")
    assert line_with(kvjobs("show", open_job).out, f"Job {open_job}", "open", "waits for documents")
    assert f"kvjobs close {open_job}" in kvjobs("show", open_job).out

    (job,) = kvjobs("ls", "--json", "--state", "awaiting").json
    assert (job["shown_state"], job["is_open"], job["eta_s"]) == ("awaiting", True, None)
    assert kvjobs("ls", "--json", "--state", "running").json == []


def test_to_wait_for_an_open_job_says_how_to_close_it(kvjobs: Kvjobs, open_job: int) -> None:
    waited = kvjobs("wait", open_job, "--timeout", "0")

    assert waited.exit_code == 4
    assert f"kvjobs close {open_job}" in waited.err


def test_close_ends_an_open_job_and_is_logged(kvjobs: Kvjobs, database: Database, open_job: int) -> None:
    closed, again = kvjobs("close", open_job, "--json"), kvjobs("close", open_job)

    assert (closed.exit_code, closed.json["state"], closed.json["is_open"]) == (0, "done", False)
    assert again.exit_code == 0
    with database.reading() as connection:
        assert [action.action for action in list_actions(connection, open_job)] == ["close", "close"]
    assert kvjobs("db", "check").exit_code == 0


def test_a_job_of_a_corpus_cannot_be_closed(kvjobs: Kvjobs, running_job: int) -> None:
    refused = kvjobs("close", running_job)

    assert refused.exit_code == 2
    assert f"job {running_job} " in refused.err
