"""The result of each task in an export: keys of JSON, columns and rows of a table."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from jobs.errors import SpecError
from jobs.tasks.filter import FILTER
from jobs.tasks.generate import GENERATE
from jobs.tasks.kind import Exported, Kind
from jobs.tasks.kinds import KINDS
from jobs.tasks.rerank import RERANK
from jobs.tasks.score import SCORE
from jobs.tasks.task import Task
from jobs.tasks.translate import TRANSLATE

if TYPE_CHECKING:
    from jobs.store.report.documents.export import ExportedDocument
    from jobs.store.report.job_summary import JobSummary

Cells = dict[str, Any]
PROVIDER, VIA = "provider", "via"


class Extra(enum.StrEnum):
    """Further values that `--with` adds to an export."""

    TEXT = "text"  # the document itself
    LOG_PROB = "log_prob"  # of a translation or a continuation, natural logarithm
    TOKENS = "tokens"  # numbers of tokens: read, generated, scored, shared; and what is unknown of a source


@dataclass(frozen=True)
class Shape(ABC):
    """How the results of one task are written."""

    main: str  # the key of the result in JSON
    columns: tuple[str, ...]  # of a table, instead of that key
    counts: tuple[str, ...]  # the extra `tokens`: columns of the result
    extras: frozenset[Extra]
    optional: Mapping[str, Callable[[Mapping[str, Any]], bool]] = field(default_factory=dict)  # key -> whether the
    # options of a job ask for it
    always: tuple[str, ...] = ()  # further columns of the result, in every record
    beside: Mapping[Extra, tuple[str, ...]] = field(default_factory=dict)  # columns that an extra adds besides its own

    @property
    def keys(self) -> frozenset[str]:
        """Every key that a record may have; reserved in all records, so that a corpus field is always in one place."""
        extras = (*self.counts, *(extra for extra in self.extras if extra is not Extra.TOKENS))
        beside = (key for keys in self.beside.values() for key in keys)
        own = {"id", "status", "flags", "error", "fields", self.main, *({VIA} & {*self.columns})}
        return frozenset(own | {*self.optional, *extras, *beside, *self.always})

    @property
    def table_keys(self) -> frozenset[str]:
        """The reserved names of a table, where the error takes several columns."""
        return self.keys | {*self.columns, "error_code", "line"}

    @abstractmethod
    def in_json(self, result: Mapping[str, Any]) -> Cells:
        """The keys of a document with this result; if it is empty, the main key is null."""

    @abstractmethod
    def in_table(self, result: Mapping[str, Any]) -> Iterator[Cells]:
        """The rows of a document with this result; one row if it is empty."""

    def as_text(self, result: Mapping[str, Any]) -> str | None:
        """The result as one line of text; None if it has no such form."""
        return None


class _Translation(Shape):
    def in_json(self, result: Mapping[str, Any]) -> Cells:
        keys: Cells = {"translation": result.get("text"), **self._via(result), **_flags(result)}
        if result.get("alternatives"):
            keys["nbest"] = orjson.loads(result["alternatives"])
        return keys

    def in_table(self, result: Mapping[str, Any]) -> Iterator[Cells]:
        yield {"translation": result.get("text"), **self._via(result), "nbest": result.get("alternatives")}

    def _via(self, result: Mapping[str, Any]) -> Cells:
        """The text between two models, of a job that may have one."""
        return {VIA: result.get(VIA)} if VIA in self.columns else {}

    def as_text(self, result: Mapping[str, Any]) -> str | None:
        return str(result["text"])


class _Score(Shape):
    def in_json(self, result: Mapping[str, Any]) -> Cells:
        keys: Cells = {"score": _measured(result) if result else None, **_flags(result)}
        if result.get("token_scores"):
            keys["tokens"] = orjson.loads(result["token_scores"])
        return keys

    def in_table(self, result: Mapping[str, Any]) -> Iterator[Cells]:
        yield {**(_measured(result) if result else {}), "tokens": result.get("token_scores")}

    def as_text(self, result: Mapping[str, Any]) -> str | None:
        perplexity = _measured(result)["perplexity"]
        return None if perplexity is None else str(perplexity)


class _Generation(Shape):
    def in_json(self, result: Mapping[str, Any]) -> Cells:
        return {"generation": result.get("text"), **_flags(result)}

    def in_table(self, result: Mapping[str, Any]) -> Iterator[Cells]:
        yield {"generation": result.get("text")}

    def as_text(self, result: Mapping[str, Any]) -> str | None:
        return str(result["text"])


class _Ranking(Shape):
    def in_json(self, result: Mapping[str, Any]) -> Cells:
        return {"ranking": orjson.loads(result["candidates"]) if result else None, **_flags(result)}

    def in_table(self, result: Mapping[str, Any]) -> Iterator[Cells]:
        """A row a candidate."""
        if not result:
            yield {}
            return
        for one in orjson.loads(result["candidates"]):
            yield {
                "candidate": one["id"],
                "rank": one["rank"],
                "score": one["score"],
                "first_score": one.get("first_score"),
                "candidate_error": one.get("error"),
            }


class _Pass(Shape):
    def in_json(self, result: Mapping[str, Any]) -> Cells:
        return {"kept": bool(result)}

    def in_table(self, result: Mapping[str, Any]) -> Iterator[Cells]:
        yield self.in_json(result)

    def as_text(self, result: Mapping[str, Any]) -> str | None:
        return "true"


def _shape(form: type[Shape], kind: Kind, *columns: str) -> Shape:
    """How the results of a task are written: in this form, and as the task says of its fields. `columns`: of a table,
    where they are not the fields of the result."""
    names = {how: tuple(field.exported_name for field in kind.exported(how)) for how in Exported}
    extras = {Extra.TEXT}
    extras |= {Extra.LOG_PROB} if names[Exported.WITH_LOG_PROB] else set()
    extras |= {Extra.TOKENS} if names[Exported.WITH_TOKENS] else set()
    return form(
        main=kind.main,
        columns=columns or (*names[Exported.AS_RESULT], *(derived.name for derived in kind.derived)),
        counts=names[Exported.WITH_TOKENS],
        extras=frozenset(extras),
        optional={field.exported_name: field.is_asked_for for field in kind.exported(Exported.WHERE_ASKED)},
        always=names[Exported.ALWAYS],
    )


SHAPES: Mapping[str, Shape] = {
    Task.TRANSLATE: _shape(_Translation, TRANSLATE),
    Task.SCORE: _shape(_Score, SCORE),
    Task.RERANK: _shape(_Ranking, RERANK, "candidate", "rank", "score", "first_score", "candidate_error"),
    Task.GENERATE: _shape(_Generation, GENERATE),
    FILTER.name: _shape(_Pass, FILTER, FILTER.main),
}


def shape_of(job: "JobSummary") -> Shape:
    """How the results of a job are written: with the text between two models, where documents go through two, and with
    who answered, where onnx is not the only provider."""
    shape, kind = SHAPES[job.task], KINDS[job.task]
    if job.has_via:
        of_via = {how: [field.exported_name for field in kind.exported(how, of_via=True)] for how in Exported}
        shape = replace(
            shape,
            columns=(*shape.columns, *of_via[Exported.AS_RESULT]),
            counts=(*shape.counts, *of_via[Exported.WITH_TOKENS]),
            beside={Extra.LOG_PROB: tuple(of_via[Exported.WITH_LOG_PROB])},
        )
    return shape if job.order.is_default else replace(shape, always=(*shape.always, PROVIDER))


def extra_keys(shape: Shape, extras: Sequence[Extra]) -> list[str]:
    """The keys that every record has besides, and those that these extras add, in a fixed order; raises SpecError for
    an extra that the task does not have."""
    keys = list(shape.always)
    for extra in Extra:
        if extra not in extras:
            continue
        if extra not in shape.extras:
            raise SpecError(f"--with {extra} is not for jobs whose result is a {shape.main}; leave it out")
        keys += shape.counts if extra is Extra.TOKENS else [extra.value, *shape.beside.get(extra, ())]
    return keys


def extra_values(keys: Sequence[str], document: "ExportedDocument") -> Cells:
    """The values of those keys."""
    return {key: document.text if key == Extra.TEXT else document.result.get(key) for key in keys}


def addable(shape: Shape, options: Mapping[str, Any]) -> list[str]:
    """The values that --add can append to a line of the corpus, for a job with these options."""
    columns = () if shape.main == SHAPES[Task.RERANK].main else shape.columns  # a table has a row for each candidate
    extras = [extra.value for extra in Extra if extra in shape.extras and extra not in (Extra.TEXT, Extra.TOKENS)]
    optional = (name for name, is_asked_for in shape.optional.items() if is_asked_for(options))
    beside = (key for extra in Extra for key in shape.beside.get(extra, ()))
    names = (
        shape.main,
        *columns,
        *optional,
        *extras,
        *beside,
        *shape.counts,
        *shape.always,
        "flags",
        "status",
        "error",
    )
    return list(dict.fromkeys(names))


def added_value(shape: Shape, key: str, document: "ExportedDocument") -> Any:
    """A value of a document's result; None if the document has none."""
    if key in ("status", "error"):
        return getattr(document, key)
    values = shape.in_json(document.result) if document.result else {}
    if isinstance(measures := values.get(shape.main), dict):
        values = {**measures, **values}
    return values[key] if key in values else document.result.get(key)


def _flags(result: Mapping[str, Any]) -> Cells:
    return {"flags": result["flags"].split()} if result.get("flags") else {}


def _measured(result: Mapping[str, Any]) -> Cells:
    """The sums of a score, and what follows from them."""
    own = {field.name: result[field.name] for field in SCORE.exported(Exported.AS_RESULT)}
    return own | {derived.name: derived.of(result) for derived in SCORE.derived}
