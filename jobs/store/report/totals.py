"""The sums of a job's results, as a whole or grouped by a field of its documents: sums first, division last."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, and_, func, not_, select

from jobs import measures
from jobs.errors import SpecError
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.result_tables import RESULTS, Score
from jobs.store.schema.results import is_of_document
from jobs.store.schema.tables import Document
from jobs.store.where.fields import field_of, resolve
from jobs.store.where.grammar import read_name
from jobs.tasks.kind import Kind
from jobs.text.json_numbers import read_value

LEAST_INTEGER, GREATEST_INTEGER = -(1 << 63), (1 << 64) - 1  # that orjson writes


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over documents with a result, the measures that follow from them, and how many have which flag. Documents
    without a result are in no sum."""

    group: Any  # value of the field; None where it is missing, and for the whole job
    documents: int  # of scores: with at least one scored token; of texts: all
    unscored: int  # with a result, but without a scored token, or with an unknown log-probability
    sums: Mapping[str, int | float]
    measures: Mapping[str, float | None]
    flags: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Summed:
    """What is summed up of a task's results. Each sum has its name in `Totals.sums`."""

    documents: Any
    unscored: Any
    sums: Mapping[str, Any]
    measures: Callable[[Mapping[str, Any]], dict[str, float | None]]
    hidden: Mapping[str, Any] = field(default_factory=dict)  # sums for the measures alone
    reads_documents: bool = False


def totals(connection: Connection, job: JobSummary) -> Totals:
    """Totals of all documents of a job that have a result. Raises SpecError for a job that has none."""
    found = _totals(connection, job, {})
    return found[0] if found else _total(job.kind, None, [])


def totals_by(connection: Connection, job: JobSummary, by: str) -> list[Totals]:
    """Totals for each value of another field of the corpus. Raises SpecError where no document has the field.

    Equal numbers are one value however they are written; a text with the same digits is another value.
    """
    _require_totals(job)
    path = resolve(connection, job.job_id, read_name(by))
    value = field_of(Document.__table__.c.fields, path, connection.dialect.name)
    kinds = {"number": value.number, "text": value.text, "truth": value.truth, "rest": value.rest}
    found = _totals(connection, job, {f"group_{kind}": column for kind, column in kinds.items()})
    return sorted(found, key=lambda totals: _rank(totals.group))


def _totals(connection: Connection, job: JobSummary, groups: Mapping[str, Any]) -> list[Totals]:
    """The rows of each group are those of each combination of flags, of which there are few."""
    _require_totals(job)
    result, summed = RESULTS[job.task], _summed(job.kind)
    columns = (summed.documents, summed.unscored, *summed.sums.values(), *summed.hidden.values(), result.flags)
    keys = [column.label(name) for name, column in groups.items()]
    asked = select(*keys, *columns).where(result.job_id == job.job_id).group_by(*groups, result.flags)
    if groups or summed.reads_documents:
        asked = asked.join_from(result, Document, is_of_document(result))
    rows: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
    for row in connection.execute(asked):
        rows.setdefault(tuple(row[: len(keys)]), []).append(row[len(keys) :])
    return [_total(job.kind, _group(*key) if key else None, parts) for key, parts in rows.items()]


def _require_totals(job: JobSummary) -> None:
    if not job.kind.has_totals:
        raise SpecError(f"job {job.label} has nothing to sum up: its task is {job.task}")


def _total(kind: Kind, group: Any, parts: Sequence[Sequence[Any]]) -> Totals:
    """The totals of a group from those of each combination of flags, in the order of `_totals`."""
    summed = _summed(kind)
    names = ("documents", "unscored", *summed.sums, *summed.hidden)
    values = dict(zip(names, zip(*parts, strict=True) if parts else [()] * len(names), strict=False))
    # In nats where a log-probability is summed, else a number of something.
    added = {name: math.fsum(of) if name in _IN_NATS else sum(map(int, of)) for name, of in values.items()}
    flags: Counter[str] = Counter()
    for part in parts:
        flags.update(dict.fromkeys(part[-1].split(), int(part[0] + (0 if kind.text else part[1]))))
    known = {flag.value: flags[flag] for flag in kind.flags if flag in flags}
    return Totals(
        group,
        int(added["documents"]),
        int(added["unscored"]),
        {name: added[name] for name in summed.sums},
        summed.measures(added),
        known | dict(sorted(flags.items())),
    )


_IN_NATS = ("nll_sum", "log_prob")


def _group(number: Any, text: str | None, truth: bool | None, rest: str | None) -> Any:
    """The value of a group for JSON: of its columns the one that is not null. An integer beyond 64 bits is a Fragment
    where the database has all its digits (PostgreSQL), and a double where it does not (SQLite)."""
    if number is not None:
        return _number(number)
    if truth is not None:
        return bool(truth)
    return text if rest is None else read_value(rest)


def _number(number: Any) -> int | float | str | orjson.Fragment:
    if not math.isfinite(number):
        return str(float(number))  # JSON has no infinity
    if number != int(number):
        return float(number)
    if LEAST_INTEGER <= number <= GREATEST_INTEGER:
        return int(number)
    return number if isinstance(number, float) else orjson.Fragment(str(number))


def _rank(group: Any) -> tuple[int, float, str]:
    """The sort key of a group: numbers in ascending order, then other values by their JSON, then None."""
    if group is None:
        return 2, 0.0, ""
    written = orjson.dumps(group).decode()
    is_number = isinstance(group, int | float | orjson.Fragment) and not isinstance(group, bool)
    return (0, float(written), written) if is_number else (1, 0.0, written)


def _summed(kind: Kind) -> _Summed:
    return _of_texts(kind) if kind.text else _of_scores()


def _of_scores() -> _Summed:
    derived = Score.kind.derived
    names = ("num_tokens", "num_words", "num_bytes")
    return _Summed(
        documents=func.count().filter(Score.num_tokens > 0),
        unscored=func.count().filter(Score.num_tokens == 0),
        sums={name: _sum(getattr(Score, name)) for name in names} | {"nll_sum": _sum(Score.nll_sum, 0.0)},
        measures=lambda sums: {measure.name: measure.of(sums) for measure in derived},
    )


def _of_texts(kind: Kind) -> _Summed:
    """Of a task that makes a text of one: characters (Unicode code points) and tokens of both, and the perplexity of
    the results whose log-probability is known."""
    result: Any = RESULTS[kind.name]
    assert kind.mean is not None
    assert kind.length is not None
    assert kind.text is not None
    total, made = getattr(result, kind.mean.total), getattr(result, kind.mean.count)
    is_scored = and_(total.is_not(None), made > 0)
    return _Summed(
        documents=func.count(),
        unscored=func.count().filter(not_(is_scored)),
        sums={
            "source_characters": _sum(func.length(Document.text)),
            "target_characters": _sum(func.length(getattr(result, kind.text))),
            "source_tokens": _sum(getattr(result, kind.length)),
            "target_tokens": _sum(made),
            "log_prob": func.coalesce(func.sum(total).filter(is_scored), 0.0),
        },
        hidden={"scored_tokens": func.coalesce(func.sum(made).filter(is_scored), 0)},
        measures=lambda sums: {"perplexity": measures.perplexity(-sums["log_prob"], sums["scored_tokens"])},
        reads_documents=True,
    )


def _sum(column: Any, nothing: float = 0) -> Any:
    return func.coalesce(func.sum(column), nothing)
