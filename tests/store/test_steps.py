"""The timings of a batch are one row, and the view shows each."""

from dataclasses import astuple
from typing import Any

from sqlalchemy import func, text

from jobs.outcome import StepTiming
from jobs.store.database import Database
from jobs.store.schema.step_table import Step
from tests.databases import ON_BOTH
from tests.rows import AddWaitingJob
from tests.store.leasing import take, value, write

TIMINGS = [
    StepTiming("queue", 0, 2, 0, 0, 1.2e-8),
    StepTiming("encode.via", 0, 2, 20, 0, 0.1),
    StepTiming("decode", 0, 64, 64, 0, 0.003),
    StepTiming("encode.via", 0, 3, 2**40, 0, 4_000_000.123456789),
    StepTiming("decode", 1, 64, 64, 1, 0.0, calls=7),
    StepTiming("stage.0", 0, 64, 64, 0, 0.002999999),
]


def shown(database: Database) -> list[tuple[Any, ...]]:
    sql = "SELECT phase, step, rows, tokens, past_length, seconds, calls FROM v_steps WHERE job_id = 1 ORDER BY seconds"
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(text(sql))]


@ON_BOTH
def test_the_view_shows_each_timing_of_a_batch_as_it_was_measured(
    database: Database, add_waiting_job: AddWaitingJob
) -> None:
    add_waiting_job(documents=3, per_shard=3)
    work = take(database)

    write(database, work, timings=TIMINGS)

    assert value(database, func.count(Step.id)) == 1
    assert shown(database) == sorted(map(astuple, TIMINGS), key=lambda timing: timing[5])
    with database.reading() as connection:
        whose = connection.execute(text("SELECT DISTINCT shard_id, epoch, worker_id, lane, host FROM v_steps")).all()
    assert whose == [(work.shard_id, work.epoch, 1, 0, None)]


@ON_BOTH
def test_a_batch_of_which_nothing_was_timed_has_no_row(database: Database, add_waiting_job: AddWaitingJob) -> None:
    add_waiting_job(documents=3, per_shard=3)

    write(database, take(database), timings=[])

    assert value(database, func.count(Step.id)) == 0
    assert shown(database) == []
