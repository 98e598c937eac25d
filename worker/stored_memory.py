"""The memories of translations and of scores in the database, as a provider uses them: keys in, stored results out."""

import contextlib
from collections.abc import Callable, Sequence

from jobs.outcome import Score, SegmentTranslation
from jobs.routing.language_pair import LanguagePair
from jobs.store.database import Database
from jobs.store.imported_units import recall_units
from jobs.store.memory import recall, recall_scores
from worker.text.translation.language_codes import may_be_same


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

    def recall_imported(self, sentences: Sequence[str], languages: LanguagePair) -> dict[str, str]:
        with self._waiting():
            units = recall_units(self._database, sentences)
        fitting = [
            unit
            for unit in units
            if may_be_same(unit.source_language, languages.source)
            and may_be_same(unit.target_language, languages.target)
        ]
        # The newest comes first; one that names the very language comes before one of the language in general.
        fitting.sort(key=lambda unit: unit.target_language != languages.target)
        return {unit.source: unit.target for unit in reversed(fitting)}

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        with self._waiting():
            return recall_scores(self._database, keys)
