"""Translations that people imported, and what the translation memory holds altogether."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Row, and_, delete, func, or_, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from jobs.store.database import Database
from jobs.store.disk_space.free_pages import write_in_turns
from jobs.store.memory import KEYS_PER_QUERY
from jobs.store.schema.clock import db_time
from jobs.store.schema.lasting_tables import ImportedUnit, MemoryEntry
from jobs.units.translation_unit import TranslationUnit

T = TypeVar("T")
UNITS_AT_ONCE = 1_000
_KEY = ("source_digest", "source_language", "target_language")
_NEWEST = ("source", "target", "file", "imported_at")


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Units of the translation memory that have their origin in common."""

    origin: str  # `imported`, or `learned`: a model translated them
    model: str | None  # of learned ones; None: an older version stored them
    source_language: str | None  # of imported ones
    target_language: str | None
    file: str | None
    units: int
    newest_at: datetime | None


def import_units(database: Database, units: Iterable[TranslationUnit], file: str) -> int:
    """Store units; of two with the same source and languages the later one stays. Returns how many there were. Each
    transaction has a few hundred: repeating an import that was interrupted is harmless."""
    number = 0
    for some in _in_parts(units, UNITS_AT_ONCE):
        rows = {(digest_of(unit.source), unit.source_language, unit.target_language): unit for unit in some}
        with database.writing() as connection:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            insert = dialect.insert(ImportedUnit)
            newest = {name: insert.excluded[name] for name in _NEWEST}
            same = {"file": file, "imported_at": connection.execute(select(db_time())).scalar_one()}
            # Rows beside the statement, which is compiled once: 100,000 units take 4.5 s of processor time, with all
            # values in it 19 s (SQLite, 2026-11-27).
            connection.execute(
                insert.on_conflict_do_update(index_elements=list(_KEY), set_=newest),
                [
                    {**dict(zip(_KEY, key, strict=True)), "source": unit.source, "target": unit.target, **same}
                    for key, unit in sorted(rows.items())
                ],
            )
        number += len(some)
    return number


def recall_units(database: Database, sources: Sequence[str]) -> list[TranslationUnit]:
    """The imported units with one of these sources, in all languages, the newest first."""
    found: list[Row[Any]] = []
    with database.reading() as connection:
        if connection.execute(select(ImportedUnit.file).limit(1)).first() is None:
            return []  # as most databases, which need no list of digests made
        for some in _in_parts(map(digest_of, sources), KEYS_PER_QUERY):
            matching = select(ImportedUnit.__table__).where(ImportedUnit.source_digest.in_(some))
            found += connection.execute(matching).all()
    return [_unit(row) for row in sorted(found, key=lambda row: row.imported_at, reverse=True)]


def all_units(database: Database) -> Iterator[TranslationUnit]:
    """Every imported unit, in the order of languages and sources' digests. Each page is read in its own transaction."""
    last: tuple[Any, ...] | None = None
    key = tuple_(ImportedUnit.source_language, ImportedUnit.target_language, ImportedUnit.source_digest)
    while True:
        page = select(ImportedUnit.__table__).order_by(*key.clauses).limit(UNITS_AT_ONCE)
        with database.reading() as connection:
            rows = connection.execute(page if last is None else page.where(key > last)).all()
        yield from map(_unit, rows)
        if len(rows) < UNITS_AT_ONCE:
            return
        last = rows[-1].source_language, rows[-1].target_language, rows[-1].source_digest


def memory_parts(database: Database) -> list[MemoryPart]:
    """What the memory holds: imported units by languages and file, then learned ones by model."""
    languages = ImportedUnit.source_language, ImportedUnit.target_language
    imported = (
        select(*languages, ImportedUnit.file, func.count().label("units"), func.max(ImportedUnit.imported_at))
        .group_by(*languages, ImportedUnit.file)
        .order_by(*languages, ImportedUnit.file)
    )
    learned = select(MemoryEntry.model, func.count().label("units"), func.max(MemoryEntry.learned_at))
    with database.reading() as connection:
        return [
            *(MemoryPart("imported", None, *row) for row in connection.execute(imported)),
            *(
                MemoryPart("learned", model, None, None, None, units, newest)
                for model, units, newest in connection.execute(
                    learned.group_by(MemoryEntry.model).order_by(MemoryEntry.model)
                )
            ),
        ]


def prune_learned(database: Database, *, days: float | None, model: str | None) -> int:
    """Delete what models translated: of this model, and stored more than so many days ago. Entries of an older version,
    which stored no time, count as the oldest. Returns how many were deleted."""
    conditions: list[ColumnElement[bool]] = []
    if model is not None:
        conditions.append(MemoryEntry.model == model)
    if days is not None:
        conditions.append(or_(MemoryEntry.learned_at < db_time(-86400 * days), MemoryEntry.learned_at.is_(None)))
    return _prune(database, MemoryEntry, [MemoryEntry.key], conditions)


def prune_imported(database: Database, *, days: float | None, file: str | None) -> int:
    """Delete imported units: of this file, and imported more than so many days ago. Returns how many were deleted."""
    conditions: list[ColumnElement[bool]] = []
    if file is not None:
        conditions.append(ImportedUnit.file == file)
    if days is not None:
        conditions.append(ImportedUnit.imported_at < db_time(-86400 * days))
    return _prune(database, ImportedUnit, [getattr(ImportedUnit, name) for name in _KEY], conditions)


def digest_of(source: str) -> bytes:
    """The digest by which units with this source are found."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).digest()


def _prune(database: Database, table: Any, key: list[Any], conditions: list[ColumnElement[bool]]) -> int:
    deleted = 0

    def count(rows: int) -> None:
        nonlocal deleted
        deleted += rows

    def write(connection: Any, amount: int) -> int:
        some = select(*key).where(and_(True, *conditions)).limit(amount)
        chosen = key[0].in_(some) if len(key) == 1 else tuple_(*key).in_(some)
        return int(connection.execute(delete(table).where(chosen)).rowcount)

    write_in_turns(database, write, count)
    return deleted


def _in_parts(values: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(values)
    while part := list(islice(remaining, size)):
        yield part


def _unit(row: Any) -> TranslationUnit:
    return TranslationUnit(row.source, row.target, row.source_language, row.target_language)
