"""The translation memory as an engine sees it: keys in, known segments out."""

from collections.abc import Sequence

from jobs.outcome import SegmentTranslation
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.memory import recall


class StoredMemory:
    """The memory in the database, for the model and options of one job."""

    def __init__(self, database: Database, spec: JobSpec) -> None:
        self.digest = spec.memory_digest()
        self._database = database

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        """What is known of these keys."""
        return recall(self._database, keys)
