"""The translation memory and the score memory: results of segments and documents that were computed before, under the
same model and options."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from jobs.outcome import Flag, HypothesisSums, Learned, Score, SegmentTranslation, TokenScore
from jobs.store.connection.dialect import insert_rows, rows_of_keys
from jobs.store.database import Database
from jobs.store.schema.lasting_tables import MemoryEntry, ScoreEntry

# Numbers that an entry has under the same name as its row.
OF_SEGMENTS = ("log_prob", "num_source_tokens", "num_target_tokens")
OF_SCORES = ("nll_sum", "num_tokens", "num_words", "num_bytes", "num_source_tokens")
KEYS_PER_QUERY = 500  # SQLite takes 32,766 parameters at most, and plans long lists badly

_in_json = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes such an encoder at every call


def recall(database: Database, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
    """The stored translations of segments, by key; keys without one are left out."""
    return {
        row.key: SegmentTranslation(
            texts=tuple(json.loads(row.texts)),
            scores=tuple(json.loads(row.scores)),
            flags=_flags(row),
            sums=tuple(HypothesisSums(*sums) for sums in json.loads(row.sums or "[]")),
            **{name: getattr(row, name) for name in OF_SEGMENTS},
        )
        for row in _entries(database, MemoryEntry, keys)
    }


def recall_scores(database: Database, keys: Sequence[bytes]) -> dict[bytes, Score]:
    """The stored scores of documents, by key; keys without one are left out."""
    return {
        row.key: Score(
            flags=_flags(row),
            **{name: getattr(row, name) for name in OF_SCORES},
            tokens=tuple(TokenScore(*token) for token in json.loads(row.token_scores or "[]")),
        )
        for row in _entries(database, ScoreEntry, keys)
    }


def learn(
    connection: Connection, entries: Learned, *, model: str | None = None, learned_at: datetime | None = None
) -> None:
    """Insert entries, in the transaction that records their documents; an entry that exists stays as it is. `model`: of
    their job."""
    # Sorted: two workers that insert the same keys in different orders would deadlock.
    translations = [_translation(key, entry) for key, entry in sorted(entries.items()) if not isinstance(entry, Score)]
    scores = [_score(key, entry) for key, entry in sorted(entries.items()) if isinstance(entry, Score)]
    insert_rows(connection, MemoryEntry, translations, model=model, learned_at=learned_at)
    insert_rows(connection, ScoreEntry, scores)


def _entries(database: Database, table: Any, keys: Sequence[bytes]) -> Iterator[Row[Any]]:
    for start in range(0, len(keys), KEYS_PER_QUERY):
        with database.reading_once() as connection:
            yield from rows_of_keys(connection, table, keys[start : start + KEYS_PER_QUERY])


def _flags(row: Row[Any]) -> tuple[Flag, ...]:
    return tuple(Flag(flag) for flag in row.flags.split())


def _translation(key: bytes, entry: SegmentTranslation) -> dict[str, Any]:
    return {
        "key": key,
        "texts": _in_json(entry.texts),
        "scores": json.dumps(entry.scores),
        **{name: getattr(entry, name) for name in OF_SEGMENTS},
        "flags": " ".join(entry.flags),
        "sums": json.dumps(entry.sums) if entry.sums else None,
    }


def _score(key: bytes, entry: Score) -> dict[str, Any]:
    tokens = [(token.text, token.start, token.stop, token.log_prob) for token in entry.tokens]
    return {
        "key": key,
        **{name: getattr(entry, name) for name in OF_SCORES},
        "flags": " ".join(entry.flags),
        "token_scores": _in_json(tokens) if tokens else None,
    }
