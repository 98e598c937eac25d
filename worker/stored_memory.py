"""The memories of translations and of scores in the database, as a provider uses them: keys in, stored results out."""

import contextlib
from collections.abc import Callable, Sequence

from jobs.outcome import Score, SegmentTranslation
from jobs.store.database import Database
from jobs.store.memory import recall, recall_scores


class StoredMemory:
    """The results that the database stores, of all models and options."""

    def __init__(
        self,
        database: Database,
        waiting: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """`waiting` is the context of each query: a lane that waits for its database does not hang."""
        self._database = database
        self._waiting = waiting

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        with self._waiting():
            return recall(self._database, keys)

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        with self._waiting():
            return recall_scores(self._database, keys)
