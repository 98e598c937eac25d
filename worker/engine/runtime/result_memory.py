"""The memory of earlier results, as tasks see it: keys in, stored results out. Does not know: where they are stored."""

import hashlib
from collections.abc import Sequence
from typing import Protocol

from jobs.outcome import Score, SegmentTranslation


class ResultMemory(Protocol):
    """Stored results: translations of segments, and scores of documents."""

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        """The stored translations, by key, of those keys that have one."""

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        """The stored scores, by key, of those keys that have one."""


def memory_key(digest: bytes, text: str, language: str | None = None) -> bytes:
    """The key under which the memory stores the result of a segment or a document.

    `digest`: of the model and of the options that results depend on. `language`: of the text, where the result depends
    on it; the digest leaves it out, since most models do not know it.
    """
    content = text if language is None else f"[{language}]{text}"
    return hashlib.sha256(digest + content.encode("utf-8", "surrogatepass")).digest()


class NoMemory:
    """A memory that is always empty."""

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        return {}

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        return {}
