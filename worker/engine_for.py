"""Which engine does what a job asks for."""

from collections.abc import Callable, Sequence
from typing import Protocol

from jobs.outcome import Score, SegmentTranslation
from jobs.spec import JobSpec, RerankOptions, ScoreOptions, TranslateOptions
from worker.engine.tasks.batch_result import BatchResult
from worker.lane import Lane
from worker.reused_scores import score_unknown


class KeyedMemory(Protocol):
    """What segments and documents became before, and what tells this job's from others."""

    @property
    def digest(self) -> bytes: ...
    def recall(self, keys: Sequence[bytes]) -> dict[bytes, SegmentTranslation]: ...
    def recall_scores(self, keys: Sequence[bytes]) -> dict[bytes, Score]: ...


def process(
    lane: Lane, spec: JobSpec, texts: Sequence[str], memory: KeyedMemory, should_stop: Callable[[], bool]
) -> BatchResult:
    """Do with each text what the job asks for.

    Raises ModelError and SpecError where that cannot be done at all, Stopped where told to stop.
    """
    match spec.options:
        case TranslateOptions() as options:
            return lane.translator(spec).translate(
                texts, options, memory=memory, memory_digest=memory.digest, should_stop=should_stop
            )
        case ScoreOptions(pairs=True) as options:
            return score_unknown(lane.forced_scorer(spec), texts, options, memory, should_stop)
        case ScoreOptions() as options:
            return score_unknown(lane.scorer(spec), texts, options, memory, should_stop)
        case RerankOptions() as options:
            return lane.reranker(spec).rerank(texts, options, should_stop=should_stop)
