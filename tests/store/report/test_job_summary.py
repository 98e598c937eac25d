"""The progress of jobs, calculated from counters alone."""

from dataclasses import replace

import pytest
from sqlalchemy import event, update

from jobs.choices import AWAITING, CANCELLING, PAUSED, SHOWN_STATES, WAITING
from jobs.errors import NotFoundError
from jobs.store.database import Database
from jobs.store.report.failures import failures
from jobs.store.report.job_summary import JobSummary, find_job, list_jobs
from jobs.store.report.timings.speed import RecentSpeed
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from jobs.store.schema.states import DocumentStatus, JobState
from tests.rows import AddJob, Line

FAILED = Line("f", status=DocumentStatus.FAILED, error=("engine-error", "it broke"))


def find(database: Database, reference: object) -> JobSummary:
    with database.reading() as connection:
        return find_job(connection, str(reference))


def test_a_job_is_found_by_its_number_its_name_or_as_last(
    database: Database, finished_job: int, running_job: int
) -> None:
    assert find(database, finished_job).job_id == finished_job
    assert find(database, "nightly").job_id == finished_job
    assert find(database, "last").job_id == running_job


@pytest.mark.parametrize("reference", ["99", "no such name", "0", "-1", "", "9" * 30, "٣", "1.0", "1 or 1"])
def test_an_unknown_job_is_not_found(database: Database, finished_job: int, reference: str) -> None:
    with pytest.raises(NotFoundError, match="kvjobs ls"):
        find(database, reference)


def test_without_jobs_last_is_not_found(database: Database) -> None:
    with pytest.raises(NotFoundError):
        find(database, "last")


def test_the_counts_of_a_job_add_up(database: Database, mixed_job: int, running_job: int) -> None:
    mixed, running = find(database, mixed_job), find(database, running_job)

    assert (mixed.succeeded, mixed.unsuccessful, mixed.waiting, mixed.share_done) == (1, 4, 0, 0.75)
    assert (running.succeeded, running.unsuccessful, running.waiting, running.share_done) == (2, 1, 1, 0.75)
    assert running.estimated_left == 10


def test_times_are_taken_from_the_clock_of_the_database(database: Database, finished_job: int) -> None:
    job = find(database, finished_job)

    assert job.elapsed_s == pytest.approx(100, abs=1)
    assert job.tokens_per_s == pytest.approx(0.3, abs=0.01)
    assert job.eta_s is None
    assert job.finished_at is not None
    assert job.finished_at.tzinfo is not None


def test_a_job_that_ended_before_it_began_by_a_clock_that_went_back_has_no_time(
    database: Database, finished_job: int
) -> None:
    with database.writing() as connection:
        connection.execute(update(tables.Job).values(started_at=db_time(), finished_at=db_time(-3600)))

    job = find(database, finished_job)

    assert job.elapsed_s is job.tokens_per_s is job.eta_s is None


@pytest.mark.parametrize(
    ("lines", "state", "exit_code"),
    [
        ([Line("a", "甲")], JobState.DONE, 0),
        ([], JobState.DONE, 0),
        ([Line("a", "甲"), FAILED], JobState.DONE, 3),
        ([Line("a", "甲"), Line("r", status=DocumentStatus.REJECTED)], JobState.DONE, 3),
        ([Line("a", "甲"), Line("c", status=DocumentStatus.CANCELLED)], JobState.CANCELLED, 3),
        ([], JobState.FAILED, 1),
        ([Line("w")], JobState.RUNNING, None),
        ([Line("w")], JobState.INGESTING, None),
    ],
)
def test_the_exit_code_of_a_job(
    database: Database, add_job: AddJob, lines: list[Line], state: JobState, exit_code: int | None
) -> None:
    assert find(database, add_job(*lines, state=state)).exit_code == exit_code


def test_jobs_are_listed_newest_first_and_by_state(
    database: Database, add_job: AddJob, finished_job: int, running_job: int
) -> None:
    paused = add_job(Line("w"), paused=True)
    cancelling = add_job(Line("w"), paused=True, cancel_requested_at=db_time())

    def listed(*states: str, limit: int | None = None) -> list[int]:
        with database.reading() as connection:
            return [job.job_id for job in list_jobs(connection, states=states, limit=limit)]

    assert listed() == [cancelling, paused, running_job, finished_job]
    assert listed(limit=1) == [cancelling]
    assert listed("paused") == [paused]
    assert listed("running") == [running_job]
    assert listed("cancelling", "done") == [cancelling, finished_job]
    for state in ("paused", "running", "cancelling", "done"):
        with database.reading() as connection:
            assert {job.recorded_state for job in list_jobs(connection, states=[state])} == {state}


def test_progress_reads_no_row_of_documents(database: Database, running_job: int) -> None:
    statements: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        statements.append(statement)

    find(database, running_job)
    with database.reading() as connection:
        list_jobs(connection)

    read = " ".join(statements).lower()
    assert "v_jobs" in read
    for counter in ("v_jobs.documents", "job_counts.documents", "flag_counts.documents", "corpus_documents"):
        read = read.replace(counter, "")
    assert "documents " not in read
    assert "translations" not in read


def test_failures_are_grouped_by_reason_with_samples(database: Database, add_job: AddJob) -> None:
    bad_line = Line(None, status=DocumentStatus.REJECTED, text=None, error=("bad-json", "no JSON"))
    without_code = Line("n", status=DocumentStatus.QUARANTINED, error=(None, None))
    job = add_job(bad_line, *(replace(FAILED, id=f"f{number}") for number in range(5)), without_code, Line("a", "甲"))

    with database.reading() as connection:
        found = failures(connection, find_job(connection, str(job)))

    assert [(failure.status, failure.code, failure.documents) for failure in found] == [
        ("failed", "engine-error", 5),
        ("quarantined", None, 1),
        ("rejected", "bad-json", 1),
    ]
    assert [sample.id for sample in found[0].samples] == ["f0", "f1", "f2"]
    assert found[2].samples[0].line == 1


def test_the_recent_speed_covers_the_last_minute(database: Database, running_job: int) -> None:
    job = replace(find(database, running_job), estimated_tokens=10_000)
    pace = RecentSpeed()
    pace.add(job, 0.0)
    assert (pace.tokens_per_s, pace.eta_s) == (None, None)

    # A hundred tokens a second for two minutes, then ten.
    for second in range(1, 181):
        tokens = 100 * min(second, 120) + 10 * max(0, second - 120)
        pace.add(replace(job, target_tokens=tokens, estimated_done=tokens // 2), float(second))

    assert pace.tokens_per_s == pytest.approx(10)
    assert pace.eta_s == pytest.approx((10_000 - 6_300) / 5)


def test_without_progress_there_is_no_remaining_time(database: Database, running_job: int) -> None:
    pace = RecentSpeed()
    for second in range(3):
        pace.add(find(database, running_job), float(second))

    assert pace.tokens_per_s == 0
    assert pace.eta_s is None


def test_a_retry_that_lowers_counters_gives_no_negative_speed(database: Database, running_job: int) -> None:
    job = find(database, running_job)
    pace = RecentSpeed()
    pace.add(replace(job, estimated_done=30), 0.0)
    pace.add(replace(job, estimated_done=10), 1.0)

    assert pace.eta_s is None


def test_a_number_takes_precedence_over_a_name_of_digits(
    database: Database, finished_job: int, running_job: int
) -> None:
    with database.writing() as connection:
        named = update(tables.Job).where(tables.Job.id == running_job).values(name=str(finished_job))
        connection.execute(named)

    assert find(database, finished_job).job_id == finished_job


def test_jobs_can_be_filtered_by_every_state() -> None:
    assert set(SHOWN_STATES) == {*(state.value for state in JobState), PAUSED, CANCELLING, WAITING, AWAITING}
