"""Recording the results of a batch, fenced by its lease."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from jobs.answers import Answers, Unanswered
from jobs.errors import StaleLease
from jobs.outcome import Failed, Outcome, Quarantined
from jobs.providers import ONNX
from jobs.store import memory
from jobs.store.connection.dialect import insert_results
from jobs.store.database import Database
from jobs.store.queue.batches import Batch, PlannedDocument
from jobs.store.queue.completion import end_documents, end_if_over
from jobs.store.queue.deaths import QUARANTINED
from jobs.store.queue.deltas import add_to_job
from jobs.store.queue.job_counters import lock_counters, wait_for_turn
from jobs.store.queue.job_providers import handover_sums, log_changes, provider_sums
from jobs.store.queue.shard_events import log_event
from jobs.store.queue.work import Work, fence, finish_shard, newest_lease, positions_json, shard_exists
from jobs.store.rollups import BatchSums, failures_addition
from jobs.store.schema.clock import db_time
from jobs.store.schema.results import RESULTS, SUMMED, as_stored
from jobs.store.schema.states import DocumentStatus, ShardState
from jobs.store.schema.step_table import Step, timings_json
from jobs.store.schema.tables import Shard, ShardEvent
from jobs.system.failpoints import failpoint


def record(database: Database, work: Work, index: int, answers: Answers, *, lease_s: float) -> None:
    """Write the results, timings and counters of one batch, and who answered it; renew the lease, and after the last
    batch finish the shard: one transaction, fenced. Repeating it is harmless, as after a COMMIT whose answer was lost.

    Raises StaleLease where the shard has another lease by now, or was deleted with its job: nothing is written, and the
    refusal is logged if the shard exists.
    """
    batch = work.batches[index]
    following = work.batches[index + 1] if index + 1 < len(work.batches) else None
    in_flight = {"in_flight": positions_json(following)} if following else {}  # behind the last batch as it was
    answered_by = answers.answered_by or [ONNX] * len(batch)
    # Rows are made before the transaction: SQLite has one writer at a time.
    rows, without = _rows(work, batch, answers.outcomes, answered_by)
    whose = {name: value for name, value in work.lease.items() if name != "lane"}
    timings = timings_json(answers.timings) if answers.timings else ""
    with database.writing() as connection:
        # The UPDATE locks the row, so no other transaction can change the lease between this check and the inserts.
        now = connection.execute(
            update(Shard)
            .where(Shard.in_flight == positions_json(batch), *fence(work))
            .values(lease_until=db_time(lease_s), crashes=0, **in_flight)
            .returning(db_time())
        ).scalar()
        if now is not None:
            failpoint("before-insert")
            # Who ends a document or the shard locks the counters of the job, and does all that needs no lock before.
            # The memory above all: who has the lock must not wait for another's entries, which may wait for the lock.
            inserted = insert_results(connection, RESULTS[work.spec.task], rows, finished_at=now)
            new = [row for row in rows if row["position"] in inserted]
            memory.learn(connection, answers.learned, model=work.spec.model, learned_at=now)
            failed = _end_failed(connection, work, without)
            log_changes(connection, work, answers, now)
            who_failed = [who for document, who in zip(batch, answered_by, strict=True) if document.position in failed]
            by_provider = provider_sums(work, (row["provider"] for row in new), who_failed, answers)
            sums = BatchSums(
                lease=work.lease,
                ended_at=now,
                table=RESULTS[work.spec.task],
                results=new,
                failed=len(failed),
                timings=answers.timings,
            )
            additions = sums.additions(by_provider, handover_sums(work, answers))
            failures = failures_addition(work.job_id, Counter(failed.values()))
            steps = [{**work.lease, "recorded_at": now, "timings": timings}] if timings else []
            event = {**whose, "at": now, "event": "recorded", "documents": len(batch)}
            amounts = _counted(work, batch, new, failed)
            add_to_job(connection, work.job_id, amounts, *additions, failures, (Step, steps), (ShardEvent, [event]))
            if not following:
                failpoint("in-finish")
                finish_shard(connection, work)
            failpoint("before-commit")
        accepted = now is not None or _was_recorded(connection, work, following)
        if not accepted and shard_exists(connection, work):
            log_event(connection, work.job_id, work.shard_id, "stale_commit", work.epoch, work.worker_id, len(batch))
    if not accepted:
        raise StaleLease(
            f"shard {work.shard_id} of job {work.job_id} was leased again after epoch {work.epoch}, or its job was "
            f"deleted; {len(batch)} results dropped"
        )
    failpoint("after-commit")
    if not following:
        end_if_over(database, work.job_id)


def _was_recorded(connection: Connection, work: Work, following: Batch | None) -> bool:
    """Whether an earlier try of the same record was committed: then the shard is exactly one batch further."""
    shard = connection.execute(select(Shard.state, Shard.in_flight).where(*newest_lease(work))).one_or_none()
    if shard is None:
        return False
    return bool(shard.in_flight == positions_json(following) if following else shard.state != ShardState.LEASED)


def _rows(
    work: Work, batch: Batch, outcomes: Sequence[Outcome | Unanswered], answered_by: Sequence[str]
) -> tuple[list[dict[str, Any]], list[tuple[PlannedDocument, Failed | Quarantined]]]:
    """The rows of the results, and the documents without one."""
    whose = {name: value for name, value in work.lease.items() if name != "lane"}
    rows: list[dict[str, Any]] = []
    without: list[tuple[PlannedDocument, Failed | Quarantined]] = []
    for document, outcome, provider in zip(batch, outcomes, answered_by, strict=True):
        assert not isinstance(outcome, Unanswered)  # else another provider would be asked, or it would have failed
        stored = as_stored(outcome)
        if isinstance(stored, dict):
            rows.append(stored | whose | {"position": document.position, "provider": provider})
        else:
            without.append((document, stored))
    return rows, without


def _end_failed(
    connection: Connection, work: Work, without: Sequence[tuple[PlannedDocument, Failed | Quarantined]]
) -> dict[int, tuple[DocumentStatus, str]]:
    """End the open documents that have no result. Returns their status and error code, by position."""
    ended = {}
    if without:
        wait_for_turn(connection, work.job_id)
        lock_counters(connection, work.job_id)
    for document, failure in without:
        here = (work.job_id, document.position, document.position + 1)
        status = DocumentStatus.FAILED if isinstance(failure, Failed) else DocumentStatus.QUARANTINED
        why = (failure.code, failure.message)
        was_open = end_documents(connection, RESULTS[work.spec.task], *here, status, *why)
        if was_open:
            ended[document.position] = (status, failure.code)
        if was_open and isinstance(failure, Quarantined):
            detail = f"[{document.position}] {failure.message}"
            log_event(connection, work.job_id, work.shard_id, QUARANTINED, work.epoch, work.worker_id, 1, detail)
    return ended


def _counted(
    work: Work, batch: Batch, new: Sequence[dict[str, Any]], failed: dict[int, tuple[DocumentStatus, str]]
) -> dict[str, int]:
    """The amounts to add to the job's counters for the results inserted and the documents ended in this transaction."""
    tokens = {document.position: document.estimated_tokens for document in batch}
    ended = (*(row["position"] for row in new), *failed)
    return {
        "succeeded": len(new),
        "estimated_done": sum(tokens[position] for position in ended),
        **Counter(status.value for status, _ in failed.values()),
        **{counter: sum(row[column.key] for row in new) for counter, column in SUMMED[RESULTS[work.spec.task]].items()},
    }
