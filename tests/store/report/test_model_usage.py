"""What each model was used for, summed over its jobs."""

from sqlalchemy import insert

from jobs.store.database import Database
from jobs.store.report.model_usage import model_usage
from jobs.store.schema import tables
from jobs.store.schema.clock import db_time
from tests.rows import AddJob, Line


def test_jobs_of_a_model_are_summed_and_only_model_calls_cost(database: Database, add_job: AddJob) -> None:
    jobs = [add_job(Line("a", "甲"), Line("b", "乙"), model=model) for model in ("m", "m", "other")]
    with database.writing() as connection:
        for job_id in jobs[:2]:
            for phase, seconds in (("decode", 2.0), ("encode", 1.0), ("record", 50.0)):
                whose = {"job_id": job_id, "shard_id": 1, "epoch": 1, "worker_id": 1, "lane": 0, "step": 0}
                sizes = {"rows": 1, "tokens": 1, "past_length": 0, "calls": 1}
                timed = {**whose, **sizes, "phase": phase, "seconds": seconds, "recorded_at": db_time()}
                connection.execute(insert(tables.Step).values(**timed))

    with database.reading() as connection:
        m, other = model_usage(connection)

    assert (m.model, m.jobs, m.newest_job, m.documents, m.target_tokens) == ("m", 2, jobs[1], 4, 40)
    assert (m.seconds, m.ms_per_token) == (6.0, 150.0)
    assert (other.model, other.seconds, other.ms_per_token) == ("other", 0.0, None)


def test_without_a_job_nothing_was_used(database: Database) -> None:
    with database.reading() as connection:
        assert model_usage(connection) == []
