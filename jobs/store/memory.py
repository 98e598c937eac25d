"""The translation memory: what a segment became the last time, under the same model and options."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection, select

from jobs.outcome import Flag, SegmentTranslation
from jobs.store.database import Database
from jobs.store.dialect import insert_rows
from jobs.store.tables import MemoryEntry

KEYS_A_QUERY = 500  # SQLite takes 32,766 parameters at most, and plans long lists badly


def recall(database: Database, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
    """The entries that exist among `keys`."""
    found: dict[bytes, SegmentTranslation] = {}
    with database.reading() as connection:
        for start in range(0, len(keys), KEYS_A_QUERY):
            some = keys[start : start + KEYS_A_QUERY]
            for row in connection.execute(select(MemoryEntry.__table__).where(MemoryEntry.key.in_(some))):
                found[row.key] = SegmentTranslation(
                    texts=tuple(json.loads(row.texts)),
                    scores=tuple(json.loads(row.scores)),
                    log_prob=row.log_prob,
                    num_source_tokens=row.num_source_tokens,
                    num_target_tokens=row.num_target_tokens,
                    flags=tuple(Flag(flag) for flag in row.flags.split()),
                )
    return found


def learn(connection: Connection, entries: dict[bytes, SegmentTranslation]) -> None:
    """Keep new entries, in the transaction that records their documents; an entry that is there stays as it is."""
    rows = [
        {
            "key": key,
            "texts": json.dumps(entry.texts, ensure_ascii=False),
            "scores": json.dumps(entry.scores),
            "log_prob": entry.log_prob,
            "num_source_tokens": entry.num_source_tokens,
            "num_target_tokens": entry.num_target_tokens,
            "flags": " ".join(entry.flags),
        }
        for key, entry in sorted(entries.items())  # two workers that learn the same keys must not lock them crosswise
    ]
    insert_rows(connection, MemoryEntry, rows)
