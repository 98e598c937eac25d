"""What tasks know from before: keys in, known results out. Does not know: where they are kept."""

from collections.abc import Sequence
from typing import Protocol

from jobs.outcome import Score, SegmentTranslation


class ResultMemory(Protocol):
    """Known results of segments and of documents."""

    @property
    def digest(self) -> bytes:
        """Of the model and options that the results depend on; a part of every key."""

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        """The known segments among these keys."""

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        """The known documents among these keys."""


class NoMemory:
    """Knows nothing."""

    digest = b""

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        return {}

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        return {}
