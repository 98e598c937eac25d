"""The fields of the corpus that the filters of a chain name: looked for in its first documents, before a job is
made."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from jobs.documents import Document, Record
from jobs.errors import SpecError, meant
from jobs.spec import JobSpec
from jobs.stage import FilterSpec, Stage
from jobs.store.where.condition import Condition
from jobs.store.where.fields import has_path, spell_field
from jobs.store.where.tree import Name
from jobs.store.where.values import COLUMNS

FIRST_DOCUMENTS = 10_000  # are searched for the name of a field; fewer if they are long
FIRST_CHARACTERS = 64_000_000
NAMES_SHOWN = 12


def resolve_fields(stages: Sequence[Stage], records: Iterator[Record]) -> tuple[list[Stage], Iterator[Record]]:
    """The stages, whose filters know now which names with dots are one key of the corpus; and all records again. Raises
    SpecError for a field that none of the first documents has."""
    if not any(_fields_of(stage.spec) for stage in stages):
        return list(stages), records
    held = list(_first(records))
    objects = [json.loads(found, parse_int=str, parse_float=str) for found in filter(None, map(_fields, held))]
    resolved = [replace(stage, spec=_resolved(stage.spec, objects)) for stage in stages]
    return resolved, chain(held, records)


def _fields_of(spec: JobSpec | FilterSpec) -> list[Name]:
    return Condition.parse(spec.condition).fields() if isinstance(spec, FilterSpec) else []


def _first(records: Iterator[Record]) -> Iterator[Record]:
    size = 0
    for number, record in enumerate(records, start=1):
        yield record
        size += len(record.text) + len(record.fields or "") if type(record) is Document else 0
        if number == FIRST_DOCUMENTS or size > FIRST_CHARACTERS:
            return


def _fields(record: Record) -> str | None:
    return record.fields if type(record) is Document else None


def _resolved(spec: JobSpec | FilterSpec, objects: Sequence[dict[str, Any]]) -> JobSpec | FilterSpec:
    if not isinstance(spec, FilterSpec):
        return spec
    dotted = []
    for name in _fields_of(spec):
        key = ".".join(name.path)
        if not any(key in fields for fields in objects):
            if any(has_path(fields, name.path) for fields in objects):
                continue
            known = list(dict.fromkeys(spell_field(field) for fields in objects for field in fields))
            more = ", ..." if known[NAMES_SHOWN:] else ""
            there = f"there are {', '.join(known[:NAMES_SHOWN])}{more}" if known else "their lines have no other fields"
            raise SpecError(
                f"--then 'filter {spec.condition}': {key!r} is no value of a stage before it and no field of the "
                f"first documents{meant(key, [*known, *COLUMNS])}; {there}"
            )
        dotted.append(key)
    return replace(spec, dotted=tuple(dotted))
