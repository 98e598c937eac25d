"""The memories of translations and scores as an engine sees it: keys in, known results out."""

from collections.abc import Sequence

from jobs.outcome import Score, SegmentTranslation
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.memory import recall, recall_scores


class StoredMemory:
    """What the database remembers, for the model and options of one job."""

    def __init__(self, database: Database, spec: JobSpec) -> None:
        self.digest = spec.memory_digest()
        self._database = database

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        """What is known of these segments."""
        return recall(self._database, keys)

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        """What is known of these documents."""
        return recall_scores(self._database, keys)
