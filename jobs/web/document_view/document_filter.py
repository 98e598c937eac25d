"""Which documents a page lists, as its form says it; and the same as a condition of `--where`.

The page, the download and the command are one condition, so they choose the same documents.
"""

import math
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Query
from pydantic import BeforeValidator, Field

from jobs.errors import SpecError
from jobs.outcome import Flag
from jobs.store.report.documents.document_order import Order
from jobs.store.report.job_summary import JobSummary
from jobs.store.schema.states import DocumentStatus
from jobs.store.where.condition import Condition
from jobs.store.where.fields import spell_field
from jobs.tasks.kinds import KINDS
from jobs.text.json_numbers import is_number

STATUSES = ("ok", *(status.value for status in DocumentStatus), "waiting")
# How far a page looks for a field that the first documents do not have; `kvjobs export` looks through all.
FIELD_AMONG = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFilter:
    """The conditions that the form of the list has set; an empty field sets none."""

    search: str = ""  # in the text and in its translation
    status: str = ""
    code: str = ""  # of an error
    flag: str = ""
    min_perplexity: float | None = None
    max_perplexity: float | None = None
    min_length: int | None = None  # tokens
    max_length: int | None = None
    field: str = ""  # name of a field of the corpus
    value: str = ""  # that it has
    where: str = ""  # a condition as it is written for the command line
    sort: str = ""

    @property
    def order(self) -> Order:
        return Order(self.sort) if self.sort else Order.POSITION

    @property
    def parameters(self) -> dict[str, Any]:
        """The conditions as parameters of an address."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value not in ("", None)}

    @property
    def is_empty(self) -> bool:
        return not set(self.parameters) - {"sort"}

    @property
    def num_more(self) -> int:
        """How many conditions are set that the form shows only on request."""
        names = ("min_perplexity", "max_perplexity", "min_length", "max_length", "field", "where")
        return sum(name in self.parameters for name in names)

    def written(self, task: str, *, has_via: bool = False) -> str | None:
        """The condition as `--where` takes it; None where there is none. `has_via`: the job's documents have a text
        between two models. Raises SpecError where `where` is none, and for a length of what a filter keeps."""
        if self.where.strip():
            Condition.parse(self.where)  # alone, so that the sentence is about what was written
        parts = [*self._of_texts(task, has_via), *self._of_measures(task), *self._of_fields()]
        return " and ".join(parts) or None

    def _of_texts(self, task: str, has_via: bool) -> list[str]:
        parts, kind = [], KINDS[task]
        if self.search:
            found = [f"contains(text, {_text(self.search)})"]
            found += [f"contains({kind.field(kind.text).view_name}, {_text(self.search)})"] if kind.text else []
            found += [f"contains(via, {_text(self.search)})"] if has_via else []
            parts.append(found[0] if len(found) == 1 else f"({' or '.join(found)})")
        for column, value in (("status", self.status), ("error_code", self.code)):
            parts += [f"{column} = {_text(value)}"] if value else []
        if self.flag:
            parts.append(f"flags has {_text(self.flag)}")
        return parts

    def _of_measures(self, task: str) -> list[str]:
        parts, kind = [], KINDS[task]
        for sign, bound in ((">=", self.min_perplexity), ("<=", self.max_perplexity)):
            if bound is not None and kind.mean and not kind.mean.is_cost:  # the view has no perplexity of these
                parts.append(f"-{kind.mean.total} / {kind.mean.count} {sign} {math.log(max(bound, 1e-300))!r}")
            elif bound is not None:
                parts.append(f"perplexity {sign} {bound:.17g}")
        for sign, length in ((">=", self.min_length), ("<=", self.max_length)):
            if length is not None:
                if kind.length is None:
                    raise SpecError("what a filter keeps has no length")
                parts.append(f"{kind.field(kind.length).view_name} {sign} {length}")
        return parts

    def _of_fields(self) -> list[str]:
        parts = []
        if self.field:
            name = spell_field(self.field)
            equal = [f"{name} = {_text(self.value)}"]
            if is_number(self.value):
                equal.append(f"{name} = {self.value}")
            if self.value in ("true", "false"):
                equal.append(f"{name} = {self.value}")
            written = equal[0] if len(equal) == 1 else f"({' or '.join(equal)})"
            parts.append(written if self.value else f"{name} is not null")
        if self.where.strip():
            parts.append(f"({self.where.strip()})")
        return parts


def export_command(job: JobSummary, written: str | None, form: str = "jsonl") -> str:
    """The command that writes the same documents to a file."""
    words = ["kvjobs", "export", str(job.job_id)]
    words += ["--where", written] if written else []
    words += ["--only", "all"] if job.waiting else []
    words += ["--format", "original"] if form == "original" else []
    words += ["-o", f"job-{job.job_id}.{'jsonl' if form == 'original' else form}"]
    return " ".join(map(shell_word, words))


def shell_word(word: str) -> str:
    """A word as a person would quote it for a shell: in double quotes where it has single ones and nothing else that a
    shell reads."""
    return f'"{word}"' if "'" in word and not set('"$`\\!\n') & set(word) else shlex.quote(word)


def list_address(job: JobSummary, asked: DocumentFilter, without: Collection[str] = ()) -> str:
    """The address of the list with these conditions, except some."""
    kept = {name: value for name, value in asked.parameters.items() if name not in without}
    return f"/jobs/{job.job_id}/documents" + (f"?{urlencode(kept)}" if kept else "")


def export_address(job: JobSummary, asked: DocumentFilter, form: str) -> str:
    """The address at which the same documents are downloaded."""
    kept = {name: value for name, value in asked.parameters.items() if name != "sort"}
    return f"/jobs/{job.job_id}/export?{urlencode({'format': form, **kept})}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _none_if_empty(value: Any) -> Any:
    """A field of a form that is left empty is sent as an empty text."""
    return None if value == "" else value


_Bound = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Length = Annotated[int, Field(ge=0, le=2**53)]
Bound = Annotated[_Bound | None, BeforeValidator(_none_if_empty), Query()]
Length = Annotated[_Length | None, BeforeValidator(_none_if_empty), Query()]
Short = Annotated[str, Query(max_length=500)]


def _from_address(
    search: Short = "",
    status: Short = "",
    code: Short = "",
    flag: Short = "",
    min_perplexity: Bound = None,
    max_perplexity: Bound = None,
    min_length: Length = None,
    max_length: Length = None,
    field: Short = "",
    value: Short = "",
    where: Annotated[str, Query(max_length=4000)] = "",
    sort: Order | None = None,
) -> DocumentFilter:
    return DocumentFilter(
        search=search,
        status=status if status in STATUSES else "",
        code=code,
        flag=flag if flag in set(Flag) else "",
        min_perplexity=min_perplexity,
        max_perplexity=max_perplexity,
        min_length=min_length,
        max_length=max_length,
        field=field,
        value=value,
        where=where,
        sort="" if sort in (None, Order.POSITION) else str(sort),
    )


FilterOfAddress = Annotated[DocumentFilter, Depends(_from_address)]


def as_words(found: DocumentFilter) -> Mapping[str, str]:
    """Each condition in words, by the parameters that set it (joined by a space)."""
    low, high = found.min_perplexity, found.max_perplexity
    short, long = found.min_length, found.max_length
    words = {
        "search": f"text has “{found.search}”" if found.search else "",
        "status": f"status {found.status}" if found.status else "",
        "code": f"error {found.code}" if found.code else "",
        "flag": f"flag {found.flag}" if found.flag else "",
        "min_perplexity max_perplexity": _range("perplexity", low, high),
        "min_length max_length": _range("tokens", short, long),
        "field value": f"{found.field} = {found.value}" if found.value else f"has {found.field}",
        "where": found.where.strip(),
    }
    if not found.field:
        del words["field value"]
    return {names: said for names, said in words.items() if said}


def _range(name: str, low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    if low is None:
        return f"{name} at most {high:,g}"
    return f"{name} at least {low:,g}" if high is None else f"{name} {low:,g} to {high:,g}"
