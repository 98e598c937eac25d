"""The export of a chain: a line for each document, with the results of all stages.

    {"id", "status", "translation", "flags"?, "score": {...}, "flags_2"?,
     "error"?: {"code", "message", "line", "stage"}, ...}

A key that an earlier stage has too gets the number of its stage: `score`, then `score_3`. Without a choice, only the
documents with a result in every stage are written. Another one has the status and the error of the first stage in which
it has none.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.choices import Only
from jobs.errors import SpecError
from jobs.export.export_formats import json_id, split_fields
from jobs.export.export_options import Export
from jobs.export.result_columns import Shape, shape_of
from jobs.json_text import to_json
from jobs.stage import FILTER
from jobs.store.database import Database
from jobs.store.report.documents.export import OK, WAITING, ExportedDocument, read_documents
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.states import DocumentStatus

OF_EVERY_STAGE = frozenset({"id", "status", "error", "fields"})


@dataclass(frozen=True, slots=True)
class _Stage:
    job: JobSummary
    shape: Shape
    renamed: dict[str, str]  # keys of its result that an earlier stage has too


def chain_lines(
    database: Database, jobs: Sequence[JobSummary], export: Export, *, tell: Callable[[str], None]
) -> Iterator[bytes]:
    """The head of the file, which is empty, a line for each document, and its end; then `tell` gets how many documents
    were left out, and why. Raises SpecError before the head for
    options that a chain does not have."""
    if export.condition is not None:
        raise SpecError("--where is for one job; to filter a chain, add a stage to it: --then 'filter CONDITION'")
    if export.extras:
        raise SpecError(f"--with {export.extras[0]} is for one job; leave it out, or leave --chain out")
    stages = _stages(jobs)
    reserved = OF_EVERY_STAGE.union(*(_keys(stage) for stage in stages))
    left_out: Counter[str] = Counter()
    yield b""
    for of_stages in _side_by_side(database, jobs):
        status, ended_in = _status(of_stages)
        first, last = of_stages[0], of_stages[ended_in]
        if not _is_wanted(status, export.only):
            left_out[last.error_code or status if last and status == DocumentStatus.SKIPPED else status] += 1
            continue
        record: dict[str, Any] = {"id": json_id(first), "status": status}
        for stage, document in zip(stages, of_stages, strict=True):
            if stage.job.task != FILTER:
                values = stage.shape.in_json(document.result if document else {})
                values |= {key: document.result.get(key) if document else None for key in stage.shape.always}
                record |= {stage.renamed.get(key, key): value for key, value in values.items()}
        if last is not None and (last.error_code or last.error):
            place = {"line": last.line, "stage": ended_in + 1}
            record["error"] = {"code": last.error_code, "message": last.error, **place}
        own, hidden = split_fields(first, reserved)
        record.update(own)
        if hidden:
            record["fields"] = hidden
        yield to_json(record) + b"\n"
    yield b""
    if left_out and export.only is None:
        numbers = ", ".join(f"{number:,} {why}" for why, number in sorted(left_out.items()))
        tell(f"Left out, since they have no result in every stage: {numbers} (--only all writes them too).")


def _stages(jobs: Sequence[JobSummary]) -> list[_Stage]:
    taken: set[str] = set()
    stages = []
    for number, job in enumerate(jobs, start=1):
        shape = shape_of(job)
        own = shape.keys - OF_EVERY_STAGE
        stages.append(_Stage(job, shape, {key: f"{key}_{number}" for key in own & taken}))
        taken |= own if job.task != FILTER else set()
    return stages


def _keys(stage: _Stage) -> set[str]:
    """Every key that the stage may write."""
    own = stage.shape.keys - OF_EVERY_STAGE if stage.job.task != FILTER else frozenset()
    return {stage.renamed.get(key, key) for key in own}


def _side_by_side(
    database: Database, jobs: Sequence[JobSummary]
) -> Iterator[tuple[ExportedDocument, *tuple[ExportedDocument | None, ...]]]:
    """Each document of the first stage with the same one of the others; None where a stage has not got it yet."""
    first, *others = (read_documents(database, job.job_id, only=Only.ALL) for job in jobs)
    upcoming = [next(other, None) for other in others]
    for document in first:
        found: list[ExportedDocument | None] = []
        for index, other in enumerate(others):
            there = upcoming[index]
            is_same = there is not None and there.position == document.position
            found.append(there if is_same else None)
            if is_same:
                upcoming[index] = next(other, None)
        yield (document, *found)


def _status(of_stages: Sequence[ExportedDocument | None]) -> tuple[str, int]:
    """The status of a document in its chain, and the index of the stage that decides it: the first without a result."""
    for index, document in enumerate(of_stages):
        if document is None:
            return WAITING, index
        if document.status != OK:
            return document.status, index
    return OK, len(of_stages) - 1


def _is_wanted(status: str, only: Only | None) -> bool:
    match only:
        case Only.ALL:
            return True
        case Only.OK | None:
            return status == OK
        case Only.WAITING:
            return status == WAITING
        case Only.FAILED:
            return status not in (OK, WAITING, DocumentStatus.SKIPPED)
