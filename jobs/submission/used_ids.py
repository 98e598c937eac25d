"""Duplicate ids of a corpus, for a dry run. (A submit finds them in the database.)

Memory is bounded: the ids are in a table on disk, of which 64 MB are cached.
"""

import sqlite3
from collections.abc import Mapping, Sequence

from jobs.documents import Record

TABLES = "CREATE TABLE used (id TEXT PRIMARY KEY, position INTEGER, line INTEGER) WITHOUT ROWID"


class UsedIds:
    """The ids so far, each with the position and line that had it first."""

    def __init__(self, tables: sqlite3.Connection) -> None:
        self._tables = tables

    def take(self, records: Sequence[Record]) -> Mapping[int, int]:
        """Add the next records; the positions of those whose id was used before, with the line that used it."""
        rows = [(record.external_id, record.position, record.line) for record in records if record.external_id]
        before = self._tables.total_changes
        self._tables.executemany("INSERT OR IGNORE INTO used VALUES (?, ?, ?)", rows)
        if self._tables.total_changes - before == len(rows):
            return {}
        first = "SELECT position, line FROM used WHERE id = ?"
        found = ((position, *self._tables.execute(first, (used,)).fetchone()) for used, position, _ in rows)
        return {position: line for position, first_position, line in found if first_position != position}
