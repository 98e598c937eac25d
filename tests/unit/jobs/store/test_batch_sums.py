"""What a batch adds to the rollups, without a database."""

from datetime import UTC, datetime

from jobs.store.rollups import BatchSums
from jobs.store.schema.result_tables import Pass

LEASE = {"job_id": 1, "shard_id": 1, "epoch": 1, "worker_id": 1, "lane": 0}


def test_results_without_a_number_of_tokens_add_none() -> None:
    sums = BatchSums(
        lease=LEASE,
        ended_at=datetime(2026, 1, 1, tzinfo=UTC),
        table=Pass,
        results=[{"flags": ""}],
        failed=0,
        timings=(),
    )

    row = sums.batch()
    assert (row["documents"], row["source_tokens"], row["target_tokens"]) == (1, 0, 0)
