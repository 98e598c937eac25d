"""What each model was used for, summed over its jobs."""

from jobs.outcome import StepTiming
from jobs.store.database import Database
from jobs.store.report.model_usage import model_usage
from tests.rows import AddJob, Line, add_timings


def test_jobs_of_a_model_are_summed_and_only_model_calls_cost(database: Database, add_job: AddJob) -> None:
    jobs = [add_job(Line("a", "甲"), Line("b", "乙"), model=model) for model in ("m", "m", "other")]
    timed = [("decode", 2.0), ("encode", 1.0), ("record", 50.0)]
    for job_id in jobs[:2]:
        add_timings(database, job_id, [StepTiming(phase, 0, 1, 1, 0, seconds) for phase, seconds in timed])

    with database.reading() as connection:
        m, other = model_usage(connection)

    assert (m.model, m.jobs, m.newest_job, m.documents, m.target_tokens) == ("m", 2, jobs[1], 4, 40)
    assert (m.seconds, m.ms_per_token) == (6.0, 150.0)
    assert (other.model, other.seconds, other.ms_per_token) == ("other", 0.0, None)


def test_without_a_job_nothing_was_used(database: Database) -> None:
    with database.reading() as connection:
        assert model_usage(connection) == []
