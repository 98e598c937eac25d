"""The providers of a job: listed at its ingest, counted with each recorded batch.

Every function runs inside the caller's transaction, which has locked the job's row in `job_counts` or made it.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from jobs.answers import Answers
from jobs.providers import Choice
from jobs.spec import JobSpec
from jobs.stage import FilterSpec
from jobs.store.connection.dialect import insert_rows
from jobs.store.queue.work import Work
from jobs.store.schema.provider_tables import JobProvider, ProviderChange

Row = dict[str, Any]


def insert_providers(connection: Connection, job_id: int, spec: JobSpec | FilterSpec) -> None:
    """A row for each provider of a new job."""
    order = enumerate(spec.providers.choices)
    insert_rows(connection, JobProvider, [_row(job_id, spec, place, choice) for place, choice in order])


def provider_sums(work: Work, succeeded: Iterable[str], failed: Iterable[str], answers: Answers) -> list[Row]:
    """What a batch adds to the rows of its providers. `succeeded` and `failed`: who answered the documents that the
    transaction has really inserted and ended."""
    documents, failures = Counter(succeeded), Counter(failed)
    handed_over: Counter[str] = Counter()
    for handover in answers.handovers:
        handed_over[handover.provider] += handover.documents
    usage = {used.provider: used for used in answers.usage}
    rows = []
    for place, choice in enumerate(work.spec.providers.choices):
        name, used = choice.name, usage.get(choice.name)
        sums = {"documents": documents[name], "failed": failures[name], "handed_over": handed_over[name]}
        if used or any(sums.values()):
            rows.append(_row(work.job_id, work.spec, place, choice) | sums)
        if used:
            rows[-1] |= {name: getattr(used, name) for name in USED}
    return rows


def handover_sums(work: Work, answers: Answers) -> list[Row]:
    """What a batch adds to the rows of reasons why its providers did not answer, sorted by their key."""
    found: dict[tuple[str, str], Row] = {}
    for handover in answers.handovers:
        if handover.documents:
            key = (handover.provider, handover.code.value)
            row = found.setdefault(key, {"job_id": work.job_id, "provider": key[0], "code": key[1], "documents": 0})
            row.setdefault("reason", handover.reason)
            row["documents"] += handover.documents
    return [found[key] for key in sorted(found)]


def log_changes(connection: Connection, work: Work, answers: Answers, now: datetime) -> None:
    """A row for each handover that is a change."""
    names = ("provider", "next_provider", "reason", "documents")
    rows = [
        {"code": change.code.value, **{name: getattr(change, name) for name in names}}
        for change in answers.handovers
        if change.is_change
    ]
    insert_rows(connection, ProviderChange, rows, **work.lease, at=now)


def _row(job_id: int, spec: JobSpec | FilterSpec, place: int, choice: Choice) -> Row:
    return {
        "job_id": job_id,
        "place": place,
        "provider": choice.name,
        "model": choice.model or spec.model,
        "skipped": choice.skipped,
        **dict.fromkeys(("documents", "failed", "handed_over", *USED), 0),
        "cost": 0.0,
    }


USED = ("requests", "prompt_tokens", "completion_tokens", "cost")  # of `Usage`
