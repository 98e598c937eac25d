"""Each waiting shard says why it waits."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.advice.waiting_reasons import Circumstances, no_worker_sentence, who_has_it, why_job_waits, why_shard_waits
from jobs.store.queue.waiting import JobsAhead
from jobs.store.report.shards import ShardSummary
from jobs.store.report.waiting_work import Service
from tests.summaries import RUNNING_JOB

NOW = datetime(2026, 11, 22, tzinfo=UTC)
SHARD = ShardSummary(
    shard_id=7,
    start=0,
    stop=100,
    estimated_tokens=1000,
    state="ready",
    available_at=NOW,
    waits_s=5.0,
    worker_id=None,
    host=None,
    lane=None,
    epoch=0,
    lease_left_s=None,
    in_flight=0,
    attempts=0,
    crashes=0,
)
BUSY = Service(live=2, with_gpu=0, queues=("cpu",), serving=2, held_back=0, lanes=4, busy_lanes=4)
AROUND = Circumstances(job=RUNNING_JOB, service=BUSY, ahead=JobsAhead(0, 0), next_shard=7)


def around(**changed: Any) -> Circumstances:
    return replace(AROUND, **changed)


@pytest.mark.parametrize(
    ("circumstances", "reason"),
    [
        (AROUND, "It is next; all 4 lanes that serve the job are busy."),
        (
            around(service=replace(BUSY, busy_lanes=3)),
            "It is next, and a lane is free: a worker takes it within seconds.",
        ),
        (around(next_shard=3), "Shard 3 of this job comes first; 4 of 4 lanes in use."),
        (
            around(job=replace(RUNNING_JOB, paused=True, reason="the model is gone")),
            "The job is paused (the model is gone). To resume it: kvjobs resume 9",
        ),
        (
            around(job=replace(RUNNING_JOB, cancel_requested_at=NOW)),
            "The job is being cancelled: its shards are closed, not leased.",
        ),
        (
            around(job=replace(RUNNING_JOB, state="ingesting")),
            "The corpus is still being read; workers see the job when it is read to the end.",
        ),
        (around(ahead=JobsAhead(3, 600)), "3 jobs with 600 documents are ahead of it."),
        (
            around(service=replace(BUSY, live=0, serving=0, lanes=0)),
            "No worker is running. To start one: kvjobs worker",
        ),
        (
            around(service=replace(BUSY, serving=0), job=replace(RUNNING_JOB, queue="gpu")),
            "The job needs a GPU, and no live worker has one. To start one: kvjobs worker --device cuda:0",
        ),
        (
            around(service=replace(BUSY, serving=0, queues=("model:x",))),
            "No worker serves the queue cpu now. To see what each one serves: kvjobs worker ls",
        ),
    ],
)
def test_a_ready_shard_says_what_it_waits_for(circumstances: Circumstances, reason: str) -> None:
    assert why_shard_waits(SHARD, circumstances) == reason


def test_a_shard_whose_processes_died_says_what_the_next_lease_does() -> None:
    once, twice = replace(SHARD, crashes=1), replace(SHARD, crashes=2)

    assert why_shard_waits(once, AROUND).endswith(" Its last lease was taken back before a batch was recorded.")
    assert why_shard_waits(twice, AROUND).endswith(
        " Its last 2 leases were taken back before a batch was recorded, so the next one runs its first batch in a "
        "disposable process."
    )


def test_a_job_that_has_ended_or_that_workers_take_waits_for_nothing() -> None:
    assert why_job_waits(AROUND) is None
    assert why_job_waits(around(job=replace(RUNNING_JOB, state="done"))) is None


def test_a_leased_shard_says_who_has_it_and_one_whose_lease_ran_out_says_so() -> None:
    leased = replace(SHARD, state="leased", worker_id=3, host="box", lane=1, lease_left_s=30.0, in_flight=32)

    assert who_has_it(leased) == (
        "Lane 1 of worker 3 on box computes 32 documents; its lease lasts 30.0 s more unless it is renewed."
    )
    assert who_has_it(replace(leased, in_flight=0)).startswith("Lane 1 of worker 3 on box holds it;")
    assert who_has_it(replace(leased, lease_left_s=-12.0)) == (
        "The lease of lane 1 of worker 3 on box ran out 12.0 s ago; the shard is taken back and leased again."
    )


def test_a_queue_that_is_served_needs_no_advice() -> None:
    assert no_worker_sentence(BUSY, "cpu") is None
