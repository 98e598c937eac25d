"""What a batch carries down to every model call: whether to stop, the memory of earlier results, a stopwatch."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from jobs.errors import Stopped
from jobs.outcome import Score, SegmentTranslation, StepTiming
from jobs.routing.language_pair import LanguagePair
from jobs.tasks.shared_options import Timing
from worker.engine.runtime.timing import Counted, Stopwatch

if TYPE_CHECKING:  # commands that load no numpy import this module
    from worker.engine.runtime.first_readings import FirstReadings


class ResultMemory(Protocol):
    """Stored results: translations of segments, and scores of documents."""

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        """The stored translations by key; keys without one are left out."""

    def recall_imported(self, sentences: Sequence[str], languages: LanguagePair) -> dict[str, str]:
        """The translations into this language that people imported, by sentence; those without one are left out."""

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        """The stored scores by key; keys without one are left out."""


class NoMemory:
    """A memory that is always empty."""

    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]:
        return {}

    def recall_imported(self, sentences: Sequence[str], languages: LanguagePair) -> dict[str, str]:
        return {}

    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]:
        return {}


def never() -> bool:
    """A `should_stop` that never stops the run."""
    return False


@dataclass(frozen=True, slots=True)
class RunContext:
    """Made once for a batch, and passed from its lane down to every model call. Lanes do not share one."""

    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    should_stop: Callable[[], bool] = never
    memory: ResultMemory = field(default_factory=NoMemory)
    digest: bytes = b""  # of the model and the options that results depend on: every key of the memory is made with it
    languages: LanguagePair | None = None  # of a translation, where they are known: imported units are found by them
    first_readings: "FirstReadings | None" = None  # of a run that reads sentences with their translations again
    part: str = ""  # stands behind the name of each phase that is timed

    def for_digest(self, digest: bytes, timing: Timing, languages: LanguagePair | None = None) -> "RunContext":
        """This context with a new stopwatch, for results of this digest. What is computed again is timed again."""
        return replace(self, stopwatch=Stopwatch(timing), digest=digest, languages=languages)

    def raise_if_stopped(self, between: str) -> None:
        """Raise Stopped if the run is to end. `between`: a plural noun for the message, such as steps, calls,
        batches."""
        if self.should_stop():
            raise Stopped(f"stopped between two {between}")

    def measure(
        self, phase: str, *, step: int = 0, rows: int = 0, tokens: int = 0, past_length: int = 0
    ) -> AbstractContextManager[Counted]:
        """Time the block (`Stopwatch.measure`)."""
        return self.stopwatch.measure(phase + self.part, step=step, rows=rows, tokens=tokens, past_length=past_length)

    @property
    def timings(self) -> list[StepTiming]:
        """The timings measured so far (`Stopwatch.timings`)."""
        return self.stopwatch.timings


def memory_key(digest: bytes, text: str, language: str | None = None) -> bytes:
    """The key under which the memory stores the result of a segment or a document.

    `digest`: of the model and of the options that results depend on. `language`: of the text, where the result depends
    on it; the digest leaves it out, since most models do not know it.
    """
    content = text if language is None else f"[{language}]{text}"
    return hashlib.sha256(digest + content.encode("utf-8", "surrogatepass")).digest()
