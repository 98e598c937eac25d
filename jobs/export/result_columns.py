"""The result of each task in an export: keys of JSON, columns and rows of a table."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from jobs.errors import SpecError
from jobs.tasks.kind import Exported, Field, Kind, Type

if TYPE_CHECKING:
    from jobs.store.report.documents.export import ExportedDocument
    from jobs.store.report.job_summary import JobSummary

Cells = dict[str, Any]
PROVIDER = "provider"


class Extra(enum.StrEnum):
    """Further values that `--with` adds to an export."""

    TEXT = "text"  # the document itself
    LOG_PROB = "log_prob"  # of a translation or a continuation, natural logarithm
    TOKENS = "tokens"  # numbers of tokens: read, generated, scored, shared; and what is unknown of a source


@dataclass(frozen=True)
class Shape:
    """How the results of a job are written, as its task says of their fields.

    In JSON the result is the value of one key, or of several if there is a text between two models, or, where no field
    has the name of that key, an object of all its values. In a table each value is a column.
    """

    kind: Kind
    has_via: bool = False  # documents go through two models
    has_provider: bool = False  # every record says who answered

    @property
    def main(self) -> str:
        """The key of the result in JSON."""
        return self.kind.main

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table has in place of the key `main`."""
        derived = (derived.name for derived in self.kind.derived)
        return tuple(self.kind.candidate_columns) or (*self._result, *derived) or (self.main,)

    @cached_property
    def added(self) -> Mapping[Extra, tuple[str, ...]]:
        """The keys that each extra of the task adds."""
        log_prob, tokens = self._exported(Exported.WITH_LOG_PROB), self._exported(Exported.WITH_TOKENS)
        found = {Extra.TEXT: (Extra.TEXT.value,), Extra.LOG_PROB: tuple(log_prob), Extra.TOKENS: tuple(tokens)}
        return {extra: keys for extra, keys in found.items() if keys}

    @cached_property
    def always(self) -> tuple[str, ...]:
        """The keys that every record has beside the result."""
        return (*self._exported(Exported.ALWAYS), *([PROVIDER] if self.has_provider else []))

    def asked_for(self, options: Mapping[str, Any]) -> list[str]:
        """The keys that a job with these options has besides."""
        return [key for key, field in self._optional.items() if field.is_asked_for(options)]

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every key that a record may have; reserved in all records, so that a corpus field is always in one place."""
        own = {"id", "status", "flags", "error", "fields", *self._main({})}
        added = (key for keys in self.added.values() for key in keys)
        return frozenset({*own, *self._optional, *added, *self.always})

    @cached_property
    def table_keys(self) -> frozenset[str]:
        """The reserved names of a table, where the error takes several columns."""
        return self.keys | {*self.columns, "error_code", "line"}

    def in_json(self, result: Mapping[str, Any]) -> Cells:
        """The keys of a document with this result; if it is empty, the main key is null."""
        keys = self._main(result)
        if result.get("flags"):
            keys["flags"] = result["flags"].split()
        for key, field in self._optional.items():
            if result.get(field.name):
                keys[key] = orjson.loads(result[field.name])
        return keys

    def in_table(self, result: Mapping[str, Any]) -> Iterator[Cells]:
        """The rows of a document with this result; one row if it is empty."""
        if self.kind.has_candidates and result:
            items = self._main(result)[self.main]
            yield from ({name: item.get(key) for name, key in self.kind.candidate_columns.items()} for item in items)
        elif self._result:
            cells = {key: result.get(field.name) for key, field in {**self._result, **self._optional}.items()}
            yield self._with_derived(cells, result) if result else cells
        else:
            yield self._main(result)

    def as_text(self, result: Mapping[str, Any]) -> str | None:
        """The result as one line of text, of several measures the perplexity; None without a value."""
        value = self._main(result)[self.main]
        if self._is_object:
            value = self.kind.mean and self.kind.mean.perplexity_of(result)
        return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)

    def stored(self, key: str, result: Mapping[str, Any]) -> Any:
        """The value of a key of a single field, as it is stored."""
        return result.get(self._columns.get(key, key))

    def _main(self, result: Mapping[str, Any]) -> Cells:
        """The keys of the result itself."""
        if not self._result:
            return {self.main: bool(result)}
        if not self._is_object:
            return {key: _in_json(field, result) for key, field in self._result.items()}
        sums = {key: result[field.name] for key, field in self._result.items()} if result else None
        return {self.main: sums and self._with_derived(sums, result)}

    def _with_derived(self, cells: Cells, result: Mapping[str, Any]) -> Cells:
        for derived in self.kind.derived:
            cells[derived.name] = derived.of(result)
        return cells

    @cached_property
    def _is_object(self) -> bool:
        return bool(self._result) and self.main not in self._result

    @cached_property
    def _result(self) -> Mapping[str, Field]:
        """The fields that the result consists of, by their keys in an export."""
        return self._exported(Exported.AS_RESULT)

    @cached_property
    def _optional(self) -> Mapping[str, Field]:
        return self._exported(Exported.WHERE_ASKED)

    @cached_property
    def _columns(self) -> Mapping[str, str]:
        """The column in the table of results of each key."""
        return {field.exported_name: field.name for field in self.kind.fields}

    def _exported(self, how: Exported) -> Mapping[str, Field]:
        """The fields that exports have in this way, by their keys."""
        of_via = self.kind.exported(how, of_via=True) if self.has_via else ()
        return {field.exported_name: field for field in (*self.kind.exported(how), *of_via)}


def _in_json(field: Field, result: Mapping[str, Any]) -> Any:
    value = result.get(field.name)
    return orjson.loads(value) if field.type is Type.JSON and value is not None else value


def shape_of(job: "JobSummary") -> Shape:
    """How the results of a job are written."""
    return Shape(job.kind, has_via=job.has_via, has_provider=not job.order.is_default)


def extra_keys(shape: Shape, extras: Sequence[Extra]) -> list[str]:
    """The keys that every record has besides, and those that these extras add, in a fixed order; raises SpecError for
    an extra that the task does not have."""
    keys = list(shape.always)
    for extra in Extra:
        if extra not in extras:
            continue
        if extra not in shape.added:
            raise SpecError(f"--with {extra} is not for jobs whose result is a {shape.main}; leave it out")
        keys += shape.added[extra]
    return keys


def extra_values(shape: Shape, keys: Sequence[str], document: "ExportedDocument") -> Cells:
    """The values of these `extra_keys` for a document."""
    return {key: document.text if key == Extra.TEXT else shape.stored(key, document.result) for key in keys}


def addable(shape: Shape, options: Mapping[str, Any]) -> list[str]:
    """The values that --add can append to a line of the corpus, for a job with these options."""
    columns = () if shape.kind.has_candidates else shape.columns  # a table has a row for each candidate
    added = (key for extra, keys in shape.added.items() if extra is not Extra.TEXT for key in keys)
    names = (shape.main, *columns, *shape.asked_for(options), *added, *shape.always, "flags", "status", "error")
    return list(dict.fromkeys(names))


def added_value(shape: Shape, key: str, document: "ExportedDocument") -> Any:
    """A value of a document's result; None if the document has none."""
    if key in ("status", "error"):
        return getattr(document, key)
    values = shape.in_json(document.result) if document.result else {}
    if isinstance(measures := values.get(shape.main), dict):
        values = {**measures, **values}
    return values[key] if key in values else shape.stored(key, document.result)
